"""The conversations behind a workspace's records, read from the agents' transcripts."""

import re
from collections.abc import Iterable
from pathlib import Path

from msgspec import Struct

from remit.core.call import SessionKey
from remit.core.redaction import compile_team_pattern
from remit.gate.context import WorkspaceContext
from remit.gate.state.database import StateError
from remit.provenance.why.conversation_store import AgentSession, Conversations, TranscriptSource
from remit.workspace.agents.transcripts import find_transcript


class TranscriptIntake(Struct, frozen=True):
    """The transcripts to read, and how long to keep them; usable after the gate is closed."""

    folder: Path
    retain_days: float
    patterns: tuple[re.Pattern[str], ...]
    sources: tuple[TranscriptSource, ...]

    def open_conversations(self, now: float) -> Conversations:
        store = Conversations.open(self.folder, self.retain_days, self.patterns)
        store.catch_up(self.sources, now)
        return store

    def store_new(self, now: float) -> str:
        """Store new entries if conversations are kept, before an agent deletes them; return errors as text."""
        if not self.retain_days:
            return ""
        with self.open_conversations(now) as store:
            return store.problem


def conversations(context: WorkspaceContext, sessions: Iterable[AgentSession]) -> Conversations:
    sources = [source for session in sessions for source in transcript_sources(context, session)]
    return make_intake(context, sources).open_conversations(context.environment.clock.now())


def intake_of_all_sessions(context: WorkspaceContext) -> TranscriptIntake:
    try:
        known = context.state.list_transcripts()
        sessions = {AgentSession(agent, key.session_id): None for key, (agent, _) in known.items()}
        return make_intake(context, [s for session in sessions for s in transcript_sources(context, session)])
    except StateError:
        return make_intake(context, ())


def make_intake(context: WorkspaceContext, sources: Iterable[TranscriptSource]) -> TranscriptIntake:
    config = context.rules.config
    patterns = tuple(map(compile_team_pattern, config.redact.patterns))
    return TranscriptIntake(context.workspace.state, config.transcripts.retain_days, patterns, tuple(sources))


def transcript_sources(context: WorkspaceContext, session: AgentSession) -> list[TranscriptSource]:
    reported = context.state.list_transcripts(session.id)
    sources = [TranscriptSource(path, agent, session.id, key.agent_id) for key, (agent, path) in reported.items()]
    if SessionKey(session.id) not in reported:
        usual = find_transcript(context.environment.home, session.agent, session.id)
        if usual is not None:
            sources.insert(0, TranscriptSource(str(usual), session.agent, session.id))
    return sources

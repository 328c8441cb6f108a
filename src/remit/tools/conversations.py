"""The conversations behind a gate's records, taken in from where its agents keep them."""

import re
from collections.abc import Iterable
from pathlib import Path

from msgspec import Struct

from remit.core.call import SessionKey
from remit.core.secrets.bounded_regex import compile_team_pattern
from remit.gate.context import WorkspaceContext
from remit.gate.state.database import StateError
from remit.provenance.why.conversations import AgentSession, Conversations, TranscriptSource
from remit.workspace.agents.transcripts import find_transcript


class TranscriptIntake(Struct, frozen=True):
    """What is to be taken in, and how it is kept: all that has to be known once the gate is let go."""

    folder: Path
    retain_days: float
    patterns: tuple[re.Pattern[str], ...]
    sources: tuple[TranscriptSource, ...]

    def open_conversations(self, now: float) -> Conversations:
        """What was said, as far as the agents still have it, or had once."""
        opened = Conversations.open(self.folder, self.retain_days, self.patterns)
        opened.catch_up(self.sources, now)
        return opened

    def store_new(self, now: float) -> str:
        """Take in what is new, where anything is to be kept: an agent may delete it. What failed, in words."""
        if not self.retain_days:
            return ""
        with self.open_conversations(now) as taken:
            return taken.problem


def conversations(gate: WorkspaceContext, sessions: Iterable[AgentSession]) -> Conversations:
    """What was said in these sessions and their sub-agents."""
    found = [source for session in sessions for source in transcript_sources(gate, session)]
    return make_intake(gate, found).open_conversations(gate.environment.clock())


def intake_of_all_sessions(gate: WorkspaceContext) -> TranscriptIntake:
    """All that this gate's agents told of; nothing while its state cannot be read."""
    try:
        known = gate.state.list_transcripts()
        sessions = {AgentSession(agent, key.session_id): None for key, (agent, _) in known.items()}
        return make_intake(gate, [source for session in sessions for source in transcript_sources(gate, session)])
    except StateError:
        return make_intake(gate, ())


def make_intake(gate: WorkspaceContext, found: Iterable[TranscriptSource]) -> TranscriptIntake:
    """These sources, by this gate's settings."""
    config = gate.rules.config
    patterns = tuple(map(compile_team_pattern, config.redact.patterns))
    return TranscriptIntake(gate.workspace.state, config.transcripts.retain_days, patterns, tuple(found))


def transcript_sources(gate: WorkspaceContext, session: AgentSession) -> list[TranscriptSource]:
    """Where a session's transcripts lie: where its agent said, and for its own, else, where that agent keeps them."""
    told = gate.state.list_transcripts(session.id)
    found = [TranscriptSource(path, agent, session.id, key.agent_id) for key, (agent, path) in told.items()]
    place = (
        None if SessionKey(session.id) in told else find_transcript(gate.environment.home, session.agent, session.id)
    )
    return [TranscriptSource(str(place), session.agent, session.id), *found] if place else found

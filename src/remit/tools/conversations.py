"""The conversations behind a gate's records, taken in from where its agents keep them."""

import re
from collections.abc import Iterable
from pathlib import Path

from msgspec import Struct

from remit.core.call import SessionKey
from remit.core.redaction import compile_pattern
from remit.gate.site import Site
from remit.gate.state_file import StateError
from remit.provenance.why.conversations import Conversations, Source
from remit.provenance.why.talk import Session
from remit.workspace.transcripts import known_place


class Intake(Struct, frozen=True):
    """What is to be taken in, and how it is kept: all that has to be known once the gate is let go."""

    folder: Path
    retain_days: float
    patterns: tuple[re.Pattern[str], ...]
    sources: tuple[Source, ...]

    def conversations(self, now: float) -> Conversations:
        """What was said, as far as the agents still have it, or had once."""
        opened = Conversations.open(self.folder, self.retain_days, self.patterns)
        opened.catch_up(self.sources, now)
        return opened

    def keep(self, now: float) -> str:
        """Take in what is new, where anything is to be kept: an agent may delete it. What failed, in words."""
        if not self.retain_days:
            return ""
        with self.conversations(now) as taken:
            return taken.trouble


def conversations(gate: Site, sessions: Iterable[Session]) -> Conversations:
    """What was said in these sessions and their sub-agents."""
    found = [source for session in sessions for source in sources(gate, session)]
    return intake(gate, found).conversations(gate.environment.clock())


def everything(gate: Site) -> Intake:
    """All that this gate's agents told of; nothing while its state cannot be read."""
    try:
        known = gate.state.transcripts()
        sessions = {Session(agent, key.session_id): None for key, (agent, _) in known.items()}
        return intake(gate, [source for session in sessions for source in sources(gate, session)])
    except StateError:
        return intake(gate, ())


def intake(gate: Site, found: Iterable[Source]) -> Intake:
    """These sources, by this gate's settings."""
    config = gate.governing.config
    patterns = tuple(map(compile_pattern, config.redact.patterns))
    return Intake(gate.workspace.state, config.transcripts.retain_days, patterns, tuple(found))


def sources(gate: Site, session: Session) -> list[Source]:
    """Where a session's transcripts lie: where its agent said, and for its own, else, where that agent keeps them."""
    told = gate.state.transcripts(session.id)
    found = [Source(path, agent, session.id, key.agent_id) for key, (agent, path) in told.items()]
    place = None if SessionKey(session.id) in told else known_place(gate.environment.home, session.agent, session.id)
    return [Source(str(place), session.agent, session.id), *found] if place else found

"""What to call work that no intent covers yet: the first line that the person wrote to the agent."""

from pathlib import Path

from remit.core.redaction import redact
from remit.core.text import shown
from remit.gate.site import Site
from remit.workspace.transcripts import Mark, known_place, lines_after

LONGEST = 80
"""Characters of a proposed name."""

LINES_MOST = 200
"""Lines of a transcript that are looked through: the first prompt stands near its beginning."""


def proposed_name(site: Site, session_id: str) -> str:
    """The name that a session's first prompt proposes, without secrets; empty where no transcript tells it.

    Raises StateError.
    """
    for key, (agent, path) in site.state.transcripts(session_id).items():
        if not key.agent_id:
            return name_of(first_prompt(agent, Path(path)))
    session = next((k for k in site.state.recent_sessions() if k.session_id == session_id), None)
    known = site.state.session(session) if session else None
    place = known_place(site.environment.home, known.agent, session_id) if known else None
    return name_of(first_prompt(known.agent, place)) if known and place else ""


def first_prompt(agent: str, path: Path) -> str:
    """The first words of the person's own in a transcript; what the agent's client put before them is none."""
    # For start-up speed: six readers of transcripts, and only the end of a session's first turn needs one.
    from remit.adapters.transcripts import entries

    _, chunks = lines_after(path, Mark())
    for number, chunk in enumerate(chunks):
        if number >= LINES_MOST:
            return ""
        for entry in entries(agent, chunk.line):
            if entry.role == "user" and name_of(entry.text):
                return entry.text
    return ""


def name_of(prompt: str) -> str:
    """The first line that says something: no tag of the client's, no heading's signs, not too long, no secret."""
    lines = (line.strip().lstrip("#>*- ").strip() for line in redact(prompt[:4096]).splitlines())
    line = next((line for line in lines if line and not line.startswith("<")), "")
    return shown(line, LONGEST)

"""A person's yes: what it covers, for how long, and whose it is."""

from typing import Literal, TypeAlias

from msgspec import Struct

from remit.core.decision import ErrorType

Extent: TypeAlias = Literal["once", "session", "intent", "project"]
EXTENTS: tuple[Extent, ...] = ("once", "session", "intent", "project")

HIGH_RISK = 60
"""A yes to what weighs more is a yes for this once."""


class Grant(Struct, frozen=True):
    """One yes. `code` is the rule that it waives; what it covers is one of three.

    `pattern` are paths, `command` the first words of a command, `tool` the calls of a tool that name neither.
    Who holds it is told by `session_id` (once, session) or `intent_id` (intent); a project's grant is everybody's.
    `until` is in seconds since the epoch; None does not end by itself.
    """

    id: str
    code: ErrorType
    extent: Extent
    pattern: str | None = None
    session_id: str | None = None
    intent_id: str | None = None
    until: float | None = None
    by: str = "person"
    command: tuple[str, ...] = ()
    tool: str | None = None

    @property
    def rule(self) -> str:
        """What it covers, for people."""
        return self.pattern or " ".join(self.command) or self.tool or ""


def held(grant: Grant, session_id: str, intent_id: str | None) -> bool:
    """Whether this session, under this intent, holds the grant."""
    if grant.extent == "project":
        return True
    if grant.extent == "intent":
        return grant.intent_id is not None and grant.intent_id == intent_id
    return grant.session_id is not None and grant.session_id == session_id


def proposed_pattern(path: str | None, extent: Extent) -> str | None:
    """The paths that a yes of this extent would cover: the file itself once, else its folder."""
    if path is None:
        return None
    literal = escaped(path)
    folder = literal.rpartition("/")[0]
    return literal if extent == "once" or not folder else f"{folder}/**"


def escaped(path: str) -> str:
    """The pattern that means exactly this path."""
    spelled = "".join(f"[{c}]" if c in "*?[" else f"\\{c}" if c in "\\{}" else c for c in path)
    return f"\\{spelled}" if spelled.startswith("!") else spelled

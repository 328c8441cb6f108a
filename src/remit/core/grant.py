"""A person's yes: what it covers, for how long, and whose it is."""

from typing import Literal, TypeAlias

from msgspec import Struct

from remit.core.decision import ErrorType
from remit.core.scope.globs import glob_error, is_absolute_pattern

Extent: TypeAlias = Literal["once", "session", "intent", "project"]
EXTENTS: tuple[Extent, ...] = ("once", "session", "intent", "project")

HIGH_RISK = 60
"""A yes to what weighs more is a yes for this once."""


UNWAIVABLE_CODES: tuple[ErrorType, ...] = ("PROTECTED_PATH", "OUTSIDE_WORKSPACE")
"""No yes reaches there, whatever the configuration says."""


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


class ProjectGrant(Struct, frozen=True, forbid_unknown_fields=True):
    """One `[[grants]]` entry of `remit.toml`: a yes that holds for everybody who works here.

    `code` is the rule that it waives, `id` the answer that it comes from. It covers paths (`pattern`), commands by
    their first words (`command`), or the calls of one tool that name neither (`tool`): one of the three.
    """

    id: str
    code: ErrorType
    pattern: str | None = None
    command: tuple[str, ...] = ()
    tool: str | None = None
    by: str = "person"

    def __post_init__(self) -> None:
        if self.code in UNWAIVABLE_CODES:
            raise ValueError(f"[[grants]] code: {self.code} is never waived")
        if sum(map(bool, (self.pattern, self.command, self.tool))) != 1:
            raise ValueError(f"[[grants]] {self.id}: expected one of `pattern`, `command` and `tool`")
        absolute = self.pattern and is_absolute_pattern(self.pattern)
        if self.pattern and (why := "it is absolute" if absolute else glob_error(self.pattern)):
            raise ValueError(f"[[grants]] pattern: {self.pattern!r} cannot be used: {why}")

    @property
    def grant(self) -> Grant:
        """As it is held against a call."""
        return Grant(
            self.id, self.code, "project", pattern=self.pattern, by=self.by, command=self.command, tool=self.tool
        )


def applies_to_session(grant: Grant, session_id: str, intent_id: str | None) -> bool:
    """Whether this session, under this intent, holds the grant."""
    if grant.extent == "project":
        return True
    if grant.extent == "intent":
        return grant.intent_id is not None and grant.intent_id == intent_id
    return grant.session_id is not None and grant.session_id == session_id


def suggest_pattern(path: str | None, extent: Extent) -> str | None:
    """The paths that a yes of this extent would cover: the file itself once, else its folder."""
    if path is None:
        return None
    literal = escape_pattern(path)
    folder = literal.rpartition("/")[0]
    return literal if extent == "once" or not folder else f"{folder}/**"


def escape_pattern(path: str) -> str:
    """The pattern that means exactly this path."""
    spelled = "".join(f"[{c}]" if c in "*?[" else f"\\{c}" if c in "\\{}" else c for c in path)
    return f"\\{spelled}" if spelled.startswith("!") else spelled

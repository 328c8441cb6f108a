"""Approvals by a person: their rule, extent, expiry and owner."""

from typing import Literal, TypeAlias

from msgspec import Struct

from remit.core.decision import ErrorType
from remit.core.scope.globs import relative_glob_error

Extent: TypeAlias = Literal["once", "session", "intent", "project"]
EXTENTS: tuple[Extent, ...] = ("once", "session", "intent", "project")

HIGH_RISK = 60
"""Risk above which an approval holds for a single call only."""


UNWAIVABLE_CODES: tuple[ErrorType, ...] = ("PROTECTED_PATH", "OUTSIDE_WORKSPACE")
"""Denials that no approval overrides, whatever the configuration."""


class Grant(Struct, frozen=True):
    """An approval. `code` is the waived rule; exactly one kind of subject is set.

    Subjects are paths (`pattern`), the first words of a command (`command`), or calls of a tool without paths and
    command (`tool`). `session_id` (once, session) or `intent_id` (intent) names the owner; a project's grant is owned
    by everyone. `until` is in seconds since the epoch; None never expires.
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
        """Return the subject as text for people."""
        return self.pattern or " ".join(self.command) or self.tool or ""


class ProjectGrant(Struct, frozen=True, forbid_unknown_fields=True):
    """A `[[grants]]` entry of `remit.toml`: an approval for everyone in this project.

    `code` is the waived rule, `id` the answer it came from. Exactly one of `pattern` (paths), `command` (first words)
    and `tool` (calls without paths and command) is set.
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
        if self.pattern and (fault := relative_glob_error(self.pattern)):
            raise ValueError(f"[[grants]] pattern: {self.pattern!r} cannot be used: {fault}")

    @property
    def grant(self) -> Grant:
        return Grant(
            self.id, self.code, "project", pattern=self.pattern, by=self.by, command=self.command, tool=self.tool
        )


def applies_to_session(grant: Grant, session_id: str, intent_id: str | None) -> bool:
    """Return whether the grant belongs to this session under this intent."""
    if grant.extent == "project":
        return True
    if grant.extent == "intent":
        return grant.intent_id is not None and grant.intent_id == intent_id
    return grant.session_id is not None and grant.session_id == session_id


def suggest_pattern(path: str | None, extent: Extent) -> str | None:
    """Return the pattern to offer for an approval: the file itself for `once`, otherwise its folder."""
    if path is None:
        return None
    literal = escape_pattern(path)
    folder = literal.rpartition("/")[0]
    return literal if extent == "once" or not folder else f"{folder}/**"


def escape_pattern(path: str) -> str:
    spelled = "".join(f"[{c}]" if c in "*?[" else f"\\{c}" if c in "\\{}" else c for c in path)
    return f"\\{spelled}" if spelled.startswith("!") else spelled

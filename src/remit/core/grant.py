"""A person's yes: what it covers, for how long, and whose it is."""

from typing import Literal, TypeAlias

from msgspec import Struct

from remit.core.decision import ErrorType, Finding
from remit.core.globs import Scope

Extent: TypeAlias = Literal["once", "session", "intent", "project"]
EXTENTS: tuple[Extent, ...] = ("once", "session", "intent", "project")


class Grant(Struct, frozen=True):
    """One yes. `code` is the rule that it waives, `pattern` the paths (None: the rule has no path).

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


def covers(grant: Grant, finding: Finding, session_id: str, intent_id: str | None) -> bool:
    """Whether the grant waives exactly this finding: the same rule, every one of its paths, and its holder."""
    if grant.code != finding.code or not held(grant, session_id, intent_id):
        return False
    paths = [str(p) for p in finding.context.get("paths", [finding.path] if finding.path else [])]
    if grant.pattern is None:
        return not paths
    return bool(paths) and all(Scope((grant.pattern,)).matches(path) for path in paths)


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
    literal = "".join(f"[{c}]" if c in "*?[" else c for c in path)
    folder = literal.rpartition("/")[0]
    return literal if extent == "once" or not folder else f"{folder}/**"

"""How much of what changed had been judged before it changed, as the ledger tells."""

from collections.abc import Iterable
from typing import Any

from msgspec import Struct

from remit.core.record import KEY
from remit.ledger.index import Index

MOST = 5000
"""Records of each kind that are looked at, the newest first."""


class Share(Struct, frozen=True):
    """Of `changed` files, all but the `ungoverned` ones had a verdict before each of their changes."""

    changed: int = 0
    ungoverned: tuple[str, ...] = ()

    @property
    def judged(self) -> int:
        """How many files had one."""
        return self.changed - len(self.ungoverned)


class Coverage(Struct, frozen=True):
    """Overall, and by session; changes that no session is known for stand under None."""

    overall: Share
    sessions: dict[str | None, Share]


def coverage(index: Index, most: int = MOST) -> Coverage:
    """The coverage of the newest changes. The index has to have caught up."""
    found = [*index.find(event="mutation", limit=most), *index.find(event="human_edit", limit=most)]
    bodies: list[dict[str, Any]] = [document["metadata"][KEY] for document in found]
    by_session: dict[str | None, list[dict[str, Any]]] = {}
    for body in bodies:
        by_session.setdefault(body.get("session_id"), []).append(body)
    return Coverage(share(bodies), {session: share(its) for session, its in by_session.items()})


def share(bodies: Iterable[dict[str, Any]]) -> Share:
    """The share of these records' files."""
    changed: set[str] = set()
    ungoverned: set[str] = set()
    for body in bodies:
        paths = {str(file["path"]) for file in body.get("files", [])}
        changed |= paths
        ungoverned |= set[str]() if body.get("covered") else paths
    return Share(len(changed), tuple(sorted(ungoverned)))

"""Which names of a repository came to stand for something else, whether they lie in files of their own or packed."""

import re
from collections.abc import Mapping, Sequence
from pathlib import Path

from msgspec import Struct

from remit.workspace.sandbox.staged import Touched

PACKED = "packed-refs"
STASH = "refs/stash"
HEADS, TAGS, REMOTES = "refs/heads/", "refs/tags/", "refs/remotes/"
LASTING = (HEADS, TAGS, REMOTES)
"""The names whose commits count as known: no command gives them to a commit that was not looked into."""

REF = re.compile(
    r"refs/(heads|tags|remotes|notes|bisect|rewritten)/.+|refs/stash|worktrees/[^/]+/refs/(bisect|rewritten)/.+"
)
OBJECT_NAME = re.compile(r"[0-9a-f]{40}([0-9a-f]{24})?")


class Move(Struct, frozen=True):
    """One name that stands for another object than before; `old` or `new` is empty where there was, or is, none."""

    name: str
    old: str
    new: str

    @property
    def lasting(self) -> bool:
        """Whether it is a branch, a tag or a remote's branch."""
        return self.name.startswith(LASTING)


def find_moves(upper: Path, common: Path, changes: Sequence[Touched]) -> list[Move]:
    """Return the names that a command moved. `upper` took its writes, `common` is the real folder. Raises OSError."""
    loose = {c.path: c for c in changes if REF.fullmatch(c.path)}
    repacked = any(c.path == PACKED for c in changes)
    before = read_packed(common / PACKED)
    after = before
    if repacked:
        after = read_packed(upper / PACKED)
    names = {*loose, *(name for name in {*before, *after} if before.get(name) != after.get(name))}
    found: list[Move] = []
    for name in sorted(names):
        old = read_name(common / name) or before.get(name, "")
        change = loose.get(name)
        new = read_name(common / name) if change is None else read_name(upper / name) if change.kind == "file" else ""
        new = new or after.get(name, "")
        if old != new:
            found.append(Move(name, old, new))
    return found


def read_name(place: Path) -> str:
    """Return what a file of a name says: an object's name, or `ref: …`; empty where there is none. Raises OSError."""
    return place.read_bytes().decode("utf-8", "replace").strip() if place.is_file() and not place.is_symlink() else ""


def read_packed(place: Path) -> Mapping[str, str]:
    """Return the objects that packed names stand for. Source: git-pack-refs(1), read 2026-11. Raises OSError."""
    if not place.is_file() or place.is_symlink():
        return {}
    rows = (
        line.split(" ") for line in place.read_text("utf-8", "surrogateescape").splitlines() if line[:1] not in "#^"
    )
    return {row[1]: row[0] for row in rows if len(row) == 2}

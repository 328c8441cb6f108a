"""What the commits hold that a command made, and what it staged: plumbing puts there what no working tree ever held."""

from collections.abc import Iterator, Sequence
from pathlib import Path

from msgspec import Struct

from remit.workspace.sandbox.git_asked import Layered

MOST = 1000
"""Commits of one command that are looked into."""

RAW = ("-r", "--raw", "-z", "--no-renames", "--no-abbrev")


class TooMany(RuntimeError):
    """More commits than are looked into."""

    def __init__(self) -> None:
        super().__init__(f"it brings more than {MOST} commits to a branch at once")


class Held(Struct, frozen=True):
    """One path that a commit changes, or the index where `commit` is empty; `name` is the blob's, zeros for none."""

    path: str
    mode: str
    name: str
    commit: str = ""

    @property
    def gone(self) -> bool:
        """Whether it takes the file away."""
        return not self.name.strip("0")


def committed(layered: Layered, tips: Sequence[str]) -> list[Held]:
    """What those commits change that only these tips lead to; of a merge, what none of its parents holds.

    Raises GitError, TooMany.
    """
    if not tips:
        return []
    new = layered.asked("rev-list", f"--max-count={MOST + 1}", *tips, "--not", "--all")
    if not new:
        return []
    if new.count(b"\n") > MOST:
        raise TooMany
    return list(read(layered.asked("diff-tree", "--stdin", "--root", "-c", *RAW, stdin=new)))


def staged(layered: Layered, index: Path, head: str) -> list[Held]:
    """What is staged in that index beyond the commit `head`. Raises GitError."""
    return list(read(layered.asked("diff-index", "--cached", *RAW, head, index=index)))


def read(raw: bytes) -> Iterator[Held]:
    """The entries of git's raw format, NUL after each part. Source: git-diff-tree(1), "Raw output format", 2026-11."""
    parts = iter(raw.decode("utf-8", "surrogateescape").split("\0")[:-1])
    commit = ""
    for part in parts:
        if not part.startswith(":"):
            commit = part
            continue
        words = part.lstrip(":").split(" ")
        sides = (len(words) - 1) // 2
        yield Held(next(parts), words[sides - 1], words[-2], commit)


def indexed(layered: Layered, index: Path) -> dict[str, tuple[str, str]]:
    """By path, mode and blob in that index. Raises GitError."""
    lines = layered.asked("ls-files", "--stage", "-z", index=index).decode("utf-8", "surrogateescape").split("\0")
    entries = (line.partition("\t") for line in lines[:-1])
    staged = ((path, *what.split(" ")) for what, _, path in entries)
    return {path: (mode, name) for path, mode, name, stage in staged if stage == "0"}

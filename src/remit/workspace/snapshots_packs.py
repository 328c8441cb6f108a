"""The packs that snapshots make, folded together, so that there are never many. No object is dropped here."""

import fcntl
import os
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from pathlib import Path

import msgspec

from remit.workspace.own_repository import OwnRepository
from remit.workspace.whole_files import write_atomically

TOGETHER = 8
"""So many packs become one, of which so many become one again: there are never more than a few times as many."""

Packs = dict[str, int]
"""The name of each pack, and how often what is in it was folded."""


def fold(repository: OwnRepository, folder: Path) -> int:
    """Fold packs of processes that ended, where there are enough; how many are gone. Raises OSError, GitError.

    `folder` is the snapshots' own, with `edges/` in it. Where another process is at it, nothing is to do.
    """
    if not repository.exists:
        return 0
    store = repository.path / "objects" / "pack"
    with alone(folder / "packs.lock") as mine:
        if not mine:
            return 0
        packs = {name: level for name, level in taken_in(folder, store).items() if (store / f"{name}.pack").exists()}
        gone: list[str] = []
        for level in range(max(packs.values(), default=-1) + 1):
            small = [name for name, each in packs.items() if each == level]
            if len(small) >= TOGETHER:
                packs = {name: each for name, each in packs.items() if name not in small}
                packs[together(repository, store, small)] = level + 1
                gone += small
        write_atomically(folder / "packs", msgspec.json.encode(packs), 0o600)
        for name in gone:
            if name not in packs:
                remove(store, name)
        return len(gone)


@contextmanager
def alone(path: Path) -> Generator[bool]:
    """Whether nobody else holds this lock; it is held meanwhile."""
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        yield locked(descriptor)
    finally:
        os.close(descriptor)


def locked(descriptor: int) -> bool:
    """Whether the lock could be had."""
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def taken_in(folder: Path, store: Path) -> Packs:
    """The packs known so far, and those of processes that ended since."""
    packs = known(folder / "packs")
    done: list[Path] = []
    for edges in sorted((folder / "edges").glob("*")):
        with alone(edges) as mine:
            if mine:
                packs |= dict.fromkeys(named(edges.read_bytes()), 0)
                done.append(edges)
    for name in packs:
        unkeep(store / f"{name}.keep")
    write_atomically(folder / "packs", msgspec.json.encode(packs), 0o600)
    for edges in done:
        edges.unlink(missing_ok=True)
    return packs


def known(path: Path) -> Packs:
    """What is written down; nothing where it cannot be read: then those packs are left to git."""
    try:
        return msgspec.json.decode(path.read_bytes(), type=Packs)
    except (OSError, msgspec.DecodeError):
        return {}


def named(edges: bytes) -> Iterator[str]:
    """The packs that a fast-import named: a line each, `<path>: <commit>…`."""
    for line in edges.splitlines():
        name = os.fsdecode(line.rpartition(b": ")[0].rpartition(b"/")[2])
        if name.startswith("pack-") and name.endswith(".pack"):
            yield name.removesuffix(".pack")


def unkeep(path: Path) -> None:
    """Take away the mark of a fast-import that was killed."""
    try:
        if path.read_bytes().startswith(b"fast-import"):
            path.unlink()
    except FileNotFoundError:
        return


def together(repository: OwnRepository, store: Path, names: list[str]) -> str:
    """Write one pack with all that these hold; its name. Source: git-pack-objects(1), read 2026-11."""
    listed = "".join(f"{name}.pack\n" for name in names).encode()
    own = ("pack-objects", "--stdin-packs", "--quiet", "--threads=1", str(store / "pack"))
    return f"pack-{repository.run(*own, stdin=listed).decode().strip()}"


def remove(store: Path, name: str) -> None:
    """Remove one pack; its index first: without it nobody looks for the pack."""
    for suffix in ("idx", "rev", "bitmap", "pack"):
        (store / f"{name}.{suffix}").unlink(missing_ok=True)

"""Races of a link against Remit's own writes: how many of them landed outside.

`python benchmarks/races.py [WRITES]`, 2,000 of each kind by default. Another process swaps a folder and a link to a
folder outside as quickly as it can; each kind of write that Remit makes in a workspace is tried meanwhile, and after
each one the outside is looked at. Beside them the way that is usual: resolve the path, check it, open it. A table,
nothing asserted; the bar is 0 in the last column of all lines but that one. `the walk` serves where the kernel has no
`openat2`.
"""

import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager
from pathlib import Path
from typing import TypeAlias

from remit.core.diff.contents import sha256
from remit.gate.governing.settings import govern_workspace, set_mode
from remit.gate.undo.governing_files import restore_file
from remit.ledger.log import append_to_view
from remit.workspace.agents.read_write_settings import SettingsChanged, write_settings
from remit.workspace.intents_file.storage import IntentsFileChanged, write_intents
from remit.workspace.place.workspace import ORCHESTRATION_FOLDER, workspace_at
from remit.workspace.safe_files import (
    FileToWrite,
    delete_file,
    observed_content,
    open_below_root,
    write_below,
    write_files,
    write_into_folder,
)
from remit.workspace.sandbox.staged_changes import ChangeApplier, StagedChange

SWAPS = """\
import ctypes, os, sys
place, away = map(os.fsencode, sys.argv[1:])
exchange = ctypes.CDLL(None).renameat2
print("ready", flush=True)
while True:
    exchange(-100, place, -100, away, 2)
"""
"""Exchanges a folder and a link in one step, as quickly as it can: there is always one of them."""
PAUSE_S = 0.0002
"""Between two writes: on a busy machine a hundred refusals would else fall into one turn of the other process."""

INTENTS = b'version: "1.0"\nactive_intents: []\n'
REFUSALS = (OSError, ValueError, SettingsChanged, IntentsFileChanged)
Write: TypeAlias = Callable[[Path, int], None]


def usual(root: Path, number: int) -> None:
    """Resolve, check, open: what is checked is not what is opened."""
    real = os.path.realpath(root / "src" / f"f{number}")
    if real.startswith(f"{root}/"):
        Path(real).write_bytes(b"ours")


def file(root: Path, number: int) -> None:
    """A file below the root."""
    write_below(root, root / "src" / f"f{number}", b"ours")


def walk(root: Path, number: int) -> None:
    """The same without the system call."""
    here = open_below_root(root, "src", create=True, follow_links=True, kernel=None)
    try:
        write_into_folder(here, f"f{number}", b"ours", 0o666)
    finally:
        os.close(here)


def restored(root: Path, number: int) -> None:
    """`remit restore`, and effects that are undone."""
    refuse(write_files(root, {f"src/f{number}": FileToWrite("100644", b"ours")}, f"race{number}"))


def deleted(root: Path, number: int) -> None:
    """What a restore takes away."""
    delete_file(root, "src/victim")


def committed(root: Path, number: int) -> None:
    """`remit exec` brings over what may stay."""
    upper = root.parent / "upper"
    (upper / "src").mkdir(parents=True, exist_ok=True)
    (upper / "src" / f"f{number}").write_bytes(b"ours")
    refuse(ChangeApplier(upper, root).apply_changes([StagedChange(f"src/f{number}", "file")]))


def removed(root: Path, number: int) -> None:
    """`remit exec` removes what the command removed."""
    refuse(ChangeApplier(root.parent, root).apply_changes([StagedChange("src/victim", "gone")]))


def refuse(failed: dict[str, str]) -> None:
    """What a write says of its failures, raised."""
    if failed:
        raise OSError(*failed.values())


def put_back(root: Path, number: int) -> None:
    """A file that governs is put back."""
    restore_file(root, f"src/f{number}", observed_content(b"ours"))


def settings(root: Path, number: int) -> None:
    """An agent's settings in the repository."""
    write_settings(root / "src" / f"f{number}", None, b"{}")


def intents(root: Path, number: int) -> None:
    """The intents file, edited."""
    text = f"# {number}\n{INTENTS.decode()}"
    path = root / ORCHESTRATION_FOLDER / "active_intents.yaml"
    write_intents(path, text, expected_sha256=sha256(path.read_bytes()), lock=root.parent / "lock")


def mode(root: Path, number: int) -> None:
    """`remit mode`."""
    set_mode(workspace_at(root, root), "warn" if number % 2 else "observe")


def view(root: Path, number: int) -> None:
    """The live view of the ledger."""
    append_to_view(view_of(root), b'{"number":%d}\n' % number)


def view_of(root: Path) -> Path:
    """Where it lies."""
    return root / ORCHESTRATION_FOLDER / "agent_trace.jsonl"


KINDS: list[tuple[str, str, Write]] = [
    ("realpath, check, open", "src", usual),
    ("a file below the root", "src", file),
    ("the walk", "src", walk),
    ("restore and undo", "src", restored),
    ("restore: deleting", "src", deleted),
    ("exec: bringing over", "src", committed),
    ("exec: removing", "src", removed),
    ("putting back", "src", put_back),
    ("agents' settings", "src", settings),
    ("intents file", ORCHESTRATION_FOLDER, intents),
    ("mode", ORCHESTRATION_FOLDER, mode),
    ("live view", ORCHESTRATION_FOLDER, view),
]


@contextmanager
def swapped(folder: Path, outside: Path) -> Generator[None]:
    """While another process swaps the folder for a link to `outside` and back."""
    link = folder.with_name("away")
    link.symlink_to(outside)
    words = [sys.executable, "-c", SWAPS, str(folder), str(link)]
    with subprocess.Popen(words, stdout=subprocess.PIPE) as swapping:
        assert swapping.stdout is not None
        swapping.stdout.readline()
        try:
            yield
        finally:
            swapping.kill()


def ground(top: Path) -> tuple[Path, Path]:
    """A repository, and a folder outside that looks like each of those that are swapped."""
    root, outside = top / "w", top / "outside"
    (root / "src").mkdir(parents=True)
    subprocess.run(["git", "init", "-q", str(root)], check=True)
    (root / ORCHESTRATION_FOLDER).mkdir()
    govern_workspace(workspace_at(root, root))
    outside.mkdir()
    for folder in (root / ORCHESTRATION_FOLDER, outside):
        (folder / "active_intents.yaml").write_bytes(INTENTS)
    return root, outside


def raced(write: Write, place: str, writes: int) -> tuple[int, int]:
    """How many writes were refused, and how many landed outside."""
    refused = escaped = 0
    with tempfile.TemporaryDirectory() as name:
        root, outside = ground(Path(name).resolve())
        kept = {"active_intents.yaml": INTENTS, "victim": b"theirs"}
        (outside / "victim").write_bytes(b"theirs")
        with swapped(root / place, outside):
            for number in range(writes):
                try:
                    write(root, number)
                except REFUSALS:
                    refused += 1
                escaped += mended(outside, kept)
                time.sleep(PAUSE_S)
    return refused, escaped


def mended(outside: Path, kept: dict[str, bytes]) -> bool:
    """Whether anything is different outside; then it is made as it was."""
    found = {path.name: path.read_bytes() for path in outside.iterdir()}
    for path in outside.iterdir() if found != kept else ():
        path.unlink()
    for name, content in kept.items() if found != kept else ():
        (outside / name).write_bytes(content)
    return found != kept


def main() -> None:
    """The table."""
    writes = int(sys.argv[1]) if len(sys.argv) > 1 else 2000
    print(f"{'kind of write':24}{'writes':>8}{'refused':>9}{'outside':>9}")
    for name, place, write in KINDS:
        refused, escaped = raced(write, place, writes)
        print(f"{name:24}{writes:>8}{refused:>9}{escaped:>9}", flush=True)


if __name__ == "__main__":
    main()

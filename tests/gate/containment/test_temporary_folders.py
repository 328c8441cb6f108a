"""Temporary folders of contained commands: content is seen, and what a command writes there is thrown away."""

from collections.abc import Generator
from pathlib import Path

import pytest
from msgspec.structs import replace

from conftest import run_git
from gate.containment.test_run_command import run
from gate.driving import governed, machine, overlay
from mounting import mounted
from remit.core.call import SessionKey
from remit.gate.gate import Gate
from remit.workspace.sandbox.staging import MAX_SHOWN_ENTRIES

CHANGES = "echo changed > inner/note; rm inner/old; echo new > inner/new; echo new > new"


@pytest.fixture
def temporary() -> Generator[Path]:
    """A temporary folder with a mount inside, as programs leave them that carry their own disk image."""
    with mounted("-t", "tmpfs", "tmpfs") as folder:
        for name in ("image", "inner", "repo/src"):
            (folder / name).mkdir(parents=True)
        for name in ("note", "inner/note", "inner/old"):
            (folder / name).write_text(f"{name}\n")
        (folder / "link").symlink_to("inner/note")
        with mounted("-t", "tmpfs", "tmpfs", folder=folder / "image") as image:
            (image / "note").write_text("image/note\n")
            yield folder


@pytest.fixture
def gate(temporary: Path, home: Path) -> Gate:
    """A workspace in that folder, so its commands write nothing else there."""
    root = temporary / "repo"
    run_git(root, "init", "-q")
    gate = Gate.open(governed(root), replace(machine(home), temporary=temporary))
    gate.intents.select(SessionKey("s1"), "test", "INT-001")
    return gate


def test_a_mount_in_a_temporary_folder_hides_nothing_there(gate: Gate, temporary: Path, home: Path) -> None:
    names = "note inner/note inner/old link image/note"
    result = run(gate, overlay(home), f"cd ..; cat {names} > repo/src/seen; readlink link >> repo/src/seen")
    assert (result.code, result.kept) == (0, ("src/seen",))
    seen = (temporary / "repo/src/seen").read_text().split()
    assert seen == ["note", "inner/note", "inner/old", "inner/note", "image/note", "inner/note"]


def test_writes_beside_a_mount_in_a_temporary_folder_are_thrown_away(gate: Gate, temporary: Path, home: Path) -> None:
    how = overlay(home)
    assert run(gate, how, f"cd ..; {CHANGES}; cat inner/* new > repo/src/seen").code == 0
    assert (temporary / "repo/src/seen").read_text().split() == ["new", "changed", "new"]
    assert run(gate, how, "cd ..; ls . inner > repo/src/seen").code == 0  # the next command finds nothing of it
    seen = (temporary / "repo/src/seen").read_text().split()
    assert seen == [".:", "image", "inner", "link", "note", "repo", "inner:", "note", "old"]
    assert (temporary / "inner/note").read_text() == "inner/note\n"


def test_of_very_many_entries_beside_a_mount_the_newest_are_shown(gate: Gate, temporary: Path, home: Path) -> None:
    for number in range(MAX_SHOWN_ENTRIES):
        (temporary / f"newer-{number}").touch()
    assert run(gate, overlay(home), "ls .. > src/seen").code == 0
    assert "newer-1" in (temporary / "repo/src/seen").read_text().split()
    assert "note" not in (temporary / "repo/src/seen").read_text().split()

"""Commands with an end: real processes."""

import os
from pathlib import Path

import pytest

from processes import fields
from remit.workspace.processes.limited_command import CommandResult, run_trusted_command
from waiting import wait_until

pytestmark = pytest.mark.system

VARIABLES = {"PATH": os.defpath}


def ran(
    command: str | list[str], folder: Path, timeout_s: float = 100, first: int = 100, last: int = 0
) -> CommandResult:
    """Run it."""
    return run_trusted_command(
        command, folder=folder, variables=VARIABLES, timeout_s=timeout_s, stdin=b"in", head_bytes=first, tail_bytes=last
    )


def test_a_text_is_for_the_shell_and_words_are_not(tmp_path: Path) -> None:
    assert ran("cat; echo $0", tmp_path).output == b"in/bin/sh\n"
    assert ran(["echo", "$0"], tmp_path).output == b"$0\n"


def test_the_first_bytes_and_the_last_are_kept(tmp_path: Path) -> None:
    found = ran("printf 0123456789", tmp_path, first=2, last=3)
    assert (found.output, found.is_truncated) == (b"01789", True)
    assert ran("printf 01234", tmp_path, first=2, last=3).is_truncated is False


def test_a_flood_takes_no_room(tmp_path: Path) -> None:
    found = ran("head -c 50000000 /dev/zero; echo end", tmp_path, first=0, last=4)
    assert (found.output, found.exit_code) == (b"end\n", 0)


def test_a_program_that_is_not_there_is_said_to_be_missing(tmp_path: Path) -> None:
    found = ran(["/no/such"], tmp_path)
    assert (found.exit_code, "could not be started" in found.failure) == (None, True)


def test_one_that_closes_its_output_and_goes_on_is_ended_in_time(tmp_path: Path) -> None:
    assert ran("mkfifo pipe; exec >&- 2>&-; read -r _ < pipe", tmp_path, timeout_s=0.5).exit_code is None


def test_what_is_left_behind_ends_with_it(tmp_path: Path) -> None:
    pipe = str(tmp_path / "pipe")
    os.mkfifo(pipe)
    assert ran(f"(read -r _ < {pipe}; touch late) & echo said", tmp_path).output == b"said\n"
    wait_until(
        lambda: not any(pipe in word for place in Path("/proc").glob("[0-9]*") for word in fields(place / "cmdline"))
    )
    assert not (tmp_path / "late").exists()

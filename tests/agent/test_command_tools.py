"""The tools that run commands: contained as the gate decides, with the output kept."""

from pathlib import Path

import pytest

from agent.tool_driving import ToolDriver
from gate.driving import overlay
from remit_agent.tools.commands import COMMAND_TOOLS, HEAD_BYTES

EXECUTE, READ_OUTPUT, STOP = COMMAND_TOOLS


@pytest.fixture
def driver(repository: Path, home: Path) -> ToolDriver:
    return ToolDriver(repository, home)


def test_an_exit_code_is_no_failure_and_both_streams_come_back(driver: ToolDriver) -> None:
    done = driver.perform(EXECUTE, command="echo out; echo err >&2; exit 3")
    assert done.output is not None
    assert (done.output.ok, done.output.exit_code) == (True, 3)
    assert done.output.text.startswith("Exit code 3")
    assert "out\nerr\n" in done.output.text


def test_a_command_runs_in_a_folder_without_input(driver: ToolDriver) -> None:
    assert "app.py" in driver.run(EXECUTE, command="ls", cwd="src")
    assert "Exit code 0" in driver.run(EXECUTE, command="cat", timeout=20)


def test_long_output_is_cut_in_the_middle_and_kept_whole(driver: ToolDriver) -> None:
    done = driver.perform(EXECUTE, command="seq 1 20000; echo END")
    assert done.output is not None
    artifact = done.output.data["artifact_id"]
    assert f"[OUTPUT TRUNCATED - Full output saved to artifact: {artifact}]" in done.output.text
    assert "\n1\n2\n" in done.output.text
    assert done.output.text.endswith("20000\nEND\n")
    assert len(done.output.text) < 3 * HEAD_BYTES
    size = len("".join(f"{n}\n" for n in range(1, 20001))) + 4
    page = driver.run(READ_OUTPUT, artifact_id=artifact, offset=20, limit=10)
    assert page.startswith(f"Bytes 20-30 of {size}\n")
    assert driver.run(READ_OUTPUT, artifact_id=artifact, search="end") == "1 lines hold 'end'\n20001 | END"


@pytest.mark.parametrize("name", ["cmd-none.txt", "../journal", "x"])
def test_there_is_no_output_of_another_name(driver: ToolDriver, name: str) -> None:
    assert driver.fail(READ_OUTPUT, artifact_id=name).error_type == "NO_SUCH_OUTPUT"


NARROW = """\
version: "1.0"
active_intents:
  - id: INT-001
    name: Source
    status: IN_PROGRESS
    owned_scope: ["src/**"]
    constraints: [none]
    acceptance_criteria: [it works]
"""


def test_what_a_command_writes_outside_the_scope_is_dropped_and_said(repository: Path, home: Path) -> None:
    driver = ToolDriver(repository, home, NARROW)
    overlay(home)
    done = driver.perform(
        EXECUTE, command="python3 -c \"open('src/new.py', 'w').write('x'); open('other.md', 'w').write('x')\""
    )
    assert done.output is not None
    assert (driver.root / "src" / "new.py").exists()
    assert not (driver.root / "other.md").exists()
    assert "other.md" in "\n".join(done.messages)

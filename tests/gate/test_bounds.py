"""One past each bound of a path, through each door that lets a file in: the same code, and nothing is kept."""

from pathlib import Path
from typing import Any

import pytest

from cli.running import run
from gate.driving import Agent, allowed, governed, overlay, refusal
from remit.core.bounds import NAME_BYTES, ODD_CHARACTERS, PATH_BYTES, PATH_DEPTH, WHOLE_PATH_BYTES

BEYOND = {
    PATH_DEPTH.name: "src" + "/a" * PATH_DEPTH.value + "/x",
    PATH_BYTES.name: "src" + ("/" + "b" * 200) * 18,
    WHOLE_PATH_BYTES.name: "src/" + "a/" * WHOLE_PATH_BYTES.value,
    NAME_BYTES.name: "src/" + "é" * (NAME_BYTES.value // 2 + 1),
    ODD_CHARACTERS.name: "src/a\nb\u202e.py",
}


@pytest.fixture
def agent(repository: Path, home: Path) -> Agent:
    found = Agent(governed(repository), home)
    found.select()
    return found


@pytest.mark.parametrize("name", BEYOND)
@pytest.mark.parametrize("tool", ["Write", "Edit"])
def test_no_file_tool_goes_beyond_a_bound(agent: Agent, tool: str, name: str) -> None:
    words: dict[str, Any] = {"content": "x"} if tool == "Write" else {"old_string": "", "new_string": "x"}
    answer = agent.ask(tool, file_path=BEYOND[name], **words)
    assert refusal(answer) == "INVALID_ARGUMENTS", answer
    assert [path.name for path in (agent.cwd / "src").iterdir()] == ["app.py"]


def test_what_is_within_the_bounds_is_let_in(agent: Agent) -> None:
    assert allowed(agent.write("src" + "/a" * (PATH_DEPTH.value - 1) + "/x", "x"))
    assert allowed(agent.write("src/" + "n" * NAME_BYTES.value, "x"))


def test_a_file_that_a_person_named_oddly_stays_editable(agent: Agent) -> None:
    (agent.cwd / "src/a\nb.py").write_text("x\n")
    agent.read("src/a\nb.py")
    assert allowed(agent.write("src/a\nb.py", "y\n"))


def test_no_bare_command_goes_beyond_a_bound(agent: Agent) -> None:
    """Odd and too long names are no plain files to the reader of commands: such a command runs contained."""
    assert refusal(agent.ask("Bash", command=f"touch '{BEYOND[PATH_DEPTH.name]}'")) == "INVALID_ARGUMENTS"


def test_a_deep_folder_of_a_person_stalls_nothing(agent: Agent) -> None:
    place = agent.cwd / "src"
    for _ in range(3 * PATH_DEPTH.value):
        place /= "a"
    place.mkdir(parents=True)
    (place / "x").write_text("x\n")
    assert allowed(agent.write("src/b.py", "x\n"))
    assert "src" in agent.send("Stop").stdout.decode()


@pytest.mark.system
def test_no_contained_command_keeps_an_odd_name(agent: Agent, home: Path) -> None:
    overlay(home)

    done = run(
        agent.cwd, "exec", "--intent", "INT-001", "--", "sh", "-c", 'printf x > "src/a\nb.py"; printf y > src/ok.py'
    )
    assert sorted(path.name for path in (agent.cwd / "src").iterdir()) == ["app.py", "ok.py"], done
    assert "a terminal obeys or hides" in done.stderr

"""A call's own arguments tell where its lines went, also where a diff would take a copy for the original."""

import json
from pathlib import Path
from typing import Any

import pytest

from gate.driving import Agent, records, uncontained
from provenance.test_blame import blame, commit, sessions
from remit.core.record import KEY
from remit.servers.hook import EventClass, HookFrame, answer

BLOCK = "def measured(rows):\n    total = sum(rows)\n    return total / len(rows)\n\n"
BELOW = "def counted(rows):\n    return len(rows)\n"
AGENTS, PERSONS = "session-1", None


@pytest.fixture
def agent(repository: Path, home: Path) -> Agent:
    (repository / "src" / "app.py").write_text(BLOCK + BELOW)
    commit(repository)
    return uncontained(repository, home)


def patched(agent: Agent, more: str = "") -> None:
    """Codex copies the block above itself; `more` is what a person adds to the file meanwhile."""
    body = "".join(f"+{line}\n" for line in BLOCK.split("\n")[:-1])
    patch = f"*** Begin Patch\n*** Update File: src/app.py\n@@\n{body} def measured(rows):\n*** End Patch"
    kinds: dict[str, EventClass] = {"PreToolUse": "pre", "PostToolUse": "post"}
    for event, kind in kinds.items():
        fields: dict[str, Any] = {"tool_name": "apply_patch", "tool_use_id": "call_1", "tool_input": {"command": patch}}
        document = {"session_id": AGENTS, "cwd": str(agent.cwd), "hook_event_name": event, **fields}
        document |= {"tool_response": "Exit code: 0\n"} if kind == "post" else {}
        reply = answer(json.dumps(document).encode(), HookFrame("codex", str(agent.cwd), kind), agent.environment)
        assert reply.exit_code == 0, reply
        if kind == "pre":
            (agent.cwd / "src/app.py").write_text(BLOCK + BLOCK + BELOW + more)


def edited(agent: Agent, start: int) -> None:
    """Claude Code copies the block above itself, and its answer is a diff that has the new lines from `start` on."""
    arguments: dict[str, Any] = {
        "file_path": str(agent.cwd / "src/app.py"),
        "old_string": "def measured",
        "replace_all": False,
    }
    arguments["new_string"] = f"{BLOCK}def measured"
    lines = [f"+{line}" for line in (BLOCK + BLOCK).split("\n")[start - 1 : start + 3]]
    hunk = {"oldStart": start - 1, "oldLines": 0, "newStart": start, "newLines": 4, "lines": lines}
    agent.read("src/app.py")
    before = agent.ask("Edit", **arguments)
    (agent.cwd / "src/app.py").write_text(BLOCK + BLOCK + BELOW)
    response = {"filePath": arguments["file_path"], "structuredPatch": [hunk]}
    agent.tell("Edit", before["call_id"], response, **arguments)


def written_whole(agent: Agent, start: int) -> None:
    """Claude Code writes the file anew, with the copy; its answer is a diff that has the new lines from `start` on."""
    arguments = {"file_path": str(agent.cwd / "src/app.py"), "content": BLOCK + BLOCK + BELOW}
    lines = [f"+{line}" for line in (BLOCK + BLOCK).split("\n")[start - 1 : start + 3]]
    hunk = {"oldStart": start - 1, "oldLines": 0, "newStart": start, "newLines": 4, "lines": lines}
    agent.read("src/app.py")
    before = agent.ask("Write", **arguments)
    (agent.cwd / "src/app.py").write_text(arguments["content"])
    agent.tell("Write", before["call_id"], {"type": "update", "structuredPatch": [hunk], **arguments}, **arguments)


def hunks(agent: Agent) -> tuple[Any, Any]:
    """The hunks of the newest record, and whether it calls them told."""
    [file] = records(agent.cwd, "mutation")[-1]["metadata"][KEY]["files"]
    return file["hunks"], file.get("told")


def test_a_copy_that_a_patch_puts_above_the_original_is_the_new_one(agent: Agent) -> None:
    patched(agent)
    assert hunks(agent) == ([[0, 0, 1, 4]], True)
    commit(agent.cwd)
    assert sessions(agent.cwd, "src/app.py") == [AGENTS] * 4 + [PERSONS] * 6


@pytest.mark.parametrize("start", [1, 5])
def test_an_answer_that_took_the_copy_for_the_original_is_put_right(agent: Agent, start: int) -> None:
    edited(agent, start)
    assert hunks(agent) == ([[0, 0, 1, 4]], True)
    commit(agent.cwd)
    assert sessions(agent.cwd, "src/app.py") == [AGENTS] * 4 + [PERSONS] * 6


@pytest.mark.parametrize("start", [1, 3, 5])
def test_of_a_file_written_as_a_whole_git_tells_which_lines_are_new(agent: Agent, start: int) -> None:
    """The answer to such a call is a diff as well, and another one than that of `git blame`."""
    written_whole(agent, start)
    assert hunks(agent)[1] is None
    commit(agent.cwd)
    assert sessions(agent.cwd, "src/app.py") == [PERSONS] * 4 + [AGENTS] * 4 + [PERSONS] * 2


def test_an_answer_that_took_one_empty_line_for_another_is_put_right_there_alone(agent: Agent) -> None:
    """Between two replacements an empty line stays. The answer keeps another one, and a line within the first."""
    path = agent.cwd / "src/app.py"
    path.write_text("one\nkept = 1\ntwo\n\nthree\n")
    commit(agent.cwd)
    first, second = ("one\nkept = 1\ntwo", "ONE\n\nONE_MORE\nkept = 1\nTWO"), ("three", "THREE")
    edits = [{"old_string": a, "new_string": b} for a, b in (first, second)]
    arguments: dict[str, Any] = {"file_path": str(path), "edits": edits}
    agent.read("src/app.py")
    before = agent.ask("MultiEdit", **arguments)
    path.write_text("ONE\n\nONE_MORE\nkept = 1\nTWO\n\nTHREE\n")
    lines = ["-one", "+ONE", "+", "+ONE_MORE", " kept = 1", "-two", "-", "-three", "+TWO", "+", "+THREE"]
    hunk = {"oldStart": 1, "oldLines": 5, "newStart": 1, "newLines": 7, "lines": lines}
    agent.tell("MultiEdit", before["call_id"], {"filePath": str(path), "structuredPatch": [hunk]}, **arguments)
    assert hunks(agent) == ([[1, 1, 1, 3], [3, 1, 5, 1], [5, 1, 7, 1]], True)


def test_where_somebody_else_wrote_too_the_arguments_tell_no_places(agent: Agent) -> None:
    patched(agent, "the_person_typed_this = 1\n")
    assert hunks(agent)[1] is None
    assert sessions(agent.cwd, "src/app.py")[-1] is PERSONS


def test_the_original_stays_the_agents_who_wrote_it(agent: Agent) -> None:
    agent.write("src/app.py", BELOW)
    commit(agent.cwd)
    agent.write("src/app.py", BLOCK + BELOW)
    commit(agent.cwd)
    other = Agent(agent.cwd, agent.home, "session-2")
    other.select()
    edited(other, 5)
    commit(agent.cwd)
    assert sessions(agent.cwd, "src/app.py") == ["session-2"] * 4 + ["session-1"] * 4 + [PERSONS] * 2


def test_lines_that_only_stand_elsewhere_now_keep_what_git_says(agent: Agent) -> None:
    edited(agent, 5)
    commit(agent.cwd)
    path = agent.cwd / "src/app.py"
    path.write_text("import sys\n\n" + path.read_text())
    commit(agent.cwd)
    assert sessions(agent.cwd, "src/app.py", "-L3,10") == [AGENTS] * 4 + [PERSONS] * 4


def test_a_copy_of_what_a_person_wrote_leaves_them_their_lines(agent: Agent) -> None:
    (agent.cwd / "src/app.py").write_text(BELOW)
    commit(agent.cwd)
    agent.send("UserPromptSubmit", prompt="go on")
    (agent.cwd / "src/app.py").write_text(BLOCK + BELOW)
    agent.send("UserPromptSubmit", prompt="copy it")
    commit(agent.cwd)
    edited(agent, 5)
    commit(agent.cwd)
    found = [line.origin for line in blame(agent.cwd, "src/app.py")]
    assert ("human" not in found[:4], found[4:7]) == (True, ["human"] * 3)

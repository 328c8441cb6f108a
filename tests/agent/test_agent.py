"""Remit's own agent with its own tools: a whole task, a command that is cancelled, and what the records say."""

from pathlib import Path

import pytest

from agent.driving import drive, lines_of, results, scripted
from conftest import run_git
from gate.driving import body, governed, machine, overlay, records
from remit.core.assignment import Assignment
from remit.rehearsal.scripted_model import Say, Use
from remit.workspace.place.assignment_file import AssignmentFile
from remit.workspace.place.workspace import locate_workspace
from remit_agent.models.providers import InProcessModel
from remit_agent.session.journal.lines import EndedLine
from remit_agent.session.offer import AgentToolbox
from remit_agent.session.session import Session, SessionOptions
from remit_agent.tools.gate_access import GateAccess

CITED = {"intent_id": "INT-001", "mutation_class": "BUG_FIX"}


@pytest.fixture
def folder(repository: Path, home: Path) -> Path:
    (repository / "src" / "make.sh").write_text("echo made > src/made.txt; echo no > outside.txt\n")
    root = governed(repository)
    overlay(home)
    return root


def make_toolbox(access: GateAccess) -> AgentToolbox:
    return AgentToolbox(access.gate)


async def begin(folder: Path, home: Path, model: InProcessModel) -> Session:
    options = SessionOptions(task="Mend it", until_completion=True)
    return await Session.open(folder, options, provider=model, make_toolbox=make_toolbox, environment=machine(home))


def test_a_task_from_selecting_its_intent_to_its_verified_end(folder: Path, home: Path) -> None:
    model = scripted(
        Use("select_active_intent", {"intent_id": "INT-001"}, "c1"),
        (Use("read_file", {"path": "src/app.py"}, "c2"), Use("list_files", {"path": "."}, "c3")),
        Use("edit", {"file_path": "src/app.py", "old_string": "return 1", "new_string": "return 2", **CITED}, "c4"),
        Use("execute_command", {"command": "sh src/make.sh"}, "c5"),
        Use("attempt_completion", {"result": "It returns 2."}, "c6"),
    )

    async def work() -> None:
        async with await begin(folder, home, model) as session:
            await session.wait_until_idle()
            found = results(lines_of(session))
            assert {key: line.kind for key, line in found.items()} == dict.fromkeys(
                ("c1", "c2", "c3", "c4", "c5", "c6"), "done"
            )
            assert "outside.txt" in found["c5"].told
            ended = lines_of(session)[-1]
            assert isinstance(ended, EndedLine)
            assert (ended.state, ended.reason) == ("completed", "It returns 2.")

    drive(work)
    assert "return 2" in (folder / "src/app.py").read_text()
    assert (folder / "src/made.txt").read_text() == "made\n"
    assert not (folder / "outside.txt").exists()
    found = [body(record) for record in records(folder)]
    mutations = [b for b in found if b["event"] == "mutation"]
    assert {b["intent_id"] for b in mutations} == {"INT-001"}
    assert {b["call"]["id"] for b in mutations} == {"c4", "c5"}
    assert not [b for b in found if b["event"] == "human_edit"]


@pytest.mark.parametrize("verdict", [(), (Use("submit_review", {"verdict": "revise", "findings": "no b"}, "c1"),)])
def test_a_task_in_an_assigned_worktree_completes_and_keeps_its_intent(
    folder: Path, home: Path, verdict: tuple[Use, ...]
) -> None:
    """A verdict ends the stage, whatever the criteria say."""
    if verdict:  # INT-002 is a child that is open
        path = folder / ".orchestration/active_intents.yaml"
        path.write_text(path.read_text().replace("name: Docs", "name: Docs\n    parent_intent: INT-001"))
    place = folder.parent / "attempt"
    run_git(folder, "worktree", "add", "-q", "-b", "remit/INT-001/1", str(place))
    found = locate_workspace(place)
    assert found is not None
    AssignmentFile(found).write(Assignment("p:INT-001", "INT-001", 1, 1, ("src/**",)), 60)
    model = scripted(*verdict, Use("attempt_completion", {"result": "It is done."}, "c9"))

    async def work() -> None:
        async with await begin(place, home, model) as session:
            await session.wait_until_idle()
            ended = lines_of(session)[-1]
            assert isinstance(ended, EndedLine)
            assert (ended.state, ended.reason) == ("completed", "It is done.")

    drive(work)
    assert not [record for record in records(folder) if body(record)["event"] == "intent_cleared"]


def test_a_mode_and_a_task_narrow_what_may_be_changed(folder: Path, home: Path) -> None:
    """A child in the mode of an architect, narrowed to a folder, writes Markdown in that folder only."""

    def write(path: str, id: str) -> Use:
        return Use("write_to_file", {"path": path, "content": "x\n", **CITED}, id)

    child = [
        write("src/sub/a.md", "w1"),
        write("src/sub/a.py", "w2"),
        write("src/a.md", "w3"),
        Use("attempt_completion", {"result": "planned"}, "w4"),
    ]
    task = {"mode": "architect", "message": "CHILD: plan", "scope": ["src/sub/**"]}
    model = scripted(
        Use("select_active_intent", {"intent_id": "INT-001"}, "c1"),
        Use("new_task", task, "c2"),
        write("src/b.py", "c3"),
        Use("attempt_completion", {"result": "done"}, "c4"),
        children={"CHILD": child},
    )

    async def work() -> None:
        async with await begin(folder, home, model) as session:
            await session.wait_until_idle()
            assert results(lines_of(session))["c2"].text == "planned"
            assert results(lines_of(session))["c3"].kind == "done"

    drive(work)
    assert [(folder / path).exists() for path in ("src/sub/a.md", "src/sub/a.py", "src/a.md", "src/b.py")] == [
        True,
        False,
        False,
        True,
    ]


def test_a_command_that_ignores_sigterm_is_cancelled_and_leaves_nothing_open(folder: Path, home: Path) -> None:
    command = {"command": "trap '' TERM; echo begun; tail -f /dev/null; echo late > src/late.txt"}
    model = scripted(
        Use("select_active_intent", {"intent_id": "INT-001"}, "c1"),
        (Use("execute_command", command, "c2"), Use("read_file", {"path": "src/app.py"}, "c3")),
        Say("Stopped."),
    )

    async def work() -> None:
        async with await begin(folder, home, model) as session:
            async for event in session.events():
                if event.event == "output":
                    break
            await session.cancel()
            await session.wait_until_idle()
            found = results(lines_of(session))
            assert (found["c2"].kind, found["c3"].kind) == ("cancelled", "cancelled")
            assert session.run.access.gate.state.list_open_calls() == []

    drive(work)
    assert not (folder / "src/late.txt").exists()

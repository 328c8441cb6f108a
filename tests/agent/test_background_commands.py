"""Commands of Remit's own agent that run longer than their call says: they go on in the background."""

import asyncio
import os
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from agent.driving import drive, lines_of, results, scripted
from gate.driving import body, governed, machine, overlay, records
from remit.rehearsal.scripted_model import ModelRequest, Say, Use
from remit_agent.models.providers import InProcessModel
from remit_agent.session.events import RunEvent
from remit_agent.session.journal.file import read_journal
from remit_agent.session.journal.history import RunHistory
from remit_agent.session.journal.lines import AnyLine, CommandEndedLine, EndedLine
from remit_agent.session.offer import AgentToolbox
from remit_agent.session.session import Session, SessionOptions
from remit_agent.tools.gate_access import GateAccess
from stepped_clock import SteppedClock

SELECT = Use("select_active_intent", {"intent_id": "INT-001"}, "c1")
TIMEOUT_S = 10.0
ENDLESS = "echo begun; tail -f /dev/null"
DONE = Use("attempt_completion", {"result": "Done."}, "c9")


@pytest.fixture
def folder(repository: Path, home: Path) -> Path:
    os.mkfifo(home / "go")
    script = f"echo begun; read -r _ < {home}/go; echo made > src/made.txt; echo no > outside.txt"
    (repository / "src" / "make.sh").write_text(script + "\n")
    root = governed(repository)
    overlay(home)
    return root


def make_toolbox(access: GateAccess) -> AgentToolbox:
    return AgentToolbox(access.gate)


def execute(command: str, call_id: str, timeout: float = TIMEOUT_S) -> Use:
    return Use("execute_command", {"command": command, "timeout": timeout}, call_id)


def ends(session: Session) -> dict[str, CommandEndedLine]:
    return {line.id: line for line in lines_of(session) if isinstance(line, CommandEndedLine)}


def run_session(
    folder: Path, home: Path, model: InProcessModel, check: Callable[[Session], Awaitable[None]], *, whole: bool = True
) -> None:
    async def work() -> None:
        options = SessionOptions(task="Mend it", until_completion=whole)
        async with await open_session(folder, home, options, model) as session:
            await session.wait_until_idle()
            await check(session)

    drive(work)


async def open_session(folder: Path, home: Path, options: SessionOptions, model: InProcessModel) -> Session:
    """Open a session whose clock stands still until a command prints something: then its time is over."""
    clock = SteppedClock()
    session = await Session.open(
        folder, options, provider=model, make_toolbox=make_toolbox, environment=machine(home), clock=clock.now
    )

    def take(event: RunEvent) -> None:
        if event.event == "output":
            clock.advance(TIMEOUT_S)

    session.run.listeners.append(take)
    return session


def test_a_long_command_goes_on_while_the_agent_works_and_is_recorded_once(folder: Path, home: Path) -> None:
    model = scripted(
        SELECT,
        execute(ENDLESS, "c2"),
        Use("write_to_file", {"path": "src/other.py", "content": "x = 1\n", "intent_id": "INT-001",
                              "mutation_class": "INTENT_EVOLUTION", "expected_content_hash": None}, "c3"),
        Use("read_command_output", {"artifact_id": "cmd-c2.txt"}, "c4"),
        Use("stop_command", {"artifact_id": "cmd-c2.txt"}, "c5"),
        DONE,
    )  # fmt: skip

    async def check(session: Session) -> None:
        found = results(lines_of(session))
        assert {key: line.kind for key, line in found.items()} == dict.fromkeys(
            ("c1", "c2", "c3", "c4", "c5", "c9"), "done"
        )
        assert found["c2"].goes_on
        assert "goes on in the background" in found["c2"].text
        assert found["c2"].text.endswith("begun\n")
        assert "it still runs\nbegun" in found["c4"].text
        assert found["c5"].text == "cmd-c2.txt has ended."
        assert "Ended: it was cancelled" in ends(session)["c2"].text
        told = [item for item in session.run.history.items if "background with the output cmd-c2.txt" in str(item)]
        assert len(told) == 1

    run_session(folder, home, model, check)
    calls = [body(record)["call"] for record in records(folder, "tool_result")]
    assert [call["id"] for call in calls].count("c2") == 1


def test_what_it_wrote_is_judged_at_its_end(folder: Path, home: Path) -> None:
    def wait_for_its_end(_: ModelRequest) -> Use:
        (home / "go").write_text("\n")
        return Use("read_command_output", {"artifact_id": "cmd-c2.txt", "wait": 200}, "c3")

    model = scripted(
        SELECT,
        execute("sh src/make.sh", "c2"),
        wait_for_its_end,
        DONE,
    )

    async def check(session: Session) -> None:
        assert results(lines_of(session))["c2"].goes_on
        end = ends(session)["c2"]
        assert end.text.startswith("Exit code 0")
        assert "outside.txt" in end.told

    run_session(folder, home, model, check)
    assert (folder / "src" / "made.txt").read_text() == "made\n"
    assert not (folder / "outside.txt").exists()


def test_the_end_of_the_task_ends_what_runs_in_the_background(folder: Path, home: Path) -> None:
    model = scripted(SELECT, execute(ENDLESS, "c2"), DONE)

    async def check(session: Session) -> None:
        assert "Ended: it was cancelled" in ends(session)["c2"].text
        lines = lines_of(session)
        assert isinstance(lines[-1], EndedLine)
        assert session.run.access.gate.state.list_open_calls() == []

    run_session(folder, home, model, check)


def test_the_fifth_command_is_ended_at_its_time(folder: Path, home: Path) -> None:
    commands = [execute(f"{ENDLESS} {n}", f"b{n}") for n in range(5)]
    model = scripted(SELECT, *commands, DONE)

    async def check(session: Session) -> None:
        found = results(lines_of(session))
        assert [found[f"b{n}"].goes_on for n in range(5)] == [True, True, True, True, False]
        assert "4 others run in the background" in found["b4"].told
        assert sorted(ends(session)) == ["b0", "b1", "b2", "b3"]

    run_session(folder, home, model, check)


def test_a_cancel_ends_it_and_nothing_stays_open(folder: Path, home: Path) -> None:
    model = scripted(SELECT, execute(ENDLESS, "c2"), Say("I wait."))

    async def check(session: Session) -> None:
        assert session.run.background
        await session.cancel()
        await session.run.stop_background()
        assert "c2" in ends(session)
        assert session.run.access.gate.state.list_open_calls() == []

    run_session(folder, home, model, check, whole=False)


def test_a_run_that_was_killed_says_that_its_command_ended(folder: Path, home: Path) -> None:
    """The journal is cut behind the call's result, as a killed process leaves it; the gate's call is open."""
    model = scripted(SELECT, execute(ENDLESS, "c2"), Say("I wait."), Say("I see."))
    kept: list[AnyLine] = []

    async def work() -> None:
        options = SessionOptions(task="Mend it")
        session = await open_session(folder, home, options, model)
        await session.wait_until_idle()
        path = session.run.folder.journal_path
        before = path.read_bytes()
        await session.close()
        path.write_bytes(before)
        again = await Session.resume(
            folder, session.run.folder.id, options, provider=model, make_toolbox=make_toolbox, environment=machine(home)
        )
        async with again:
            await again.send("Go on")
            await again.wait_until_idle()
            kept.extend(read_journal(again.run.folder))

    drive(work)
    [end] = [line for line in kept if isinstance(line, CommandEndedLine)]
    assert (end.id, end.kind) == ("c2", "interrupted")
    assert RunHistory(kept).background == {}


def test_what_does_not_run_cannot_be_stopped(folder: Path, home: Path) -> None:
    model = scripted(SELECT, Use("stop_command", {"artifact_id": "cmd-c7.txt"}, "c2"), Say("So."), Say("So."))

    async def check(session: Session) -> None:
        assert results(lines_of(session))["c2"].error == "NO_SUCH_OUTPUT"
        await asyncio.sleep(0)

    run_session(folder, home, model, check, whole=False)

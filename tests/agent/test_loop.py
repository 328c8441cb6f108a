"""The loop of Remit's own agent on a scripted model: turns, results, ends, limits, cancels."""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from agent.driving import (
    TOOLS,
    FewTools,
    Nothing,
    drive,
    kinds,
    lines_of,
    open_session,
    results,
    run_session,
    scripted,
    shown_results,
)
from gate.driving import body, governed, machine, records
from remit.rehearsal.scripted_model import Say, Use
from remit_agent.models.messages import ModelTurn, TextPart
from remit_agent.models.port import Delta, ProviderError, TextDelta, ToolSchema, WholeTurn
from remit_agent.session.journal.lines import EndedLine, ResultLine, RunLimits
from remit_agent.session.run import PersonReply
from remit_agent.session.session import Session, SessionOptions
from remit_agent.tools.tool import HostTool


@pytest.fixture
def folder(repository: Path) -> Path:
    return governed(repository)


def write(path: str, content: str, id: str | None = None) -> Use:
    return Use(
        "write_to_file", {"path": path, "content": content, "intent_id": "INT-001", "mutation_class": "BUG_FIX"}, id
    )


DONE = Use("attempt_completion", {"result": "all done"}, "done")


def test_a_task_is_read_written_completed_and_recorded(folder: Path, home: Path) -> None:
    model = scripted(Use("read_file", {"path": "src/app.py"}, "r1"), write("src/new.py", "x = 1\n", "w1"), DONE)
    lines = run_session(folder, home, model, task="Add x", intent="INT-001", until_completion=True)
    assert (folder / "src/new.py").read_text() == "x = 1\n"
    assert [result.kind for result in results(lines).values()] == ["done", "done", "done"]
    ended = lines[-1]
    assert isinstance(ended, EndedLine)
    assert (ended.state, ended.reason) == ("completed", "all done")
    found = [body(record) for record in records(folder)]
    assert [b["event"] for b in found if b.get("call", {}).get("id") == "w1"] == ["tool_use", "mutation", "tool_result"]
    assert "return 1" in shown_results(model)["r1"].text


def test_a_denial_is_the_result_of_its_call(folder: Path, home: Path) -> None:
    model = scripted(write("docs/x.md", "no\n", "w1"), DONE)
    lines = run_session(folder, home, model, task="x", intent="INT-001", until_completion=True)
    assert results(lines)["w1"].kind == "denied"
    assert results(lines)["w1"].error == "SCOPE_VIOLATION"
    assert "SCOPE_VIOLATION" in results(lines)["w1"].text or "scope" in results(lines)["w1"].text.lower()
    assert not (folder / "docs/x.md").exists()


def test_words_without_a_call_are_the_answer_in_a_conversation(folder: Path, home: Path) -> None:
    async def work() -> None:
        async with await open_session(folder, home, scripted(Say("Hello."), Say("Again."))) as session:
            for words in ("Hi", "And?"):
                await session.send(words)
                await session.wait_until_idle()
            assert [k for k in kinds(lines_of(session)) if k in ("user", "turn", "ended")] == ["user", "turn"] * 2

    drive(work)


def test_a_task_without_a_call_gets_one_remark_and_ends_answered(folder: Path, home: Path) -> None:
    lines = run_session(
        folder, home, scripted(Say("It is 4."), Say("As I said: 4.")), task="2+2?", until_completion=True
    )
    ended = lines[-1]
    assert isinstance(ended, EndedLine)
    assert (ended.state, ended.reason) == ("answered", "As I said: 4.")


CARELESS: list[tuple[Use, str]] = [
    (Use("no_such_tool", {}), "UNKNOWN_TOOL"),
    (Use("read_fil", {"path": "x"}), "did you mean read_file"),
    (Use("read file\0", {"path": "x"}), "UNKNOWN_TOOL"),
    (Use("read_file", {"path": 7}), "INVALID_ARGUMENTS"),
    (Use("read_file", {"path": "none.py"}), "FILE_NOT_FOUND"),
    (Use("edit", {"path": "src/app.py", "old": "not there", "new": "x"}), "EDIT_NOT_FOUND"),
]


@pytest.mark.parametrize(("use", "code"), CARELESS)
def test_a_careless_call_is_told_what_is_wrong(use: Use, code: str, folder: Path, home: Path) -> None:
    lines = run_session(folder, home, scripted(use, DONE), task="x", until_completion=True)
    first = next(iter(results(lines).values()))
    assert first.kind == "failed"
    assert code in first.text


def test_ids_are_made_unique_and_each_call_has_one_result(folder: Path, home: Path) -> None:
    same = (Use("nothing", {}, "same"), Use("nothing", {}, "same"), Use("nothing", {}, "a b\0"))
    lines = run_session(
        folder, home, scripted(same, (Use("nothing", {}, "same"), DONE)), task="x", until_completion=True
    )
    ids = [line.id for line in lines if isinstance(line, ResultLine)]
    assert len(ids) == len(set(ids)) == 5


def test_reads_run_side_by_side_and_results_keep_the_order(folder: Path, home: Path) -> None:
    for number in range(8):
        (folder / f"src/f{number}.py").write_text(f"{number}\n")
    reads = tuple(Use("read_file", {"path": f"src/f{n}.py"}, f"r{n}") for n in range(8))
    model = scripted((*reads, write("src/a.py", "a\n", "w")), DONE)
    run_session(folder, home, model, task="x", intent="INT-001", until_completion=True)
    assert [*shown_results(model)][:9] == [*(f"r{n}" for n in range(8)), "w"]


def test_what_follows_the_end_of_a_turn_is_not_run(folder: Path, home: Path) -> None:
    lines = run_session(
        folder,
        home,
        scripted((DONE, write("src/late.py", "x\n", "late"))),
        task="x",
        intent="INT-001",
        until_completion=True,
    )
    assert results(lines)["late"].kind == "skipped"
    assert not (folder / "src/late.py").exists()


def test_a_call_that_must_stand_alone_is_refused_beside_others(folder: Path, home: Path) -> None:
    both = (Use("nothing", {}), Use("new_task", {"message": "x"}, "t"))
    lines = run_session(folder, home, scripted(both, DONE), task="x", until_completion=True)
    assert results(lines)["t"].error == "NOT_ALONE"


def test_a_mode_does_not_offer_what_it_lacks(folder: Path, home: Path) -> None:
    model = scripted(write("src/a.py", "a\n", "w"), DONE)
    lines = run_session(folder, home, model, task="x", intent="INT-001", mode="ask", until_completion=True)
    assert results(lines)["w"].error == "UNAVAILABLE"


@pytest.mark.parametrize("cycle", range(1, 7))
def test_a_cycle_of_calls_is_not_run_a_fourth_time(cycle: int, folder: Path, home: Path) -> None:
    uses = [Use("read_file", {"path": "src/app.py"}) if n == 0 else write("src/a.py", f"{n}\n") for n in range(cycle)]
    script = [*uses * 3, uses[0], uses[0]]
    lines = run_session(
        folder, home, scripted(*script), task="x", intent="INT-001", until_completion=True, has_person=False
    )
    found = [*results(lines).values()]
    assert [r.error for r in found] == [""] * (3 * cycle) + ["REPEATED"] * 2
    ended = lines[-1]
    assert isinstance(ended, EndedLine)
    assert ended.state == "stuck"


def test_three_mistakes_in_a_row_are_a_question_to_the_person(folder: Path, home: Path) -> None:
    async def work() -> None:
        wrong = [Use("no_such_tool", {"n": n}) for n in range(3)]
        async with await open_session(folder, home, scripted(*wrong, DONE), task="x", until_completion=True) as session:
            async for event in session.events():
                if event.event == "question":
                    assert await session.answer(event.data.id, PersonReply("use another tool"))
                if event.event == "ended":
                    assert event.data.state == "completed"
                    return

    drive(work)


def test_a_limit_of_turns_stops_the_run(folder: Path, home: Path) -> None:
    script = [
        Use(
            "read_file",
            {
                "path": "src/app.py",
            },
            f"r{n}",
        )
        for n in range(2)
    ] * 3
    lines = run_session(folder, home, scripted(*script), task="x", limits=RunLimits(max_turns=3), until_completion=True)
    ended = lines[-1]
    assert isinstance(ended, EndedLine)
    assert (ended.state, kinds(lines).count("turn")) == ("stopped", 3)


class SlowModel:
    """A model that says a word, then nothing any more."""

    id, window = "test:slow", None

    @asynccontextmanager
    async def stream(self, request: Any) -> AsyncGenerator[AsyncIterator[Delta]]:
        yield self.answer()

    async def answer(self) -> AsyncIterator[Delta]:
        yield TextDelta("Well, ")
        await asyncio.Event().wait()


def test_a_cancel_while_streaming_is_idle_at_once_and_keeps_the_text(folder: Path, home: Path) -> None:
    async def work() -> None:
        async with await open_session(folder, home, SlowModel(), task="x") as session:
            async for event in session.events():
                if event.event == "text":
                    break
            await session.cancel()
            await session.wait_until_idle()
            turn = session.run.history.last_turn
            assert turn is not None
            assert (turn.text, turn.stop) == ("Well, ", "cancelled")

    drive(work)


def test_a_cancel_before_the_request_goes_out_asks_no_model(folder: Path, home: Path) -> None:
    class Cancelling(FewTools):
        def list_schemas(self, mode: str, model: str) -> tuple[ToolSchema, ...]:
            session.run.cancel_turn()
            return super().list_schemas(mode, model)

    session: Session

    async def work() -> None:
        nonlocal session
        model = SlowModel()
        session = await Session.open(
            folder, SessionOptions(), provider=model, make_toolbox=Cancelling, environment=machine(home)
        )
        async with session:
            await session.send("Begin")
            await session.wait_until_idle()
            turn = session.run.history.last_turn
            assert turn is not None
            assert (turn.text, turn.stop) == ("", "cancelled")

    drive(work)


class FlakyModel(SlowModel):
    """A model that fails twice, then answers."""

    def __init__(self, *errors: ProviderError) -> None:
        self.errors = [*errors]

    async def answer(self) -> AsyncIterator[Delta]:
        yield TextDelta("part")
        if self.errors:
            raise self.errors.pop(0)
        yield WholeTurn(ModelTurn((TextPart("whole"),), "end", cost=0.0))


def test_a_failed_request_is_tried_again_and_its_text_retracted(folder: Path, home: Path) -> None:
    async def work() -> None:
        errors = [ProviderError("overloaded", "busy", 0.01), ProviderError("truncated", "cut", 0.01)]
        async with await open_session(folder, home, FlakyModel(*errors), task="x") as session:
            seen: list[str] = []
            async for event in session.events():
                seen.append(event.event)
                if event.event == "turn":
                    break
            assert [s for s in seen if s in ("retracted", "waiting")] == ["retracted", "waiting"] * 2
            assert session.run.history.last_turn is not None
            assert session.run.history.last_turn.text == "whole"

    drive(work)


def test_a_wrong_key_is_not_tried_again(folder: Path, home: Path) -> None:
    lines = run_session(folder, home, FlakyModel(ProviderError("auth", "no such key")), task="x", until_completion=True)
    ended = lines[-1]
    assert isinstance(ended, EndedLine)
    assert (ended.state, ended.reason) == ("failed", "auth: no such key")


def test_a_tool_that_breaks_fails_its_own_call_only(folder: Path, home: Path) -> None:
    def broken(*_: Any) -> Any:
        raise RuntimeError("a defect")

    tools = (*TOOLS, HostTool("broken", Nothing, "mode", broken))
    lines = run_session(
        folder,
        home,
        scripted((Use("broken", {}, "b"), Use("nothing", {}, "n")), DONE),
        task="x",
        tools=tools,
        until_completion=True,
    )
    assert results(lines)["b"].kind == "failed"
    assert "RuntimeError: a defect" in results(lines)["b"].text
    assert results(lines)["n"].kind == "done"

"""The session API: words in, events out, questions, modes, children, forks, and runs taken up again."""

import asyncio
import json
import os
import shutil
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
from msgspec.structs import replace

from agent.driving import (
    TOOLS,
    Nothing,
    drive,
    kinds,
    lines_of,
    open_session,
    results,
    resume_session,
    run_session,
    scripted,
    step_by_results,
)
from gate.driving import governed, machine
from remit.core.record import Body
from remit.gate.gate import Gate
from remit.gate.perform import ToolOutput, WorkspaceAccess
from remit.rehearsal.scripted_model import ModelRequest, Say, ScriptedModel, Use
from remit.workspace.place.workspace import locate_workspace
from remit_agent.models.messages import CallResult, ModelTurn, TextPart, UserInput
from remit_agent.models.port import CompletionRequest, Delta, ProviderError, WholeTurn
from remit_agent.models.providers import InProcessModel
from remit_agent.session.context import take_summary
from remit_agent.session.journal.file import RunDirectory, list_runs, read_journal
from remit_agent.session.journal.history import RunHistory
from remit_agent.session.journal.lines import EndedLine, LessonOfferedLine, RunLimits, RunLine, TailLine, UserLine
from remit_agent.session.run import PersonReply
from remit_agent.session.session import Session, fork_run
from remit_agent.tools.tool import HostTool, PreparedCall, ToolContext, ToolFailure

DONE = Use("attempt_completion", {"result": "all done"}, "done")


@pytest.fixture
def folder(repository: Path) -> Path:
    return governed(repository)


def write(path: str, content: str, id: str | None = None) -> Use:
    return Use("write_to_file", {"path": path, "content": content}, id)


def test_messages_of_a_request_begin_with_those_of_the_request_before(folder: Path, home: Path) -> None:
    """Over 200 turns, with words of a person, tails and changed files between them, nothing that was sent changes."""
    steps: list[Any] = []
    for n in range(200):
        steps.append(
            (
                Use("read_file", {"path": "README.md" if n else "src/app.py"}, f"r{n}"),
                write(f"src/f{n % 5}.py", f"{n}\n", f"w{n}"),
            )
        )

    async def work() -> None:
        model = scripted(*steps, Say("That was it."))
        async with await open_session(
            folder, home, model, intent="INT-001", limits=RunLimits(max_turns=500)
        ) as session:
            await session.send("Begin")
            turns = 0
            async for event in session.events():
                turns += event.event == "turn"
                if event.event == "turn" and turns % 20 == 0:
                    await session.send(f"and {turns}")
                    (folder / "src" / "app.py").write_text(f"changed = {turns}\n")
                if event.event == "turn" and not event.data.turn.calls:
                    break
        assert len(model.requests) >= 200
        for before, after in zip(model.requests, model.requests[1:], strict=False):
            assert after.conversation[: len(before.conversation)] == before.conversation
            assert (after.system, after.tools) == (before.system, before.tools)
        tails = [line.text for line in lines_of(session) if isinstance(line, TailLine)]
        assert sum("src/app.py" in text and "changed = " in text for text in tails) >= 2

    drive(work)


def test_a_face_that_lost_its_connection_asks_again_from_its_last_number(folder: Path, home: Path) -> None:
    async def work() -> None:
        async with await open_session(folder, home, scripted(Say("One."), Say("Two."))) as session:
            await session.send("Hi")
            await session.wait_until_idle()
            seen = [(e.event, e.n) for e in await take(session, 3)]
            assert [name for name, _ in seen] == ["started", "input", "turn"]
            await session.send("And?")
            await session.wait_until_idle()
            again = [e for e in await take(session, 2, after=seen[-1][1])]
            assert [e.event for e in again] == ["input", "turn"]
            assert all(e.n > seen[-1][1] for e in again)

    async def take(session: Session, count: int, after: int = 0) -> list[Any]:
        found: list[Any] = []
        async for event in session.events(after):
            found.append(event)
            if len(found) == count:
                break
        return found

    drive(work)


def test_words_sent_meanwhile_are_delivered_before_the_next_request(folder: Path, home: Path) -> None:
    async def work() -> None:
        session: Session

        def first(_: ModelRequest) -> Any:
            session.run.loop.call_soon(lambda: asyncio.ensure_future(session.send("Use tabs.")))
            return Use("nothing", {}, "n")

        model = scripted(first, Say("I do."))
        async with await open_session(folder, home, model) as session:
            await session.send("Begin")
            await session.wait_until_idle()
            items = model.requests[-1].conversation
            assert isinstance(items[-1], UserInput)
            assert items[-1].text == "Use tabs."
            assert isinstance(items[-2], CallResult)

    drive(work)


def test_words_for_later_wait_for_the_end_of_the_turn(folder: Path, home: Path) -> None:
    async def work() -> None:
        session: Session
        is_asked = asyncio.Event()

        def third(_: ModelRequest) -> Any:
            session.run.loop.call_soon_threadsafe(is_asked.set)
            return Say("Second.")

        model = scripted(Use("nothing", {}, "n"), Say("First."), third)
        async with await open_session(folder, home, model) as session:
            session.later.append("Then this.")
            await session.send("Begin")
            await is_asked.wait()
            texts = [item.text for item in model.requests[2].conversation if isinstance(item, UserInput)]
            assert texts == ["Begin", "Then this."]

    drive(work)


def test_a_question_is_answered_by_a_face(folder: Path, home: Path) -> None:
    async def work() -> None:
        model = scripted(Use("ask", {"question": "Tabs?"}, "q"), DONE)
        async with await open_session(folder, home, model, task="x", until_completion=True) as session:
            async for event in session.events():
                if event.event == "question":
                    assert (event.data.kind, event.data.text, event.data.call) == ("followup", "Tabs?", "q")
                    assert await session.answer(event.data.id, PersonReply("Spaces."))
                    assert not await session.answer("q999", PersonReply("?"))
                if event.event == "ended":
                    break
            assert results(lines_of(session))["q"].text == "Spaces."

    drive(work)


def test_others_have_the_turn_while_a_person_thinks_about_a_tool_of_remit(folder: Path, home: Path) -> None:
    """The tool works on the gate itself, and so holds the turn but for its question."""

    def ask(context: ToolContext, _: Nothing) -> PreparedCall:
        call = replace(context.new_call(), effect="meta", remit_tool="propose_intent")

        def act(_: WorkspaceAccess) -> ToolOutput:
            with context.take_turn(), context.take_turn():
                return ToolOutput(True, context.talk.ask_person("Well?", ()) or "")

        return PreparedCall(call, act)

    async def work() -> None:
        tools = (*TOOLS, HostTool("propose", Nothing, "intent", ask))
        model = scripted(Use("propose", {}, "p"), DONE)
        async with await open_session(folder, home, model, task="x", tools=tools, until_completion=True) as session:
            async for event in session.events():
                if event.event == "question":
                    assert await session.run.access.run(lambda gate: gate.is_governed)
                    await session.answer(event.data.id, PersonReply("Well."))
                if event.event == "ended":
                    break
            assert results(lines_of(session))["p"].text == "Well."

    drive(work)


def test_without_a_person_the_model_decides(folder: Path, home: Path) -> None:
    model = scripted(Use("ask", {"question": "Tabs?"}, "q"), DONE)
    lines = run_session(folder, home, model, task="x", until_completion=True, has_person=False)
    assert results(lines)["q"].text == "decide yourself"
    assert "question" not in kinds(lines)


def test_a_cancel_ends_a_question_without_an_answer(folder: Path, home: Path) -> None:
    async def work() -> None:
        model = scripted((Use("ask", {"question": "Tabs?"}, "q"), Use("nothing", {}, "n")), Say("Yes?"))
        async with await open_session(folder, home, model, task="x") as session:
            async for event in session.events():
                if event.event == "question":
                    await session.cancel()
                    break
            await session.wait_until_idle()
            assert results(lines_of(session))["q"].error == "CANCELLED"
            assert results(lines_of(session))["n"].kind == "cancelled"
            await session.send("Go on")
            await session.wait_until_idle()
            assert session.run.history.last_turn is not None
            assert session.run.history.last_turn.text == "Yes?"

    drive(work)


def test_a_cancel_right_after_the_words_is_not_lost(folder: Path, home: Path) -> None:
    async def work() -> None:
        model = scripted(Use("nothing", {}, "n"), Say("Here."))
        async with await open_session(folder, home, model) as session:
            await session.send("Begin")
            await session.cancel()
            await session.wait_until_idle()
            assert model.requests == []
            await session.send("Now do")
            await session.wait_until_idle()
            assert session.run.history.last_turn is not None
            assert session.run.history.last_turn.text == "Here."

    drive(work)


@pytest.mark.parametrize(("words", "mode"), [("yes", "code"), ("rather not", "ask")])
def test_a_wider_mode_asks_a_person(words: str, mode: str, folder: Path, home: Path) -> None:
    async def work() -> None:
        model = scripted(Use("switch_mode", {"mode_slug": "code"}, "m"), DONE)
        async with await open_session(folder, home, model, task="x", mode="ask", until_completion=True) as session:
            async for event in session.events():
                if event.event == "question":
                    await session.answer(event.data.id, PersonReply(words))
                if event.event == "ended":
                    break
            assert session.run.history.mode == mode
            assert f"mode {mode}" in model.requests[-1].system

    drive(work)


def test_another_model_goes_on_with_the_conversation(folder: Path, home: Path) -> None:
    async def work() -> None:
        other = InProcessModel(ScriptedModel([Say("Two.")]), id="scripted:other")
        async with await open_session(folder, home, scripted(Say("One."))) as session:
            await session.send("Hi")
            await session.wait_until_idle()
            await session.set_model(other)
            await session.send("And?")
            await session.wait_until_idle()
            assert session.run.history.model == "scripted:other"
            assert [i.text for i in other.requests[0].conversation if isinstance(i, ModelTurn)] == ["One."]

    drive(work)


def test_a_child_works_under_the_parents_intent_and_counts_in_its_limits(folder: Path, home: Path) -> None:
    child = [write("src/child.py", "c = 1\n", "cw"), Use("attempt_completion", {"result": "child done"}, "cd")]
    model = scripted(Use("new_task", {"message": "CHILD: write"}, "t"), DONE, children={"CHILD": child})
    lines = run_session(folder, home, model, task="x", intent="INT-001", until_completion=True)
    assert results(lines)["t"].text == "child done"
    assert (folder / "src/child.py").read_text() == "c = 1\n"
    workspace = locate_workspace(folder)
    assert workspace is not None
    (run,) = list_runs(workspace)
    (journal,) = (run.path / "children").rglob("run.jsonl")
    first = read_journal(RunDirectory(journal.parent))[0]
    assert isinstance(first, RunLine)
    assert first.parent is not None
    assert (first.parent.run, first.parent.call) == (run.id, "t")


def test_the_turns_of_children_reach_the_limit_of_the_root(folder: Path, home: Path) -> None:
    child = [Use("read_file", {"path": f"src/{n}.py"}, f"c{n}") for n in range(9)]
    model = scripted(Use("new_task", {"message": "CHILD: read"}, "t"), DONE, children={"CHILD": child})
    lines = run_session(folder, home, model, task="x", limits=RunLimits(max_turns=4), until_completion=True)
    assert "the limit of 4 turns" in results(lines)["t"].text
    ended = lines[-1]
    assert isinstance(ended, EndedLine)
    assert ended.state == "stopped"


def test_events_of_a_child_carry_its_id(folder: Path, home: Path) -> None:
    async def work() -> None:
        child = [Use("attempt_completion", {"result": "child done"}, "cd")]
        model = scripted(Use("new_task", {"message": "CHILD: x"}, "t"), DONE, children={"CHILD": child})
        async with await open_session(folder, home, model, task="x", until_completion=True) as session:
            seen: set[str] = set()
            async for event in session.events():
                if event.child:
                    seen.add(event.event)
                if event.event == "ended" and not event.child:
                    break
            assert {"started", "input", "turn", "call_ended", "ended"} <= seen

    drive(work)


def test_a_run_is_taken_up_again_with_its_conversation(folder: Path, home: Path) -> None:
    async def work() -> None:
        async with await open_session(folder, home, scripted(Say("One."))) as session:
            await session.send("Hi")
            await session.wait_until_idle()
            run_id = session.run.folder.id
        model = scripted(Say("Two."))
        async with await resume_session(folder, home, run_id, model) as again:
            await again.send("And?")
            await again.wait_until_idle()
        shown = [item.text for item in model.requests[0].conversation if isinstance(item, UserInput | ModelTurn)]
        assert shown == ["Hi", "One.", "And?"]

    drive(work)


def test_a_run_that_works_elsewhere_is_not_taken_up(folder: Path, home: Path) -> None:
    async def work() -> None:
        async with await open_session(folder, home, scripted(Say("One."))) as session:
            with pytest.raises(Exception, match="in use by another process"):
                await resume_session(folder, home, session.run.folder.id, scripted())

    drive(work)


def test_a_fork_goes_on_from_an_earlier_line(folder: Path, home: Path) -> None:
    async def work() -> None:
        async with await open_session(folder, home, scripted(Say("One."), Say("Two."))) as session:
            for words in ("Hi", "And?"):
                await session.send(words)
                await session.wait_until_idle()
            n = next(line.n for line in lines_of(session) if kinds([line]) == ["turn"])
            whole = fork_run(session.run.access.gate.workspace, session.run.folder.id)
            assert len(read_journal(RunDirectory(session.run.folder.path.parent / whole))) == len(lines_of(session))
            fork_id = session.fork(n)
        model = scripted(Say("Other."))
        async with await resume_session(folder, home, fork_id, model) as again:
            await again.send("Else?")
            await again.wait_until_idle()
            first = lines_of(again)[0]
            assert isinstance(first, RunLine)
            assert first.fork is not None
            assert (first.fork.run, first.fork.n) == (session.run.folder.id, n)
        texts = [item.text for item in model.requests[0].conversation if isinstance(item, UserInput)]
        assert texts == ["Hi", "Else?"]
        workspace = locate_workspace(folder)
        assert workspace is not None
        assert {summary.id for summary in Session.list(workspace)} == {fork_id, whole, session.run.folder.id}

    drive(work)


def test_a_workspace_without_remit_is_governed_in_observe(repository: Path, home: Path) -> None:
    (home / ".cache").mkdir()
    lines = run_session(
        repository, home, scripted(write("src/a.py", "a\n", "w"), DONE), task="x", until_completion=True
    )
    assert results(lines)["w"].kind == "done"
    assert (repository / "src/a.py").read_text() == "a\n"


# The window


def test_old_results_are_shortened_then_the_conversation_is_condensed(folder: Path, home: Path) -> None:
    (folder / "src/big.py").write_text("".join(f"line {n} of a long file\n" for n in range(400)))
    steps: list[Any] = []
    for n in range(16):
        (folder / f"src/big{n}.py").write_text((folder / "src/big.py").read_text())
        steps.append(Use("read_file", {"path": f"src/big{n}.py"}, f"r{n}"))

    class Summing(InProcessModel):
        async def answer(self, request: CompletionRequest) -> AsyncIterator[Delta]:
            if not request.tools:
                yield WholeTurn(ModelTurn((TextPart("# Task\nRead on.\n# Next step\nRead big9."),), "end", cost=0.0))
                return
            async for delta in super().answer(request):
                yield delta

    model = Summing(ScriptedModel([*steps, DONE]), window=26_000)
    lines = run_session(folder, home, model, task="Read the big files", intent="INT-001", until_completion=True)
    assert "shortened" in kinds(lines)
    assert "condensed" in kinds(lines)
    ended = lines[-1]
    assert isinstance(ended, EndedLine)
    assert ended.state == "completed"
    after = next(r for r in model.requests if r.tools and "condensed" in str(r.conversation[0]))
    first = after.conversation[0]
    assert isinstance(first, UserInput)
    assert "Read the big files" in first.text
    assert "INT-001" in first.text
    assert "content_hash: sha256:" in first.text
    assert "<remit>" in str(after.conversation[1:])


def test_a_conversation_is_condensed_by_hand_between_turns(folder: Path, home: Path) -> None:
    async def work() -> None:
        model = scripted(Say("A long answer. " * 100), Say("# Task\nTalk."), Say("After."))
        async with await open_session(folder, home, model) as session:
            await session.send("Tell me")
            assert not await session.condense()
            await session.wait_until_idle()
            assert await session.condense()
            assert session.run.history.waits_for_words
            await session.send("Go on")
            await session.wait_until_idle()
            texts = [item.text for item in model.requests[-1].conversation if isinstance(item, UserInput)]
            assert "# Task\nTalk." in texts[0]
            assert "Tell me" in texts[0]
            assert texts[1] == "Go on"

    drive(work)


def test_a_summary_that_is_empty_or_longer_is_not_taken() -> None:
    history = RunHistory([UserLine(text="word " * 100)])
    assert take_summary(history, "", "keep") is None
    assert take_summary(history, "  \n", "keep") is None
    assert take_summary(history, "long " * 200, "keep") is None
    assert take_summary(history, "short", "keep") is not None


def test_a_window_that_only_the_provider_knows_is_condensed_once_then_stuck(folder: Path, home: Path) -> None:
    class Full(InProcessModel):
        async def answer(self, request: CompletionRequest) -> AsyncIterator[Delta]:
            raise ProviderError("window", "too long")
            yield

    lines = run_session(folder, home, Full(ScriptedModel([])), task="x " * 50, until_completion=True)
    ended = lines[-1]
    assert isinstance(ended, EndedLine)
    assert ended.state == "stuck"


# Lessons


def test_a_check_that_passes_after_it_failed_is_offered_as_a_lesson_once(folder: Path, home: Path) -> None:
    def verified(code: int) -> Any:
        def step(_: ModelRequest) -> Any:
            gate = Gate.open(folder, machine(home))
            run = list_runs(gate.workspace)[0].id
            detail: dict[str, Any] = {"command": "pytest -q", "exit_code": code, "ms": 1, "paths": []}
            body = Body(event="verification", intent_id="INT-001", session_id=run, detail=detail)
            gate.recorder.append([gate.recorder.make_record(body, "remit")])
            gate.close()
            return Use("nothing", {}, f"v{code}{len(_.messages)}")

        return step

    def fail(*_: object) -> PreparedCall:
        raise ToolFailure("NOT_VERIFIED", "pytest -q failed")

    tools = (*TOOLS, HostTool("check", Nothing, "mode", fail))
    model = scripted(Use("check"), verified(1), verified(0), verified(0), Use("nothing", {}), DONE)
    lines = run_session(folder, home, model, task="x", until_completion=True, tools=tools)
    assert [line.check for line in lines if isinstance(line, LessonOfferedLine)] == ["pytest -q"]
    assert sum("record_lesson" in line.text for line in lines if isinstance(line, TailLine)) == 1


def test_a_journal_that_cannot_be_written_ends_the_session_with_the_reason(folder: Path, home: Path) -> None:
    async def work() -> None:
        def break_journal(_: ModelRequest) -> Any:
            os.dup2(os.open(session.run.folder.journal_path, os.O_RDONLY), session.run.journal.file)
            return write("src/a.py", "a\n", "w")

        async with await open_session(folder, home, scripted(break_journal, DONE), intent="INT-001") as session:
            await session.send("Begin")
            seen = [event.event async for event in session.events()]
            assert "call_ended" not in seen
            with pytest.raises(OSError, match="Bad file descriptor"):
                await session.wait_until_idle()
            assert not (folder / "src/a.py").exists()

    drive(work)


def test_events_are_json(folder: Path, home: Path) -> None:
    async def work() -> None:
        async with await open_session(folder, home, scripted(DONE), task="x", until_completion=True) as session:
            async for event in session.events():
                assert json.loads(msgspec.json.encode(event))["event"] == event.event
                if event.event == "ended":
                    break

    drive(work)


def test_an_open_question_is_put_again_after_a_crash(folder: Path, home: Path, tmp_path: Path) -> None:
    async def work() -> None:
        steps = step_by_results(Use("ask", {"question": "Tabs?"}, "q"), DONE)
        session = await open_session(folder, home, scripted(*steps), task="x", until_completion=True)
        async for event in session.events():
            if event.event == "question":
                break
        run_id, state = session.run.folder.id, folder / ".git" / "remit"
        shutil.copytree(state, tmp_path / "as a kill leaves it")
        await session.close()
        shutil.rmtree(state)
        shutil.copytree(tmp_path / "as a kill leaves it", state)
        async with await resume_session(folder, home, run_id, scripted(*steps), until_completion=True) as again:
            async for event in again.events():
                if event.event == "question":
                    await again.answer(event.data.id, PersonReply("Spaces."))
                if event.event == "ended":
                    break
            assert results(lines_of(again))["q"].text == "Spaces."
            assert kinds(lines_of(again)).count("question") == 1

    drive(work)

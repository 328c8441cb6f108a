"""The journal of a run: what a crash leaves of it, and the conversation that any of its lines fold to."""

import os
import stat
import time
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from remit.workspace.place.workspace import Workspace
from remit_agent.models.messages import CallResult, ModelTurn, TextPart, ToolCallPart, UserInput, find_unanswered_calls
from remit_agent.session.journal.file import (
    Journal,
    JournalError,
    RunDirectory,
    list_runs,
    read_first_and_last_line,
    read_journal,
    remove_old_runs,
    runs_folder,
)
from remit_agent.session.journal.history import RunHistory, fold, is_repetition
from remit_agent.session.journal.lines import (
    AnyLine,
    AskedLine,
    CondensedLine,
    EndedLine,
    PerformedLine,
    ResultLine,
    RunLine,
    ShortenedLine,
    TailLine,
    TurnLine,
    UserLine,
)
from remit_agent.tools.tool import ToolFailure


@pytest.fixture
def folder(tmp_path: Path) -> RunDirectory:
    return RunDirectory.create(tmp_path / "runs", "run-1")


def test_what_was_appended_is_read_again(folder: RunDirectory) -> None:
    journal = Journal(folder, lambda: 5.0)
    lines = [journal.append(UserLine(text=f"word {n}\n\u2028\x00")) for n in range(3)]
    journal.close()
    assert [line.n for line in lines] == [1, 2, 3]
    assert list(read_journal(folder)) == lines
    assert list(Journal(folder).lines) == lines


def test_the_run_is_the_persons_alone(folder: RunDirectory) -> None:
    Journal(folder).append(UserLine(text="x"))
    assert stat.S_IMODE(folder.journal_path.stat().st_mode) == 0o600
    assert stat.S_IMODE(folder.path.stat().st_mode) == 0o700
    image = folder.keep_image(b"bytes", "image/png", "a.png")
    assert stat.S_IMODE((folder.path / "blobs" / image.sha256).stat().st_mode) == 0o600
    assert folder.read_image(image.sha256) == b"bytes"


def test_two_writers_are_refused(folder: RunDirectory) -> None:
    first = Journal(folder)
    with pytest.raises(JournalError, match="in use"):
        Journal(folder)
    first.close()
    Journal(folder).close()


@given(cut=st.integers(0, 400), junk=st.sampled_from([b"", b"\0" * 40, b"\0" * 7 + b"\n", b'{"t":"us', b"}\n"]))
def test_a_torn_tail_is_cut_at_any_byte(cut: int, junk: bytes, tmp_path_factory: pytest.TempPathFactory) -> None:
    folder = RunDirectory.create(tmp_path_factory.mktemp("runs"), "run-1")
    journal = Journal(folder)
    lines = [journal.append(UserLine(text=f"word {n}")) for n in range(4)]
    journal.close()
    content = folder.journal_path.read_bytes()[:cut]
    folder.journal_path.write_bytes(content + junk)
    again = Journal(folder)
    # The bytes that were added may be the very ones that were cut off.
    whole = [line for line in lines if (content + junk).startswith(b"".join(encoded(lines[: lines.index(line) + 1])))]
    assert list(again.lines) == whole
    again.append(UserLine(text="after"))
    again.close()
    assert [line.n for line in read_journal(folder)] == [*range(1, len(whole) + 2)]


def encoded(lines: list[AnyLine]) -> list[bytes]:
    import msgspec

    return [msgspec.json.encode(line) + b"\n" for line in lines]


def test_unknown_and_damaged_lines_in_the_middle_are_skipped_and_kept(folder: RunDirectory) -> None:
    journal = Journal(folder)
    journal.append(UserLine(text="a"))
    journal.close()
    strange = b'{"t":"future","n":2,"x":[1]}\n{"t":"user","n":3}\n{"t":"user","n":4,"text":"b","new_key":1}\n'
    with folder.journal_path.open("ab") as file:
        file.write(strange)
    assert [getattr(line, "text", None) for line in Journal(folder).lines] == ["a", "b"]
    assert strange in folder.journal_path.read_bytes()


@pytest.mark.parametrize("name", ["../x", "cmd-../../x", "cmd-a/b", "", "cmd-", "x.txt", "cmd-a.txt.txt"])
def test_an_output_has_a_plain_id(name: str, folder: RunDirectory) -> None:
    with pytest.raises(ToolFailure):
        folder.output_path(name)


def test_an_output_lies_in_the_run(folder: RunDirectory) -> None:
    assert folder.output_path("cmd-ab_1.txt") == folder.output_path("cmd-ab_1") == str(folder.path / "out/cmd-ab_1.txt")


NOW = 1_700_000_000.0


def test_old_runs_go_and_runs_at_work_stay(tmp_path: Path) -> None:
    workspace = Workspace(tmp_path, tmp_path / ".git", tmp_path / ".git")
    for name in ("old", "held", "fresh"):
        journal = Journal(RunDirectory.create(runs_folder(workspace), name))
        journal.append(UserLine(text="x"))
        journal.close()
        changed_at = NOW if name == "fresh" else 1000
        os.utime(journal.folder.journal_path, (changed_at, changed_at))
    empty = RunDirectory.create(runs_folder(workspace), "empty").path
    os.utime(empty, (1000, 1000))
    held = Journal(RunDirectory(runs_folder(workspace) / "held"))
    assert remove_old_runs(workspace, 90, NOW) == ["old", "empty"]
    assert [folder.id for folder in list_runs(workspace)] == ["held", "fresh"]
    held.close()


def test_a_thousand_runs_are_listed_in_a_tenth_of_a_second(tmp_path: Path) -> None:
    workspace = Workspace(tmp_path, tmp_path / ".git", tmp_path / ".git")
    for number in range(1000):
        path = runs_folder(workspace) / f"{number:04}"
        path.mkdir(parents=True)
        lines = [RunLine(run=str(number), cwd="/", model="m", mode="code", n=1), *[UserLine(text="x" * 900, n=2)] * 9]
        (path / "run.jsonl").write_bytes(b"".join(encoded([*lines, EndedLine(state="completed", n=11)])))
    best, found = 1.0, list[Any]()
    for _ in range(3):
        began = time.thread_time()
        found = [read_first_and_last_line(folder) for folder in list_runs(workspace)]
        best = min(best, time.thread_time() - began)
    assert len(found) == 1000
    assert all(isinstance(last, EndedLine) for _, last in found)
    assert best < 0.1 * 3  # the bar is 0.1 s of computing


# The fold

IDS = st.sampled_from(["a", "b", "c", "d"])
CALLS = st.builds(ToolCallPart, IDS, st.just("nothing"), st.just({}))
TURNS = st.lists(st.one_of(CALLS, st.builds(TextPart, st.text(max_size=4))), max_size=4).map(
    lambda parts: TurnLine(turn=ModelTurn(tuple(parts), "end", cost=0.0))
)
LINES = st.lists(
    st.one_of(
        TURNS,
        TURNS,
        TURNS,
        st.builds(ResultLine, id=IDS, kind=st.sampled_from(["done", "failed", "denied"]), text=st.text(max_size=4)),
        st.builds(PerformedLine, id=IDS, ok=st.booleans(), text=st.just("p")),
        st.builds(UserLine, text=st.text(max_size=4)),
        st.builds(TailLine, text=st.just("tail")),
        st.builds(AskedLine),
        st.builds(ShortenedLine, items=st.integers(0, 9)),
        st.builds(CondensedLine, summary=st.just("s"), keeps=st.just("k")),
        st.builds(EndedLine, state=st.just("stopped")),
    ),
    max_size=25,
)


def settle(lines: list[AnyLine]) -> list[AnyLine]:
    """The lines with a result for every call that still waits for one, as `settle_calls` adds them."""
    waiting = RunHistory(lines).unanswered_calls
    return [*lines, *(ResultLine(id=call.id, kind="interrupted") for call in waiting)]


def check_law(conversation: tuple[Any, ...]) -> None:
    """Each call has exactly one result, after its turn and before anything else."""
    assert list(find_unanswered_calls(conversation)) == []
    expected: list[str] = []
    for item in conversation:
        if isinstance(item, CallResult):
            assert item.id == expected.pop(0)
            continue
        assert expected == []
        if isinstance(item, ModelTurn):
            expected = [call.id for call in item.calls]
    assert expected == []
    calls = [call.id for item in conversation if isinstance(item, ModelTurn) for call in item.calls]
    assert len(calls) == len(set(calls))


@settings(max_examples=500)
@given(LINES, st.data())
def test_any_prefix_of_any_journal_settles_to_exactly_one_result_a_call(lines: list[AnyLine], data: Any) -> None:
    prefix = lines[: data.draw(st.integers(0, len(lines)))]
    settled = settle(prefix)
    assert RunHistory(settled).unanswered_calls == ()
    check_law(fold(settled))
    check_law(fold([*settled, AskedLine()]))


@given(LINES)
def test_folding_in_steps_equals_folding_at_once(lines: list[AnyLine]) -> None:
    history = RunHistory()
    for line in lines:
        history.add(line)
    assert history.conversation == fold(lines)


def test_words_that_arrive_while_the_model_works_follow_its_results() -> None:
    call = ToolCallPart("a", "nothing", {})
    lines: list[AnyLine] = [
        UserLine(text="task"),
        AskedLine(),
        UserLine(text="by the way"),
        TurnLine(turn=ModelTurn((call,), "tool_calls")),
        ResultLine(id="a", kind="done", text="r"),
    ]
    items = fold(lines)
    assert [type(item) for item in items] == [UserInput, ModelTurn, CallResult, UserInput]


@pytest.mark.parametrize(
    ("past", "call", "repeats"),
    [
        ("aaa", "a", True),
        ("aa", "a", False),
        ("aaab", "a", False),
        ("ababab", "a", True),
        ("ababab", "b", False),
        ("abcabcabc", "a", True),
        ("abcdefabcdefabcdef", "a", True),
        ("abcdefgabcdefgabcdefg", "a", False),
        ("xaaa", "a", True),
    ],
)
def test_three_equal_rounds_are_a_repetition(past: str, call: str, repeats: bool) -> None:
    assert is_repetition(past, call) is repeats

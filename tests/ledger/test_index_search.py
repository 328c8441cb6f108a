"""Search by words: what is sought, how it is ranked, and that no words are an error of syntax."""

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ledger.makers import command, mutation, open_log, own, record
from remit.core.record import CallPart
from remit.ledger.index.index import Index
from remit.ledger.index.search import NoSearchWords, build_query, search_documents
from remit.ledger.log import MachineLog

LESSON = {"lesson": {"kind": "lesson", "text": "Weather clients time out", "pattern": "retry twice"}}
REFUSED = {"error_type": "SCOPE_VIOLATION", "error": "outside the owned folders", "message": "ask for an expansion"}


@pytest.fixture
def log(tmp_path: Path) -> MachineLog:
    made = open_log(tmp_path / "log")
    made.append(
        [
            command(0, "npm install Left-Pad"),
            mutation(1, "src/auth_middleware.py", None, "x"),
            record(2, event="intent_changed", detail={"name": "Authentication for the café", "by": "person"}),
            record(3, event="intent_selected", detail={"reasoning": "the middleware is to be changed"}),
            record(4, event="tool_result", result={"ok": False, "summary": "3 tests failed"}),
            record(5, event="lesson", detail=LESSON),
            record(6, event="denied", call=CallPart(name="Write", paths=("docs/x.md",)), violation=REFUSED),
        ]
    )
    return made


def found(log: MachineLog, *words: str, **by: Any) -> list[int]:
    with Index.open(log.folder.parent / "index.db", log.folder) as index:
        index.catch_up()
        return [own(d)["chain"]["seq"] for d in index.find(words=words, **by)]


@pytest.mark.parametrize(
    ("words", "seqs"),
    [
        (["left-pad", "BASH"], [0]),
        (["installing"], [0]),
        (["auth_middleware.py"], [1]),
        (["auth*"], [2, 1]),
        (["authenticate"], [2]),
        (["cafe"], [2]),
        (["changes"], [3, 2]),
        (["tests failed"], [4]),
        (['"failed tests"'], []),
        (['"tests failed"'], [4]),
        (["timeout"], []),
        (["retry", "weather"], [5]),
        (["expansion"], [6]),
        (["docs"], [6]),
        (["left-pad", "docs"], []),
        (["middleware"], [3, 1]),
    ],
)
def test_words_are_sought_in_all_that_a_record_says(log: MachineLog, words: list[str], seqs: list[int]) -> None:
    assert found(log, *words) == seqs


def test_what_was_said_ranks_before_names(log: MachineLog) -> None:
    log.append([mutation(7, "middleware.py", None, "x"), command(8, "echo middleware")])
    assert found(log, "middleware", ranked=True)[0] == 3
    assert found(log, "middleware")[0] == 8


def test_words_and_filters_narrow_together(log: MachineLog) -> None:
    assert found(log, "middleware", event="mutation") == [1]
    assert found(log, "middleware", path="src/auth_middleware.py") == [1]
    assert found(log, "middleware", path="src/auth_middleware.py", line=99) == []
    assert found(log, "middleware", since="2026-02-21T12:00:02", ranked=True) == [3]


def test_what_comes_later_is_found_too(log: MachineLog) -> None:
    assert found(log, "later") == []
    log.append([command(7, "sooner or later")])
    assert found(log, "later") == [7]
    (log.folder.parent / "index.db").unlink()
    assert found(log, "later") == [7]


def test_hashes_and_ids_are_no_words(log: MachineLog) -> None:
    log.append([record(7, detail={"root": "ab" * 32, "words": "yes"})])
    assert found(log, "ab" * 32) == []
    assert found(log, "yes") == [7]


@given(st.lists(st.text(max_size=12) | st.sampled_from(['"', "a AND", "NEAR(", "x:y", "-", "*", "^a", "(", "\0a"])))
def test_no_words_are_an_error_of_syntax(words: list[str]) -> None:
    documents = [{"id": "1", "metadata": {"dev.remit": {"name": " ".join(words)}}}]
    try:
        build_query(words)
    except NoSearchWords:
        return
    assert len(search_documents(documents, words)) <= 1


@pytest.mark.parametrize("words", [[], [""], ["--", '""'], ["_ *"]])
def test_a_search_for_nothing_is_said(words: list[str]) -> None:
    with pytest.raises(NoSearchWords, match="there is no word"):
        build_query(words)

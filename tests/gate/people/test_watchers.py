"""Presence of the people who can answer: each watcher for itself, by a sign that has to be renewed."""

import threading
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from gate.driving import Agent, allowed, governed, records, refusal
from remit.gate.gate import Gate
from remit.gate.people.answer import QuestionClosed, record_reply
from remit.gate.people.questions import (
    HEARTBEAT_INTERVAL_S,
    NEWS,
    WATCHER_TIMEOUT_S,
    ApprovalReply,
    Question,
    QuestionStore,
)
from stepped_clock import SteppedClock
from waiting import WAIT_S


class Desk:
    """A governed repository with an agent whose call has to be asked about, and a clock that stands still."""

    def __init__(self, root: Path, home: Path) -> None:
        self.root, self.home = governed(root), home
        self.clock = SteppedClock()
        self.agent = Agent(root, home, clock=self.clock)
        self.agent.select()
        self.answers: list[dict[str, Any]] = []
        self.threads: list[threading.Thread] = []

    def open(self) -> QuestionStore:
        return Gate.open(self.root, self.agent.environment).questions

    def ask(self) -> None:
        """Let the agent make a call outside its scope, in a thread that waits for a person."""
        self.threads.append(
            threading.Thread(
                target=lambda: self.answers.append(self.agent.ask("Write", file_path="docs/a.md", content="x"))
            )
        )
        self.threads[-1].start()

    def answer(self) -> dict[str, Any]:
        self.threads[-1].join(WAIT_S)
        return self.answers[-1]


@pytest.fixture
def desk(repository: Path, home: Path) -> Desk:
    return Desk(repository, home)


@contextmanager
def watching(store: QuestionStore, watcher: str) -> Generator[None]:
    """Sign for this watcher as a page or terminal does, and say so when the block ends."""
    store.mark_watcher_present(watcher=watcher)
    try:
        yield
    finally:
        store.mark_watcher_gone(watcher=watcher)


def wait_for_question(store: QuestionStore) -> Question:
    """Return the question that a thread of this process puts."""
    with NEWS:
        assert NEWS.wait_for(store.list_open_questions, WAIT_S), "no question was put"
    return store.list_open_questions()[0]


def test_one_watcher_that_leaves_does_not_refuse_what_another_still_watches(desk: Desk) -> None:
    console, terminal = desk.open(), desk.open()
    with watching(console, "console"):
        with watching(terminal, "terminal"):
            desk.ask()
            question = wait_for_question(console)
        desk.clock.wait_for_waiter()
        desk.clock.advance(WATCHER_TIMEOUT_S - 1)
        assert desk.answers == []
        assert console.answer_question(question.id, ApprovalReply(True)) is not None
        assert allowed(desk.answer())


def test_when_the_last_watcher_leaves_the_call_is_refused_at_once(desk: Desk) -> None:
    console, terminal = desk.open(), desk.open()
    with watching(console, "console"), watching(terminal, "terminal"):
        desk.ask()
        wait_for_question(console)
    assert refusal(desk.answer()) == "SCOPE_VIOLATION"
    [record] = records(desk.root, "approval_answered")
    assert record["metadata"]["dev.remit"]["approval"]["by"] == "nobody"


def test_a_watcher_that_died_without_a_word_counts_no_longer_and_takes_nobody_along(desk: Desk) -> None:
    store, clock = desk.open(), desk.clock
    store.mark_watcher_present(watcher="killed")
    clock.advance(WATCHER_TIMEOUT_S - 1)
    store.mark_watcher_present(watcher="alive")
    clock.advance(2)
    assert [each.watcher for each in store.list_watchers()] == ["alive"]
    assert store.is_watcher_present()
    clock.advance(WATCHER_TIMEOUT_S)
    assert not store.is_watcher_present()
    assert store.list_watchers() == []


def test_a_clock_that_was_set_back_makes_nobody_present_for_ever(desk: Desk) -> None:
    store, clock = desk.open(), desk.clock
    store.mark_watcher_present(watcher="before")
    clock.start -= 500
    assert not store.is_watcher_present()


def test_watchers_of_a_session_and_of_the_whole_are_counted_apart(desk: Desk) -> None:
    store = desk.open()
    store.mark_watcher_present("run-1", watcher="face")
    store.mark_watcher_present(watcher="face")
    store.mark_watcher_gone("run-1", watcher="face")
    assert store.is_watcher_present("run-1")
    store.mark_watcher_gone(watcher="face")
    assert not store.is_watcher_present("run-1")


def test_an_answer_that_comes_second_is_told_who_was_first(desk: Desk) -> None:
    gate = Gate.open(desk.root, desk.agent.environment)
    with watching(gate.questions, "terminal"):
        desk.ask()
        question = wait_for_question(gate.questions)
        record_reply(gate, question, ApprovalReply(False, through="console"))
        with pytest.raises(
            QuestionClosed,
            match="closed: denied by A Person <person@example.org> in the console at".replace(".", r"\."),
        ):
            record_reply(gate, question, ApprovalReply(True))
        assert refusal(desk.answer()) == "SCOPE_VIOLATION"


def test_a_question_without_an_answer_ends_by_its_time_and_the_asker_signs_until_then(desk: Desk) -> None:
    with (desk.root / ".orchestration/remit.toml").open("a") as file:
        file.write("\n[approvals]\ntimeout_s = 20\n")
    store = desk.open()
    with watching(store, "terminal"):
        desk.ask()
        wait_for_question(store)
        desk.clock.wait_for_waiter()
        for _ in range(19):
            desk.clock.advance(1)
            store.mark_watcher_present(watcher="terminal")
            [(seen_at,)] = store.state.fetch_rows("SELECT seen_at FROM approvals")
            assert desk.clock.now() - seen_at <= 2 * HEARTBEAT_INTERVAL_S
            assert desk.answers == []
        desk.clock.advance(2)
        assert refusal(desk.answer()) == "SCOPE_VIOLATION"
    [record] = records(desk.root, "approval_answered")
    assert record["metadata"]["dev.remit"]["approval"]["by"] == "nobody"

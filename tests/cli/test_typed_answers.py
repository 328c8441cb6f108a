"""The card in a terminal: a high risk is typed, and the whole of a long diff can be seen."""

import threading
from collections.abc import Generator
from pathlib import Path
from typing import Any

import pytest

from cli.test_approvals import Waiting, Watcher, governed, hook, records
from remit.cli.policy.approvals import help_lines, parse_answer, prompt_text
from remit.gate.people.questions import ListedQuestion, Question
from remit_agent.faces.terminal.replies import describe_answers

__all__ = ["governed"]
LONG = "\n".join(f"+line {n}" for n in range(100))
HIGH = Question("q-0000a1b2", "s", "a", "INT-001", "USER_REJECTED", "action", "", "d/a", 90, diff=LONG)


@pytest.fixture
def watcher(governed: Path, monkeypatch: pytest.MonkeyPatch) -> Generator[Watcher]:
    monkeypatch.setenv("PAGER", "cat")
    found = Watcher(governed)
    yield found
    found.end()


@pytest.mark.parametrize(
    ("word", "expected"),
    [
        ("a1b2", (True, "")),
        (" A1B2 ", (True, "")),
        ("y", None),
        ("yes", None),
        ("a", None),
        ("s", None),
        ("a1b3", None),
        ("d", None),
        ("n", (False, "")),
        ("", (False, "")),
        ("not on a Friday", (False, "not on a Friday")),
    ],
)
def test_a_high_risk_is_allowed_by_its_word_alone(word: str, expected: tuple[bool, str] | None) -> None:
    for card in ([ListedQuestion(HIGH, "open")], [ListedQuestion(HIGH, "open")] * 2):
        reply = parse_answer(word, card)
        assert expected == (None if reply is None else (reply.allow, reply.words))


def test_the_prompt_and_the_help_offer_what_the_card_takes() -> None:
    card = [ListedQuestion(HIGH, "open")]
    assert prompt_text(card) == "  a1b2 typed: yes once, [d]iff whole, [?] help, or the reason why not"
    assert help_lines(card)[0] == "    a1b2    yes, to this call"
    assert not [line for line in help_lines(card) if line.startswith(("    y ", "    a ", "    s "))]
    assert describe_answers(HIGH).startswith("a1b2 and Enter")


def test_a_forced_push_waits_for_the_typed_word(governed: Path, watcher: Watcher) -> None:
    answers: list[dict[str, Any]] = []

    def ask() -> None:
        answers.append(hook(governed, "Bash", command="git push --force origin main"))

    thread = threading.Thread(target=ask)
    thread.start()
    watcher.expect(b" typed: yes once")
    word = watcher.shown.partition(b" typed: yes once")[0].split()[-1].decode()
    watcher.type("y")
    watcher.expect(f"{word}    yes, to this call".encode())
    assert answers == []
    watcher.type(word)
    watcher.expect(b"allowed, this once")
    thread.join(90)
    assert answers[0].get("permissionDecision", "allow") == "allow"
    [answer] = records(governed, "approval_answered")
    assert answer["approval"]["answer"] == "allow"


def test_the_whole_of_a_long_diff_is_seen_on_a_key(governed: Path, watcher: Watcher) -> None:
    (governed / "docs").mkdir(exist_ok=True)
    waiting = Waiting(governed, "docs/a.md", "".join(f"line {n}\n" for n in range(100)))
    watcher.expect(b"lines more")
    assert b"+line 99" not in watcher.shown
    watcher.type("d")
    watcher.expect(b"+line 99")
    watcher.expect(b"[d]iff whole")
    assert waiting.answer is None
    watcher.type("y")
    assert waiting.answered() == {}

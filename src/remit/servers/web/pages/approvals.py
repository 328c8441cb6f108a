"""Approvals: every pending question of every repository, oldest first; the open card shows the whole action."""

from pathlib import Path
from typing import Any

from msgspec import Struct, json, to_builtins

from remit.core.decision import HIGH_RISK
from remit.core.diff.contents import sha256
from remit.core.formats.record_summary import summarize_record
from remit.core.record import KEY
from remit.gate.approval_answers import (
    MAX_EQUAL_QUESTIONS,
    close_orphaned_questions,
    find_wider_rule,
    group_equal_questions,
    shorten_path,
)
from remit.gate.gate import Gate
from remit.gate.state.questions import ListedQuestion, Question
from remit.ledger.index.index import Index
from remit.policy.commands.dangers import find_dangerous_words
from remit.servers.web.pages.page import PageRequest
from remit.servers.web.repositories import GovernedRepository

MAX_BEFORE = 3


class QueuedQuestion(Struct, frozen=True):
    """A question in the queue; `equals` counts the equal questions, including the question."""

    repository: str
    id: str
    agent: str
    intent_id: str | None
    action: str
    risk: int
    risk_word: str
    asked_at: float
    expires_at: float
    is_open: bool
    equals: int


class EarlierCall(Struct, frozen=True):
    """What the same session did just before."""

    at: str
    verb: str
    about: str


class QuestionCard(Struct, frozen=True):
    """Full text of a question for a person. `shown_sha256` is the hash of the text, required in the answer.

    `typed` is the text to type before a high risk is allowed; empty for lower risks.
    """

    repository: str
    question: Question
    action: str
    title: str
    risk_word: str
    intent_name: str
    is_open: bool
    wider_rule: str | None
    marked: list[str]
    typed: str
    before: list[EarlierCall]
    equal_ids: list[str]
    equal_actions: list[str]
    shown_sha256: str


class Approvals(Struct, frozen=True):
    """The queue and the open card; `gone` names a card that was asked for and waits no more."""

    queue: list[QueuedQuestion]
    card: QuestionCard | None
    waiting: int
    gone: str = ""


def read_approvals(request: PageRequest) -> Approvals:
    queue: list[QueuedQuestion] = []
    wanted = request.path.get("question", "")
    card: QuestionCard | None = None
    for repository in request.repositories.list_all():
        with request.repositories.open_gate(repository) as gate:
            close_orphaned_questions(gate)
            listed = gate.questions.list_unanswered()
            for group in group_equal_questions(listed):
                queue.append(make_queued(repository, group))
                if any(item.question.id == wanted for item in group):
                    card = read_card(repository, gate, listed, wanted)
    queue.sort(key=lambda each: (not each.is_open, each.asked_at))
    if card is None and not wanted and queue and queue[0].is_open:
        repository = request.repositories.find(queue[0].repository)
        with request.repositories.open_gate(repository) as gate:
            card = read_card(repository, gate, gate.questions.list_unanswered(), queue[0].id)
    waiting = sum(each.equals for each in queue if each.is_open)
    return Approvals(queue, card, waiting, gone=wanted if card is None else "")


def make_queued(repository: GovernedRepository, group: list[ListedQuestion]) -> QueuedQuestion:
    question = group[0].question
    return QueuedQuestion(
        repository.name,
        question.id,
        question.agent,
        question.intent_id,
        shorten_path(question.action, Path(repository.root)),
        question.risk,
        name_risk(question.risk),
        question.asked_at,
        question.expires_at,
        group[0].status == "open",
        len(group),
    )


def read_card(
    repository: GovernedRepository, gate: Gate, listed: list[ListedQuestion], question_id: str
) -> QuestionCard | None:
    """Return the card of a question; None if it waits no more."""
    chosen = next((item for item in listed if item.question.id == question_id), None)
    if chosen is None:
        return None
    question = chosen.question
    group = next(group for group in group_equal_questions(listed) if chosen in group)
    equals = [item.question for item in group if item is not chosen][: MAX_EQUAL_QUESTIONS - 1]
    with gate.index() as index:
        before = list_earlier_calls(index, question)
    document = gate.rules.document
    names = {intent.id: intent.title for intent in (document.intents if document else ())}
    card = QuestionCard(
        repository.name,
        question,
        shorten_path(question.action, Path(repository.root)),
        make_title(question),
        name_risk(question.risk),
        names.get(question.intent_id or "", ""),
        chosen.status == "open",
        find_wider_rule(question),
        list(find_dangerous_words(question.subject.command)) if question.is_command else [],
        choose_typed_word(question),
        before,
        [each.id for each in equals],
        [each.action for each in equals],
        "",
    )
    return with_hash(card)


def with_hash(card: QuestionCard) -> QuestionCard:
    shown: dict[str, Any] = to_builtins(card)
    for name in ("shown_sha256", "before", "equal_ids", "equal_actions", "is_open"):
        del shown[name]  # what may change while the card is open and is not decided
    return QuestionCard(
        **{name: getattr(card, name) for name in card.__struct_fields__ if name != "shown_sha256"},
        shown_sha256=sha256(json.encode(shown, order="sorted")),
    )


def list_earlier_calls(index: Index, question: Question) -> list[EarlierCall]:
    documents = index.find(session_id=question.session_id, limit=40)
    wanted = ("tool_use", "denied", "verification")
    found: list[EarlierCall] = []
    for document in documents:
        body: dict[str, Any] = document["metadata"][KEY]
        if body.get("event") in wanted and str(document["timestamp"]) and len(found) < MAX_BEFORE:
            summary = summarize_record(body)
            found.append(EarlierCall(str(document["timestamp"]), summary.verb, summary.about))
    return found[::-1]


def make_title(question: Question) -> str:
    wish = "run a command" if question.is_command else f"use {question.tool}" if not question.path else "change a file"
    outside = " outside its scope" if question.code == "SCOPE_VIOLATION" else ""
    return f"{question.agent} wants to {wish}{outside}"


def name_risk(risk: int) -> str:
    return "high" if risk > HIGH_RISK else "medium" if risk >= 30 else "low"


def choose_typed_word(question: Question) -> str:
    """Return the word to type before a high risk is allowed: the end of the question's id."""
    return question.id[-4:] if question.risk > HIGH_RISK else ""

"""Approvals: every pending question of every repository, oldest first; the open card shows the whole action. A person
answers one question, or equal ones together.
"""

from contextlib import suppress
from typing import Any

from msgspec import Struct, json, structs, to_builtins

from remit.console.guard import Refused
from remit.console.pages.page import FACE, PageRequest
from remit.console.repositories import GovernedRepository
from remit.core.acts import Act
from remit.core.call import SessionKey
from remit.core.decision import EXTENTS, HIGH_RISK, Extent
from remit.core.diff.contents import sha256
from remit.gate.gate import Gate
from remit.gate.intents.refusals import SWITCH_CODE, IntentError, validate_scope
from remit.gate.people import answer
from remit.gate.people.questions import ApprovalReply, ListedQuestion, Question
from remit.policy.commands.marks import CommandMark, mark_command
from remit.policy.grants import GrantRuleError
from remit.workspace.git.repository import current_branch

MAX_BEFORE = 3
PREVIEW_KEYS = {"rule", "extent"}
EXTENT_BY_NAME: dict[str, Extent] = {extent: extent for extent in EXTENTS}


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


class EqualQuestion(Struct, frozen=True):
    """A question that one answer may settle together with another: its whole action, and the hash of its own card."""

    id: str
    action: str
    diff: str
    shown_sha256: str


class QuestionCard(Struct, frozen=True):
    """Full text of a question for a person. `shown_sha256` is the hash of the text, required in the answer.

    `typed` is the text to type before a high risk is allowed; empty for lower risks. `extents` are how far a yes may
    go. `marks` are in the characters of `action`. `equals` wait for the same answer; `together` are those of them that
    one yes may settle, with the question itself first.
    """

    repository: str
    question: Question
    action: str
    title: str
    risk_word: str
    intent_name: str
    model: str
    is_open: bool
    wider_rule: str | None
    extents: list[Extent]
    marks: list[CommandMark]
    typed: str
    before: list[answer.EarlierCall]
    equals: int
    together: list[EqualQuestion]
    share_left: int
    shown_sha256: str
    branch: str

    @property
    def added(self) -> int:
        return sum(line.startswith("+") for line in self.question.diff.splitlines())

    @property
    def removed(self) -> int:
        return sum(line.startswith("-") for line in self.question.diff.splitlines())

    @property
    def proposal_lines(self) -> list[str]:
        """Return the lines of a proposed intent; none for another question."""
        return answer.describe_subject(self.question)[1:] if self.question.proposal is not None else []

    @property
    def wider_extent(self) -> Extent:
        return "intent" if "intent" in self.extents else self.extents[min(1, len(self.extents) - 1)]


class Approvals(Struct, frozen=True):
    """The queue and the open card; `gone` names a card that was asked for and waits no more, `closing` who closed it
    and how. `preview` is what the rule and extent of the address would cover: it takes git, and is asked for apart.
    """

    queue: list[QueuedQuestion]
    card: QuestionCard | None
    waiting: int
    gone: str = ""
    closing: str = ""
    preview: answer.RulePreview | None = None


def read_approvals(request: PageRequest) -> Approvals:
    """Return the queue and a card: the one that is named, or else the oldest that is not in the query's `later`."""
    queue: list[QueuedQuestion] = []
    wanted = request.path.get("question", "")
    put_off = set(request.query.get("later", "").split(","))
    card: QuestionCard | None = None
    closing = ""
    for repository in request.repositories.list_all():
        with request.repositories.open_gate(repository) as gate:
            answer.close_orphaned_questions(gate)
            listed = gate.questions.list_unanswered()
            queue += [make_queued(repository, group) for group in answer.group_equal_questions(listed)]
            if wanted and card is None:
                card = read_card(repository, gate, listed, wanted)
                closing = closing or ("" if card else answer.describe_closing(gate, wanted))
    queue.sort(key=lambda each: (not each.is_open, each.asked_at))
    waiting = [each for each in queue if each.is_open]
    if not wanted and waiting:
        first = next((each for each in waiting if each.id not in put_off), waiting[0])
        wanted = first.id
        repository = request.repositories.find(first.repository)
        with request.repositories.open_gate(repository) as gate:
            card = read_card(repository, gate, gate.questions.list_unanswered(), wanted)
    is_previewed = card is not None and len(card.extents) > 1 and not request.query.keys().isdisjoint(PREVIEW_KEYS)
    preview = read_preview(request, card) if card is not None and is_previewed else None
    count = sum(each.equals for each in waiting)
    return Approvals(queue, card, count, "" if card else wanted, closing, preview)


def read_preview(request: PageRequest, card: QuestionCard) -> answer.RulePreview:
    """Return what the rule in the address covers, or else the rule that the card proposes. Raises Refused."""
    named = request.query.get("extent", card.wider_extent)
    extent = EXTENT_BY_NAME.get(named)
    if extent is None or extent not in card.extents[1:]:
        raise Refused(400, f"extent is {named[:40]!r}; expected one of {', '.join(card.extents[1:])}")
    rule = request.query.get("rule", "").strip()
    with request.repositories.open_gate(request.repositories.find(card.repository)) as gate:
        return answer.preview_rule(gate, card.question, extent, rule or None)


def make_queued(repository: GovernedRepository, group: list[ListedQuestion]) -> QueuedQuestion:
    question = group[0].question
    return QueuedQuestion(
        repository.name,
        question.id,
        question.agent,
        question.intent_id,
        question.action,
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
    group = next(group for group in answer.group_equal_questions(listed) if chosen in group)
    with gate.index() as index:
        before = answer.list_earlier_calls(index, question, MAX_BEFORE)
    low = [
        item for item in group if item.question.risk < answer.LOW_RISK and not answer.choose_typed_word(item.question)
    ]
    together = (
        [chosen, *(item for item in low if item is not chosen)][: answer.MAX_EQUAL_QUESTIONS] if chosen in low else []
    )
    card = show_question(repository, gate, chosen)
    return structs.replace(
        card,
        before=before,
        equals=len(group) - 1,
        together=[make_equal(show_question(repository, gate, item)) for item in together] if len(together) > 1 else [],
    )


def show_question(repository: GovernedRepository, gate: Gate, item: ListedQuestion) -> QuestionCard:
    """Return the card without what may change while it is open, and with the hash of the rest."""
    question = item.question
    command = question.subject.command
    action = command if question.is_command else question.action
    now = gate.environment.clock.now()
    left = max(0.0, question.expires_at - now) / max(1.0, question.expires_at - question.asked_at)
    card = QuestionCard(
        repository.name,
        question,
        action,
        make_title(question),
        name_risk(question.risk),
        gate.rules.titles.get(question.intent_id or "", ""),
        gate.state.active_session(SessionKey(question.session_id)).model or "",
        item.status == "open",
        answer.find_wider_rule(question),
        answer.list_extents(question),
        [*mark_command(command)] if question.is_command else [],
        answer.choose_typed_word(question),
        [],
        0,
        [],
        round(100 * min(1.0, left)),
        "",
        current_branch(gate.workspace) or "",
    )
    shown: dict[str, Any] = to_builtins(card)
    for name in CHANGING:
        del shown[name]
    return structs.replace(card, shown_sha256=sha256(json.encode(shown, order="sorted")))


CHANGING = ("shown_sha256", "model", "branch", "before", "equals", "together", "is_open", "share_left")
"""What may change while a card is open, and is not decided."""


def make_equal(card: QuestionCard) -> EqualQuestion:
    return EqualQuestion(card.question.id, card.action, card.question.diff, card.shown_sha256)


def make_title(question: Question) -> str:
    if question.proposal is not None:
        return f"{question.agent} asks: a new intent"
    if question.code == SWITCH_CODE:
        return f"{question.agent} asks to change intents"
    wish = "run a command" if question.is_command else f"use {question.tool}" if not question.path else "change a file"
    outside = " outside its scope" if question.code == "SCOPE_VIOLATION" else ""
    return f"{question.agent} wants to {wish}{outside}"


def name_risk(risk: int) -> str:
    return "high" if risk > HIGH_RISK else "medium" if risk >= answer.LOW_RISK else "low"


class AnswerBody(Struct, frozen=True, forbid_unknown_fields=True):
    """An answer to a question. `shown_sha256` is the hash of the card that the person saw."""

    repository: str
    allow: bool
    shown_sha256: str
    extent: Extent = "once"
    rule: str | None = None
    words: str = ""
    typed: str = ""
    scope: list[str] = []
    """The scope of a proposed intent as the person wrote it; empty as proposed."""


class EqualAnswerBody(Struct, frozen=True, forbid_unknown_fields=True):
    """A yes, this once, to equal questions of low risk: the hash of each card by its question, as they were listed."""

    repository: str
    shown: dict[str, str]


def choose_answer(body: AnswerBody) -> Act:
    return Act.SAY_YES if body.allow else Act.SAY_NO


def record_answer(request: PageRequest, body: AnswerBody) -> dict[str, Any]:
    """Record a person's answer to what they saw. Raises Refused."""
    question_id, repository = request.path["question"], request.repositories.find(body.repository)
    with request.repositories.open_gate(repository) as gate:
        card = find_shown_card(repository, gate, question_id, body.shown_sha256)
        if body.allow and body.typed != card.typed and not answer.is_edited_scope(body.scope, card.question):
            raise Refused(400, f"a yes to this has to be confirmed: type {card.typed}", "type it, or deny")
        if body.scope and card.question.proposal is None:
            raise Refused(400, "the question proposes no intent", "answer it without a scope")
        try:
            validate_scope(body.scope, required=bool(body.scope))
        except IntentError as error:
            raise Refused(400, str(error), "write the scope otherwise") from None
        extent = body.extent if body.allow else "once"
        scope = tuple(body.scope) if body.allow else ()
        reply = ApprovalReply(body.allow, body.words.strip(), "person", extent, body.rule, FACE, scope=scope)
        try:
            rule = answer.find_covered_rule(reply, card.question) if body.allow else ""
            is_late = answer.record_reply(gate, card.question, reply)
        except GrantRuleError as error:
            raise Refused(400, f"this yes cannot be given: {error}", "say yes once, or name another rule") from None
        except answer.QuestionClosed:
            raise refuse_closed(gate, question_id) from None
    return {"id": question_id, "allowed": body.allow, "extent": reply.extent, "rule": rule, "late": is_late}


def record_equal_answers(request: PageRequest, body: EqualAnswerBody) -> dict[str, Any]:
    """Record a yes, this once, to equal questions; those that were closed meanwhile keep their answer. Raises
    Refused, before any is answered, unless all are those that one card showed together.
    """
    repository = request.repositories.find(body.repository)
    answered: list[str] = []
    with request.repositories.open_gate(repository) as gate:
        listed = gate.questions.list_unanswered()
        still_open = {item.question.id: item.question for item in listed}
        first = next((name for name in body.shown if name in still_open), "")
        card = read_card(repository, gate, listed, first)
        if card is None:
            raise refuse_closed(gate, next(iter(body.shown), ""))
        together = {each.id: each.shown_sha256 for each in card.together}
        if any(together.get(name) != shown for name, shown in body.shown.items() if name in still_open):
            raise Refused(409, "the questions are not those that were shown", "look at them again")
        for name in body.shown.keys() & still_open.keys():
            with suppress(answer.QuestionClosed):
                answer.record_reply(gate, still_open[name], ApprovalReply(True, through=FACE))
                answered.append(name)
    return {"allowed": answered, "closed": [*(body.shown.keys() - set(answered))]}


def find_shown_card(repository: GovernedRepository, gate: Gate, question_id: str, shown_sha256: str) -> QuestionCard:
    """Return the card of a question that is as the person saw it. Raises Refused."""
    listed = next((item for item in gate.questions.list_unanswered() if item.question.id == question_id), None)
    if listed is None:
        raise refuse_closed(gate, question_id)
    card = show_question(repository, gate, listed)
    if card.shown_sha256 != shown_sha256:
        raise Refused(409, "the question is not the one that was shown", "read it again")
    return card


def refuse_closed(gate: Gate, question_id: str) -> Refused:
    closing = answer.describe_closing(gate, question_id)
    return Refused(409, f"already {closing}" if closing else "no such question waits here", "the next one is shown")

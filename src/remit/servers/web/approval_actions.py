"""What a person does on the page Approvals: answer one question, or equal ones together."""

from contextlib import suppress
from typing import Any

from msgspec import Struct

from remit.core.decision import Extent
from remit.gate.approval_answers import QuestionClosed, describe_closing, find_covered_rule, record_reply
from remit.gate.gate import Gate
from remit.gate.state.questions import ApprovalReply
from remit.policy.grants import GrantRuleError
from remit.servers.web.guard import Refused
from remit.servers.web.pages.approvals import QuestionCard, read_card, show_question
from remit.servers.web.pages.page import PageRequest
from remit.servers.web.repositories import GovernedRepository

FACE = "console"  # in the records of answers


class AnswerBody(Struct, frozen=True, forbid_unknown_fields=True):
    """An answer to a question. `shown_sha256` is the hash of the card that the person saw."""

    repository: str
    allow: bool
    shown_sha256: str
    extent: Extent = "once"
    rule: str | None = None
    words: str = ""
    typed: str = ""


class EqualAnswerBody(Struct, frozen=True, forbid_unknown_fields=True):
    """A yes, this once, to equal questions of low risk: the hash of each card by its question, as they were listed."""

    repository: str
    shown: dict[str, str]


def record_answer(request: PageRequest, body: AnswerBody) -> dict[str, Any]:
    """Record a person's answer to what they saw. Raises Refused."""
    question_id, repository = request.path["question"], request.repositories.find(body.repository)
    with request.repositories.open_gate(repository) as gate:
        card = find_shown_card(repository, gate, question_id, body.shown_sha256)
        if body.allow and body.typed != card.typed:
            raise Refused(400, f"a high risk has to be confirmed: type {card.typed}", "type it, or deny")
        extent = body.extent if body.allow else "once"
        reply = ApprovalReply(body.allow, body.words.strip(), "person", extent, body.rule, FACE)
        try:
            rule = find_covered_rule(reply, card.question) if body.allow else ""
            is_late = record_reply(gate, card.question, reply)
        except GrantRuleError as error:
            raise Refused(400, f"this yes cannot be given: {error}", "say yes once, or name another rule") from None
        except QuestionClosed:
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
            with suppress(QuestionClosed):
                record_reply(gate, still_open[name], ApprovalReply(True, through=FACE))
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
    closing = describe_closing(gate, question_id)
    return Refused(409, f"already {closing}" if closing else "no such question waits here", "the next one is shown")

"""Answers of a person to questions that agents wait on: the terminal and the console give them through here."""

from collections.abc import Sequence
from pathlib import Path

from remit.core.untrusted_input import sanitise_line
from remit.gate.approval_requests import ApprovalRequests, remove_project_grant
from remit.gate.gate import Gate
from remit.gate.state.questions import ApprovalReply, ListedQuestion, Question
from remit.policy.grants import GrantRuleError, make_rule

MAX_EQUAL_QUESTIONS = 20  # equal questions on one card: an approval of the card covers only questions that were shown


class QuestionClosed(Exception):
    """An answer to a question that has an answer already, or ended too long ago."""

    def __init__(self) -> None:
        super().__init__("the question is closed: it has an answer, or its time is over")


def group_equal_questions(listed: Sequence[ListedQuestion]) -> list[list[ListedQuestion]]:
    """Return the questions as cards: questions with the same status, agent, intent, rule and folder share one."""
    cards: dict[tuple[str, ...], list[ListedQuestion]] = {}
    for item in listed:
        cards.setdefault((item.status, *item.question.group_key), []).append(item)
    return list(cards.values())


def find_wider_rule(question: Question) -> str | None:
    """Return the rule that an approval for the session or the intent would cover; None if only `once` is possible."""
    try:
        return sanitise_line(make_rule(question.subject, "intent").text, 200) or None
    except GrantRuleError:
        return None


def find_covered_rule(reply: ApprovalReply, question: Question) -> str:
    """Return the rule covered by a reply. Raises GrantRuleError for a rule not allowed by the question."""
    return make_rule(question.subject, reply.extent, reply.pattern).text


def record_reply(gate: Gate, question: Question, reply: ApprovalReply) -> bool:
    """Record the answer; return True if the agent no longer waits for it. Raises QuestionClosed."""
    answered = gate.questions.answer_question(question.id, reply)
    if answered is None:
        raise QuestionClosed
    is_late = answered.status == "expired"
    if is_late:  # the agent's hook, which would record the answer, is gone
        ApprovalRequests(gate).record_answer(question, reply, gate.rules)
    return is_late


def revoke_grant(gate: Gate, grant_id: str) -> bool:
    """Take a grant back; return False if there is none of that id. Raises the errors in GRANT_WRITE_ERRORS."""
    return gate.state.revoke_grant(grant_id) or remove_project_grant(gate, grant_id)


def close_orphaned_questions(gate: Gate) -> None:
    ApprovalRequests(gate).close_orphaned_questions(gate.rules)


def shorten_path(action: str, root: Path) -> str:
    """Return the action of a file tool with the path relative to `root`; return any other action unchanged."""
    tool, separator, path = action.partition(": ")
    is_inside = path.startswith(f"{root}/") and "/../" not in path
    return f"{tool}{separator}{path.removeprefix(f'{root}/')}" if is_inside else action

"""Answers of a person to a run's questions, as typed."""

from typing import TypeAlias

from remit.cli.policy.approvals import parse_answer
from remit.gate.state.questions import ApprovalReply, ListedQuestion, Question
from remit.host.journal.lines import QuestionLine
from remit.host.run import PersonReply
from remit.policy.decide import THRESHOLD_RULE
from remit.policy.grants import GrantRuleError, make_rule

AnyQuestion: TypeAlias = Question | QuestionLine
AnyReply: TypeAlias = ApprovalReply | PersonReply
LETTERS = {"y": "yes", "n": "no"}


def parse_reply(question: AnyQuestion, text: str) -> AnyReply | None:
    """Return the answer that a line gives; None if the question does not offer it."""
    words = text.strip()
    if isinstance(question, Question):
        reply = parse_answer(words, [ListedQuestion(question, "open")])
        if reply is None or not words:
            return None
        try:
            make_rule(question.subject, reply.extent, reply.pattern)
        except GrantRuleError:
            return None
        return reply
    if not words:
        return None
    if words.isdecimal() and 0 < int(words) <= len(question.choices):
        words = question.choices[int(words) - 1]
    elif question.kind == "mode":
        words = LETTERS.get(words.lower(), words)
    return PersonReply(words)


def describe_answers(question: AnyQuestion) -> str:
    """Return the answers that a question takes, for its prompt."""
    if isinstance(question, Question):
        return "y once · s session · i intent · n no · or the reason why not"
    return "a number, or your own words" if question.choices else "your answer"


def can_flag_answer(question: Question) -> bool:
    """Return True if `--yes-within-scope` answers a question: a file call that only the risk threshold asks about. A
    command's effects are not known beforehand, and every other question would waive a rule.
    """
    return question.rule == THRESHOLD_RULE and not question.is_command

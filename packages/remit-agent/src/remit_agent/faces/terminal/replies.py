"""Answers of a person to a run's questions, as typed."""

from typing import TypeAlias

from remit.cli.policy.approvals import parse_answer
from remit.gate.people.answer import choose_typed_word, find_wider_rule
from remit.gate.people.questions import ApprovalReply, ListedQuestion, Question
from remit.policy.grants import GrantRuleError, make_rule
from remit_agent.faces.questions import parse_words
from remit_agent.session.journal.lines import QuestionLine
from remit_agent.session.run import PersonReply

AnyQuestion: TypeAlias = Question | QuestionLine
AnyReply: TypeAlias = ApprovalReply | PersonReply


def parse_reply(question: AnyQuestion, text: str) -> AnyReply | None:
    """Return the answer given by a line; None for an answer not offered by the question."""
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
    return parse_words(question, words)


def propose_rule_words(question: AnyQuestion) -> str:
    """Return the line that allows the question's rule for longer, to be edited; "" if a yes is for this once."""
    if not isinstance(question, Question) or (rule := find_wider_rule(question)) is None:
        return ""
    return f"{'i' if question.intent_id else 's'}={rule}"


def describe_answers(question: AnyQuestion) -> str:
    if isinstance(question, Question) and (typed := choose_typed_word(question)):
        return f"{typed} and Enter: yes once · n no · or the reason why not"
    if isinstance(question, Question):
        return "y once · s session · i intent · e edit the rule · n no · or the reason why not"
    return "a number, or your own words" if question.choices else "your answer"

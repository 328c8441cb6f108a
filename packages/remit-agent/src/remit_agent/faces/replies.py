"""Answers to a run's questions, as words or as a flag gives them."""

from remit.gate.people.questions import Question
from remit.policy.decide import THRESHOLD_RULE
from remit_agent.journal.lines import QuestionLine
from remit_agent.run import PersonReply

LETTERS = {"y": "yes", "n": "no"}


def parse_words(question: QuestionLine, text: str) -> PersonReply | None:
    """Return the answer to a question of the run: the number of a choice, or words; None for none."""
    words = text.strip()
    if words.isdecimal() and 0 < int(words) <= len(question.choices):
        words = question.choices[int(words) - 1]
    elif question.kind == "mode":
        words = LETTERS.get(words.lower(), words)
    return PersonReply(words) if words else None


def can_flag_answer(question: Question) -> bool:
    """Return True if `--yes-within-scope` answers a question: a file call that only the risk threshold asks about. A
    command's effects are not known beforehand, and every other question would waive a rule.
    """
    return question.rule == THRESHOLD_RULE and not question.is_command

"""Questions of the gate about calls of a run, as events of the run, and answers as words or a flag give them.

The person's presence is of the run only: questions of other agents never wait for a terminal that does not show them.
"""

import asyncio
from contextlib import suppress

from remit.gate.context import RECORDING_ERRORS
from remit.gate.gate import Gate
from remit.gate.people.questions import Question
from remit.policy.decide import THRESHOLD_RULE
from remit_agent.session.events import RunEvent
from remit_agent.session.journal.lines import AnswerLine, QuestionLine
from remit_agent.session.run import PersonReply, Run

POLL_INTERVAL_S = 0.2


async def publish_questions(run: Run) -> None:
    """Announce a person's presence for the run, and publish each question about its calls, and each answer. Ends
    when cancelled.
    """
    session_id = run.session.session_id
    shown: set[str] = set()

    def look(gate: Gate) -> list[Question]:
        gate.questions.mark_watcher_present(session_id)
        return [question for question in gate.questions.list_open_questions() if question.session_id == session_id]

    try:
        while True:
            with suppress(*RECORDING_ERRORS):
                waiting = {question.id: question for question in await run.access.run(look)}
                for question in (waiting[name] for name in waiting.keys() - shown):
                    run.publish(RunEvent("question", question))
                for name in shown - waiting.keys():
                    run.publish(RunEvent("answer", AnswerLine(id=name, by="")))
                shown = {*waiting}
            await asyncio.sleep(POLL_INTERVAL_S)
    finally:
        with suppress(*RECORDING_ERRORS):
            await run.access.run(lambda gate: gate.questions.mark_watcher_gone(session_id))


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

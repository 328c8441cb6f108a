"""Questions of the gate about calls of a run, as events of the run: shown and answered by whichever face has a person.

The person's presence is of the run only: questions of other agents never wait for a terminal that does not show them.
"""

import asyncio
from contextlib import suppress

from remit.gate.context import RECORDING_ERRORS
from remit.gate.gate import Gate
from remit.gate.people.questions import Question
from remit_agent.events import RunEvent
from remit_agent.journal.lines import AnswerLine
from remit_agent.run import Run

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

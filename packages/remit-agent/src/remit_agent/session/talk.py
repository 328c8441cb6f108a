"""Requests of tools to their run: questions to the person, a new mode, children, the end of the task.

The functions are called in a tool's worker thread, and wait there for the event loop.
"""

import asyncio
import os
from collections.abc import Coroutine
from typing import Any, TypeVar

from remit.core.call import SessionKey
from remit.core.untrusted_input import sanitise_line
from remit.gate.context import RECORDING_ERRORS
from remit.gate.gate import Gate
from remit.gate.hooks.verify_commands import run_trusted_criteria
from remit.gate.intents.intents import IntentCompletion
from remit.gate.intents.refusals import ASSIGNED, IntentError, validate_scope
from remit_agent.models.messages import name_output
from remit_agent.session.events import RunEvent
from remit_agent.session.journal.file import Journal, JournalError, RunDirectory
from remit_agent.session.journal.lines import BegunLine, ModeLine, ParentCall, RunLine, UserLine
from remit_agent.session.loop import take_turns
from remit_agent.session.run import AGENT, Run
from remit_agent.tools.tool import ToolFailure

MAX_DEPTH = 3
MAX_STOP_S = 10.0
POLL_INTERVAL_S = 0.1
YES = "yes"
REVIEW_TOOL = "submit_review"
T = TypeVar("T")


class RunTalk:
    """The talk of one call with its run."""

    def __init__(self, run: Run, call_id: str) -> None:
        self.run, self.call_id = run, call_id

    def wait(self, work: Coroutine[Any, Any, T]) -> T:
        """Return the value of `work` in the event loop; meanwhile waiting calls have the repository's turn."""
        with self.run.access.turn.release():
            return asyncio.run_coroutine_threadsafe(work, self.run.loop).result()

    def ask_person(self, question: str, suggestions: tuple[tuple[str, str | None], ...]) -> str | None:
        choices = tuple(text for text, _ in suggestions)
        reply = self.wait(self.run.ask_person("followup", question, self.call_id, choices))
        if self.run.cancel.is_set():
            raise ToolFailure("CANCELLED", "the person cancelled the turn", "stop_and_report")
        return reply.words

    def switch_mode(self, slug: str, reason: str) -> str:
        run = self.run
        if not run.toolbox.has_mode(slug):
            raise ToolFailure("INVALID_ARGUMENTS", f"there is no mode {slug!r}")
        self.require_mode(slug, f"Switch from mode {run.history.mode} to {slug}? {sanitise_line(reason, 300)}")
        run.append(ModeLine(mode=slug, by=AGENT))
        return f"The mode is {slug} from now on."

    def require_mode(self, slug: str, question: str) -> None:
        """Ask the person about a mode that is wider than the run's. Raises ToolFailure without a yes."""
        run = self.run
        if not run.toolbox.is_wider_mode(slug, run.history.mode):
            return
        reply = self.wait(run.ask_person("mode", question, self.call_id, (YES, "no")))
        if reply.words != YES:
            said = f": {reply.words}" if reply.words else ", as nobody said yes"
            raise ToolFailure("UNAVAILABLE", f"the mode stays {run.history.mode}{said}", "ask_user")

    def start_child(self, mode: str, message: str, todos: str | None, scope: tuple[str, ...] | None) -> str:
        if not self.run.toolbox.has_mode(mode):
            raise ToolFailure("INVALID_ARGUMENTS", f"there is no mode {mode!r}")
        if depth_of(self.run) >= MAX_DEPTH:
            raise ToolFailure("UNAVAILABLE", f"tasks are nested at most {MAX_DEPTH} deep", "do_it_yourself")
        self.require_mode(mode, f"Give a task to a child in mode {mode}? {sanitise_line(message, 300)}")
        text = f"{message}\n\nTodo list:\n{todos}" if todos else message
        return self.wait(run_child(self.run, self.call_id, mode, text, scope or ()))

    def wait_for_command(self, artifact_id: str, seconds: float) -> bool:
        command = self.find_command(artifact_id)
        if command is None:
            return False
        self.wait(wait_for_end(self.run, command, seconds))
        return not command.done()

    def stop_command(self, artifact_id: str) -> str:
        command = self.find_command(artifact_id)
        if command is None:
            raise ToolFailure("NO_SUCH_OUTPUT", f"no command with the output {artifact_id!r} runs in the background")
        self.run.stop_calls([call for call, task in self.run.background.items() if task is command])
        self.wait(wait_for_end(self.run, command, MAX_STOP_S))
        return f"{artifact_id} was told to end." if not command.done() else f"{artifact_id} has ended."

    def find_command(self, artifact_id: str) -> "asyncio.Task[None] | None":
        found = (task for call, task in self.run.background.items() if name_output(call) == artifact_id)
        return next(found, None)

    def finish(self, result: str) -> str:
        turn = self.run.history.last_turn
        failed = [c.tool for c in (turn.calls if turn else ()) if self.run.history.is_failed(c.id)]
        if failed:
            raise ToolFailure("NOT_VERIFIED", f"{failed[0]} failed in the same turn", "mend_it_first")
        self.wait(self.run.stop_background())
        if self.run.access.gate.is_governed and self.run.parent is None:
            self.run.access.run_in_turn(self.verify_intent)
        return result

    def verify_intent(self, gate: Gate) -> None:
        """Run the criteria of the active intent, and release it; the intent of an assigned worktree stays until the
        attempt's end. Raises ToolFailure.
        """
        try:
            active = gate.state.active_session(self.run.session)
            intent = gate.intents.find_intent(active.intent_id)
            is_assigned = active.source == ASSIGNED
            # A stage that has given its verdict ends with it: what is red is mended by the stage it goes back to.
            is_judged = is_assigned and any(call.tool == REVIEW_TOOL for call in self.run.history.calls.values())
            if intent is None or is_judged:
                return
            obstacles = IntentCompletion(gate).find_obstacles(intent, vouched=True)
            obstacles = obstacles or run_trusted_criteria(gate, intent, self.run.session.session_id)
            if obstacles:
                raise ToolFailure(
                    "NOT_VERIFIED", f"{intent.id} is not complete: {'; '.join(obstacles)}", "mend_it_first"
                )
            if not is_assigned:
                gate.intents.clear(self.run.session, AGENT)
        except RECORDING_ERRORS as error:
            raise ToolFailure("NOT_VERIFIED", f"the criteria cannot be verified: {error}", "tell_the_person") from error


async def wait_for_end(run: Run, command: "asyncio.Task[None]", seconds: float) -> None:
    """Wait for the end of a command in the background, no longer than `seconds`, and not once the turn is cancelled."""
    end = run.loop.time() + seconds
    while not command.done() and run.loop.time() < end and not run.cancel.is_set():
        await asyncio.wait([command], timeout=POLL_INTERVAL_S)


def depth_of(run: Run) -> int:
    return 0 if run.parent is None else depth_of(run.parent) + 1


async def run_child(parent: Run, call_id: str, mode: str, text: str, scope: tuple[str, ...]) -> str:
    """Return the completion of a child run, begun or taken up again. Raises ToolFailure."""
    try:
        validate_scope(scope, required=False)
    except IntentError as error:
        raise ToolFailure("INVALID_ARGUMENTS", str(error)) from None
    begun = parent.history.begun.get(call_id)
    child_id = begun.child if begun else os.urandom(6).hex()
    folder = RunDirectory.create(parent.folder.path / "children", child_id)
    if begun is None:
        parent.append(BegunLine(id=call_id, child=child_id))
    try:
        journal = Journal(folder, parent.clock)
    except JournalError as error:
        raise ToolFailure("UNAVAILABLE", str(error)) from error
    child = Run(
        journal,
        parent.access,
        parent.provider,
        parent.toolbox,
        session=SessionKey(parent.session.session_id, child_id),
        cwd=parent.cwd,
        parent=parent,
        scope=scope,
        until_completion=True,
        has_vision=parent.has_vision,
        clock=parent.clock,
    )
    child.make_talk = lambda call: RunTalk(child, call)
    child.listeners.append(lambda event: publish_child_event(parent, child_id, event))
    parent.take_child(child_id, child)
    try:
        if child.history.started is None:
            line = RunLine(
                run=child_id,
                task=text,
                cwd=str(parent.cwd),
                model=parent.provider.id,
                mode=mode,
                parent=ParentCall(parent.folder.id, call_id),
            )
            child.append(line)
        else:
            child.mark_resumed()
        if not child.history.first_words:
            child.append(UserLine(text=text, by="parent"))
        ended = child.history.ended or await take_turns(child)
    finally:
        await child.stop_background()
        del parent.children[child_id]
        journal.close()
    if ended is None:
        raise ToolFailure("CANCELLED", "the person cancelled the task", "stop_and_report")
    if ended.state not in ("completed", "answered"):
        raise ToolFailure("UNAVAILABLE", f"the task ended without a result ({ended.state}): {ended.reason}")
    return ended.reason


def publish_child_event(parent: Run, child_id: str, event: RunEvent) -> None:
    path = f"{child_id}/{event.child}" if event.child else child_id
    parent.tell_listeners(RunEvent(event.event, event.data, event.n, path))

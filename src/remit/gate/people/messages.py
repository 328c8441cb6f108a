"""Messages for a session's model that the answer to a call cannot carry; they wait in the state until an answer can."""

import json

from msgspec.structs import replace

from remit.adapters.payload import can_continue
from remit.core.agents import ROWS
from remit.core.call import Outcome, SessionKey, ToolCall
from remit.core.untrusted_input import sanitise_line
from remit.gate.context import Answer, join_lines
from remit.gate.state.workspace_state import State

MAX_MESSAGE_CHARS = 8000  # characters of waiting messages that are kept, the newest ones
MAX_COMMAND_CHARS = 80


class PendingMessages:
    """Pending messages of one workspace. Methods raise StateError."""

    def __init__(self, state: State) -> None:
        self.state = state

    def add_message(self, session: SessionKey, text: str) -> None:
        if text:
            with self.state.transaction():
                waiting = self.load_messages(session)
                waiting[""] = join_lines(waiting.get("", ""), text)[-MAX_MESSAGE_CHARS:]
                self.store_messages(session, waiting)

    def add_unheard_message(self, call: ToolCall, outcome: Outcome, text: str) -> None:
        if not can_tell_after(call.agent, outcome):
            self.add_message(call.session, text)

    def add_contained_result(self, call: ToolCall, token: str, text: str) -> None:
        """Keep a contained command's result: in the background, the command ends after its call returned."""
        if text:
            text = f"Remit: `{sanitise_line(call.command or '', MAX_COMMAND_CHARS)}` has ended.\n{text}"
            with self.state.transaction():
                entry = {call.call_id or token: text[-MAX_MESSAGE_CHARS:]}
                self.store_messages(call.session, self.load_messages(call.session) | entry)

    def drop_contained_result(self, call: ToolCall, token: str) -> None:
        """Drop the result of a contained command whose call returned after its end: its own output has the result."""
        if (name := call.call_id or token) in self.load_messages(call.session):
            with self.state.transaction():
                waiting = self.load_messages(call.session)
                waiting.pop(name, None)
                self.store_messages(call.session, waiting)

    def take_for_result(self, call: ToolCall, outcome: Outcome) -> str:
        row = ROWS.get(call.agent)
        is_heard = row is not None and "before" not in row.context_events and can_tell_after(call.agent, outcome)
        return self.take_messages(call.session) if is_heard else ""

    def deliver_with_answer(self, call: ToolCall, answer: Answer) -> Answer:
        """Return the answer with pending messages if the model hears it: always a denial, else by the agent's row."""
        row, effect = ROWS.get(call.agent), answer.decision.effect
        if row is None:
            is_heard = effect == "deny"
        else:
            is_question = effect == "ask" and row.can_ask
            goes_on = is_question or can_continue(row, answer.decision, answer.arguments)
            is_heard = "before" in row.context_events or not goes_on
        if is_heard:
            return answer.with_notice(self.take_messages(call.session))
        self.add_message(call.session, answer.context)
        return replace(answer, context="")

    def take_messages(self, session: SessionKey) -> str:
        if not self.load_messages(session):
            return ""
        with self.state.transaction():
            text = join_lines(*self.load_messages(session).values())
            self.store_messages(session, {})
        return text

    def load_messages(self, session: SessionKey) -> dict[str, str]:
        """Return the waiting messages by call id or ticket; general messages under the empty name."""
        return json.loads(self.state.read_fact(f"unsaid:{session.session_id}:{session.agent_id}") or "{}")

    def store_messages(self, session: SessionKey, messages: dict[str, str]) -> None:
        self.state.put_fact(f"unsaid:{session.session_id}:{session.agent_id}", json.dumps(messages))


def can_tell_after(agent: str, outcome: Outcome) -> bool:
    row = ROWS.get(agent)
    event = "after" if outcome.ok or row is None or "failed" not in row.events.values() else "failed"
    return row is not None and event in row.context_events

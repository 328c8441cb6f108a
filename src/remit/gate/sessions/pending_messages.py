"""Messages for a session that the answer to a call cannot carry; kept until an answer can."""

from msgspec.structs import replace

from remit.adapters import ROWS
from remit.adapters.agent_row import can_continue
from remit.core.call import Outcome, SessionKey, ToolCall
from remit.core.display_text import sanitise_line
from remit.gate.answer import Answer, join_lines
from remit.gate.state.messages import MAX_MESSAGE_CHARS, add_message, load_messages, store_messages
from remit.gate.state.workspace_state import State

MAX_COMMAND_CHARS = 80


class PendingMessages:
    """Pending messages of one workspace. Methods raise StateError."""

    def __init__(self, state: State) -> None:
        self.state = state

    def add_unheard_message(self, call: ToolCall, outcome: Outcome, words: str) -> None:
        """Keep the message if this agent's model does not hear answers to such a call."""
        if not can_tell_after(call.agent, failed=not outcome.ok):
            self.add_message(call.session, words)

    def add_message(self, session: SessionKey, words: str) -> None:
        add_message(self.state, session, words)

    def add_contained_result(self, call: ToolCall, token: str, words: str) -> None:
        """Keep a contained command's result: in the background, the command ends after its call returned."""
        if not words:
            return
        heading = f"Remit: `{sanitise_line(call.command or '', MAX_COMMAND_CHARS)}` has ended."
        entry = {call.call_id or token: f"{heading}\n{words}"[-MAX_MESSAGE_CHARS:]}
        with self.state.group_changes():
            self.store_messages(call.session, {**self.load_messages(call.session), **entry})

    def drop_contained_result(self, call: ToolCall, token: str) -> None:
        """Drop the result of a contained command whose call returned after its end: its own output has the result."""
        name = call.call_id or token
        if name not in self.load_messages(call.session):
            return
        with self.state.group_changes():
            self.store_messages(
                call.session, {key: words for key, words in self.load_messages(call.session).items() if key != name}
            )

    def take_for_result(self, call: ToolCall, outcome: Outcome) -> str:
        """Return the messages for this result, if the model hears results but no answer before a call."""
        row = ROWS.get(call.agent)
        if row is None or "before" in row.context_events or not can_tell_after(call.agent, failed=not outcome.ok):
            return ""
        return self.take_messages(call.session)

    def deliver_with_answer(self, call: ToolCall, answer: Answer) -> Answer:
        """Return the answer with pending messages if the model hears the answer; else keep the answer's context for the
        result.
        """
        if can_tell_before(call.agent, answer):
            return answer.with_notice(self.take_messages(call.session))
        self.add_message(call.session, answer.context)
        return replace(answer, context="")

    def take_messages(self, session: SessionKey) -> str:
        """Return and remove the session's messages."""
        if not self.load_messages(session):
            return ""
        with self.state.group_changes():
            words = self.format_messages(session)
            self.store_messages(session, {})
        return words

    def format_messages(self, session: SessionKey) -> str:
        return join_lines(*self.load_messages(session).values())

    def load_messages(self, session: SessionKey) -> dict[str, str]:
        """Return messages not yet delivered, by call id or ticket; general ones under ""."""
        return load_messages(self.state, session)

    def store_messages(self, session: SessionKey, words: dict[str, str]) -> None:
        store_messages(self.state, session, words)


def can_tell_before(agent: str, answer: Answer) -> bool:
    """Return True if the answer's context reaches the model: always for a denial, else by the agent's row."""
    row, effect = ROWS.get(agent), answer.decision.effect
    if row is None:
        return effect == "deny"
    is_question = effect == "ask" and row.can_ask
    return "before" in row.context_events or not (is_question or can_continue(row, answer.decision, answer.arguments))


def can_tell_after(agent: str, *, failed: bool) -> bool:
    row = ROWS.get(agent)
    if row is None:
        return False
    event = "failed" if failed and "failed" in row.events.values() else "after"
    return event in row.context_events

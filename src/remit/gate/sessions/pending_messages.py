"""What a session has to be told, where the answer to a call cannot carry it: it waits for one that can."""

import json

from msgspec.structs import replace

from remit.adapters import ROWS
from remit.adapters.agent_row import can_continue
from remit.core.call import Outcome, SessionKey, ToolCall
from remit.core.display_text import sanitise_line
from remit.gate.answer import Answer, join_lines
from remit.gate.state.workspace_state import State

MAX_CHARS = 8000
MAX_COMMAND_CHARS = 80
MESSAGES_FACT = "unsaid"


class PendingMessages:
    """The words that wait, in one workspace. All of it raises StateError."""

    def __init__(self, state: State) -> None:
        self.state = state

    def add_unheard_message(self, call: ToolCall, outcome: Outcome, words: str) -> None:
        """Keep the words where this agent's model does not hear what is said after such a call."""
        if not can_tell_after(call.agent, failed=not outcome.ok):
            self.add_message(call.session, words)

    def add_message(self, session: SessionKey, words: str) -> None:
        """Keep the words beside what waits already."""
        if not words:
            return
        with self.state.group_changes():
            kept = self.load_messages(session)
            self.store_messages(session, {**kept, "": join_lines(kept.get("", ""), words)[-MAX_CHARS:]})

    def add_contained_result(self, call: ToolCall, token: str, words: str) -> None:
        """Keep what came of a contained command: in the background, its end comes after its call came back."""
        if not words:
            return
        named = f"Remit: `{sanitise_line(call.command or '', MAX_COMMAND_CHARS)}` has ended."
        entry = {call.call_id or token: f"{named}\n{words}"[-MAX_CHARS:]}
        with self.state.group_changes():
            self.store_messages(call.session, {**self.load_messages(call.session), **entry})

    def drop_contained_result(self, call: ToolCall, token: str) -> None:
        """A contained command's call came back after its end: what came of it stands in its own output."""
        name = call.call_id or token
        if name not in self.load_messages(call.session):
            return
        with self.state.group_changes():
            self.store_messages(
                call.session, {key: words for key, words in self.load_messages(call.session).items() if key != name}
            )

    def take_for_result(self, call: ToolCall, outcome: Outcome) -> str:
        """The words to say with this result: where the agent's model hears that, and nothing before a call."""
        row = ROWS.get(call.agent)
        if row is None or "before" in row.context_events or not can_tell_after(call.agent, failed=not outcome.ok):
            return ""
        return self.take_messages(call.session)

    def deliver_with_answer(self, call: ToolCall, answer: Answer) -> Answer:
        """The answer with what waits, where the model hears what is said with it; where not, its own words wait too,
        for the call's result.
        """
        if can_tell_before(call.agent, answer):
            return answer.with_notice(self.take_messages(call.session))
        self.add_message(call.session, answer.context)
        return replace(answer, context="")

    def take_messages(self, session: SessionKey) -> str:
        """What waits for this session; it waits no longer."""
        if not self.load_messages(session):
            return ""
        with self.state.group_changes():
            words = self.format_messages(session)
            self.store_messages(session, {})
        return words

    def format_messages(self, session: SessionKey) -> str:
        """What waits for this session."""
        return join_lines(*self.load_messages(session).values())

    def load_messages(self, session: SessionKey) -> dict[str, str]:
        """What waits: by the call, or the leave, whose end it tells; the rest under no name."""
        return json.loads(self.state.read_fact(fact_name(session)) or "{}")

    def store_messages(self, session: SessionKey, words: dict[str, str]) -> None:
        """These words wait, in place of what did."""
        self.state.put_fact(fact_name(session), json.dumps(words))


def fact_name(session: SessionKey) -> str:
    """The fact that holds a session's words."""
    return f"{MESSAGES_FACT}:{session.session_id}:{session.agent_id}"


def can_tell_before(agent: str, answer: Answer) -> bool:
    """Whether what is said with this answer reaches the model: a denial does, whatever else the agent passes on."""
    row, effect = ROWS.get(agent), answer.decision.effect
    if row is None:
        return effect == "deny"
    asked = effect == "ask" and row.can_ask
    return "before" in row.context_events or not (asked or can_continue(row, answer.decision, answer.arguments))


def can_tell_after(agent: str, *, failed: bool) -> bool:
    """Whether what is said after a call reaches this agent's model."""
    row = ROWS.get(agent)
    if row is None:
        return False
    event = "failed" if failed and "failed" in row.events.values() else "after"
    return event in row.context_events

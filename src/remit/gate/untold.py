"""What a session has to be told, where the answer to a call cannot carry it: it waits for one that can."""

import json

from msgspec.structs import replace

from remit.adapters import ROWS
from remit.adapters.row import passes
from remit.core.call import Outcome, SessionKey, ToolCall
from remit.core.text import shown
from remit.gate.answer import Answer, joined
from remit.gate.state import State

MOST_CHARS = 8000
MOST_OF_A_COMMAND = 80
FACT = "unsaid"


class Untold:
    """The words that wait, in one workspace. All of it raises StateError."""

    def __init__(self, state: State) -> None:
        self.state = state

    def after(self, call: ToolCall, outcome: Outcome, words: str) -> None:
        """Keep the words where this agent's model does not hear what is said after such a call."""
        if not hears_after(call.agent, failed=not outcome.ok):
            self.also(call.session, words)

    def also(self, session: SessionKey, words: str) -> None:
        """Keep the words beside what waits already."""
        if not words:
            return
        with self.state.together():
            kept = self.kept(session)
            self.keep(session, {**kept, "": joined(kept.get("", ""), words)[-MOST_CHARS:]})

    def late(self, call: ToolCall, token: str, words: str) -> None:
        """Keep what came of a contained command: in the background, its end comes after its call came back."""
        if not words:
            return
        named = f"Remit: `{shown(call.command or '', MOST_OF_A_COMMAND)}` has ended."
        entry = {call.call_id or token: f"{named}\n{words}"[-MOST_CHARS:]}
        with self.state.together():
            self.keep(call.session, {**self.kept(call.session), **entry})

    def arrived(self, call: ToolCall, token: str) -> None:
        """A contained command's call came back after its end: what came of it stands in its own output."""
        name = call.call_id or token
        if name not in self.kept(call.session):
            return
        with self.state.together():
            self.keep(call.session, {key: words for key, words in self.kept(call.session).items() if key != name})

    def beside(self, call: ToolCall, outcome: Outcome) -> str:
        """The words to say with this result: where the agent's model hears that, and nothing before a call."""
        row = ROWS.get(call.agent)
        if row is None or "before" in row.context or not hears_after(call.agent, failed=not outcome.ok):
            return ""
        return self.taken(call.session)

    def before(self, call: ToolCall, answer: Answer) -> Answer:
        """The answer with what waits, where the model hears what is said with it; where not, its own words wait too,
        for the call's result.
        """
        if hears_before(call.agent, answer):
            return answer.saying(self.taken(call.session))
        self.also(call.session, answer.context)
        return replace(answer, context="")

    def taken(self, session: SessionKey) -> str:
        """What waits for this session; it waits no longer."""
        if not self.kept(session):
            return ""
        with self.state.together():
            words = self.waiting(session)
            self.keep(session, {})
        return words

    def waiting(self, session: SessionKey) -> str:
        """What waits for this session."""
        return joined(*self.kept(session).values())

    def kept(self, session: SessionKey) -> dict[str, str]:
        """What waits: by the call, or the leave, whose end it tells; the rest under no name."""
        return json.loads(self.state.fact(name(session)) or "{}")

    def keep(self, session: SessionKey, words: dict[str, str]) -> None:
        """These words wait, in place of what did."""
        self.state.put_fact(name(session), json.dumps(words))


def name(session: SessionKey) -> str:
    """The fact that holds a session's words."""
    return f"{FACT}:{session.session_id}:{session.agent_id}"


def hears_before(agent: str, answer: Answer) -> bool:
    """Whether what is said with this answer reaches the model: a denial does, whatever else the agent passes on."""
    row, effect = ROWS.get(agent), answer.decision.effect
    if row is None:
        return effect == "deny"
    asked = effect == "ask" and row.asks
    return "before" in row.context or not (asked or passes(row, answer.decision, answer.arguments))


def hears_after(agent: str, *, failed: bool) -> bool:
    """Whether what is said after a call reaches this agent's model."""
    row = ROWS.get(agent)
    if row is None:
        return False
    event = "failed" if failed and "failed" in row.events.values() else "after"
    return event in row.context

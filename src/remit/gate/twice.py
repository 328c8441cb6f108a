"""One event that two agents' hooks tell: some programs read another agent's hook settings too, and run both."""

from msgspec import Struct

from remit.core.call import ToolCall
from remit.gate.answer import Answer

FOLD_S = 2.0
"""Two hooks of one event start together; so late no second one comes."""

MOST = 64


class Told(Struct, frozen=True):
    """What was answered, to which agent's hook, when."""

    agent: str
    at: float
    answer: Answer


Event = tuple[str, str, str, str, str, str]


class Twice:
    """The answers of the last seconds. It lives as long as its gate: a daemon's, not a single hook's."""

    def __init__(self) -> None:
        self.told: dict[Event, Told] = {}

    def earlier(self, phase: str, call: ToolCall, now: float) -> Answer | None:
        """What was just answered to the same event under another agent's name; each answer serves once."""
        event = event_of(phase, call)
        found = self.told.get(event)
        if found is None or found.agent == call.agent or not 0 <= now - found.at <= FOLD_S:
            return None
        del self.told[event]
        return found.answer

    def tell(self, phase: str, call: ToolCall, now: float, answer: Answer) -> Answer:
        """Remember this answer, and give it."""
        while self.told and (len(self.told) >= MOST or not 0 <= now - next(iter(self.told.values())).at <= FOLD_S):
            del self.told[next(iter(self.told))]
        self.told.pop(event_of(phase, call), None)
        self.told[event_of(phase, call)] = Told(call.agent, now, answer)
        return answer


def event_of(phase: str, call: ToolCall) -> Event:
    """What two hooks of one event have in common, whichever agent each speaks for."""
    session = call.session
    return (phase, session.session_id, session.agent_id, call.cwd, call.tool, call.arguments_sha256)

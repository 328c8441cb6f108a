"""One event that two agents' hooks tell: some programs read another agent's hook settings too, and run both."""

import json
import time
from collections import deque
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext, suppress
from typing import Any, Protocol

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from remit.core.call import SessionKey, ToolCall
from remit.gate.answer import Answer
from remit.gate.state.database import StateError
from remit.gate.state.workspace_state import State

SAME_EVENT_S = 2.0
"""Two hooks of one event start together; so late no second one comes."""

MAX_ANSWERS = 64
POLL_INTERVAL_S = 0.01

RECENT_S = 24 * 3600.0
AGENT_COUNT_TTL_S = 10.0
"""So long it is believed how many agents there are."""


class FiredEvent(Struct, frozen=True):
    """An event as one agent's hook told it, and what was answered. `digest` is that of the arguments."""

    phase: str
    agent: str
    session: SessionKey
    cwd: str
    tool: str
    effect: str
    digest: str
    at: float
    answer: Answer | None = None


def make_event(phase: str, call: ToolCall, now: float, answer: Answer | None = None) -> FiredEvent:
    """This call, as its agent's hook tells it."""
    return FiredEvent(
        *(phase, call.agent, call.session, call.cwd),
        *(call.tool, call.effect, call.arguments_sha256, now, answer),
    )


def is_same_event(first: FiredEvent, second: FiredEvent) -> bool:
    """Whether both tell one event under two agents' names, each with words of its own for session and tool."""
    return (
        first.agent != second.agent
        and (first.phase, first.digest) == (second.phase, second.digest)
        and (first.effect == second.effect or first.tool == second.tool)
        and (first.session == second.session or first.cwd == second.cwd)
        and abs(second.at - first.at) <= SAME_EVENT_S
    )


def can_reuse(first: FiredEvent, second: FiredEvent) -> bool:
    """Whether the answer to the first holds for the second as well.

    Two sessions that only share a folder may be two agents at work: then one's leave to change something is not the
    other's. Arguments that a hook put in place are in one agent's words.
    """
    answer = first.answer
    if answer is None or answer.arguments is not None:
        return False
    harmless = answer.decision.effect != "allow" or answer.decision.call_class == "safe"
    return harmless or first.session == second.session


class RecentAnswers(Protocol):
    """Who remembers what was just answered."""

    def find_earlier(self, phase: str, call: ToolCall, now: float) -> Answer | None:
        """What was just answered to the same event under another agent's name; each answer serves once."""
        ...

    def remember_answer(self, phase: str, call: ToolCall, now: float, answer: Answer) -> Answer:
        """Remember this answer, and give it."""
        ...


class SharedAnswers:
    """The same across processes that answer one call each, in the state database.

    The first writes down that it has begun; the second waits for its answer. Where the database cannot be used,
    each answers for itself.
    """

    def __init__(self, state: State, unlocked: Callable[[], AbstractContextManager[Any]] = nullcontext) -> None:
        self.state = state
        self.unlocked = unlocked
        """What to hold open while this waits for another process."""
        self.row: int | None = None

    def find_earlier(self, phase: str, call: ToolCall, now: float) -> Answer | None:
        """See `Twice`."""
        second = make_event(phase, call, now)
        with suppress(StateError):
            row = self.begin_event(second)
            return None if row is None else self.wait_for_answer(row, second)
        return None

    def wait_for_answer(self, row: int, second: FiredEvent) -> Answer | None:
        """The answer of the one who was first, when it is there; None where it does not come in time, or serve."""
        until = time.monotonic() + SAME_EVENT_S
        while time.monotonic() < until:
            first = self.read_event(row)
            if first is None or first.answer is not None:
                return self.take_answer(row, first, second)
            with self.unlocked():
                time.sleep(POLL_INTERVAL_S)
        return None

    def begin_event(self, second: FiredEvent) -> int | None:
        """The row of the one who tells the same and was first; where there is none, this one's is written."""
        with self.state.transaction():
            found = self.find_event(second)
            if found is None:
                self.row = self.put_event(second)
        return found

    def find_event(self, second: FiredEvent) -> int | None:
        """The row of another process that tells the same."""
        rows = self.state.fetch_rows(
            "SELECT id, event FROM told WHERE workspace=? AND digest=? ORDER BY id",
            *(self.state.workspace, second.digest),
        )
        return next((row[0] for row in rows if (first := decode_event(row[1])) and is_same_event(first, second)), None)

    def put_event(self, event: FiredEvent) -> int | None:
        """Write an event down; its row. Older ones go."""
        with self.state.transaction() as connection:
            span = (event.at - SAME_EVENT_S, event.at + SAME_EVENT_S)
            connection.execute("DELETE FROM told WHERE at NOT BETWEEN ? AND ?", span)
            return connection.execute(
                "INSERT INTO told(workspace, digest, at, event) VALUES(?,?,?,?)",
                (self.state.workspace, event.digest, event.at, encode_event(event)),
            ).lastrowid

    def read_event(self, row: int) -> FiredEvent | None:
        """What stands in that row now."""
        found = self.state.fetch_row("SELECT event FROM told WHERE id=?", row)
        return None if found is None else decode_event(found[0])

    def take_answer(self, row: int, first: FiredEvent | None, second: FiredEvent) -> Answer | None:
        """The answer of the first, used up, where it serves."""
        if first is None or not can_reuse(first, second):
            return None
        return first.answer if self.delete_event(row) else None

    def delete_event(self, row: int) -> bool:
        """Forget an event; False where somebody else did."""
        with self.state.transaction() as connection:
            return connection.execute("DELETE FROM told WHERE id=?", (row,)).rowcount > 0

    def remember_answer(self, phase: str, call: ToolCall, now: float, answer: Answer) -> Answer:
        """See `Twice`."""
        if self.row is None:
            return answer
        event = encode_event(make_event(phase, call, now, answer))
        with suppress(StateError), self.state.transaction() as connection:
            connection.execute("UPDATE told SET event=? WHERE id=?", (event, self.row))
        return answer


class KeptAnswers:
    """The answers of the last seconds, in the memory of a process that judges one call after another.

    The second hook of an event may have gone to a process of its own: so what such a process began is looked for here,
    and, where more than one agent works in this workspace, what is answered here is written down for it.
    """

    def __init__(self, shared: SharedAnswers | None) -> None:
        self.shared = shared
        self.answers: deque[tuple[FiredEvent, int | None]] = deque(maxlen=MAX_ANSWERS)
        """The answers, each with its row where it has one."""
        self.has_several_agents = False
        self.looked_at = 0.0

    def find_earlier(self, phase: str, call: ToolCall, now: float) -> Answer | None:
        """See `Twice`."""
        second = make_event(phase, call, now)
        alike = [each for each in self.answers if each[0].digest == second.digest]
        first = next((each for each in alike if is_same_event(each[0], second) and can_reuse(each[0], second)), None)
        if first is not None:
            self.answers.remove(first)
            return first[0].answer if self.is_still_ours(first[1]) else None
        with suppress(StateError):
            row = self.shared.find_event(second) if self.shared else None
            own = row in [row for _, row in self.answers]
            return self.shared.wait_for_answer(row, second) if self.shared and row is not None and not own else None
        return None

    def is_still_ours(self, row: int | None) -> bool:
        """Whether no other process gave this answer meanwhile; none does from here on."""
        with suppress(StateError):
            return row is None or self.shared is None or self.shared.delete_event(row)
        return True

    def remember_answer(self, phase: str, call: ToolCall, now: float, answer: Answer) -> Answer:
        """See `Twice`."""
        event, row = make_event(phase, call, now, answer), None
        with suppress(StateError):
            row = (
                self.shared.put_event(event) if self.shared and self.has_other_agents(self.shared.state, now) else None
            )
        while self.answers and not 0 <= now - self.answers[0][0].at <= SAME_EVENT_S:
            self.answers.popleft()
        self.answers.append((event, row))
        return answer

    def has_other_agents(self, state: State, now: float) -> bool:
        """Whether more than one agent had sessions here lately: one alone tells nothing twice. Raises StateError."""
        if not 0 <= now - self.looked_at <= AGENT_COUNT_TTL_S:
            self.looked_at = now
            found = state.fetch_row(
                "SELECT count(DISTINCT agent) FROM sessions WHERE workspace=? AND seen_at>?",
                *(state.workspace, now - RECENT_S),
            )
            self.has_several_agents = found is not None and found[0] > 1
        return self.has_several_agents


def encode_event(told: FiredEvent) -> bytes:
    """As ASCII: names in it may not be UTF-8, and have to come back as they were. The findings are in words already."""
    if told.answer is not None:
        decision = replace(told.answer.decision, findings=())
        told = replace(told, answer=replace(told.answer, decision=decision))
    return json.dumps(msgspec.to_builtins(told)).encode("ascii")


def decode_event(blob: bytes) -> FiredEvent | None:
    """What `packed` wrote; None where something else stands there."""
    try:
        return msgspec.convert(json.loads(blob), FiredEvent)
    except (ValueError, TypeError):
        return None

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
from remit.gate.state import State
from remit.gate.state_file import StateError

FOLD_S = 2.0
"""Two hooks of one event start together; so late no second one comes."""

MOST = 64
POLL_S = 0.01

LATELY_S = 24 * 3600.0
LOOKED_S = 10.0
"""So long it is believed how many agents there are."""


class Told(Struct, frozen=True):
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


def told_by(phase: str, call: ToolCall, now: float, answer: Answer | None = None) -> Told:
    """This call, as its agent's hook tells it."""
    return Told(
        *(phase, call.agent, call.session, call.cwd),
        *(call.tool, call.effect, call.arguments_sha256, now, answer),
    )


def is_same(first: Told, second: Told) -> bool:
    """Whether both tell one event under two agents' names, each with words of its own for session and tool."""
    return (
        first.agent != second.agent
        and (first.phase, first.digest) == (second.phase, second.digest)
        and (first.effect == second.effect or first.tool == second.tool)
        and (first.session == second.session or first.cwd == second.cwd)
        and abs(second.at - first.at) <= FOLD_S
    )


def serves(first: Told, second: Told) -> bool:
    """Whether the answer to the first holds for the second as well.

    Two sessions that only share a folder may be two agents at work: then one's leave to change something is not the
    other's. Arguments that a hook put in place are in one agent's words.
    """
    answer = first.answer
    if answer is None or answer.arguments is not None:
        return False
    harmless = answer.decision.effect != "allow" or answer.decision.call_class == "safe"
    return harmless or first.session == second.session


class Twice(Protocol):
    """Who remembers what was just answered."""

    def earlier(self, phase: str, call: ToolCall, now: float) -> Answer | None:
        """What was just answered to the same event under another agent's name; each answer serves once."""
        ...

    def tell(self, phase: str, call: ToolCall, now: float, answer: Answer) -> Answer:
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

    def earlier(self, phase: str, call: ToolCall, now: float) -> Answer | None:
        """See `Twice`."""
        second = told_by(phase, call, now)
        with suppress(StateError):
            row = self.begun(second)
            return None if row is None else self.waited(row, second)
        return None

    def waited(self, row: int, second: Told) -> Answer | None:
        """The answer of the one who was first, when it is there; None where it does not come in time, or serve."""
        until = time.monotonic() + FOLD_S
        while time.monotonic() < until:
            first = self.told(row)
            if first is None or first.answer is not None:
                return self.taken(row, first, second)
            with self.unlocked():
                time.sleep(POLL_S)
        return None

    def begun(self, second: Told) -> int | None:
        """The row of the one who tells the same and was first; where there is none, this one's is written."""
        with self.state.writing():
            found = self.known(second)
            if found is None:
                self.row = self.put(second)
        return found

    def known(self, second: Told) -> int | None:
        """The row of another process that tells the same."""
        rows = self.state.rows(
            "SELECT id, event FROM told WHERE workspace=? AND digest=? ORDER BY id",
            *(self.state.workspace, second.digest),
        )
        return next((row[0] for row in rows if (first := unpacked(row[1])) and is_same(first, second)), None)

    def put(self, event: Told) -> int | None:
        """Write an event down; its row. Older ones go."""
        with self.state.writing() as connection:
            span = (event.at - FOLD_S, event.at + FOLD_S)
            connection.execute("DELETE FROM told WHERE at NOT BETWEEN ? AND ?", span)
            return connection.execute(
                "INSERT INTO told(workspace, digest, at, event) VALUES(?,?,?,?)",
                (self.state.workspace, event.digest, event.at, packed(event)),
            ).lastrowid

    def told(self, row: int) -> Told | None:
        """What stands in that row now."""
        found = self.state.row("SELECT event FROM told WHERE id=?", row)
        return None if found is None else unpacked(found[0])

    def taken(self, row: int, first: Told | None, second: Told) -> Answer | None:
        """The answer of the first, used up, where it serves."""
        if first is None or not serves(first, second):
            return None
        return first.answer if self.drop(row) else None

    def drop(self, row: int) -> bool:
        """Forget an event; False where somebody else did."""
        with self.state.writing() as connection:
            return connection.execute("DELETE FROM told WHERE id=?", (row,)).rowcount > 0

    def tell(self, phase: str, call: ToolCall, now: float, answer: Answer) -> Answer:
        """See `Twice`."""
        if self.row is None:
            return answer
        event = packed(told_by(phase, call, now, answer))
        with suppress(StateError), self.state.writing() as connection:
            connection.execute("UPDATE told SET event=? WHERE id=?", (event, self.row))
        return answer


class KeptAnswers:
    """The answers of the last seconds, in the memory of a process that judges one call after another.

    The second hook of an event may have gone to a process of its own: so what such a process began is looked for here,
    and, where more than one agent works in this workspace, what is answered here is written down for it.
    """

    def __init__(self, shared: SharedAnswers | None) -> None:
        self.shared = shared
        self.told: deque[tuple[Told, int | None]] = deque(maxlen=MOST)
        """The answers, each with its row where it has one."""
        self.several = False
        self.looked_at = 0.0

    def earlier(self, phase: str, call: ToolCall, now: float) -> Answer | None:
        """See `Twice`."""
        second = told_by(phase, call, now)
        alike = [each for each in self.told if each[0].digest == second.digest]
        first = next((each for each in alike if is_same(each[0], second) and serves(each[0], second)), None)
        if first is not None:
            self.told.remove(first)
            return first[0].answer if self.is_ours(first[1]) else None
        with suppress(StateError):
            row = self.shared.known(second) if self.shared else None
            own = row in [row for _, row in self.told]
            return self.shared.waited(row, second) if self.shared and row is not None and not own else None
        return None

    def is_ours(self, row: int | None) -> bool:
        """Whether no other process gave this answer meanwhile; none does from here on."""
        with suppress(StateError):
            return row is None or self.shared is None or self.shared.drop(row)
        return True

    def tell(self, phase: str, call: ToolCall, now: float, answer: Answer) -> Answer:
        """See `Twice`."""
        event, row = told_by(phase, call, now, answer), None
        with suppress(StateError):
            row = self.shared.put(event) if self.shared and self.agents_beside(self.shared.state, now) else None
        while self.told and not 0 <= now - self.told[0][0].at <= FOLD_S:
            self.told.popleft()
        self.told.append((event, row))
        return answer

    def agents_beside(self, state: State, now: float) -> bool:
        """Whether more than one agent had sessions here lately: one alone tells nothing twice. Raises StateError."""
        if not 0 <= now - self.looked_at <= LOOKED_S:
            self.looked_at = now
            found = state.row(
                "SELECT count(DISTINCT agent) FROM sessions WHERE workspace=? AND seen_at>?",
                *(state.workspace, now - LATELY_S),
            )
            self.several = found is not None and found[0] > 1
        return self.several


def packed(told: Told) -> bytes:
    """As ASCII: names in it may not be UTF-8, and have to come back as they were. The findings are in words already."""
    if told.answer is not None:
        decision = replace(told.answer.decision, findings=())
        told = replace(told, answer=replace(told.answer, decision=decision))
    return json.dumps(msgspec.to_builtins(told)).encode("ascii")


def unpacked(blob: bytes) -> Told | None:
    """What `packed` wrote; None where something else stands there."""
    try:
        return msgspec.convert(json.loads(blob), Told)
    except (ValueError, TypeError):
        return None

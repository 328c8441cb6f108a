"""One event that two agents' hooks tell: some programs read another agent's hook settings too, and run both."""

import json
import time
from typing import Protocol

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from remit.core.call import SessionKey, ToolCall
from remit.gate.answer import Answer
from remit.gate.state import State, StateError

FOLD_S = 2.0
"""Two hooks of one event start together; so late no second one comes."""

MOST = 64
POLL_S = 0.01


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
        and 0 <= second.at - first.at <= FOLD_S
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


class KeptAnswers:
    """The answers of the last seconds, in the memory of a process that judges one call after another."""

    def __init__(self) -> None:
        self.told: list[Told] = []

    def earlier(self, phase: str, call: ToolCall, now: float) -> Answer | None:
        """See `Twice`."""
        second = told_by(phase, call, now)
        for first in self.told:
            if is_same(first, second) and serves(first, second):
                self.told.remove(first)
                return first.answer
        return None

    def tell(self, phase: str, call: ToolCall, now: float, answer: Answer) -> Answer:
        """See `Twice`."""
        recent = [each for each in self.told if 0 <= now - each.at <= FOLD_S]
        self.told = [*recent[1 - MOST :], told_by(phase, call, now, answer)]
        return answer


class SharedAnswers:
    """The same across processes that answer one call each, in the state database.

    The first writes down that it has begun; the second waits for its answer. Where the database cannot be used,
    each answers for itself.
    """

    def __init__(self, state: State) -> None:
        self.state = state
        self.row: int | None = None

    def earlier(self, phase: str, call: ToolCall, now: float) -> Answer | None:
        """See `Twice`."""
        second = told_by(phase, call, now)
        try:
            row = self.begun(second)
            until = time.monotonic() + FOLD_S
            while row is not None and time.monotonic() < until:
                first = self.told(row)
                if first is None or first.answer is not None:
                    return self.taken(row, first, second)
                time.sleep(POLL_S)
        except StateError:
            pass
        return None

    def begun(self, second: Told) -> int | None:
        """The row of the one who tells the same and was first; where there is none, this one's is written."""
        with self.state.writing() as connection:
            oldest = second.at - FOLD_S
            connection.execute("DELETE FROM told WHERE at NOT BETWEEN ? AND ?", (oldest, second.at + FOLD_S))
            rows = connection.execute(
                "SELECT id, event FROM told WHERE workspace=? AND digest=? ORDER BY id",
                (self.state.workspace, second.digest),
            ).fetchall()
            found = next((row[0] for row in rows if (first := unpacked(row[1])) and is_same(first, second)), None)
            if found is None:
                self.row = connection.execute(
                    "INSERT INTO told(workspace, digest, at, event) VALUES(?,?,?,?)",
                    (self.state.workspace, second.digest, second.at, packed(second)),
                ).lastrowid
        return found

    def told(self, row: int) -> Told | None:
        """What stands in that row now."""
        found = self.state.row("SELECT event FROM told WHERE id=?", row)
        return None if found is None else unpacked(found[0])

    def taken(self, row: int, first: Told | None, second: Told) -> Answer | None:
        """The answer of the first, used up, where it serves."""
        if first is None or not serves(first, second):
            return None
        with self.state.writing() as connection:
            used = connection.execute("DELETE FROM told WHERE id=?", (row,)).rowcount
        return first.answer if used else None

    def tell(self, phase: str, call: ToolCall, now: float, answer: Answer) -> Answer:
        """See `Twice`."""
        if self.row is None:
            return answer
        event = packed(told_by(phase, call, now, answer))
        try:
            with self.state.writing() as connection:
                connection.execute("UPDATE told SET event=? WHERE id=?", (event, self.row))
        except StateError:
            pass
        return answer


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

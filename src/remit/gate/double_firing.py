"""Double firing: an event reported by the hooks of two agents, because a program also runs a second agent's hooks.

The first hook stores the event, the second hook waits for the answer. Without a usable state, each hook answers by
itself. The mechanism is off unless a row of the agents' table has `fires_twice`.
"""

import json
import time
from collections.abc import Callable
from contextlib import AbstractContextManager, suppress
from typing import Any

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from remit.core.call import SessionKey, ToolCall
from remit.gate.context import Answer
from remit.gate.state.database import StateError
from remit.gate.state.workspace_state import State

MAX_DELAY_S = 2.0
"""Time between the two hooks of one event: they start together."""

POLL_INTERVAL_S = 0.01


class FiredEvent(Struct, frozen=True):
    """An event reported by an agent's hook, with the answer."""

    phase: str
    agent: str
    session: SessionKey
    cwd: str
    tool: str
    effect: str
    digest: str
    """Hash of the arguments."""
    at: float
    answer: Answer | None = None


class DoubleFiring:
    """An event of a call, `before` or `after`, with a possible twin from a second agent's hook."""

    def __init__(
        self,
        state: State,
        phase: str,
        call: ToolCall,
        now: float,
        release_lock: Callable[[], AbstractContextManager[Any]],
    ) -> None:
        self.state = state
        self.event = FiredEvent(
            phase, call.agent, call.session, call.cwd, call.tool, call.effect, call.arguments_sha256, now
        )
        self.release_lock = release_lock
        """Context in which other calls may pass, while this one waits for another process."""
        self.row: int | None = None

    def find_answer(self) -> Answer | None:
        """Return the answer to the twin event; each answer serves once. Without a twin, store the event as begun."""
        event, workspace = self.event, self.state.workspace
        with suppress(StateError):
            with self.state.transaction():
                rows = self.state.fetch_rows(
                    "SELECT id, event FROM told WHERE workspace=? AND digest=? ORDER BY id", workspace, event.digest
                )
                twin = next((row for row, blob in rows if is_same_event(decode_event(blob), event)), None)
                if twin is None:
                    with self.state.transaction() as connection:
                        bounds = (event.at - MAX_DELAY_S, event.at + MAX_DELAY_S)
                        connection.execute("DELETE FROM told WHERE at NOT BETWEEN ? AND ?", bounds)
                        values = (workspace, event.digest, event.at, encode_event(event))
                        insert = "INSERT INTO told(workspace, digest, at, event) VALUES(?,?,?,?)"
                        self.row = connection.execute(insert, values).lastrowid
            return None if twin is None else self.wait_for_answer(twin)
        return None

    def wait_for_answer(self, row: int) -> Answer | None:
        """Return the answer of the first hook; None if late, or not reusable."""
        until = time.monotonic() + MAX_DELAY_S
        while time.monotonic() < until:
            found = self.state.fetch_row("SELECT event FROM told WHERE id=?", row)
            first = decode_event(found[0]) if found else None
            if first is None:
                return None
            if first.answer is not None:
                if not can_reuse(first, self.event):
                    return None
                with self.state.transaction() as connection:
                    is_mine = connection.execute("DELETE FROM told WHERE id=?", (row,)).rowcount > 0
                return first.answer if is_mine else None
            with self.release_lock():
                time.sleep(POLL_INTERVAL_S)
        return None

    def store_answer(self, answer: Answer) -> None:
        if self.row is None:
            return
        answer = replace(answer, decision=replace(answer.decision, findings=()))
        blob = encode_event(replace(self.event, answer=answer))
        with suppress(StateError), self.state.transaction() as connection:
            connection.execute("UPDATE told SET event=? WHERE id=?", (blob, self.row))


def is_same_event(first: FiredEvent | None, second: FiredEvent) -> bool:
    """Return True if two agents' hooks reported one event, with their own words for session and tool."""
    return (
        first is not None
        and first.agent != second.agent
        and (first.phase, first.digest) == (second.phase, second.digest)
        and (first.effect == second.effect or first.tool == second.tool)
        and (first.session == second.session or first.cwd == second.cwd)
        and abs(second.at - first.at) <= MAX_DELAY_S
    )


def can_reuse(first: FiredEvent, second: FiredEvent) -> bool:
    """Return True if the answer to the first event holds for the second.

    Two sessions in a shared folder may be two agents at work: a permission to write is not shared. Rewritten arguments
    are in the terms of a single agent.
    """
    answer = first.answer
    if answer is None or answer.arguments is not None:
        return False
    is_harmless = answer.decision.effect != "allow" or answer.decision.call_class == "safe"
    return is_harmless or first.session == second.session


def encode_event(event: FiredEvent) -> bytes:
    return json.dumps(msgspec.to_builtins(event)).encode("ascii")  # escapes what is no UTF-8


def decode_event(blob: bytes) -> FiredEvent | None:
    with suppress(ValueError):
        return msgspec.convert(json.loads(blob), FiredEvent)
    return None

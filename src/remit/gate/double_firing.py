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
from remit.gate.answer import Answer
from remit.gate.state.database import StateError
from remit.gate.state.fired_events import delete_event, find_events, put_event, read_event, replace_event
from remit.gate.state.workspace_state import State

MAX_DELAY_S = 2.0
"""Time between the two hooks of one event: they start together."""

POLL_INTERVAL_S = 0.01


class FiredEvent(Struct, frozen=True):
    """An event reported by an agent's hook, with the answer; `digest` is the hash of the arguments."""

    phase: str
    agent: str
    session: SessionKey
    cwd: str
    tool: str
    effect: str
    digest: str
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
            *(phase, call.agent, call.session, call.cwd),
            *(call.tool, call.effect, call.arguments_sha256, now),
        )
        self.release_lock = release_lock
        """Context in which other calls may pass, while this one waits for another process."""
        self.row: int | None = None

    def find_answer(self) -> Answer | None:
        """Return the answer to the twin event; each answer serves once. Without a twin, store the event as begun."""
        with suppress(StateError):
            with self.state.group_changes():
                found = [(row, decode_event(blob)) for row, blob in find_events(self.state, self.event.digest)]
                first = next((row for row, event in found if event and is_same_event(event, self.event)), None)
                if first is None:
                    event = self.event
                    self.row = put_event(self.state, event.digest, event.at, encode_event(event), MAX_DELAY_S)
            return None if first is None else self.wait_for_answer(first)
        return None

    def wait_for_answer(self, row: int) -> Answer | None:
        """Return the answer of the first hook; None if late, or not reusable."""
        until = time.monotonic() + MAX_DELAY_S
        while time.monotonic() < until:
            blob = read_event(self.state, row)
            first = decode_event(blob) if blob is not None else None
            if first is None:
                return None
            if first.answer is not None:
                is_usable = can_reuse(first, self.event) and delete_event(self.state, row)
                return first.answer if is_usable else None
            with self.release_lock():
                time.sleep(POLL_INTERVAL_S)
        return None

    def store_answer(self, answer: Answer) -> None:
        if self.row is not None:
            with suppress(StateError):
                replace_event(self.state, self.row, encode_event(replace(self.event, answer=answer)))


def is_same_event(first: FiredEvent, second: FiredEvent) -> bool:
    """Return True if two agents' hooks reported one event, with their own words for session and tool."""
    return (
        first.agent != second.agent
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
    if event.answer is not None:
        decision = replace(event.answer.decision, findings=())
        event = replace(event, answer=replace(event.answer, decision=decision))
    return json.dumps(msgspec.to_builtins(event)).encode("ascii")


def decode_event(blob: bytes) -> FiredEvent | None:
    """Decode an event; None for invalid data."""
    try:
        return msgspec.convert(json.loads(blob), FiredEvent)
    except (ValueError, TypeError):
        return None

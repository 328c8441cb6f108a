"""The status of the daemon's file watching, readable by other processes."""

import json

import msgspec
from msgspec import Struct

from remit.gate.state.workspace_state import State

WATCH_FACT = "watched"


class WatchStatus(Struct, frozen=True):
    """A status: `why` the daemon does not rely on watching (empty if it does), and the number of watched `folders`.

    `ended` if watching will not begin again by itself.
    """

    why: str
    folders: int = 0
    ended: bool = False


def put_watch_status(state: State, found: WatchStatus) -> None:
    """Store a status if it is new. Raises StateError."""
    if read_watch_status(state) != found:
        state.put_fact(WATCH_FACT, json.dumps(msgspec.to_builtins(found)))


def read_watch_status(state: State) -> WatchStatus | None:
    """Return the last status; None if no daemon ever watched here. Raises StateError."""
    text = state.read_fact(WATCH_FACT)
    return msgspec.convert(json.loads(text), WatchStatus) if text else None

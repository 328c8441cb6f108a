"""What a warm process says of its watching, where another one can read it."""

import json

import msgspec
from msgspec import Struct

from remit.gate.state.workspace_state import State

WATCH_FACT = "watched"


class WatchStatus(Struct, frozen=True):
    """Whether the daemon looks only at what changed: `why` it does not, empty where it does.

    `folders` are watched for that. `ended`: it will not begin again by itself.
    """

    why: str
    folders: int = 0
    ended: bool = False


def put_watch_status(state: State, found: WatchStatus) -> None:
    """Write it down, where it is news. Raises StateError."""
    if read_watch_status(state) != found:
        state.put_fact(WATCH_FACT, json.dumps(msgspec.to_builtins(found)))


def read_watch_status(state: State) -> WatchStatus | None:
    """What was written down last; None where no daemon ever watched here. Raises StateError."""
    text = state.read_fact(WATCH_FACT)
    return msgspec.convert(json.loads(text), WatchStatus) if text else None

"""What a warm process says of its watching, where another one can read it."""

import json

import msgspec
from msgspec import Struct

from remit.gate.state import State

FACT = "watched"


class Watched(Struct, frozen=True):
    """Whether the daemon looks only at what changed: `why` it does not, empty where it does.

    `folders` are watched for that. `ended`: it will not begin again by itself.
    """

    why: str
    folders: int = 0
    ended: bool = False


def put_watched(state: State, found: Watched) -> None:
    """Write it down, where it is news. Raises StateError."""
    if watched(state) != found:
        state.put_fact(FACT, json.dumps(msgspec.to_builtins(found)))


def watched(state: State) -> Watched | None:
    """What was written down last; None where no daemon ever watched here. Raises StateError."""
    text = state.fact(FACT)
    return msgspec.convert(json.loads(text), Watched) if text else None

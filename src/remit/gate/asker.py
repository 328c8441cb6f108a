"""Whether whoever asked still waits for the answer.

A fresh process is itself the one that waits. The daemon waits for a client that may be killed meanwhile: its thread
says how to tell. Not in Environment, by which gates are kept open: it is another one for each call.
"""

from collections.abc import Callable
from contextvars import ContextVar


def never() -> bool:
    """The one that waits is this process."""
    return False


GONE: ContextVar[Callable[[], bool]] = ContextVar("GONE", default=never)
"""Set by who serves a client, for its own thread."""

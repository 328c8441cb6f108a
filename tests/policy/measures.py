"""The work of a function in calls and bytes: a clock would measure the machine."""

import sys
import tracemalloc
from collections.abc import Callable


def calls_made(act: Callable[[], object]) -> int:
    """Return the number of Python function calls."""
    count = 0

    def note(_frame: object, event: str, _argument: object) -> None:
        nonlocal count
        count += event == "call"

    sys.setprofile(note)
    try:
        act()
    finally:
        sys.setprofile(None)
    return count


def most_memory(act: Callable[[], object]) -> int:
    """Return the peak of allocated bytes."""
    tracemalloc.start()
    try:
        act()
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()

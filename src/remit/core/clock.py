"""The clock as an argument of code that reads the time or waits: tests pass a clock they can move."""

from typing import Protocol


class Waitable(Protocol):
    """An event, or a condition whose lock is held."""

    def wait(self, timeout: float | None = None) -> bool: ...


class Clock(Protocol):
    """The time of day, a time that only grows, and waiting."""

    def now(self) -> float:
        """Return seconds since the epoch; may jump."""
        ...

    def elapsed(self) -> float:
        """Return seconds since some moment; never runs backwards."""
        ...

    def wait(self, event: Waitable, seconds: float) -> bool:
        """Wait for an event, at most `seconds`; return whether the event came."""
        ...

"""A clock that is handed in: whoever reads the time or waits takes one, so that a test can move it."""

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
        """Wait for an event, at most so many seconds; whether it came."""
        ...

"""Work that goes on in a thread, and its outcome: `concurrent.futures` takes longer to load than blame to answer."""

from collections.abc import Callable
from threading import Thread
from typing import Generic, ParamSpec, TypeVar

P = ParamSpec("P")
T = TypeVar("T")


class Later(Generic[T]):
    """What `work` returns or raises, once somebody asks for it. Who leaves without asking does not wait."""

    def __init__(self, work: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> None:
        self._found: list[T] = []
        self._error: Exception | None = None

        def begin() -> None:
            try:
                self._found.append(work(*args, **kwargs))
            except Exception as error:  # noqa: BLE001  who asks gets it, whatever it is
                self._error = error

        self._thread = Thread(target=begin, daemon=True)
        self._thread.start()

    @property
    def over(self) -> bool:
        """Whether there is an outcome already."""
        return not self._thread.is_alive()

    def result(self) -> T:
        """What came out; raises what `work` raised."""
        self._thread.join()
        if self._error is not None:
            raise self._error
        return self._found[0]

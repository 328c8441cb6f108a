"""Work-arounds for costs of Python's runtime: a cached property without a lock, a paused garbage collector, and calls
in an executor of which few wait at a time.
"""

import gc
from collections import deque
from collections.abc import Callable, Generator, Iterable
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Generic, Self, TypeVar, overload

if TYPE_CHECKING:
    from concurrent.futures import Executor, Future

A = TypeVar("A")
T = TypeVar("T")


class LazyProperty(Generic[T]):
    """Decorator for a method whose result is cached on the instance. Two racing threads may both compute.

    Before Python 3.12, `functools.cached_property` holds a lock per class: while git reads a repository's name, no
    thread could open the log of a different repository.
    """

    def __init__(self, compute: Callable[[Any], T]) -> None:
        self.compute, self.name, self.__doc__ = compute, compute.__name__, compute.__doc__

    @overload
    def __get__(self, instance: None, owner: type) -> Self: ...

    @overload
    def __get__(self, instance: object, owner: type) -> T: ...

    def __get__(self, instance: object | None, owner: type) -> T | Self:
        if instance is None:
            return self
        return instance.__dict__.setdefault(self.name, self.compute(instance))


@contextmanager
def pause_gc() -> Generator[None]:
    """Pause the garbage collector: scanning millions of fresh acyclic rows takes up to a third of the time."""
    running = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if running:
            gc.enable()


def map_ahead(pool: "Executor", call: Callable[[A], T], items: Iterable[A], ahead: int) -> Generator[T]:
    """Yield the results of the calls in order, with at most `ahead` further calls begun. `Executor.map` begins all."""
    begun: deque[Future[T]] = deque()
    for item in items:
        begun.append(pool.submit(call, item))
        if len(begun) > ahead:
            yield begun.popleft().result()
    while begun:
        yield begun.popleft().result()

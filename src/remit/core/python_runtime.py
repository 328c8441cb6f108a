"""Work-arounds for costs of Python's runtime: a cached property without a lock, a paused garbage collector."""

import gc
from collections.abc import Callable, Generator
from contextlib import contextmanager
from typing import Any, Generic, Self, TypeVar, overload

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

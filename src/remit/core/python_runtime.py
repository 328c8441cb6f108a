"""Work-arounds for costs and races of Python and msgspec, until the oldest supported versions do it themselves.

`LazyProperty` is `functools.cached_property` from Python 3.12 on, `map_ahead` is `Executor.map` with a `buffersize`
from 3.14 on; `prepare_type` is needed with msgspec 0.22, `pause_gc` while the collector scans what holds no cycle.
"""

from _thread import allocate_lock  # `threading` takes a hook a millisecond
from collections import deque
from collections.abc import Callable, Generator, Iterable
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Generic, Self, TypeVar, overload

import msgspec

if TYPE_CHECKING:
    from concurrent.futures import Executor, Future

A = TypeVar("A")
T = TypeVar("T")
PREPARATION_LOCK = allocate_lock()
PREPARED_TYPES: set[object] = set()


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
    import gc  # the log does without

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


@overload
def prepare_type(kind: type[T]) -> type[T]: ...
@overload
def prepare_type(kind: Any) -> Any: ...
def prepare_type(kind: Any) -> Any:
    """Return the type, ready for `decode`, `convert` and `Decoder` in any thread. Raises TypeError for a type unknown
    to msgspec.

    msgspec 0.22 publishes the description of a Struct before filling in the fields: a second thread decoding the type
    meanwhile crashes the process, or never ends. Threads only read a complete description.
    """
    if kind not in PREPARED_TYPES:
        with PREPARATION_LOCK:
            msgspec.json.Decoder(kind)
            PREPARED_TYPES.add(kind)
    return kind

"""A property that is worked out at its first use and kept: `functools.cached_property` without its lock.

Before Python 3.12 that lock is one for all objects of a class: while git tells one repository's name, no thread could
open the log of another.
"""

from collections.abc import Callable
from typing import Any, Generic, Self, TypeVar, overload

T = TypeVar("T")


class LazyProperty(Generic[T]):
    """Decorates a method. Two threads that come first together may both work it out; the later result is kept."""

    def __init__(self, work_out: Callable[[Any], T]) -> None:
        self.compute = work_out
        self.name = work_out.__name__
        self.__doc__ = work_out.__doc__

    def __set_name__(self, owner: type, name: str) -> None:
        self.name = name

    @overload
    def __get__(self, found: None, owner: type) -> Self: ...

    @overload
    def __get__(self, found: object, owner: type) -> T: ...

    def __get__(self, found: object | None, owner: type) -> T | Self:
        if found is None:
            return self
        value = self.compute(found)
        found.__dict__[self.name] = value
        return value

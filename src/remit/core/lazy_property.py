"""A cached property without a lock.

Before Python 3.12, `functools.cached_property` holds a lock per class: while git reads a repository's name, no thread
could open the log of a different repository.
"""

from collections.abc import Callable
from typing import Any, Generic, Self, TypeVar, overload

T = TypeVar("T")


class LazyProperty(Generic[T]):
    """Decorator for a method whose result is cached on the instance. Two racing threads may both compute; the later
    result stays.
    """

    def __init__(self, work_out: Callable[[Any], T]) -> None:
        self.compute = work_out
        self.name = work_out.__name__
        self.__doc__ = work_out.__doc__

    def __set_name__(self, owner: type, name: str) -> None:
        self.name = name

    @overload
    def __get__(self, instance: None, owner: type) -> Self: ...

    @overload
    def __get__(self, instance: object, owner: type) -> T: ...

    def __get__(self, instance: object | None, owner: type) -> T | Self:
        if instance is None:
            return self
        value = self.compute(instance)
        instance.__dict__[self.name] = value
        return value

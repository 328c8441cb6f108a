"""ENFORCE: gather facts about a tool call, decide, wait for a person, perform, record.

`Gate` stands here for programs that use Remit as a library. It is loaded at its first use: a hook imports modules of
this package one by one, and has no time for all of them.
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from remit.gate.gate import Gate

__all__ = ["Gate"]


def __getattr__(name: str) -> Any:
    if name == "Gate":
        from remit.gate.gate import Gate

        return Gate
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")

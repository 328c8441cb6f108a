"""ENFORCE: gather facts about a tool call, decide, wait for a person, perform, record.

`Gate` is exported for programs with Remit as a library, and loaded at first use: a hook imports single modules of this
package, and has no time for the rest.
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

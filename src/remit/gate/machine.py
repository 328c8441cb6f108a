"""The environment of a gate: the machine, its clock included. The gate itself reads no environment variable."""

import os
import tempfile
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext
from contextvars import ContextVar
from pathlib import Path
from typing import Any

from msgspec import field

from remit.core.clock import Clock
from remit.core.record import Person
from remit.workspace.place.resolve_paths import MachinePlaces
from remit.workspace.system_clock import SYSTEM_CLOCK

DOOR_EVIDENCE: ContextVar[Mapping[str, Any] | None] = ContextVar("DOOR_EVIDENCE", default=None)
"""By what the door took this thread's caller for a person; its records say so."""


HOOK_PID: ContextVar[int] = ContextVar("HOOK_PID", default=0)
"""Process of the hook client that this thread answers; 0 where none asks."""


class Environment(MachinePlaces, frozen=True):
    """The machine around a gate; paths of `settings` and `own_folders` are relative to HOME."""

    config_folders: Mapping[str, str] = field(default_factory=dict[str, str])
    """Settings folders by agent, where they lie outside of HOME."""
    bound_intent: str | None = None  # the value of `REMIT_INTENT`
    variables: Mapping[str, str] = field(default_factory=lambda: {"PATH": os.defpath})
    """Environment variables of the repository's commands, besides HOME and TMPDIR."""
    settings_variables: tuple[Mapping[str, str], ...] = ()
    """Environments whose variables say where a person's programs keep their files: the client's, and this process's."""
    clock: Clock = SYSTEM_CLOCK
    waited_s: float = 0.0  # time that the agent has waited for the answer already: its patience is counted from then
    person: Person | None = None  # who acts, if they logged in from another machine: each record names them
    has_floor: bool = True  # False where a person has started Remit's own agent without its floor
    release_lock: Callable[[], AbstractContextManager[Any]] = nullcontext
    """Context in which the daemon lets other calls pass, while a person thinks or a command runs."""

    @classmethod
    def of_this_process(cls) -> "Environment":
        return cls(home=Path.home(), temporary=Path(tempfile.gettempdir()))

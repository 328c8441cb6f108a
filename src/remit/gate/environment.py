"""What the gate must be told about the machine: it reads no environment variable, and its clock is an argument."""

import os
import tempfile
import time
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import Any

from msgspec import Struct, field


class Environment(Struct, frozen=True):
    """The machine around a gate. `settings` and `own_folders` come from the agents' rows, relative to HOME.

    `bound_intent` is what `REMIT_INTENT` says. `clock` gives seconds since the epoch.
    """

    home: Path
    temporary: Path
    settings: tuple[str, ...] = ()
    own_folders: tuple[str, ...] = ()
    config_folders: Mapping[str, str] = field(default_factory=dict[str, str])
    """By agent, its own folder of settings where that is elsewhere than below HOME."""
    bound_intent: str | None = None
    variables: Mapping[str, str] = field(default_factory=lambda: {"PATH": os.defpath})
    """All that a command of the repository's may see of the environment, beside HOME and TMPDIR."""
    clock: Callable[[], float] = time.time
    waited_s: float = 0.0
    """How long the agent waits for this answer already: its patience is counted from then."""
    release_lock: Callable[[], AbstractContextManager[Any]] = nullcontext
    """What to hold open while a person thinks: the daemon lets other calls pass meanwhile."""

    @classmethod
    def of_this_process(cls) -> "Environment":
        """The environment of this process, for those who embed the library."""
        return cls(home=Path.home(), temporary=Path(tempfile.gettempdir()))

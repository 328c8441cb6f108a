"""The console in the daemon's hands: opened and stopped by a person, served again after a restart."""

import threading
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from remit.adapters import HookReply
from remit.core.clock import Clock
from remit.core.machine_paths import STATE_FOLDER
from remit.gate.machine import Environment
from remit.servers.daemon import REFUSED_EXIT_CODE
from remit.workspace.system_clock import SYSTEM_CLOCK

# What serves pages is imported by the functions that need it: no hook does.
if TYPE_CHECKING:
    from remit.console.keeper import ConsoleKeeper

CONSOLE_FILE = f"{STATE_FOLDER}/console.json"  # made when a console is served for the first time


class ConsoleControl:
    """Control of the console's process, which runs only once a person opened the console."""

    def __init__(self, home: Path, clock: Clock = SYSTEM_CLOCK) -> None:
        self.home, self.clock = home, clock
        self.turn = threading.Lock()
        self.keeper: ConsoleKeeper | None = None

    @property
    def is_in_use(self) -> bool:
        return self.keeper is not None and self.keeper.is_in_use

    def open(self, environment: Callable[[], Environment], wanted: int | None) -> HookReply:
        """Start the console where it does not run, on the wanted port or the kept one; return a pairing link."""
        from remit.console.keeper import ConsoleKeeper
        from remit.console.listeners import PortTaken
        from remit.console.remote.settings import RemoteSetupRefused

        with self.turn:
            if self.keeper is not None and (self.keeper.refusal or wanted not in (None, self.keeper.port)):
                self.keeper.stop()
                self.keeper = None
            try:
                if self.keeper is None:
                    started = ConsoleKeeper(environment, self.clock, wanted)
                    started.start()
                    self.keeper = started
                self.keeper.wait_until_served()
            except PortTaken as error:
                return HookReply(stderr=str(error).encode(), exit_code=REFUSED_EXIT_CODE)
            except RemoteSetupRefused as error:
                return HookReply(stderr=f"{error}\n{error.fix}".encode(), exit_code=REFUSED_EXIT_CODE)
            remote = self.keeper.remote_settings
            return HookReply(stdout=f"{self.keeper.make_link()}\n{remote.origin if remote else ''}".encode())

    def stop(self) -> HookReply:
        """Stop the console, and forget that one was served."""
        from remit.console.pairing import forget_console

        was_running = self.close()
        forget_console(self.home)
        return HookReply(stdout=b"stopped" if was_running else b"")

    def close(self) -> bool:
        """Stop the console, which the next daemon serves again; return whether one ran."""
        with self.turn:
            keeper, self.keeper = self.keeper, None
            if keeper is not None:
                keeper.stop()
            return keeper is not None

    def restore(self, environment: Callable[[], Environment], given_up: threading.Event) -> None:
        """Serve the console again that the daemon before this one served."""
        if not (self.home / CONSOLE_FILE).exists():
            return
        from remit.console.keeper import restore_console

        with self.turn:
            if self.keeper is None and not given_up.is_set():
                self.keeper = restore_console(environment, self.clock, given_up)
                if self.keeper is not None:
                    self.keeper.thread.start()

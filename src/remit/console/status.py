"""What is kept about the console's process, for `remit status` and `remit doctor`."""

from pathlib import Path

from msgspec import DecodeError, Struct, ValidationError, json

from remit.core.machine_paths import STATE_FOLDER
from remit.core.python_runtime import prepare_type
from remit.workspace.processes.process_tracking import ProcessIdentity, has_process_ended
from remit.workspace.safe_files import write_atomically

STATUS_FILE = f"{STATE_FOLDER}/console-process.json"


class ConsoleStatus(Struct, frozen=True):
    """The console's process, how often it was started again, and how the last one before ended."""

    address: str
    process: ProcessIdentity | None = None
    restarts: int = 0
    last_end: str = ""

    @property
    def is_running(self) -> bool:
        return self.process is not None and has_process_ended(self.process) is False

    def describe(self) -> str:
        again = f"started again {self.restarts} times; the last time before it ended: {self.last_end}"
        if self.is_running:
            return f"{self.address}, {again}" if self.restarts else f"served at {self.address}"
        return f"{self.address} is not served just now: {self.last_end or 'its process is gone'}"


def read_console_status(home: Path) -> ConsoleStatus | None:
    """Return what is known about the console's process; None where no console is served."""
    try:
        return json.decode((home / STATUS_FILE).read_bytes(), type=prepare_type(ConsoleStatus))
    except (OSError, DecodeError, ValidationError):
        return None


def write_console_status(home: Path, status: ConsoleStatus) -> None:
    """Keep the status. Raises OSError."""
    write_atomically(home / STATUS_FILE, json.encode(status), mode=0o600)

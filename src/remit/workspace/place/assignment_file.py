"""The assignment of an attempt, as a file in the private git folder of its worktree: read at each call, renewed by the
worker that holds the lease.

The lease is counted on the clock that runs since the machine booted and goes on while it sleeps: a worker that was
stopped, or a laptop that was shut, finds its lease over, whatever the wall clock says.
Source: clock_getres(2) of man-pages 6.9 (CLOCK_BOOTTIME); clock_gettime(3) of macOS 15 (CLOCK_MONOTONIC), read 2026-11.
"""

import os
import time
from functools import cache
from pathlib import Path

from msgspec import DecodeError, json
from msgspec.structs import replace

from remit.core.assignment import Assignment, AssignmentFacts, hash_scope
from remit.core.python_runtime import prepare_type
from remit.workspace.place.workspace import Workspace
from remit.workspace.safe_files import write_atomically

BOOT_CLOCK: int = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)
"""On Linux CLOCK_MONOTONIC stands still while the machine sleeps; on macOS, which has no CLOCK_BOOTTIME, it runs on."""

BOOT_ID_FILE = "/proc/sys/kernel/random/boot_id"
MAX_ASSIGNMENT_BYTES = 1 << 20
READ_FLAGS = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
DECODER = json.Decoder(prepare_type(Assignment))


class AssignmentChanged(RuntimeError):
    """Error for an assignment's file that somebody else than its worker has changed or removed."""

    def __init__(self, path: Path) -> None:
        super().__init__(f"{str(path)!r} is not as the worker wrote it; the attempt has to end")


def read_boot_clock_ns() -> int:
    """Return nanoseconds since the machine booted, time asleep included."""
    return time.clock_gettime_ns(BOOT_CLOCK)


@cache
def read_boot_id() -> str:
    try:
        return Path(BOOT_ID_FILE).read_text("ascii").strip()
    except OSError:
        return f"booted:{round((time.time_ns() - read_boot_clock_ns()) / 60e9)}"


def read_assignment(workspace: Workspace) -> AssignmentFacts | None:
    """Return the assignment of the workspace; None for an ordinary one. An unreadable assignment has expired."""
    path = workspace.assignment_path
    if path is None:
        return None
    try:
        descriptor = os.open(path, READ_FLAGS)
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as error:
        return AssignmentFacts(None, f"it cannot be read ({error.strerror})")
    try:
        content = os.read(descriptor, MAX_ASSIGNMENT_BYTES)
        terms = DECODER.decode(content)
    except (OSError, DecodeError) as error:
        return AssignmentFacts(None, f"it cannot be read ({str(error)[:200]})")
    finally:
        os.close(descriptor)
    return AssignmentFacts(terms, explain_expiry(terms))


def explain_expiry(terms: Assignment) -> str:
    if terms.state == "ended":
        return "it was ended"
    if terms.boot != read_boot_id():
        return "the machine was started anew since"
    if read_boot_clock_ns() >= terms.until_boot_ns:
        return "its lease has run out"
    if hash_scope(terms.scope) != terms.scope_sha256:
        return "its scope is not the one that was proved"
    return ""


class AssignmentFile:
    """The writer of an attempt's assignment, for the worker that holds the lease.

    `write` begins it, `renew` moves the end of the lease, `change_state` pauses, resumes or ends it. Each of the two
    raises AssignmentChanged if the file is not as written before, and then leaves it ended.
    """

    def __init__(self, workspace: Workspace) -> None:
        if workspace.assignment_path is None:
            raise ValueError(f"{str(workspace.root)!r} is no linked worktree, and only those have assignments")
        self.path = Path(workspace.assignment_path)
        self.terms: Assignment | None = None

    def write(self, terms: Assignment, lease_s: float) -> Assignment:
        """Write the assignment with a lease from now on, and return it as written. Raises OSError."""
        until = read_boot_clock_ns() + int(lease_s * 1e9)
        self.terms = replace(terms, until_boot_ns=until, boot=read_boot_id(), scope_sha256=hash_scope(terms.scope))
        self.path.parent.mkdir(mode=0o700, exist_ok=True)
        write_atomically(self.path, json.encode(self.terms), 0o600, durable=False)
        return self.terms

    def renew(self, lease_s: float) -> Assignment:
        """Count the lease from now on. Raises AssignmentChanged, OSError."""
        return self.write(self.check_unchanged(), lease_s)

    def change_state(self, terms: Assignment, lease_s: float) -> Assignment:
        """Write the assignment anew in another state or with other terms. Raises AssignmentChanged, OSError."""
        self.check_unchanged()
        return self.write(terms, lease_s)

    def check_unchanged(self) -> Assignment:
        """Return the terms as written last. Raises AssignmentChanged after ending the assignment, OSError."""
        if self.terms is None:
            raise AssignmentChanged(self.path)
        try:
            is_same = self.path.read_bytes() == json.encode(self.terms)
        except FileNotFoundError:
            is_same = False
        if not is_same:
            self.write(replace(self.terms, state="ended"), 0)
            raise AssignmentChanged(self.path)
        return self.terms

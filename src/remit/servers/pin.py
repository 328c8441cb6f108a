"""The person's PIN: what lets a clearly loosening act pass where the kernel cannot tell who asks.

It stops what only looks like a person. It does not stop a program of the same user that logs keys, or that takes the
file to another machine and guesses there.
"""

import fcntl
import hashlib
import hmac
import os
import secrets
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Literal, TypeAlias

from msgspec import DecodeError, Struct, ValidationError, json
from msgspec.structs import replace

from remit.core.clock import Clock
from remit.core.machine_paths import STATE_FOLDER
from remit.core.python_runtime import prepare_type
from remit.workspace.system_clock import SYSTEM_CLOCK

PIN_FILE = "pin"  # in the state folder, which no contained command sees
SCRYPT_COST = 1 << 15  # 32 MiB, a tenth of a second
MAX_MEMORY_BYTES = 128 << 20
FREE_TRIES = 10
FIRST_WAIT_S, MAX_WAIT_S = 30.0, 86_400.0
MIN_CHARS = 4
Checked: TypeAlias = Literal["right", "wrong", "wait", "none"]


class SealedPin(Struct, frozen=True):
    """The file: the PIN as scrypt gives it, wrong tries since the last right one, and the seconds still to wait."""

    salt: bytes
    sealed: bytes
    cost: int
    wrong: int = 0
    wait_s: float = 0.0
    seen_at: float = 0.0


class PinUnreadable(Exception):
    """The file is there, and is no PIN's."""

    def __init__(self) -> None:
        super().__init__("the file of the PIN cannot be read")


class PinKeeper:
    """The PIN of one user. Safe between processes."""

    def __init__(self, home: Path, clock: Clock = SYSTEM_CLOCK, cost: int = SCRYPT_COST) -> None:
        self.path = home / STATE_FOLDER / PIN_FILE
        self.clock, self.cost = clock, cost

    @property
    def is_set(self) -> bool:
        return self.path.exists()

    def set(self, pin: str) -> None:
        salt = secrets.token_bytes(16)
        with self.locked():
            self.write(SealedPin(salt, seal(pin, salt, self.cost), self.cost))

    def clear(self) -> bool:
        """Take the PIN away; return False if there is none."""
        with self.locked():
            was_set = self.is_set
            self.path.unlink(missing_ok=True)
        return was_set

    def check(self, pin: str) -> tuple[Checked, float]:
        """Return whether it is the PIN, and the seconds to wait before the next try. Raises OSError, PinUnreadable."""
        if not self.is_set:
            return "none", 0.0
        with self.locked():
            kept, now = self.read(), self.clock.now()
            # A clock that was put back takes nothing off.
            left = max(0.0, kept.wait_s - max(0.0, now - kept.seen_at))
            if left > 0:
                self.write(replace(kept, wait_s=left, seen_at=now))
                return "wait", left
            # Counted before it is tried: who is killed while it is tried has tried.
            wrong = kept.wrong + 1
            wait = min(MAX_WAIT_S, FIRST_WAIT_S * 2.0 ** min(wrong - FREE_TRIES, 32)) if wrong >= FREE_TRIES else 0.0
            self.write(replace(kept, wrong=wrong, wait_s=wait, seen_at=now))
            if not hmac.compare_digest(seal(pin, kept.salt, kept.cost), kept.sealed):
                return "wrong", wait
            self.write(replace(kept, wrong=0, wait_s=0.0, seen_at=now))
        return "right", 0.0

    def read(self) -> SealedPin:
        try:
            return json.decode(self.path.read_bytes(), type=prepare_type(SealedPin))
        except (DecodeError, ValidationError):
            raise PinUnreadable from None

    def write(self, pin: SealedPin) -> None:
        fresh = self.path.with_suffix(".new")
        fresh.unlink(missing_ok=True)
        descriptor = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600)
        with os.fdopen(descriptor, "wb") as file:
            file.write(json.encode(pin))
            os.fsync(file.fileno())
        fresh.replace(self.path)

    @contextmanager
    def locked(self) -> Generator[None]:
        self.path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        descriptor = os.open(self.path.with_suffix(".lock"), os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o600)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX)
            yield
        finally:
            os.close(descriptor)


def seal(pin: str, salt: bytes, cost: int) -> bytes:
    return hashlib.scrypt(pin.encode(), salt=salt, n=cost, r=8, p=1, maxmem=MAX_MEMORY_BYTES)

"""Repository commands that a person trusted on this machine; stored outside the repository."""

from collections.abc import Iterator
from pathlib import Path

import msgspec
from msgspec import Struct

from remit.core.diff.contents import sha256
from remit.core.machine_paths import STATE_FOLDER
from remit.core.team_hooks import TrustItem
from remit.workspace.files.atomic import write_atomically

TRUST_FOLDER = f"{STATE_FOLDER}/trust"


class Trust(Struct, frozen=True):
    """A person's consent for a repository. `root` is where the consent was given, `at` the time: UTC, ISO 8601."""

    repository: str
    root: str
    at: str
    commands: tuple[TrustItem, ...]

    @property
    def digests(self) -> frozenset[str]:
        return frozenset(command.digest for command in self.commands)


def trust_file_path(home: Path, repository: str) -> Path:
    return home / TRUST_FOLDER / f"{sha256(repository.encode())[:32]}.json"


def read_trust(home: Path, repository: str) -> Trust | None:
    """Return the trust for a repository; None if absent. An unreadable file grants no trust."""
    found = read_trust_file(trust_file_path(home, repository))
    return found if found is not None and found.repository == repository else None


def read_trust_file(path: Path) -> Trust | None:
    try:
        return msgspec.json.decode(path.read_bytes(), type=Trust)
    except (OSError, msgspec.MsgspecError, UnicodeDecodeError):
        return None


def write_trust(home: Path, trust: Trust) -> None:
    """Replace the trusted commands of a repository. Raises OSError."""
    path = trust_file_path(home, trust.repository)
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    write_atomically(path, msgspec.json.encode(trust) + b"\n")


def forget_trust(home: Path, repository: str) -> bool:
    """Remove the trust for a repository; return whether any existed. Raises OSError."""
    path = trust_file_path(home, repository)
    known = path.exists()
    path.unlink(missing_ok=True)
    return known


def list_trusts(home: Path) -> Iterator[Trust]:
    found = (read_trust_file(path) for path in sorted((home / TRUST_FOLDER).glob("*.json")))
    return (trust for trust in found if trust is not None)

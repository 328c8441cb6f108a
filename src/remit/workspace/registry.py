"""Which repositories this user lets Remit govern, remembered outside them: who deletes `.git/remit` ends nothing."""

from pathlib import Path

from remit.core.contents import sha256
from remit.workspace.place import Workspace

FOLDER = ".local/state/remit/governed"


def entry(home: Path, workspace: Workspace) -> Path:
    """The file that stands for this repository."""
    return home / FOLDER / sha256(str(workspace.state).encode("utf-8", "surrogateescape"))[:32]


def register(home: Path, workspace: Workspace) -> None:
    """Remember it. Raises OSError."""
    path = entry(home, workspace)
    if not path.exists():
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        path.write_text(mark_of(workspace), "ascii")


def registered(home: Path, workspace: Workspace) -> bool:
    """Whether it is remembered. Another clone at the same path is another repository."""
    try:
        return entry(home, workspace).read_text("ascii", "replace") == mark_of(workspace)
    except OSError:
        return False


def mark_of(workspace: Workspace) -> str:
    """What tells this repository from another one that may stand at its path one day."""
    status = (workspace.common_dir or workspace.root).stat()
    return f"{status.st_dev}:{status.st_ino}\n"


def unregister(home: Path, workspace: Workspace) -> None:
    """Forget it. Raises OSError."""
    entry(home, workspace).unlink(missing_ok=True)

"""Which repositories this user lets Remit govern, remembered outside them: who deletes `.git/remit` ends nothing."""

import os
from pathlib import Path

from remit.core.contents import sha256
from remit.workspace.place import Workspace, locate

FOLDER = ".local/state/remit/governed"


def entry(home: Path, workspace: Workspace) -> Path:
    """The file that stands for this repository."""
    return home / FOLDER / sha256(str(workspace.state).encode("utf-8", "surrogateescape"))[:32]


def register(home: Path, workspace: Workspace) -> None:
    """Remember it. Raises OSError."""
    path = entry(home, workspace)
    if not path.exists():
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        path.write_bytes(mark_of(workspace) + os.fsencode(workspace.root) + b"\n")


def registered(home: Path, workspace: Workspace) -> bool:
    """Whether it is remembered. Another clone at the same path is another repository."""
    try:
        return entry(home, workspace).read_bytes().startswith(mark_of(workspace))
    except OSError:
        return False


def mark_of(workspace: Workspace) -> bytes:
    """What tells this repository from another one that may stand at its path one day."""
    status = (workspace.common_dir or workspace.root).stat()
    return b"%d:%d\n" % (status.st_dev, status.st_ino)


def governed_roots(home: Path) -> list[str]:
    """The repositories that are remembered and still there; one whose folder is gone is forgotten.

    Entries that an older version wrote name no folder.
    """
    found: list[str] = []
    for path in sorted((home / FOLDER).iterdir()) if (home / FOLDER).is_dir() else []:
        root = os.fsdecode(path.read_bytes().partition(b"\n")[2].removesuffix(b"\n"))
        workspace = locate(Path(root)) if root else None
        if workspace is not None and registered(home, workspace):
            found.append(root)
        elif root and not Path(root).exists():
            path.unlink(missing_ok=True)
    return found


def unregister(home: Path, workspace: Workspace) -> None:
    """Forget it. Raises OSError."""
    entry(home, workspace).unlink(missing_ok=True)

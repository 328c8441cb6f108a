"""Registry of governed repositories, kept outside of them: deleting `.git/remit` does not end governing."""

import os
from pathlib import Path

from remit.core.diff.contents import sha256
from remit.core.machine_paths import STATE_FOLDER
from remit.workspace.files.atomic import write_atomically
from remit.workspace.place.workspace import Workspace, locate_workspace

GOVERNED_FOLDER = f"{STATE_FOLDER}/governed"


def registry_file_path(home: Path, workspace: Workspace) -> Path:
    return home / GOVERNED_FOLDER / sha256(str(workspace.state).encode("utf-8", "surrogateescape"))[:32]


def register_repository(home: Path, workspace: Workspace) -> None:
    path = registry_file_path(home, workspace)
    if not path.exists():
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        write_atomically(path, repository_mark(workspace) + os.fsencode(workspace.root) + b"\n", durable=False)


def is_repository_registered(home: Path, workspace: Workspace) -> bool:
    try:
        return registry_file_path(home, workspace).read_bytes().startswith(repository_mark(workspace))
    except OSError:
        return False


def repository_mark(workspace: Workspace) -> bytes:
    """Return device and inode, which identify a repository beyond its path."""
    status = (workspace.common_dir or workspace.root).stat()
    return b"%d:%d\n" % (status.st_dev, status.st_ino)


def list_governed_roots(home: Path) -> list[str]:
    """Return the registered repositories that still exist; forget those whose folder is gone.

    Entries of older versions name no folder and are skipped.
    """
    found: list[str] = []
    for path in sorted((home / GOVERNED_FOLDER).iterdir()) if (home / GOVERNED_FOLDER).is_dir() else []:
        root = os.fsdecode(path.read_bytes().partition(b"\n")[2].removesuffix(b"\n"))
        workspace = locate_workspace(Path(root)) if root else None
        if workspace is not None and is_repository_registered(home, workspace):
            found.append(root)
        elif root and not Path(root).exists():
            path.unlink(missing_ok=True)
    return found


def unregister_repository(home: Path, workspace: Workspace) -> None:
    registry_file_path(home, workspace).unlink(missing_ok=True)

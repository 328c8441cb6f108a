"""Copies of the governing files, in force while `.orchestration/` is missing."""

import os
from pathlib import Path

from remit.core.diff.contents import sha256
from remit.workspace.files.atomic import remove_below, write_below
from remit.workspace.place.config import HOOKS_FOLDER, ConfigError, list_hook_files
from remit.workspace.place.workspace import ORCHESTRATION_FOLDER, Workspace, find_main_worktree, is_folder

COPIES_FOLDER = "governing"
VERSIONS_FOLDER = "versions"
"""Folder of all contents that the intents file ever had, by SHA-256: records name them so."""

GOVERNING_FILES = ("active_intents.yaml", "remit.toml", ".intentignore")


def source_folder(workspace: Workspace) -> Path:
    """Return the `.orchestration/` in force: the workspace's own, else the main worktree's, else the newest copy.

    The workspace's own is missing at an old commit, after a stash, or in a fresh worktree.
    """
    if workspace.folder.is_dir():
        return workspace.folder
    main = find_main_worktree(workspace)
    if main is not None and (main / ORCHESTRATION_FOLDER).is_dir():
        return main / ORCHESTRATION_FOLDER
    return copies_folder(workspace)


def copies_folder(workspace: Workspace) -> Path:
    folder = workspace.state / COPIES_FOLDER
    return folder / sha256(os.fsencode(workspace.root))[:16] if workspace.is_nested else folder


def state_root(workspace: Workspace) -> Path:
    return workspace.common_dir or workspace.root


def save_copies(workspace: Workspace) -> None:
    """Copy the governing files as they are now. Raises OSError."""
    copies, root, folder = copies_folder(workspace), state_root(workspace), source_folder(workspace)
    copies.mkdir(parents=True, exist_ok=True)
    if folder == copies:
        return
    for name in GOVERNING_FILES:
        source = folder / name
        if source.is_file():
            write_below(root, copies / name, source.read_bytes())
    save_intents_version(root, copies / VERSIONS_FOLDER, folder / GOVERNING_FILES[0])
    save_hooks(root, folder / HOOKS_FOLDER, copies / HOOKS_FOLDER)


def save_intents_version(root: Path, folder: Path, intents: Path) -> None:
    content = intents.read_bytes() if intents.is_file() else b""
    path = folder / sha256(content)
    if content and not path.exists():
        write_below(root, path, content)


def save_hooks(root: Path, source: Path, copies: Path) -> None:
    """Make the copy of the hooks folder equal to the folder. Raises OSError."""
    wanted = {path.relative_to(source): path for path in list_governed_hooks(source) if path.is_file()}
    for path in list_governed_hooks(copies):
        if path.relative_to(copies) not in wanted:
            remove_below(root, path)
    for name, path in wanted.items():
        write_below(root, copies / name, path.read_bytes(), path.stat().st_mode & 0o777)


def copies_signature(workspace: Workspace) -> str:
    folder = source_folder(workspace)
    paths = (*(folder / name for name in GOVERNING_FILES), *list_governed_hooks(folder / HOOKS_FOLDER))
    return repr([read_file_state(path) for path in paths])


def list_governed_hooks(folder: Path) -> list[Path]:
    try:
        return list_hook_files(folder) if is_folder(folder) else []
    except ConfigError:
        return []


def read_file_state(path: Path | str) -> tuple[int, ...]:
    """Return device, inode, size and times of a file: any change of the file shows in them."""
    try:
        status = os.stat(path)  # noqa: PTH116  a Path would be made anew for each of ten files, for every call
    except OSError:
        return (0,)
    return (status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns)

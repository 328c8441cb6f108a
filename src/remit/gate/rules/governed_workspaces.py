"""Markers of governing: files for Remit and the hook client about governed workspaces and their mode."""

import os
import re
from pathlib import Path

from remit.core.config import Config
from remit.core.decision import Mode
from remit.gate.rules.governing_copies import read_file_state, save_copies, state_root
from remit.gate.rules.load import MAX_CACHED, load_rules
from remit.workspace.files.atomic import write_below
from remit.workspace.place.config import ConfigError, read_config, read_config_text
from remit.workspace.place.workspace import (
    ENFORCE_MARKER,
    GOVERNED_MARKER,
    ORCHESTRATION_FOLDER,
    Workspace,
    is_folder,
    path_exists,
)

IGNORED_FILES = b"agent_trace.jsonl\nintent_map.md\nTODO.md\n.state/\n"
"""Content of `.orchestration/.gitignore`."""

TABLE_START = re.compile(r"^[ \t]*\[", re.MULTILINE)
MODE_LINE = re.compile(r"""^[ \t]*mode[ \t]*=[ \t]*(?:"[^"\r\n]*"|'[^'\r\n]*'|[^\s#]*)""", re.MULTILINE)
"""The mode's line up to the end of its value: a comment behind it stays."""

MARKER_CACHE: dict[Path, tuple[bytes, Mode, tuple[int, ...]]] = {}
"""Markers found true (root, mode), with the state of their file: they are checked at every call."""


def govern_workspace(workspace: Workspace) -> None:
    """Begin to govern: make the state folder, its marker, and the files that git should ignore. Raises OSError."""
    workspace.state.mkdir(parents=True, exist_ok=True)
    workspace.folder.mkdir(exist_ok=True)
    ignored = workspace.folder / ".gitignore"
    if not ignored.exists():
        write_below(workspace.root, ignored, IGNORED_FILES)
    set_governed_marker(workspace)
    update_marker(workspace, load_rules(workspace).mode)


def resume_governing(workspace: Workspace) -> None:
    """Govern again after a deletion of Remit's state. Raises OSError."""
    workspace.state.mkdir(parents=True, exist_ok=True)
    set_governed_marker(workspace)
    update_marker(workspace, load_rules(workspace).mode)


def set_governed_marker(workspace: Workspace) -> None:
    """Set the marker, with the root of a nested workspace. Raises OSError."""
    marker = workspace.state / GOVERNED_MARKER
    marker.touch()
    if workspace.is_nested and os.fsencode(workspace.root) not in workspace.governed_nested_roots:
        with marker.open("ab") as file:
            file.write(os.fsencode(workspace.root) + b"\0")


def update_marker(workspace: Workspace, mode: Mode) -> None:
    """Keep the marker true that tells a failing hook client whether to deny. Raises OSError.

    The marker names the enforcing workspaces of a repository, and is deleted with the last of them.
    """
    marker, own = workspace.state / ENFORCE_MARKER, os.fsencode(workspace.root)
    if MARKER_CACHE.get(marker) == (own, mode, read_file_state(marker)):
        return
    exists = marker.exists()
    before = set(marker.read_bytes().split(b"\0")) - {b""} if exists else set[bytes]()
    others = {root for root in before - {own} if is_workspace(Path(os.fsdecode(root)))}
    enforcing = others | {own} if mode == "enforce" else others
    if enforcing and (enforcing != before or not exists):
        write_below(state_root(workspace), marker, b"\0".join(sorted(enforcing)))
    elif not enforcing:
        marker.unlink(missing_ok=True)
    # Another workspace may be deleted at any time: only a marker of this one alone is remembered.
    if others or len(MARKER_CACHE) >= MAX_CACHED:
        MARKER_CACHE.clear()
    if not others:
        MARKER_CACHE[marker] = (own, mode, read_file_state(marker))


def is_workspace(root: Path) -> bool:
    return is_folder(root / ORCHESTRATION_FOLDER) or path_exists(root / ".git")


def set_mode(workspace: Workspace, mode: Mode) -> None:
    """Write the mode into `remit.toml`, and leave the rest byte for byte. Raises ConfigError, OSError."""
    path = workspace.config_path
    old = read_config_text(path) or ""
    ending = "\r\n" if "\r\n" in old else "\n"
    table = TABLE_START.search(old)
    top, tables = (old[: table.start()], old[table.start() :]) if table else (old, "")
    line = f'mode = "{mode}"'
    top = MODE_LINE.sub(line, top, count=1) if MODE_LINE.search(top) else f"{line}{ending}{top}"
    workspace.folder.mkdir(exist_ok=True)
    write_below(workspace.root, path, (top + tables).encode())
    if read_mode(path) != mode:
        write_below(workspace.root, path, old.encode())
        raise ConfigError(f"{path} could not be changed safely; set `{line}` at its top by hand")
    save_copies(workspace)
    update_marker(workspace, mode)


def read_mode(path: Path) -> Mode | None:
    """Return the mode in a file; None if the file cannot be read."""
    try:
        return (read_config(path) or Config()).mode
    except ConfigError:
        return None

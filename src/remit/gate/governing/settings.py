"""Changes of what governs a workspace: its beginning, its mode, and the settings in `remit.toml`."""

import errno
import os
import re
from collections.abc import Iterable
from contextlib import suppress

from msgspec.structs import replace

from remit.core.config import Config
from remit.core.decision import Mode
from remit.core.diff.contents import sha256
from remit.gate.governing.rules import LINK_REFUSAL, accept_change, load_rules, save_copies, update_marker
from remit.workspace.place.config import ConfigError, decode_toml, read_config, read_config_text, set_value
from remit.workspace.place.workspace import GOVERNED_MARKER, ORCHESTRATION_FOLDER, Workspace
from remit.workspace.safe_files import write_below

IGNORED_FILES = b"agent_trace.jsonl\nintent_map.md\nTODO.md\n.state/\n"  # content of `.orchestration/.gitignore`
TABLE_START = re.compile(r"^[ \t]*\[", re.MULTILINE)
MODE_LINE = re.compile(r"""^[ \t]*mode[ \t]*=[ \t]*(?:"[^"\r\n]*"|'[^'\r\n]*'|[^\s#]*)""", re.MULTILINE)
"""The mode's line up to the end of its value: a comment behind it stays."""


def govern_workspace(workspace: Workspace) -> None:
    """Begin to govern: make the state folder, its marker, and the files that git should ignore. Raises OSError."""
    if workspace.folder.is_symlink():
        raise NotADirectoryError(errno.ENOTDIR, f"{ORCHESTRATION_FOLDER} {LINK_REFUSAL}")
    workspace.folder.mkdir(exist_ok=True)
    ignored = workspace.folder / ".gitignore"
    if not ignored.exists():
        write_below(workspace.root, ignored, IGNORED_FILES)
    resume_governing(workspace)


def resume_governing(workspace: Workspace) -> None:
    """Set the marker, with the root of a nested workspace; also after a deletion of Remit's state. Raises OSError."""
    workspace.state.mkdir(parents=True, exist_ok=True)
    marker = workspace.state / GOVERNED_MARKER
    marker.touch()
    if workspace.is_nested and os.fsencode(workspace.root) not in workspace.governed_nested_roots:
        with marker.open("ab") as file:
            file.write(os.fsencode(workspace.root) + b"\0")
    update_marker(workspace, load_rules(workspace).mode)


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
    written: Mode | None = None
    with suppress(ConfigError):
        written = (read_config(path) or Config()).mode
    if written != mode:
        write_below(workspace.root, path, old.encode())
        raise ConfigError(f"{path} could not be changed safely; set `{line}` at its top by hand")
    save_copies(workspace)
    accept_change(workspace, lambda rules, _: replace(rules, mode=mode))
    update_marker(workspace, mode)


def write_setting(
    workspace: Workspace, name: str, value: bool | float | str | list[str] | None, known_sha256: str
) -> None:
    """Write a setting into `remit.toml`, and leave the rest byte for byte; None takes it out. Raises ConfigError, also
    for a file that is not the one with the known SHA-256, OSError.
    """
    path = workspace.config_path
    old = read_config_text(path) or ""
    if sha256(old.encode()) != known_sha256:
        raise ConfigError(f"{path.name} was changed meanwhile: load the page again")
    new = set_value(old, name, value).encode()
    decode_toml(new, Config)
    workspace.folder.mkdir(exist_ok=True)
    write_below(workspace.root, path, new)
    save_copies(workspace)
    accept_change(workspace, lambda rules, found: rules.take_setting(found, name))


def add_data(workspace: Workspace, patterns: Iterable[str]) -> None:
    """Add patterns of runtime data to `remit.toml`. Raises ConfigError, OSError."""
    old = read_config_text(workspace.config_path) or ""
    named = (read_config(workspace.config_path) or Config()).containment.data
    value = list(dict.fromkeys((*named, *patterns)))
    write_setting(workspace, "containment.data", value, sha256(old.encode()))

"""The process environment, read once for every entry point."""

import os
import tempfile
import time
from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path

from msgspec import DecodeError, Struct, json

from remit.core.agents import AGENTS, ROWS, AgentRow
from remit.core.machine_paths import MANIFEST_PATH
from remit.core.python_runtime import prepare_type
from remit.gate.machine import Environment
from remit.servers.environ_checks import clean_environment
from remit.workspace.processes.process_tracking import process_start_time

PASSED_VARIABLES = ("PATH", "USER", "LOGNAME", "LANG", "LC_ALL", "LC_CTYPE", "TZ", "VIRTUAL_ENV")
"""Variables passed to a repository's commands: those that programs need, and none that may be a secret."""

AGENT_VARIABLES = (
    *(row.session_variable for row in ROWS.values() if row.session_variable),
    *(name for row in AGENTS.values() for name in row.shell_variables),
)
"""Set by agents in their shells. A shell can unset them, so the process tree is checked too."""


def read_environment() -> Environment:
    """Return this process's environment, cleaned of misleading variables. Raises NoHome."""
    clean_environment()
    return make_environment(dict(os.environ))


def make_environment(variables: dict[str, str]) -> Environment:
    """Return the environment described by these variables. With a PATH among them, they are all that programs need of
    the client's own; else a repository's commands get those of this process.
    """
    home, own = Path.home(), variables if "PATH" in variables else os.environ
    manifest = home / MANIFEST_PATH
    try:
        status = manifest.stat()
        settings, folders, moved = find_agent_files(str(manifest), (status.st_ino, status.st_size, status.st_mtime_ns))
    except OSError:
        settings, folders, moved = find_agent_files("", ())
    return Environment(
        home=home,
        temporary=Path(variables.get("TMPDIR") or tempfile.gettempdir()),
        settings=settings,
        own_folders=folders,
        config_folders=moved,
        bound_intent=variables.get("REMIT_INTENT") or None,
        variables={"PATH": os.defpath, **{name: own[name] for name in PASSED_VARIABLES if name in own}},
        settings_variables=(variables, os.environ),
    )


class WiredFolders(Struct):
    """Part of the wiring manifest (`wiring/manifest.py`) that every call needs: by agent, its folder elsewhere."""

    moved: dict[str, str] = {}


@lru_cache(8)
def find_agent_files(manifest: str, state: tuple[int, ...]) -> tuple[tuple[str, ...], tuple[str, ...], dict[str, str]]:
    """Return the settings files and own folders of every agent, below HOME or absolute, and the moved folders.

    `state` changes with the manifest, in which `remit init` names folders that it found elsewhere than below HOME.
    """
    try:
        moved = json.decode(Path(manifest).read_bytes(), type=prepare_type(WiredFolders)).moved if state else {}
    except (OSError, DecodeError):
        moved = {}
    settings: list[str] = []
    folders: list[str] = []
    for row in ROWS.values():
        names = (*row.settings_files, row.hooks_file, row.mcp_file)
        settings += names
        folders += row.own_folders
        if folder := moved.get(row.agent):
            settings += move_agent_paths(row, names, folder)
            folders += move_agent_paths(row, row.own_folders, folder)
    return tuple(settings), tuple(folders), moved


def move_agent_paths(row: AgentRow, names: tuple[str, ...], folder: str) -> Iterator[str]:
    for name in names:
        if name.startswith(f"{row.config_folder}/") or name == row.mcp_file:
            yield f"{folder}/{name.removeprefix(f'{row.config_folder}/')}"


def process_age_s() -> float:
    """Return seconds since this process began; for a process that replaced the client, since the agent began to wait.

    0 if the system does not tell. Source: proc_pid_stat(5), field 22, in clock ticks after boot.
    """
    ticks = process_start_time(os.getpid()) or ""
    if not ticks.isdecimal():
        return 0.0
    return max(0.0, time.clock_gettime(time.CLOCK_BOOTTIME) - int(ticks) / os.sysconf("SC_CLK_TCK"))

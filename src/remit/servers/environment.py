"""The process environment, read once for every entry point."""

import os
import tempfile
import time
from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path

from msgspec import DecodeError, Struct, json

from remit.adapters import ROWS, AgentRow
from remit.core.machine_paths import MANIFEST_PATH
from remit.gate.environment import Environment
from remit.servers.environ_checks import NoHome, drop_git_variables
from remit.workspace.processes.process_info import process_start_time

PASSED_VARIABLES = ("PATH", "USER", "LOGNAME", "LANG", "LC_ALL", "LC_CTYPE", "TZ", "VIRTUAL_ENV")
"""Variables passed to a repository's commands: those that programs need, and none that may be a secret."""


FORWARDED_VARIABLES = ("REMIT_INTENT", "TMPDIR")
"""Variables read by Remit; the thin client forwards these and no others."""


def read_environment() -> Environment:
    """Return this process's environment, cleaned of misleading variables. Raises NoHome.

    The password database does not replace HOME: a service or a build running as root has no person's home.
    """
    home = os.environ.get("HOME", "")
    if not home.startswith("/"):
        raise NoHome(home)
    drop_git_variables()
    return make_environment(dict(os.environ))


def make_environment(variables: dict[str, str]) -> Environment:
    """Return the environment described by these variables."""
    home = Path.home()
    own = find_agent_files(str(home / MANIFEST_PATH), file_stamp(home / MANIFEST_PATH))
    return Environment(
        home=home,
        temporary=Path(variables.get("TMPDIR") or tempfile.gettempdir()),
        settings=own.settings,
        own_folders=own.folders,
        config_folders=own.moved,
        bound_intent=variables.get("REMIT_INTENT") or None,
        variables={"PATH": os.defpath, **{name: os.environ[name] for name in PASSED_VARIABLES if name in os.environ}},
    )


class AgentFiles(Struct, frozen=True):
    """Settings files of the agents, and folders that agents own: below HOME, or absolute."""

    settings: tuple[str, ...]
    folders: tuple[str, ...]
    moved: dict[str, str]


class WiredFolders(Struct):
    """Part of the wiring manifest (`wiring/manifest.py`) that every call needs."""

    moved: dict[str, str] = {}


def file_stamp(path: Path) -> tuple[int, ...]:
    try:
        status = path.stat()
    except OSError:
        return ()
    return (status.st_ino, status.st_size, status.st_mtime_ns)


@lru_cache(8)
def find_agent_files(wired: str, state: tuple[int, ...]) -> AgentFiles:
    """Return the files of every agent in the folders found by `remit init`. `state` is the manifest's `file_stamp`."""
    moved = read_moved_folders(wired) if state else {}
    rows = ROWS.values()
    return AgentFiles(
        tuple(
            s
            for row in rows
            for s in resolve_agent_paths(row, (*row.settings_files, row.hooks_file, row.mcp_file), moved)
        ),
        tuple(folder for row in rows for folder in resolve_agent_paths(row, row.own_folders, moved)),
        moved,
    )


def read_moved_folders(wired: str) -> dict[str, str]:
    """Return, by agent, its folder if `remit init` found one elsewhere than below HOME."""
    try:
        return json.decode(Path(wired).read_bytes(), type=WiredFolders).moved
    except (OSError, DecodeError):
        return {}


def resolve_agent_paths(row: AgentRow, names: tuple[str, ...], moved: dict[str, str]) -> Iterator[str]:
    yield from names
    folder = moved.get(row.agent)
    for name in names if folder else ():
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

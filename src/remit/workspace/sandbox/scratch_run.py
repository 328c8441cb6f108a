"""A command run again over a scratch folder in place of the workspace, with no further writable path.

The command sees the machine read-only, the scratch folder in the place of the workspace, and empty temporary folders.
It has no network, no sockets and a process namespace of its own, and ends with its time.
"""

import os
import shutil
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from msgspec import Struct

from remit.core.machine_paths import STATE_FOLDER, TEMPORARY_FOLDERS
from remit.workspace.processes.limited_command import run_trusted_command
from remit.workspace.sandbox.jail import Jail, Layer, bubblewrap_command, find_sockets
from remit.workspace.sandbox.secret_places import SecretSearch, make_empty_file

MAX_SECONDS = 10.0
MAX_FILE_KIB = 65_536
"""Size of a file that the command can write, in KiB; `ulimit` of a POSIX shell counts half of one."""

SHELL_WITH_LIMITS = f'ulimit -t {int(MAX_SECONDS)}; ulimit -f {2 * MAX_FILE_KIB}; exec "$0" -c "$1"'
STATUS_DESCRIPTOR = 9
WITHOUT_STATUS = f'exec "$@" {STATUS_DESCRIPTOR}> /dev/null'
"""Script that starts bubblewrap with the descriptor that its status lines need."""

DEPENDENCY_FOLDERS = (".venv", "venv", "node_modules")
"""Folders of a project with the programs that its commands run."""


class ScratchRun(Struct, frozen=True):
    """A command in the workspace `root`, over the files in `scratch`; `spare` takes the temporary folders."""

    root: Path
    scratch: Path
    spare: Path
    folder: Path
    command: str
    home: Path
    temporary: Path
    variables: Mapping[str, str]
    settings_variables: Sequence[Mapping[str, str]] = ()


def run_over_scratch(program: str, run: ScratchRun) -> bool:
    """Run the command in bubblewrap, and return whether it ended by itself, with any exit code."""
    known = dict.fromkeys(Path(path).resolve() for path in (*TEMPORARY_FOLDERS, run.temporary) if Path(path).is_dir())
    temporary = [p for p in known if known.keys().isdisjoint(p.parents) and not p.is_relative_to(run.root)]
    layers = [Layer(run.root, run.scratch, run.scratch, without_lower=True)]
    for number, place in enumerate(temporary):
        upper = run.spare / f"temporary-{number}"
        upper.mkdir(mode=0o700)
        for inner in (path for path in known if place in path.parents):
            (upper / inner.relative_to(place)).mkdir(parents=True)
        layers.append(Layer(place, upper, upper, without_lower=True))
    inner = (Path(folder).relative_to(run.scratch) for folder, _, _ in os.walk(run.scratch))
    own = [run.root / folder / name for folder in inner for name in DEPENDENCY_FOLDERS]
    state = run.home / STATE_FOLDER

    def outside(places: Iterable[Path]) -> tuple[Path, ...]:
        return tuple(place for place in places if not is_in_folders(place, (run.root, *temporary)))

    secrets = SecretSearch(run.home, run.settings_variables, kept=(run.root,)).find()
    jail = Jail(
        run.folder,
        layers=tuple(layers),
        read_only=(*existing_folders(own), *programs_in(temporary, run)),
        hidden=(*find_sockets(run.home, ()), *outside(secrets.files)),
        emptied=outside((*secrets.folders, *([state] if state.is_dir() else []))),
        shown=outside(secrets.visible),
        empty=make_empty_file(run.home),
        network=False,
    )
    shell = "bash" if shutil.which("bash") else "sh"
    words: Sequence[str] = ("nice", "-n", "10", "sh", "-c", SHELL_WITH_LIMITS, shell, run.command)
    variables = {**run.variables, "HOME": str(run.home), "TMPDIR": str(run.temporary)}
    ended = run_trusted_command(
        ("sh", "-c", WITHOUT_STATUS, "sh", *bubblewrap_command(program, jail, words, STATUS_DESCRIPTOR)),
        folder=Path("/"),
        variables=variables,
        timeout_s=MAX_SECONDS,
    )
    return ended.exit_code is not None


def programs_in(temporary: Sequence[Path], run: ScratchRun) -> tuple[Path, ...]:
    folders = (Path(name) for name in run.variables.get("PATH", "").split(os.pathsep) if name.startswith("/"))
    hidden = (f for f in folders if is_in_folders(f, temporary) and not is_in_folders(f, (run.root,)))
    # The folder of npm's packages, and that of a virtual environment, hold what their programs load.
    return existing_folders(f.parent if f.name == ".bin" or (f.parent / "pyvenv.cfg").is_file() else f for f in hidden)


def existing_folders(places: Iterable[Path]) -> tuple[Path, ...]:
    return tuple(dict.fromkeys(place for place in places if place.is_dir() and not place.is_symlink()))


def is_in_folders(place: Path, folders: Iterable[Path]) -> bool:
    return any(place == folder or folder in place.parents for folder in folders)

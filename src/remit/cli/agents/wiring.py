"""Shared by `init`, `uninstall` and `doctor`: wiring errors, agents' places, and the root to govern."""

import shlex
import shutil
import sys
from collections.abc import Callable, Mapping
from functools import wraps
from pathlib import Path
from typing import ParamSpec, TypeVar

from remit.cli.output import UNAVAILABLE, Failure
from remit.wiring.agents import NotAbsolutePath, SettingsPlace, find_moved_folders
from remit.wiring.hook_client import NoClient
from remit.wiring.manifest import Manifest, ManifestError
from remit.wiring.plan import WiringProblem
from remit.workspace.agents.settings_files import SettingsChanged
from remit.workspace.place.workspace import (
    ORCHESTRATION_FOLDER,
    Workspace,
    find_git_root,
    locate_workspace,
    workspace_at,
)

P = ParamSpec("P")
R = TypeVar("R")


def user_place(home: Path, variables: Mapping[str, str], manifest: Manifest) -> SettingsPlace:
    """Return the place of the user's agent settings: from the environment, else as noted by `remit init`.

    Raises NotAbsolutePath.
    """
    return SettingsPlace(home, moved_folders={**manifest.moved, **find_moved_folders(variables, home)})


def reports_wiring(command: Callable[P, R]) -> Callable[P, R]:
    """Turn errors of settings files into a Failure."""

    @wraps(command)
    def call_command(*args: P.args, **kwargs: P.kwargs) -> R:
        try:
            return command(*args, **kwargs)
        except (WiringProblem, ManifestError) as error:
            raise Failure("SETTINGS", str(error), target=str(error.path)) from error
        except NotAbsolutePath as error:
            raise Failure("SETTINGS", str(error)) from error
        except (NoClient, SettingsChanged) as error:
            raise Failure("SETTINGS", str(error), exit_code=UNAVAILABLE) from error

    return call_command


def find_root_to_govern(repo: Path, home: Path) -> Workspace:
    """Return the workspace around `repo`, or the folder itself. Raises Failure for HOME and its parents."""
    folder = repo.resolve()
    is_git_folder = all((folder / name).exists() for name in ("HEAD", "objects", "refs"))
    if is_git_folder and not (folder / ".git").exists():
        message = f"{str(folder)!r} is a bare repository, without a work tree"
        raise Failure("NO_WORKSPACE", message, fix="use a clone of it")
    own = workspace_at(folder, find_git_root(folder)) if (folder / ORCHESTRATION_FOLDER).is_dir() else None
    workspace = own or locate_workspace(folder) or Workspace(folder, None, None)
    home = home.resolve()
    if workspace.root == home or workspace.root in home.parents:
        raise Failure(
            "NO_WORKSPACE",
            f"{str(workspace.root)!r} is no project: everything of yours is below it",
            fix="run `remit init` in a project's folder, or name one with --repo",
        )
    if not workspace.root.is_dir():
        raise Failure("NO_WORKSPACE", f"{str(workspace.root)!r} is no folder")
    return workspace


def own_command() -> str:
    """Return this installation's `remit` as a shell word: the bare name if PATH finds it."""
    own = Path(sys.executable).with_name("remit")
    on_path = shutil.which("remit")
    return "remit" if on_path and Path(on_path).resolve() == own.resolve() else shlex.quote(str(own))

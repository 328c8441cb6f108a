"""Paths of a plan's attempt: those in git's shared folder that an agent may write or only read, and the inner jail for
commands of Remit's own agent, whose gate writes records in the agent's process.
"""

import subprocess
import sys
from collections.abc import Sequence
from functools import cache
from pathlib import Path

from remit.core.machine_paths import ATTEMPT_MARK, STATE_FOLDER
from remit.workspace.git.repository import BRANCH_FOLDER, BRANCH_PREFIX
from remit.workspace.place.workspace import ORCHESTRATION_FOLDER, Workspace
from remit.workspace.sandbox.containment import PROBE_TIMEOUT_S
from remit.workspace.sandbox.jail import Jail, bubblewrap_inner_command, find_bubblewrap

STEERING_GIT_FILES = ("commondir", "gitdir", "config.worktree")
"""In the git folder of a worktree: which repository it belongs to, and settings, which name programs."""


def existing(*paths: Path) -> tuple[Path, ...]:
    return tuple(dict.fromkeys(path for path in paths if path.exists()))


def list_git_places(common: Path, intent: str) -> tuple[Path, ...]:
    """Return what git writes in the shared folder when an agent commits: objects, and the branches of its intent. Make
    the folders of the branches.
    """
    branches = f"{BRANCH_PREFIX}{BRANCH_FOLDER}/{intent}"
    for folder in (common / branches, common / "logs" / branches):
        folder.mkdir(parents=True, exist_ok=True)
    return (common / "objects", common / branches, common / "logs" / branches, common / "reftable")


def list_steering_places(tree: Workspace) -> tuple[Path, ...]:
    """Return the read-only paths of an attempt: settings of git and Remit that steer its worktree."""
    common, own = tree.common_dir, tree.git_dir
    assert common is not None, "worktrees are git's"
    assert own is not None, "worktrees are git's"
    shared = (common / name for name in ("hooks", "config", "worktrees"))
    return (
        *shared,
        Path(tree.assignment_path or "").parent,
        tree.root / ".git",
        *(own / name for name in STEERING_GIT_FILES),
    )


def make_command_jail(tree: Workspace, home: Path, intent: str, folder: Path) -> Jail:
    """Return the jail within the jail, for a command that Remit's own agent runs in `folder` of an attempt's worktree:
    without Remit's records, keys and sockets, and with git's folder as other agents have it.
    """
    common, own, state = tree.common_dir, tree.git_dir, home.resolve() / STATE_FOLDER
    assert common is not None, "worktrees are git's"
    assert own is not None, "worktrees are git's"
    rules = common.parent / ORCHESTRATION_FOLDER
    return Jail(
        folder,
        private=existing(state),
        writable=existing(own, *list_git_places(common, intent)),
        read_only=existing(common, common / "objects/info", rules, *list_steering_places(tree)),
        links={home.resolve() / ATTEMPT_MARK: Path(tree.assignment_path or "")} if state.exists() else {},
        emptied=existing(tree.state),
    )


def put_into_command_jail(tree: Workspace, home: Path, intent: str, folder: Path, words: Sequence[str]) -> list[str]:
    """Return the words that run a command of Remit's own agent out of reach of the records; the command's own words
    where no bubblewrap runs here within the attempt's jail.
    """
    program = find_inner_bubblewrap()
    if program is None:
        return list(words)
    return bubblewrap_inner_command(program, make_command_jail(tree, home, intent, folder), words)


@cache
def find_inner_bubblewrap() -> str | None:
    """Return the bubblewrap that can make a jail from here, tried once; None if there is none."""
    program = find_bubblewrap()
    if program is None:
        return None
    words = bubblewrap_inner_command(program, Jail(Path("/")), ["true"])
    try:
        done = subprocess.run(words, capture_output=True, timeout=PROBE_TIMEOUT_S, check=False)
    except (OSError, subprocess.TimeoutExpired) as error:
        reason = str(error)
    else:
        reason = done.stderr.decode("utf-8", "replace").strip()
        if done.returncode == 0:
            return program
    sys.stderr.write(f"remit: commands of this attempt can reach Remit's records: {reason[:200]}\n")
    return None

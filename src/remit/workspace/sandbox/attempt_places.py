"""The inner jail of a plan's attempt, for commands of Remit's own agent, whose gate writes records in the agent's
process.
"""

import subprocess
import sys
from collections.abc import Sequence
from functools import cache
from pathlib import Path

from remit.core.machine_paths import ATTEMPT_MARK, STATE_FOLDER
from remit.workspace.place.workspace import ORCHESTRATION_FOLDER, Workspace
from remit.workspace.sandbox.containment import PROBE_TIMEOUT_S
from remit.workspace.sandbox.jail import Jail, bubblewrap_inner_command, find_bubblewrap


def existing(*paths: Path) -> tuple[Path, ...]:
    return tuple(dict.fromkeys(path for path in paths if path.exists()))


def make_command_jail(tree: Workspace, home: Path, folder: Path) -> Jail:
    common, state = tree.common_dir, home.resolve() / STATE_FOLDER
    assert common is not None, "worktrees are git's"
    return Jail(
        folder,
        private=existing(state),
        read_only=existing(common.parent / ORCHESTRATION_FOLDER),
        links={home.resolve() / ATTEMPT_MARK: Path(tree.assignment_path or "")} if state.exists() else {},
        emptied=existing(tree.state),
    )


def put_into_command_jail(tree: Workspace, home: Path, folder: Path, words: Sequence[str]) -> list[str]:
    """Return the words that run a command of Remit's own agent out of reach of the records; the command's own words
    where no bubblewrap runs here within the attempt's jail.
    """
    program = find_inner_bubblewrap()
    if program is None:
        return list(words)
    return bubblewrap_inner_command(program, make_command_jail(tree, home, folder), words)


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

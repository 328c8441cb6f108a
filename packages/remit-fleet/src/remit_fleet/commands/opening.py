"""Shared parts of the fleet's commands: the repository and its database."""

import os
import shlex
import shutil
from collections.abc import Generator, Iterable
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import click

from remit.cli.output import Failure, governed_gate
from remit.workspace.safe_files import hold_lock
from remit_fleet.board import is_shared
from remit_fleet.fleet import find_repository_root, name_repository, open_fleet

if TYPE_CHECKING:
    from remit.core.agents.row import AgentCommand
    from remit.gate.gate import Gate
    from remit.workspace.worktrees import Worktrees
    from remit_fleet.board import Task
    from remit_fleet.engines.dbos import DbosEngine

LOCK_WAIT_S = 1800.0
database_option = click.option(
    "--database", metavar="URL", envvar="REMIT_DATABASE", help="The fleet database; else the one of this user here."
)
pace_option = click.option("--pace", type=click.FloatRange(0.001, 10), default=1.0, hidden=True)


def open_engine(database: str | None, pace: float = 1.0) -> "DbosEngine":
    """Open the fleet database. Raises what `reports_failures` names."""
    return open_fleet(database, Path.home(), pace)


def open_repository(repo: Path) -> "tuple[Gate, str]":
    """Return the gate of the main worktree, and the repository's name in the fleet. Raises Failure."""
    gate = governed_gate(find_repository_root(governed_gate(repo).workspace))
    return gate, name_repository(gate.workspace.root)


def require_task(engine: "DbosEngine", repository: str, id: str) -> "Task":
    """Return the task of an intent. Raises Failure without one."""
    task = engine.read_board().tasks.get((repository, id))
    if task is None:
        raise Failure("UNKNOWN_TASK", f"no plan has {id}", target=id, fix="see `remit plan status`")
    return task


@contextmanager
def open_trees(gate: "Gate", repository: str, name: str) -> "Generator[Worktrees]":
    """Yield the worktrees of a repository under a lock of this host: `landing` excludes further landings, `trees`
    excludes the assignment of worktrees to attempts. Raises Failure without worktrees.
    """
    from remit.workspace.worktrees import NoWorktree, Worktrees
    from remit_fleet.workers.landing_rounds import trees_folder

    folder = trees_folder(Path.home(), repository)
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    try:
        trees = Worktrees(gate.workspace, folder)
        with hold_lock(folder / f"{name}.lock", timeout_s=LOCK_WAIT_S):
            yield trees
    except NoWorktree as error:
        raise Failure("NO_WORKTREE", str(error), fix="see `remit fleet doctor`") from error


def find_clones(roots: Iterable[Path]) -> dict[str, Path]:
    """Return the main worktrees of the shared repositories that contain these folders, by repository name.

    Raises Failure for a repository not governed by Remit on this host: its agents would be unchecked.
    """
    from remit.workspace.place.workspace import locate_workspace

    clones: dict[str, Path] = {}
    for workspace in filter(None, map(locate_workspace, roots)):
        root = find_repository_root(workspace)
        if is_shared(name := name_repository(root)):
            governed_gate(root).close()
            clones[name] = root
    return clones


def find_agents(named: tuple[str, ...]) -> "dict[str, AgentCommand]":
    """Return the startable agents: agents on PATH, and `NAME=COMMAND` of the command line."""
    from remit.core.agents import AGENTS
    from remit.core.agents.row import AgentCommand

    found = {name: row.command for name, row in AGENTS.items() if shutil.which(row.binary)}
    for text in named:
        name, equals, words = text.partition("=")
        if not equals or not name.strip() or not shlex.split(words):
            raise click.BadParameter(f"{text!r} is no NAME=COMMAND", param_hint="--agent-command")
        passed = tuple(known for known in os.environ if known.startswith("REMIT_TEST_"))
        found[name] = AgentCommand(tuple(shlex.split(words)), variables=passed, model_words=())
    return found

"""What the fleet's commands share: the extra, the database, the repository as a fleet knows it."""

import os
import shlex
import shutil
from collections.abc import Iterable
from contextlib import suppress
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

import click

from remit.cli.output import USAGE, Failure, governed_gate
from remit.core.diff.contents import sha256
from remit.orchestrator.board import is_shared
from remit.workspace.place.workspace import Workspace, find_main_worktree

if TYPE_CHECKING:
    from remit.orchestrator.engines.dbos import DbosEngine
    from remit.orchestrator.workers.agent import AgentCommand

database_option = click.option(
    "--database", metavar="URL", envvar="REMIT_DATABASE", help="The fleet database; else the one of this user here."
)
pace_option = click.option("--pace", type=click.FloatRange(0.001, 10), default=1.0, hidden=True)


def require_extra(command: str) -> None:
    """Raise Failure unless the extra is installed."""
    if find_spec("dbos") is None or find_spec("sqlalchemy") is None:
        message = f"`{command}` needs `pip install 'remit[cluster]'`"
        raise Failure("EXTRA_MISSING", message, fix="pip install 'remit[cluster]'", exit_code=USAGE)


def open_engine(command: str, database: str | None, pace: float = 1.0) -> "DbosEngine":
    """Open the fleet database. Raises Failure without the extra, and what `reports_failures` names."""
    require_extra(command)
    from remit.orchestrator.database.store import open_store
    from remit.orchestrator.engines.dbos import DbosEngine, Timing

    return DbosEngine(open_store(database, Path.home()), Timing().scale(pace))


def find_repository_root(workspace: Workspace) -> Path:
    """Return the main worktree: a plan belongs to the repository, whichever worktree it is started from."""
    return find_main_worktree(workspace) or workspace.root


def name_repository(root: Path) -> str:
    """Return the repository's name in the fleet: by its history where hosts share it, else by its folder."""
    from remit.gate.governing import load_config
    from remit.orchestrator.remote import name_shared
    from remit.workspace.git.command import GitError
    from remit.workspace.place.workspace import locate_workspace

    workspace = locate_workspace(root)
    config = load_config(workspace)[0] if workspace is not None else None
    if workspace is not None and config is not None and config.orchestrator.remote:
        with suppress(GitError):  # before the first commit there is nothing to share
            return name_shared(workspace)
    return sha256(str(root).encode("utf-8", "surrogateescape"))[:12]


def find_clones(roots: Iterable[Path]) -> dict[str, Path]:
    """Return the main worktrees of the shared repositories that these folders belong to, by their names.

    Raises Failure for one that Remit does not govern on this host: nothing would hold its agents.
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
    """Return the agents that can be started here: those on PATH, and `NAME=COMMAND` of the command line."""
    from remit.orchestrator.workers.agent import AGENT_COMMANDS, AgentCommand

    found = {name: command for name, command in AGENT_COMMANDS.items() if shutil.which(command.words[0])}
    for text in named:
        name, equals, words = text.partition("=")
        if not equals or not name.strip() or not shlex.split(words):
            raise click.BadParameter(f"{text!r} is no NAME=COMMAND", param_hint="--agent-command")
        passed = tuple(known for known in os.environ if known.startswith("REMIT_TEST_"))
        found[name] = AgentCommand(tuple(shlex.split(words)), variables=passed)
    return found

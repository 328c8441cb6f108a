"""Fleet of a user, as opened by commands and pages: the extra, the database, a repository's id, and orders."""

from collections.abc import Generator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING

from remit.core.diff.contents import sha256
from remit.gate.governing.rules import load_config
from remit.workspace.git.command import GitError
from remit.workspace.merging import TreeStore
from remit.workspace.place.workspace import Workspace, find_main_worktree, locate_workspace
from remit.workspace.worktrees import forget_hand_ins
from remit_fleet.board import Order, OrderKind
from remit_fleet.plan_records import strike_intents
from remit_fleet.remote import name_shared

if TYPE_CHECKING:
    from remit_fleet.engines.dbos import DbosEngine


class FleetUnavailable(Exception):
    """Error for an unusable fleet database, with the next step."""

    def __init__(self, what: str, fix: str) -> None:
        super().__init__(what)
        self.fix = fix


class UnknownTask(ValueError):
    """Error for an intent without a task in the repository's plans; an empty intent: the repository has no task."""

    def __init__(self, intent: str) -> None:
        super().__init__(f"no plan has {intent or 'a task here'}")


def find_repository_root(workspace: Workspace) -> Path:
    """Return the main worktree: a plan belongs to the repository, regardless of the worktree from which the plan is
    started.
    """
    return find_main_worktree(workspace) or workspace.root


def name_repository_of(workspace: Workspace) -> str:
    return name_repository(find_repository_root(workspace))


def name_repository(root: Path) -> str:
    """Return the repository's name in the fleet: by its history if hosts share the repository, or by its folder."""
    workspace = locate_workspace(root)
    config = load_config(workspace)[0] if workspace is not None else None
    if workspace is not None and config is not None and config.orchestrator.remote:
        with suppress(GitError):  # before the first commit there is nothing to share
            return name_shared(workspace)
    return sha256(str(root).encode("utf-8", "surrogateescape"))[:12]


@contextmanager
def report_database_errors() -> Generator[None]:
    """Raise FleetUnavailable for an error of the database."""
    from remit_fleet.database.troubles import ERRORS, describe_trouble

    try:
        yield
    except ERRORS as error:
        trouble = describe_trouble(error)
        raise FleetUnavailable(trouble.what, trouble.fix) from error


def open_fleet(database: str | None, home: Path, pace: float = 1.0) -> "DbosEngine":
    """Open the fleet database; without a URL, the user's own database. Raises OSError, and the database's errors."""
    from remit_fleet.database.store import open_store
    from remit_fleet.engines.dbos import DbosEngine, Timing

    return DbosEngine(open_store(database, home), Timing().scale(pace))


def give_order(engine: "DbosEngine", repository: str, kind: OrderKind, intent: str, by: str, body: str = "") -> None:
    """Give an order to a task or, without an intent, to every task of a repository. Raises UnknownTask."""
    board = engine.read_board()
    known = [name for owner, name in board.tasks if owner == repository]
    if (intent and intent not in known) or not known:
        raise UnknownTask(intent)
    engine.give_order(Order(0, repository, kind, intent=intent, body=body, by=by))
    workspace = locate_workspace(Path(board.repositories[repository].url))
    if workspace is not None and kind in (OrderKind.STOP, OrderKind.DROP, OrderKind.UNDO):
        store = TreeStore(workspace)
        given, after = [intent] if intent else known, engine.read_board().tasks
        for name in given:
            forget_hand_ins(store, name)
        strike_intents(store, [name for name in given if after[repository, name].state == "dropped"])

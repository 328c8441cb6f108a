"""Read access to a repository, governed or not: its index, its contents, paths in it.

`remit blame FILE` imports this module without click, so imports here must stay light.
"""

import os
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

from remit.cli.failure import Failure
from remit.ledger.index import index as ledger_index
from remit.ledger.index.index import Index
from remit.workspace.contents.content_store import ContentStore
from remit.workspace.place.workspace import Workspace


def open_index(workspace: Workspace) -> Index:
    """Open the index of the logs on this machine, caught up."""
    return ledger_index.open_index(workspace.state, workspace.log_folder)


@contextmanager
def open_index_or_empty(workspace: Workspace, *, governed: bool) -> Generator[Index]:
    """Open the index; in an ungoverned repository an empty temporary one, so that nothing is written there."""
    if governed:
        with open_index(workspace) as index:
            yield index
        return
    from tempfile import TemporaryDirectory  # import costs as much as reading the ledger

    with TemporaryDirectory(prefix="remit.") as name:
        folder = Path(name)
        with Index.open(folder / "index.db", folder / "log") as index:
            yield index


def open_content_store(workspace: Workspace) -> ContentStore:
    return ContentStore(workspace, "")


def path_in_workspace(workspace: Workspace, repo: Path, file: str) -> str:
    """Return the path of `file`, relative to the workspace root; the file may be deleted. Raises Failure.

    `file` is relative to the working directory, or to the root if `--repo` is given.
    """
    start = Path.cwd() if repo == Path() else workspace.root
    path = Path(os.path.normpath(start.resolve() / file))
    real = path.parent.resolve() / path.name
    if not real.is_relative_to(workspace.root):
        raise Failure("OUTSIDE_WORKSPACE", f"{file!r} is not in {str(workspace.root)!r}", target=file)
    return str(real.relative_to(workspace.root))

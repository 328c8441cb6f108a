"""Reading where Remit does not govern: by the notes that came with the repository. Nothing is written there."""

from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

from remit.ledger.index.index import Index, open_index
from remit.workspace.contents.content_store import ContentStore
from remit.workspace.place.workspace import Workspace


@contextmanager
def open_repository_index(workspace: Workspace, *, governed: bool) -> Generator[Index]:
    """The ledger's index, caught up; an empty one where there is no ledger."""
    if governed:
        with open_index(workspace.state, workspace.log_folder) as index:
            yield index
        return
    from tempfile import TemporaryDirectory  # it costs a blame's start as much as reading the ledger does

    with TemporaryDirectory(prefix="remit.") as nothing:
        empty = Path(nothing)
        with Index.open(empty / "index.db", empty / "log") as index:
            yield index


def open_content_store(workspace: Workspace) -> ContentStore:
    """Where contents are looked for: nothing is kept there by who only reads, so that this machine needs no name."""
    return ContentStore(workspace, "")

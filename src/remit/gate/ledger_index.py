"""The ledger's index, opened for one question and brought up to date with the log."""

import sqlite3
from collections.abc import Generator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from remit.ledger.segments import LedgerError
from remit.workspace.place.workspace import Workspace

if TYPE_CHECKING:
    from remit.ledger.index.index import Index


@contextmanager
def open_index(workspace: Workspace) -> Generator["Index"]:
    """Open the index of the ledger. Raises OSError, LedgerError."""
    # Imported here: most calls need no index.
    from remit.ledger.index.index import Index

    try:
        with Index.open(workspace.state / "index.db", workspace.log_folder) as index:
            index.catch_up()
            yield index
    except sqlite3.Error as error:
        raise LedgerError(f"the index of the ledger cannot be asked: {error}") from error

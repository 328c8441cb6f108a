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
    from remit.ledger.index.index import open_index as open_current_index

    try:
        with open_current_index(workspace.state, workspace.log_folder) as index:
            yield index
    except sqlite3.Error as error:
        raise LedgerError(f"the index of the ledger cannot be asked: {error}") from error

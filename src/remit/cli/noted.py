"""Reading where Remit does not govern: by the notes that came with the repository. Nothing is written there."""

from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

from remit.cli.output import governed_gate, open_gate
from remit.gate.gate import Gate
from remit.ledger.index import Index
from remit.workspace.contents import ContentStore
from remit.workspace.notes import Notes


def reading_gate(repo: Path) -> Gate:
    """The gate of a repository that Remit governs, or that has notes. Raises Failure for any other."""
    gate = open_gate(repo)
    return gate if not gate.governed and Notes(gate.workspace).there() else governed_gate(repo)


@contextmanager
def index_of(gate: Gate) -> Generator[Index]:
    """The ledger's index, caught up; an empty one where there is no ledger."""
    workspace = gate.workspace
    if gate.governed:
        with Index.open(workspace.state / "index.db", workspace.log_folder) as index:
            index.catch_up()
            yield index
        return
    with TemporaryDirectory(prefix="remit.") as nothing:
        empty = Path(nothing)
        with Index.open(empty / "index.db", empty / "log") as index:
            yield index


def store_of(gate: Gate) -> ContentStore:
    """Where contents are looked for; without a ledger, git's own objects."""
    return gate.store if gate.governed else ContentStore(gate.workspace, "")

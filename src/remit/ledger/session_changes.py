"""The net change that one session made to each file, from its records."""

from collections.abc import Iterable
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from remit.core.record import KEY


class SessionChange(Struct, frozen=True):
    """A run of a session's changes to one file that follow one another, as one change.

    `before` and `after` are git blob names: None where the file did not exist on that side, empty where its content
    was not kept, as of a file with secrets. A change by somebody else in between begins a new run. `records` are the
    ids of the mutation records, oldest first.
    """

    path: str
    before: str | None
    after: str | None
    records: tuple[str, ...]


def session_changes(documents: Iterable[dict[str, Any]]) -> tuple[SessionChange, ...]:
    """Join a session's mutation records, oldest first, into one change for each run of each file, in their order.

    Runs that end as they began are left out.
    """
    runs: list[SessionChange] = []
    newest: dict[str, int] = {}
    for document in documents:
        for change in changes_of(document):
            at = newest.get(change.path)
            if at is not None and runs[at].after == change.before:
                runs[at] = replace(runs[at], after=change.after, records=(*runs[at].records, *change.records))
            else:
                newest[change.path] = len(runs)
                runs.append(change)
    return tuple(run for run in runs if run.before != run.after)


def changes_of(document: dict[str, Any]) -> Iterable[SessionChange]:
    """Yield the changes of one mutation record."""
    for file in document["metadata"][KEY].get("files", []):
        before, after = file.get("before"), file.get("after")
        yield SessionChange(str(file["path"]), blob_of(before), blob_of(after), (str(document["id"]),))


def blob_of(side: dict[str, Any] | None) -> str | None:
    """Return the git blob name of one side of a change; empty where it was not kept, None where there was no file."""
    return None if side is None else str(side.get("git_blob") or "")

"""Blame of lines that git has already reported: for a supplied content, or in reverse."""

from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import Any

from msgspec.structs import replace

from remit.core.diff.contents import hash_git_blob
from remit.ledger.index.index import Index
from remit.provenance.blame.blame import Blamer
from remit.provenance.blame.blamed_line import BlamedLine
from remit.provenance.origins.attributor import LineAttributor
from remit.provenance.origins.blame_porcelain import GitLine
from remit.workspace.contents.content_store import ContentStore
from remit.workspace.place.workspace import Workspace

MAX_PREFETCHED_CHANGES = 64
"""Changes whose contents are prefetched before a need for them is known."""

OPTIONS_NOT_REVERSED = ("-L", "--reverse", "--contents", "--ignore-rev", "--since", "--after", "--until", "--before")


class SuppliedLinesBlamer(Blamer):
    """Blame of given `lines` in one workspace. `content` replaces the work tree's content."""

    def __init__(
        self,
        workspace: Workspace,
        index: Index,
        store: ContentStore,
        content: bytes | None = None,
    ) -> None:
        super().__init__(workspace, index, store)
        self.lines: list[GitLine] = []
        self.records_by_id: dict[str, dict[str, Any]] = {}
        """Records of one file by id."""
        if content is not None:
            self.attributor = SuppliedContentAttributor(workspace, index, store, content)

    def prefetch(self, path: str, is_over: Callable[[], bool], *, classes: bool) -> None:
        """Read the records of a file while git still traces its lines.

        `classes` requests the mutation classes. Reading stops when `is_over` returns True.
        """
        if not self.attributor.has_records:
            return
        self.attributor.prefetch_backdated()
        if not self.attributor.history_of(path).recorded:
            return
        self.attributor.token_index.prefetch(path, is_over)
        if classes and not is_over():
            self.prefetch_classes(path)
        self.prefetch_records(path, is_over)

    def prefetch_records(self, path: str, is_over: Callable[[], bool]) -> None:
        """Read the records of the file's changes, newest first, until `is_over`."""
        for change, _ in reversed(self.attributor.calls_by_path[path]):
            if is_over():
                return
            self.load_records([change.id])

    def load_records(self, names: Iterable[str]) -> dict[str, dict[str, Any]]:
        wanted = set(names)
        self.records_by_id |= super().load_records(wanted - self.records_by_id.keys())
        return {name: self.records_by_id[name] for name in wanted & self.records_by_id.keys()}

    def prefetch_classes(self, path: str) -> None:
        # Imported here for start-up speed: few answers tell classes.
        from remit.provenance.map.change_classes import prefetch_contents

        changes = [change for change, _ in self.attributor.calls_by_path[path]]
        if len(changes) <= MAX_PREFETCHED_CHANGES:
            prefetch_contents(changes, self.attributor.store)

    def read_git_lines(self, path: str, arguments: Sequence[str]) -> list[GitLine]:
        return self.lines


class SuppliedContentAttributor(LineAttributor):
    """Line attributor with another content for the work tree's file."""

    def __init__(self, workspace: Workspace, index: Index, store: ContentStore, content: bytes) -> None:
        super().__init__(workspace, index, store)
        self.content = content

    def load_working_file(self, path: str) -> str | None:
        blob = hash_git_blob(self.content)
        self.contents_by_blob[blob] = self.content
        return blob


def blame_reversed(
    blamer: Blamer, path: str, first: str, options: Sequence[str], lines: Sequence[GitLine]
) -> list[BlamedLine]:
    """Return the lines that `git blame --reverse` traced, with their authors as of version `first`. Raises GitError."""
    forwards = [option for option in options if not option.startswith(OPTIONS_NOT_REVERSED)]
    written = {line.line: line for line in blamer.blame(path, [*forwards, first])}
    unknown = partial(BlamedLine, content="", commit="")
    return [
        replace(
            written.get(line.line) or unknown(line.line),
            content=line.content.decode("utf-8", "replace"),
            commit=line.version.commit,
        )
        for line in lines
    ]

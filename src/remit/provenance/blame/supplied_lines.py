"""Blame of lines that git has told already: with a content of the asker's own, or read backwards."""

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
"""Changes whose contents are read before it is known that they are wanted."""

OPTIONS_NOT_REVERSED = ("-L", "--reverse", "--contents", "--ignore-rev", "--since", "--after", "--until", "--before")


class SuppliedLinesBlamer(Blamer):
    """Blame in one workspace, of `lines`. `content` stands for the work tree's, where it is given."""

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
        """The records that were asked for, by id: those of one file."""
        if content is not None:
            self.attributor = SuppliedContentAttributor(workspace, index, store, content)

    def prefetch(self, path: str, is_over: Callable[[], bool], *, classes: bool) -> None:
        """Read what was recorded of a file, while git still looks for where its lines come from.

        `classes` says whether those of the changes will be asked for; they are looked into until git is `over`.
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
        """Read the records of that file's changes, the newest first, until it is `over`."""
        for change, _ in reversed(self.attributor.calls_by_path[path]):
            if is_over():
                return
            self.load_records([change.id])

    def load_records(self, names: Iterable[str]) -> dict[str, dict[str, Any]]:
        """See `Blamer`: each is read once."""
        asked = set(names)
        self.records_by_id |= super().load_records(asked - self.records_by_id.keys())
        return {name: self.records_by_id[name] for name in asked & self.records_by_id.keys()}

    def prefetch_classes(self, path: str) -> None:
        """Have at hand what tells the classes of a file's changes, where they are few."""
        from remit.provenance.map.change_classes import (
            prefetch_contents,  # for start-up speed: not every answer tells classes
        )

        changes = [change for change, _ in self.attributor.calls_by_path[path]]
        if len(changes) <= MAX_PREFETCHED_CHANGES:
            prefetch_contents(changes, self.attributor.store)

    def read_git_lines(self, path: str, arguments: Sequence[str]) -> list[GitLine]:
        """The lines that were given."""
        return self.lines


class SuppliedContentAttributor(LineAttributor):
    """Attribution where the work tree's file has another content."""

    def __init__(self, workspace: Workspace, index: Index, store: ContentStore, content: bytes) -> None:
        super().__init__(workspace, index, store)
        self.content = content

    def load_working_file(self, path: str) -> str | None:
        """The git name of the content that was given."""
        name = hash_git_blob(self.content)
        self.contents_by_blob[name] = self.content
        return name


def blame_reversed(
    blamer: Blamer, path: str, first: str, options: Sequence[str], lines: Sequence[GitLine]
) -> list[BlamedLine]:
    """Lines that git traced to the last version that has them, each with who wrote it: that is told of `first`, the
    version whose lines they are. Raises GitError.
    """
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

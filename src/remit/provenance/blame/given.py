"""Blame of lines that git has told already: with a content of the asker's own, or read backwards."""

from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import Any

from msgspec.structs import replace

from remit.core.contents import git_blob
from remit.ledger.index import Index
from remit.provenance.blame.blame import Blamer
from remit.provenance.blame.blamed_line import BlamedLine
from remit.provenance.origins.attribution import Attribution
from remit.provenance.origins.porcelain import GitLine
from remit.workspace.contents import ContentStore
from remit.workspace.place import Workspace

FEW = 64
"""Changes whose contents are read before it is known that they are wanted."""

NOT_TRACED_BACK = ("-L", "--reverse", "--contents", "--ignore-rev", "--since", "--after", "--until", "--before")


class GivenLines(Blamer):
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
        self.read: dict[str, dict[str, Any]] = {}
        """The records that were asked for, by id: those of one file."""
        if content is not None:
            self.attribution = OtherContent(workspace, index, store, content)

    def prepare(self, path: str, over: Callable[[], bool], *, classes: bool) -> None:
        """Read what was recorded of a file, while git still looks for where its lines come from.

        `classes` says whether those of the changes will be asked for; they are looked into until git is `over`.
        """
        if not self.attribution.anything_recorded:
            return
        self.attribution.begin()
        if not self.attribution.history(path).recorded:
            return
        self.attribution.put.prepare(path, over)
        if classes and not over():
            self.expect_classes(path)
        self.expect_records(path, over)

    def expect_records(self, path: str, over: Callable[[], bool]) -> None:
        """Read the records of that file's changes, the newest first, until it is `over`."""
        for change, _ in reversed(self.attribution.calls[path]):
            if over():
                return
            self.records([change.id])

    def records(self, names: Iterable[str]) -> dict[str, dict[str, Any]]:
        """See `Blamer`: each is read once."""
        asked = set(names)
        self.read |= super().records(asked - self.read.keys())
        return {name: self.read[name] for name in asked & self.read.keys()}

    def expect_classes(self, path: str) -> None:
        """Have at hand what tells the classes of a file's changes, where they are few."""
        from remit.provenance.map.syntax import expect  # for start-up speed: not every answer tells classes

        changes = [change for change, _ in self.attribution.calls[path]]
        if len(changes) <= FEW:
            expect(changes, self.attribution.store)

    def git_lines(self, path: str, arguments: Sequence[str]) -> list[GitLine]:
        """The lines that were given."""
        return self.lines


class OtherContent(Attribution):
    """Attribution where the work tree's file has another content."""

    def __init__(self, workspace: Workspace, index: Index, store: ContentStore, content: bytes) -> None:
        super().__init__(workspace, index, store)
        self.content = content

    def working(self, path: str) -> str | None:
        """The git name of the content that was given."""
        name = git_blob(self.content)
        self.contents[name] = self.content
        return name


def blame_backwards(
    blamer: Blamer, path: str, first: str, options: Sequence[str], lines: Sequence[GitLine]
) -> list[BlamedLine]:
    """Lines that git traced to the last version that has them, each with who wrote it: that is told of `first`, the
    version whose lines they are. Raises GitError.
    """
    forwards = [option for option in options if not option.startswith(NOT_TRACED_BACK)]
    written = {line.line: line for line in blamer.blame(path, [*forwards, first])}
    unknown = partial(BlamedLine, content="", commit="")
    return [
        replace(
            written.get(line.line) or unknown(line.line),
            content=line.content.decode("utf-8", "replace"),
            commit=line.place.commit,
        )
        for line in lines
    ]

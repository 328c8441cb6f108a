"""Which words records put into files: what has other words, no record explains, and nothing has to be compared.

Words are kept as marks of four bytes, in the index. Two words with one mark cost a comparison, and change no answer.
"""

from array import array
from collections.abc import Iterable, Sequence
from functools import lru_cache
from zlib import crc32

from remit.core.contents import Hunk
from remit.core.own_words import own_words
from remit.core.textdiff import lines_of
from remit.ledger.changes import Change
from remit.ledger.index import Index
from remit.workspace.contents import ContentStore

MOST_READ = 400
"""Records whose contents are read at once; with more that nobody read yet, nothing is ruled out this time."""

TOGETHER = 50
"""Contents that are held at a time."""


class PutWords:
    """The words that the records of one index put into files. `marks` are those of one path, or of all."""

    def __init__(self, index: Index, store: ContentStore) -> None:
        self.index = index
        self.store = store
        self.known: dict[str | None, frozenset[int] | None] = {}

    def may_hold(self, path: str | None, lines: Iterable[bytes], *, plain: bool = False) -> bool:
        """Whether a record may have put one of those lines into that file, or into any: it put each of its words.

        A line without a word of its own tells nothing; `plain` says whether it counts as one that may be.
        """
        marks = self.marks(path)
        if marks is None:
            return True
        return any(marks.issuperset(own) if own else plain for own in map(marks_of, lines))

    def marks(self, path: str | None) -> frozenset[int] | None:
        """All words that were put into that file, or into any, as marks; None where that cannot be told."""
        if path not in self.known:
            self.known[path] = self.united(path) if self.read(path) else None
        return self.known[path]

    def united(self, path: str | None) -> frozenset[int] | None:
        """What is kept of that path."""
        found: set[int] = set()
        for row in self.index.put_words(path):
            if row is None:
                return None
            found.update(array("I", row))
        return frozenset(found)

    def read(self, path: str | None) -> bool:
        """Take in the records that nobody read yet; whether those are all."""
        changes = self.index.changes_without_words(path, MOST_READ)
        for at in range(0, len(changes), TOGETHER):
            some = changes[at : at + TOGETHER]
            contents = self.store.load_many({c.after_blob for c in some if c.after_blob and not c.by_git})
            self.index.keep_put_words((c.id, c.path, words_put(c, contents.get(c.after_blob or ""))) for c in some)
        return len(changes) < MOST_READ


def words_put(change: Change, content: bytes | None) -> bytes | None:
    """The marks of the words in the lines that a change put there; None where its content is lost."""
    if change.after_blob is None or change.by_git:
        return b""
    if content is None:
        return None
    lines = lines_of(content)
    put = lines if change.hunks is None else fresh(lines, change.hunks)
    return array("I", sorted({mark for line in put for mark in marks_of(line)})).tobytes()


def fresh(lines: Sequence[bytes], hunks: Iterable[Hunk]) -> Iterable[bytes]:
    """The lines that those hunks put there."""
    return (line for hunk in hunks if hunk.new_lines for line in lines[hunk.new - 1 : hunk.new - 1 + hunk.new_lines])


@lru_cache(MOST_READ * TOGETHER)
def marks_of(line: bytes) -> tuple[int, ...]:
    """The marks of a line's words that are not everybody's."""
    return tuple(crc32(word.encode("utf-8", "surrogatepass")) for word in own_words(line))

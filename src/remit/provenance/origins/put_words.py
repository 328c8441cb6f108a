"""Which words and lines records put into files: what is none of them, no record explains, and nothing is compared.

Words and lines are kept as marks of four bytes, in the index. Two with one mark cost a comparison, and change no
answer.
"""

from array import array
from collections.abc import Callable, Iterable, Sequence
from functools import lru_cache
from zlib import crc32

from msgspec import Struct

from remit.core.contents import Hunk
from remit.core.own_words import lacks_a_word, own_words, says_something
from remit.core.textdiff import lines_of
from remit.ledger.changes import Change
from remit.ledger.index import Index, PutMarks
from remit.provenance.origins.evidence import unspaced
from remit.provenance.origins.reformatted import signs
from remit.workspace.contents import ContentStore
from remit.workspace.place import Workspace

MOST_READ = 400
"""Records whose contents are read at once; with more that nobody read yet, nothing is ruled out this time."""

TOGETHER = 50
"""Contents that are held at a time."""

MOST_BYTES = 8 * 1024 * 1024
"""Marks of all files together that one answer is worth: they become sets, sixteen times as large."""

AT_ONCE = 10
"""Records whose contents are read at a time where calls come first."""

RUN = 3
"""Signs that follow each other and have one mark. A line that was wrapped consists of such runs of the one it was, as
far as that goes.
"""


class Marked(Struct, frozen=True):
    """What one record put into a file, or several together."""

    words: frozenset[int]
    lines: frozenset[int]
    told: dict[bytes, bool | None] = {}
    """What `brings` found: the same lines are asked about again."""

    def brings(self, line: bytes) -> bool | None:
        """Whether a line may come from there, as it stands or in another layout; None for one without a word of its
        own, which tells nothing.
        """
        if line not in self.told:
            lacking = lacks_a_word(line, self.words)
            self.told[line] = False if lacking else self.may_hold(line) if says_something(line) else None
        return self.told[line]

    def may_hold(self, line: bytes) -> bool:
        """The same of a line with words of its own."""
        if crc32(unspaced(line)) in self.lines:
            return True
        return self.words.issuperset(marks_of(line)) and self.may_go_on(line)

    def may_begin(self, line: bytes) -> bool:
        """As `brings`, where the rest of a line may come from elsewhere."""
        if crc32(unspaced(line)) in self.lines:
            return True
        return not self.words.isdisjoint(marks_of(line)) and self.may_go_on(line)

    def may_go_on(self, line: bytes) -> bool:
        """Whether the line may be a part of one there, or begin with the end of one: nobody wraps within a sign."""
        for whole, *ends in parts(line):
            if not self.lines.isdisjoint(ends):
                return True
            if whole not in self.lines:
                return False
        return True


class Hope(Struct, frozen=True):
    """Lines that records may have put into a file, and these records."""

    lines: tuple[bytes, ...]
    records: frozenset[str]


class PutWords:
    """The words and lines that the records of one index put into files, of one path or of all: of these only while
    their marks take `most_bytes` at most.
    """

    def __init__(self, index: Index, store: ContentStore, most_bytes: int = MOST_BYTES) -> None:
        self.index = index
        self.most_bytes = most_bytes
        self.store = store
        self.known: dict[str | None, Marked | None] = {}
        self.apart: dict[str, dict[str, Marked]] = {}
        self.by_any_call: Marked | None = None

    def prepare(self, path: str, over: Callable[[], bool]) -> None:
        """Take in the records that nobody read yet, and have at hand what tells of that file, until it is `over`."""
        if not over() and not self.take_all(over, TOGETHER):
            self.marks(path)
        if self.known.get(None) is not None and not over():
            self.called()

    def may_be_put(self, path: str, lines: Iterable[bytes]) -> bool:
        """Whether a record may have put one of those lines into that file: any may have put a plain one."""
        known = self.marks(path)
        return known is None or any(known.brings(line) is not False for line in lines)

    def brought(self, lines: Sequence[bytes]) -> dict[bytes, bool | None]:
        """Whether a record may have put each of those lines into any file; None for one that tells nothing."""
        known = self.marks(None)
        return {line: True if known is None else known.brings(line) for line in lines}

    def may_have_words(self, path: str, lines: Iterable[bytes]) -> bool:
        """Whether records may have put all words of one of those lines into that file, wherever each stood."""
        known = self.marks(path)
        if known is None:
            return True
        left = (line for line in lines if not lacks_a_word(line, known.words))
        return any(known.words.issuperset(marks) for marks in map(marks_of, left) if marks)

    def by_calls(self, lines: Sequence[bytes]) -> Sequence[bytes]:
        """Those of the lines that a call may have put into any file: what was found by comparing does not count."""
        return lines if self.marks(None) is None else list(filter(self.called().brings, lines))

    def called(self) -> Marked:
        """All that calls put into files."""
        if self.by_any_call is None:
            self.by_any_call = united(self.index.put_words(calls=True))
        return self.by_any_call

    def hope(self, path: str, lines: Iterable[bytes]) -> Hope | None:
        """Those of the lines that records may have put into that file; None where that cannot be told."""
        known = self.marks(path)
        if known is None:
            return None
        wanted = tuple(filter(known.brings, lines))
        records = self.by_record(path) if wanted else {}
        return Hope(wanted, frozenset(name for name, put in records.items() if any(map(put.may_begin, wanted))))

    def may_have_put(self, changes: Iterable[Change], texts: Iterable[bytes]) -> list[Change]:
        """Those of the changes that may have put one of those lines there, which are told without their white space."""
        wanted = set(map(crc32, texts))
        put = {(row.id, row.path): row.lines for row in self.index.put_words()}
        return [
            change
            for change in changes
            if not told_all(change)
            or (marks := put.get((change.id, change.path))) is None
            or not wanted.isdisjoint(array("I", marks))
        ]

    def by_record(self, path: str) -> dict[str, Marked]:
        """What each record put into that file."""
        if path not in self.apart:
            self.apart[path] = {row.id: united([row]) for row in self.index.put_words(path)}
        return self.apart[path]

    def marks(self, path: str | None) -> Marked | None:
        """All that was put into that file, or into any; None where that cannot be told."""
        if path not in self.known:
            self.known[path] = self.all_put(path) if self.read(path) else None
        return self.known[path]

    def all_put(self, path: str | None) -> Marked | None:
        """What is kept of that path, or of all as long as that is not too much. Of a path that has half of it or more,
        all: what is ruled out in any file is so in that one, and one is made for both.
        """
        size = self.index.put_bytes()
        if path is None and size > self.most_bytes:
            return None
        rows = self.index.put_words(path)
        if any(row.words is None for row in rows):
            return None
        own = sum(len(row.words or b"") + len(row.lines or b"") for row in rows)
        return (self.marks(None) if path and 2 * own >= size else None) or united(rows)

    def read(self, path: str | None) -> bool:
        """Take in the records that nobody read yet; whether those are all."""
        changes = self.index.changes_without_words(path, MOST_READ)
        for at in range(0, len(changes), TOGETHER):
            self.take(changes[at : at + TOGETHER])
        return len(changes) < MOST_READ

    def take_all(self, enough: Callable[[], bool], at_once: int) -> bool:
        """Take in the records that nobody read yet, so many at a time, until it is `enough`; whether more is left."""
        before: tuple[Change, ...] = ()
        while (changes := self.index.changes_without_words(None, at_once)) not in ((), before):
            if enough():
                return True
            self.take(changes)
            before = changes
        return False

    def take(self, changes: Sequence[Change]) -> None:
        """Take in what these changes put into files."""
        contents = self.store.load_many({c.after_blob for c in changes if c.after_blob and not c.by_git})
        self.index.keep_put_words(put_by(c, contents.get(c.after_blob or "")) for c in changes)


def kept_up(workspace: Workspace, machine: str, enough: Callable[[], bool]) -> bool:
    """Bring the index up to date, and take in the records that nobody read yet, until it is `enough`; whether more is
    left. Raises OSError, GitError, LedgerError, sqlite3.Error.
    """
    with Index.open(workspace.state / "index.db", workspace.log_folder) as index:
        index.catch_up()
        return PutWords(index, ContentStore(workspace, machine)).take_all(enough, AT_ONCE)


def told_all(change: Change) -> bool:
    """Whether a record tells which lines a change put there: of a file that was there, how it was before."""
    return change.hunks is None or change.before_blob is not None or change.before_lines == 0


def united(rows: Iterable[PutMarks]) -> Marked:
    """What those records put there together."""
    known = list(rows)
    return Marked(unpacked(row.words for row in known), unpacked(row.lines for row in known))


def marked(lines: Iterable[bytes]) -> Marked:
    """The marks of those lines."""
    words: set[int] = set()
    marks: set[int] = set()
    for line in set(lines):
        words.update(marks_of(line))
        marks.update(marks_of_line(line))
    return Marked(frozenset(words), frozenset(marks))


def put_by(change: Change, content: bytes | None) -> PutMarks:
    """The marks of the words and lines that a change put there; None where its content is lost."""
    if change.after_blob is None or change.by_git:
        return PutMarks(change.id, change.path, b"", b"")
    if content is None:
        return PutMarks(change.id, change.path, None, None)
    lines = lines_of(content)
    put = lines if change.hunks is None else fresh(lines, change.hunks)
    found = marked(put)
    return PutMarks(change.id, change.path, packed(found.words), packed(found.lines))


def packed(marks: Iterable[int]) -> bytes:
    """The marks as they are kept."""
    return array("I", marks).tobytes()


def unpacked(kept: Iterable[bytes | None]) -> frozenset[int]:
    """All marks of those that are kept."""
    return frozenset(array("I", b"".join(filter(None, kept))))


def fresh(lines: Sequence[bytes], hunks: Iterable[Hunk]) -> Iterable[bytes]:
    """The lines that those hunks put there."""
    return (line for hunk in hunks if hunk.new_lines for line in lines[hunk.new - 1 : hunk.new - 1 + hunk.new_lines])


@lru_cache(MOST_READ * TOGETHER)
def marks_of(line: bytes) -> tuple[int, ...]:
    """The marks of a line's words that are not everybody's."""
    return tuple(map(mark_of, own_words(line)))


@lru_cache(MOST_READ * TOGETHER)
def mark_of(word: str) -> int:
    """The mark of a word."""
    return crc32(word.encode("utf-8", "surrogatepass"))


@lru_cache(MOST_READ * TOGETHER)
def marks_of_line(line: bytes) -> tuple[int, ...]:
    """The mark of the line without its white space, those of each run of its signs, and those of its ends."""
    found = signs(line)
    runs = [crc32(b" ".join(three)) for three in zip(found, found[1:], found[2:], strict=False)]
    return (crc32(unspaced(line)), *runs, *(end(found[-count:]) for count in range(1, min(RUN, len(found)) + 1)))


@lru_cache(MOST_READ * TOGETHER)
def parts(line: bytes) -> tuple[tuple[int, ...], ...]:
    """A line run by run: the mark of each, and those of the ends that its line may have there."""
    found = signs(line)
    starts = range(0, len(found) - RUN + 1, RUN)
    return tuple((run(found[at : at + RUN]), *(end(found[at : at + n]) for n in range(1, RUN + 1))) for at in starts)


def run(found: Sequence[bytes]) -> int:
    """The mark of signs that follow each other."""
    return crc32(b" ".join(found))


def end(found: Sequence[bytes]) -> int:
    """The mark of signs with which a line ends."""
    return crc32(b" ".join(found) + b"\n")

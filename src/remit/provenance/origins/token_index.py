"""Which words and lines records put into files: what is none of them, no record explains, and nothing is compared.

Words and lines are kept as marks of four bytes, in the index. Two with one mark cost a comparison, and change no
answer.
"""

from array import array
from collections.abc import Callable, Iterable, Sequence
from functools import lru_cache
from zlib import crc32

from msgspec import Struct

from remit.core.diff.contents import Hunk
from remit.core.diff.distinctive_lines import find_distinctive_words, has_distinctive_word, has_unknown_word
from remit.core.diff.edit_script import split_lines
from remit.ledger.file_changes import RecordedChange
from remit.ledger.index.index import Index, PutMarks
from remit.provenance.origins.evidence import strip_whitespace
from remit.provenance.origins.similarity import tokens_without_commas
from remit.workspace.contents.content_store import ContentStore
from remit.workspace.place.workspace import Workspace

MAX_UNREAD_RECORDS = 400
"""Records whose contents are read at once; with more that nobody read yet, nothing is ruled out this time."""

BATCH_CONTENTS = 50
"""Contents that are held at a time."""

MAX_MARK_BYTES = 8 * 1024 * 1024
"""Marks of all files together that one answer is worth: they become sets, sixteen times as large."""

BATCH_PRIORITY_CALLS = 10
"""Records whose contents are read at a time where calls come first."""

TOKENS_PER_RUN = 3
"""Signs that follow each other and have one mark. A line that was wrapped consists of such runs of the one it was, as
far as that goes.
"""


class TokenMarks(Struct, frozen=True):
    """What one record put into a file, or several together."""

    words: frozenset[int]
    lines: frozenset[int]
    answers: dict[bytes, bool | None] = {}
    """What `brings` found: the same lines are asked about again."""

    def may_contain(self, line: bytes) -> bool | None:
        """Whether a line may come from there, as it stands or in another layout; None for one without a word of its
        own, which tells nothing.
        """
        if line not in self.answers:
            lacking = has_unknown_word(line, self.words)
            self.answers[line] = (
                False if lacking else self.may_contain_worded(line) if has_distinctive_word(line) else None
            )
        return self.answers[line]

    def may_contain_worded(self, line: bytes) -> bool:
        """The same of a line with words of its own."""
        if crc32(strip_whitespace(line)) in self.lines:
            return True
        return self.words.issuperset(word_marks(line)) and self.runs_are_present(line)

    def may_contain_start(self, line: bytes) -> bool:
        """As `brings`, where the rest of a line may come from elsewhere."""
        if crc32(strip_whitespace(line)) in self.lines:
            return True
        return not self.words.isdisjoint(word_marks(line)) and self.runs_are_present(line)

    def runs_are_present(self, line: bytes) -> bool:
        """Whether the line may be a part of one there, or begin with the end of one: nobody wraps within a sign."""
        for whole, *ends in run_marks(line):
            if not self.lines.isdisjoint(ends):
                return True
            if whole not in self.lines:
                return False
        return True


class ExpectedLines(Struct, frozen=True):
    """Lines that records may have put into a file, and these records."""

    lines: tuple[bytes, ...]
    records: frozenset[str]


class TokenIndex:
    """The words and lines that the records of one index put into files, of one path or of all: of these only while
    their marks take `most_bytes` at most.
    """

    def __init__(self, index: Index, store: ContentStore, most_bytes: int = MAX_MARK_BYTES) -> None:
        self.index = index
        self.most_bytes = most_bytes
        self.store = store
        self.marks_by_path: dict[str | None, TokenMarks | None] = {}
        self.record_marks_by_path: dict[str, dict[str, TokenMarks]] = {}
        self.call_marks: TokenMarks | None = None

    def prefetch(self, path: str, is_over: Callable[[], bool]) -> None:
        """Take in the records that nobody read yet, and have at hand what tells of that file, until it is `over`."""
        if not is_over() and not self.index_all(is_over, BATCH_CONTENTS):
            self.marks_of_path(path)
        if self.marks_by_path.get(None) is not None and not is_over():
            self.marks_of_calls()

    def may_match_records(self, path: str, lines: Iterable[bytes]) -> bool:
        """Whether a record may have put one of those lines into that file: any may have put a plain one."""
        known = self.marks_of_path(path)
        return known is None or any(known.may_contain(line) is not False for line in lines)

    def match_any_record(self, lines: Sequence[bytes]) -> dict[bytes, bool | None]:
        """Whether a record may have put each of those lines into any file; None for one that tells nothing."""
        known = self.marks_of_path(None)
        return {line: True if known is None else known.may_contain(line) for line in lines}

    def may_match_words(self, path: str, lines: Iterable[bytes]) -> bool:
        """Whether records may have put all words of one of those lines into that file, wherever each stood."""
        known = self.marks_of_path(path)
        if known is None:
            return True
        left = (line for line in lines if not has_unknown_word(line, known.words))
        return any(known.words.issuperset(marks) for marks in map(word_marks, left) if marks)

    def lines_by_calls(self, lines: Sequence[bytes]) -> Sequence[bytes]:
        """Those of the lines that a call may have put into any file: what was found by comparing does not count."""
        return lines if self.marks_of_path(None) is None else list(filter(self.marks_of_calls().may_contain, lines))

    def marks_of_calls(self) -> TokenMarks:
        """All that calls put into files."""
        if self.call_marks is None:
            self.call_marks = unite_marks(self.index.list_put_marks(calls=True))
        return self.call_marks

    def expected_lines(self, path: str, lines: Iterable[bytes]) -> ExpectedLines | None:
        """Those of the lines that records may have put into that file; None where that cannot be told."""
        known = self.marks_of_path(path)
        if known is None:
            return None
        wanted = tuple(filter(known.may_contain, lines))
        records = self.marks_by_record(path) if wanted else {}
        return ExpectedLines(
            wanted, frozenset(name for name, put in records.items() if any(map(put.may_contain_start, wanted)))
        )

    def changes_with_lines(self, changes: Iterable[RecordedChange], texts: Iterable[bytes]) -> list[RecordedChange]:
        """Those of the changes that may have put one of those lines there, which are told without their white space."""
        wanted = set(map(crc32, texts))
        put = {(row.id, row.path): row.lines for row in self.index.list_put_marks()}
        return [
            change
            for change in changes
            if not records_all_lines(change)
            or (marks := put.get((change.id, change.path))) is None
            or not wanted.isdisjoint(array("I", marks))
        ]

    def marks_by_record(self, path: str) -> dict[str, TokenMarks]:
        """What each record put into that file."""
        if path not in self.record_marks_by_path:
            self.record_marks_by_path[path] = {row.id: unite_marks([row]) for row in self.index.list_put_marks(path)}
        return self.record_marks_by_path[path]

    def marks_of_path(self, path: str | None) -> TokenMarks | None:
        """All that was put into that file, or into any; None where that cannot be told."""
        if path not in self.marks_by_path:
            self.marks_by_path[path] = self.load_marks(path) if self.index_path(path) else None
        return self.marks_by_path[path]

    def load_marks(self, path: str | None) -> TokenMarks | None:
        """What is kept of that path, or of all as long as that is not too much. Of a path that has half of it or more,
        all: what is ruled out in any file is so in that one, and one is made for both.
        """
        size = self.index.count_put_mark_bytes()
        if path is None and size > self.most_bytes:
            return None
        rows = self.index.list_put_marks(path)
        if any(row.words is None for row in rows):
            return None
        own = sum(len(row.words or b"") + len(row.lines or b"") for row in rows)
        return (self.marks_of_path(None) if path and 2 * own >= size else None) or unite_marks(rows)

    def index_path(self, path: str | None) -> bool:
        """Take in the records that nobody read yet; whether those are all."""
        changes = self.index.list_changes_without_marks(path, MAX_UNREAD_RECORDS)
        for at in range(0, len(changes), BATCH_CONTENTS):
            self.index_changes(changes[at : at + BATCH_CONTENTS])
        return len(changes) < MAX_UNREAD_RECORDS

    def index_all(self, must_stop: Callable[[], bool], batch: int) -> bool:
        """Take in the records that nobody read yet, so many at a time, until it is `enough`; whether more is left."""
        before: tuple[RecordedChange, ...] = ()
        while (changes := self.index.list_changes_without_marks(None, batch)) not in ((), before):
            if must_stop():
                return True
            self.index_changes(changes)
            before = changes
        return False

    def index_changes(self, changes: Sequence[RecordedChange]) -> None:
        """Take in what these changes put into files."""
        contents = self.store.load_many({c.after_blob for c in changes if c.after_blob and not c.came_from_git})
        self.index.store_put_marks(marks_of_change(c, contents.get(c.after_blob or "")) for c in changes)


def update_token_index(workspace: Workspace, machine: str, must_stop: Callable[[], bool]) -> bool:
    """Bring the index up to date, and take in the records that nobody read yet, until it is `enough`; whether more is
    left. Raises OSError, GitError, LedgerError, sqlite3.Error.
    """
    with Index.open(workspace.state / "index.db", workspace.log_folder) as index:
        index.catch_up()
        return TokenIndex(index, ContentStore(workspace, machine)).index_all(must_stop, BATCH_PRIORITY_CALLS)


def records_all_lines(change: RecordedChange) -> bool:
    """Whether a record tells which lines a change put there: of a file that was there, how it was before."""
    return change.hunks is None or change.before_blob is not None or change.before_lines == 0


def unite_marks(rows: Iterable[PutMarks]) -> TokenMarks:
    """What those records put there together."""
    known = list(rows)
    return TokenMarks(unpack_marks(row.words for row in known), unpack_marks(row.lines for row in known))


def marks_of_lines(lines: Iterable[bytes]) -> TokenMarks:
    """The marks of those lines."""
    words: set[int] = set()
    marks: set[int] = set()
    for line in set(lines):
        words.update(word_marks(line))
        marks.update(line_marks(line))
    return TokenMarks(frozenset(words), frozenset(marks))


def marks_of_change(change: RecordedChange, content: bytes | None) -> PutMarks:
    """The marks of the words and lines that a change put there; None where its content is lost."""
    if change.after_blob is None or change.came_from_git:
        return PutMarks(change.id, change.path, b"", b"")
    if content is None:
        return PutMarks(change.id, change.path, None, None)
    lines = split_lines(content)
    put = lines if change.hunks is None else lines_in_hunks(lines, change.hunks)
    found = marks_of_lines(put)
    return PutMarks(change.id, change.path, pack_marks(found.words), pack_marks(found.lines))


def pack_marks(marks: Iterable[int]) -> bytes:
    """The marks as they are kept."""
    return array("I", marks).tobytes()


def unpack_marks(packed: Iterable[bytes | None]) -> frozenset[int]:
    """All marks of those that are kept."""
    return frozenset(array("I", b"".join(filter(None, packed))))


def lines_in_hunks(lines: Sequence[bytes], hunks: Iterable[Hunk]) -> Iterable[bytes]:
    """The lines that those hunks put there."""
    return (line for hunk in hunks if hunk.new_lines for line in lines[hunk.new - 1 : hunk.new - 1 + hunk.new_lines])


@lru_cache(MAX_UNREAD_RECORDS * BATCH_CONTENTS)
def word_marks(line: bytes) -> tuple[int, ...]:
    """The marks of a line's words that are not everybody's."""
    return tuple(map(word_mark, find_distinctive_words(line)))


@lru_cache(MAX_UNREAD_RECORDS * BATCH_CONTENTS)
def word_mark(word: str) -> int:
    """The mark of a word."""
    return crc32(word.encode("utf-8", "surrogatepass"))


@lru_cache(MAX_UNREAD_RECORDS * BATCH_CONTENTS)
def line_marks(line: bytes) -> tuple[int, ...]:
    """The mark of the line without its white space, those of each run of its signs, and those of its ends."""
    found = tokens_without_commas(line)
    runs = [crc32(b" ".join(three)) for three in zip(found, found[1:], found[2:], strict=False)]
    return (
        crc32(strip_whitespace(line)),
        *runs,
        *(line_end_mark(found[-count:]) for count in range(1, min(TOKENS_PER_RUN, len(found)) + 1)),
    )


@lru_cache(MAX_UNREAD_RECORDS * BATCH_CONTENTS)
def run_marks(line: bytes) -> tuple[tuple[int, ...], ...]:
    """A line run by run: the mark of each, and those of the ends that its line may have there."""
    found = tokens_without_commas(line)
    starts = range(0, len(found) - TOKENS_PER_RUN + 1, TOKENS_PER_RUN)
    return tuple(
        (
            run_mark(found[at : at + TOKENS_PER_RUN]),
            *(line_end_mark(found[at : at + n]) for n in range(1, TOKENS_PER_RUN + 1)),
        )
        for at in starts
    )


def run_mark(found: Sequence[bytes]) -> int:
    """The mark of signs that follow each other."""
    return crc32(b" ".join(found))


def line_end_mark(found: Sequence[bytes]) -> int:
    """The mark of signs with which a line ends."""
    return crc32(b" ".join(found) + b"\n")

"""Index of the tokens and lines that records put into files, used to rule records out without comparing contents.

Tokens and lines are stored as CRC-32 marks of four bytes. A collision costs one comparison and changes no answer.
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
from remit.ledger.index.index import Index, PutMarks, open_index
from remit.provenance.origins.evidence import strip_whitespace
from remit.provenance.origins.similarity import tokens_without_commas
from remit.workspace.contents.content_store import ContentStore
from remit.workspace.place.workspace import Workspace

MAX_UNREAD_RECORDS = 400
"""Records whose contents are read at once; if more are unread, no record is ruled out this time."""

BATCH_CONTENTS = 50
"""Contents held in memory at a time."""

MAX_MARK_BYTES = 8 * 1024 * 1024
"""Marks of all files that one answer may load: as sets they are sixteen times as large."""

BATCH_PRIORITY_CALLS = 10
"""Records read at a time while calls have priority."""

TOKENS_PER_RUN = 3
"""Consecutive tokens with one mark. A wrapped line consists of such runs of the original line."""


class TokenMarks(Struct, frozen=True):
    """Marks of the tokens and lines that one or several records put into a file."""

    words: frozenset[int]
    lines: frozenset[int]
    answers: dict[bytes, bool | None] = {}
    """Answers of `may_contain`: the same lines are asked about repeatedly."""

    def may_contain(self, line: bytes) -> bool | None:
        """Return whether a line may come from these records, also in another layout; None for a line without a
        distinctive word.
        """
        if line not in self.answers:
            lacking = has_unknown_word(line, self.words)
            self.answers[line] = (
                False if lacking else self.may_contain_worded(line) if has_distinctive_word(line) else None
            )
        return self.answers[line]

    def may_contain_worded(self, line: bytes) -> bool:
        if crc32(strip_whitespace(line)) in self.lines:
            return True
        return self.words.issuperset(word_marks(line)) and self.runs_are_present(line)

    def may_contain_start(self, line: bytes) -> bool:
        """Return whether the start of a line may come from these records."""
        if crc32(strip_whitespace(line)) in self.lines:
            return True
        return not self.words.isdisjoint(word_marks(line)) and self.runs_are_present(line)

    def runs_are_present(self, line: bytes) -> bool:
        """Return whether the line may be part of a recorded line, or begin with the end of one: a formatter never
        wraps within a token.
        """
        for whole, *ends in run_marks(line):
            if not self.lines.isdisjoint(ends):
                return True
            if whole not in self.lines:
                return False
        return True


class ExpectedLines(Struct, frozen=True):
    """Lines that records may have put into a file, and those records."""

    lines: tuple[bytes, ...]
    records: frozenset[str]


class TokenIndex:
    """Marks of the tokens and lines that the records of one index put into files, per path or for all paths. Marks
    of all paths are loaded only up to `most_bytes`.
    """

    def __init__(self, index: Index, store: ContentStore, most_bytes: int = MAX_MARK_BYTES) -> None:
        self.index = index
        self.most_bytes = most_bytes
        self.store = store
        self.marks_by_path: dict[str | None, TokenMarks | None] = {}
        self.record_marks_by_path: dict[str, dict[str, TokenMarks]] = {}
        self.call_marks: TokenMarks | None = None

    def prefetch(self, path: str, is_over: Callable[[], bool]) -> None:
        """Index unread records and load the marks of the file, until `is_over`."""
        if not is_over() and not self.index_all(is_over, BATCH_CONTENTS):
            self.marks_of_path(path)
        if self.marks_by_path.get(None) is not None and not is_over():
            self.marks_of_calls()

    def may_match_records(self, path: str, lines: Iterable[bytes]) -> bool:
        """Return whether a record may have put one of the lines into the file; True for common lines."""
        marks = self.marks_of_path(path)
        return marks is None or any(marks.may_contain(line) is not False for line in lines)

    def match_any_record(self, lines: Sequence[bytes]) -> dict[bytes, bool | None]:
        """Return for each line whether a record may have put the line into any file; None for a common line."""
        marks = self.marks_of_path(None)
        return {line: True if marks is None else marks.may_contain(line) for line in lines}

    def may_match_words(self, path: str, lines: Iterable[bytes]) -> bool:
        """Return whether records may have put every word of one of the lines into the file, at any place."""
        marks = self.marks_of_path(path)
        if marks is None:
            return True
        candidates = (line for line in lines if not has_unknown_word(line, marks.words))
        return any(marks.words.issuperset(words) for words in map(word_marks, candidates) if words)

    def lines_by_calls(self, lines: Sequence[bytes]) -> Sequence[bytes]:
        """Return the lines that a call may have put into a file; changes found by comparing do not count."""
        return lines if self.marks_of_path(None) is None else list(filter(self.marks_of_calls().may_contain, lines))

    def marks_of_calls(self) -> TokenMarks:
        if self.call_marks is None:
            self.call_marks = unite_marks(self.index.list_put_marks(calls=True))
        return self.call_marks

    def expected_lines(self, path: str, lines: Iterable[bytes]) -> ExpectedLines | None:
        """Return the lines that records may have put into the file; None if unknown."""
        marks = self.marks_of_path(path)
        if marks is None:
            return None
        matching = tuple(filter(marks.may_contain, lines))
        records = self.marks_by_record(path) if matching else {}
        return ExpectedLines(
            matching,
            frozenset(
                name
                for name, marks_by_change in records.items()
                if any(map(marks_by_change.may_contain_start, matching))
            ),
        )

    def changes_with_lines(self, changes: Iterable[RecordedChange], texts: Iterable[bytes]) -> list[RecordedChange]:
        """Return the changes that may contain one of the texts, which lack white space."""
        matching = set(map(crc32, texts))
        marks_by_change = {(row.id, row.path): row.lines for row in self.index.list_put_marks()}
        return [
            change
            for change in changes
            if not records_all_lines(change)
            or (marks := marks_by_change.get((change.id, change.path))) is None
            or not matching.isdisjoint(array("I", marks))
        ]

    def marks_by_record(self, path: str) -> dict[str, TokenMarks]:
        if path not in self.record_marks_by_path:
            self.record_marks_by_path[path] = {row.id: unite_marks([row]) for row in self.index.list_put_marks(path)}
        return self.record_marks_by_path[path]

    def marks_of_path(self, path: str | None) -> TokenMarks | None:
        if path not in self.marks_by_path:
            self.marks_by_path[path] = self.load_marks(path) if self.index_path(path) else None
        return self.marks_by_path[path]

    def load_marks(self, path: str | None) -> TokenMarks | None:
        """Load the marks of a path, or of all paths within the size limit.

        For a path with half of all marks, the marks of all paths serve both questions.
        """
        size = self.index.count_put_mark_bytes()
        if path is None and size > self.most_bytes:
            return None
        rows = self.index.list_put_marks(path)
        if any(row.words is None for row in rows):
            return None
        own_bytes = sum(len(row.words or b"") + len(row.lines or b"") for row in rows)
        return (self.marks_of_path(None) if path and 2 * own_bytes >= size else None) or unite_marks(rows)

    def index_path(self, path: str | None) -> bool:
        """Index the unread records of a path; return whether all are read."""
        changes = self.index.list_changes_without_marks(path, MAX_UNREAD_RECORDS)
        for start in range(0, len(changes), BATCH_CONTENTS):
            self.index_changes(changes[start : start + BATCH_CONTENTS])
        return len(changes) < MAX_UNREAD_RECORDS

    def index_all(self, must_stop: Callable[[], bool], batch: int) -> bool:
        """Index unread records in batches until `must_stop`; return whether more remain."""
        previous: tuple[RecordedChange, ...] = ()
        while (changes := self.index.list_changes_without_marks(None, batch)) not in ((), previous):
            if must_stop():
                return True
            self.index_changes(changes)
            previous = changes
        return False

    def index_changes(self, changes: Sequence[RecordedChange]) -> None:
        contents = self.store.load_many({c.after_blob for c in changes if c.after_blob and not c.came_from_git})
        self.index.store_put_marks(marks_of_change(c, contents.get(c.after_blob or "")) for c in changes)


def update_token_index(workspace: Workspace, machine: str, must_stop: Callable[[], bool]) -> bool:
    """Update the index and the token marks until `must_stop`; return whether more remain. Raises OSError, GitError,
    LedgerError, sqlite3.Error.
    """
    with open_index(workspace.state, workspace.log_folder) as index:
        return TokenIndex(index, ContentStore(workspace, machine)).index_all(must_stop, BATCH_PRIORITY_CALLS)


def records_all_lines(change: RecordedChange) -> bool:
    """Return whether the record tells the added lines; for a modified file also the content before."""
    return change.hunks is None or change.before_blob is not None or change.before_lines == 0


def unite_marks(rows: Iterable[PutMarks]) -> TokenMarks:
    all_rows = list(rows)
    return TokenMarks(unpack_marks(row.words for row in all_rows), unpack_marks(row.lines for row in all_rows))


def marks_of_lines(lines: Iterable[bytes]) -> TokenMarks:
    words: set[int] = set()
    marks: set[int] = set()
    for line in set(lines):
        words.update(word_marks(line))
        marks.update(line_marks(line))
    return TokenMarks(frozenset(words), frozenset(marks))


def marks_of_change(change: RecordedChange, content: bytes | None) -> PutMarks:
    """Return the marks of the words and lines that a change added; None if its content is lost."""
    if change.after_blob is None or change.came_from_git:
        return PutMarks(change.id, change.path, b"", b"")
    if content is None:
        return PutMarks(change.id, change.path, None, None)
    lines = split_lines(content)
    added = lines if change.hunks is None else lines_in_hunks(lines, change.hunks)
    marks = marks_of_lines(added)
    return PutMarks(change.id, change.path, pack_marks(marks.words), pack_marks(marks.lines))


def pack_marks(marks: Iterable[int]) -> bytes:
    return array("I", marks).tobytes()


def unpack_marks(packed: Iterable[bytes | None]) -> frozenset[int]:
    return frozenset(array("I", b"".join(filter(None, packed))))


def lines_in_hunks(lines: Sequence[bytes], hunks: Iterable[Hunk]) -> Iterable[bytes]:
    return (line for hunk in hunks if hunk.new_lines for line in lines[hunk.new - 1 : hunk.new - 1 + hunk.new_lines])


@lru_cache(MAX_UNREAD_RECORDS * BATCH_CONTENTS)
def word_marks(line: bytes) -> tuple[int, ...]:
    return tuple(map(word_mark, find_distinctive_words(line)))


@lru_cache(MAX_UNREAD_RECORDS * BATCH_CONTENTS)
def word_mark(word: str) -> int:
    return crc32(word.encode("utf-8", "surrogatepass"))


@lru_cache(MAX_UNREAD_RECORDS * BATCH_CONTENTS)
def line_marks(line: bytes) -> tuple[int, ...]:
    """Return the marks of the stripped line, of its token runs, and of its ends."""
    tokens = tokens_without_commas(line)
    runs = [crc32(b" ".join(three)) for three in zip(tokens, tokens[1:], tokens[2:], strict=False)]
    return (
        crc32(strip_whitespace(line)),
        *runs,
        *(line_end_mark(tokens[-count:]) for count in range(1, min(TOKENS_PER_RUN, len(tokens)) + 1)),
    )


@lru_cache(MAX_UNREAD_RECORDS * BATCH_CONTENTS)
def run_marks(line: bytes) -> tuple[tuple[int, ...], ...]:
    """Return for each run of a line its mark, and the marks of the line ends that may occur in the run."""
    tokens = tokens_without_commas(line)
    starts = range(0, len(tokens) - TOKENS_PER_RUN + 1, TOKENS_PER_RUN)
    return tuple(
        (
            run_mark(tokens[start : start + TOKENS_PER_RUN]),
            *(line_end_mark(tokens[start : start + n]) for n in range(1, TOKENS_PER_RUN + 1)),
        )
        for start in starts
    )


def run_mark(tokens: Sequence[bytes]) -> int:
    return crc32(b" ".join(tokens))


def line_end_mark(tokens: Sequence[bytes]) -> int:
    return crc32(b" ".join(tokens) + b"\n")

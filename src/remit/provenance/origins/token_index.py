"""Index of the tokens and lines that records put into files, used to rule records out without comparing contents.

Tokens and lines are stored as CRC-32 marks of four bytes. A collision costs one comparison and changes no answer.
"""

from array import array
from collections.abc import Callable, Iterable, Sequence
from functools import cached_property, lru_cache
from typing import TypeAlias
from zlib import crc32

from msgspec import Struct

from remit.core.diff.contents import find_distinctive_words, has_distinctive_word, has_unknown_word, split_lines
from remit.ledger.file_changes import RecordedChange
from remit.ledger.index.index import Index, PutMarks, open_index
from remit.provenance.origins.evidence_grades import strip_whitespace
from remit.provenance.origins.line_matches import tokens_without_commas
from remit.workspace.contents.content_store import ContentStore
from remit.workspace.place.workspace import Workspace

MAX_UNREAD_RECORDS = 400
"""Records whose contents are read at once; if more are unread, no record is ruled out this time."""

MAX_NEWEST_CHANGES = 400  # changes of any file that a line may have moved from
BATCH_CONTENTS = 50  # contents held in memory at a time
MAX_MARK_BYTES = 8 * 1024 * 1024  # marks of all files that one answer may load: as sets they are sixteen times as large
BATCH_PRIORITY_CALLS = 10  # records read at a time while calls have priority
ChangedFile: TypeAlias = tuple[str, str]  # a record and the path of a file that it changed
TOKENS_PER_RUN = 3  # consecutive tokens with one mark. A wrapped line consists of such runs of the original line.


class TokenMarks(Struct, frozen=True):
    """Marks of the tokens and lines that one or several records put into a file."""

    words: frozenset[int]
    lines: frozenset[int]
    answers: dict[bytes, bool | None] = {}
    """Answers of `may_contain`: the same lines are asked about repeatedly."""

    def may_contain(self, line: bytes) -> bool | None:
        """Return whether a line may come from these records, in any layout; None if it has no distinctive word."""
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
        if crc32(strip_whitespace(line)) in self.lines:
            return True
        return not self.words.isdisjoint(word_marks(line)) and self.runs_are_present(line)

    def runs_are_present(self, line: bytes) -> bool:
        for whole, *ends in run_marks(line):
            if not self.lines.isdisjoint(ends):
                return True
            if whole not in self.lines:
                return False
        return True


class ExpectedLines(Struct, frozen=True):
    """Lines possibly put into a file by records, and the records."""

    lines: tuple[bytes, ...]
    records: frozenset[str]


class TokenIndex:
    """Marks of the tokens and lines put into files by the records of an index, per path or for the whole index. Marks
    of the whole index are loaded only up to `most_bytes`.
    """

    def __init__(self, index: Index, store: ContentStore, most_bytes: int = MAX_MARK_BYTES) -> None:
        self.index, self.store, self.most_bytes = index, store, most_bytes
        self.marks_by_path: dict[str | None, TokenMarks | None] = {}
        self.record_marks_by_path: dict[str, dict[str, TokenMarks]] = {}
        self.call_marks: TokenMarks | None = None

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
        if self.marks_of_path(None) is None:
            return lines
        if self.call_marks is None:
            self.call_marks = unite_marks(self.index.list_put_marks(calls=True))
        return list(filter(self.call_marks.may_contain, lines))

    def expected_lines(self, path: str, lines: Iterable[bytes]) -> ExpectedLines | None:
        """Return the lines that records may have put into the file; None if unknown."""
        marks = self.marks_of_path(path)
        if marks is None:
            return None
        matching = tuple(filter(marks.may_contain, lines))
        if matching and path not in self.record_marks_by_path:
            rows = self.index.list_put_marks(path)
            self.record_marks_by_path[path] = {row.id: unite_marks([row]) for row in rows}
        records = self.record_marks_by_path[path] if matching else {}
        return ExpectedLines(
            matching, frozenset(name for name, own in records.items() if any(map(own.may_contain_start, matching)))
        )

    @cached_property
    def newest_calls(self) -> list[RecordedChange]:
        """The newest changes by calls that left a content, newest first."""
        newest = self.index.list_newest_changes(MAX_NEWEST_CHANGES)
        return [change for change in newest if change.after_blob and not change.is_found_by_comparison]

    @cached_property
    def newest_marks(self) -> tuple[frozenset[ChangedFile], dict[int, list[ChangedFile]]]:
        marked: set[ChangedFile] = set()
        changes_by_mark: dict[int, list[ChangedFile]] = {}
        for row in self.index.list_put_marks_of({change.id for change in self.newest_calls}):
            if row.lines is not None:
                marked.add((row.id, row.path))
                for mark in array("I", row.lines):
                    changes_by_mark.setdefault(mark, []).append((row.id, row.path))
        return frozenset(marked), changes_by_mark

    def newest_calls_with_lines(self, texts: Iterable[bytes]) -> list[RecordedChange]:
        """Return the newest changes by calls possibly containing one of the texts, given without white space."""
        marked, changes_by_mark = self.newest_marks
        matching = {place for mark in set(map(crc32, texts)) for place in changes_by_mark.get(mark, ())}

        def may_contain(change: RecordedChange) -> bool:
            # A record tells the added lines; for a modified file only with the content before.
            tells_all = change.hunks is None or change.before_blob is not None or change.before_lines == 0
            place = (change.id, change.path)
            return not tells_all or place not in marked or place in matching

        return list(filter(may_contain, self.newest_calls))

    def marks_of_path(self, path: str | None) -> TokenMarks | None:
        if path not in self.marks_by_path:
            changes = self.index.list_changes_without_marks(path, MAX_UNREAD_RECORDS)
            for start in range(0, len(changes), BATCH_CONTENTS):
                self.index_changes(changes[start : start + BATCH_CONTENTS])
            self.marks_by_path[path] = self.load_marks(path) if len(changes) < MAX_UNREAD_RECORDS else None
        return self.marks_by_path[path]

    def load_marks(self, path: str | None) -> TokenMarks | None:
        size = self.index.count_put_mark_bytes()
        if path is None and size > self.most_bytes:
            return None
        rows = self.index.list_put_marks(path)
        if any(row.words is None for row in rows):
            return None
        own_bytes = sum(len(row.words or b"") + len(row.lines or b"") for row in rows)
        return (self.marks_of_path(None) if path and 2 * own_bytes >= size else None) or unite_marks(rows)

    def index_all(self, must_stop: Callable[[], bool], batch: int) -> bool:
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
    """Update index and marks until `must_stop`; return whether more remain. Raises as `open_index`, and GitError."""
    with open_index(workspace.state, workspace.log_folder) as index:
        return TokenIndex(index, ContentStore(workspace, machine)).index_all(must_stop, BATCH_PRIORITY_CALLS)


def unite_marks(rows: Iterable[PutMarks]) -> TokenMarks:
    pairs = [(row.words or b"", row.lines or b"") for row in rows]
    words, lines = (b"".join(packed) for packed in zip(*pairs, strict=True)) if pairs else (b"", b"")
    return TokenMarks(frozenset(array("I", words)), frozenset(array("I", lines)))


def marks_of_lines(lines: Iterable[bytes]) -> TokenMarks:
    unique = set(lines)
    words = (mark for line in unique for mark in word_marks(line))
    return TokenMarks(frozenset(words), frozenset(mark for line in unique for mark in line_marks(line)))


def marks_of_change(change: RecordedChange, content: bytes | None) -> PutMarks:
    """Return the marks of the words and lines that a change added; None if its content is lost."""
    if change.after_blob is None or change.came_from_git:
        return PutMarks(change.id, change.path, b"", b"")
    if content is None:
        return PutMarks(change.id, change.path, None, None)
    lines = split_lines(content)
    if change.hunks is not None:
        lines = [line for hunk in change.hunks for line in lines[hunk.new_range.start - 1 : hunk.new_range.stop - 1]]
    marks = marks_of_lines(lines)
    words, whole = (array("I", numbers).tobytes() for numbers in (marks.words, marks.lines))
    return PutMarks(change.id, change.path, words, whole)


@lru_cache(MAX_UNREAD_RECORDS * BATCH_CONTENTS)
def word_marks(line: bytes) -> tuple[int, ...]:
    return tuple(crc32(word.encode("utf-8", "surrogatepass")) for word in find_distinctive_words(line))


@lru_cache(MAX_UNREAD_RECORDS * BATCH_CONTENTS)
def line_marks(line: bytes) -> tuple[int, ...]:
    tokens = tokens_without_commas(line)
    runs = [run_mark(three) for three in zip(tokens, tokens[1:], tokens[2:], strict=False)]
    ends = [line_end_mark(tokens[-count:]) for count in range(1, min(TOKENS_PER_RUN, len(tokens)) + 1)]
    return (crc32(strip_whitespace(line)), *runs, *ends)


@lru_cache(MAX_UNREAD_RECORDS * BATCH_CONTENTS)
def run_marks(line: bytes) -> tuple[tuple[int, ...], ...]:
    tokens = tokens_without_commas(line)
    starts = range(0, len(tokens) - TOKENS_PER_RUN + 1, TOKENS_PER_RUN)
    return tuple(
        (
            run_mark(tokens[start : start + TOKENS_PER_RUN]),
            *(line_end_mark(tokens[start : start + n]) for n in range(1, TOKENS_PER_RUN + 1)),
        )
        for start in starts
    )


def run_mark(tokens: Iterable[bytes]) -> int:
    return crc32(b" ".join(tokens))


def line_end_mark(tokens: Sequence[bytes]) -> int:
    return crc32(b" ".join(tokens) + b"\n")

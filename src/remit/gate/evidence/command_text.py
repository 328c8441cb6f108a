"""The words of a call, read as the lines that it may put into files.

What the diffs in a command's text add, file by file: `git apply <<'E'`, `patch -p1 <<'E'`, `apply_patch <<'E'`.

Where a file's new lines are among those, each as often as it is added there, nobody else put in any, however plain.
"""

import re
from collections import Counter
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from itertools import pairwise

from remit.core.diff.contents import Hunk
from remit.core.diff.distinctive_lines import is_distinctive_line
from remit.core.diff.edit_script import count_common_prefix
from remit.core.diff.line_spans import make_spans

MAX_TEXT_BYTES = 1 << 18
"""Bytes of a call's own words that are looked through: twice what a system hands to a shell as one word."""

MAX_LINES = 50_000
"""Lines of them that are kept, in each of the ways to read them."""

MAX_OCCURRENCES = 20
"""Places of one line in them: a `}` stands everywhere."""

MAX_FOLLOWED = 50
"""Lines that stand in several places one after the other; then one place of them is followed on."""

MAX_SEARCHES = 400
"""Lines that are looked for as parts of others; and so many new parts of lines."""

MIN_PART_CHARS = 3
"""Characters of the new part of a line."""

STRING_LITERALS = re.compile(
    rb"""\"\"\"(.*?)(?:\"\"\"|\Z)|'''(.*?)(?:'''|\Z)|"((?:\\.|[^"\\\n])*)"?|'((?:\\.|[^'\\\n])*)'?""", re.DOTALL
)
"""A program's strings; one that is not closed goes to the end, so that nothing is looked through twice."""

QUOTE_RUN = re.compile(rb"[\"'`]+")
ESCAPES = {rb"\n": b"\n", rb"\t": b"\t", rb"\"": b'"', rb"\'": b"'", rb"\\": b"\\"}
ESCAPE = re.compile(rb"\\[nt\"'\\]")
NO_LINE = b"\n"
"""No line: what stands before the first and after the last."""

WORD_CHARACTER = re.compile(rb"[\w.+-]")
WORD_CONTINUES = re.compile(rb"[\w.+-]|/\w[\w.]{2}|[ \t]+[^\s>|;&)]")

NEVER_MATCHES = re.compile(rb"(?!)")
PART_OF_WORD = re.compile(rb"\w")
PART_OF_NUMBER = re.compile(rb"[\w.-]")


class CommandText:
    """The words of a call, as lines: as they stand there, with the escapes of a program's strings undone, between
    quotes, as strings of a program, and as a patch adds them.
    """

    def __init__(self, text: bytes) -> None:
        plain = ESCAPE.sub(lambda found: ESCAPES[found[0]], text)
        self.text = plain
        self.lines: list[bytes] = []
        self.counts: Counter[bytes] = Counter()
        """How often each line stands there, read in the way that has it most often."""
        added = [line[1:] if line.startswith(b"+") else NO_LINE for line in text.split(b"\n", MAX_LINES)]
        forms = dict.fromkeys((text, plain, plain.replace(b"\\\n", b"\n")))
        for lines in (*(one.split(b"\n", MAX_LINES) for one in forms), quoted_lines(plain), literal_lines(text), added):
            form = [line if line == NO_LINE else line.strip() for line in lines[:MAX_LINES]]
            self.counts |= Counter(form)
            self.lines += [NO_LINE, *form, NO_LINE]
        self.positions: dict[bytes, list[int]] = {}
        for number, line in enumerate(self.lines):
            places = self.positions.setdefault(line, [])
            if len(places) < MAX_OCCURRENCES:
                places.append(number)
        self.quoted_cache: dict[bytes, bool] = {}
        self.replaced_cache: dict[bytes, bool] = {}
        self.containing_lines: dict[bytes, list[bytes]] = {}
        """By new part, the lines that the file and the text both have, and that it is a part of."""
        self.standalone_cache: dict[tuple[bytes, ...], bool] = {}

    def has_line(self, line: bytes) -> bool:
        """Whether that line stands there."""
        return line.strip() in self.positions

    def find_surplus_lines(self, fresh: Iterable[bytes], whole: Iterable[bytes]) -> set[bytes]:
        """The fresh lines that stand there, but not as often as they came, or as the `whole` file has them, where the
        text is to hold that: then some of them are somebody else's.
        """
        came, there = Counter(line.strip() for line in fresh), Counter(line.strip() for line in whole)
        return {text for text, count in came.items() if text and 0 < self.counts[text] < max(count, there[text])}

    def find_runs_in_text(
        self, new: Sequence[bytes], fresh: Iterable[int], old: Container[bytes], *, named: bool = False
    ) -> Iterator[int]:
        """Those of the fresh lines of `new`, from 1, that stand there one after the other as they do here, where one of
        those that follow each other is nobody else's to write, and none of `old`; in a file that is `named` as written,
        where several are together.
        """
        texts = [line.strip() for line in new]
        held = self.number_runs(texts)
        for first, last in make_spans(n for n in fresh if held[n - 1]):
            runs = pairwise([first, *(n for n in range(first + 1, last + 1) if held[n - 1] != held[n - 2]), last + 1])
            for start, end in runs:
                own = {text for text in texts[start - 1 : end - 1] if text not in old}
                if any(map(is_distinctive_line, own)) or (named and is_distinctive_line(b" ".join(own))):
                    yield from range(start, end)

    def number_runs(self, texts: Sequence[bytes]) -> list[int]:
        """For each line the number of the run that it stands in there; 0 for none."""
        found = [0] * len(texts)
        at = number = 0
        while at < len(texts):
            start, end = self.find_run(texts, at) if texts[at] else (at, at)
            if start == end and self.has_quoted_part(texts[at]):
                end = at + 1
            number += 1
            found[start:end] = [number] * (end - start)
            at = max(at + 1, end)
        return found

    def find_run(self, texts: Sequence[bytes], at: int) -> tuple[int, int]:
        """From where to where `texts` stand there one after the other around `at`; empty lines before it included."""
        places, start, end = self.positions.get(texts[at], []), at, at
        firsts = places
        while places:
            firsts, end = [p - (end - at) for p in places], end + 1
            following = places if end - at < MAX_FOLLOWED else places[:1]
            places = [p + 1 for p in following if end < len(texts) and self.lines[p + 1] == texts[end]]
        while start and not texts[start - 1] and any(not self.lines[p - (at - start) - 1] for p in firsts):
            start -= 1
        return start, end

    def has_quoted_part(self, line: bytes) -> bool:
        """Whether a strong line stands there as a part of another: all of what a program is given, or prints."""
        return is_distinctive_line(line) and self.has_part(line, self.quoted_cache) and self.stands_alone(line)

    def stands_alone(self, line: bytes) -> bool:
        """Whether that part stands by itself somewhere: where words go on behind it, it is of another line."""
        at = -1
        for _ in range(MAX_OCCURRENCES):
            at = self.text.find(line, at + 1)
            if at < 0:
                return False
            if not WORD_CHARACTER.match(self.text[at - 1 : at]) and not WORD_CONTINUES.match(self.text, at + len(line)):
                return True
        return False

    def has_part(self, part: bytes, known: dict[bytes, bool]) -> bool:
        """Whether that stands there at all; not, where too much else was looked for, which is `known`."""
        if part not in known:
            if len(known) >= MAX_SEARCHES:
                return False
            known[part] = part in self.text
        return known[part]

    def find_replaced_lines(self, old: Sequence[bytes], new: Sequence[bytes], hunks: Iterable[Hunk]) -> Iterator[int]:
        """The lines of those hunks, from 1, that took another's place, and of which the new part stands there: not only
        within a line that the file has as the text has it, since who says a whole line replaces no word of others.
        """
        there: set[bytes] | None = None
        for hunk in hunks:
            for n in hunk.new_range if hunk.old_lines == hunk.new_lines else ():
                now = new[n - 1]
                found = new_parts(old[hunk.old + n - hunk.new - 1], now)
                parts = [
                    part for part in found if len(part) >= MIN_PART_CHARS and self.has_part(part, self.replaced_cache)
                ]
                if parts and there is None:
                    there = {line.strip() for line in (*old, *new) if self.has_line(line)}
                if there is not None and any(self.is_outside_lines(part, now, there) for part in parts):
                    yield n

    def is_outside_lines(self, part: bytes, now: bytes, there: Iterable[bytes]) -> bool:
        """Whether a part stands there outside all lines of the file but the one that is asked about."""
        if part not in self.containing_lines:
            self.containing_lines[part] = [line for line in there if part in line]
        others = [line for line in self.containing_lines[part] if line not in now]
        if len(others) > MAX_FOLLOWED:
            return False
        if (part, *others) not in self.standalone_cache:
            text = self.text
            for line in others:
                text = text.replace(line, NO_LINE)
            self.standalone_cache[part, *others] = part in text
        return self.standalone_cache[part, *others]


def quoted_lines(text: bytes) -> list[bytes]:
    """The lines between quotes. Where a quote stands at a line's end, nobody wrote an empty line there."""
    found: list[bytes] = []
    for part in QUOTE_RUN.split(text, MAX_LINES):
        first, *rest = part.split(b"\n", MAX_LINES)
        found += [first if first.strip() else NO_LINE, *rest]
        found[-1] = found[-1] if found[-1].strip() else NO_LINE
    return found


def literal_lines(text: bytes) -> list[bytes]:
    """The lines of the strings in a program, with their escapes undone. Other quotes may stand in them."""
    found: list[bytes] = []
    for string in STRING_LITERALS.finditer(text):
        words = ESCAPE.sub(lambda one: ESCAPES[one[0]], b"".join(filter(None, string.groups())))
        if words.strip() and len(found) < MAX_LINES:
            found += [NO_LINE, *words.split(b"\n", MAX_LINES), NO_LINE]
    return found


def new_parts(was: bytes, now: bytes) -> tuple[bytes, ...]:
    """What a line has that the one before it had not: just that, to the ends of its words, and of its numbers."""
    start = count_common_prefix(was, now)
    end = len(now) - min(count_common_prefix(was[::-1], now[::-1]), min(len(was), len(now)) - start)
    return tuple(extend_part(now, start, end, part) for part in (NEVER_MATCHES, PART_OF_WORD, PART_OF_NUMBER))


def extend_part(line: bytes, start: int, end: int, part: re.Pattern[bytes]) -> bytes:
    """That part of a line, as far as it goes on in both directions."""
    while start and part.match(line[start - 1 : start]):
        start -= 1
    while end < len(line) and part.match(line[end : end + 1]):
        end += 1
    return line[start:end].strip()


PATCH_COMMAND = re.compile(r"(?<![\w-])(?:apply|patch|apply_patch)(?!\w)")
FILE_HEADER = re.compile(r"(?:\+\+\+ (?:[bw]/)?|\*\*\* (?:Update|Add) File: )([^\t\n]+)")

AddedLines = Mapping[str, Counter[bytes]]
"""By path as the diff names it, how often it adds each line; lines without the white space around them."""


def parse_added_lines(command: str) -> AddedLines:
    """What a command's text says that it adds; nothing where it applies none."""
    found: dict[str, Counter[bytes]] = {}
    if not PATCH_COMMAND.search(command):
        return found
    for path, line in read_added_lines(command.split("\n")):
        found.setdefault(path, Counter())[line.encode("utf-8", "surrogateescape").strip()] += 1
    return found


def read_added_lines(lines: Iterable[str]) -> Iterator[tuple[str, str]]:
    """The added lines, each with the file that it goes to."""
    path = ""
    for line in lines:
        if named := FILE_HEADER.match(line):
            path = named[1].strip()
        elif path and line.startswith("+"):
            yield path, line[1:]


def remove_added_lines(command: str) -> str:
    """The text less what its diffs add: they say which file that goes to."""
    inside, left = False, list[str]()
    for line in command.split("\n"):
        inside = inside or FILE_HEADER.match(line) is not None
        if not (inside and line.startswith("+")):
            left.append(line)
    return "\n".join(left)


def contains_all(new: Iterable[bytes], told: Counter[bytes]) -> bool:
    """Whether the diff adds all these lines."""
    return Counter(line.strip() for line in new) <= told

"""The words of a call, read as the lines that it may put into files."""

import re
from collections import Counter
from collections.abc import Container, Iterable, Iterator, Sequence
from itertools import pairwise

from remit.core.contents import Hunk
from remit.core.own_words import is_strong
from remit.core.shortest import common
from remit.core.spans import spans_of

MOST_TEXT = 1 << 18
"""Bytes of a call's own words that are looked through: twice what a system hands to a shell as one word."""

MOST_LINES = 50_000
"""Lines of them that are kept, in each of the ways to read them."""

MOST_PLACES = 20
"""Places of one line in them: a `}` stands everywhere."""

FEW = 50
"""Lines that stand in several places one after the other; then one place of them is followed on."""

MOST_QUOTED = 400
"""Lines that are looked for as parts of others; and so many new parts of lines."""

SHORTEST = 3
"""Characters of the new part of a line."""

LITERALS = re.compile(
    rb"""\"\"\"(.*?)(?:\"\"\"|\Z)|'''(.*?)(?:'''|\Z)|"((?:\\.|[^"\\\n])*)"?|'((?:\\.|[^'\\\n])*)'?""", re.DOTALL
)
"""A program's strings; one that is not closed goes to the end, so that nothing is looked through twice."""

QUOTES = re.compile(rb"[\"'`]+")
ESCAPES = {rb"\n": b"\n", rb"\t": b"\t", rb"\"": b'"', rb"\'": b"'", rb"\\": b"\\"}
ESCAPE = re.compile(rb"\\[nt\"'\\]")
BEYOND = b"\n"
"""No line: what stands before the first and after the last."""

WITHIN = re.compile(rb"[\w.+-]")
GOES_ON = re.compile(rb"[\w.+-]|/\w[\w.]{2}|[ \t]+[^\s>|;&)]")

NOTHING = re.compile(rb"(?!)")
PART_OF_WORD = re.compile(rb"\w")
PART_OF_NUMBER = re.compile(rb"[\w.-]")


class Said:
    """The words of a call, as lines: as they stand there, with the escapes of a program's strings undone, between
    quotes, as strings of a program, and as a patch adds them.
    """

    def __init__(self, text: bytes) -> None:
        plain = ESCAPE.sub(lambda found: ESCAPES[found[0]], text)
        self.text = plain
        self.lines: list[bytes] = []
        self.times: Counter[bytes] = Counter()
        """How often each line stands there, read in the way that has it most often."""
        added = [line[1:] if line.startswith(b"+") else BEYOND for line in text.split(b"\n", MOST_LINES)]
        forms = dict.fromkeys((text, plain, plain.replace(b"\\\n", b"\n")))
        for lines in (*(one.split(b"\n", MOST_LINES) for one in forms), quoted(plain), literal(text), added):
            form = [line if line == BEYOND else line.strip() for line in lines[:MOST_LINES]]
            self.times |= Counter(form)
            self.lines += [BEYOND, *form, BEYOND]
        self.places: dict[bytes, list[int]] = {}
        for number, line in enumerate(self.lines):
            places = self.places.setdefault(line, [])
            if len(places) < MOST_PLACES:
                places.append(number)
        self.quoted: dict[bytes, bool] = {}
        self.replacing: dict[bytes, bool] = {}
        self.around: dict[bytes, list[bytes]] = {}
        """By new part, the lines that the file and the text both have, and that it is a part of."""
        self.apart: dict[tuple[bytes, ...], bool] = {}

    def has(self, line: bytes) -> bool:
        """Whether that line stands there."""
        return line.strip() in self.places

    def surplus(self, fresh: Iterable[bytes], whole: Iterable[bytes]) -> set[bytes]:
        """The fresh lines that stand there, but not as often as they came, or as the `whole` file has them, where the
        text is to hold that: then some of them are somebody else's.
        """
        came, there = Counter(line.strip() for line in fresh), Counter(line.strip() for line in whole)
        return {text for text, count in came.items() if text and 0 < self.times[text] < max(count, there[text])}

    def holds(
        self, new: Sequence[bytes], fresh: Iterable[int], old: Container[bytes], *, named: bool = False
    ) -> Iterator[int]:
        """Those of the fresh lines of `new`, from 1, that stand there one after the other as they do here, where one of
        those that follow each other is nobody else's to write, and none of `old`; in a file that is `named` as written,
        where several are together.
        """
        texts = [line.strip() for line in new]
        held = self.held(texts)
        for first, last in spans_of(n for n in fresh if held[n - 1]):
            runs = pairwise([first, *(n for n in range(first + 1, last + 1) if held[n - 1] != held[n - 2]), last + 1])
            for start, end in runs:
                own = {text for text in texts[start - 1 : end - 1] if text not in old}
                if any(map(is_strong, own)) or (named and is_strong(b" ".join(own))):
                    yield from range(start, end)

    def held(self, texts: Sequence[bytes]) -> list[int]:
        """For each line the number of the run that it stands in there; 0 for none."""
        found = [0] * len(texts)
        at = number = 0
        while at < len(texts):
            start, end = self.run(texts, at) if texts[at] else (at, at)
            if start == end and self.quotes(texts[at]):
                end = at + 1
            number += 1
            found[start:end] = [number] * (end - start)
            at = max(at + 1, end)
        return found

    def run(self, texts: Sequence[bytes], at: int) -> tuple[int, int]:
        """From where to where `texts` stand there one after the other around `at`; empty lines before it included."""
        places, start, end = self.places.get(texts[at], []), at, at
        firsts = places
        while places:
            firsts, end = [p - (end - at) for p in places], end + 1
            following = places if end - at < FEW else places[:1]
            places = [p + 1 for p in following if end < len(texts) and self.lines[p + 1] == texts[end]]
        while start and not texts[start - 1] and any(not self.lines[p - (at - start) - 1] for p in firsts):
            start -= 1
        return start, end

    def quotes(self, line: bytes) -> bool:
        """Whether a strong line stands there as a part of another: all of what a program is given, or prints."""
        return is_strong(line) and self.tells(line, self.quoted) and self.is_given(line)

    def is_given(self, line: bytes) -> bool:
        """Whether that part stands by itself somewhere: where words go on behind it, it is of another line."""
        at = -1
        for _ in range(MOST_PLACES):
            at = self.text.find(line, at + 1)
            if at < 0:
                return False
            if not WITHIN.match(self.text[at - 1 : at]) and not GOES_ON.match(self.text, at + len(line)):
                return True
        return False

    def tells(self, part: bytes, known: dict[bytes, bool]) -> bool:
        """Whether that stands there at all; not, where too much else was looked for, which is `known`."""
        if part not in known:
            if len(known) >= MOST_QUOTED:
                return False
            known[part] = part in self.text
        return known[part]

    def replaces(self, old: Sequence[bytes], new: Sequence[bytes], hunks: Iterable[Hunk]) -> Iterator[int]:
        """The lines of those hunks, from 1, that took another's place, and of which the new part stands there: not only
        within a line that the file has as the text has it, since who says a whole line replaces no word of others.
        """
        there: set[bytes] | None = None
        for hunk in hunks:
            for n in hunk.came if hunk.old_lines == hunk.new_lines else ():
                now = new[n - 1]
                found = new_parts(old[hunk.old + n - hunk.new - 1], now)
                parts = [part for part in found if len(part) >= SHORTEST and self.tells(part, self.replacing)]
                if parts and there is None:
                    there = {line.strip() for line in (*old, *new) if self.has(line)}
                if there is not None and any(self.is_apart(part, now, there) for part in parts):
                    yield n

    def is_apart(self, part: bytes, now: bytes, there: Iterable[bytes]) -> bool:
        """Whether a part stands there outside all lines of the file but the one that is asked about."""
        if part not in self.around:
            self.around[part] = [line for line in there if part in line]
        others = [line for line in self.around[part] if line not in now]
        if len(others) > FEW:
            return False
        if (part, *others) not in self.apart:
            text = self.text
            for line in others:
                text = text.replace(line, BEYOND)
            self.apart[part, *others] = part in text
        return self.apart[part, *others]


def quoted(text: bytes) -> list[bytes]:
    """The lines between quotes. Where a quote stands at a line's end, nobody wrote an empty line there."""
    found: list[bytes] = []
    for part in QUOTES.split(text, MOST_LINES):
        first, *rest = part.split(b"\n", MOST_LINES)
        found += [first if first.strip() else BEYOND, *rest]
        found[-1] = found[-1] if found[-1].strip() else BEYOND
    return found


def literal(text: bytes) -> list[bytes]:
    """The lines of the strings in a program, with their escapes undone. Other quotes may stand in them."""
    found: list[bytes] = []
    for string in LITERALS.finditer(text):
        words = ESCAPE.sub(lambda one: ESCAPES[one[0]], b"".join(filter(None, string.groups())))
        if words.strip() and len(found) < MOST_LINES:
            found += [BEYOND, *words.split(b"\n", MOST_LINES), BEYOND]
    return found


def new_parts(was: bytes, now: bytes) -> tuple[bytes, ...]:
    """What a line has that the one before it had not: just that, to the ends of its words, and of its numbers."""
    start = common(was, now)
    end = len(now) - min(common(was[::-1], now[::-1]), min(len(was), len(now)) - start)
    return tuple(grown(now, start, end, part) for part in (NOTHING, PART_OF_WORD, PART_OF_NUMBER))


def grown(line: bytes, start: int, end: int, part: re.Pattern[bytes]) -> bytes:
    """That part of a line, as far as it goes on in both directions."""
    while start and part.match(line[start - 1 : start]):
        start -= 1
    while end < len(line) and part.match(line[end : end + 1]):
        end += 1
    return line[start:end].strip()

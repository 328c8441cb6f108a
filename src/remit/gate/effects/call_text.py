"""The text of a call, read as lines that the call may put into files, and the diffs in a command's text.

Diffs are those of `git apply <<'E'`, `patch -p1 <<'E'` and `apply_patch <<'E'`. Where all new lines of a file are added
by its diff, each as often as the diff adds it, they are the call's own, however common they are.
"""

import re
from collections import Counter
from collections.abc import Container, Iterable, Iterator, Sequence
from itertools import pairwise

from remit.core.diff.contents import Hunk, count_common_prefix, is_distinctive_line, make_spans

MAX_TEXT_BYTES = 1 << 18
"""Bytes of a call's text that are searched: twice what a system hands to a shell as one word."""

MAX_LINES = 50_000
"""Lines of the text that are kept, for each way to read the text."""

MAX_OCCURRENCES = 20
"""Positions of one line that are kept: a `}` occurs everywhere."""

MAX_FOLLOWED = 50
"""Length up to which a run is followed at all its positions; a longer run is followed at one."""

MAX_SEARCHES = 400
"""Lines that are searched as parts of others, and new parts of lines that are searched."""

MIN_PART_CHARS = 3
"""Characters that the new part of a line must have to be searched."""

STRING_LITERALS = re.compile(
    rb"""\"\"\"(.*?)(?:\"\"\"|\Z)|'''(.*?)(?:'''|\Z)|"((?:\\.|[^"\\\n])*)"?|'((?:\\.|[^'\\\n])*)'?""", re.DOTALL
)
"""String literals of a program. An unclosed string goes to the end, so that no text is searched twice."""

QUOTE_RUN = re.compile(rb"[\"'`]+")
ESCAPES = {rb"\n": b"\n", rb"\t": b"\t", rb"\"": b'"', rb"\'": b"'", rb"\\": b"\\"}
ESCAPE = re.compile(rb"\\[nt\"'\\]")
NO_LINE = b"\n"
"""Marker before the first and after the last line; no line equals it."""

WORD_CHARACTER = re.compile(rb"[\w.+-]")
WORD_CONTINUES = re.compile(rb"[\w.+-]|/\w[\w.]{2}|[ \t]+[^\s>|;&)]")

NEVER_MATCHES = re.compile(rb"(?!)")
PART_OF_WORD = re.compile(rb"\w")
PART_OF_NUMBER = re.compile(rb"[\w.-]")


class CommandText:
    """The text of a call, read as lines in several ways.

    The ways are: as written, with the escapes of a program's strings undone, between quotes, as string literals of a
    program, and as the added lines of a patch.
    """

    def __init__(self, text: bytes) -> None:
        plain = ESCAPE.sub(lambda found: ESCAPES[found[0]], text)
        self.text = plain
        self.lines: list[bytes] = []
        self.counts: Counter[bytes] = Counter()
        """Count of each line, in the way of reading that has the most."""
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
        """Lines in both the file and the text that contain a new part, by part."""
        self.standalone_cache: dict[tuple[bytes, ...], bool] = {}

    def has_line(self, line: bytes) -> bool:
        return line.strip() in self.positions

    def find_surplus_lines(self, fresh: Iterable[bytes], whole: Iterable[bytes]) -> set[bytes]:
        """Return the added lines with more copies in the file than in the text.

        Some copies have a second author. `whole` is the file's content, if the text should hold the whole file.
        """
        came, there = Counter(line.strip() for line in fresh), Counter(line.strip() for line in whole)
        return {text for text, count in came.items() if text and 0 < self.counts[text] < max(count, there[text])}

    def find_runs_in_text(
        self, new: Sequence[bytes], fresh: Iterable[int], old: Container[bytes], *, named: bool = False
    ) -> Iterator[int]:
        """Yield the 1-based numbers of added lines that occur in the text as one consecutive run.

        A run counts if at least one of its lines is distinctive and not in `old`; in a file that is `named` as
        written, if its lines are distinctive together. `fresh` are the numbers of the added lines of `new`.
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
        """Return the number of the run that each line belongs to; 0 for none."""
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
        """Return start and end of the run around the line `at` that the text holds too, with empty lines before it."""
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
        if not is_distinctive_line(line) or not self.has_part(line, self.quoted_cache):
            return False
        at = -1
        for _ in range(MAX_OCCURRENCES):
            at = self.text.find(line, at + 1)
            if at < 0:
                return False
            if not WORD_CHARACTER.match(self.text[at - 1 : at]) and not WORD_CONTINUES.match(self.text, at + len(line)):
                return True
        return False

    def has_part(self, part: bytes, known: dict[bytes, bool]) -> bool:
        if part not in known:
            if len(known) >= MAX_SEARCHES:
                return False
            known[part] = part in self.text
        return known[part]

    def find_replaced_lines(self, old: Sequence[bytes], new: Sequence[bytes], hunks: Iterable[Hunk]) -> Iterator[int]:
        """Yield the 1-based numbers of replaced lines whose new part the text contains.

        The part must also occur outside of lines that file and text share: a text with a whole line replaces no word
        of other lines.
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
    found: list[bytes] = []
    for part in QUOTE_RUN.split(text, MAX_LINES):
        first, *rest = part.split(b"\n", MAX_LINES)
        found += [first if first.strip() else NO_LINE, *rest]
        found[-1] = found[-1] if found[-1].strip() else NO_LINE
    return found


def literal_lines(text: bytes) -> list[bytes]:
    found: list[bytes] = []
    for string in STRING_LITERALS.finditer(text):
        words = ESCAPE.sub(lambda one: ESCAPES[one[0]], b"".join(filter(None, string.groups())))
        if words.strip() and len(found) < MAX_LINES:
            found += [NO_LINE, *words.split(b"\n", MAX_LINES), NO_LINE]
    return found


def new_parts(was: bytes, now: bytes) -> Iterator[bytes]:
    first = count_common_prefix(was, now)
    last = len(now) - min(count_common_prefix(was[::-1], now[::-1]), min(len(was), len(now)) - first)
    for character in (NEVER_MATCHES, PART_OF_WORD, PART_OF_NUMBER):
        start, end = first, last
        while start and character.match(now[start - 1 : start]):
            start -= 1
        while end < len(now) and character.match(now[end : end + 1]):
            end += 1
        yield now[start:end].strip()


PATCH_COMMAND = re.compile(r"(?<![\w-])(?:apply|patch|apply_patch)(?!\w)")
FILE_HEADER = re.compile(r"(?:\+\+\+ (?:[bw]/)?|\*\*\* (?:Update|Add) File: )([^\t\n]+)")


def split_diffs(command: str) -> tuple[dict[str, Counter[bytes]], str]:
    """Return the lines that diffs in a command's text add, and the text without them; none if it applies no diff.

    The lines are counted by path as the diff names it, and stripped of white space.
    """
    added: dict[str, Counter[bytes]] = {}
    if not PATCH_COMMAND.search(command):
        return added, command
    path, rest = "", list[str]()
    for line in command.split("\n"):
        header = FILE_HEADER.match(line)
        path = header[1].strip() if header else path
        if not path or not line.startswith("+"):
            rest.append(line)
        elif not header:
            added.setdefault(path, Counter())[line[1:].encode("utf-8", "surrogateescape").strip()] += 1
    return added, "\n".join(rest)

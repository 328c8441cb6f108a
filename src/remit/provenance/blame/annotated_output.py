"""git blame's own output with what Remit knows put between: take our part out, and git's bytes are left."""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import lru_cache
from itertools import groupby

from remit.core.display_text import sanitise_line
from remit.provenance.blame.blamed_line import BlamedLine
from remit.provenance.origins.blame_porcelain import LINE_HEADER
from remit.provenance.origins.evidence import LIKELY

PREFIX = b"remit-"
GLYPHS = {"ai": "✦", "human": "●", "mixed": "◐", "unknown": "·"}
LETTERS = {"ai": "A", "human": "H", "mixed": "M", "unknown": "?"}
"""For terminals that have no other signs."""

COLOURS = (31, 32, 33, 34, 35, 36, 91, 92, 93, 94, 95, 96)
NON_ASCII = re.compile(rb"[\x80-\xff]")
BLANK_BYTE = re.compile(rb"[ \t]")
COLOUR_START = re.compile(rb"\x1b\[[0-9;]*m")
"""What git paints a line with: it stands before the commit."""
COLOUR_RESET = b"\x1b[m"
ESCAPE_BYTE = b"\x1b"
COMMIT_NAME_BYTES = 40
"""Where a line for people shows no number of its own yet."""

FACTS = ("origin", "agent", "model", "intent", "session", "class", "grade")
CACHED_VALUES = 4096
"""Answers that are kept at hand: neighbouring lines have the same."""

FactPairs = tuple[tuple[str, str], ...]


ColumnValues = tuple[str, str | None, str | None, str | None, str | None]


def column_values(line: BlamedLine) -> ColumnValues:
    """All that the columns tell of a line: for many lines the same."""
    return line.origin, line.agent, line.model, line.intent_id, line.grade


def facts_of_line(line: BlamedLine) -> FactPairs:
    """What is known of a line, as (name, value); what is not known is left out."""
    known = (line.origin, line.agent, line.model, line.intent_id, line.session_id, line.mutation_class, line.grade)
    return name_facts(known)


@lru_cache(CACHED_VALUES)
def name_facts(known: tuple[str | None, ...]) -> FactPairs:
    """The names to those values, in the order of `FACTS`."""
    return tuple((name, sanitise_line(value, 200)) for name, value in zip(FACTS, known, strict=True) if value)


@lru_cache(CACHED_VALUES)
def render_headers(known: FactPairs) -> list[bytes]:
    """The header lines of one line. Names come from agents: none of them can begin a line of its own."""
    return [PREFIX + f"{name} {value}".encode("utf-8", "replace") for name, value in known]


def annotate_porcelain(output: bytes, lines: Sequence[BlamedLine], *, quoted: bool) -> Iterator[bytes]:
    """`--porcelain` and `--line-porcelain` with our headers before each content."""
    rest = iter(lines)
    for raw in output.split(b"\n")[:-1]:
        if raw.startswith(b"\t"):
            yield from render_headers(facts_of_line(next(rest)))
        yield raw if raw.startswith(b"\t") or not quoted else quote_path_as_git(raw)


def select_lines(output: bytes, wanted: set[int]) -> Iterator[bytes]:
    """Of a `--line-porcelain`, the wanted lines: each stands for itself, as a group of one."""
    entry: list[bytes] = []
    number = 0
    for raw in output.split(b"\n")[:-1]:
        if not entry and (header := LINE_HEADER.match(raw)):
            number = int(header[3])
            entry = [b"%s %s %s 1" % (header[1], header[2], header[3])]
        else:
            entry.append(raw)
        if raw.startswith(b"\t"):
            yield from entry if number in wanted else ()
            entry = []


def annotate_incremental(output: bytes, lines: Sequence[BlamedLine], *, quoted: bool) -> Iterator[bytes]:
    """`--incremental`: before each entry's `filename` `remit-lines FIRST COUNT` for lines that share the headers."""
    by_number = {line.line: line for line in lines}
    first = count = 0
    for raw in output.split(b"\n")[:-1]:
        if header := LINE_HEADER.match(raw):
            first, count = int(header[3]), int(header[4])
        elif raw.startswith(b"filename "):
            yield from render_spans([by_number[n] for n in range(first, first + count) if n in by_number])
        yield quote_path_as_git(raw) if quoted else raw


def render_spans(lines: Sequence[BlamedLine]) -> Iterator[bytes]:
    """The headers of neighbouring lines, once for those that have the same."""
    for _, run in groupby(lines, key=facts_of_line):
        same = list(run)
        yield PREFIX + b"lines %d %d" % (same[0].line, len(same))
        yield from render_headers(facts_of_line(same[0]))


def quote_path_as_git(raw: bytes) -> bytes:
    """A header whose file name git would quote, for signs outside ASCII, unless told not to. Source: git-config(1)."""
    if not NON_ASCII.search(raw) or not raw.startswith((b"filename ", b"previous ")):
        return raw
    parts = 1 if raw.startswith(b"filename ") else 2
    *before, name = raw.split(b" ", parts)
    plain = name[1:-1] if name.startswith(b'"') else name
    escaped = NON_ASCII.sub(lambda found: b"\\%03o" % found[0][0], plain)
    return b" ".join([*before, b'"' + escaped + b'"'])


def annotate_text(
    raw_lines: Sequence[bytes],
    lines: Sequence[BlamedLine],
    *,
    letters: bool = False,
    coloured: bool = False,
    compact: bool = False,
) -> list[bytes]:
    """Git's lines for people with our columns after the commit. `plain` has letters for glyphs."""
    at = commit_column_width(raw_lines)
    glyphs = LETTERS if letters else GLYPHS
    told = list(map(column_values, lines))
    alike = dict(zip(told, lines, strict=True))
    rows = {said: render_columns(line, glyphs, compact=compact) for said, line in alike.items()}
    widths = [max(map(len, column)) for column in zip(*rows.values(), strict=True)]
    ours: dict[ColumnValues, bytes] = {}
    for said, row in rows.items():
        cells = " ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True) if width)
        known = (colour_columns(cells, alike[said]) if coloured else cells).encode("utf-8", "replace")
        ours[said] = b" " + known if at else known + b" "
    pairs = [(raw, ours[said]) for raw, said in zip(raw_lines, told, strict=True)]
    if any(raw[:1] == ESCAPE_BYTE for raw in raw_lines):
        return [insert_after_colour(raw, at, known, coloured=coloured) for raw, known in pairs]
    return [raw[:at] + known + raw[at:] for raw, known in pairs]


def insert_after_colour(raw: bytes, at: int, known: bytes, *, coloured: bool) -> bytes:
    """A line that git may have painted, with ours at `at`, the paint not counted; it goes on where our colour ends."""
    paint = leading_colour(raw)
    end = at + len(paint)
    return raw[:end] + known + (paint if coloured else b"") + raw[end:]


def escape_for_terminal(raw: bytes) -> bytes:
    """A line without signs that move a terminal's cursor, or hide others. What git painted stays so."""
    paint = leading_colour(raw)
    if not paint:
        return escape_unprintable(raw)
    said, end, content = raw[len(paint) :].partition(COLOUR_RESET)
    return paint + escape_unprintable(said) + end + escape_unprintable(content)


def escape_unprintable(raw: bytes) -> bytes:
    """The text, with each sign that a terminal would not show written out."""
    line = raw.decode("utf-8", "replace")
    if line.isprintable():
        return raw
    return "".join(c if c == "\t" or c.isprintable() else f"\\x{ord(c):02x}" for c in line).encode()


def leading_colour(raw: bytes) -> bytes:
    """What git paints that line with."""
    found = COLOUR_START.match(raw)
    return found[0] if found else b""


def commit_column_width(raw_lines: Sequence[bytes]) -> int:
    """How wide the column of commits is; 0 where all of them are blank."""
    heads = {raw[:COMMIT_NAME_BYTES] for raw in raw_lines}  # for many lines the same
    if not all(map(BLANK_BYTE.search, heads)):
        heads = set(raw_lines)
    heads = {head[len(leading_colour(head)) :] for head in heads}
    return max((len(BLANK_BYTE.split(head, 1)[0]) for head in heads if head[:1] not in (b" ", b"")), default=0)


def render_columns(line: BlamedLine, glyphs: Mapping[str, str], *, compact: bool) -> list[str]:
    """Our columns: a sign and who, the model, the intent, how strong the evidence is."""
    who = f"{glyphs[line.origin]} {sanitise_line(line.agent or ('person' if line.origin == 'human' else ''), 40)}".rstrip()  # noqa: E501
    if compact and line.grade == LIKELY:
        who += f" ({LIKELY})"
    more = [] if compact else [sanitise_line(line.model or "", 40)]
    grade = [] if compact else [line.grade or "-"]
    return [who, *more, sanitise_line(line.intent_id or "-", 40), *grade]


def colour_columns(cells: str, line: BlamedLine) -> str:
    """The columns in the colour of the intent: the same one each time, and never the only sign."""
    if line.origin == "unknown":
        return f"\x1b[2m{cells}\x1b[0m"
    colour = COLOURS[sum((line.intent_id or "").encode()) % len(COLOURS)]
    return f"\x1b[{colour}m{cells}\x1b[0m"


def count_origins(lines: Sequence[BlamedLine]) -> str:
    """How many lines are whose, in words."""
    by: Callable[[str], int] = lambda origin: sum(line.origin == origin for line in lines)  # noqa: E731
    return f"{len(lines)} lines: " + ", ".join(f"{by(origin)} {origin}" for origin in GLYPHS)

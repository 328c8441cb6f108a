"""git blame's own output with Remit's columns or headers inserted. Removing them restores git's bytes."""

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from itertools import groupby

from remit.core.untrusted_input import sanitise_line
from remit.provenance.blame.blamed_line import BlamedLine
from remit.provenance.origins.blame_porcelain import LINE_HEADER
from remit.provenance.origins.evidence_grades import LIKELY

PREFIX = b"remit-"
GLYPHS = {"ai": "✦", "human": "●", "mixed": "◐", "unknown": "·"}
LETTERS = {"ai": "A", "human": "H", "mixed": "M", "unknown": "?"}  # marks for terminals without other characters
COLOURS = (31, 32, 33, 34, 35, 36, 91, 92, 93, 94, 95, 96)
NON_ASCII = re.compile(rb"[\x80-\xff]")
BLANK_BYTE = re.compile(rb"[ \t]")
COLOUR_START = re.compile(rb"\x1b\[[0-9;]*m")  # colour sequence that git writes before the commit
COLOUR_RESET = b"\x1b[m"
COMMIT_NAME_BYTES = 40  # bytes at the start of a line that hold no line number yet
FACTS = ("origin", "agent", "model", "intent", "session", "class", "grade")
CACHED_VALUES = 4096  # cached results: neighbouring lines share their values
FactPairs = tuple[tuple[str, str], ...]


def facts_of_line(line: BlamedLine) -> FactPairs:
    values = (line.origin, line.agent, line.model, line.intent_id, line.session_id, line.mutation_class, line.grade)
    return name_facts(values)


@lru_cache(CACHED_VALUES)
def name_facts(values: tuple[str | None, ...]) -> FactPairs:
    return tuple((name, sanitise_line(value, 200)) for name, value in zip(FACTS, values, strict=True) if value)


@lru_cache(CACHED_VALUES)
def render_headers(facts: FactPairs) -> list[bytes]:
    return [PREFIX + f"{name} {value}".encode("utf-8", "replace") for name, value in facts]


def annotate_porcelain(output: bytes, lines: Sequence[BlamedLine], *, quoted: bool) -> Iterator[bytes]:
    """Yield `--porcelain` and `--line-porcelain` with Remit's headers before each content."""
    rest = iter(lines)
    for raw in output.split(b"\n")[:-1]:
        if raw.startswith(b"\t"):
            yield from render_headers(facts_of_line(next(rest)))
        yield raw if raw.startswith(b"\t") or not quoted else quote_path_as_git(raw)


def select_lines(output: bytes, wanted: set[int]) -> Iterator[bytes]:
    """Yield the wanted lines of a `--line-porcelain`, each as a group of one."""
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
    """Yield `--incremental` with `remit-lines FIRST COUNT` and headers before each entry's `filename`."""
    by_number = {line.line: line for line in lines}
    first = count = 0
    for raw in output.split(b"\n")[:-1]:
        if header := LINE_HEADER.match(raw):
            first, count = int(header[3]), int(header[4])
        elif raw.startswith(b"filename "):
            yield from render_spans([by_number[n] for n in range(first, first + count) if n in by_number])
        yield quote_path_as_git(raw) if quoted else raw


def render_spans(lines: Sequence[BlamedLine]) -> Iterator[bytes]:
    for _, run in groupby(lines, key=facts_of_line):
        same = list(run)
        yield PREFIX + b"lines %d %d" % (same[0].line, len(same))
        yield from render_headers(facts_of_line(same[0]))


def quote_path_as_git(raw: bytes) -> bytes:
    """Quote a non-ASCII file name in a header as git does by default. Source: git-config(1)."""
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
    """Insert Remit's columns behind the commit of git's default output. `letters` replace the glyphs."""
    at = commit_column_width(raw_lines)
    glyphs = LETTERS if letters else GLYPHS
    # Most lines share their values: each combination is rendered once.
    values = [(line.origin, line.agent, line.model, line.intent_id, line.grade) for line in lines]
    examples = dict(zip(values, lines, strict=True))
    rows = {value: render_columns(line, glyphs, compact=compact) for value, line in examples.items()}
    widths = [max(map(len, column)) for column in zip(*rows.values(), strict=True)]
    rendered: dict[tuple[str | None, ...], bytes] = {}
    for value, row in rows.items():
        cells = " ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True) if width)
        columns = (colour_columns(cells, examples[value]) if coloured else cells).encode("utf-8", "replace")
        rendered[value] = b" " + columns if at else columns + b" "
    annotated: list[bytes] = []
    for raw, value in zip(raw_lines, values, strict=True):
        # git's colour sequence takes no column, and its colour continues behind ours.
        colour = leading_colour(raw)
        end = at + len(colour)
        annotated.append(raw[:end] + rendered[value] + (colour if coloured else b"") + raw[end:])
    return annotated


def escape_for_terminal(raw: bytes) -> bytes:
    """Escape characters that move a terminal's cursor or hide text. git's colours stay."""
    colour = leading_colour(raw)
    if not colour:
        return escape_unprintable(raw)
    coloured_part, end, content = raw[len(colour) :].partition(COLOUR_RESET)
    return colour + escape_unprintable(coloured_part) + end + escape_unprintable(content)


def escape_unprintable(raw: bytes) -> bytes:
    line = raw.decode("utf-8", "replace")
    if line.isprintable():
        return raw
    return "".join(c if c == "\t" or c.isprintable() else f"\\x{ord(c):02x}" for c in line).encode()


def leading_colour(raw: bytes) -> bytes:
    found = COLOUR_START.match(raw)
    return found[0] if found else b""


def commit_column_width(raw_lines: Sequence[bytes]) -> int:
    """Return the width of the commit column; 0 if every commit is blank."""
    heads = {raw[:COMMIT_NAME_BYTES] for raw in raw_lines}  # for many lines the same
    if not all(map(BLANK_BYTE.search, heads)):
        heads = set(raw_lines)
    heads = {head[len(leading_colour(head)) :] for head in heads}
    return max((len(BLANK_BYTE.split(head, 1)[0]) for head in heads if head[:1] not in (b" ", b"")), default=0)


def render_columns(line: BlamedLine, glyphs: Mapping[str, str], *, compact: bool) -> list[str]:
    name = line.agent or ("person" if line.origin == "human" else "")
    author = f"{glyphs[line.origin]} {sanitise_line(name, 40)}".rstrip()
    if compact and line.grade == LIKELY:
        author += f" ({LIKELY})"
    model = [] if compact else [sanitise_line(line.model or "", 40)]
    grade = [] if compact else [line.grade or "-"]
    return [author, *model, sanitise_line(line.intent_id or "-", 40), *grade]


def colour_columns(cells: str, line: BlamedLine) -> str:
    """Colour the columns by intent; the colour is never the only sign."""
    if line.origin == "unknown":
        return f"\x1b[2m{cells}\x1b[0m"
    colour = COLOURS[sum((line.intent_id or "").encode()) % len(COLOURS)]
    return f"\x1b[{colour}m{cells}\x1b[0m"


def count_origins(lines: Sequence[BlamedLine]) -> str:
    counts = Counter(line.origin for line in lines)
    return f"{len(lines)} lines: " + ", ".join(f"{counts[origin]} {origin}" for origin in GLYPHS)

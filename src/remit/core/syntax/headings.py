"""The sections of a Markdown file. Its grammar opens none for a heading that is underlined."""

import re
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from msgspec import Struct

from remit.core.contents import LineRange
from remit.core.syntax.items import Source
from remit.core.syntax.twigs import digest

if TYPE_CHECKING:
    from tree_sitter import Node

MARKERS = {
    "setext_h1_underline": 1,
    "setext_h2_underline": 2,
    **{f"atx_h{level}_marker": level for level in range(1, 7)},
}
CLOSING = re.compile(r"(?:^| )#+$")
HELD = frozenset({"document", "section"})
"""What holds the headings that divide a file; one in a quotation or a list divides nothing."""


class Section(Struct, frozen=True):
    """What a heading stands over. `name` is that of all headings around it, with the last its own."""

    lines: LineRange
    name: str
    hash: str


class _Heading(Struct):
    line: int
    below: int
    level: int
    text: str


def sections(source: Source) -> list[Section]:
    """All sections of the file, in order: each ends where a heading of its level, or of a higher one, comes."""
    found = [heading_of(node, source) for node in headings(source.root)]
    texts = source.content.split(b"\n")
    last = len(texts) - (not texts[-1])
    made: list[Section] = []
    around: list[_Heading] = []
    for n, one in enumerate(found):
        around = [*(other for other in around if other.level < one.level), one]
        end = next((other.line - 1 for other in found[n + 1 :] if other.level <= one.level), last)
        name = source.row.separator.join(other.text for other in around if other.text)
        body = b"\n".join(texts[one.below - 1 : end]).strip()
        hashed = digest(f"{one.level}\n{body.decode('utf-8', 'surrogateescape')}")
        made.append(Section(LineRange(one.line, max(end, one.line)), name, hashed))
    return made


def headings(root: "Node") -> "list[Node]":
    """The headings that divide the file, in order."""
    waiting, found = [root], list["Node"]()
    while waiting:
        node = waiting.pop()
        if node.type in ("atx_heading", "setext_heading"):
            found.append(node)
        elif node.type in HELD:
            waiting += reversed(node.children)
    return found


def heading_of(node: "Node", source: Source) -> _Heading:
    """A heading, with its level and the line below it."""
    level = next((MARKERS[c.type] for c in node.children if c.type in MARKERS), 1)
    content = node.child_by_field_name("heading_content")
    text = CLOSING.sub("", " ".join(source.text(content).split())) if content is not None else ""
    end = node.end_point.row + (node.end_point.column > 0)
    return _Heading(node.start_point.row + 1, end + 1, level, text)


def innermost(known: Sequence[Section], wanted: LineRange) -> Section | None:
    """The last section that holds all of these lines."""
    held = (s for s in reversed(known) if s.lines.start <= wanted.start and wanted.end <= s.lines.end)
    return next(held, None)


def parts(known: Sequence[Section], wanted: LineRange) -> Iterator[tuple[LineRange, Section | None]]:
    """The lines, cut where an outermost section begins, with the innermost section that holds each part."""
    at = wanted.start
    for section in known:
        low, high = max(section.lines.start, at), min(section.lines.end, wanted.end)
        if low > high:
            continue
        if at < low:
            yield LineRange(at, low - 1), None
        yield LineRange(low, high), innermost(known, LineRange(low, high))
        at = high + 1
    if at <= wanted.end:
        yield LineRange(at, wanted.end), None

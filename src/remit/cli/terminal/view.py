"""The printer of views: lines, tables and paragraphs of styled text, fitted to a screen.

A view is a list of parts. All text of a part comes from `line`, `words` or `mark`, which keep hostile text on its line
and take control characters out. Colour is never alone: a mark is a glyph with a word beside it.
"""

from collections.abc import Iterable, Iterator, Sequence
from io import StringIO
from itertools import zip_longest
from typing import Literal, NamedTuple, TypeAlias

from msgspec import Struct
from rich.console import Console
from rich.text import Text

from remit.cli.terminal.screen import Screen
from remit.core.display_text import sanitise_line

Meaning: TypeAlias = Literal[
    "allowed",
    "contained",
    "asked",
    "denied",
    "failed",
    "undone",
    "changed",
    "agent",
    "person",
    "both",
    "git",
    "unknown",
    "intent",
    "session",
    "warning",
    "quiet",
]


class MarkStyle(NamedTuple):
    """The looks of a meaning: a glyph, the letter for screens without glyphs, and a style of rich's."""

    glyph: str
    letter: str
    style: str


MARKS: dict[Meaning, MarkStyle] = {
    "allowed": MarkStyle("✓", "+", "green"),
    "contained": MarkStyle("▣", "c", "cyan"),
    "asked": MarkStyle("?", "?", "yellow"),
    "denied": MarkStyle("✗", "x", "red"),
    "failed": MarkStyle("✗", "x", "red"),
    "undone": MarkStyle("↶", "<", "magenta"),
    "changed": MarkStyle("±", "~", ""),
    "agent": MarkStyle("✦", "A", "magenta"),
    "person": MarkStyle("●", "H", "blue"),
    "both": MarkStyle("◐", "M", "yellow"),
    "git": MarkStyle("◇", "g", "cyan"),
    "unknown": MarkStyle("·", ".", "dim"),
    "intent": MarkStyle("◆", "i", "bold"),
    "session": MarkStyle("▸", ">", "bold"),
    "warning": MarkStyle("!", "!", "yellow"),
    "quiet": MarkStyle("·", ".", "dim"),
}
ASCII_FALLBACKS = str.maketrans(
    {**{mark.glyph: mark.letter for mark in MARKS.values()}, "…": "~", "⏎": "|", "→": ">", "–": "-"}
)
MAX_LINE_CHARS = 4096
"""More of one text is never shown on one line: records hold commands of this length."""
GAP = "  "
LINE_BREAK = "⏎"


def one_line(text: str) -> str:
    """Return hostile text on one line, each line break as ⏎, and what a terminal would obey as an escape."""
    lines = [part.strip() if number else part.rstrip() for number, part in enumerate(text.splitlines())]
    return sanitise_line(f" {LINE_BREAK} ".join(filter(None, lines)).replace("\t", " "), MAX_LINE_CHARS)


def styled_text(text: object, style: str = "") -> Text:
    """Return text of any origin as one styled line."""
    return Text(one_line(str(text)), style=style, end="")


def mark(meaning: Meaning, text: str = "", *, is_strong: bool = False) -> Text:
    """Return the glyph of a meaning, and a word beside it in its colour."""
    found = MARKS[meaning]
    style = f"bold {found.style}".strip() if is_strong else found.style
    return styled_text(f"{found.glyph} {text}" if text else found.glyph, style)


def join_texts(*parts: Text | str | None, between: str = " ") -> Text:
    """Join texts to one line; empty ones and None are left out."""
    texts = [part if isinstance(part, Text) else styled_text(part) for part in parts if part is not None]
    return Text(between, end="").join([text for text in texts if text.plain])


class TextTable(Struct, frozen=True):
    """Rows of cells in columns. Where they are wider than the screen, the column `cut` gives way: it ends in `…`, or,
    where `is_folded`, goes on below itself.
    """

    rows: Sequence[Sequence[Text | str]]
    heads: Sequence[str] = ()
    cut: int = -1
    is_folded: bool = False
    indent: int = 0
    min_sizes: Sequence[int] = ()
    """Columns have at least these widths: tables that follow each other then align."""

    def lay_out_lines(self, width: int | None) -> Iterator[Text]:
        """Lay the rows out, one or more lines each."""
        rows = [[cell if isinstance(cell, Text) else styled_text(cell) for cell in row] for row in self.rows]
        if self.heads and rows:
            rows.insert(0, [styled_text(head, "dim") for head in self.heads])
        if not rows:
            return
        sizes = [max(row[n].cell_len for row in rows) for n in range(len(rows[0]))]
        sizes = [max(pair) for pair in zip_longest(sizes, self.min_sizes[: len(sizes)], fillvalue=0)]
        if width is not None:
            others = sum(sizes) - sizes[self.cut] + len(GAP) * (len(sizes) - 1) + self.indent
            sizes[self.cut] = max(min(sizes[self.cut], width - others), MIN_CELLS)
        for row in rows:
            yield from lay_out_row(row, sizes, self, is_fitted=width is not None)


MIN_CELLS = 8
"""A column that gives way keeps so much."""


def lay_out_row(row: list[Text], sizes: Sequence[int], table: TextTable, *, is_fitted: bool) -> Iterator[Text]:
    """Lay one row out in columns of those sizes."""
    cut = table.cut % len(sizes)
    more: list[Text] = []
    if is_fitted and row[cut].cell_len > sizes[cut]:
        if table.is_folded:
            row[cut], *more = row[cut].wrap(MEASURING_CONSOLE, sizes[cut])
        else:
            row[cut] = row[cut].copy()
            row[cut].truncate(sizes[cut], overflow="ellipsis")
    yield pad_cells(row, sizes, table.indent)
    start = table.indent + sum(size + len(GAP) for size in sizes[:cut])
    for rest in more:
        rest.rstrip()
        yield Text(" " * start, end="") + rest


def pad_cells(row: Sequence[Text], sizes: Sequence[int], indent: int) -> Text:
    """Return the cells side by side; nothing follows the last one that has text."""
    found = Text(" " * indent, end="")
    for cell, size in zip(row, sizes, strict=True):
        found.append_text(cell)
        found.append(" " * (size - cell.cell_len) + GAP)
    found.rstrip()
    return found


def facts(rows: Iterable[tuple[str, Text | str]], indent: int = 0) -> TextTable:
    """Return names and values in two columns; long values go on below themselves."""
    named = [
        (styled_text(name, "dim"), value if isinstance(value, Text) else styled_text(value)) for name, value in rows
    ]
    return TextTable([row for row in named if row[1].plain], is_folded=True, indent=indent)


def heading(text: str, about: str = "") -> Text:
    """Return a title, and a remark beside it."""
    return join_texts(styled_text(text, "bold"), styled_text(about, "dim"), between=GAP)


def paragraph(text: str, indent: int = 0, style: str = "") -> Iterator[Text]:
    """Return text of several lines, each kept as a line and indented."""
    for part in text.splitlines():
        yield Text(" " * indent, end="") + styled_text(part, style)


ViewPart: TypeAlias = Text | TextTable | str
MEASURING_CONSOLE = Console(file=StringIO(), width=80)


def lay_out(view: Iterable[ViewPart], screen: Screen) -> Iterator[Text]:
    """Fit the parts to the screen: tables give way in one column, lines go on below, indented as they began."""
    for part in view:
        if isinstance(part, TextTable):
            yield from part.lay_out_lines(screen.width)
            continue
        text = styled_text(part) if isinstance(part, str) else part
        if screen.width is None or text.cell_len <= screen.width:
            yield text
            continue
        indent = min(len(text.plain) - len(text.plain.lstrip()), screen.width // 2)
        for number, rest in enumerate(text[indent:].wrap(MEASURING_CONSOLE, screen.width - indent - 2)):
            rest.rstrip()
            yield Text(" " * (indent + 2 * bool(number)), end="") + rest


def render(view: Iterable[ViewPart], screen: Screen) -> str:
    """Return a view as the text that the screen is to get."""
    lines = list(lay_out(view, screen))
    if screen.is_coloured:
        console = Console(file=StringIO(), color_system="standard", force_terminal=True, no_color=False)
        with console.capture() as found:
            for text in lines:
                console.print(text, soft_wrap=True, highlight=False, markup=False, emoji=False, end="\n")
        out = found.get().removesuffix("\n")
    else:
        out = "\n".join(text.plain for text in lines)
    return out if screen.has_glyphs else out.translate(ASCII_FALLBACKS).encode("ascii", "backslashreplace").decode()

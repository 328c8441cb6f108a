"""The printer of views: lines, tables and paragraphs of styled text, fitted to a screen.

A view is a list of parts. Text of a part comes from `join_texts`, `styled_text` or `mark`, which keep hostile text on
its line and remove control characters. Colour never stands alone: a mark is a glyph with a word.
"""

from collections.abc import Iterable, Iterator, Sequence
from io import StringIO
from itertools import zip_longest
from typing import NamedTuple, TypeAlias

from msgspec import Struct
from rich.console import Console
from rich.text import Text

from remit.cli.screen import Screen
from remit.core.formats.record_summary import Meaning
from remit.core.untrusted_input import sanitise_line


class MarkStyle(NamedTuple):
    """The look of a meaning: a glyph, a letter for ASCII screens, and a rich style."""

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
MAX_LINE_CHARS = 4096  # the longest text on one line; records hold commands of this length
MIN_CELLS = 8  # the least width of a truncated column
GAP = "  "
MEASURING_CONSOLE = Console(file=StringIO(), width=80)


def one_line(text: str) -> str:
    lines = [part.strip() if number else part.rstrip() for number, part in enumerate(text.splitlines())]
    return sanitise_line(" ⏎ ".join(filter(None, lines)).replace("\t", " "), MAX_LINE_CHARS)


def styled_text(text: object, style: str = "") -> Text:
    return Text(one_line(str(text)), style=style, end="")


def mark(meaning: Meaning, text: str = "", *, is_strong: bool = False) -> Text:
    glyph, _, style = MARKS[meaning]
    return styled_text(f"{glyph} {text}" if text else glyph, f"bold {style}".strip() if is_strong else style)


def join_texts(*parts: Text | str | None, between: str = " ") -> Text:
    texts = [part if isinstance(part, Text) else styled_text(part) for part in parts if part is not None]
    return Text(between, end="").join([text for text in texts if text.plain])


class TextTable(Struct, frozen=True):
    """Rows of cells in columns. If too wide for the screen, column `cut` is truncated, or wrapped if `is_folded`.
    `min_sizes` are least widths of the columns, so that consecutive tables align.
    """

    rows: Sequence[Sequence[Text | str]]
    heads: Sequence[str] = ()
    cut: int = -1
    is_folded: bool = False
    indent: int = 0
    min_sizes: Sequence[int] = ()

    def lay_out_lines(self, width: int | None) -> Iterator[Text]:
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
        cut = self.cut % len(sizes)
        start = self.indent + sum(size + len(GAP) for size in sizes[:cut])
        for row in rows:
            below: list[Text] = []
            if width is not None and row[cut].cell_len > sizes[cut]:
                if self.is_folded:
                    row[cut], *below = row[cut].wrap(MEASURING_CONSOLE, sizes[cut])
                else:
                    row[cut] = row[cut].copy()
                    row[cut].truncate(sizes[cut], overflow="ellipsis")
            first = Text(" " * self.indent, end="")
            for cell, size in zip(row, sizes, strict=True):
                first.append_text(cell)
                first.append(" " * (size - cell.cell_len) + GAP)
            for line in (first, *(Text(" " * start, end="") + rest for rest in below)):
                line.rstrip()
                yield line


def facts(rows: Iterable[tuple[str, Text | str]], indent: int = 0) -> TextTable:
    """Return names and values in two columns; long values wrap in their column."""
    named = [(styled_text(name, "dim"), v if isinstance(v, Text) else styled_text(v)) for name, v in rows]
    return TextTable([row for row in named if row[1].plain], is_folded=True, indent=indent)


def heading(text: str, about: str = "") -> Text:
    return join_texts(styled_text(text, "bold"), styled_text(about, "dim"), between=GAP)


ViewPart: TypeAlias = Text | TextTable | str


def lay_out(view: Iterable[ViewPart], screen: Screen) -> Iterator[Text]:
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
    lines = list(lay_out(view, screen))
    if screen.is_coloured:
        console = Console(file=StringIO(), color_system="standard", force_terminal=True, no_color=False)
        with console.capture() as capture:
            for line in lines:
                console.print(line, soft_wrap=True, highlight=False, markup=False, emoji=False, end="\n")
        text = capture.get().removesuffix("\n")
    else:
        text = "\n".join(line.plain for line in lines)
    return text if screen.has_glyphs else text.translate(ASCII_FALLBACKS).encode("ascii", "backslashreplace").decode()

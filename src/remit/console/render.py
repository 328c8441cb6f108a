"""Pages as HTML: templates with escaping, untrusted text with its control characters shown, times in words. In a diff,
removed and added lines are paired by similarity, and the words that differ are marked.
"""

import re
import time
import unicodedata
from collections.abc import Callable, Iterator, Sequence
from datetime import datetime
from difflib import SequenceMatcher
from functools import lru_cache
from hashlib import sha256
from importlib.util import find_spec
from itertools import groupby, zip_longest
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import jinja2
from markupsafe import Markup, escape
from msgspec import Struct
from msgspec.structs import replace

from remit.console.highlight import Span, render_line
from remit.extensions import find_extensions
from remit.policy.commands.marks import CommandMark
from remit.provenance.verify.changed_hunks import ChangedHunk

FOLDER = Path(__file__).parent
UNUSUAL = re.compile(r"[^\t\n -~]")
EMPTY_LETTERS = "\u034f\u115f\u1160\u3164\uffa0"  # letters by their category, yet nothing is seen of them
MACROS = ("icon", "agent_tile", "empty", "verdict", "timeline", "diff", "ring")
SESSION_MACROS = ("session_rows", "story_step", "story_talk")
HUNK = re.compile(r"@@ -(\d+)(?:,\d+)? \+(\d+)(?:,\d+)? @@")
WORD = re.compile(r"\w+|\s+|[^\w\s]")
MAX_LINES = 400  # of a block; pairing is quadratic
MAX_LINE_CHARS = 600
MIN_PAIR_RATIO = 0.5


def is_hidden(character: str) -> bool:
    if character in EMPTY_LETTERS:
        return True
    return not character.isprintable() and unicodedata.category(character) != "Zs"


def name_character(match: re.Match[str]) -> str:
    if not is_hidden(match[0]):
        return match[0]
    return f"\N{MATHEMATICAL LEFT ANGLE BRACKET}U+{ord(match[0]):04X}\N{MATHEMATICAL RIGHT ANGLE BRACKET}"


def show_controls(value: object) -> object:
    if isinstance(value, Markup) or not isinstance(value, str) or (value.isascii() and value.isprintable()):
        return value
    return UNUSUAL.sub(name_character, value)


def show_line(text: object) -> str:
    return " ⏎ ".join(str(text).split("\n"))


def show_code(text: str) -> Markup:
    shown = Markup()
    at = 0
    for match in UNUSUAL.finditer(text):
        if not is_hidden(match[0]):
            continue
        name = unicodedata.name(match[0], "control character")
        mark = Markup('<span class="code-char" title="{}">U+{:04X}</span>').format(name, ord(match[0]))
        shown += escape(text[at : match.start()]) + mark
        at = match.end()
    return shown + escape(text[at:])


def mark_parts(text: str, marks: Sequence[CommandMark]) -> Markup:
    shown = Markup()
    at = 0
    for mark in marks:
        element = Markup("<mark>{}</mark>") if mark.kind == "danger" else Markup('<span class="operator">{}</span>')
        shown += show_code(text[at : mark.start]) + element.format(show_code(text[mark.start : mark.end]))
        at = mark.end
    return shown + show_code(text[at:])


def highlight_line(text: str, spans: Sequence[Span]) -> Markup:
    return render_line(text.encode("utf-8", "replace"), spans, show_code)


def shorten(text: object, limit: int = 200) -> str:
    value = str(text)
    return value if len(value) <= limit else f"{value[:limit]}…"


def choose_form(number: int, one: str, many: str = "") -> str:
    return one if number == 1 else many or f"{one}s"


def format_count(number: int, noun: str) -> str:
    """Return the number with its noun: `1 file`, `3 files`."""
    return f"{number} {choose_form(number, noun)}"


def format_age(at: str | float | None) -> str:
    """Return how long ago a time was: `now`, `22 s`, `3 min`, `2 h`, `5 d`."""
    if at is None or at == "":
        return ""
    seconds = max(0.0, time.time() - parse_seconds(at))
    for size, unit in ((86400, "d"), (3600, "h"), (60, "min")):
        if seconds >= size:
            return f"{int(seconds // size)} {unit}"
    return f"{int(seconds)} s" if seconds >= 1 else "now"


def format_clock(at: str | float | None) -> str:
    if at is None or at == "":
        return ""
    return time.strftime("%H:%M:%S", time.localtime(parse_seconds(at)))


def format_duration(ms: int) -> str:
    return f"{ms} ms" if ms < 1000 else f"{ms / 1000:.1f} s" if ms < 60_000 else f"{ms / 60_000:.1f} min"


def format_day(at: str | float | None) -> str:
    if at is None or at == "":
        return ""
    return time.strftime("%d %b %Y, %H:%M", time.localtime(parse_seconds(at)))


def format_left(until: float) -> str:
    """Return the minutes and seconds up to a time; `0:00` if it is over."""
    seconds = max(0, int(until - time.time()))
    return f"{seconds // 60}:{seconds % 60:02}"


def parse_seconds(at: str | float) -> float:
    try:
        return at if isinstance(at, int | float) else datetime.fromisoformat(at).timestamp()
    except ValueError:
        return 0.0


class DiffLine(Struct, frozen=True):
    """A line of a diff: `kind` is `add`, `cut`, `hunk` or `same`; numbers are those of both sides."""

    kind: str
    text: str | Markup
    old: int | None = None
    new: int | None = None


def parse_diff(diff: str) -> Iterator[DiffLine]:
    """Yield the lines of a unified diff with their numbers."""
    old = new = 0
    for line in diff.splitlines():
        found = HUNK.match(line)
        if found:
            old, new = int(found[1]), int(found[2])
            yield DiffLine("hunk", line)
        elif line.startswith("+"):
            yield DiffLine("add", line[1:], None, new)
            new += 1
        elif line.startswith("-"):
            yield DiffLine("cut", line[1:], old, None)
            old += 1
        elif line.startswith(("@@", "…")):
            yield DiffLine("hunk", line)
        else:
            yield DiffLine("same", line[1:], old, new)
            old, new = old + 1, new + 1


def mark_diff(diff: str) -> list[DiffLine]:
    return list(mark_blocks(list(parse_diff(diff))))


def mark_blocks(lines: list[DiffLine]) -> Iterator[DiffLine]:
    for is_change, block in groupby(lines, key=lambda line: line.kind in ("add", "cut")):
        members = list(block)
        if not is_change:
            yield from (replace(line, text=show_code(str(line.text))) for line in members)
            continue
        old, new = ([str(line.text) for line in members if line.kind == kind] for kind in ("cut", "add"))
        shown_old, shown_new = map(iter, mark_words_of_block(old, new, show_code))
        for line in members:
            yield replace(line, text=next(shown_old if line.kind == "cut" else shown_new))


def mark_words_of_block(
    old: Sequence[str], new: Sequence[str], escape: Callable[[str], Markup]
) -> tuple[list[Markup], list[Markup]]:
    shown_old, shown_new = [escape(line) for line in old], [escape(line) for line in new]
    if not old or not new or len(old) + len(new) > MAX_LINES:
        return shown_old, shown_new
    first = 0
    for at, line in enumerate(old):
        pair = find_pair(line, new, first)
        if pair is not None:
            shown_old[at], shown_new[pair] = mark_pair(line, new[pair], escape)
            first = pair + 1
    return shown_old, shown_new


def find_pair(line: str, candidates: Sequence[str], first: int) -> int | None:
    """Return the most similar of the next few lines; None if none is similar."""
    if len(line) > MAX_LINE_CHARS or not line.strip():
        return None
    matcher = SequenceMatcher(autojunk=False)
    matcher.set_seq2(line)
    best, best_ratio = None, MIN_PAIR_RATIO
    for at in range(first, min(first + 8, len(candidates))):
        if len(candidates[at]) > MAX_LINE_CHARS:
            continue
        matcher.set_seq1(candidates[at])
        if matcher.real_quick_ratio() > best_ratio and matcher.quick_ratio() > best_ratio:
            ratio = matcher.ratio()
            if ratio > best_ratio:
                best, best_ratio = at, ratio
    return best


def mark_pair(old: str, new: str, escape: Callable[[str], Markup]) -> tuple[Markup, Markup]:
    words_old, words_new = WORD.findall(old), WORD.findall(new)
    shown_old, shown_new = Markup(), Markup()
    for kind, a, a_end, b, b_end in SequenceMatcher(None, words_old, words_new, autojunk=False).get_opcodes():
        before, after = escape("".join(words_old[a:a_end])), escape("".join(words_new[b:b_end]))
        is_equal = kind == "equal"
        shown_old += before if is_equal or not before else Markup("<b>{}</b>").format(before)
        shown_new += after if is_equal or not after else Markup("<b>{}</b>").format(after)
    return shown_old, shown_new


def list_hunk_lines(hunk: ChangedHunk) -> list[DiffLine]:
    place = hunk.hunk
    first_old, first_new = place.old_range.start, place.new_range.start
    above, below = len(hunk.above), place.new_range.stop
    old_below = place.old_range.stop
    lines = [
        *(DiffLine("same", t, first_old - above + n, first_new - above + n) for n, t in enumerate(hunk.above)),
        *(DiffLine("cut", text, first_old + n) for n, text in enumerate(hunk.old)),
        *(DiffLine("add", text, None, first_new + n) for n, text in enumerate(hunk.new)),
        *(DiffLine("same", text, old_below + n, below + n) for n, text in enumerate(hunk.below)),
    ]
    return list(mark_blocks(lines))


def pair_lines(lines: Sequence[DiffLine]) -> Iterator[tuple[DiffLine | None, DiffLine | None]]:
    for is_change, block in groupby(lines, key=lambda line: line.kind in ("add", "cut")):
        members = list(block)
        if is_change:
            old, new = ([line for line in members if line.kind == kind] for kind in ("cut", "add"))
            yield from zip_longest(old, new)
        else:
            yield from ((line, line) for line in members)


@lru_cache(1)
def static_version() -> str:
    """Return a word that changes with the static files: an address always names the same content."""
    digest = sha256()
    for path in sorted((FOLDER / "static").rglob("*")):
        if path.is_file():
            digest.update(path.relative_to(FOLDER).as_posix().encode() + path.read_bytes())
    return digest.hexdigest()[:8]


def find_template_folders() -> list[Path]:
    specs = [find_spec(extension.console) for extension in find_extensions()]
    return [Path(spec.origin).with_name("templates") for spec in specs if spec and spec.origin]


@lru_cache(1)
def open_templates() -> jinja2.Environment:
    templates = jinja2.Environment(
        loader=jinja2.FileSystemLoader([FOLDER / "templates", *find_template_folders()]),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        finalize=show_controls,
    )
    names: dict[str, Any] = {"static": f"/static/{static_version()}", "mark_diff": mark_diff}
    names |= {"hunk_lines": list_hunk_lines, "pair_lines": pair_lines}
    templates.globals.update(names)
    filters: dict[str, Callable[..., Any]] = {"code": show_code, "marked": mark_parts, "highlighted": highlight_line}
    filters |= {"left": format_left}
    filters |= {"age": format_age, "clock": format_clock, "day": format_day, "line": show_line}
    filters |= {
        "shorten": shorten,
        "hue": hue_class,
        "without": drop_filter,
        "with": add_filters,
        "count": format_count,
        "form": choose_form,
        "exact": escape,
    }
    filters |= {"duration": format_duration, "thousands": "{:,}".format}
    templates.filters.update(filters)
    # Macros are globals, not imports: a part of a page is a Jinja block, and blocks do not see the page's imports.
    module = templates.get_template("macros.html").module
    templates.globals.update({name: getattr(module, name) for name in MACROS})
    rows = templates.get_template("session_rows.html").module
    templates.globals.update({name: getattr(rows, name) for name in SESSION_MACROS})
    return templates


def drop_filter(filters: dict[str, str], name: str) -> str:
    return urlencode({key: value for key, value in filters.items() if key != name})


def add_filters(filters: dict[str, str], **changes: object) -> str:
    merged = filters | {key: "" if value is None else str(value) for key, value in changes.items()}
    return urlencode({key: value for key, value in merged.items() if value})


def hue_class(agent: str) -> str:
    return f"hue-{sum(agent.encode('utf-8', 'replace')) % 6}"


def render_page(template: str, values: dict[str, Any]) -> str:
    return open_templates().get_template(template).render(values)


def render_part(template: str, part: str, values: dict[str, Any]) -> str:
    """Return one block of a page's template. Raises KeyError for an unknown block."""
    found = open_templates().get_template(template)
    return "".join(found.blocks[part](found.new_context(values)))

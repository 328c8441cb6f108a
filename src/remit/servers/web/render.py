"""Pages as HTML: templates with escaping, untrusted text with its control characters shown, times in words."""

import re
import time
import unicodedata
from collections.abc import Callable, Iterator, Sequence
from datetime import datetime
from functools import lru_cache
from hashlib import sha256
from pathlib import Path
from typing import Any

import jinja2
from markupsafe import Markup, escape
from msgspec import Struct

from remit.core.untrusted_input import INVISIBLE_CHARS
from remit.policy.commands.marks import CommandMark

FOLDER = Path(__file__).parent
CONTROL = re.compile(f"[\x00-\x08\x0b-\x1f]|{INVISIBLE_CHARS}|[\ud800-\udfff]")
MACROS = ("icon", "agent_tile", "empty", "verdict", "timeline", "diff", "ring")
HUNK = re.compile(r"@@ -(\d+)(?:,\d+)? \+(\d+)(?:,\d+)? @@")


def name_character(match: re.Match[str]) -> str:
    return f"\N{MATHEMATICAL LEFT ANGLE BRACKET}U+{ord(match[0]):04X}\N{MATHEMATICAL RIGHT ANGLE BRACKET}"


def show_controls(value: object) -> object:
    """Return a template's value with control and invisible characters as code points, not yet escaped for HTML."""
    if isinstance(value, Markup) or not isinstance(value, str) or value.isprintable():
        return value
    return CONTROL.sub(name_character, value)


def show_code(text: str) -> Markup:
    """Return untrusted code as HTML, with each control or invisible character in a mark with the character's name."""
    shown = Markup()
    at = 0
    for match in CONTROL.finditer(text):
        name = unicodedata.name(match[0], "control character")
        mark = Markup('<span class="code-char" title="{}">U+{:04X}</span>').format(name, ord(match[0]))
        shown += escape(text[at : match.start()]) + mark
        at = match.end()
    return shown + escape(text[at:])


def mark_parts(text: str, marks: Sequence[CommandMark]) -> Markup:
    """Return a command as HTML, with its marked parts in elements of their own."""
    shown = Markup()
    at = 0
    for mark in marks:
        element = Markup("<mark>{}</mark>") if mark.kind == "danger" else Markup('<span class="operator">{}</span>')
        shown += show_code(text[at : mark.start]) + element.format(show_code(text[mark.start : mark.end]))
        at = mark.end
    return shown + show_code(text[at:])


def shorten(text: object, limit: int = 200) -> str:
    value = str(text)
    return value if len(value) <= limit else f"{value[:limit]}…"


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
    text: str
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


@lru_cache(1)
def static_version() -> str:
    """Return a word that changes with the static files: an address always names the same content."""
    digest = sha256()
    for path in sorted((FOLDER / "static").rglob("*")):
        if path.is_file():
            digest.update(path.relative_to(FOLDER).as_posix().encode() + path.read_bytes())
    return digest.hexdigest()[:8]


@lru_cache(1)
def open_templates() -> jinja2.Environment:
    templates = jinja2.Environment(
        loader=jinja2.FileSystemLoader(FOLDER / "templates"),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        finalize=show_controls,
    )
    names: dict[str, Any] = {"static": f"/static/{static_version()}", "parse_diff": parse_diff}
    templates.globals.update(names)
    filters: dict[str, Callable[..., Any]] = {"code": show_code, "marked": mark_parts, "left": format_left}
    templates.filters.update(filters)
    templates.filters.update(
        {"age": format_age, "clock": format_clock, "day": format_day, "shorten": shorten, "hue": hue_class}
    )
    # Macros are globals, not imports: a part of a page is a Jinja block, and blocks do not see the page's imports.
    module = templates.get_template("macros.html").module
    templates.globals.update({name: getattr(module, name) for name in MACROS})
    return templates


def hue_class(agent: str) -> str:
    """Return the class of an agent's letter tile: one of six hues, always the same for a name."""
    return f"hue-{sum(agent.encode('utf-8', 'replace')) % 6}"


def render_page(template: str, values: dict[str, Any]) -> str:
    return open_templates().get_template(template).render(values)


def render_part(template: str, part: str, values: dict[str, Any]) -> str:
    """Return one block of a page's template. Raises KeyError for an unknown block."""
    found = open_templates().get_template(template)
    return "".join(found.blocks[part](found.new_context(values)))

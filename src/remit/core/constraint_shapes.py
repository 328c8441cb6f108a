"""The kinds of structured constraints: which options each takes, and what is wrong with those that it was given.

How each is held against a change is `policy.checks.constraints`, one file a kind.
"""

from collections.abc import Callable, Iterator, Mapping
from typing import TypeAlias, cast

from msgspec import Struct

from remit.core.globs import glob_error, is_absolute_pattern
from remit.core.hooks import listed
from remit.core.patterns import LANGUAGES, BadPattern, check_regex, check_syntax
from remit.core.version_ranges import BadRange, wanted_range

Wrong: TypeAlias = Callable[[object], str]
"""What is wrong with an option's value, as a clause; empty where nothing is."""

LONGEST = 2_000
MOST = 200


class Shape(Struct, frozen=True):
    """One kind: its options, and of each group those of which exactly one has to be there."""

    options: Mapping[str, Wrong]
    needs: tuple[tuple[str, ...], ...] = ()


class Problem(Struct, frozen=True):
    """One thing wrong with a constraint. `option` is empty where it is about the whole."""

    option: str
    message: str


def count(value: object) -> str:
    """A whole number."""
    fine = isinstance(value, int) and not isinstance(value, bool) and value >= 0
    return "" if fine else f"is {value!r:.80}; expected a whole number, 0 or more"


def text(value: object) -> str:
    """Some text."""
    fine = isinstance(value, str) and bool(value.strip()) and len(value) <= LONGEST
    return "" if fine else f"is {value!r:.80}; expected a text"


def texts(value: object) -> str:
    """A text, or a list of them."""
    found = cast("list[object]", value) if isinstance(value, list) else [value]
    if not found or len(found) > MOST:
        return f"has {len(found)} items; expected 1 to {MOST}"
    return next((wrong for one in found if (wrong := text(one))), "")


def globs(value: object) -> str:
    """A pattern of paths as in `owned_scope`, or a list of them."""
    if wrong := texts(value):
        return wrong
    for pattern in texts_of(value):
        if why := "it is absolute" if is_absolute_pattern(pattern) else glob_error(pattern):
            return f"holds {pattern[:200]!r}, which is no pattern: {why}"
    return "" if any(not p.startswith("!") for p in texts_of(value)) else "takes nothing in; expected a pattern"


def regex(value: object) -> str:
    """A regular expression that is known to be quick."""
    if wrong := text(value):
        return wrong
    try:
        check_regex(str(value))
    except BadPattern as error:
        return f"{str(value)[:200]!r} {error}"
    return ""


def language(value: object) -> str:
    """A language that ast-grep knows."""
    return "" if value in LANGUAGES else f"is {value!r:.80}; expected one of {', '.join(LANGUAGES)}"


def version_range(value: object) -> str:
    """A range of versions."""
    if wrong := text(value):
        return wrong
    try:
        wanted_range(str(value))
    except BadRange as error:
        return str(error)
    return ""


def flag(value: object) -> str:
    """True; what is not wanted is left out."""
    return "" if value is True else f"is {value!r:.80}; expected true, or nothing"


PATTERN = Shape({"paths": globs, "pattern": text, "regex": regex, "language": language}, (("pattern", "regex"),))

SHAPES: Mapping[str, Shape] = {
    "max_lines": Shape({"paths": globs, "max": count}, (("max",),)),
    "forbid_pattern": PATTERN,
    "require_pattern": PATTERN,
    "forbid_import": Shape({"paths": globs, "module": texts}, (("module",),)),
    "forbid_path": Shape({"paths": globs}, (("paths",),)),
    "dependency": Shape(
        {"paths": globs, "name": text, "version": version_range, "forbid": flag}, (("name",), ("version", "forbid"))
    ),
    "require_test_change": Shape({"paths": globs, "tests": globs}),
    "max_files": Shape({"max": count}, (("max",),)),
}
"""What each kind of constraint says. The enforcing side has the same keys."""


def problems(kind: str, options: Mapping[str, object]) -> tuple[Problem, ...]:
    """All that is wrong with a constraint of that kind, which is one of SHAPES."""
    return tuple(problems_of(kind, SHAPES[kind], options))


def problems_of(kind: str, shape: Shape, options: Mapping[str, object]) -> Iterator[Problem]:
    """The same, one by one."""
    for name, value in options.items():
        if name not in shape.options:
            yield Problem(name, f"{kind} has no option {name[:80]!r}; it takes {', '.join(shape.options)}")
        elif wrong := shape.options[name](value):
            yield Problem(name, f"{name} of {kind} {wrong}")
    for group in shape.needs:
        given = [name for name in group if options.get(name) is not None]
        if len(given) != 1:
            said = f"needs {' or '.join(group)}" if not given else f"takes only one of {' and '.join(given)}"
            yield Problem("", f"{kind} {said}")
    if shape is PATTERN and isinstance(options.get("pattern"), str):
        yield from unreadable(kind, str(options["pattern"]), options.get("language"))


def unreadable(kind: str, pattern: str, name: object) -> Iterator[Problem]:
    """What is wrong with a pattern of syntax: in its language, or where none is named in every one."""
    whys: list[str] = []
    for one in [str(name)] if name in LANGUAGES else LANGUAGES:
        try:
            check_syntax(pattern, one)
        except BadPattern as error:
            whys.append(str(error))
        else:
            return
    said = whys[0] if len(whys) == 1 else "is no whole piece of any language"
    yield Problem("pattern", f"pattern of {kind} {pattern[:200]!r} {said}")


def texts_of(value: object) -> tuple[str, ...]:
    """An option that is a text or a list of them, as a tuple; none where it is not there."""
    if isinstance(value, list | tuple):
        return tuple(map(str, cast("list[object]", value)))
    return listed(value) if isinstance(value, str) else ()

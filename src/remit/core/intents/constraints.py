"""The kinds of structured constraints: which options each takes, and what is wrong with those that it was given.

How each is held against a change is `policy.checks.constraints`, one file a kind.

A constraint on one line, as a command takes it: words, or `max_lines: paths="src/**/*.py", max=500`.
"""

import json
import re
from collections.abc import Callable, Iterator, Mapping
from difflib import get_close_matches
from typing import Any, TypeAlias, cast

from msgspec import Struct

from remit.core.code.pattern_search import LANGUAGES, InvalidPattern, check_regex, check_syntax
from remit.core.code.version_ranges import InvalidRange, parse_constraint_range
from remit.core.intent import Constraint
from remit.core.intents.validation import describe_constraint
from remit.core.scope.globs import glob_error, is_absolute_pattern
from remit.core.team_hooks import as_tuple

OptionCheck: TypeAlias = Callable[[object], str]
"""What is wrong with an option's value, as a clause; empty where nothing is."""

MAX_TEXT_CHARS = 2_000
MAX_OPTION_ITEMS = 200


class ConstraintKind(Struct, frozen=True):
    """One kind: its options, and of each group those of which exactly one has to be there."""

    options: Mapping[str, OptionCheck]
    needs: tuple[tuple[str, ...], ...] = ()


class ConstraintProblem(Struct, frozen=True):
    """One thing wrong with a constraint. `option` is empty where it is about the whole."""

    option: str
    message: str


def check_count(value: object) -> str:
    """A whole number."""
    fine = isinstance(value, int) and not isinstance(value, bool) and value >= 0
    return "" if fine else f"is {value!r:.80}; expected a whole number, 0 or more"


def check_text(value: object) -> str:
    """Some text."""
    fine = isinstance(value, str) and bool(value.strip()) and len(value) <= MAX_TEXT_CHARS
    return "" if fine else f"is {value!r:.80}; expected a text"


def check_texts(value: object) -> str:
    """A text, or a list of them."""
    found = cast("list[object]", value) if isinstance(value, list) else [value]
    if not found or len(found) > MAX_OPTION_ITEMS:
        return f"has {len(found)} items; expected 1 to {MAX_OPTION_ITEMS}"
    return next((wrong for one in found if (wrong := check_text(one))), "")


def check_globs(value: object) -> str:
    """A pattern of paths as in `owned_scope`, or a list of them."""
    if wrong := check_texts(value):
        return wrong
    for pattern in as_texts(value):
        if why := "it is absolute" if is_absolute_pattern(pattern) else glob_error(pattern):
            return f"holds {pattern[:200]!r}, which is no pattern: {why}"
    return "" if any(not p.startswith("!") for p in as_texts(value)) else "takes nothing in; expected a pattern"


def check_regex_option(value: object) -> str:
    """A regular expression that is known to be quick."""
    if wrong := check_text(value):
        return wrong
    try:
        check_regex(str(value))
    except InvalidPattern as error:
        return f"{str(value)[:200]!r} {error}"
    return ""


def check_language(value: object) -> str:
    """A language that ast-grep knows."""
    return "" if value in LANGUAGES else f"is {value!r:.80}; expected one of {', '.join(LANGUAGES)}"


def check_version_range(value: object) -> str:
    """A range of versions."""
    if wrong := check_text(value):
        return wrong
    try:
        parse_constraint_range(str(value))
    except InvalidRange as error:
        return str(error)
    return ""


def check_flag(value: object) -> str:
    """True; what is not wanted is left out."""
    return "" if value is True else f"is {value!r:.80}; expected true, or nothing"


PATTERN_KIND = ConstraintKind(
    {"paths": check_globs, "pattern": check_text, "regex": check_regex_option, "language": check_language},
    (("pattern", "regex"),),
)

CONSTRAINT_KINDS: Mapping[str, ConstraintKind] = {
    "max_lines": ConstraintKind({"paths": check_globs, "max": check_count}, (("max",),)),
    "forbid_pattern": PATTERN_KIND,
    "require_pattern": PATTERN_KIND,
    "forbid_import": ConstraintKind({"paths": check_globs, "module": check_texts}, (("module",),)),
    "forbid_path": ConstraintKind({"paths": check_globs}, (("paths",),)),
    "dependency": ConstraintKind(
        {"paths": check_globs, "name": check_text, "version": check_version_range, "forbid": check_flag},
        (("name",), ("version", "forbid")),
    ),
    "require_test_change": ConstraintKind({"paths": check_globs, "tests": check_globs}),
    "max_files": ConstraintKind({"max": check_count}, (("max",),)),
}
"""What each kind of constraint says. The enforcing side has the same keys."""


def find_constraint_problems(kind: str, options: Mapping[str, object]) -> tuple[ConstraintProblem, ...]:
    """All that is wrong with a constraint of that kind, which is one of SHAPES."""
    return tuple(check_options(kind, CONSTRAINT_KINDS[kind], options))


def check_options(kind: str, shape: ConstraintKind, options: Mapping[str, object]) -> Iterator[ConstraintProblem]:
    """The same, one by one."""
    for name, value in options.items():
        if name not in shape.options:
            yield ConstraintProblem(name, f"{kind} has no option {name[:80]!r}; it takes {', '.join(shape.options)}")
        elif wrong := shape.options[name](value):
            yield ConstraintProblem(name, f"{name} of {kind} {wrong}")
    for group in shape.needs:
        given = [name for name in group if options.get(name) is not None]
        if len(given) != 1:
            said = f"needs {' or '.join(group)}" if not given else f"takes only one of {' and '.join(given)}"
            yield ConstraintProblem("", f"{kind} {said}")
    if shape is PATTERN_KIND and isinstance(options.get("pattern"), str):
        yield from check_pattern_syntax(kind, str(options["pattern"]), options.get("language"))


def check_pattern_syntax(kind: str, pattern: str, name: object) -> Iterator[ConstraintProblem]:
    """What is wrong with a pattern of syntax: in its language, or where none is named in every one."""
    whys: list[str] = []
    for one in [str(name)] if name in LANGUAGES else LANGUAGES:
        try:
            check_syntax(pattern, one)
        except InvalidPattern as error:
            whys.append(str(error))
        else:
            return
    said = whys[0] if len(whys) == 1 else "is no whole piece of any language"
    yield ConstraintProblem("pattern", f"pattern of {kind} {pattern[:200]!r} {said}")


def as_texts(value: object) -> tuple[str, ...]:
    """An option that is a text or a list of them, as a tuple; none where it is not there."""
    if isinstance(value, list | tuple):
        return tuple(map(str, cast("list[object]", value)))
    return as_tuple(value) if isinstance(value, str) else ()


KIND_LINE = re.compile(r"\s*([a-z_]+)\s*:\s*(.*)", re.DOTALL)
OPTION_NAME = re.compile(r"(?:^|,)\s*([a-z_]+)\s*=\s*")
DEFAULT_OPTIONS = {"max_lines": "max", "max_files": "max", "forbid_import": "module", "forbid_path": "paths"}
"""The option that a value without a name is."""


class InvalidConstraint(ValueError):
    """The line names a kind of constraint, and cannot be one. The message says all that is wrong."""


def parse_constraint(text: str) -> Constraint:
    """The constraint: structured where the line begins with a kind and a colon, else words. Raises BadConstraint."""
    found = KIND_LINE.fullmatch(text)
    if found is None or (found[1] not in CONSTRAINT_KINDS and not find_similar_kind(found[1])):
        return Constraint(text)
    if found[1] not in CONSTRAINT_KINDS:
        raise InvalidConstraint(
            f"{text[:200]!r}: there is no kind {found[1]!r}; meant is perhaps {find_similar_kind(found[1])!r}"
        )
    kind, options = found[1], parse_options(found[1], found[2].strip())
    wrong = find_constraint_problems(kind, options)
    if wrong:
        raise InvalidConstraint(f"{text[:200]!r}: {'; '.join(problem.message for problem in wrong)}")
    return Constraint(describe_constraint(kind, options), kind, options)


def find_similar_kind(word: str) -> str:
    """The kind that the word is a slip of; empty where it is none. As mere words it would be told, and never held."""
    return next(iter(get_close_matches(word, CONSTRAINT_KINDS, 1, 0.8)), "")


def parse_options(kind: str, text: str) -> dict[str, Any]:
    """The options of a line; a value is JSON, or stands for itself."""
    places = list(OPTION_NAME.finditer(text))
    if not places or text[: places[0].start()].strip():
        return {DEFAULT_OPTIONS.get(kind, "pattern"): parse_value(text)} if text else {}
    ends = [*(place.start() for place in places[1:]), len(text)]
    return {place[1]: parse_value(text[place.end() : end].strip()) for place, end in zip(places, ends, strict=True)}


def parse_value(text: str) -> Any:
    """One value."""
    try:
        return json.loads(text)
    except ValueError:
        return text

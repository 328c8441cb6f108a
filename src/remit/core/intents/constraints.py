"""Kinds of structured constraints, their options, and their one-line form.

`policy.checks.constraints` enforces each kind. On the command line a constraint is free text, or a kind with options:
`max_lines: paths="src/**/*.py", max=500`.
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
from remit.core.scope.globs import relative_glob_error
from remit.core.team_hooks import as_tuple

OptionCheck: TypeAlias = Callable[[object], str]
"""Check of an option's value. Returns the fault as a clause, or an empty text."""

MAX_TEXT_CHARS = 2_000
MAX_OPTION_ITEMS = 200


class ConstraintKind(Struct, frozen=True):
    """A kind of constraint: its options, and groups of options of which exactly one is required."""

    options: Mapping[str, OptionCheck]
    needs: tuple[tuple[str, ...], ...] = ()


class ConstraintProblem(Struct, frozen=True):
    """A fault of a constraint. `option` is empty for faults of the whole constraint."""

    option: str
    message: str


def check_count(value: object) -> str:
    fine = isinstance(value, int) and not isinstance(value, bool) and value >= 0
    return "" if fine else f"is {value!r:.80}; expected a whole number, 0 or more"


def check_text(value: object) -> str:
    fine = isinstance(value, str) and bool(value.strip()) and len(value) <= MAX_TEXT_CHARS
    return "" if fine else f"is {value!r:.80}; expected a text"


def check_texts(value: object) -> str:
    items = cast("list[object]", value) if isinstance(value, list) else [value]
    if not items or len(items) > MAX_OPTION_ITEMS:
        return f"has {len(items)} items; expected 1 to {MAX_OPTION_ITEMS}"
    return next((fault for item in items if (fault := check_text(item))), "")


def check_globs(value: object) -> str:
    """Check a path pattern as in `owned_scope`, or a list of them."""
    if fault := check_texts(value):
        return fault
    for pattern in as_texts(value):
        if fault := relative_glob_error(pattern):
            return f"holds {pattern[:200]!r}, which is not a pattern: {fault}"
    return "" if any(not p.startswith("!") for p in as_texts(value)) else "takes nothing in; expected a pattern"


def check_regex_option(value: object) -> str:
    """Check a regular expression with bounded cost."""
    if wrong := check_text(value):
        return wrong
    try:
        check_regex(str(value))
    except InvalidPattern as error:
        return f"{str(value)[:200]!r} {error}"
    return ""


def check_language(value: object) -> str:
    return "" if value in LANGUAGES else f"is {value!r:.80}; expected one of {', '.join(LANGUAGES)}"


def check_version_range(value: object) -> str:
    if wrong := check_text(value):
        return wrong
    try:
        parse_constraint_range(str(value))
    except InvalidRange as error:
        return str(error)
    return ""


def check_flag(value: object) -> str:
    """Check a flag: true, or absent."""
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
"""Options of each kind. `policy.checks.constraints` has the same keys."""


def find_constraint_problems(kind: str, options: Mapping[str, object]) -> tuple[ConstraintProblem, ...]:
    """Return the faults of a constraint of a kind in CONSTRAINT_KINDS."""
    return tuple(check_options(kind, CONSTRAINT_KINDS[kind], options))


def check_options(kind: str, shape: ConstraintKind, options: Mapping[str, object]) -> Iterator[ConstraintProblem]:
    for name, value in options.items():
        if name not in shape.options:
            yield ConstraintProblem(name, f"{kind} has no option {name[:80]!r}; it takes {', '.join(shape.options)}")
        elif fault := shape.options[name](value):
            yield ConstraintProblem(name, f"{name} of {kind} {fault}")
    for group in shape.needs:
        present = [name for name in group if options.get(name) is not None]
        if len(present) != 1:
            rule = f"needs {' or '.join(group)}" if not present else f"takes only one of {' and '.join(present)}"
            yield ConstraintProblem("", f"{kind} {rule}")
    if shape is PATTERN_KIND and isinstance(options.get("pattern"), str):
        yield from check_pattern_syntax(kind, str(options["pattern"]), options.get("language"))


def check_pattern_syntax(kind: str, pattern: str, language_name: object) -> Iterator[ConstraintProblem]:
    """Check a syntax pattern in its language, or in every language if none is given."""
    reasons: list[str] = []
    for language in [str(language_name)] if language_name in LANGUAGES else LANGUAGES:
        try:
            check_syntax(pattern, language)
        except InvalidPattern as error:
            reasons.append(str(error))
        else:
            return
    reason = reasons[0] if len(reasons) == 1 else "is not complete code in any language"
    yield ConstraintProblem("pattern", f"pattern of {kind} {pattern[:200]!r} {reason}")


def as_texts(value: object) -> tuple[str, ...]:
    """Return an option's text, or list of texts, as a tuple; empty if absent."""
    if isinstance(value, list | tuple):
        return tuple(map(str, cast("list[object]", value)))
    return as_tuple(value) if isinstance(value, str) else ()


KIND_LINE = re.compile(r"\s*([a-z_]+)\s*:\s*(.*)", re.DOTALL)
OPTION_NAME = re.compile(r"(?:^|,)\s*([a-z_]+)\s*=\s*")
DEFAULT_OPTIONS = {"max_lines": "max", "max_files": "max", "forbid_import": "module", "forbid_path": "paths"}
"""Option that an unnamed value sets."""


class InvalidConstraint(ValueError):
    """Error for a line that names a kind of constraint but breaks its rules."""


def parse_constraint(text: str) -> Constraint:
    """Parse a constraint: structured if the line begins with a kind and a colon, else free text.

    Raises InvalidConstraint.
    """
    match = KIND_LINE.fullmatch(text)
    if match is None or (match[1] not in CONSTRAINT_KINDS and not find_similar_kind(match[1])):
        return Constraint(text)
    if match[1] not in CONSTRAINT_KINDS:
        raise InvalidConstraint(
            f"{text[:200]!r}: there is no kind {match[1]!r}; meant is perhaps {find_similar_kind(match[1])!r}"
        )
    kind, options = match[1], parse_options(match[1], match[2].strip())
    faults = find_constraint_problems(kind, options)
    if faults:
        raise InvalidConstraint(f"{text[:200]!r}: {'; '.join(problem.message for problem in faults)}")
    return Constraint(describe_constraint(kind, options), kind, options)


def find_similar_kind(word: str) -> str:
    """Return the kind that `word` misspells, or an empty text. Free text would be shown and never enforced."""
    return next(iter(get_close_matches(word, CONSTRAINT_KINDS, 1, 0.8)), "")


def parse_options(kind: str, text: str) -> dict[str, Any]:
    """Parse options; a value is JSON, or a bare word."""
    places = list(OPTION_NAME.finditer(text))
    if not places or text[: places[0].start()].strip():
        return {DEFAULT_OPTIONS.get(kind, "pattern"): parse_value(text)} if text else {}
    ends = [*(place.start() for place in places[1:]), len(text)]
    return {place[1]: parse_value(text[place.end() : end].strip()) for place, end in zip(places, ends, strict=True)}


def parse_value(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        return text

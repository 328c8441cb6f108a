"""Kinds of structured constraints, their options, and their one-line form.

`policy.constraint_kinds` enforces each kind. On the command line a constraint is free text, or a kind with options:
`max_lines: paths="src/**/*.py", max=500`.
"""

import json
import re
from collections.abc import Callable, Mapping
from difflib import get_close_matches
from typing import Any, TypeAlias, cast

from msgspec import Struct

from remit.core.code.manifests import InvalidRange, parse_range
from remit.core.code.pattern_search import LANGUAGES, InvalidPattern, check_syntax, compile_regex
from remit.core.config import as_tuple
from remit.core.intent import Constraint
from remit.core.intents.validation import describe_constraint
from remit.core.scope.path_patterns import relative_glob_error

OptionCheck: TypeAlias = Callable[[object], str]
"""Check of an option's value. Returns the fault as a clause, or an empty text."""
MAX_TEXT_CHARS = 2_000
MAX_OPTION_ITEMS = 200


class ConstraintKind(Struct, frozen=True):
    """A kind of constraint: what it asks, the options, and groups of options with exactly one required member."""

    meaning: str
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
    if fault := check_texts(value):
        return fault
    for pattern in as_texts(value):
        if fault := relative_glob_error(pattern):
            return f"holds {pattern[:200]!r}, which is not a pattern: {fault}"
    return "" if any(not p.startswith("!") for p in as_texts(value)) else "takes nothing in; expected a pattern"


def check_regex(value: object) -> str:
    if wrong := check_text(value):
        return wrong
    try:
        compile_regex(str(value))
    except InvalidPattern as error:
        return f"{str(value)[:200]!r} {error}"
    return ""


def check_language(value: object) -> str:
    return "" if value in LANGUAGES else f"is {value!r:.80}; expected one of {', '.join(LANGUAGES)}"


def check_version_range(value: object) -> str:
    if wrong := check_text(value):
        return wrong
    try:
        parse_range(str(value))
    except InvalidRange as error:
        return str(error)
    return ""


def check_flag(value: object) -> str:
    return "" if value is True else f"is {value!r:.80}; expected true, or nothing"


PATTERN_OPTIONS = {"paths": check_globs, "pattern": check_text, "regex": check_regex, "language": check_language}
PATTERN_NEEDS = (("pattern", "regex"),)
CONSTRAINT_KINDS: Mapping[str, ConstraintKind] = {
    "max_lines": ConstraintKind(
        "a file has at most `max` lines, whatever the line endings.",
        {"paths": check_globs, "max": check_count},
        (("max",),),
    ),
    "forbid_pattern": ConstraintKind(
        "no file matches a syntax pattern (`pattern`) or a regular expression (`regex`).",
        PATTERN_OPTIONS,
        PATTERN_NEEDS,
    ),
    "require_pattern": ConstraintKind(
        "each file matches a syntax pattern (`pattern`) or a regular expression (`regex`).",
        PATTERN_OPTIONS,
        PATTERN_NEEDS,
    ),
    "forbid_import": ConstraintKind(
        "a module and its submodules are imported nowhere.",
        {"paths": check_globs, "module": check_texts},
        (("module",),),
    ),
    "forbid_path": ConstraintKind(
        "files that the intent must not change, although they are in its scope.", {"paths": check_globs}, (("paths",),)
    ),
    "dependency": ConstraintKind(
        "the versions of a package that manifests may ask for (`version`), or none (`forbid`).",
        {"paths": check_globs, "name": check_text, "version": check_version_range, "forbid": check_flag},
        (("name",), ("version", "forbid")),
    ),
    "require_test_change": ConstraintKind(
        "changed code needs a changed test by the time the intent is completed.",
        {"paths": check_globs, "tests": check_globs},
    ),
    "max_files": ConstraintKind("the intent changes at most `max` files in total.", {"max": check_count}, (("max",),)),
}
"""Options of each kind. `policy.constraint_kinds` has the same keys."""


OTHER_NAMES = {
    "file_size": ("max_lines", {"max_lines": "max", "scope": "paths"}),
    "library_version": ("dependency", {"library": "name", "scope": "paths"}),
}
"""Other names of kinds, with those of their options: intents files of other tools have them."""


def translate_constraint(kind: str, options: Mapping[str, Any]) -> tuple[str, dict[str, Any]]:
    """Return a constraint in the names of CONSTRAINT_KINDS; `validation`, a sentence for people, is left out."""
    if kind not in OTHER_NAMES:
        return kind, dict(options)
    own, names = OTHER_NAMES[kind]
    found = {names.get(name, name): value for name, value in options.items() if name != "validation"}
    bounds = [
        f"{sign}{found.pop(name)}" for name, sign in (("min_version", ">="), ("max_version", "<=")) if name in found
    ]
    if bounds and "version" not in found:
        found["version"] = ",".join(bounds)
    return own, found


def find_constraint_problems(kind: str, options: Mapping[str, object]) -> tuple[ConstraintProblem, ...]:
    shape = CONSTRAINT_KINDS[kind]
    problems: list[ConstraintProblem] = []
    for name, value in options.items():
        if name not in shape.options:
            message = f"{kind} has no option {name[:80]!r}; it takes {', '.join(shape.options)}"
            problems.append(ConstraintProblem(name, message))
        elif fault := shape.options[name](value):
            problems.append(ConstraintProblem(name, f"{name} of {kind} {fault}"))
    for group in shape.needs:
        present = [name for name in group if options.get(name) is not None]
        if len(present) != 1:
            rule = f"needs {' or '.join(group)}" if not present else f"takes only one of {' and '.join(present)}"
            problems.append(ConstraintProblem("", f"{kind} {rule}"))
    if "pattern" in shape.options and isinstance(pattern := options.get("pattern"), str):
        fault = find_syntax_fault(pattern, options.get("language"))
        problems += [ConstraintProblem("pattern", f"pattern of {kind} {pattern[:200]!r} {fault}")] if fault else []
    return tuple(problems)


def find_syntax_fault(pattern: str, language_name: object) -> str:
    """Check a syntax pattern in its language, or in every language if none is given."""
    reasons: list[str] = []
    for language in [str(language_name)] if language_name in LANGUAGES else LANGUAGES:
        try:
            check_syntax(pattern, language)
        except InvalidPattern as error:
            reasons.append(str(error))
        else:
            return ""
    return reasons[0] if len(reasons) == 1 else "is not complete code in any language"


def as_texts(value: object) -> tuple[str, ...]:
    if isinstance(value, list | tuple):
        return tuple(map(str, cast("list[object]", value)))
    return as_tuple(value) if isinstance(value, str) else ()


KIND_LINE = re.compile(r"\s*([a-z_]+)\s*:\s*(.*)", re.DOTALL)
OPTION_NAME = re.compile(r"(?:^|,)\s*([a-z_]+)\s*=\s*")
DEFAULT_OPTIONS = {"max_lines": "max", "max_files": "max", "forbid_import": "module", "forbid_path": "paths"}
"""Option that an unnamed value sets."""


class InvalidConstraint(ValueError):
    """Error for a line with a kind of constraint that breaks the rules of the kind."""


def parse_constraint(text: str) -> Constraint:
    """Parse a constraint: structured if the line begins with a kind and a colon, else free text.

    Raises InvalidConstraint.
    """
    match = KIND_LINE.fullmatch(text)
    if match is None:
        return Constraint(text)
    kind = match[1]
    if kind not in CONSTRAINT_KINDS:
        # A misspelt kind as free text would be shown and never enforced.
        similar = get_close_matches(kind, CONSTRAINT_KINDS, 1, 0.8)
        if not similar:
            return Constraint(text)
        raise InvalidConstraint(f"{text[:200]!r}: there is no kind {kind!r}; meant is perhaps {similar[0]!r}")
    options = parse_options(kind, match[2].strip())
    if faults := find_constraint_problems(kind, options):
        raise InvalidConstraint(f"{text[:200]!r}: {'; '.join(problem.message for problem in faults)}")
    return Constraint(describe_constraint(kind, options), kind, options)


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

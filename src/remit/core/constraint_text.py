"""A constraint on one line, as a command takes it: words, or `max_lines: paths="src/**/*.py", max=500`."""

import json
import re
from difflib import get_close_matches
from typing import Any

from remit.core.constraint_shapes import SHAPES, problems
from remit.core.intent import Constraint
from remit.core.validation import describe_rule

KIND = re.compile(r"\s*([a-z_]+)\s*:\s*(.*)", re.DOTALL)
OPTION = re.compile(r"(?:^|,)\s*([a-z_]+)\s*=\s*")
MAIN = {"max_lines": "max", "max_files": "max", "forbid_import": "module", "forbid_path": "paths"}
"""The option that a value without a name is."""


class BadConstraint(ValueError):
    """The line names a kind of constraint, and cannot be one. The message says all that is wrong."""


def read_constraint(text: str) -> Constraint:
    """The constraint: structured where the line begins with a kind and a colon, else words. Raises BadConstraint."""
    found = KIND.fullmatch(text)
    if found is None or (found[1] not in SHAPES and not alike(found[1])):
        return Constraint(text)
    if found[1] not in SHAPES:
        raise BadConstraint(f"{text[:200]!r}: there is no kind {found[1]!r}; meant is perhaps {alike(found[1])!r}")
    kind, options = found[1], options_in(found[1], found[2].strip())
    wrong = problems(kind, options)
    if wrong:
        raise BadConstraint(f"{text[:200]!r}: {'; '.join(problem.message for problem in wrong)}")
    return Constraint(describe_rule(kind, options), kind, options)


def alike(word: str) -> str:
    """The kind that the word is a slip of; empty where it is none. As mere words it would be told, and never held."""
    return next(iter(get_close_matches(word, SHAPES, 1, 0.8)), "")


def options_in(kind: str, text: str) -> dict[str, Any]:
    """The options of a line; a value is JSON, or stands for itself."""
    places = list(OPTION.finditer(text))
    if not places or text[: places[0].start()].strip():
        return {MAIN.get(kind, "pattern"): value_of(text)} if text else {}
    ends = [*(place.start() for place in places[1:]), len(text)]
    return {place[1]: value_of(text[place.end() : end].strip()) for place, end in zip(places, ends, strict=True)}


def value_of(text: str) -> Any:
    """One value."""
    try:
        return json.loads(text)
    except ValueError:
        return text

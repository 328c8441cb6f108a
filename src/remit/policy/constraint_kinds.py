"""The kinds of constraints, evaluated on the files that a call would leave.

What options a kind takes stands in `core.intents.constraints`. Lock files and transitive dependencies are not checked.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from typing import Any, TypeAlias

from msgspec import Struct

from remit.core.code.imports import READERS, SEPARATORS, Import, find_import_mentions, find_imports
from remit.core.code.languages import find_language
from remit.core.code.manifests import InvalidRange, Requirement, parse_range, read_requirements, same_name
from remit.core.code.pattern_search import (
    InvalidPattern,
    detect_language,
    find_regex_lines,
    find_related_languages,
    find_syntax_lines,
)
from remit.core.code.source_text import TextPiece, UncheckableContent, decode_text, split_pieces, split_text_lines
from remit.core.decision import Facts, Finding
from remit.core.diff.edits import ProposedFile
from remit.core.intent import Constraint, Intent
from remit.core.intents.constraints import as_texts
from remit.core.scope.path_patterns import Scope
from remit.core.untrusted_input import sanitise_line

MAX_NAMED = 20  # Lines that a breach lists
MAX_SENTENCES = 3  # Breaches in the message
MAX_BREACHES = 20  # Breaches in the context of a finding

DEFAULT_TEST_PATTERNS = (
    *("tests/**", "test/**", "**/tests/**", "**/test/**", "**/__tests__/**", "**/spec/**"),
    *("**/test_*", "**/*_test.*", "**/*.test.*", "**/*.spec.*", "**/*_spec.*", "**/*Test.java", "**/*Tests.cs"),
)
"""Patterns of tests, unless the constraint names others."""


class ProposedChange(Struct, frozen=True):
    """A change, from the view of constraints.

    `written_paths` include files with unknown content; `changed_before` are the files changed by the intent before.
    `is_final`: the intent is to be completed, and the changes are judged as a whole.
    """

    files: tuple[ProposedFile, ...] = ()
    written_paths: tuple[str, ...] = ()
    changed_before: tuple[str, ...] = ()
    is_final: bool = False


class Breach(Struct, frozen=True):
    """A constraint broken in one place: what was `measured`, and the `bound`, as clauses.

    `weight` and `items` (the single faults) are compared with the state before. `is_remark`: the breach is no refusal.
    """

    measured: str
    bound: str
    path: str | None = None
    lines: tuple[int, ...] = ()
    weight: int = 1
    items: tuple[str, ...] = ()
    is_remark: bool = False


MeasureContent: TypeAlias = Callable[[Constraint, str, bytes], Breach | None]  # The breach in one content of a file


def evaluate_constraints(intent: Intent, facts: Facts) -> Finding | None:
    """Return the finding of a call: the first breaches in words, all of them in the context; None without a breach."""
    named = tuple(str(target.path) for target in facts.targets if target.path is not None)
    every = find_all_breaches(intent, ProposedChange(facts.proposed, named, facts.changed))
    broken = [(constraint, breach) for constraint, breach in every if not breach.is_remark]
    if not broken:
        return None
    more = f" And {len(broken) - MAX_SENTENCES} more." if len(broken) > MAX_SENTENCES else ""
    return Finding(
        rule="constraints",
        code="CONSTRAINT_VIOLATION",
        message=" ".join(describe_breach(intent.id, *one) for one in broken[:MAX_SENTENCES]) + more,
        path=broken[0][1].path,
        context={"broken": [breach_as_json(*one) for one in broken[:MAX_BREACHES]]},
    )


def find_all_breaches(intent: Intent, change: ProposedChange) -> Iterator[tuple[Constraint, Breach]]:
    """Yield each breach with its constraint. An error of a kind is not caught: it denies."""
    for constraint in intent.rules:
        for breach in KINDS[str(constraint.kind)](constraint, change):
            yield constraint, breach


def describe_breach(intent_id: str, constraint: Constraint, breach: Breach) -> str:
    where = f"{sanitise_line(breach.path)}: " if breach.path else ""
    return f"{sanitise_line(constraint.text, 160)}: {where}{breach.measured}; {intent_id} asks for {breach.bound}."


def breach_as_json(constraint: Constraint, breach: Breach) -> dict[str, Any]:
    return {
        "type": constraint.kind,
        "constraint": sanitise_line(constraint.text, 300),
        "measured": breach.measured,
        "bound": breach.bound,
        **({"path": breach.path} if breach.path else {}),
        **({"lines": list(breach.lines)} if breach.lines else {}),
    }


def covers_path(constraint: Constraint, path: str) -> bool:
    patterns = as_texts(constraint.options.get("paths"))
    return not patterns or Scope(patterns).matches(path)


# Kinds about the contents of files


def find_file_breaches(measure: MeasureContent, constraint: Constraint, change: ProposedChange) -> Iterator[Breach]:
    for file in change.files:
        if not file.known or file.after is None or file.after == file.before or not covers_path(constraint, file.path):
            continue
        if (found := measure_content(measure, constraint, file.path, file.after)) is None:
            continue
        # Contents that cannot be checked weigh nothing, and are refused each time.
        if file.before is not None and found.weight:
            old = measure_content(measure, constraint, file.path, file.before)
            if old is not None and old.weight >= found.weight and not Counter(found.items) - Counter(old.items):
                continue
        yield found


def measure_content(measure: MeasureContent, constraint: Constraint, path: str, content: bytes) -> Breach | None:
    try:
        return measure(constraint, path, content)
    except UncheckableContent as error:
        return Breach(f"not checked, because {error}", "a check", path, weight=0)


def measure_lines(constraint: Constraint, path: str, content: bytes) -> Breach | None:
    maximum = int(constraint.options["max"])
    number = len(split_text_lines(decode_text(content)))
    return Breach(f"{number} lines", f"at most {maximum}", path, (maximum + 1,), number) if number > maximum else None


def measure_forbidden_pattern(constraint: Constraint, path: str, content: bytes) -> Breach | None:
    found = find_matches(constraint, path, content)
    if not found:
        return None
    where = ", ".join(dict.fromkeys(f"{match.cell}line {match.line}" for match in found[:MAX_NAMED]))
    lines = tuple(dict.fromkeys(match.line for match in found[:MAX_NAMED]))
    items = tuple(match.text for match in found)
    return Breach(f"{describe_pattern(constraint)} ({where})", "none", path, lines, len(found), items)


def measure_required_pattern(constraint: Constraint, path: str, content: bytes) -> Breach | None:
    missing = find_matches(constraint, path, content) == []
    return Breach(f"no {describe_pattern(constraint)}", "one", path) if missing else None


def measure_imports(constraint: Constraint, path: str, content: bytes) -> Breach | None:
    wanted = as_texts(constraint.options["module"])
    found = [one for piece in split_pieces(path, content) for one in find_unwanted_imports(path, piece, wanted)]
    if not found:
        return None
    named = dict.fromkeys(f"`{sanitise_line(name, 80)}` ({place}line {line})" for place, name, line in found[:5])
    lines = tuple(dict.fromkeys(line for _, _, line in found[:MAX_NAMED]))
    items = tuple(dict.fromkeys(name for _, name, _ in found))
    return Breach(f"import of {', '.join(named)}", "none of it", path, lines, len(found), items)


def measure_manifest(constraint: Constraint, path: str, content: bytes) -> Breach | None:
    found = [r for r in read_requirements(path, content) or () if is_unwanted_requirement(constraint, r)]
    if not found:
        return None
    bound = "no such dependency" if constraint.options.get("forbid") else str(constraint.options.get("version"))
    measured = ", ".join(sanitise_line(f"{r.name} {r.versions or 'in any version'}", 100) for r in found[:5])
    lines, items = tuple(r.line for r in found if r.line), tuple(f"{r.name} {r.versions}" for r in found)
    return Breach(measured, bound, path, lines, len(found), items)


# Kinds about the names of files


def find_forbidden_paths(constraint: Constraint, change: ProposedChange) -> Iterator[Breach]:
    return (Breach("a change", "none there", path) for path in change.written_paths if covers_path(constraint, path))


def find_too_many_files(constraint: Constraint, change: ProposedChange) -> Iterator[Breach]:
    maximum = int(constraint.options["max"])
    new_files = tuple(dict.fromkeys(path for path in change.written_paths if path not in change.changed_before))
    number = len(set(change.changed_before)) + len(new_files)
    if number > maximum and (new_files or change.is_final):
        measured = f"{number} changed files"
        if change.changed_before:
            measured += f" (so far {', '.join(sorted(change.changed_before)[:MAX_NAMED])})"
        yield Breach(measured, f"at most {maximum}", new_files[0] if new_files else None, weight=number)


def find_missing_tests(constraint: Constraint, change: ProposedChange) -> Iterator[Breach]:
    tests = Scope(as_texts(constraint.options.get("tests")) or DEFAULT_TEST_PATTERNS)
    every = tuple(dict.fromkeys((*change.changed_before, *change.written_paths)))
    code = [path for path in every if covers_path(constraint, path) and not tests.matches(path)]
    if code and not any(tests.matches(path) for path in every):
        yield Breach("changed, and no test", "a test with it", code[0], is_remark=not change.is_final)


KINDS: Mapping[str, Callable[[Constraint, ProposedChange], Iterable[Breach]]] = {
    "max_lines": partial(find_file_breaches, measure_lines),
    "forbid_pattern": partial(find_file_breaches, measure_forbidden_pattern),
    "require_pattern": partial(find_file_breaches, measure_required_pattern),
    "forbid_import": partial(find_file_breaches, measure_imports),
    "dependency": partial(find_file_breaches, measure_manifest),
    "forbid_path": find_forbidden_paths,
    "require_test_change": find_missing_tests,
    "max_files": find_too_many_files,
}


class PatternMatch(Struct, frozen=True):
    """A match: its notebook cell (empty for a plain file), its line, 1-based, and the text of the line."""

    cell: str
    line: int
    text: str


def find_matches(constraint: Constraint, path: str, content: bytes) -> list[PatternMatch] | None:
    """Return all matches; None if the pattern is not for this file. Raises BadPattern, Uncheckable."""
    regex = constraint.options.get("regex")
    found: list[PatternMatch] = []
    fitting = False
    for piece in split_pieces(path, content):
        if regex is not None:
            lines = find_regex_lines(str(regex), piece.text)
        elif (language := choose_language(constraint, path, piece)) is None:
            continue
        else:
            try:
                lines = find_syntax_lines(str(constraint.options["pattern"]), piece.text, language)
            except InvalidPattern:
                if constraint.options.get("language") is not None:
                    raise
                continue  # the pattern does not fit a language that no constraint names
        fitting = True
        at = f"{piece.where} " if piece.where else ""
        texts = split_text_lines(piece.text)
        found += (PatternMatch(at, line, texts[line - 1].strip() if line <= len(texts) else "") for line in lines)
    return found if fitting else None


def choose_language(constraint: Constraint, path: str, piece: TextPiece) -> str | None:
    """Return the language of a text; None if the pattern is for another language, or the language is unknown.

    A file whose name shows no language has the constraint's language if the constraint's `paths` name the file.
    """
    wanted, detected = constraint.options.get("language"), piece.language or detect_language(path)
    if wanted is None:
        return detected
    if detected is None:
        return str(wanted) if constraint.options.get("paths") is not None else None
    return detected if detected in find_related_languages(str(wanted)) else None


def describe_pattern(constraint: Constraint) -> str:
    return f"`{sanitise_line(str(constraint.options.get('regex') or constraint.options.get('pattern')), 120)}`"


def find_unwanted_imports(path: str, piece: TextPiece, forbidden: tuple[str, ...]) -> Iterator[tuple[str, str, int]]:
    row = find_language(path)
    language = piece.language or (row.name if row else None)
    if language not in READERS:
        return
    at = f"{piece.where} " if piece.where else ""
    found, whole = find_imports(language, piece.text)
    separator = SEPARATORS.get(language, "/")
    for one in found:
        if any(imports_module(one, module.removeprefix("node:"), separator, path) for module in forbidden):
            yield at, one.module, one.line
    if not whole:
        known = {one.line for one in found}
        lines = {line for module in forbidden for line in find_import_mentions(piece.text, module)} - known
        yield from ((at, "something like it", line) for line in sorted(lines))


def imports_module(imported: Import, module: str, separator: str, path: str) -> bool:
    name = imported.module
    stem = name.lstrip(".")
    if separator == "." and stem != name:  # a relative import of Python, by the folders of its file
        name = ".".join([*path.split("/")[: len(stem) - len(name)], *([stem] if stem else [])])
    if name == module or name.startswith(f"{module}{separator}"):
        return True
    if imported.is_wildcard and module.startswith(f"{name}{separator}"):
        return True
    return imported.module.startswith(".") and f"{separator}{module}{separator}" in f"{separator}{name}{separator}"


def is_unwanted_requirement(constraint: Constraint, requirement: Requirement) -> bool:
    if not same_name(requirement.name, str(constraint.options["name"]), requirement.dialect):
        return False
    if constraint.options.get("forbid"):
        return True
    try:
        wanted = parse_range(str(constraint.options["version"]))
        return not parse_range(requirement.versions, requirement.dialect).is_subset_of(wanted)
    except InvalidRange:
        return True

"""Rules between intents: ids, dependencies, parents, scopes, times. Pure, with bounded work.

`workspace.intents_file` finds faults within an intent; this module finds faults between intents, with their positions.
"""

import json
import re
from collections.abc import Container, Iterator, Mapping, Sequence
from contextlib import suppress
from datetime import datetime
from itertools import combinations, islice

from msgspec import Struct

from remit.core.intent import FINAL_STATUSES, LIST_FILE, Intent, LintCode, LintFinding, Severity, is_intent_id
from remit.core.scope.apart import Apart, Shared, Unproved, decide_apart
from remit.core.scope.path_patterns import Scope, find_literal_prefix

MAX_INTENTS = 1_000
"""Intents per file without a warning."""
MAX_PAIRS = 50_000
"""Pairs of intents in progress that are compared by folder: each pair of about 316 intents."""
MAX_COMPARED_PATTERNS = 2_000
"""Pairs of patterns of the scopes that are compared in full; a pair of scopes takes 0.1 to 5 ms."""
MAX_SHOWN_CYCLE = 10
_TIMESTAMP = re.compile(r"\d{4}-\d{2}-\d{2}T\d{2}:\d{2}(?::\d{2}(?:[.,]\d{1,9})?)?(?:Z|[+-]\d{2}:?\d{2})", re.ASCII)
_SEPARATOR = re.compile(r"\\[\w*]")
_RESERVED_FOLDER = re.compile(r"(?:\./|\*\*/|/)*\.(?:git|orchestration)(?:/|\Z)", re.IGNORECASE)


class FilePosition(Struct, frozen=True):
    """A position in the file; both 1-based."""

    line: int = 1
    column: int = 1


class PlacedIntent(Struct, frozen=True):
    """A parsed intent with the positions of its parts.

    `places` holds `""` for the intent, `field` for a value, `field.0` for a list's first item. `sound` is False after
    an error of the reader: the values are not trusted, but the id counts as known.
    """

    intent: Intent
    places: Mapping[str, FilePosition]
    sound: bool = True
    file: str = LIST_FILE

    def find_position(self, spot: str) -> FilePosition:
        places = self.places
        return places.get(spot) or places.get(spot.partition(".")[0]) or places.get("") or FilePosition()

    def make_finding(self, code: LintCode, message: str, spot: str = "", severity: Severity = "error") -> LintFinding:
        place, field = self.find_position(spot), spot.partition(".")[0] or None
        return LintFinding(code, severity, message, self.intent.id or None, field, place.line, place.column, self.file)


def parse_time(text: str) -> datetime | None:
    """Parse an ISO 8601 date and time with `Z` or an offset; None for any different text."""
    if _TIMESTAMP.fullmatch(text):
        with suppress(ValueError):
            return datetime.fromisoformat(text)
    return None


def describe_constraint(kind: str, options: Mapping[str, object]) -> str:
    """Return a structured constraint without own text in words: `max_lines: max=500`."""
    arguments = ", ".join(f"{key}={json.dumps(value, ensure_ascii=False)}" for key, value in options.items())
    return f"{kind}: {arguments}" if arguments else kind


def validate_intents(placed: Sequence[PlacedIntent], known: Container[str] = ()) -> tuple[LintFinding, ...]:
    """Return the findings between fields and intents, in file order. `known` are ids of intents in other files."""
    first: dict[str, PlacedIntent] = {}
    for item in placed:
        first.setdefault(item.intent.id, item)
    by_id = {intent_id: item for intent_id, item in first.items() if is_intent_id(intent_id)}
    findings = [
        *check_ids(placed),
        *_check_references(placed, by_id, known),
        *_check_cycles(by_id),
        *_check_overlaps([p for p in by_id.values() if p.sound and p.intent.status == "IN_PROGRESS"]),
        *(finding for item in placed if item.sound for finding in _check_completeness(item, by_id)),
    ]
    listed = [item for item in placed if item.file == LIST_FILE]
    if len(listed) > MAX_INTENTS:
        message = f"{len(listed)} intents in one file, over {MAX_INTENTS}; remove finished ones"
        findings.append(listed[MAX_INTENTS].make_finding("TOO_MANY_INTENTS", message, severity="warning"))
    return tuple(sorted(findings, key=lambda f: (f.line, f.column)))


def check_ids(placed: Sequence[PlacedIntent]) -> Iterator[LintFinding]:
    """Check the ids of a file's intents for duplicates."""
    first: dict[str, PlacedIntent] = {}
    for item in placed:
        name = item.intent.id
        if not is_intent_id(name):
            described = f"{name[:80]!r} is not an intent id" if name else "the intent has no id"
            yield item.make_finding("INVALID_ID_FORMAT", f"{described}; expected one like INT-001", "id")
        elif first.setdefault(name, item) is not item:
            line = first[name].find_position("id").line
            message = f"{name} is declared twice; the first is in line {line}. Run: remit intent renumber {name}"
            yield item.make_finding("DUPLICATE_ID", message, "id")


def _check_references(
    placed: Sequence[PlacedIntent], by_id: Mapping[str, PlacedIntent], known: Container[str]
) -> Iterator[LintFinding]:
    for item in placed:
        intent = item.intent
        for n, name in enumerate(intent.dependencies):
            if name == intent.id:
                yield item.make_finding("INVALID_DEPENDENCY", f"{name} depends on itself", f"dependencies.{n}")
            elif name not in by_id and name not in known:
                message = f"{name[:80]!r} is not an intent of this file; expected the id of an intent"
                yield item.make_finding("INVALID_DEPENDENCY", message, f"dependencies.{n}")
        parent = intent.parent_intent
        if parent is not None and parent == intent.id:
            yield item.make_finding("INVALID_PARENT", f"{parent} is its own parent", "parent_intent")
        elif parent is not None and parent not in by_id and parent not in known:
            message = f"{parent[:80]!r} is not an intent of this file; expected the id of an intent"
            yield item.make_finding("INVALID_PARENT", message, "parent_intent")


def _check_cycles(by_id: Mapping[str, PlacedIntent]) -> Iterator[LintFinding]:
    dependencies = {name: dict.fromkeys(item.intent.dependencies) for name, item in by_id.items()}
    for cycle in find_cycles(
        {name: [d for d in ids if d in by_id and d != name] for name, ids in dependencies.items()}
    ):
        last = by_id[cycle[-1]]
        spot = f"dependencies.{last.intent.dependencies.index(cycle[0])}"
        message = f"these intents depend on each other: {format_cycle(cycle)}"
        yield last.make_finding("CIRCULAR_DEPENDENCY", message, spot)
    parents = {name: item.intent.parent_intent for name, item in by_id.items()}
    for cycle in find_cycles({name: [up] if up in by_id and up != name else [] for name, up in parents.items()}):
        message = f"these intents are each other's parents: {format_cycle(cycle)}"
        yield by_id[cycle[-1]].make_finding("INVALID_PARENT", message, "parent_intent")


def find_cycles(edges: Mapping[str, Sequence[str | None]]) -> Iterator[tuple[str, ...]]:
    """Yield cycles of a directed graph: at least one per knot, at most one closed by each node.

    Depth first without recursion: a chain of 10,000 intents must not raise RecursionError.
    """
    finished: set[str] = set()
    for root in edges:
        if root in finished:
            continue
        depth = {root: 0}
        path = [root]
        iterators = [iter(edges[root])]
        closing: set[str] = set()
        while iterators:
            child = next(iterators[-1], None)
            if child is None:
                finished.add(path[-1])
                del depth[path.pop()]
                iterators.pop()
            elif child in depth:
                if path[-1] not in closing:
                    closing.add(path[-1])
                    yield tuple(path[depth[child] :])
            elif child not in finished:
                depth[child] = len(path)
                path.append(child)
                iterators.append(iter(edges[child]))


def format_cycle(cycle: Sequence[str]) -> str:
    omitted = len(cycle) - MAX_SHOWN_CYCLE + 1
    shown = cycle if omitted < 2 else [*cycle[: MAX_SHOWN_CYCLE - 1], f"… {omitted} more"]
    return " → ".join([*shown, cycle[0]])


def _check_completeness(item: PlacedIntent, by_id: Mapping[str, PlacedIntent]) -> Iterator[LintFinding]:
    """Check the times of an intent and, unless the intent ended, the criteria of its work."""
    intent = item.intent
    created, updated = parse_time(intent.created_at or ""), parse_time(intent.updated_at or "")
    if created and updated and updated < created:
        message = f"updated_at {intent.updated_at} is before created_at {intent.created_at}"
        yield item.make_finding("INVALID_TIMESTAMP", message, "updated_at", "warning")
    if intent.status in FINAL_STATUSES:
        return
    for n, pattern in enumerate(intent.owned_scope):
        if doubt := find_scope_doubt(pattern):
            yield item.make_finding("DOUBTFUL_SCOPE", f"{pattern[:80]!r} {doubt}", f"owned_scope.{n}", "warning")
    if not intent.constraints:
        message = f"{intent.id} has no constraints"
        yield item.make_finding("MISSING_CONSTRAINTS", message, "constraints", "warning")
    if not intent.acceptance_criteria:
        message = f"{intent.id} has no acceptance criteria, so nothing defines when the intent is done"
        yield item.make_finding("MISSING_ACCEPTANCE_CRITERIA", message, "acceptance_criteria", "warning")
    for n, name in enumerate(intent.dependencies if intent.status == "IN_PROGRESS" else ()):
        dependency = by_id.get(name)
        if dependency is None or dependency is item or not dependency.sound or dependency.intent.status == "DONE":
            continue
        message = f"{intent.id} is in progress, but its dependency {name} is {dependency.intent.status}"
        yield item.make_finding("UNFINISHED_DEPENDENCY", message, f"dependencies.{n}", "warning")


def find_scope_doubt(pattern: str) -> str | None:
    """Return why a scope's pattern cannot mean what it seems to, as a clause; None for a sound pattern."""
    body = pattern.removeprefix("!")
    if body != body.strip():
        return "begins or ends with white space, and so matches no path that an agent may name"
    if _SEPARATOR.search(body):
        return "has a backslash, which escapes the next character: separate folders by `/`"
    if _RESERVED_FOLDER.match(body):
        return "lies in git's or Remit's own folder, which no scope contains"
    return None


def _check_overlaps(working: Sequence[PlacedIntent]) -> Iterator[LintFinding]:
    budget = MAX_COMPARED_PATTERNS
    scopes = [
        (item, item.intent.owned_scope, [find_literal_prefix(p) for p in item.intent.owned_scope if p[:1] != "!"])
        for item in working
    ]
    for (a, patterns_a, folders_a), (b, patterns_b, folders_b) in islice(combinations(scopes, 2), MAX_PAIRS):
        if not any(x.startswith(y) or y.startswith(x) for x in folders_a for y in folders_b):
            continue
        budget -= len(folders_a) * len(folders_b)
        if budget < 0:
            break
        both = f"{a.intent.id} and {b.intent.id} are both in progress"
        match decide_apart(Scope(patterns_a), Scope(patterns_b)):
            case Shared(path):
                yield b.make_finding("SCOPE_OVERLAP", f"{both} and own {path!r}", "owned_scope", "warning")
            case Unproved(why):
                message = f"{both}, and their scopes may share a path: {why}"
                yield b.make_finding("SCOPE_OVERLAP", message, "owned_scope", "warning")
            case Apart():
                pass
    if budget < 0 or len(working) * (len(working) - 1) // 2 > MAX_PAIRS:
        message = f"{len(working)} intents are in progress: not every pair of scopes was compared"
        yield working[-1].make_finding("SCOPE_OVERLAP", message, "owned_scope", "warning")

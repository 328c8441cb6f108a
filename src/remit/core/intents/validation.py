"""Rules between intents: ids, dependencies, parents, scopes, times. Pure, with bounded work.

`workspace.intents_file` finds faults within an intent; this module finds faults between intents, with their positions.
"""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from itertools import combinations, islice

from msgspec import Struct

from remit.core.intent import FINAL_STATUSES, Intent, LintCode, LintFinding, Severity, is_intent_id
from remit.core.scope.globs import Scope
from remit.core.scope.overlap import find_overlap

MAX_INTENTS = 1_000
"""Intents per file without a warning."""

MAX_PAIRS = 50_000
"""Pairs of intents in progress that are compared by folder: each pair of about 316 intents."""

MAX_COMPARED_PATTERNS = 500
"""Pairs of patterns that are compared in full; a pair takes 0.1 to 2 ms."""

_TIMESTAMP = re.compile(r"\d{4}-\d{2}-\d{2}T\d{2}:\d{2}(?::\d{2}(?:[.,]\d{1,9})?)?(?:Z|[+-]\d{2}:?\d{2})", re.ASCII)
_SEPARATOR = re.compile(r"\\[\w*]")
_RESERVED_FOLDER = re.compile(r"(?:\./|\*\*/|/)*\.(?:git|orchestration)(?:/|\Z)", re.IGNORECASE)
_WILDCARD = re.compile(r"[*?\[{\\]")


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

    def find_position(self, spot: str) -> FilePosition:
        places = self.places
        return places.get(spot) or places.get(spot.partition(".")[0]) or places.get("") or FilePosition()

    def make_finding(self, code: LintCode, message: str, spot: str = "", severity: Severity = "error") -> LintFinding:
        place, field = self.find_position(spot), spot.partition(".")[0] or None
        name = self.intent.id or None
        return LintFinding(code, severity, message, name, field, place.line, place.column)


def parse_time(text: str) -> datetime | None:
    """Parse an ISO 8601 date and time with `Z` or an offset; None for any different text."""
    if _TIMESTAMP.fullmatch(text) is None:
        return None
    try:
        return datetime.fromisoformat(text)
    except ValueError:
        return None


def describe_constraint(kind: str, options: Mapping[str, object]) -> str:
    """Return a structured constraint without own text in words: `max_lines: max=500`."""
    arguments = ", ".join(f"{key}={json.dumps(value, ensure_ascii=False)}" for key, value in options.items())
    return f"{kind}: {arguments}" if arguments else kind


def validate_intents(placed: Sequence[PlacedIntent]) -> tuple[LintFinding, ...]:
    """Return the findings between fields and intents, in file order."""
    first: dict[str, PlacedIntent] = {}
    for item in placed:
        first.setdefault(item.intent.id, item)
    by_id = {intent_id: item for intent_id, item in first.items() if is_intent_id(intent_id)}
    findings = [
        *_check_ids(placed, first),
        *_check_dependencies(placed, by_id),
        *_check_dependency_cycles(by_id),
        *_check_parents(placed, by_id),
        *_check_parent_cycles(by_id),
        *_check_overlaps([p for p in by_id.values() if p.sound and p.intent.status == "IN_PROGRESS"]),
        *_check_completeness(placed, by_id),
    ]
    return tuple(sorted(findings, key=lambda f: (f.line, f.column)))


def _check_ids(placed: Sequence[PlacedIntent], first: Mapping[str, PlacedIntent]) -> Iterator[LintFinding]:
    for item in placed:
        intent_id = item.intent.id
        if not is_intent_id(intent_id):
            described = f"{intent_id[:80]!r} is not an intent id" if intent_id else "the intent has no id"
            yield item.make_finding("INVALID_ID_FORMAT", f"{described}; expected one like INT-001", "id")
        elif first[intent_id] is not item:
            line = first[intent_id].find_position("id").line
            message = f"{intent_id} is declared twice; the first is in line {line}"
            yield item.make_finding("DUPLICATE_ID", message, "id")


def _check_dependencies(placed: Sequence[PlacedIntent], by_id: Mapping[str, PlacedIntent]) -> Iterator[LintFinding]:
    for item in placed:
        for n, name in enumerate(item.intent.dependencies):
            spot = f"dependencies.{n}"
            if name == item.intent.id:
                yield item.make_finding("INVALID_DEPENDENCY", f"{name} depends on itself", spot)
            elif name not in by_id:
                message = f"{name[:80]!r} is not an intent of this file; expected the id of an intent"
                yield item.make_finding("INVALID_DEPENDENCY", message, spot)


def _check_parents(placed: Sequence[PlacedIntent], by_id: Mapping[str, PlacedIntent]) -> Iterator[LintFinding]:
    for item in placed:
        parent = item.intent.parent_intent
        if parent is None:
            continue
        if parent == item.intent.id:
            yield item.make_finding("INVALID_PARENT", f"{parent} is its own parent", "parent_intent")
        elif parent not in by_id:
            message = f"{parent[:80]!r} is not an intent of this file; expected the id of an intent"
            yield item.make_finding("INVALID_PARENT", message, "parent_intent")


def _check_dependency_cycles(by_id: Mapping[str, PlacedIntent]) -> Iterator[LintFinding]:
    edges = {
        name: tuple(d for d in dict.fromkeys(item.intent.dependencies) if d in by_id and d != name)
        for name, item in by_id.items()
    }
    for cycle in _find_cycles(edges):
        last = by_id[cycle[-1]]
        spot = f"dependencies.{last.intent.dependencies.index(cycle[0])}"
        yield last.make_finding(
            "CIRCULAR_DEPENDENCY", f"these intents depend on each other: {_format_cycle(cycle)}", spot
        )


def _check_parent_cycles(by_id: Mapping[str, PlacedIntent]) -> Iterator[LintFinding]:
    parents = {name: each.intent.parent_intent for name, each in by_id.items()}
    edges = {name: (up,) if up in by_id and up != name else () for name, up in parents.items() if up}
    for cycle in _find_cycles({name: edges.get(name, ()) for name in by_id}):
        message = f"these intents are each other's parents: {_format_cycle(cycle)}"
        yield by_id[cycle[-1]].make_finding("INVALID_PARENT", message, "parent_intent")


def _find_cycles(edges: Mapping[str, Sequence[str | None]]) -> Iterator[tuple[str, ...]]:
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


def _format_cycle(cycle: Sequence[str]) -> str:
    shown = list(cycle) if len(cycle) <= 10 else [*cycle[:9], f"… {len(cycle) - 9} more"]
    return " → ".join([*shown, cycle[0]])


def _check_overlaps(working: Sequence[PlacedIntent]) -> Iterator[LintFinding]:
    budget = MAX_COMPARED_PATTERNS
    pairs = islice(combinations([_IntentInProgress(p) for p in working], 2), MAX_PAIRS)
    for a, b in pairs:
        if not a.may_overlap(b):
            continue
        budget -= len(a.prefixes) * len(b.prefixes)
        if budget < 0:
            break
        example = find_overlap(a.scope, b.scope)
        if example is not None:
            message = f"{a.id} and {b.id} are both in progress and own {example!r}"
            yield b.placed.make_finding("SCOPE_OVERLAP", message, "owned_scope", "warning")
    if budget < 0 or len(working) * (len(working) - 1) // 2 > MAX_PAIRS:
        message = f"{len(working)} intents are in progress: not every pair of scopes was compared"
        yield working[-1].make_finding("SCOPE_OVERLAP", message, "owned_scope", "warning")


class _IntentInProgress:
    """An intent in progress, prepared for comparison."""

    def __init__(self, placed: PlacedIntent) -> None:
        self.placed = placed
        self.id = placed.intent.id
        self.scope = Scope(placed.intent.owned_scope)
        self.prefixes = tuple(_find_literal_prefix(p) for p in placed.intent.owned_scope if not p.startswith("!"))

    def may_overlap(self, other: "_IntentInProgress") -> bool:
        return any(a.startswith(b) or b.startswith(a) for a in self.prefixes for b in other.prefixes)


def _find_literal_prefix(pattern: str) -> str:
    """Return the literal folder, with a final slash, above the paths of `pattern`; the path itself without
    wildcards.
    """
    plain, *wild = _WILDCARD.split(pattern, maxsplit=1)
    parts = plain.split("/")[:-1] if wild else plain.split("/")
    return "".join(f"{part}/" for part in parts if part not in ("", "."))


def _check_completeness(placed: Sequence[PlacedIntent], by_id: Mapping[str, PlacedIntent]) -> Iterator[LintFinding]:
    for item in placed:
        if item.sound:
            yield from _check_intent(item, by_id)
    if len(placed) > MAX_INTENTS:
        message = f"{len(placed)} intents in one file, over {MAX_INTENTS}; remove finished ones"
        yield placed[MAX_INTENTS].make_finding("TOO_MANY_INTENTS", message, severity="warning")


def _check_intent(item: PlacedIntent, by_id: Mapping[str, PlacedIntent]) -> Iterator[LintFinding]:
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
    if intent.status == "IN_PROGRESS":
        yield from _check_unfinished_dependencies(item, by_id)


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


def _check_unfinished_dependencies(item: PlacedIntent, by_id: Mapping[str, PlacedIntent]) -> Iterator[LintFinding]:
    for n, name in enumerate(item.intent.dependencies):
        dependency = by_id.get(name)
        if dependency is None or dependency is item or not dependency.sound or dependency.intent.status == "DONE":
            continue
        message = f"{item.intent.id} is in progress, but its dependency {name} is {dependency.intent.status}"
        yield item.make_finding("UNFINISHED_DEPENDENCY", message, f"dependencies.{n}", "warning")

"""What must hold between intents: ids, dependencies, parents, scopes, times. Pure, and bounded in work.

The reader (`workspace.intents_file`) finds what is wrong within one intent; this finds what is wrong
among several, and says where each stands in the file.
"""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from itertools import combinations, islice

from msgspec import Struct

from remit.core.intent import FINAL_STATUSES, Intent, LintCode, LintFinding, Severity, is_intent_id
from remit.core.scope.globs import Scope, find_overlap

MAX_INTENTS = 1_000
"""More than this is warned about."""

MAX_PAIRS = 50_000
"""Pairs of IN_PROGRESS intents that are looked at for a shared folder: all of about 316 intents."""

MAX_COMPARED_PATTERNS = 500
"""Pairs of patterns that are compared in full; a pair takes from 0.1 to 2 ms."""

_TIMESTAMP = re.compile(r"\d{4}-\d{2}-\d{2}T\d{2}:\d{2}(?::\d{2}(?:[.,]\d{1,9})?)?(?:Z|[+-]\d{2}:?\d{2})", re.ASCII)
_SEPARATOR = re.compile(r"\\[\w*]")
_RESERVED_FOLDER = re.compile(r"(?:\./|\*\*/|/)*\.(?:git|orchestration)(?:/|\Z)", re.IGNORECASE)
_WILDCARD = re.compile(r"[*?\[{\\]")


class FilePosition(Struct, frozen=True):
    """Where something stands in the file; both 1-based."""

    line: int = 1
    column: int = 1


class PlacedIntent(Struct, frozen=True):
    """An intent as far as it could be read, and where its parts stand.

    `places` holds `""` for the intent, `field` for a value, `field.0` for the first item of a list.
    `sound` is False where the reader already found an error in it: its values are then not trusted,
    but its id still counts as known.
    """

    intent: Intent
    places: Mapping[str, FilePosition]
    sound: bool = True

    def find_position(self, spot: str) -> FilePosition:
        """Where `spot` stands: the item, else its field, else the intent."""
        places = self.places
        return places.get(spot) or places.get(spot.partition(".")[0]) or places.get("") or FilePosition()

    def make_finding(self, code: LintCode, message: str, spot: str = "", severity: Severity = "error") -> LintFinding:
        """A finding about this intent that points at `spot`."""
        place, field = self.find_position(spot), spot.partition(".")[0] or None
        name = self.intent.id or None
        return LintFinding(code, severity, message, name, field, place.line, place.column)


def parse_time(text: str) -> datetime | None:
    """An ISO 8601 date and time with `Z` or an offset; None where `text` is anything else."""
    if _TIMESTAMP.fullmatch(text) is None:
        return None
    try:
        return datetime.fromisoformat(text)
    except ValueError:
        return None


def describe_constraint(kind: str, options: Mapping[str, object]) -> str:
    """A structured constraint in words, for one that brings no text of its own: `max_lines: max=500`."""
    said = ", ".join(f"{key}={json.dumps(value, ensure_ascii=False)}" for key, value in options.items())
    return f"{kind}: {said}" if said else kind


def validate_intents(placed: Sequence[PlacedIntent]) -> tuple[LintFinding, ...]:
    """Every finding that takes more than one field or one intent to see, in the order of the file."""
    first: dict[str, PlacedIntent] = {}
    for each in placed:
        first.setdefault(each.intent.id, each)
    known = {intent_id: each for intent_id, each in first.items() if is_intent_id(intent_id)}
    findings = [
        *_check_ids(placed, first),
        *_check_dependencies(placed, known),
        *_check_dependency_cycles(known),
        *_check_parents(placed, known),
        *_check_parent_cycles(known),
        *_check_overlaps([p for p in known.values() if p.sound and p.intent.status == "IN_PROGRESS"]),
        *_check_completeness(placed, known),
    ]
    return tuple(sorted(findings, key=lambda f: (f.line, f.column)))


def _check_ids(placed: Sequence[PlacedIntent], first: Mapping[str, PlacedIntent]) -> Iterator[LintFinding]:
    for each in placed:
        intent_id = each.intent.id
        if not is_intent_id(intent_id):
            said = f"{intent_id[:80]!r} is not an intent id" if intent_id else "the intent has no id"
            yield each.make_finding("INVALID_ID_FORMAT", f"{said}; expected one like INT-001", "id")
        elif first[intent_id] is not each:
            line = first[intent_id].find_position("id").line
            message = f"{intent_id} is declared twice; the first is in line {line}"
            yield each.make_finding("DUPLICATE_ID", message, "id")


def _check_dependencies(placed: Sequence[PlacedIntent], known: Mapping[str, PlacedIntent]) -> Iterator[LintFinding]:
    for each in placed:
        for n, name in enumerate(each.intent.dependencies):
            spot = f"dependencies.{n}"
            if name == each.intent.id:
                yield each.make_finding("INVALID_DEPENDENCY", f"{name} depends on itself", spot)
            elif name not in known:
                message = f"{name[:80]!r} is no intent of this file; expected the id of one"
                yield each.make_finding("INVALID_DEPENDENCY", message, spot)


def _check_parents(placed: Sequence[PlacedIntent], known: Mapping[str, PlacedIntent]) -> Iterator[LintFinding]:
    for each in placed:
        parent = each.intent.parent_intent
        if parent is None:
            continue
        if parent == each.intent.id:
            yield each.make_finding("INVALID_PARENT", f"{parent} is its own parent", "parent_intent")
        elif parent not in known:
            message = f"{parent[:80]!r} is no intent of this file; expected the id of one"
            yield each.make_finding("INVALID_PARENT", message, "parent_intent")


def _check_dependency_cycles(known: Mapping[str, PlacedIntent]) -> Iterator[LintFinding]:
    edges = {
        name: tuple(d for d in dict.fromkeys(each.intent.dependencies) if d in known and d != name)
        for name, each in known.items()
    }
    for cycle in _find_cycles(edges):
        last = known[cycle[-1]]
        spot = f"dependencies.{last.intent.dependencies.index(cycle[0])}"
        yield last.make_finding("CIRCULAR_DEPENDENCY", f"these wait for each other: {_format_cycle(cycle)}", spot)


def _check_parent_cycles(known: Mapping[str, PlacedIntent]) -> Iterator[LintFinding]:
    parents = {name: each.intent.parent_intent for name, each in known.items()}
    edges = {name: (up,) if up in known and up != name else () for name, up in parents.items() if up}
    for cycle in _find_cycles({name: edges.get(name, ()) for name in known}):
        message = f"these are each other's parents: {_format_cycle(cycle)}"
        yield known[cycle[-1]].make_finding("INVALID_PARENT", message, "parent_intent")


def _find_cycles(edges: Mapping[str, Sequence[str | None]]) -> Iterator[tuple[str, ...]]:
    """Cycles of a directed graph, at least one of each knot, at most one closed by each node.

    Depth first without recursion: a chain of 10,000 intents must not end in a RecursionError.
    """
    done: set[str] = set()
    for root in edges:
        if root in done:
            continue
        depth = {root: 0}
        path = [root]
        todo = [iter(edges[root])]
        closed: set[str] = set()
        while todo:
            child = next(todo[-1], None)
            if child is None:
                done.add(path[-1])
                del depth[path.pop()]
                todo.pop()
            elif child in depth:
                if path[-1] not in closed:
                    closed.add(path[-1])
                    yield tuple(path[depth[child] :])
            elif child not in done:
                depth[child] = len(path)
                path.append(child)
                todo.append(iter(edges[child]))


def _format_cycle(cycle: Sequence[str]) -> str:
    shown = list(cycle) if len(cycle) <= 10 else [*cycle[:9], f"… {len(cycle) - 9} more"]
    return " → ".join([*shown, cycle[0]])


def _check_overlaps(working: Sequence[PlacedIntent]) -> Iterator[LintFinding]:
    left = MAX_COMPARED_PATTERNS
    pairs = islice(combinations([_IntentInProgress(p) for p in working], 2), MAX_PAIRS)
    for a, b in pairs:
        if not a.may_overlap(b):
            continue
        left -= len(a.prefixes) * len(b.prefixes)
        if left < 0:
            break
        example = find_overlap(a.scope, b.scope)
        if example is not None:
            message = f"{a.id} and {b.id} are both in progress and own {example!r}"
            yield b.placed.make_finding("SCOPE_OVERLAP", message, "owned_scope", "warning")
    if left < 0 or len(working) * (len(working) - 1) // 2 > MAX_PAIRS:
        message = f"{len(working)} intents are in progress: not every pair of scopes was compared"
        yield working[-1].make_finding("SCOPE_OVERLAP", message, "owned_scope", "warning")


class _IntentInProgress:
    """An intent in progress, made ready to be compared with many."""

    def __init__(self, placed: PlacedIntent) -> None:
        self.placed = placed
        self.id = placed.intent.id
        self.scope = Scope(placed.intent.owned_scope)
        self.prefixes = tuple(_find_literal_prefix(p) for p in placed.intent.owned_scope if not p.startswith("!"))

    def may_overlap(self, other: "_IntentInProgress") -> bool:
        """False only where the scopes cannot share a path: no two patterns begin in the same folder."""
        return any(a.startswith(b) or b.startswith(a) for a in self.prefixes for b in other.prefixes)


def _find_literal_prefix(pattern: str) -> str:
    """The folder, with its last slash, that all paths of `pattern` are in, or the path where it is plain."""
    plain, *wild = _WILDCARD.split(pattern, maxsplit=1)
    parts = plain.split("/")[:-1] if wild else plain.split("/")
    return "".join(f"{part}/" for part in parts if part not in ("", "."))


def _check_completeness(placed: Sequence[PlacedIntent], known: Mapping[str, PlacedIntent]) -> Iterator[LintFinding]:
    for each in placed:
        if each.sound:
            yield from _check_intent(each, known)
    if len(placed) > MAX_INTENTS:
        message = f"{len(placed)} intents in one file, over {MAX_INTENTS}; remove finished ones"
        yield placed[MAX_INTENTS].make_finding("TOO_MANY_INTENTS", message, severity="warning")


def _check_intent(each: PlacedIntent, known: Mapping[str, PlacedIntent]) -> Iterator[LintFinding]:
    intent = each.intent
    created, updated = parse_time(intent.created_at or ""), parse_time(intent.updated_at or "")
    if created and updated and updated < created:
        message = f"updated_at {intent.updated_at} is before created_at {intent.created_at}"
        yield each.make_finding("INVALID_TIMESTAMP", message, "updated_at", "warning")
    if intent.status in FINAL_STATUSES:
        return
    for n, pattern in enumerate(intent.owned_scope):
        if why := find_scope_doubt(pattern):
            yield each.make_finding("DOUBTFUL_SCOPE", f"{pattern[:80]!r} {why}", f"owned_scope.{n}", "warning")
    if not intent.constraints:
        message = f"{intent.id} has no constraints"
        yield each.make_finding("MISSING_CONSTRAINTS", message, "constraints", "warning")
    if not intent.acceptance_criteria:
        message = f"{intent.id} has no acceptance criteria: nothing says when it is done"
        yield each.make_finding("MISSING_ACCEPTANCE_CRITERIA", message, "acceptance_criteria", "warning")
    if intent.status == "IN_PROGRESS":
        yield from _check_unfinished_dependencies(each, known)


def find_scope_doubt(pattern: str) -> str | None:
    """Why a scope's pattern cannot mean what it seems to; None where nothing is wrong with it."""
    body = pattern.removeprefix("!")
    if body != body.strip():
        return "begins or ends with white space, as no path does that an agent may name"
    if _SEPARATOR.search(body):
        return "has a backslash, which takes the meaning from the next sign: folders are separated by `/`"
    if _RESERVED_FOLDER.match(body):
        return "lies where nothing is in any scope: git's and Remit's own folders"
    return None


def _check_unfinished_dependencies(each: PlacedIntent, known: Mapping[str, PlacedIntent]) -> Iterator[LintFinding]:
    for n, name in enumerate(each.intent.dependencies):
        other = known.get(name)
        if other is None or other is each or not other.sound or other.intent.status == "DONE":
            continue
        message = f"{each.intent.id} is in progress, but {name}, which it needs, is {other.intent.status}"
        yield each.make_finding("UNFINISHED_DEPENDENCY", message, f"dependencies.{n}", "warning")

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

from remit.core.globs import Scope, overlap
from remit.core.intent import FINAL, Intent, LintCode, LintFinding, Severity, is_intent_id

MOST_INTENTS = 1_000
"""More than this is warned about."""

MOST_PAIRS = 50_000
"""Pairs of IN_PROGRESS intents that are looked at for a shared folder: all of about 316 intents."""

MOST_COMPARED = 500
"""Pairs of patterns that are compared in full; a pair takes from 0.1 to 2 ms."""

_TIMESTAMP = re.compile(r"\d{4}-\d{2}-\d{2}T\d{2}:\d{2}(?::\d{2}(?:[.,]\d{1,9})?)?(?:Z|[+-]\d{2}:?\d{2})", re.ASCII)
_SEPARATOR = re.compile(r"\\[\w*]")
_NOBODYS = re.compile(r"(?:\./|\*\*/|/)*\.(?:git|orchestration)(?:/|\Z)", re.IGNORECASE)
_WILD = re.compile(r"[*?\[{\\]")


class Place(Struct, frozen=True):
    """Where something stands in the file; both 1-based."""

    line: int = 1
    column: int = 1


class Placed(Struct, frozen=True):
    """An intent as far as it could be read, and where its parts stand.

    `places` holds `""` for the intent, `field` for a value, `field.0` for the first item of a list.
    `sound` is False where the reader already found an error in it: its values are then not trusted,
    but its id still counts as known.
    """

    intent: Intent
    places: Mapping[str, Place]
    sound: bool = True

    def place(self, spot: str) -> Place:
        """Where `spot` stands: the item, else its field, else the intent."""
        places = self.places
        return places.get(spot) or places.get(spot.partition(".")[0]) or places.get("") or Place()

    def finding(self, code: LintCode, message: str, spot: str = "", severity: Severity = "error") -> LintFinding:
        """A finding about this intent that points at `spot`."""
        place, field = self.place(spot), spot.partition(".")[0] or None
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


def describe_rule(kind: str, options: Mapping[str, object]) -> str:
    """A structured constraint in words, for one that brings no text of its own: `max_lines: max=500`."""
    said = ", ".join(f"{key}={json.dumps(value, ensure_ascii=False)}" for key, value in options.items())
    return f"{kind}: {said}" if said else kind


def validate(placed: Sequence[Placed]) -> tuple[LintFinding, ...]:
    """Every finding that takes more than one field or one intent to see, in the order of the file."""
    first: dict[str, Placed] = {}
    for each in placed:
        first.setdefault(each.intent.id, each)
    known = {intent_id: each for intent_id, each in first.items() if is_intent_id(intent_id)}
    findings = [
        *_ids(placed, first),
        *_dependencies(placed, known),
        *_dependency_cycles(known),
        *_parents(placed, known),
        *_parent_cycles(known),
        *_overlaps([p for p in known.values() if p.sound and p.intent.status == "IN_PROGRESS"]),
        *_advice(placed, known),
    ]
    return tuple(sorted(findings, key=lambda f: (f.line, f.column)))


def _ids(placed: Sequence[Placed], first: Mapping[str, Placed]) -> Iterator[LintFinding]:
    for each in placed:
        intent_id = each.intent.id
        if not is_intent_id(intent_id):
            said = f"{intent_id[:80]!r} is not an intent id" if intent_id else "the intent has no id"
            yield each.finding("INVALID_ID_FORMAT", f"{said}; expected one like INT-001", "id")
        elif first[intent_id] is not each:
            line = first[intent_id].place("id").line
            message = f"{intent_id} is declared twice; the first is in line {line}"
            yield each.finding("DUPLICATE_ID", message, "id")


def _dependencies(placed: Sequence[Placed], known: Mapping[str, Placed]) -> Iterator[LintFinding]:
    for each in placed:
        for n, name in enumerate(each.intent.dependencies):
            spot = f"dependencies.{n}"
            if name == each.intent.id:
                yield each.finding("INVALID_DEPENDENCY", f"{name} depends on itself", spot)
            elif name not in known:
                message = f"{name[:80]!r} is no intent of this file; expected the id of one"
                yield each.finding("INVALID_DEPENDENCY", message, spot)


def _parents(placed: Sequence[Placed], known: Mapping[str, Placed]) -> Iterator[LintFinding]:
    for each in placed:
        parent = each.intent.parent_intent
        if parent is None:
            continue
        if parent == each.intent.id:
            yield each.finding("INVALID_PARENT", f"{parent} is its own parent", "parent_intent")
        elif parent not in known:
            message = f"{parent[:80]!r} is no intent of this file; expected the id of one"
            yield each.finding("INVALID_PARENT", message, "parent_intent")


def _dependency_cycles(known: Mapping[str, Placed]) -> Iterator[LintFinding]:
    edges = {
        name: tuple(d for d in dict.fromkeys(each.intent.dependencies) if d in known and d != name)
        for name, each in known.items()
    }
    for cycle in _cycles(edges):
        last = known[cycle[-1]]
        spot = f"dependencies.{last.intent.dependencies.index(cycle[0])}"
        yield last.finding("CIRCULAR_DEPENDENCY", f"these wait for each other: {_ring(cycle)}", spot)


def _parent_cycles(known: Mapping[str, Placed]) -> Iterator[LintFinding]:
    parents = {name: each.intent.parent_intent for name, each in known.items()}
    edges = {name: (up,) if up in known and up != name else () for name, up in parents.items() if up}
    for cycle in _cycles({name: edges.get(name, ()) for name in known}):
        message = f"these are each other's parents: {_ring(cycle)}"
        yield known[cycle[-1]].finding("INVALID_PARENT", message, "parent_intent")


def _cycles(edges: Mapping[str, Sequence[str | None]]) -> Iterator[tuple[str, ...]]:
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


def _ring(cycle: Sequence[str]) -> str:
    shown = list(cycle) if len(cycle) <= 10 else [*cycle[:9], f"… {len(cycle) - 9} more"]
    return " → ".join([*shown, cycle[0]])


def _overlaps(working: Sequence[Placed]) -> Iterator[LintFinding]:
    left = MOST_COMPARED
    pairs = islice(combinations([_Working(p) for p in working], 2), MOST_PAIRS)
    for a, b in pairs:
        if not a.may_meet(b):
            continue
        left -= len(a.heads) * len(b.heads)
        if left < 0:
            break
        example = overlap(a.scope, b.scope)
        if example is not None:
            message = f"{a.id} and {b.id} are both in progress and own {example!r}"
            yield b.placed.finding("SCOPE_OVERLAP", message, "owned_scope", "warning")
    if left < 0 or len(working) * (len(working) - 1) // 2 > MOST_PAIRS:
        message = f"{len(working)} intents are in progress: not every pair of scopes was compared"
        yield working[-1].finding("SCOPE_OVERLAP", message, "owned_scope", "warning")


class _Working:
    """An intent in progress, made ready to be compared with many."""

    def __init__(self, placed: Placed) -> None:
        self.placed = placed
        self.id = placed.intent.id
        self.scope = Scope(placed.intent.owned_scope)
        self.heads = tuple(_head(p) for p in placed.intent.owned_scope if not p.startswith("!"))

    def may_meet(self, other: "_Working") -> bool:
        """False only where the scopes cannot share a path: no two patterns begin in the same folder."""
        return any(a.startswith(b) or b.startswith(a) for a in self.heads for b in other.heads)


def _head(pattern: str) -> str:
    """The folder, with its last slash, that all paths of `pattern` are in, or the path where it is plain."""
    plain, *wild = _WILD.split(pattern, maxsplit=1)
    parts = plain.split("/")[:-1] if wild else plain.split("/")
    return "".join(f"{part}/" for part in parts if part not in ("", "."))


def _advice(placed: Sequence[Placed], known: Mapping[str, Placed]) -> Iterator[LintFinding]:
    for each in placed:
        if each.sound:
            yield from _advice_on(each, known)
    if len(placed) > MOST_INTENTS:
        message = f"{len(placed)} intents in one file, over {MOST_INTENTS}; remove finished ones"
        yield placed[MOST_INTENTS].finding("TOO_MANY_INTENTS", message, severity="warning")


def _advice_on(each: Placed, known: Mapping[str, Placed]) -> Iterator[LintFinding]:
    intent = each.intent
    created, updated = parse_time(intent.created_at or ""), parse_time(intent.updated_at or "")
    if created and updated and updated < created:
        message = f"updated_at {intent.updated_at} is before created_at {intent.created_at}"
        yield each.finding("INVALID_TIMESTAMP", message, "updated_at", "warning")
    if intent.status in FINAL:
        return
    for n, pattern in enumerate(intent.owned_scope):
        if why := doubt(pattern):
            yield each.finding("DOUBTFUL_SCOPE", f"{pattern[:80]!r} {why}", f"owned_scope.{n}", "warning")
    if not intent.constraints:
        message = f"{intent.id} has no constraints"
        yield each.finding("MISSING_CONSTRAINTS", message, "constraints", "warning")
    if not intent.acceptance_criteria:
        message = f"{intent.id} has no acceptance criteria: nothing says when it is done"
        yield each.finding("MISSING_ACCEPTANCE_CRITERIA", message, "acceptance_criteria", "warning")
    if intent.status == "IN_PROGRESS":
        yield from _waiting(each, known)


def doubt(pattern: str) -> str | None:
    """Why a scope's pattern cannot mean what it seems to; None where nothing is wrong with it."""
    body = pattern.removeprefix("!")
    if body != body.strip():
        return "begins or ends with white space, as no path does that an agent may name"
    if _SEPARATOR.search(body):
        return "has a backslash, which takes the meaning from the next sign: folders are separated by `/`"
    if _NOBODYS.match(body):
        return "lies where nothing is in any scope: git's and Remit's own folders"
    return None


def _waiting(each: Placed, known: Mapping[str, Placed]) -> Iterator[LintFinding]:
    for n, name in enumerate(each.intent.dependencies):
        other = known.get(name)
        if other is None or other is each or not other.sound or other.intent.status == "DONE":
            continue
        message = f"{each.intent.id} is in progress, but {name}, which it needs, is {other.intent.status}"
        yield each.finding("UNFINISHED_DEPENDENCY", message, f"dependencies.{n}", "warning")

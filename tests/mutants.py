"""Mutants of the pure rooms: changes of one place, named without line numbers. `benchmarks/mutate.py` tries them."""

import ast
import functools
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from types import CodeType
from typing import Any, TypeAlias, cast

from sources import ROOT, find_source, list_modules, name_source

SURVIVORS = ROOT / "tests" / "survivors.tsv"
MAX_TEXT_CHARS = 160
"""Characters of a node's code in the name of a mutant."""


@dataclass(frozen=True)
class Room:
    """Files that are mutated, as patterns from a room on, and the tests, of these tiers, that must notice."""

    name: str
    files: tuple[str, ...]
    tests: tuple[str, ...]
    tiers: str = "unit"


GATE_TESTS = (
    *("test_gate", "test_setbacks", "test_waiting_bound", "undo/test_undo", "undo/test_redirected_writes"),
    *("undo/test_stray_commits", "effects/test_effects", "effects/test_replays", "effects/test_changes_between_calls"),
    *("effects/test_stated_differences", "records/test_records", "records/test_trail", "facts/test_companions"),
    "records/test_unrecorded_calls",
)
ROOMS = (
    Room("policy", ("policy/**/*.py",), ("tests/policy",)),
    Room("ledger", ("ledger/**/*.py",), ("tests/ledger",)),
    Room(
        "fleet",
        tuple(f"remit_fleet/{name}.py" for name in ("schedule", "budget", "states", "trains")),
        ("tests/fleet",),
    ),
    Room("provenance", ("provenance/blame/*.py", "provenance/origins/*.py"), ("tests/provenance",)),
    # Each test of the gate has a real repository: none is a unit.
    Room(
        "gate",
        ("gate/enforce.py", "gate/remember.py"),
        tuple(f"tests/gate/{name}.py" for name in GATE_TESTS),
        "unit or system",
    ),
)

# -- operators -----------------------------------------------------------------------------------------------

Change: TypeAlias = tuple[str, ast.AST]  # an operator, and what it puts in the place of a node
BOUNDS: dict[type[ast.cmpop], type[ast.cmpop]] = {ast.Lt: ast.LtE, ast.LtE: ast.Lt, ast.Gt: ast.GtE, ast.GtE: ast.Gt}
OPPOSITES: dict[type[ast.cmpop], type[ast.cmpop]] = {
    ast.Eq: ast.NotEq, ast.NotEq: ast.Eq, ast.In: ast.NotIn, ast.NotIn: ast.In, ast.Is: ast.IsNot, ast.IsNot: ast.Is,
}  # fmt: skip
DEFAULTS = (ast.Constant, ast.Tuple, ast.List, ast.Dict, ast.JoinedStr)  # `x or ""` is no condition
UNMUTATED_FIELDS = {"annotation", "returns", "decorator_list", "args", "type_comment"}


@functools.cache
def find_enums() -> dict[str, str]:
    """Return for each member of a `Literal[…]` of the sources the member after it."""
    found: dict[str, str] = {}
    for path in list_modules():
        text = path.read_text("utf-8")
        for node in ast.walk(ast.parse(text if "Literal[" in text else "")):
            if isinstance(node, ast.Subscript) and isinstance(node.value, ast.Name) and node.value.id == "Literal":
                names = [
                    e.value
                    for e in ast.walk(node.slice)
                    if isinstance(e, ast.Constant) and isinstance(e.value, str) and e.value
                ]
                found = dict(zip(names, [*names[1:], *names[:1]], strict=True)) | found if len(names) > 1 else found
    return found


def mutate_condition(node: ast.AST) -> Iterator[Change]:
    """Yield what changes a comparison, `and`, `or`, `not`, `all`, `any`, or the filter of a comprehension."""
    match node:
        case ast.Compare(left, [operator], [right]):
            if type(operator) in BOUNDS:
                yield "comparison", ast.Compare(left, [BOUNDS[type(operator)]()], [right])
            else:
                yield "not", ast.Compare(left, [OPPOSITES[type(operator)]()], [right])
            if isinstance(right, ast.Constant) and type(right.value) is int and type(operator) not in BOUNDS:
                yield "comparison", ast.Compare(left, [operator], [ast.Constant(right.value + 1)])
        case ast.Compare(left, operators, rights):
            for n, operator in enumerate(operators):
                other = (BOUNDS | OPPOSITES)[type(operator)]()
                yield "comparison", ast.Compare(left, [*operators[:n], other, *operators[n + 1 :]], rights)
        case ast.BoolOp(operator, values) if not isinstance(values[-1], DEFAULTS):
            yield "and-or", ast.BoolOp(ast.Or() if isinstance(operator, ast.And) else ast.And(), values)
            for n in range(len(values)):
                rest = [*values[:n], *values[n + 1 :]]
                yield "drop", rest[0] if len(rest) == 1 else ast.BoolOp(operator, rest)
        case ast.UnaryOp(ast.Not(), value):
            yield "not", value
        case ast.Call(ast.Name("all" | "any" as name), arguments, keywords):
            yield "all-any", ast.Call(ast.Name("any" if name == "all" else "all", ast.Load()), arguments, keywords)
        case ast.comprehension(target, values, filters, is_async):
            for n in range(len(filters)):
                yield "drop", ast.comprehension(target, values, [*filters[:n], *filters[n + 1 :]], is_async)
        case _:
            pass


def mutate_value(node: ast.AST) -> Iterator[Change]:
    """Yield what changes a constant of an enum, a truth value, or which branch a value comes from."""
    match node:
        case ast.Constant(bool(value)):
            yield "constant", ast.Constant(not value)
        case ast.Constant(str(value)) if value in find_enums():
            yield "constant", ast.Constant(find_enums()[value])
        case ast.IfExp(_, yes, no) if not (is_text(yes) and is_text(no)):
            yield "branch", yes
            yield "branch", no
        case _:
            pass


def is_text(node: ast.AST) -> bool:
    return isinstance(node, ast.JoinedStr) or (isinstance(node, ast.Constant) and isinstance(node.value, str))


def mutate_statement(node: ast.AST, after: ast.AST | None) -> Iterator[Change]:
    """Yield what deletes a statement without a result, or returns what the other branch returns; `after` follows."""
    match node:
        case ast.Expr(ast.Call() | ast.Yield() | ast.YieldFrom()) | ast.AugAssign() | ast.Delete():
            yield "delete", ast.Pass()
        case ast.Continue() | ast.Break() | ast.Raise():
            yield "delete", ast.Pass()
        case ast.If(test, [*first, ast.Return() as given], others):
            if not others and not first:
                yield "delete", ast.Pass()
            other = others[-1] if others else after
            if isinstance(other, ast.Return) and ast.dump(given) != ast.dump(other):
                yield "branch", ast.If(test, [*first, other], others)
        case _:
            pass


def walk_places(parent: ast.AST) -> Iterator[tuple[ast.AST, str, int | None, ast.AST, ast.AST | None]]:
    """Yield (parent, field, index in the field or None, node, next node) below `parent`, in the order of the text."""
    for name, value in ast.iter_fields(parent):
        if name in UNMUTATED_FIELDS and not isinstance(parent, ast.Call):
            continue
        if isinstance(parent, ast.Dict) and name == "keys":
            continue
        nodes = cast("list[Any]", value) if isinstance(value, list) else [value]
        for number, node in enumerate(nodes):
            is_default = isinstance(parent, ast.BoolOp) and number == len(nodes) - 1 and isinstance(node, DEFAULTS)
            if isinstance(node, ast.AST) and not isinstance(node, ast.JoinedStr) and not is_default:
                after = nodes[number + 1] if number + 1 < len(nodes) else None
                yield parent, name, number if isinstance(value, list) else None, node, after
                yield from walk_places(node)


# -- mutants -------------------------------------------------------------------------------------------------


@dataclass
class Mutant:
    """One changed place. `key` names it without line numbers: file, function, operator, code before and after."""

    room: Room
    path: Path
    function: str
    key: tuple[str, str, str, str]
    tree: ast.Module = field(repr=False)
    place: tuple[ast.AST, str, int | None] = field(repr=False)
    fresh: ast.AST = field(repr=False)

    def compile_function(self) -> CodeType | None:
        """Return the changed code of the function; None if the change is no valid program."""
        parent, name, index = self.place
        values: Any = getattr(parent, name)
        former = values if index is None else values[index]
        try:
            self.put(ast.fix_missing_locations(ast.copy_location(self.fresh, former)))
            return find_code(compile(self.tree, str(self.path), "exec", dont_inherit=True), self.function)
        except (SyntaxError, ValueError, TypeError):
            return None
        finally:
            self.put(former)

    def put(self, node: ast.AST) -> None:
        parent, name, index = self.place
        if index is None:
            setattr(parent, name, node)
        else:
            getattr(parent, name)[index] = node


def find_code(code: CodeType, name: str) -> CodeType | None:
    inner = [constant for constant in code.co_consts if isinstance(constant, CodeType)]
    found = (one if one.co_qualname == name else find_code(one, name) for one in inner)
    return next((one for one in found if one is not None), None)


def list_functions(tree: ast.AST, prefix: str = "") -> Iterator[tuple[str, ast.FunctionDef | ast.AsyncFunctionDef]]:
    """Yield the functions of a module and the methods of its classes; a function inside belongs to its outer one."""
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield f"{prefix}{node.name}", node
        elif isinstance(node, ast.ClassDef):
            yield from list_functions(node, f"{prefix}{node.name}.")


def list_sources(room: Room) -> list[Path]:
    places = [pattern.split("/", 1) for pattern in room.files]
    return sorted(path for folder, pattern in places for path in find_source(folder).glob(pattern))


def list_mutants(room: Room) -> Iterator[Mutant]:
    for path in list_sources(room):
        yield from mutate_source(room, path, path.read_text("utf-8"))


def mutate_source(room: Room, path: Path, text: str) -> Iterator[Mutant]:
    tree = ast.parse(text)
    file = name_source(path) if path.is_absolute() else path.name
    for name, function in list_functions(tree):
        seen: dict[tuple[str, str], int] = {}
        for parent, at, index, node, after in walk_places(function):
            for operator, fresh in (*mutate_condition(node), *mutate_value(node), *mutate_statement(node, after)):
                change = f"{unparse(node)} → {unparse(fresh)}"
                number = seen[operator, change] = seen.get((operator, change), 0) + 1
                key = (file, name, operator, change + (f" #{number}" if number > 1 else ""))
                yield Mutant(room, path, name, key, tree, (parent, at, index), fresh)


def unparse(node: ast.AST) -> str:
    """Return the code of a node in one line; a long one is cut."""
    text = re.sub(r"\s*\n\s*", " ", ast.unparse(ast.fix_missing_locations(node))).strip()
    return text if len(text) <= MAX_TEXT_CHARS else f"{text[:MAX_TEXT_CHARS]}…"


def read_survivors() -> dict[tuple[str, ...], str]:
    """Return the mutants that no test can see, with the reason."""
    rows = [line.split("\t") for line in SURVIVORS.read_text("utf-8").splitlines()[1:]]
    return {tuple(row[:4]): row[4] for row in rows}

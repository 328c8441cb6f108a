"""Variables that the text sets."""

from typing import TYPE_CHECKING

from remit.policy.commands.programs import VARIABLE
from remit.policy.commands.tables import HARMLESS_NAMES
from remit.policy.commands.walk import Proof, Walk
from remit.policy.commands.words import Refused, Word, source

if TYPE_CHECKING:
    from tree_sitter import Node


def assigned(walk: Walk, node: "Node") -> tuple[str, Word]:
    """The name and the value of an assignment; raises Refused."""
    match node.children:
        case [name, sign] if sign.type == "=" and name.type == "variable_name":
            value = Word("")
        case [name, sign, text] if sign.type == "=" and name.type == "variable_name":
            value = value_of(walk, text)
        case _:
            raise Refused(f"the assignment {source(node)!r} is not on the tables")
    ends = [child.end_byte for child in node.children[:-1]]
    if ends != [child.start_byte for child in node.children[1:]]:
        raise Refused(f"the assignment {source(node)!r} is not understood")
    return source(node.children[0]), value


def value_of(walk: Walk, node: "Node") -> Word:
    """The value as a word; of an array nothing is known."""
    if node.type != "array":
        return walk.read_word(node)
    words = [walk.read_word(child) for child in walk.text.children(node) if child.type not in ("(", ")")]
    return Word("", literal=False, inner=tuple(inner for word in words for inner in word.inner))


def assignment(walk: Walk, node: "Node") -> Proof:
    """`x=…` by itself; raises Refused."""
    name, value = assigned(walk, node)
    check_name(walk, name)
    proof = walk.inner((value,))
    walk.state = walk.state.assigned(name, None if ":~" in value.text else value)
    return proof


def declaration(walk: Walk, node: "Node") -> Proof:
    """`export x=…`, `local x=…`, `readonly x=…`, without options."""
    proof = Proof()
    for child in walk.text.separated(walk.text.children(node))[1:]:
        if child.type != "variable_assignment" or node.children[0].type not in ("export", "local", "readonly"):
            raise Refused(f"{source(node)[:60]!r} is not on the tables")
        proof += assignment(walk, child)
    return proof


def check_name(walk: Walk, name: str) -> None:
    """Whether setting a variable leaves programs as they are; raises Refused."""
    if not VARIABLE.fullmatch(name) and name not in HARMLESS_NAMES:
        raise Refused(f"setting {name!r} may change what a program does")

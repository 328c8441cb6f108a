"""What runs one after the other, beside each other, several times, or only in one case."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from remit.policy.commands.assignments import check_name
from remit.policy.commands.conditions import pattern
from remit.policy.commands.redirects import REDIRECTS, with_redirects
from remit.policy.commands.state import State, bound, merged
from remit.policy.commands.walk import TOKENS, Proof, Walk
from remit.policy.commands.words import Refused, Word, source

if TYPE_CHECKING:
    from tree_sitter import Node

MOST_ROUNDS = 32
"""Words of a loop's list that are each gone through."""


def subshell(walk: Walk, node: "Node") -> Proof:
    """`( … )`: nothing that it sets lasts."""
    with walk.apart():
        return walk.block(node)


def negated(walk: Walk, node: "Node") -> Proof:
    """`! …`"""
    proof = walk.block(node)
    walk.settle()
    return proof


def listed(walk: Walk, node: "Node", redirects: Sequence["Node"] = ()) -> Proof:
    """`a && b`, `a || b`. A redirect that the grammar gives to the whole is the last command's."""
    match walk.text.children(node):
        case [left, sign, right] if sign.type in ("&&", "||"):
            pass
        case _:
            raise Refused(f"{source(node)[:60]!r} is not understood")
    walk.text.check_start(sign, right)
    proof = walk.statement(left)
    succeeded, failed = walk.state, walk.failed or walk.state
    walk.state = succeeded if sign.type == "&&" else walk.failed or walk.unmoved or walk.state
    proof += with_redirects(walk, right, redirects) if redirects else walk.statement(right)
    if sign.type == "&&":
        walk.failed = merged(failed, walk.failed or walk.state)
    else:
        walk.state, walk.failed = merged(succeeded, walk.state), walk.failed or walk.state
    return proof


def pipeline(walk: Walk, node: "Node", redirects: Sequence["Node"] = ()) -> Proof:
    """Each part in a shell of its own, fed by the one before; but zsh runs the last one itself.

    A redirect that the grammar gives to the whole is the last part's.
    """
    proof = Proof()
    before: Node | None = None
    lists = walk.fed
    end = walk.state
    parts = walk.text.children(node)
    for child in parts:
        if child.is_named:
            walk.text.check_start(before, child)
            with walk.apart():
                walk.fed = lists
                last = child == parts[-1] and redirects
                proof += with_redirects(walk, child, redirects) if last else walk.statement(child)
                lists = walk.lists if is_simple(child) else None
                end = walk.state
        elif child.type not in ("|", "|&"):
            raise Refused(f"{child.type!r} in a pipeline is not on the tables")
        before = child
    walk.state = merged(walk.state, end)
    return proof


def branches(walk: Walk, node: "Node") -> Proof:
    """`if … then … elif … else … fi`: any of the branches, or none."""
    proof = Proof()
    parts: list[list[Node]] = [[]]
    for child in walk.text.children(node):
        if child.type in ("then", "else"):
            parts.append([])
        elif child.type in ("elif_clause", "else_clause"):
            parts.append([child])
        elif child.type not in ("if", "elif", "fi"):
            parts[-1].append(child)
    ends: list[State] = []
    proof += walk.statements(parts[0], node)
    walk.settle()
    start = walk.state
    for part in parts[1:]:
        walk.state = start
        proof += walk.statements(part, node)
        walk.settle()
        ends.append(walk.state)
    walk.state = start
    for end in ends:
        walk.state = merged(walk.state, end)
    return proof


def while_loop(walk: Walk, node: "Node") -> Proof:
    """`while … do … done`, and `until`."""
    children = walk.text.children(node)
    return walk.repeated(lambda: walk.statements(children, node))


def for_loop(walk: Walk, node: "Node") -> Proof:
    """`for name in words; do …; done`."""
    children = walk.text.children(node)
    named = [child for child in children if child.type == "variable_name"]
    tokens = [child.type for child in children if not child.is_named]
    bodies = [child for child in children if child.type == "do_group"]
    if len(named) != 1 or len(bodies) != 1 or not {*tokens} <= {"for", "in", ";"}:
        raise Refused(f"{source(node)[:60]!r} is not on the tables")
    name = source(named[0])
    check_name(walk, name)
    values = [c for c in children if c.is_named and c not in (*named, *bodies)]
    words = [word for child in walk.text.separated(values) for word in walk.read_words(child)]
    proof = walk.inner(words)
    rounds = [bound(word) for word in words] if len(words) <= MOST_ROUNDS else []
    if not rounds or None in rounds:
        return proof + walk.repeated(lambda: once_through(walk, name, None, bodies[0]))
    ends: list[State] = []
    for value in rounds:
        several = value is not None and not value.literal
        proof += walk.repeated(lambda v=value: once_through(walk, name, v, bodies[0]), once=not several)
        ends.append(walk.state)
    for end in ends:
        walk.state = merged(walk.state, end)
    return proof


def once_through(walk: Walk, name: str, value: Word | None, body: "Node") -> Proof:
    """Once through a loop."""
    walk.state = walk.state.assigned(name, value)
    return walk.block(body)


def case(walk: Walk, node: "Node") -> Proof:
    """`case … esac`: any of its parts, or none."""
    proof = Proof()
    ends: list[State] = []
    start = walk.state
    for child in walk.text.children(node):
        if child.type == "case_item":
            walk.state = start
            proof += case_item(walk, child)
            walk.settle()
            ends.append(walk.state)
        elif child.is_named and child.type != "comment":
            proof += walk.inner((walk.read_word(child),))
            start = walk.state
        elif child.type not in ("case", "in", "esac", ";"):
            raise Refused(f"{source(node)[:60]!r} is not on the tables")
    walk.state = start
    for end in ends:
        walk.state = merged(walk.state, end)
    return proof


def case_item(walk: Walk, node: "Node") -> Proof:
    """One part of it."""
    proof = Proof()
    before: Node | None = None
    for index, child in enumerate(walk.text.children(node)):
        if node.field_name_for_child(index) == "value":
            proof += case_pattern(walk, child)
        elif child.is_named:
            walk.text.check_start(before, child)
            walk.settle()
            proof += walk.statement(child)
        elif child.type not in TOKENS | {";;"}:
            raise Refused(f"{child.type!r} is not on the tables")
        before = child
    return proof


def case_pattern(walk: Walk, node: "Node") -> Proof:
    """What stands before its `)`."""
    if node.type == "extglob_pattern":
        pattern(node)
        return Proof()
    return walk.inner((walk.read_word(node),))


def comment(walk: Walk, node: "Node") -> Proof:
    """Nothing, where it is one."""
    walk.text.check_comment(node)
    return Proof()


def redirected(walk: Walk, node: "Node") -> Proof:
    """A statement with redirects, which the grammar may have given to more than their own."""
    children = walk.text.children(node)
    body = [child for child in children if child.type not in REDIRECTS]
    redirects = [child for child in children if child.type in REDIRECTS]
    if len(body) == 1 and body[0].type in ("list", "pipeline"):
        several = listed if body[0].type == "list" else pipeline
        return several(walk, body[0], redirects)
    if len(body) > 1:
        raise Refused(f"{source(node)[:60]!r} is not understood")
    return with_redirects(walk, body[0], redirects) if body else walk.all(redirects)


def is_simple(node: "Node") -> bool:
    """Whether it is one command, so that its output is that command's."""
    first = node.children[0] if node.type == "redirected_statement" and node.children else node
    return first.type == "command"

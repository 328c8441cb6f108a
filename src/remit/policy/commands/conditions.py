"""`[ … ]` and `[[ … ]]`: their words, where each operator is one that evaluates nothing."""

import re
from collections.abc import Iterable
from typing import TYPE_CHECKING

from remit.policy.commands.programs import check_test
from remit.policy.commands.tables import CONDITION_WORDS, EVALUATING
from remit.policy.commands.walk import Walk
from remit.policy.commands.words import Refused, Word, source

if TYPE_CHECKING:
    from tree_sitter import Node


def condition_words(walk: Walk, node: "Node") -> tuple[Word, ...]:
    """The words of the condition; raises Refused."""
    nodes = list(tested(walk, node))
    if node.children[0].type == "[[":
        return tuple(compared(walk, child) for child in nodes)
    return bracket(walk, nodes)


def tested(walk: Walk, node: "Node") -> Iterable["Node"]:
    """The words inside, operators included, in order."""
    pending = list(reversed(walk.text.children(node)[1:-1]))
    while pending:
        child = pending.pop()
        if child.type in ("unary_expression", "binary_expression", "parenthesized_expression"):
            pending += reversed(walk.text.children(child))
        else:
            yield child


def bracket(walk: Walk, nodes: list["Node"]) -> tuple[Word, ...]:
    """The words of `[ … ]`, in which the grammar takes a redirect for a comparison; raises Refused."""
    if any(node.type in ("<", ">", "(", ")", "&&", "||") for node in nodes):
        raise Refused("`[` with a redirect or a list is not understood")
    words = tuple(walk.read_word(node) for node in walk.text.separated(nodes))
    check_test(words)
    return words


def compared(walk: Walk, node: "Node") -> Word:
    """One word of `[[ … ]]`, where nothing is split; raises Refused."""
    text = source(node)
    operator = not node.is_named or node.type == "test_operator"
    if (operator and text not in CONDITION_WORDS) or text in EVALUATING:
        raise Refused(f"{text!r} in a condition may evaluate what it is given")
    if operator:
        return Word(text)
    if node.type in ("regex", "extglob_pattern"):
        return pattern(node)
    return walk.read_word(node)


def pattern(node: "Node") -> Word:
    """A pattern in which nothing expands; raises Refused."""
    text = source(node)
    if re.search(r"[\s;&<>`'\"\\]|\$[^)|]", text):
        raise Refused(f"the pattern {text!r} is not understood")
    return Word("", literal=False)

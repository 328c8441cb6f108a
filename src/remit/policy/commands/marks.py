"""Marks in a command for the eyes of a person: the dangerous words, and the operators between the parts.

Marks do not decide. An unreadable command has no marks, and is shown unchanged.
"""

import re
from bisect import bisect_right
from collections.abc import Iterator
from itertools import accumulate
from typing import TYPE_CHECKING, Literal, TypeAlias

from msgspec import Struct

from remit.policy.commands.dangers import DANGER_SIGNS, MAX_CHARS, find_danger, find_dangerous_words
from remit.policy.commands.parsed_command import mask_text, parse_tree, unmask_text
from remit.policy.commands.words import UnprovedCommand, node_source

if TYPE_CHECKING:
    from tree_sitter import Node

MarkKind: TypeAlias = Literal["danger", "operator"]
OPERATORS = ("&&", "||", "|", "|&", ";", "&", ";;", "file_redirect", "heredoc_redirect", "herestring_redirect")
QUOTES = "\"'"


class CommandMark(Struct, frozen=True):
    """A part of a command, from the character `start` up to `end`."""

    start: int
    end: int
    kind: MarkKind


def mark_command(text: str) -> tuple[CommandMark, ...]:
    """Return the marks of a command in their order; no two overlap."""
    if len(text) > MAX_CHARS:
        return ()
    try:
        root = parse_tree(mask_text(text))
    except (UnprovedCommand, UnicodeEncodeError):
        root = None
    signs = (match.span() for sign, _ in DANGER_SIGNS for match in re.finditer(rf"(?:{sign})\S*", text))
    found = [CommandMark(*span, "danger") for span in signs]
    if root is not None:
        # The parsed text holds two letters of two bytes for each byte of a character outside ASCII.
        starts = [0, *accumulate(1 if char.isascii() else 4 * len(char.encode()) for char in text)]
        kinds: tuple[tuple[MarkKind, Iterator[Node]], ...] = (
            ("danger", find_dangerous_nodes(root)),
            ("operator", find_operators(root)),
        )
        for kind, nodes in kinds:
            for node in nodes:
                start, end = (bisect_right(starts, offset) - 1 for offset in (node.start_byte, node.end_byte))
                found.append(CommandMark(start, end, kind))
    # A danger that no part shows alone, such as one in a script's text, is the whole command's.
    if all(mark.kind != "danger" for mark in found) and find_danger(text) is not None:
        return (CommandMark(0, len(text), "danger"),)
    return tuple(exclude_overlaps(found))


def find_dangerous_nodes(node: "Node") -> Iterator["Node"]:
    if node.type == "command":
        words = find_dangerous_words(read_source(node))
        parts = [child for child in node.children if child.type != "variable_assignment"]
        spelled = {part.id: read_source(part).strip(QUOTES) for part in parts}
        marked = [part for part in parts if spelled[part.id].rpartition("/")[2] in words or spelled[part.id] in words]
        if not marked:  # the word stands in a script, as in `sh -c 'git push --force'`
            marked = [part for part in parts if any(word in spelled[part.id] for word in words)]
        yield from marked
    is_pipe = node.type == "pipeline" and find_danger(read_source(node)) is not None
    if is_pipe and not any(find_dangerous_words(read_source(child)) for child in node.children):
        yield from (part for child in node.children for part in child.children if part.type == "command_name")
    for child in node.children:
        yield from find_dangerous_nodes(child)


def find_operators(node: "Node") -> Iterator["Node"]:
    for child in node.children:
        if child.type in OPERATORS:
            yield child
        else:
            yield from find_operators(child)


def read_source(node: "Node") -> str:
    return unmask_text(node_source(node))


def exclude_overlaps(marks: list[CommandMark]) -> Iterator[CommandMark]:
    end = 0
    for mark in sorted(marks, key=lambda m: (m.start, m.kind != "danger", -m.end)):
        if mark.start >= end:
            yield mark
            end = mark.end

"""Processes left running at the end of a command, as shown by the text and the call."""

import re
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from remit.policy.commands.parse.command import parse_command
from remit.policy.commands.parse.options import word_set
from remit.policy.commands.parse.words import UnprovedCommand
from remit.policy.commands.programs.row import ANY_USE
from remit.policy.commands.programs.table import PROGRAMS, find_program, has_role

if TYPE_CHECKING:
    from tree_sitter import Node

BACKGROUND_ARGUMENTS = ("run_in_background", "is_background")
"""The arguments by which agents start a command in the background."""

LONE_AMPERSAND = re.compile(r"(?<![&>|<\\])&(?![&>])")
"""An `&` that may start a background job; most commands have none."""

ENDING_PROGRAMS = word_set("wait kill pkill fg")
"""Programs by which a script ends its own background jobs, or waits for them."""

DETACHING_PROGRAMS = sorted(name for name, program in PROGRAMS.items() if program.background)
DETACHING_HINT = re.compile("|".join((LONE_AMPERSAND.pattern, *map(re.escape, DETACHING_PROGRAMS))))
"""A part of every text that leaves a process running; most texts have none and are not parsed."""

WITHOUT_QUOTES = str.maketrans("", "", "'\"\\")
STRING_NODES = word_set("string raw_string ansi_c_string heredoc_body")
NON_WORD_NODES = word_set("variable_assignment file_redirect heredoc_redirect herestring_redirect")
MAX_SHELL_DEPTH = 5
"""`bash -c` within `bash -c`."""


def leaves_process_running(command: str) -> bool:
    """Return True if the command starts a job by `&` and neither waits for the job nor ends it."""
    if not LONE_AMPERSAND.search(command):
        return False
    try:
        return has_unattended_job(list(walk_nodes(parse_command(command).tree)))
    except UnprovedCommand:
        return False


def find_background_word(command: str, arguments: Mapping[str, Any]) -> str:
    """Return the word by which a call leaves a process running; empty if none shows.

    Stricter than `leaves_process_running`: scripts within the command are searched as well, and an `&` in an
    unreadable text counts.
    """
    argument = next((key for key in BACKGROUND_ARGUMENTS if arguments.get(key)), "")
    if argument or not DETACHING_HINT.search(command.translate(WITHOUT_QUOTES)):
        return argument
    return find_background_word_in(command, 0)


def find_background_word_in(command: str, depth: int) -> str:
    """Return the word within a text that `depth` shells run."""
    try:
        nodes = list(walk_nodes(parse_command(command).tree))
    except UnprovedCommand:
        return "&" if LONE_AMPERSAND.search(command) else ""
    if has_unattended_job(nodes):
        return "&"
    commands = [command_words(node) for node in nodes if node.type == "command"]
    detaching = next((word for words in commands if (word := find_detaching_program(words))), "")
    if detaching or depth >= MAX_SHELL_DEPTH:
        return detaching
    if not any(has_role(word, "shell") or word == "eval" for words in commands for word in words):
        return ""
    texts = (node_text(node).strip("\"'") for node in nodes if node.type in STRING_NODES)
    return next((word for text in texts if (word := find_background_word_in(text, depth + 1))), "")


def has_unattended_job(nodes: list["Node"]) -> bool:
    """Return True if a job is started in the background, and no command waits for jobs or ends them."""
    ran = {node_text(node) for node in nodes if node.type == "command_name"}
    return any(is_background_operator(node) for node in nodes) and not ran & ENDING_PROGRAMS


def is_background_operator(node: "Node") -> bool:
    """Return True for the `&` of the shell, False for the `&` of arithmetic."""
    return node.type == "&" and (node.parent is None or node.parent.type != "binary_expression")


def find_detaching_program(words: list[str]) -> str:
    """Return the program of a simple command, or of its inner command, that leaves a process running."""
    wraps = has_role(words[0], "runner", "wrapper")
    for at, word in enumerate(words if wraps else words[:1]):
        rest = words[at + 1 :]
        waits = word == "setsid" and bool({"-w", "--wait"} & set(rest))
        verbs = find_program(word).background
        if not waits and (verbs == ANY_USE or not word_set(verbs).isdisjoint(rest)):
            return word
    return ""


def command_words(command: "Node") -> list[str]:
    """Return the words of a simple command without quotes, and without the folders of paths."""
    texts = [node_text(node).translate(WITHOUT_QUOTES) for node in command.children if node.type not in NON_WORD_NODES]
    return [text.rpartition("/")[2] for text in texts] or [""]


def node_text(node: "Node") -> str:
    return (node.text or b"").decode("utf-8", "replace")


def walk_nodes(node: "Node") -> Iterator["Node"]:
    yield node
    for child in node.children:
        yield from walk_nodes(child)

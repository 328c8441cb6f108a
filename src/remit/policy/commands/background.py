"""Whether a command leaves something running when it ends, as far as its text and its call tell."""

import re
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from remit.policy.commands.parse.options import word_set
from remit.policy.commands.parse.syntax_tree import mask_text, parse_tree
from remit.policy.commands.parse.words import UnprovedCommand
from remit.policy.commands.programs.danger_rules import SHELLS, WRAPPER_PROGRAMS

if TYPE_CHECKING:
    from tree_sitter import Node

BACKGROUND_ARGUMENTS = ("run_in_background", "is_background")
"""The arguments by which agents start a command and go on."""

LONE_AMPERSAND = re.compile(r"(?<![&>|<\\])&(?![&>])")
"""An `&` that may put something into the background; most commands hold none."""

ENDING_PROGRAMS = word_set("wait kill pkill fg")
"""What a text that looks after its background processes itself says."""

DETACHING_PROGRAMS = word_set(
    "nohup setsid disown coproc daemonize daemon start-stop-daemon systemd-run pm2 forever at batch"
)
"""Programs that are there to leave something running. `setsid -w` waits."""

TERMINAL_VERBS: Mapping[str, frozenset[str]] = {
    "tmux": word_set("new new-session neww new-window split-window splitw send send-keys respawn-pane run run-shell"),
    "screen": word_set("-dm -dmS -d -X"),
}
"""Programs that keep a terminal for others, and the words by which they run something in it."""

DETACHING_HINT = re.compile(
    "|".join((LONE_AMPERSAND.pattern, *map(re.escape, sorted(DETACHING_PROGRAMS)), *TERMINAL_VERBS))
)
"""What every such text holds, its quotes taken out; most hold none, and are not parsed."""

WITHOUT_QUOTES = str.maketrans("", "", "'\"\\")
STRING_NODES = word_set("string raw_string ansi_c_string heredoc_body")
MAX_SHELL_DEPTH = 5
"""`bash -c` within `bash -c`."""


def leaves_process_running(command: str) -> bool:
    """Whether it puts something into the background (`&`) and neither waits for it nor ends it."""
    if not LONE_AMPERSAND.search(command):
        return False
    try:
        return has_unattended_job(list(walk_nodes(parse_tree(mask_text(command)))))
    except UnprovedCommand:
        return False


def find_background_word(command: str, arguments: Mapping[str, Any]) -> str:
    """The word by which a call leaves something running; empty where none shows.

    Stricter than `leaves_process_running`: what a shell is given to run is looked into, and a text that cannot be
    read leaves
    something where it holds an `&`.
    """
    argument = next((key for key in BACKGROUND_ARGUMENTS if arguments.get(key)), "")
    if argument or not DETACHING_HINT.search(command.translate(WITHOUT_QUOTES)):
        return argument
    return find_background_word_in(command, 0)


def find_background_word_in(command: str, depth: int) -> str:
    """The same of a text, inside `depth` shells."""
    try:
        found = list(walk_nodes(parse_tree(mask_text(command))))
    except UnprovedCommand:
        return "&" if LONE_AMPERSAND.search(command) else ""
    if has_unattended_job(found):
        return "&"
    commands = [command_words(node) for node in found if node.type == "command"]
    named = next((word for words in commands if (word := find_detaching_program(words))), "")
    if named or depth >= MAX_SHELL_DEPTH or not any(runs_script_text(words) for words in commands):
        return named
    texts = (node_text(node).strip("\"'") for node in found if node.type in STRING_NODES)
    return next((word for text in texts if (word := find_background_word_in(text, depth + 1))), "")


def has_unattended_job(found: list["Node"]) -> bool:
    """Whether something is put into the background, and nothing there waits for it or ends it."""
    ran = {node_text(node) for node in found if node.type == "command_name"}
    return any(is_background_operator(node) for node in found) and not ran & ENDING_PROGRAMS


def is_background_operator(node: "Node") -> bool:
    """Whether this is the `&` of a shell, and not that of arithmetic."""
    return node.type == "&" and (node.parent is None or node.parent.type != "binary_expression")


def find_detaching_program(words: list[str]) -> str:
    """The program of a simple command, or of what it wraps, that leaves something running."""
    wraps = words[0] in WRAPPER_PROGRAMS
    for at, word in enumerate(words if wraps else words[:1]):
        rest = words[at + 1 :]
        waits = word == "setsid" and bool({"-w", "--wait"} & set(rest))
        if (word in DETACHING_PROGRAMS and not waits) or not TERMINAL_VERBS.get(word, frozenset()).isdisjoint(rest):
            return word
    return ""


def runs_script_text(words: list[str]) -> bool:
    """Whether some word of a simple command is a shell, or one that runs its words as text."""
    return any(word in SHELLS or word == "eval" for word in words)


def command_words(command: "Node") -> list[str]:
    """The words of a simple command, without their quotes; of paths the last part."""
    beside = ("variable_assignment", "file_redirect", "heredoc_redirect", "herestring_redirect")
    texts = [node_text(node).translate(WITHOUT_QUOTES) for node in command.children if node.type not in beside]
    return [text.rpartition("/")[2] for text in texts] or [""]


def node_text(node: "Node") -> str:
    """The text of a node."""
    return (node.text or b"").decode("utf-8", "replace")


def walk_nodes(node: "Node") -> Iterator["Node"]:
    """The node and all below it."""
    yield node
    for child in node.children:
        yield from walk_nodes(child)

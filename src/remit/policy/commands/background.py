"""Whether a command leaves something running when it ends, as far as its text and its call tell."""

import re
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from remit.policy.commands.danger_table import SHELLS, WRAPPERS
from remit.policy.commands.options import names
from remit.policy.commands.syntax import masked, parse
from remit.policy.commands.words import Refused

if TYPE_CHECKING:
    from tree_sitter import Node

IN_BACKGROUND = ("run_in_background", "is_background")
"""The arguments by which agents start a command and go on."""

LONE = re.compile(r"(?<![&>|<\\])&(?![&>])")
"""An `&` that may put something into the background; most commands hold none."""

ENDS = names("wait kill pkill fg")
"""What a text that looks after its background processes itself says."""

LETS_GO = names("nohup setsid disown coproc daemonize daemon start-stop-daemon systemd-run pm2 forever at batch")
"""Programs that are there to leave something running. `setsid -w` waits."""

TERMINALS: Mapping[str, frozenset[str]] = {
    "tmux": names("new new-session neww new-window split-window splitw send send-keys respawn-pane run run-shell"),
    "screen": names("-dm -dmS -d -X"),
}
"""Programs that keep a terminal for others, and the words by which they run something in it."""

HINT = re.compile("|".join((LONE.pattern, *map(re.escape, sorted(LETS_GO)), *TERMINALS)))
"""What every such text holds, its quotes taken out; most hold none, and are not parsed."""

QUOTING = str.maketrans("", "", "'\"\\")
STRINGS = names("string raw_string ansi_c_string heredoc_body")
DEEPEST = 5
"""`bash -c` within `bash -c`."""


def leaves_running(command: str) -> bool:
    """Whether it puts something into the background (`&`) and neither waits for it nor ends it."""
    if not LONE.search(command):
        return False
    try:
        return unattended(list(nodes(parse(masked(command)))))
    except Refused:
        return False


def outlives(command: str, arguments: Mapping[str, Any]) -> str:
    """The word by which a call leaves something running; empty where none shows.

    Stricter than `leaves_running`: what a shell is given to run is looked into, and a text that cannot be read leaves
    something where it holds an `&`.
    """
    argument = next((key for key in IN_BACKGROUND if arguments.get(key)), "")
    if argument or not HINT.search(command.translate(QUOTING)):
        return argument
    return left_by(command, 0)


def left_by(command: str, depth: int) -> str:
    """The same of a text, inside `depth` shells."""
    try:
        found = list(nodes(parse(masked(command))))
    except Refused:
        return "&" if LONE.search(command) else ""
    if unattended(found):
        return "&"
    commands = [words_of(node) for node in found if node.type == "command"]
    named = next((word for words in commands if (word := lets_go(words))), "")
    if named or depth >= DEEPEST or not any(runs_text(words) for words in commands):
        return named
    texts = (text_of(node).strip("\"'") for node in found if node.type in STRINGS)
    return next((word for text in texts if (word := left_by(text, depth + 1))), "")


def unattended(found: list["Node"]) -> bool:
    """Whether something is put into the background, and nothing there waits for it or ends it."""
    ran = {text_of(node) for node in found if node.type == "command_name"}
    return any(puts_away(node) for node in found) and not ran & ENDS


def puts_away(node: "Node") -> bool:
    """Whether this is the `&` of a shell, and not that of arithmetic."""
    return node.type == "&" and (node.parent is None or node.parent.type != "binary_expression")


def lets_go(words: list[str]) -> str:
    """The program of a simple command, or of what it wraps, that leaves something running."""
    wraps = words[0] in WRAPPERS
    for at, word in enumerate(words if wraps else words[:1]):
        rest = words[at + 1 :]
        waits = word == "setsid" and bool({"-w", "--wait"} & set(rest))
        if (word in LETS_GO and not waits) or not TERMINALS.get(word, frozenset()).isdisjoint(rest):
            return word
    return ""


def runs_text(words: list[str]) -> bool:
    """Whether some word of a simple command is a shell, or one that runs its words as text."""
    return any(word in SHELLS or word == "eval" for word in words)


def words_of(command: "Node") -> list[str]:
    """The words of a simple command, without their quotes; of paths the last part."""
    beside = ("variable_assignment", "file_redirect", "heredoc_redirect", "herestring_redirect")
    texts = [text_of(node).translate(QUOTING) for node in command.children if node.type not in beside]
    return [text.rpartition("/")[2] for text in texts] or [""]


def text_of(node: "Node") -> str:
    """The text of a node."""
    return (node.text or b"").decode("utf-8", "replace")


def nodes(node: "Node") -> Iterator["Node"]:
    """The node and all below it."""
    yield node
    for child in node.children:
        yield from nodes(child)

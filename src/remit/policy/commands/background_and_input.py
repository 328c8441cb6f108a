"""Commands with a process left running at the end, or waiting for typed input, as shown by the text and the call.

Typed input: for a bare shell, an interpreter without a script, `ssh host`, `cat > file`. Some agents can type into a
running command, unseen by any hook. An unreadable text does not wait: the shell cannot run the text.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from remit.core.call import ToolCall
from remit.core.shell_commands import ShellWord, UnreadableShell
from remit.policy.commands.parsed_command import parse_command
from remit.policy.commands.programs.row import ANY_NUMBER, ANY_USE, StdinRule
from remit.policy.commands.programs.shell import SHELL_STDIN
from remit.policy.commands.programs.table import PROGRAMS, find_program, has_role
from remit.policy.commands.programs.text import PAGER
from remit.policy.commands.words import UnprovedCommand, word_set

if TYPE_CHECKING:
    from tree_sitter import Node

MAX_SHELL_DEPTH = 5  # `bash -c` within `bash -c`, and `sudo nice env …`

# Processes that stay

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


def leaves_process_running(command: str) -> bool:
    """Return True if the command starts a job by `&` and neither waits for the job nor ends it."""
    if not LONE_AMPERSAND.search(command):
        return False
    try:
        return has_unattended_job([*walk_nodes(parse_command(command).tree)])
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
    try:
        nodes = [*walk_nodes(parse_command(command).tree)]
    except UnprovedCommand:
        return "&" if LONE_AMPERSAND.search(command) else ""
    if has_unattended_job(nodes):
        return "&"
    # The words of simple commands, without quotes and without the folders of paths.
    texts = [
        [node_text(child).translate(WITHOUT_QUOTES) for child in node.children if child.type not in NON_WORD_NODES]
        for node in nodes
        if node.type == "command"
    ]
    commands = [[text.rpartition("/")[2] for text in words] or [""] for words in texts]
    detaching = next((word for words in commands if (word := find_detaching_program(words))), "")
    if detaching or depth >= MAX_SHELL_DEPTH:
        return detaching
    if not any(has_role(word, "shell") or word == "eval" for words in commands for word in words):
        return ""
    scripts = (node_text(node).strip("\"'") for node in nodes if node.type in STRING_NODES)
    return next((word for script in scripts if (word := find_background_word_in(script, depth + 1))), "")


def has_unattended_job(nodes: Sequence["Node"]) -> bool:
    ran = {node_text(node) for node in nodes if node.type == "command_name"}
    signs = (node for node in nodes if node.type == "&")
    return not ran & ENDING_PROGRAMS and any(n.parent is None or n.parent.type != "binary_expression" for n in signs)


def find_detaching_program(words: list[str]) -> str:
    wraps = has_role(words[0], "runner", "wrapper")
    for at, word in enumerate(words if wraps else words[:1]):
        rest = words[at + 1 :]
        waits = word == "setsid" and bool({"-w", "--wait"} & set(rest))
        verbs = find_program(word).background
        if not waits and (verbs == ANY_USE or not word_set(verbs).isdisjoint(rest)):
            return word
    return ""


def node_text(node: "Node") -> str:
    return (node.text or b"").decode("utf-8", "replace")


def walk_nodes(node: "Node") -> Iterator["Node"]:
    yield node
    for child in node.children:
        yield from walk_nodes(child)


MAX_CACHED = 8
VERSION_SUFFIX = re.compile(r"(python|pypy|perl|ruby|lua|php|tclsh)\d[\d.]*")
INFORMING_OPTIONS = word_set("--help --version")
NO_PROGRAM = re.compile(r"\d+(\.\d+)?[smhd]?|run|[A-Za-z_]\w*=.*", re.DOTALL)
"""Operands of wrappers that come before the command: durations, `uv run`, variables."""

RESERVED_WORDS = word_set("{ ! if then else elif while until do time")
BLOCK_ENDS = word_set("} done fi esac")
BLOCK_STARTS = word_set("{ if while until for case")
PIPES = ("|", "|&")
ASSIGNMENT = re.compile(r"[A-Za-z_]\w*\+?=")


def may_wait_for_input(call: ToolCall) -> bool:
    return call.has_unwatched_stdin and call.command is not None and waits_for_input(call.command)


@lru_cache(MAX_CACHED)
def waits_for_input(command: str) -> bool:
    return waits_at_depth(command, 0)


def waits_at_depth(command: str, depth: int) -> bool:
    try:
        commands = [one for one in parse_command(command).commands if one.words]
    except UnreadableShell:
        return False
    if any(find_stdin_rule(one.words[0].text) is PAGER and reads_input(one.words, depth) for one in commands):
        return True
    # Inside a loop or a group that gets input from elsewhere, programs read that input.
    for one in commands:
        first = one.words[0].text
        if (first in BLOCK_STARTS and one.before in PIPES) or (first in BLOCK_ENDS and one.fed):
            return False
    return any(reads_input(one.words, depth) for one in commands if not one.fed and one.before not in PIPES)


def reads_input(words: tuple[ShellWord, ...], depth: int) -> bool:
    while words and (words[0].text in RESERVED_WORDS or ASSIGNMENT.match(words[0].text)):
        words = words[1:]
    if not words or depth > MAX_SHELL_DEPTH:
        return bool(words)
    if not words[0].literal:
        return len(words) == 1
    name, arguments = program_name(words[0].text), words[1:]
    if name == "su":
        return not given_options(arguments) & {"c", "--command"}
    if name == "git":
        return bool(arguments) and arguments[0].text == "apply" and all(w.text.startswith("-") for w in arguments[1:])
    if name in ("docker", "podman"):
        return any(re.fullmatch(r"-\w*i\w*|--interactive", word.text) for word in arguments[1:3])
    rule = find_stdin_rule(words[0].text)
    if rule is None:
        return False
    options, rest = split_options(arguments, word_set(rule.valued))
    if rule.runs_rest:
        if name in ("sudo", "doas") and not rest:
            return bool(options & {"s", "i"})
        while rest and NO_PROGRAM.fullmatch(rest[0].text):
            rest = rest[1:]
        return reads_input(rest, depth + 1)
    if options & INFORMING_OPTIONS:
        return False
    if rule is SHELL_STDIN and "c" in options:
        return bool(rest) and rest[0].literal and waits_at_depth(rest[0].text, depth + 1)
    if options & word_set(rule.always):
        return True
    if rule.operands == ANY_NUMBER:
        options |= given_options(rest) | {word.text for word in rest}
    if options & word_set(rule.given):
        return False
    if name == "dd":
        return not any(word.text.startswith("if=") for word in rest)
    if rest and rest[0].text == "-":
        return True
    return len(rest) < rule.operands or (name == "deno" and rest[0].text == "repl")


def program_name(text: str) -> str:
    name = text.rpartition("/")[2]
    versioned = VERSION_SUFFIX.fullmatch(name)
    return versioned[1] if versioned and find_program(name).stdin is None else name


def find_stdin_rule(text: str) -> StdinRule | None:
    return find_program(program_name(text)).stdin


def split_options(
    arguments: tuple[ShellWord, ...], valued: frozenset[str]
) -> tuple[frozenset[str], tuple[ShellWord, ...]]:
    """Return the options before the first operand, and the words from that operand on."""
    options: list[ShellWord] = []
    left = list(arguments)
    while left and left[0].text.startswith("-") and left[0].text != "-":
        word = left.pop(0).text
        if word == "--":
            break
        options.append(ShellWord(word))
        if word in valued or (not word.startswith("--") and word[-1:] in valued):
            left = left[1:]
    return given_options(options), tuple(left)


def given_options(words: Sequence[ShellWord]) -> frozenset[str]:
    texts = [word.text for word in words if word.text.startswith("-")]
    letters = (letter for text in texts if not text.startswith("--") for letter in text[1:])
    return frozenset((*texts, *(text.partition("=")[0] for text in texts), *letters))

"""Commands that would wait for typed input: a bare shell, an interpreter without a script, `ssh host`, `cat > file`.

Some agents can type into a running command, unseen by any hook. The column `stdin` of the table lists the programs with
typed input. An unreadable text counts as harmless: the shell itself cannot run an unreadable text.
"""

import re
from collections.abc import Sequence
from functools import lru_cache

from remit.core.shell.simple_commands import ShellWord, SimpleCommand, UnreadableShell
from remit.policy.commands.parse.command import parse_command
from remit.policy.commands.parse.options import word_set
from remit.policy.commands.programs.row import ANY_NUMBER, StdinRule
from remit.policy.commands.programs.shell import SHELL_STDIN
from remit.policy.commands.programs.table import find_program
from remit.policy.commands.programs.text import PAGER

MAX_DEPTH = 5
"""`bash -c` within `bash -c`, and `sudo nice env …`: deeper commands count as waiting."""

MAX_CACHED = 8
VERSION_SUFFIX = re.compile(r"(python|pypy|perl|ruby|lua|php|tclsh)\d[\d.]*")
INFORMING_OPTIONS = word_set("--help --version")
BECOMES_SHELL = word_set("sudo doas")
NO_PROGRAM = re.compile(r"\d+(\.\d+)?[smhd]?|run|[A-Za-z_]\w*=.*", re.DOTALL)
"""Operands of wrappers that come before the command: durations, `uv run`, variables."""

RESERVED_WORDS = word_set("{ ! if then else elif while until do time")
BLOCK_ENDS = word_set("} done fi esac")
BLOCK_STARTS = word_set("{ if while until for case")
PIPES = ("|", "|&")
ASSIGNMENT = re.compile(r"[A-Za-z_]\w*\+?=")


@lru_cache(MAX_CACHED)
def waits_for_input(command: str) -> bool:
    return waits_at_depth(command, 0)


def waits_at_depth(command: str, depth: int) -> bool:
    """Return the same for a text that `depth` shells run."""
    try:
        commands = [one for one in parse_command(command).commands if one.words]
    except UnreadableShell:
        return False
    if any(find_stdin_rule(one.words[0].text) is PAGER and reads_input(one.words, depth) for one in commands):
        return True
    # Inside a loop or a group that gets input from elsewhere, programs read that input.
    if any(is_fed_block(one) for one in commands):
        return False
    return any(reads_input(one.words, depth) for one in commands if not one.fed and one.before not in PIPES)


def is_fed_block(command: SimpleCommand) -> bool:
    """Return True for a pipe into a block, and for a redirection behind a block."""
    first = command.words[0].text
    return (first in BLOCK_STARTS and command.before in PIPES) or (first in BLOCK_ENDS and command.fed)


def reads_input(words: tuple[ShellWord, ...], depth: int) -> bool:
    """Return True if the program of these words reads what is typed."""
    while words and (words[0].text in RESERVED_WORDS or ASSIGNMENT.match(words[0].text)):
        words = words[1:]
    if not words or depth > MAX_DEPTH:
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
        if name in BECOMES_SHELL and not rest:
            return bool(options & {"s", "i"})
        while rest and NO_PROGRAM.fullmatch(rest[0].text):
            rest = rest[1:]
        return reads_input(rest, depth + 1)
    return rule_applies(name, rule, options, rest, depth)


def rule_applies(name: str, rule: StdinRule, options: frozenset[str], rest: tuple[ShellWord, ...], depth: int) -> bool:
    """Return True if, by its rule, the program reads what is typed."""
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
    """Return the name in the table: without a folder, and without the version of a language."""
    name = text.rpartition("/")[2]
    versioned = VERSION_SUFFIX.fullmatch(name)
    return versioned[1] if versioned and find_program(name).stdin is None else name


def find_stdin_rule(text: str) -> StdinRule | None:
    return find_program(program_name(text)).stdin


def split_options(
    arguments: tuple[ShellWord, ...], valued: frozenset[str]
) -> tuple[frozenset[str], tuple[ShellWord, ...]]:
    """Return the options before the first operand, and the words from that operand on."""
    options: tuple[ShellWord, ...] = ()
    while arguments and arguments[0].text.startswith("-") and arguments[0].text != "-":
        word, arguments = arguments[0].text, arguments[1:]
        if word == "--":
            break
        options = (*options, ShellWord(word))
        takes_value = word in valued or (not word.startswith("--") and word[-1:] in valued)
        arguments = arguments[1:] if takes_value else arguments
    return given_options(options), arguments


def given_options(words: Sequence[ShellWord]) -> frozenset[str]:
    """Return the options among these words: whole, without their value, and letter by letter."""
    texts = [word.text for word in words if word.text.startswith("-")]
    letters = (letter for text in texts if not text.startswith("--") for letter in text[1:])
    return frozenset((*texts, *(text.partition("=")[0] for text in texts), *letters))

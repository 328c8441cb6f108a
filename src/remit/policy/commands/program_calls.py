"""The programs run by a command's text, with the words of each.

Only shell words are read here, which works for unproved texts as well: the search may find programs behind dead
branches, and misses only commands made up at run time.
"""

import re
from collections.abc import Iterator

from msgspec import Struct

from remit.core.shell.simple_commands import SimpleCommand, UnreadableShell
from remit.policy.commands.parse.command import parse_command
from remit.policy.commands.programs.table import find_program, has_role

MAX_SHELL_DEPTH = 3
"""Shells within shells."""

MAX_WRAPPED_STARTS = 12
"""Words after a wrapper at which the command that it runs may begin."""

ASSIGNMENT = r"(?a)\w+\+?="


class ProgramCall(Struct, frozen=True):
    """A program with its words, and the operator before it. `folder_changed`: the shell changed its folder before."""

    name: str
    words: tuple[str, ...]
    operator: str = ""
    folder_changed: bool = False

    @property
    def text(self) -> str:
        return " ".join((self.name, *self.words))[:80]


def find_program_calls(text: str, depth: int = 0) -> Iterator[ProgramCall]:
    """Yield the programs of a text, including programs behind wrappers and in scripts. Raises UnreadableShell."""
    folder_changed = False
    for command in parse_command(text).commands:
        words = skip_assignments(command)
        if not words:
            continue
        folder_changed |= words[0] in ("cd", "pushd")
        first = ProgramCall(words[0].rpartition("/")[2], words[1:], command.before, folder_changed)
        yield first
        if not has_role(first.name, "runner", "wrapper"):
            continue
        # The inner command may begin at any word: the options of wrappers are not known here.
        for at in range(1, min(len(words), MAX_WRAPPED_STARTS)):
            name = words[at].rpartition("/")[2]
            if is_searched(name):
                yield ProgramCall(name, words[at + 1 :], command.before, folder_changed)
        if depth < MAX_SHELL_DEPTH:
            for word in words[1:]:
                if re.search(r"\s", word) and not word.startswith(("$(", "`", "<(")):
                    yield from find_calls_in_word(word, depth)


def find_calls_in_word(word: str, depth: int) -> Iterator[ProgramCall]:
    """Yield the programs of a script in one word; nothing if the word is no script."""
    try:
        yield from [*find_program_calls(word, depth + 1)]
    except UnreadableShell:
        return


def is_searched(name: str) -> bool:
    """Return True if the search for dangers has rules for the program."""
    program = find_program(name)
    return bool(program.danger) or has_role(name, "destroyer", "sender", "shell", "interpreter") or name == "remit"


def skip_assignments(command: SimpleCommand) -> tuple[str, ...]:
    """Return the words from the program on."""
    words = tuple(word.text for word in command.words)
    at = next((i for i, word in enumerate(words) if not re.match(ASSIGNMENT, word)), len(words))
    return words[at:]

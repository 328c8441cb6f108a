"""The effects of one simple command, by the row of its program."""

import re
from collections.abc import Sequence

from msgspec.structs import replace

from remit.policy.commands.parse.options import OptionRow, file_operands, parse_options, word_set
from remit.policy.commands.parse.words import UnprovedCommand, Word
from remit.policy.commands.programs.effects import CommandEffects, Lines
from remit.policy.commands.programs.row import InnerCommand, Program
from remit.policy.commands.programs.row_writes import find_row_writes
from remit.policy.commands.programs.table import find_program

SYSTEM_FOLDERS = ("/bin/", "/usr/bin/")
MAX_WRAPPERS = 8
"""Programs that run a program that runs a program …"""

FILTER_OPTION = re.compile(r"-(?:[viEFwxurzn0-9]+|n)")


def evaluate_command(words: Sequence[Word], input_lines: Lines = None, depth: int = 0) -> CommandEffects:
    """Return the effects of one simple command, which may be run by `depth` wrappers. Raises UnprovedCommand."""
    if not words or not words[0].is_literal:
        raise UnprovedCommand("the name of a command is not literal")
    if depth > MAX_WRAPPERS:
        raise UnprovedCommand("too many programs run each other")
    name, rest = program_name(words[0].text), words[1:]
    program = find_program(name)
    try:
        effects = evaluate_reader(name, program, rest, input_lines, depth)
    except UnprovedCommand:
        if not program.is_writer:
            raise
        effects = evaluate_writer(name, program, rest, depth)
    if effects.output_lines is not None:
        return effects
    return replace(effects, output_lines=list_output(name, program, rest, input_lines))


def program_name(word: str) -> str:
    """Return the name in the table, without a folder of the system before it."""
    for folder in SYSTEM_FOLDERS:
        if word.startswith(folder):
            return word.removeprefix(folder)
    return word


def evaluate_reader(
    name: str, program: Program, words: Sequence[Word], input_lines: Lines, depth: int
) -> CommandEffects:
    """Return the effects of a reading program, or of a wrapper. Raises UnprovedCommand."""
    if len(words) == 1 and words[0].is_literal and words[0].text in word_set(program.version_options):
        return CommandEffects((name,))
    if program.runs is not None:
        if isinstance(program.runs, OptionRow):
            inner = InnerCommand(parse_options(name, program.runs, words, stop_at_operand=True).operands, input_lines)
        else:
            inner = program.runs(words, input_lines)
        return evaluate_inner(name, inner, depth)
    if isinstance(program.reads, OptionRow):
        return CommandEffects((name,), file_operands(program.reads, parse_options(name, program.reads, words)))
    if program.reads is None:
        raise UnprovedCommand(f"`{name}` is not on the read-only table")
    return program.reads(name, words)


def evaluate_inner(name: str, inner: InnerCommand, depth: int) -> CommandEffects:
    """Return the effects of a wrapper and its command. Raises UnprovedCommand."""
    if not inner.words:
        return CommandEffects((name,))
    effects = evaluate_command(inner.words, inner.lines, depth + 1)
    if effects.changes_folder and name not in ("command", "builtin"):
        raise UnprovedCommand(f"`{name}` with a command of the shell's own")
    return replace(
        effects,
        programs=(name, *effects.programs),
        changes_state=effects.changes_state or bool(inner.writes),
        writes=(*inner.writes, *effects.writes),
    )


def evaluate_writer(name: str, program: Program, words: Sequence[Word], depth: int) -> CommandEffects:
    """Return the effects of a program that writes. Raises UnprovedCommand."""
    if program.effects is not None:
        return program.effects(name, words, lambda inner: evaluate_command(inner, None, depth + 1))
    writer = program.writes
    if program.verbs:
        verb = words[0].text if words and words[0].is_literal else ""
        writer = program.verbs.get(verb)
        if writer is None:
            raise UnprovedCommand(f"what `{name} {verb}` does is not on the tables")
        # Without files the program takes those of its settings, unless its default is the present folder.
        if not writer.defaults_to_folder and all(word.may_be_option for word in words[1:]):
            raise UnprovedCommand(f"which files `{name} {verb}` takes is not in its words")
        return CommandEffects((name,), changes_state=True, writes=find_row_writes(f"{name} {verb}", writer, words[1:]))
    if writer is None:
        raise UnprovedCommand(f"`{name}` is not on the tables")
    writes = writer(name, words) if callable(writer) else find_row_writes(name, writer, words)
    return CommandEffects((name,), changes_state=True, writes=writes)


# The lines of the output, for what `xargs` and `while read` make of them


def list_output(name: str, program: Program, words: Sequence[Word], input_lines: Lines) -> Lines:
    if input_lines is not None and program.filters_lines:
        return filter_lines(name, words, input_lines)
    try:
        return program.lists(name, words) if program.lists is not None else None
    except UnprovedCommand:
        return None


def filter_lines(name: str, words: Sequence[Word], input_lines: tuple[Word, ...]) -> Lines:
    """Return the input lines, each of which may be dropped; None if the words may change or add lines."""
    options = [word for word in words if word.text.startswith("-") and word.text != "-"]
    operands = [word for word in words if word not in options]
    patterns = 1 if name.endswith("grep") or name in ("head", "tail") else 0
    numbered = name.endswith("grep") and any("n" in option.text for option in options)
    if numbered or len(operands) > patterns or not all(FILTER_OPTION.fullmatch(option.text) for option in options):
        return None
    return tuple(replace(word, is_optional=True) for word in input_lines)

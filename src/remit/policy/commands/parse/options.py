"""How a row of a table reads the words of a command: which are options, which are operands."""

from collections.abc import Sequence
from typing import Literal, TypeAlias

from msgspec import Struct

from remit.policy.commands.parse.words import UnprovedCommand, Word

ReadOperands: TypeAlias = Literal["none", "all", "rest"]

UNIVERSAL_OPTIONS = frozenset({"--help", "--version"})


def word_set(text: str) -> frozenset[str]:
    """The words of `text`: tables are easier to read without quotes and commas."""
    return frozenset(text.split())


class OptionRow(Struct, frozen=True):
    """What one command may be given and still only read.

    Short options are letters: `flags` take no value, `valued` take one (attached or the next word),
    `attached` take one only when attached. `long` are whole names without `--` (GNU programs take any
    abbreviation, so a shortened one is not recognised); `long_valued` take the next word, or `=`.
    `any_option`: no option of the command writes or runs anything, so unknown ones are fine.
    `operands` is the most it may have; `digits` takes `-5`; one of `needs` must be there.
    `reads`: which operands are files, "rest" being all but the first.
    """

    flags: str = ""
    valued: str = ""
    attached: str = ""
    long: frozenset[str] = frozenset()
    long_valued: frozenset[str] = frozenset()
    allows_any: bool = False
    max_operands: int | None = None
    takes_number: bool = False
    required: frozenset[str] = frozenset()
    read_operands: ReadOperands = "none"


class GivenOption(Struct, frozen=True):
    """One option as given: `-n` or `--name`, and its value if it has one."""

    name: str
    value: Word | None = None


class ParsedOptions(Struct, frozen=True):
    """The words of a command, sorted."""

    options: tuple[GivenOption, ...] = ()
    operands: tuple[Word, ...] = ()

    def has_option(self, *names: str) -> bool:
        """Whether one of these options was given."""
        return any(option.name in names for option in self.options)

    def values(self, *names: str) -> tuple[Word, ...]:
        """The values given to these options, in order."""
        return tuple(option.value for option in self.options if option.name in names and option.value)


def parse_options(
    program: str,
    row: OptionRow,
    words: Sequence[Word],
    *,
    stop_at_operand: bool = False,
    globs_are_operands: bool = False,
) -> ParsedOptions:
    """Sort the words after `program` by its row. Raises Refused for a word that the row does not allow.

    `stop`: the first operand ends the options, as for a program that runs another one. `globs`: a glob is an operand
    even where a file could have the name of an option; who looks the files up has to see to that.
    """
    options: list[GivenOption] = []
    operands: list[Word] = []
    position = 0
    while position < len(words):
        word = words[position]
        position += 1
        if word.is_literal and word.text == "--":
            operands += words[position:]
            break
        matched = globs_are_operands and word.pattern is not None and not word.text
        if not word.may_be_option or matched or (word.is_literal and word.text == "-"):
            operands.append(word)
            if not stop_at_operand:
                continue
            operands += words[position:]
            break
        if row.max_operands is not None and operands:
            raise UnprovedCommand(f"`{program}` has the option {word.text!r} after an operand")
        found, used = _parse_option(program, row, word, words[position:])
        options += found
        position += used
        operands += () if found else (word,)
    return _check_operands(program, row, ParsedOptions(tuple(options), tuple(operands)))


def _check_operands(program: str, row: OptionRow, parsed: ParsedOptions) -> ParsedOptions:
    if row.required and not parsed.has_option(*row.required):
        raise UnprovedCommand(f"`{program}` without {' or '.join(sorted(row.required))} is not on the read-only table")
    if row.max_operands is None:
        return parsed
    if len(parsed.operands) > row.max_operands or not all(word.is_single for word in parsed.operands):
        raise UnprovedCommand(f"`{program}` may have more than {row.max_operands} operands")
    return parsed


def _parse_option(
    program: str, row: OptionRow, word: Word, after: Sequence[Word]
) -> tuple[tuple[GivenOption, ...], int]:
    """The options in one word, and how many words after it are its value. No options: an operand."""
    if not word.is_single or (not word.is_literal and "=" not in word.text):
        if row.allows_any:
            return (), 0
        raise UnprovedCommand(f"a word of `{program}` may become any option")
    if word.text.startswith("--"):
        return _parse_long(program, row, word, after)
    if not word.is_literal and not row.allows_any:
        raise UnprovedCommand(f"the option {word.text!r} of `{program}` is not literal")
    return _parse_short(program, row, word.text[1:], after)


def _parse_long(program: str, row: OptionRow, word: Word, after: Sequence[Word]) -> tuple[tuple[GivenOption, ...], int]:
    spelled, equals, value = word.text.partition("=")
    name = spelled[2:]
    known = name in row.long or name in row.long_valued
    if not known and not row.allows_any and word.text not in UNIVERSAL_OPTIONS:
        raise UnprovedCommand(f"{spelled!r} of `{program}` is not on the read-only table")
    if equals:
        return (GivenOption(spelled, Word(value, is_literal=word.is_literal)),), 0
    if name in row.long_valued:
        return (GivenOption(spelled, _parse_value(program, row, spelled, after)),), 1
    return (GivenOption(spelled),), 0


def _parse_short(
    program: str, row: OptionRow, letters: str, after: Sequence[Word]
) -> tuple[tuple[GivenOption, ...], int]:
    if row.takes_number and letters.isascii() and letters.isdigit():
        return (GivenOption("-1", Word(letters)),), 0
    options: list[GivenOption] = []
    for position, letter in enumerate(letters):
        name, rest = f"-{letter}", letters[position + 1 :]
        if letter in row.valued:
            value = Word(rest) if rest else _parse_value(program, row, name, after)
            return (*options, GivenOption(name, value)), 0 if rest else 1
        if letter in row.attached:
            return (*options, GivenOption(name, Word(rest) if rest else None)), 0
        if letter not in row.flags and not row.allows_any:
            raise UnprovedCommand(f"{name!r} of `{program}` is not on the read-only table")
        options.append(GivenOption(name))
    return tuple(options), 0


def _parse_value(program: str, row: OptionRow, name: str, after: Sequence[Word]) -> Word:
    """The next word. One that looks like an option is refused: some build of the program may take it so."""
    if not after:
        raise UnprovedCommand(f"{name!r} of `{program}` lacks its value")
    value = after[0]
    if not value.is_single:
        raise UnprovedCommand(f"the value of {name!r} of `{program}` may become several words")
    if value.text.startswith("-") and not value.text[1:].isdigit() and not row.allows_any:
        raise UnprovedCommand(f"{value.text!r} of `{program}` may be an option")
    return value

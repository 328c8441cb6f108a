"""Options and operands: the words of a command, sorted by the row of its program."""

from collections.abc import Sequence
from functools import cache
from typing import Literal, TypeAlias

from msgspec import Struct

from remit.policy.commands.parse.words import UnprovedCommand, Word

ReadOperands: TypeAlias = Literal["none", "all", "rest"]

UNIVERSAL_OPTIONS = frozenset({"--help", "--version"})


@cache
def word_set(text: str) -> frozenset[str]:
    """Return the words of `text`: tables are easier to read without quotes and commas."""
    return frozenset(text.split())


class OptionRow(Struct, frozen=True):
    """The allowed options and operands of a program. Sets of long options are written as words.

    Short options are letters: `flags` take no value, `valued` take a value (attached or the next word), `attached` take
    an attached value or none. `long` are whole names without `--` (GNU programs take any abbreviation; a shortened name
    is not recognised); `long_valued` take the next word, or `=`. `allows_any`: unknown options are harmless too.
    `takes_number`: `-5` is an option. At least one `required` option must be given. `reads`: the file operands; "rest"
    means all but the first.
    """

    flags: str = ""
    valued: str = ""
    long: str = ""
    long_valued: str = ""
    attached: str = ""
    allows_any: bool = False
    operands: int | None = None
    takes_number: bool = False
    required: str = ""
    reads: ReadOperands = "none"


def harmless_row(valued: str = "", reads: ReadOperands = "none", long_valued: str = "") -> OptionRow:
    """Return the row of a program without writes; options with values are listed only to find file operands."""
    return OptionRow("", valued, long_valued=long_valued, allows_any=True, takes_number=True, reads=reads)


class GivenOption(Struct, frozen=True):
    """An option of a command: `-n` or `--name`, perhaps with a value."""

    name: str
    value: Word | None = None


class ParsedOptions(Struct, frozen=True):
    """The words of a command, sorted."""

    options: tuple[GivenOption, ...] = ()
    operands: tuple[Word, ...] = ()

    def has_option(self, *names: str) -> bool:
        return any(option.name in names for option in self.options)

    def values(self, *names: str) -> tuple[Word, ...]:
        return tuple(option.value for option in self.options if option.name in names and option.value)


def file_operands(row: OptionRow, parsed: ParsedOptions) -> tuple[str, ...]:
    """Return the literal file operands. A pattern given by an option leaves the first operand a file."""
    given = parsed.has_option("-e", "-f", "--regexp", "--file", "--from-file", "--files")
    skipped = 1 if row.reads == "rest" and not given else 0
    operands = () if row.reads == "none" else parsed.operands[skipped:]
    return tuple(word.text for word in operands if word.is_literal and word.text not in ("", "-"))


def parse_options(
    program: str,
    row: OptionRow,
    words: Sequence[Word],
    *,
    stop_at_operand: bool = False,
    globs_are_operands: bool = False,
) -> ParsedOptions:
    """Sort the words behind a program by the row. Raises UnprovedCommand for a word beyond the row.

    `stop_at_operand`: the first operand ends the options, as in wrappers of commands. `globs_are_operands`: a glob is
    an operand although a file could have the name of an option; the caller checks the glob's matches.
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
        if row.operands is not None and operands:
            raise UnprovedCommand(f"`{program}` has the option {word.text!r} after an operand")
        found, used = _parse_option(program, row, word, words[position:])
        options += found
        position += used
        operands += () if found else (word,)
    return _check_operands(program, row, ParsedOptions(tuple(options), tuple(operands)))


def _check_operands(program: str, row: OptionRow, parsed: ParsedOptions) -> ParsedOptions:
    if row.required and not parsed.has_option(*row.required.split()):
        raise UnprovedCommand(
            f"`{program}` without {' or '.join(sorted(row.required.split()))} is not on the read-only table"
        )
    if row.operands is None:
        return parsed
    if len(parsed.operands) > row.operands or not all(word.is_single for word in parsed.operands):
        raise UnprovedCommand(f"`{program}` may have more than {row.operands} operands")
    return parsed


def _parse_option(
    program: str, row: OptionRow, word: Word, after: Sequence[Word]
) -> tuple[tuple[GivenOption, ...], int]:
    """Return the options in a word, and the number of following words used as value. No options: an operand."""
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
    known = name in word_set(row.long) or name in word_set(row.long_valued)
    if not known and not row.allows_any and word.text not in UNIVERSAL_OPTIONS:
        raise UnprovedCommand(f"{spelled!r} of `{program}` is not on the read-only table")
    if equals:
        return (GivenOption(spelled, Word(value, is_literal=word.is_literal)),), 0
    if name in word_set(row.long_valued):
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
    """Return the next word. Refuse a word like an option: some build of the program may take the word as an option."""
    if not after:
        raise UnprovedCommand(f"{name!r} of `{program}` lacks its value")
    value = after[0]
    if not value.is_single:
        raise UnprovedCommand(f"the value of {name!r} of `{program}` may become several words")
    if value.text.startswith("-") and not value.text[1:].isdigit() and not row.allows_any:
        raise UnprovedCommand(f"{value.text!r} of `{program}` may be an option")
    return value


# Long options behind one dash


class DashedOptions(Struct, frozen=True):
    """Whole words behind a single dash: `flags`, and `valued` options with the next word as value."""

    flags: frozenset[str]
    valued: frozenset[str]

    def parse(self, program: str, words: Sequence[Word]) -> tuple[dict[str, tuple[Word, ...]], tuple[Word, ...]]:
        """Return the values by option, and the operands. Raises UnprovedCommand."""
        values: dict[str, tuple[Word, ...]] = {}
        operands: list[Word] = []
        rest = list(words)
        while rest:
            word = rest.pop(0)
            if not word.may_be_option or (word.is_literal and word.text == "-"):
                operands.append(word)
            elif word.is_literal and word.text in self.flags:
                values.setdefault(word.text, ())
            elif word.is_literal and word.text in self.valued and rest and rest[0].is_single:
                values[word.text] = (*values.get(word.text, ()), rest.pop(0))
            else:
                raise UnprovedCommand(f"{word.text!r} of `{program}` is not on the tables")
        return values, tuple(operands)


def dashed_options(flags: str, valued: str = "") -> DashedOptions:
    """Return the options, written as words without their dash."""
    return DashedOptions(
        frozenset(f"-{option}" for option in flags.split()), frozenset(f"-{option}" for option in valued.split())
    )

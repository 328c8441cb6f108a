"""Options and operands: the words of a command, sorted by the row of its program."""

from collections.abc import Iterator, Sequence
from functools import cache
from typing import Literal, TypeAlias

from msgspec import Struct

from remit.policy.commands.words import UnprovedCommand, Word

ReadOperands: TypeAlias = Literal["none", "all", "rest"]

UNIVERSAL_OPTIONS = frozenset({"--help", "--version"})


@cache
def word_set(text: str) -> frozenset[str]:
    """Return the words of `text`: tables are easier to read without quotes and commas."""
    return frozenset(text.split())


class OptionRow(Struct, frozen=True):
    """The allowed options and operands of a program. Sets of long options are words, without `--`.

    GNU programs take any abbreviation of a long option; a shortened name is not recognised here.
    """

    flags: str = ""  # letters without a value
    valued: str = ""  # letters with a value, attached or the next word
    long: str = ""
    long_valued: str = ""  # take the next word, or `=`
    attached: str = ""  # letters with an attached value or none
    allows_any: bool = False  # unknown options are harmless too
    operands: int | None = None
    takes_number: bool = False  # `-5` is an option
    required: str = ""  # at least one of these options must be given
    reads: ReadOperands = "none"  # the file operands; "rest": all but the first


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
    program: str, row: OptionRow, words: Sequence[Word], *, stop_at_operand: bool = False, takes_globs: bool = False
) -> ParsedOptions:
    """Sort the words behind a program by the row. Raises UnprovedCommand for a word beyond the row.

    `stop_at_operand`: the first operand ends the options, as in wrappers of commands. `takes_globs`: a glob is
    an operand although a file could have the name of an option; the caller checks the glob's matches.
    """
    options: list[GivenOption] = []
    operands: list[Word] = []
    left = list(words)
    while left:
        word = left.pop(0)
        if word.is_literal and word.text == "--":
            operands += left
            break
        matched = takes_globs and word.pattern is not None and not word.text
        if not word.may_be_option or matched or (word.is_literal and word.text == "-"):
            operands.append(word)
            if not stop_at_operand:
                continue
            operands += left
            break
        if row.operands is not None and operands:
            raise UnprovedCommand(f"`{program}` has the option {word.text!r} after an operand")
        if not word.is_single or (not word.is_literal and "=" not in word.text):
            if not row.allows_any:
                raise UnprovedCommand(f"a word of `{program}` may become any option")
            operands.append(word)
        elif word.text.startswith("--"):
            options.append(parse_long_option(program, row, word, left))
        elif not word.is_literal and not row.allows_any:
            raise UnprovedCommand(f"the option {word.text!r} of `{program}` is not literal")
        else:
            options += parse_short_options(program, row, word.text[1:], left)
    parsed = ParsedOptions(tuple(options), tuple(operands))
    if row.required and not parsed.has_option(*row.required.split()):
        names = " or ".join(sorted(row.required.split()))
        raise UnprovedCommand(f"`{program}` without {names} is not on the read-only table")
    if row.operands is not None and (len(operands) > row.operands or not all(word.is_single for word in operands)):
        raise UnprovedCommand(f"`{program}` may have more than {row.operands} operands")
    return parsed


def parse_long_option(program: str, row: OptionRow, word: Word, left: list[Word]) -> GivenOption:
    """Return the option `--name` or `--name=value`; a value that is a word of its own is taken off `left`."""
    spelled, equals, value = word.text.partition("=")
    name = spelled[2:]
    takes_value = name in word_set(row.long_valued)
    if not (takes_value or name in word_set(row.long) or row.allows_any or word.text in UNIVERSAL_OPTIONS):
        raise UnprovedCommand(f"{spelled!r} of `{program}` is not on the read-only table")
    if equals:
        return GivenOption(spelled, Word(value, is_literal=word.is_literal))
    return GivenOption(spelled, take_value(program, row, spelled, left) if takes_value else None)


def parse_short_options(program: str, row: OptionRow, letters: str, left: list[Word]) -> Iterator[GivenOption]:
    """Yield the options of a bundle; a value that is a word of its own is taken off `left`."""
    if row.takes_number and letters.isascii() and letters.isdigit():
        yield GivenOption("-1", Word(letters))
        return
    for position, letter in enumerate(letters):
        name, rest = f"-{letter}", letters[position + 1 :]
        if letter in row.valued:
            yield GivenOption(name, Word(rest) if rest else take_value(program, row, name, left))
            return
        if letter in row.attached:
            yield GivenOption(name, Word(rest) if rest else None)
            return
        if letter not in row.flags and not row.allows_any:
            raise UnprovedCommand(f"{name!r} of `{program}` is not on the read-only table")
        yield GivenOption(name)


def take_value(program: str, row: OptionRow, name: str, left: list[Word]) -> Word:
    """Take the next word. Refuse a word like an option: some build of the program may take the word as an option."""
    if not left:
        raise UnprovedCommand(f"{name!r} of `{program}` lacks its value")
    value = left.pop(0)
    if not value.is_single:
        raise UnprovedCommand(f"the value of {name!r} of `{program}` may become several words")
    if value.text.startswith("-") and not value.text[1:].isdigit() and not row.allows_any:
        raise UnprovedCommand(f"{value.text!r} of `{program}` may be an option")
    return value


DashedOptions: TypeAlias = tuple[frozenset[str], frozenset[str]]
"""Long options behind a single dash: without a value, and with the next word as value."""


def dashed_options(flags: str, valued: str = "") -> DashedOptions:
    return frozenset(f"-{option}" for option in flags.split()), frozenset(f"-{option}" for option in valued.split())


def parse_dashed(
    program: str, options: DashedOptions, words: Sequence[Word]
) -> tuple[dict[str, tuple[Word, ...]], tuple[Word, ...]]:
    """Return the values by option, and the operands. Raises UnprovedCommand."""
    flags, valued = options
    values: dict[str, tuple[Word, ...]] = {}
    operands: list[Word] = []
    left = list(words)
    while left:
        word = left.pop(0)
        if not word.may_be_option or (word.is_literal and word.text == "-"):
            operands.append(word)
        elif word.is_literal and word.text in flags:
            values.setdefault(word.text, ())
        elif word.is_literal and word.text in valued and left and left[0].is_single:
            values[word.text] = (*values.get(word.text, ()), left.pop(0))
        else:
            raise UnprovedCommand(f"{word.text!r} of `{program}` is not on the tables")
    return values, tuple(operands)

"""How a row of a table reads the words of a command: which are options, which are operands."""

from collections.abc import Sequence
from typing import Literal, TypeAlias

from msgspec import Struct

from remit.policy.commands.words import Refused, Word

Reads: TypeAlias = Literal["none", "all", "rest"]

EVERYWHERE = frozenset({"--help", "--version"})


def names(text: str) -> frozenset[str]:
    """The words of `text`: tables are easier to read without quotes and commas."""
    return frozenset(text.split())


class Row(Struct, frozen=True):
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
    any_option: bool = False
    operands: int | None = None
    digits: bool = False
    needs: frozenset[str] = frozenset()
    reads: Reads = "none"


class Option(Struct, frozen=True):
    """One option as given: `-n` or `--name`, and its value if it has one."""

    name: str
    value: Word | None = None


class Taken(Struct, frozen=True):
    """The words of a command, sorted."""

    options: tuple[Option, ...] = ()
    operands: tuple[Word, ...] = ()

    def has(self, *names: str) -> bool:
        """Whether one of these options was given."""
        return any(option.name in names for option in self.options)

    def values(self, *names: str) -> tuple[Word, ...]:
        """The values given to these options, in order."""
        return tuple(option.value for option in self.options if option.name in names and option.value)


def take(program: str, row: Row, words: Sequence[Word], *, stop: bool = False, globs: bool = False) -> Taken:
    """Sort the words after `program` by its row. Raises Refused for a word that the row does not allow.

    `stop`: the first operand ends the options, as for a program that runs another one. `globs`: a glob is an operand
    even where a file could have the name of an option; who looks the files up has to see to that.
    """
    options: list[Option] = []
    operands: list[Word] = []
    position = 0
    while position < len(words):
        word = words[position]
        position += 1
        if word.literal and word.text == "--":
            operands += words[position:]
            break
        matched = globs and word.pattern is not None and not word.text
        if not word.may_be_option or matched or (word.literal and word.text == "-"):
            operands.append(word)
            if not stop:
                continue
            operands += words[position:]
            break
        if row.operands is not None and operands:
            raise Refused(f"`{program}` has the option {word.text!r} after an operand")
        found, used = _option(program, row, word, words[position:])
        options += found
        position += used
        operands += () if found else (word,)
    return _checked(program, row, Taken(tuple(options), tuple(operands)))


def _checked(program: str, row: Row, taken: Taken) -> Taken:
    if row.needs and not taken.has(*row.needs):
        raise Refused(f"`{program}` without {' or '.join(sorted(row.needs))} is not on the read-only table")
    if row.operands is None:
        return taken
    if len(taken.operands) > row.operands or not all(word.single for word in taken.operands):
        raise Refused(f"`{program}` may have more than {row.operands} operands")
    return taken


def _option(program: str, row: Row, word: Word, after: Sequence[Word]) -> tuple[tuple[Option, ...], int]:
    """The options in one word, and how many words after it are its value. No options: an operand."""
    if not word.single or (not word.literal and "=" not in word.text):
        if row.any_option:
            return (), 0
        raise Refused(f"a word of `{program}` may become any option")
    if word.text.startswith("--"):
        return _long(program, row, word, after)
    if not word.literal and not row.any_option:
        raise Refused(f"the option {word.text!r} of `{program}` is not literal")
    return _short(program, row, word.text[1:], after)


def _long(program: str, row: Row, word: Word, after: Sequence[Word]) -> tuple[tuple[Option, ...], int]:
    spelled, equals, value = word.text.partition("=")
    name = spelled[2:]
    known = name in row.long or name in row.long_valued
    if not known and not row.any_option and word.text not in EVERYWHERE:
        raise Refused(f"{spelled!r} of `{program}` is not on the read-only table")
    if equals:
        return (Option(spelled, Word(value, literal=word.literal)),), 0
    if name in row.long_valued:
        return (Option(spelled, _value(program, row, spelled, after)),), 1
    return (Option(spelled),), 0


def _short(program: str, row: Row, letters: str, after: Sequence[Word]) -> tuple[tuple[Option, ...], int]:
    if row.digits and letters.isascii() and letters.isdigit():
        return (Option("-1", Word(letters)),), 0
    options: list[Option] = []
    for position, letter in enumerate(letters):
        name, rest = f"-{letter}", letters[position + 1 :]
        if letter in row.valued:
            value = Word(rest) if rest else _value(program, row, name, after)
            return (*options, Option(name, value)), 0 if rest else 1
        if letter in row.attached:
            return (*options, Option(name, Word(rest) if rest else None)), 0
        if letter not in row.flags and not row.any_option:
            raise Refused(f"{name!r} of `{program}` is not on the read-only table")
        options.append(Option(name))
    return tuple(options), 0


def _value(program: str, row: Row, name: str, after: Sequence[Word]) -> Word:
    """The next word. One that looks like an option is refused: some build of the program may take it so."""
    if not after:
        raise Refused(f"{name!r} of `{program}` lacks its value")
    value = after[0]
    if not value.single:
        raise Refused(f"the value of {name!r} of `{program}` may become several words")
    if value.text.startswith("-") and not value.text[1:].isdigit() and not row.any_option:
        raise Refused(f"{value.text!r} of `{program}` may be an option")
    return value

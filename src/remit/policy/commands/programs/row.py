"""The row of a shell program: one column for each question about the program.

A new program is one row in the module of its family; `table` joins the families.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Literal, TypeAlias

from msgspec import Struct

from remit.policy.commands.parse.options import OptionRow
from remit.policy.commands.parse.words import Word
from remit.policy.commands.programs.effects import CommandEffects, Lines, Write

Writes: TypeAlias = tuple[Write, ...]
WrittenOperands: TypeAlias = Literal["none", "all", "rest", "second", "first", "copied", "moved", "linked", "packed"]
"""The operands that are written. For `copied`, `moved` and `linked` the last operand is the target and the others are
sources; moved sources are written as well. `packed`: each operand, and its name with the packer's suffix."""

ROLES = "runner wrapper shell interpreter fetcher sender environment destroyer editor"
"""What the search for dangers must know of a program. `runner` and `wrapper` run the command behind them (`wrapper`
also covers shell keywords and programs that run commands elsewhere); `interpreter` runs code; `fetcher` downloads;
`sender` sends its input to another machine; `environment` prints variables; `destroyer` leaves nothing of its
operands; `editor` may change a file that its words name."""

ANY_USE = "*"
"""In the column `background`: the program always leaves a process running."""


class WriterRow(Struct, frozen=True):
    """The writes of a program, by its options and operands. Sets of options are written as words.

    `outputs` are options with a written file as value, `folders` options with a folder for new names as value.
    `recursive` options make the program descend into operands (`*`: always). Without a `required` option no operand is
    written; with an `idle` option no file is. `defaults_to_folder`: without operands the present folder is written.
    `expands_at_files`: a word `@FILE` stands for the words in FILE. `may_skip`: files below an operand may stay
    unchanged. For the remaining fields see `Write`.
    """

    options: OptionRow
    operands: WrittenOperands = "all"
    outputs: str = ""
    folders: str = ""
    recursive: str = ""
    required: str = ""
    idle: str = ""
    follows_links: bool = True
    edits_in_place: bool = False
    may_skip: bool = False
    makes_folder: bool = False
    defaults_to_folder: bool = False
    expands_at_files: bool = False
    suffix: str = ""


class DangerRule(Struct, frozen=True):
    """A use of a program that is dangerous whatever the scope. All conditions of the rule must hold.

    `verbs`: the first operands, with alternatives after `|`. `options`: at least one is given; a short option may stand
    in a bundle. `words`: a pattern for one of the remaining words. `unless`: none is given, as an option or as first
    operand. `is_irreversible`: neither git nor a snapshot brings the loss back.
    """

    verbs: str
    reason: str
    options: str = ""
    words: str = ""
    unless: str = ""
    is_irreversible: bool = True


class StdinRule(Struct, frozen=True):
    """The use of typed input by a program: read unless `operands` operands, or an option in `given`, are present.

    With an option in `always` the program reads nevertheless. `valued` options take the next word as value. Options are
    letters (`x` for `-x`, also within `-xyz`) or whole words. `runs_rest`: the program runs the command behind the
    options, and the row of the inner program decides.
    """

    operands: int = 1
    given: str = ""
    always: str = ""
    valued: str = ""
    runs_rest: bool = False


ANY_NUMBER = 99
"""More operands than any command has: no number of operands keeps the program from reading."""


class InnerCommand(Struct, frozen=True):
    """The command that a wrapper runs, and the wrapper's own writes. `lines`: the input lines, where known."""

    words: Sequence[Word]
    lines: Lines = None
    writes: Writes = ()


RunCommand: TypeAlias = Callable[[Sequence[Word]], CommandEffects]
ReadFunction: TypeAlias = Callable[[str, Sequence[Word]], CommandEffects]
WriteFunction: TypeAlias = Callable[[str, Sequence[Word]], Writes]
EffectsFunction: TypeAlias = Callable[[str, Sequence[Word], RunCommand], CommandEffects]
UnwrapFunction: TypeAlias = Callable[[Sequence[Word], Lines], InnerCommand]
ListFunction: TypeAlias = Callable[[str, Sequence[Word]], Lines]


class Program(Struct, frozen=True, kw_only=True):
    """One program. The functions of a row raise UnprovedCommand for unknown words."""

    reads: OptionRow | ReadFunction | None = None
    """The uses that only read."""
    runs: OptionRow | UnwrapFunction | None = None
    """The command that the program runs: the operands behind these options."""
    writes: WriterRow | WriteFunction | None = None
    """The files that other uses write."""
    verbs: Mapping[str, WriterRow] = {}
    """The same, by the first word."""
    effects: EffectsFunction | None = None
    """The same for programs that also run commands, or change git's own state."""
    lists: ListFunction | None = None
    """The words that the lines of the output are."""
    filters_lines: bool = False
    """The program drops or orders the lines of its input and changes none."""
    danger: tuple[DangerRule, ...] = ()
    """The first rule that matches counts."""
    stdin: StdinRule | None = None
    background: str = ""
    """The words by which the program leaves a process running; `ANY_USE` for each use."""
    version_options: str = ""
    """The words that, alone, make the program print its version."""
    roles: str = ""
    """See ROLES."""

    @property
    def is_writer(self) -> bool:
        return self.writes is not None or bool(self.verbs) or self.effects is not None

    @property
    def is_provable(self) -> bool:
        """True if some use of the program can be proved to read only, or to write only named files."""
        return self.reads is not None or self.runs is not None or self.is_writer


def rows(table: Mapping[str, Program]) -> dict[str, Program]:
    """Return a family's rows by program; a key may name several programs, separated by blanks."""
    return {name: program for names in table for name in names.split() for program in (table[names],)}


# Column `writes`


def packer_row(suffix: str, digits: str = "123456789", valued: str = "", outputs: str = "") -> WriterRow:
    long = "decompress keep force verbose quiet stdout to-stdout best fast rm"
    options = OptionRow(digits + "dkfvqc", valued, long)
    idle = "-c --stdout --to-stdout"
    return WriterRow(options, "packed", outputs, idle=idle, follows_links=False, suffix=suffix)


def formatter_row(options: OptionRow, idle: str = "", required: str = "", *, here: bool = False) -> WriterRow:
    """Return the row of a program that rewrites given files, and the files in given folders."""
    return WriterRow(
        options,
        recursive="*",
        required=required,
        idle=idle,
        edits_in_place=True,
        may_skip=True,
        defaults_to_folder=here,
    )


# Column `danger`

DISCARDS_WORK = "discards work that git does not keep"
REWRITES_HISTORY = "rewrites or deletes history"
REWRITES_SHARED_BRANCH = "rewrites or deletes a branch that others have"
WORKS_ON_DISKS = "works on disks"
CHANGES_USERS = "changes users or their rights"
CHANGES_MACHINE = "changes how this machine runs"
PUBLISHES = "publishes, which cannot be taken back"
DESTROYS_REMOTELY = "destroys what lies beyond this machine"
EVADES_CONTROL = "gets round what governs agents"

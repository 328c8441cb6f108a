"""The row of a shell program, with a column for each question, and the files written by a command according to the row.

A new program is a row in the module of the family; `table` joins the families.
"""

import posixpath
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Literal, TypeAlias

from msgspec import Struct
from msgspec.structs import replace

from remit.policy.commands.parsed_command import unmask_text
from remit.policy.commands.words import (
    GLOB_CHARACTER,
    HOME_MARK,
    START_MARK,
    OptionRow,
    ParsedOptions,
    UnprovedCommand,
    Word,
    parse_options,
)

Lines: TypeAlias = tuple[Word, ...] | None
"""The words that the lines of a program's input or output are; None where the text does not show them."""

HARMLESS_DEVICE = re.compile(r"dev/(?:null|zero|full|stdout|stderr|tty|fd/\d+)", re.ASCII)

ABSOLUTE = ("/", HOME_MARK, START_MARK)  # Beginnings of paths that no folder changes


class Write(Struct, frozen=True):
    """One place written, created or removed by a command.

    `path` is unchanged from the text: relative to the starting folder, absolute, or `~/…`; with `glob`, a pattern.
    """

    path: str
    glob: bool = False
    follows_links: bool = True  # If the last part of the path is a link, the file behind it is written
    is_recursive: bool = False  # Everything below a folder is written as well
    adds_names: bool = False  # The folder may get new names that the text does not show
    names_inside: tuple[str, ...] = ()  # If the path is a folder, these names in it are written instead
    may_be_link: bool = False  # Afterwards the path may be a link, or contain links
    edits_in_place: bool = False  # The rest of the content stays
    is_optional: bool = False  # Some or all of the files may be left as they are
    makes_folder: bool = False  # A folder is made, or left alone if it exists
    is_work_tree: bool = False  # A working tree that git makes or removes, with git's own folder in it
    only_layout: bool = False  # A formatter lays out the content anew


class CommandEffects(Struct, frozen=True):
    """The proved effects of one simple command, and the script passed to a shell."""

    programs: tuple[str, ...]
    reads: tuple[str, ...] = ()
    folder: str | None = None  # the shell's next folder, or git's if not the present one; "" if unknown
    script: str | None = None
    is_posix_shell: bool = False
    changes_folder: bool = False
    changes_state: bool = False  # does more than read, perhaps without a written file
    writes: tuple[Write, ...] = ()
    output_lines: Lines = None
    variables: tuple[str, ...] = ()  # set from the input
    git_verb: str = ""  # of a git command with writes
    undetermined: str = ""  # why only the end of the command shows the changes
    rewrites: bool = False  # the output is the input, rewritten
    unproved_formatter: str = ""  # why a formatter, which `writes` stands for, may do more


def write_to(word: Word, program: str) -> Write:
    path = word.text if word.is_literal else word.pattern
    if path is None or word.substitutions:
        raise UnprovedCommand(f"what `{program}` writes to is not in the text")
    if not path or path != path.strip() or "\n" in path or path.startswith("="):
        raise UnprovedCommand(f"`{program}` writes to {path!r}, which names no plain file")
    return Write(path, glob=not word.is_literal, is_optional=word.is_optional)


def write_all(program: str, words: Iterable[Word], **fields: bool) -> tuple[Write, ...]:
    return tuple(replace(write_to(word, program), **fields) for word in words)


def write_files(program: str, words: Iterable[Word]) -> tuple[Write, ...]:
    """Return a write to each of the files; `-` names none."""
    return write_all(program, (word for word in words if not (word.is_literal and word.text == "-")))


def extract_to(program: str, folder: Word) -> tuple[Write, ...]:
    """Return the write to a folder for the files of an archive: unknown names, possibly links."""
    return write_all(program, (folder,), adds_names=True, may_be_link=True)


def is_harmless_device(path: str) -> bool:
    """Return True for a device that drops written bytes, or passes the bytes on to the reader of output."""
    parts = [part for part in path.split("/") if part not in ("", ".")]
    return path.startswith("/") and HARMLESS_DEVICE.fullmatch("/".join(parts)) is not None


def check_plain_file(path: str) -> None:
    """Raise UnprovedCommand for a device, and for a path that may lead anywhere."""
    if re.match(r"/+(?:\./+)*(?:dev|proc|sys)(?:/|$)", path):
        raise UnprovedCommand(f"{path!r} is no plain file")


def join_folder(folder: str | None, path: str) -> str:
    """Return `path`, given in `folder`, from the start. Raises UnprovedCommand where the folder is not known."""
    if path.startswith(START_MARK):
        return path[1:].lstrip("/") or "."
    if path.startswith(("/", HOME_MARK)):
        return path
    if folder is None:
        raise UnprovedCommand(f"the folder in which {path!r} lies is not in the text")
    return posixpath.join(folder, path)


def change_folder(folder: str | None, path: str) -> str:
    target = join_folder(folder, path)
    if target.startswith(HOME_MARK):
        inside = posixpath.normpath("/" + target[1:].lstrip("/"))
        return HOME_MARK + ("" if inside == "/" else inside)
    normal = posixpath.normpath(target)
    return "" if normal == "." else normal


def display_path(path: str) -> str:
    """Return the path with `~` for the home folder only."""
    if path == HOME_MARK or path.startswith(HOME_MARK + "/"):
        path = "~" + path[1:]
    elif path.startswith("~"):
        path = "./" + path
    if HOME_MARK in path or START_MARK in path:
        raise UnprovedCommand("a home folder in the middle of a name")
    return unmask_text(path)


def locate_write(write: Write, folder: str | None) -> Write:
    path = display_path(join_folder(folder, write.path))
    return replace(write, path=path, names_inside=tuple(map(unmask_text, write.names_inside)))


def check_links(writes: tuple[Write, ...]) -> None:
    """Raise UnprovedCommand if a write may go through a link made by the same command."""
    for made in (write for write in writes if write.may_be_link):
        for other in (write for write in writes if write != made):
            for place in possible_places(made):
                for path in possible_places(other):
                    replaced = other.path.count("/") <= place.count("/") if other.glob else path == place
                    if replaced and not other.follows_links and not other.names_inside:
                        continue
                    above = other.glob and f"{place}/".startswith(f"{path}/")
                    if path == place or path.startswith(f"{place}/") or above:
                        raise UnprovedCommand(f"{other.path!r} may lie behind a link that this command makes")


def possible_places(write: Write) -> tuple[str, ...]:
    path = GLOB_CHARACTER.split(write.path)[0].rpartition("/")[0] if write.glob else write.path
    at = posixpath.normpath(path or ".")
    inside = tuple(posixpath.normpath(posixpath.join(at, name)) for name in write.names_inside)
    return inside if write.path.endswith("/") and inside else (at, *inside)


Writes: TypeAlias = tuple[Write, ...]
WrittenOperands: TypeAlias = Literal["none", "all", "rest", "second", "first", "copied", "moved", "linked", "packed"]
"""The operands that are written. For `copied`, `moved` and `linked` the last operand is the target and the others are
sources; moved sources are written as well. `packed`: each operand, and its name with the packer's suffix."""

ROLES = "runner wrapper shell interpreter fetcher sender environment destroyer editor"
"""What the search for dangers must know of a program. `runner` and `wrapper` run the command behind them (`wrapper`
also covers shell keywords and programs that run commands elsewhere); `interpreter` runs code; `fetcher` downloads;
`sender` sends its input to another machine; `environment` prints variables; `destroyer` leaves nothing of its
operands; `editor` may change a file that its words name."""

ANY_USE = "*"  # In the column `background`: the program always leaves a process running


class WriterRow(Struct, frozen=True):
    """The writes of a program, by its options and operands. Options are written as words. See also `Write`."""

    options: OptionRow
    operands: WrittenOperands = "all"
    outputs: str = ""  # with a written file as value
    folders: str = ""  # with a folder for new names as value
    recursive: str = ""  # make the program descend into operands; `*`: always
    required: str = ""  # without any of these no operand is written
    idle: str = ""  # with one of these no file is written
    follows_links: bool = True
    edits_in_place: bool = False
    may_skip: bool = False  # files below an operand may stay unchanged
    makes_folder: bool = False
    defaults_to_folder: bool = False  # without operands the present folder is written
    expands_at_files: bool = False  # a word `@FILE` stands for the words in FILE
    suffix: str = ""


class DangerRule(Struct, frozen=True):
    """A use of a program that is dangerous whatever the scope. All conditions of the rule must hold."""

    verbs: str  # the first operands, with alternatives after `|`
    reason: str
    options: str = ""  # at least one is given; a short option may stand in a bundle
    words: str = ""  # a pattern for one of the remaining words
    unless: str = ""  # none is given, as an option or as first operand
    except_for: Callable[[Sequence[str]], bool] | None = None  # uses that are not, by the words after the verbs
    is_irreversible: bool = True  # neither git nor a snapshot brings the loss back


class StdinRule(Struct, frozen=True):
    """The use of typed input by a program. Options are letters (`x` for `-x`, also within `-xyz`) or whole words."""

    operands: int = 1  # with fewer operands the program reads
    given: str = ""  # with one of these options it does not
    always: str = ""  # with one of these it does nevertheless
    valued: str = ""  # options that take the next word as value
    runs_rest: bool = False  # it runs the command behind the options, whose row decides


ANY_NUMBER = 99  # More operands than any command has: no number of operands keeps the program from reading


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

    reads: OptionRow | ReadFunction | None = None  # The uses that only read
    runs: OptionRow | UnwrapFunction | None = None
    """The command that the program runs: the operands behind these options."""
    writes: WriterRow | WriteFunction | None = None  # The files that other uses write
    verbs: Mapping[str, WriterRow] = {}  # The same, by the first word
    effects: EffectsFunction | None = None  # The same for programs that also run commands, or change git's own state
    lists: ListFunction | None = None  # The words that the lines of the output are
    filters_lines: bool = False  # The program drops or orders the lines of its input and changes none
    danger: tuple[DangerRule, ...] = ()  # The first rule that matches counts
    stdin: StdinRule | None = None
    background: str = ""  # The words by which the program leaves a process running; `ANY_USE` for each use
    version_options: str = ""  # The words that, alone, make the program print its version
    roles: str = ""  # See ROLES

    @property
    def is_writer(self) -> bool:
        return self.writes is not None or bool(self.verbs) or self.effects is not None

    @property
    def is_provable(self) -> bool:
        """True if some use of the program can be proved to read only, or to write only named files."""
        return self.reads is not None or self.runs is not None or self.is_writer


NO_OPTIONS = OptionRow()


def rows(table: Mapping[str, Program]) -> dict[str, Program]:
    return {name: program for names, program in table.items() for name in names.split()}


def verbs_that_read(
    verbs: Mapping[str, OptionRow], leading: OptionRow = NO_OPTIONS, also: tuple[str, ...] = ()
) -> ReadFunction:
    """Return the function of a program that only reads with these first words, each with its safe options.

    `leading` are options before the verb; `also` names programs run by the program.
    """
    table = {verb: row for names, row in verbs.items() for verb in names.split("|")}

    def read(name: str, words: Sequence[Word]) -> CommandEffects:
        rest = parse_options(name, leading, words, stop_at_operand=True).operands
        first = [word.text if word.is_literal else "" for word in rest[:2]]
        for verb in (" ".join(first), *first[:1], *([] if first else [""])):
            if (row := table.get(verb)) is not None:
                parse_options(f"{name} {verb}", row, rest[len(verb.split()) :])
                return CommandEffects((name, *also))
        raise UnprovedCommand(f"what `{name} {' '.join(first)}` does is not on the read-only table")

    return read


def packer_row(suffix: str, digits: str = "123456789", valued: str = "", outputs: str = "") -> WriterRow:
    long = "decompress keep force verbose quiet stdout to-stdout best fast rm"
    options, idle = OptionRow(digits + "dkfvqc", valued, long), "-c --stdout --to-stdout"
    return WriterRow(options, "packed", outputs, idle=idle, follows_links=False, suffix=suffix)


def formatter_row(options: OptionRow, idle: str = "", required: str = "", *, here: bool = False) -> WriterRow:
    """Return the row of a program that rewrites given files, and the files in given folders."""
    row = WriterRow(options, recursive="*", required=required, idle=idle, edits_in_place=True, may_skip=True)
    return replace(row, defaults_to_folder=here)


DISCARDS_WORK = "discards work that git does not keep"
REWRITES_HISTORY = "rewrites or deletes history"
REWRITES_SHARED_BRANCH = "rewrites or deletes a branch that others have"
WORKS_ON_DISKS = "works on disks"
CHANGES_USERS = "changes users or their rights"
CHANGES_MACHINE = "changes how this machine runs"
PUBLISHES = "publishes, which cannot be taken back"
DESTROYS_REMOTELY = "destroys what lies beyond this machine"
EVADES_CONTROL = "gets round what governs agents"


def find_row_writes(program: str, writer: WriterRow, words: Sequence[Word]) -> Writes:
    """Return all writes of a command. Raises UnprovedCommand."""
    row = add_valued_options(writer.options, f"{writer.outputs} {writer.folders}")
    parsed = parse_options(program, row, words, takes_globs=writer.operands not in ("none", "second"))
    if parsed.has_option("--help", "--version"):
        return ()
    if writer.expands_at_files:
        check_no_at_files(program, words)
    outputs = write_all(program, parsed.values(*writer.outputs.split()))
    if parsed.has_option(*writer.idle.split()) or (writer.required and not parsed.has_option(*writer.required.split())):
        return outputs
    writes = (*(add_suffix(write, writer) for write in outputs), *find_operand_writes(program, writer, parsed))
    if writer.suffix not in PART_SUFFIXES:
        return writes
    # After the first of several parts all names may follow.
    parts: list[Write] = []
    for write in writes:
        name = write.path.removesuffix(writer.suffix)
        if write.glob or GLOB_CHARACTER.search(name):
            raise UnprovedCommand(f"the names that `{program}` gives to its parts are not in the text")
        parts += [write, replace(write, path=f"{name}*", glob=True, is_optional=True)]
    return tuple(parts)


def check_no_at_files(program: str, words: Iterable[Word]) -> None:
    """Raise UnprovedCommand if a word may stand for the words in a file; a glob is checked where it is expanded."""
    for word in words:
        if word.text.startswith("@") or not (word.is_literal or word.text or word.pattern):
            raise UnprovedCommand(f"a word of `{program}` may stand for others, in a file")


def add_valued_options(row: OptionRow, options: str) -> OptionRow:
    given = options.split()
    short = "".join(option[1:] for option in given if len(option) == 2 and option[1] not in row.valued)
    long = " ".join(option[2:] for option in given if option.startswith("--"))
    return replace(row, valued=row.valued + short, long_valued=f"{row.long_valued} {long}")


def find_operand_writes(program: str, writer: WriterRow, parsed: ParsedOptions) -> Iterator[Write]:
    """Yield the writes that follow from the operands. Raises UnprovedCommand."""
    words = parsed.operands
    recursive = writer.recursive == "*" or parsed.has_option(*writer.recursive.split())
    match writer.operands:
        case "all" | "rest":
            if writer.operands == "rest":
                if words and not words[0].is_single:
                    raise UnprovedCommand(f"the first operand of `{program}` may become several words")
                words = words[1:]
            elif not words and writer.defaults_to_folder:
                words = (Word("."),)
            for write in write_all(program, words):
                yield replace(
                    write,
                    follows_links=writer.follows_links,
                    is_recursive=recursive,
                    edits_in_place=writer.edits_in_place,
                    is_optional=write.is_optional or (writer.may_skip and recursive),
                    makes_folder=writer.makes_folder,
                )
        case "first":
            yield from (add_suffix(write, writer) for write in write_all(program, words[:1]))
        case "second":
            if not all(word.is_single for word in words[:2]) or len(words) > 2:
                raise UnprovedCommand(f"what the operands of `{program}` are is not in the text")
            # `split` writes to `xaa` and so on where no name is given.
            second = (Word("x"),) if writer.suffix and len(words) < 2 else words[1:]
            yield from (add_suffix(write, writer) for write in write_all(program, second))
        case "copied" | "moved" | "linked":
            yield from find_transfer_writes(program, writer, parsed, recursive=recursive)
        case "packed":
            for word in words:
                yield from find_packer_writes(program, writer, word)
        case "none":
            if writer.suffix and not parsed.has_option(*writer.outputs.split()):
                yield Write(f"xx{writer.suffix}")  # csplit's own name
            if writer.folders:
                folders = parsed.values(*writer.folders.split()) or (Word("."),)
                yield from (write for word in folders for write in extract_to(program, word))


def add_suffix(write: Write, writer: WriterRow) -> Write:
    has_suffix = writer.suffix.startswith(".") and "." in write.path.rpartition("/")[2]
    named = not writer.suffix or writer.operands == "packed" or has_suffix
    return write if named else replace(write, path=write.path + writer.suffix)


PART_SUFFIXES = frozenset({"aa", "00"})
"""The suffix of the first file that `split` and `csplit` make; the next files may exist already, as links."""

SHORT_SUFFIX = re.compile(r"\.(?:tgz|taz|tbz2?|tz2|tb2|txz|tlz4?|tzst|tz|tZ)$")
PACKED_SUFFIX = re.compile(r"(?:\.(?:gz|z|Z|bz2?|xz|lzma|lz4?|zst|br)|[-_](?:gz|z))$")
"""Suffixes of packed files; each packer also knows the suffixes of others."""

OUT_SUFFIXES = frozenset({".bz2", ".lz"})
"""Suffixes of the packers that write `NAME.out` for a packed file of any other name."""


def find_packer_writes(program: str, writer: WriterRow, word: Word) -> Iterator[Write]:
    write = write_to(word, program)
    path = write.path
    yield replace(write, follows_links=False)
    if found := PACKED_SUFFIX.search(path):
        yield replace(write, path=path[: found.start()])
    elif short := SHORT_SUFFIX.search(path):
        yield replace(write, path=f"{path[: short.start()]}.tar")
    if not path.endswith(writer.suffix):
        yield replace(write, path=path + writer.suffix)
        if writer.suffix in OUT_SUFFIXES:
            yield replace(write, path=f"{path}.out")


def find_transfer_writes(program: str, writer: WriterRow, parsed: ParsedOptions, *, recursive: bool) -> Iterator[Write]:
    """Yield the writes of `cp`, `mv`, `ln` and their kin. Raises UnprovedCommand.

    The target is the last operand, or the folder of `-t`.
    """
    folders = parsed.values(*writer.folders.split())
    sources, targets = (parsed.operands, folders) if folders else (parsed.operands[:-1], parsed.operands[-1:])
    if len(targets) != 1 or not sources:
        if writer.operands != "linked" or len(parsed.operands) != 1:
            raise UnprovedCommand(f"`{program}` without a source and a target")
        sources, targets = parsed.operands, (Word("."),)  # `ln TARGET` makes a link in the present folder
    if writer.operands == "moved":
        yield from write_all(program, sources, follows_links=False, is_recursive=True)
    elif any(word.may_be_option for word in sources):
        raise UnprovedCommand(f"a word of `{program}` may become any option")
    if writer.operands == "linked":
        for word in sources:
            # A write to a hard link is a write to its target; a symbolic link must stay in its folder.
            if not parsed.has_option("-s", "--symbolic"):
                yield replace(write_to(word, program), edits_in_place=True)
            elif not word.is_literal or GLOB_CHARACTER.search(word.text) or word.text.startswith(ABSOLUTE):
                raise UnprovedCommand(f"where the link of `{program}` leads is not in the text, or far away")
            elif ".." in word.text.split("/"):
                raise UnprovedCommand(f"the link of `{program}` leads upwards, to {word.text!r}")
    # The names of the sources in a target folder; None if some are unknown.
    bases = [posixpath.basename(word.text.rstrip("/")) if word.is_literal else "" for word in sources]
    odd = any(name in ("", ".", "..") or HOME_MARK in name or START_MARK in name for name in bases)
    names = None if odd else tuple(bases)
    exact = parsed.has_option("-T", "--no-target-directory")
    yield replace(
        write_to(targets[0], program),
        follows_links=writer.follows_links,
        names_inside=() if exact else names or (),
        adds_names=(recursive and writer.operands == "copied") or (names is None and not exact),
        may_be_link=writer.operands != "copied" or recursive,
    )

"""What a program of the table writes, from its words."""

import posixpath
import re
from collections.abc import Iterable, Iterator, Sequence

from msgspec.structs import replace

from remit.policy.commands.parse.options import OptionRow, ParsedOptions, parse_options
from remit.policy.commands.parse.words import GLOB_CHARACTER, HOME_MARK, START_MARK, UnprovedCommand, Word
from remit.policy.commands.programs.effects import Write, write_to
from remit.policy.commands.programs.writers import WriterRow


def find_row_writes(program: str, writer: WriterRow, words: Sequence[Word]) -> tuple[Write, ...]:
    """All that it writes; raises Refused."""
    row = add_valued_options(writer.options, writer.output_options | writer.folder_options)
    taken = parse_options(program, row, words, globs_are_operands=writer.written_operands not in ("none", "second"))
    if taken.has_option("--help", "--version"):
        return ()
    if writer.expands_at_files:
        check_no_at_files(program, words)
    outputs = tuple(write_to(word, program) for word in taken.values(*writer.output_options))
    if taken.has_option(*writer.no_write_options) or (writer.required and not taken.has_option(*writer.required)):
        return outputs
    return tuple(
        add_parts(
            program, writer, (*(add_suffix(w, writer) for w in outputs), *find_operand_writes(program, writer, taken))
        )
    )


def named_files(program: str, words: Sequence[Word]) -> tuple[Write, ...]:
    """The files that these name; `-` is none."""
    return tuple(write_to(word, program) for word in words if not (word.is_literal and word.text == "-"))


def check_no_at_files(program: str, words: Iterable[Word]) -> None:
    """No word stands for the words in a file; raises Refused. Who looks a glob up has to see to it, too."""
    for word in words:
        if word.text.startswith("@") or not (word.is_literal or word.text or word.pattern):
            raise UnprovedCommand(f"a word of `{program}` may stand for others, in a file")


def add_valued_options(row: OptionRow, options: Iterable[str]) -> OptionRow:
    """The row, these options known as ones that take a value."""
    short = "".join(option[1:] for option in options if len(option) == 2 and option[1] not in row.valued)
    long = frozenset(option[2:] for option in options if option.startswith("--"))
    return replace(row, valued=row.valued + short, long_valued=row.long_valued | long)


def find_operand_writes(program: str, writer: WriterRow, parsed: ParsedOptions) -> Iterator[Write]:
    """What it writes because of its operands; raises Refused."""
    words = parsed.operands
    deep = "*" in writer.recursive_options or parsed.has_option(*writer.recursive_options)
    match writer.written_operands:
        case "all":
            yield from (
                shape_write(write_to(word, program), writer, recursive=deep)
                for word in words or default_operands(writer)
            )
        case "rest":
            yield from (
                shape_write(write_to(word, program), writer, recursive=deep)
                for word in operands_after_first(program, words)
            )
        case "first":
            yield from (add_suffix(write_to(word, program), writer) for word in words[:1])
        case "second":
            yield from (add_suffix(write_to(word, program), writer) for word in second_operand(program, writer, words))
        case "copied" | "moved" | "linked":
            yield from transfer_writes(program, writer, parsed, recursive=deep)
        case "packed":
            yield from (write for word in words for write in packed_names(program, writer, word))
        case "none":
            yield from program_named_writes(program, writer, parsed)


def shape_write(write: Write, writer: WriterRow, *, recursive: bool) -> Write:
    """The write of an operand, as the row has it."""
    maybe = write.is_optional or (writer.may_skip and recursive)
    return replace(
        write,
        follows_links=writer.follows_links,
        is_recursive=recursive,
        edits_in_place=writer.edits_in_place,
        is_optional=maybe,
        makes_folder=writer.makes_folder,
    )


def default_operands(writer: WriterRow) -> tuple[Word, ...]:
    """The present folder, for a program that takes it where none is given."""
    return (Word("."),) if writer.defaults_to_folder else ()


def operands_after_first(program: str, words: Sequence[Word]) -> Sequence[Word]:
    """All operands but the first, which must be one word."""
    if words and not words[0].is_single:
        raise UnprovedCommand(f"the first operand of `{program}` may become several words")
    return words[1:]


def second_operand(program: str, writer: WriterRow, words: Sequence[Word]) -> Sequence[Word]:
    """The second operand; `split` has a name of its own where there is none."""
    if not all(word.is_single for word in words[:2]) or len(words) > 2:
        raise UnprovedCommand(f"what the operands of `{program}` are is not in the text")
    if writer.suffix and len(words) < 2:
        return (Word("x"),)
    return words[1:]


def add_suffix(write: Write, writer: WriterRow) -> Write:
    """The write, where the program adds something to the name: `zip x` writes `x.zip`, `split` its parts."""
    if not writer.suffix or writer.written_operands == "packed":
        return write
    named = writer.suffix.startswith(".") and "." in write.path.rpartition("/")[2]
    return write if named else replace(write, path=write.path + writer.suffix)


PART_SUFFIXES = frozenset({"aa", "00"})
"""How the first of several files ends that `split` and `csplit` make; the next ones may be there already, as links."""


def add_parts(program: str, writer: WriterRow, writes: Iterable[Write]) -> Iterator[Write]:
    """The writes, and all that may follow the first of a row; raises Refused."""
    for write in writes:
        yield write
        if writer.suffix in PART_SUFFIXES:
            name = write.path.removesuffix(writer.suffix)
            if write.glob or GLOB_CHARACTER.search(name):
                raise UnprovedCommand(f"the names that `{program}` gives to its parts are not in the text")
            yield replace(write, path=f"{name}*", glob=True, is_optional=True)


SHORT_SUFFIX = re.compile(r"\.(?:tgz|taz|tbz2?|tz2|tb2|txz|tlz4?|tzst|tz|tZ)$")
PACKED_SUFFIX = re.compile(r"(?:\.(?:gz|z|Z|bz2?|xz|lzma|lz4?|zst|br)|[-_](?:gz|z))$")
"""The names that packers know for packed files, each also those of others."""

OUT_SUFFIXES = frozenset({".bz2", ".lz"})
"""Packers that add `.out` to a packed file of any other name."""


def packed_names(program: str, writer: WriterRow, word: Word) -> Iterator[Write]:
    """`gzip x` leaves `x.gz` for `x`, or back; whatever other name it may leave, as well."""
    write = replace(write_to(word, program), follows_links=False)
    yield write
    path = write.path
    if found := PACKED_SUFFIX.search(path):
        yield replace(write, path=path[: found.start()], follows_links=True)
    elif short := SHORT_SUFFIX.search(path):
        yield replace(write, path=f"{path[: short.start()]}.tar", follows_links=True)
    if not path.endswith(writer.suffix):
        yield replace(write, path=path + writer.suffix, follows_links=True)
        if writer.suffix in OUT_SUFFIXES:
            yield replace(write, path=f"{path}.out", follows_links=True)


def program_named_writes(program: str, writer: WriterRow, parsed: ParsedOptions) -> Iterator[Write]:
    """What has a name of the program's own: its parts, or what it takes from an archive into a folder."""
    if writer.suffix and not parsed.has_option(*writer.output_options):
        yield Write(f"xx{writer.suffix}")
    if not writer.folder_options:
        return
    given = parsed.values(*writer.folder_options) or (Word("."),)
    yield from (replace(write_to(word, program), adds_names=True, may_be_link=True) for word in given)


def transfer_writes(program: str, writer: WriterRow, parsed: ParsedOptions, *, recursive: bool) -> Iterator[Write]:
    """`cp`, `mv`, `ln` and their kin: from the first operands to the last, or into the folder of `-t`."""
    given = parsed.values(*writer.folder_options)
    sources, targets = (parsed.operands, given) if given else (parsed.operands[:-1], parsed.operands[-1:])
    if len(targets) != 1 or not sources:
        if writer.written_operands == "linked" and len(parsed.operands) == 1:
            sources, targets = parsed.operands, (Word("."),)
        else:
            raise UnprovedCommand(f"`{program}` without a source and a target")
    if writer.written_operands != "moved" and any(word.may_be_option for word in sources):
        raise UnprovedCommand(f"a word of `{program}` may become any option")
    symbolic = parsed.has_option("-s", "--symbolic")
    if writer.written_operands == "moved":
        yield from (replace(write_to(word, program), follows_links=False, is_recursive=True) for word in sources)
    if writer.written_operands == "linked":
        yield from link_writes(program, sources, symbolic=symbolic)
    into = basenames_of(sources)
    exact = parsed.has_option("-T", "--no-target-directory")
    yield replace(
        write_to(targets[0], program),
        follows_links=writer.follows_links,
        names_inside=() if exact else into or (),
        adds_names=(recursive and writer.written_operands == "copied") or (into is None and not exact),
        may_be_link=writer.written_operands != "copied" or recursive,
    )


def basenames_of(sources: Sequence[Word]) -> tuple[str, ...] | None:
    """The names that these get in a folder that they are put into; None where the text does not tell them all."""
    found: list[str] = []
    for word in sources:
        name = posixpath.basename(word.text.rstrip("/"))
        if not word.is_literal or name in ("", ".", "..") or HOME_MARK in name or START_MARK in name:
            return None
        found.append(name)
    return tuple(found)


def link_writes(program: str, sources: Sequence[Word], *, symbolic: bool) -> Iterator[Write]:
    """What a new link leads to. A hard link is another name of the file: whoever writes the one writes the other."""
    for word in sources:
        if not symbolic:
            yield replace(write_to(word, program), edits_in_place=True)
        elif (
            not word.is_literal
            or GLOB_CHARACTER.search(word.text)
            or word.text.startswith(("/", HOME_MARK, START_MARK))
        ):
            raise UnprovedCommand(f"where the link of `{program}` leads is not in the text, or far away")
        elif ".." in word.text.split("/"):
            raise UnprovedCommand(f"the link of `{program}` leads upwards, to {word.text!r}")

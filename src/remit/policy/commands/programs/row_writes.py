"""The files that a program writes, found by its `WriterRow` and the words of the command."""

import posixpath
import re
from collections.abc import Iterable, Iterator, Sequence

from msgspec.structs import replace

from remit.policy.commands.parse.options import OptionRow, ParsedOptions, parse_options
from remit.policy.commands.parse.words import GLOB_CHARACTER, HOME_MARK, START_MARK, UnprovedCommand, Word
from remit.policy.commands.programs.effects import Write, extract_to, write_to
from remit.policy.commands.programs.row import WriterRow


def find_row_writes(program: str, writer: WriterRow, words: Sequence[Word]) -> tuple[Write, ...]:
    """Return all writes of a command. Raises UnprovedCommand."""
    row = add_valued_options(writer.options, f"{writer.outputs} {writer.folders}")
    parsed = parse_options(program, row, words, globs_are_operands=writer.operands not in ("none", "second"))
    if parsed.has_option("--help", "--version"):
        return ()
    if writer.expands_at_files:
        check_no_at_files(program, words)
    outputs = tuple(write_to(word, program) for word in parsed.values(*writer.outputs.split()))
    if parsed.has_option(*writer.idle.split()) or (writer.required and not parsed.has_option(*writer.required.split())):
        return outputs
    named = (add_suffix(write, writer) for write in outputs)
    return tuple(add_parts(program, writer, (*named, *find_operand_writes(program, writer, parsed))))


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
            for word in words:
                write = write_to(word, program)
                yield replace(
                    write,
                    follows_links=writer.follows_links,
                    is_recursive=recursive,
                    edits_in_place=writer.edits_in_place,
                    is_optional=write.is_optional or (writer.may_skip and recursive),
                    makes_folder=writer.makes_folder,
                )
        case "first":
            yield from (add_suffix(write_to(word, program), writer) for word in words[:1])
        case "second":
            if not all(word.is_single for word in words[:2]) or len(words) > 2:
                raise UnprovedCommand(f"what the operands of `{program}` are is not in the text")
            # `split` writes to `xaa` and so on where no name is given.
            second = (Word("x"),) if writer.suffix and len(words) < 2 else words[1:]
            yield from (add_suffix(write_to(word, program), writer) for word in second)
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
                yield from (extract_to(word, program) for word in folders)


# Names that programs choose


def add_suffix(write: Write, writer: WriterRow) -> Write:
    """Return the write with the program's suffix: `zip x` writes `x.zip`, `split` writes its parts."""
    if not writer.suffix or writer.operands == "packed":
        return write
    has_suffix = writer.suffix.startswith(".") and "." in write.path.rpartition("/")[2]
    return write if has_suffix else replace(write, path=write.path + writer.suffix)


PART_SUFFIXES = frozenset({"aa", "00"})
"""The suffix of the first file that `split` and `csplit` make; the next files may exist already, as links."""


def add_parts(program: str, writer: WriterRow, writes: Iterable[Write]) -> Iterator[Write]:
    """Yield the writes, and after the first of several parts all names that may follow. Raises UnprovedCommand."""
    for write in writes:
        yield write
        if writer.suffix in PART_SUFFIXES:
            name = write.path.removesuffix(writer.suffix)
            if write.glob or GLOB_CHARACTER.search(name):
                raise UnprovedCommand(f"the names that `{program}` gives to its parts are not in the text")
            yield replace(write, path=f"{name}*", glob=True, is_optional=True)


SHORT_SUFFIX = re.compile(r"\.(?:tgz|taz|tbz2?|tz2|tb2|txz|tlz4?|tzst|tz|tZ)$")
PACKED_SUFFIX = re.compile(r"(?:\.(?:gz|z|Z|bz2?|xz|lzma|lz4?|zst|br)|[-_](?:gz|z))$")
"""Suffixes of packed files; each packer also knows the suffixes of others."""

OUT_SUFFIXES = frozenset({".bz2", ".lz"})
"""Suffixes of the packers that write `NAME.out` for a packed file of any other name."""


def find_packer_writes(program: str, writer: WriterRow, word: Word) -> Iterator[Write]:
    """Yield `x` and each name that a packer may leave for `x`, packed or unpacked."""
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


# Copies, moves and links


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
    if writer.operands != "moved" and any(word.may_be_option for word in sources):
        raise UnprovedCommand(f"a word of `{program}` may become any option")
    if writer.operands == "moved":
        yield from (replace(write_to(word, program), follows_links=False, is_recursive=True) for word in sources)
    if writer.operands == "linked":
        yield from find_link_writes(program, sources, symbolic=parsed.has_option("-s", "--symbolic"))
    names = base_names(sources)
    exact = parsed.has_option("-T", "--no-target-directory")
    yield replace(
        write_to(targets[0], program),
        follows_links=writer.follows_links,
        names_inside=() if exact else names or (),
        adds_names=(recursive and writer.operands == "copied") or (names is None and not exact),
        may_be_link=writer.operands != "copied" or recursive,
    )


def base_names(sources: Sequence[Word]) -> tuple[str, ...] | None:
    """Return the names of sources in a target folder; None if some are unknown."""
    found: list[str] = []
    for word in sources:
        name = posixpath.basename(word.text.rstrip("/"))
        if not word.is_literal or name in ("", ".", "..") or HOME_MARK in name or START_MARK in name:
            return None
        found.append(name)
    return tuple(found)


def find_link_writes(program: str, sources: Sequence[Word], *, symbolic: bool) -> Iterator[Write]:
    """Yield the targets of new hard links: a write to the link is a write to the target.

    Raises UnprovedCommand for symbolic links with a target outside the folder.
    """
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

"""What a program of the table writes, from its words."""

import posixpath
import re
from collections.abc import Iterable, Iterator, Sequence

from msgspec.structs import replace

from remit.policy.commands.effects import Write, written
from remit.policy.commands.options import Row, Taken, take
from remit.policy.commands.patterns import GLOB
from remit.policy.commands.words import HOME, START, Refused, Word
from remit.policy.commands.writers import Writer


def writes_of(program: str, writer: Writer, words: Sequence[Word]) -> tuple[Write, ...]:
    """All that it writes; raises Refused."""
    row = with_values(writer.row, writer.outputs | writer.folders)
    taken = take(program, row, words, globs=writer.operands not in ("none", "second"))
    if taken.has("--help", "--version"):
        return ()
    if writer.expands:
        check_expanded(program, words)
    outputs = tuple(written(word, program) for word in taken.values(*writer.outputs))
    if taken.has(*writer.idle) or (writer.needs and not taken.has(*writer.needs)):
        return outputs
    return tuple(parts(program, writer, (*(suffixed(w, writer) for w in outputs), *operands(program, writer, taken))))


def files(program: str, words: Sequence[Word]) -> tuple[Write, ...]:
    """The files that these name; `-` is none."""
    return tuple(written(word, program) for word in words if not (word.literal and word.text == "-"))


def check_expanded(program: str, words: Iterable[Word]) -> None:
    """No word stands for the words in a file; raises Refused. Who looks a glob up has to see to it, too."""
    for word in words:
        if word.text.startswith("@") or not (word.literal or word.text or word.pattern):
            raise Refused(f"a word of `{program}` may stand for others, in a file")


def with_values(row: Row, options: Iterable[str]) -> Row:
    """The row, these options known as ones that take a value."""
    short = "".join(option[1:] for option in options if len(option) == 2 and option[1] not in row.valued)
    long = frozenset(option[2:] for option in options if option.startswith("--"))
    return replace(row, valued=row.valued + short, long_valued=row.long_valued | long)


def operands(program: str, writer: Writer, taken: Taken) -> Iterator[Write]:
    """What it writes because of its operands; raises Refused."""
    words = taken.operands
    deep = "*" in writer.deep or taken.has(*writer.deep)
    match writer.operands:
        case "all":
            yield from (shaped(written(word, program), writer, deep=deep) for word in words or default(writer))
        case "rest":
            yield from (shaped(written(word, program), writer, deep=deep) for word in rest_of(program, words))
        case "first":
            yield from (suffixed(written(word, program), writer) for word in words[:1])
        case "second":
            yield from (suffixed(written(word, program), writer) for word in second(program, writer, words))
        case "copied" | "moved" | "linked":
            yield from transferred(program, writer, taken, deep=deep)
        case "packed":
            yield from (write for word in words for write in packed(program, writer, word))
        case "none":
            yield from unpacked(program, writer, taken)


def shaped(write: Write, writer: Writer, *, deep: bool) -> Write:
    """The write of an operand, as the row has it."""
    maybe = write.maybe or (writer.maybe and deep)
    return replace(write, follows=writer.follows, below=deep, edits=writer.edits, maybe=maybe, makes=writer.makes)


def default(writer: Writer) -> tuple[Word, ...]:
    """The present folder, for a program that takes it where none is given."""
    return (Word("."),) if writer.here else ()


def rest_of(program: str, words: Sequence[Word]) -> Sequence[Word]:
    """All operands but the first, which must be one word."""
    if words and not words[0].single:
        raise Refused(f"the first operand of `{program}` may become several words")
    return words[1:]


def second(program: str, writer: Writer, words: Sequence[Word]) -> Sequence[Word]:
    """The second operand; `split` has a name of its own where there is none."""
    if not all(word.single for word in words[:2]) or len(words) > 2:
        raise Refused(f"what the operands of `{program}` are is not in the text")
    if writer.suffix and len(words) < 2:
        return (Word("x"),)
    return words[1:]


def suffixed(write: Write, writer: Writer) -> Write:
    """The write, where the program adds something to the name: `zip x` writes `x.zip`, `split` its parts."""
    if not writer.suffix or writer.operands == "packed":
        return write
    named = writer.suffix.startswith(".") and "." in write.path.rpartition("/")[2]
    return write if named else replace(write, path=write.path + writer.suffix)


PARTS = frozenset({"aa", "00"})
"""How the first of several files ends that `split` and `csplit` make; the next ones may be there already, as links."""


def parts(program: str, writer: Writer, writes: Iterable[Write]) -> Iterator[Write]:
    """The writes, and all that may follow the first of a row; raises Refused."""
    for write in writes:
        yield write
        if writer.suffix in PARTS:
            name = write.path.removesuffix(writer.suffix)
            if write.glob or GLOB.search(name):
                raise Refused(f"the names that `{program}` gives to its parts are not in the text")
            yield replace(write, path=f"{name}*", glob=True, maybe=True)


SHORT = re.compile(r"\.(?:tgz|taz|tbz2?|tz2|tb2|txz|tlz4?|tzst|tz|tZ)$")
PACKED = re.compile(r"(?:\.(?:gz|z|Z|bz2?|xz|lzma|lz4?|zst|br)|[-_](?:gz|z))$")
"""The names that packers know for packed files, each also those of others."""

OUT = frozenset({".bz2", ".lz"})
"""Packers that add `.out` to a packed file of any other name."""


def packed(program: str, writer: Writer, word: Word) -> Iterator[Write]:
    """`gzip x` leaves `x.gz` for `x`, or back; whatever other name it may leave, as well."""
    write = replace(written(word, program), follows=False)
    yield write
    path = write.path
    if found := PACKED.search(path):
        yield replace(write, path=path[: found.start()], follows=True)
    elif short := SHORT.search(path):
        yield replace(write, path=f"{path[: short.start()]}.tar", follows=True)
    if not path.endswith(writer.suffix):
        yield replace(write, path=path + writer.suffix, follows=True)
        if writer.suffix in OUT:
            yield replace(write, path=f"{path}.out", follows=True)


def unpacked(program: str, writer: Writer, taken: Taken) -> Iterator[Write]:
    """What has a name of the program's own: its parts, or what it takes from an archive into a folder."""
    if writer.suffix and not taken.has(*writer.outputs):
        yield Write(f"xx{writer.suffix}")
    if not writer.folders:
        return
    given = taken.values(*writer.folders) or (Word("."),)
    yield from (replace(written(word, program), opens=True, links=True) for word in given)


def transferred(program: str, writer: Writer, taken: Taken, *, deep: bool) -> Iterator[Write]:
    """`cp`, `mv`, `ln` and their kin: from the first operands to the last, or into the folder of `-t`."""
    given = taken.values(*writer.folders)
    sources, targets = (taken.operands, given) if given else (taken.operands[:-1], taken.operands[-1:])
    if len(targets) != 1 or not sources:
        if writer.operands == "linked" and len(taken.operands) == 1:
            sources, targets = taken.operands, (Word("."),)
        else:
            raise Refused(f"`{program}` without a source and a target")
    if writer.operands != "moved" and any(word.may_be_option for word in sources):
        raise Refused(f"a word of `{program}` may become any option")
    symbolic = taken.has("-s", "--symbolic")
    if writer.operands == "moved":
        yield from (replace(written(word, program), follows=False, below=True) for word in sources)
    if writer.operands == "linked":
        yield from linked(program, sources, symbolic=symbolic)
    into = names_of(sources)
    exact = taken.has("-T", "--no-target-directory")
    yield replace(
        written(targets[0], program),
        follows=writer.follows,
        into=() if exact else into or (),
        opens=(deep and writer.operands == "copied") or (into is None and not exact),
        links=writer.operands != "copied" or deep,
    )


def names_of(sources: Sequence[Word]) -> tuple[str, ...] | None:
    """The names that these get in a folder that they are put into; None where the text does not tell them all."""
    found: list[str] = []
    for word in sources:
        name = posixpath.basename(word.text.rstrip("/"))
        if not word.literal or name in ("", ".", "..") or HOME in name or START in name:
            return None
        found.append(name)
    return tuple(found)


def linked(program: str, sources: Sequence[Word], *, symbolic: bool) -> Iterator[Write]:
    """What a new link leads to. A hard link is another name of the file: whoever writes the one writes the other."""
    for word in sources:
        if not symbolic:
            yield replace(written(word, program), edits=True)
        elif not word.literal or GLOB.search(word.text) or word.text.startswith(("/", HOME, START)):
            raise Refused(f"where the link of `{program}` leads is not in the text, or far away")
        elif ".." in word.text.split("/"):
            raise Refused(f"the link of `{program}` leads upwards, to {word.text!r}")

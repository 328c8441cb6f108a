"""Compilers, as far as their words tell what they write: each answers that, or raises Refused.

Source: the manuals of GCC 14, Clang 18 and GNU binutils 2.42, read 2026-11.
"""

import posixpath
import re
from collections.abc import Callable, Sequence
from typing import TypeAlias

from msgspec.structs import replace

from remit.policy.commands.effects import Write, written
from remit.policy.commands.options import Row, names, take
from remit.policy.commands.words import Refused, Word
from remit.policy.commands.writing import check_expanded, files

Writes: TypeAlias = tuple[Write, ...]

COMPILER = re.compile(
    r"-(?:c|S|E|v|w|g[0-3]?|O(?:[0-3sgz]|fast)?|W(?![alp],)[\w=+-]*|std=[\w+]+|pedantic|pedantic-errors|ansi|pthread|"
    r"shared|static|pie|no-pie|m(?:32|64|arch=[\w.-]+|tune=[\w-]+|avx2?)|"
    r"f(?:PIC|PIE|pic|pie|no-[\w-]+|openmp|sanitize=[\w,-]+|visibility=\w+|exceptions|stack-protector[\w-]*|"
    r"syntax-only|diagnostics-color(?:=\w+)?|strict-aliasing)|[IDUl].+)",
    re.ASCII,
)
"""What leaves a compiler at the one file of `-o`: no `-save-temps`, `-M…`, plugins, or words for the linker."""

SOURCES = names(".c .cc .cpp .cxx .C .s .S")
"""What is compiled. Objects and libraries may hold words for the linker, and of a header something else is made."""


def _compiler(name: str, words: Sequence[Word]) -> Writes:
    """`cc … -o FILE`; with `-c` or `-S` alone, one file a source, in the present folder."""
    check_expanded(name, words)
    outputs, sources = list[Word](), list[Word]()
    given: set[str] = set()
    rest = list(words)
    while rest:
        word = rest.pop(0)
        if not word.may_be_option:
            sources.append(word)
        elif word.literal and word.text in ("-o", "-I", "-D", "-U", "-l", "-include", "-isystem"):
            if not rest or not rest[0].single:
                raise Refused(f"{word.text!r} of `{name}` lacks its value")
            value = rest.pop(0)
            outputs += [value] if word.text == "-o" else []
        elif word.literal and word.text.startswith("-o") and not word.text.startswith(("-objc", "-openmp")):
            outputs.append(replace(word, text=word.text[2:]))
        elif word.literal and COMPILER.fullmatch(word.text):
            given.add(word.text)
        else:
            raise Refused(f"{word.text!r} of `{name}` is not on the tables")
    if len(outputs) > 1 or not all(posixpath.splitext(word.glob or "")[1] in SOURCES for word in sources):
        raise Refused(f"`{name}` with several outputs, or with what is no source")
    return files(name, outputs) if outputs else objects(name, sources, given)


def objects(name: str, sources: Sequence[Word], given: set[str]) -> Writes:
    """What a compiler writes that is not told a name; raises Refused where that is not sure."""
    if not sources or (given & {"-E", "-fsyntax-only"} and not given & {"-c", "-S"}):
        return ()
    suffix = ".o" if "-c" in given else ".s" if "-S" in given else ""
    if not suffix or not all(word.literal and "." in word.text for word in sources) or {"-c", "-S"} <= given:
        raise Refused(f"what `{name}` writes to is not in its words")
    stems = (posixpath.splitext(posixpath.basename(word.text))[0] for word in sources)
    return tuple(written(Word(stem + suffix), name) for stem in stems)


OBJCOPY = Row(
    "SgxXpvD",
    "OIjR",
    long=names("strip-all strip-debug strip-unneeded only-keep-debug preserve-dates verbose"),
    long_valued=names("output-target input-target only-section remove-section"),
)


def _objcopy(name: str, words: Sequence[Word]) -> Writes:
    """`objcopy IN [OUT]`."""
    check_expanded(name, words)
    operands = take(name, OBJCOPY, words).operands
    if len(operands) not in (1, 2) or not all(word.single for word in operands):
        raise Refused(f"`{name}` without one or two files")
    return files(name, operands[-1:])


COMPILERS: dict[str, Callable[[str, Sequence[Word]], Writes]] = {
    **dict.fromkeys(("cc", "gcc", "g++", "c++", "clang", "clang++"), _compiler),
    "objcopy": _objcopy,
}

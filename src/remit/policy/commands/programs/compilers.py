"""Compilers, as far as their words tell what they write: each answers that, or raises Refused.

Source: the manuals of GCC 14, Clang 18 and GNU binutils 2.42, read 2026-11.
"""

import posixpath
import re
from collections.abc import Callable, Sequence
from typing import TypeAlias

from msgspec.structs import replace

from remit.policy.commands.parse.options import OptionRow, parse_options, word_set
from remit.policy.commands.parse.words import UnprovedCommand, Word
from remit.policy.commands.programs.effects import Write, write_to
from remit.policy.commands.programs.writer_rows import check_no_at_files, named_files

Writes: TypeAlias = tuple[Write, ...]

COMPILER_OPTION = re.compile(
    r"-(?:c|S|E|v|w|g[0-3]?|O(?:[0-3sgz]|fast)?|W(?![alp],)[\w=+-]*|std=[\w+]+|pedantic|pedantic-errors|ansi|pthread|"
    r"shared|static|pie|no-pie|m(?:32|64|arch=[\w.-]+|tune=[\w-]+|avx2?)|"
    r"f(?:PIC|PIE|pic|pie|no-[\w-]+|openmp|sanitize=[\w,-]+|visibility=\w+|exceptions|stack-protector[\w-]*|"
    r"syntax-only|diagnostics-color(?:=\w+)?|strict-aliasing)|[IDUl].+)",
    re.ASCII,
)
"""What leaves a compiler at the one file of `-o`: no `-save-temps`, `-M…`, plugins, or words for the linker."""

SOURCE_SUFFIXES = word_set(".c .cc .cpp .cxx .C .s .S")
"""What is compiled. Objects and libraries may hold words for the linker, and of a header something else is made."""


def write_compiler(name: str, words: Sequence[Word]) -> Writes:
    """`cc … -o FILE`; with `-c` or `-S` alone, one file a source, in the present folder."""
    check_no_at_files(name, words)
    outputs, sources = list[Word](), list[Word]()
    given: set[str] = set()
    rest = list(words)
    while rest:
        word = rest.pop(0)
        if not word.may_be_option:
            sources.append(word)
        elif word.is_literal and word.text in ("-o", "-I", "-D", "-U", "-l", "-include", "-isystem"):
            if not rest or not rest[0].is_single:
                raise UnprovedCommand(f"{word.text!r} of `{name}` lacks its value")
            value = rest.pop(0)
            outputs += [value] if word.text == "-o" else []
        elif word.is_literal and word.text.startswith("-o") and not word.text.startswith(("-objc", "-openmp")):
            outputs.append(replace(word, text=word.text[2:]))
        elif word.is_literal and COMPILER_OPTION.fullmatch(word.text):
            given.add(word.text)
        else:
            raise UnprovedCommand(f"{word.text!r} of `{name}` is not on the tables")
    if len(outputs) > 1 or not all(posixpath.splitext(word.glob or "")[1] in SOURCE_SUFFIXES for word in sources):
        raise UnprovedCommand(f"`{name}` with several outputs, or with what is no source")
    return named_files(name, outputs) if outputs else default_outputs(name, sources, given)


def default_outputs(name: str, sources: Sequence[Word], given: set[str]) -> Writes:
    """What a compiler writes that is not told a name; raises Refused where that is not sure."""
    if not sources or (given & {"-E", "-fsyntax-only"} and not given & {"-c", "-S"}):
        return ()
    suffix = ".o" if "-c" in given else ".s" if "-S" in given else ""
    if not suffix or not all(word.is_literal and "." in word.text for word in sources) or {"-c", "-S"} <= given:
        raise UnprovedCommand(f"what `{name}` writes to is not in its words")
    stems = (posixpath.splitext(posixpath.basename(word.text))[0] for word in sources)
    return tuple(write_to(Word(stem + suffix), name) for stem in stems)


OBJCOPY_OPTIONS = OptionRow(
    "SgxXpvD",
    "OIjR",
    long=word_set("strip-all strip-debug strip-unneeded only-keep-debug preserve-dates verbose"),
    long_valued=word_set("output-target input-target only-section remove-section"),
)


def write_objcopy(name: str, words: Sequence[Word]) -> Writes:
    """`objcopy IN [OUT]`."""
    check_no_at_files(name, words)
    operands = parse_options(name, OBJCOPY_OPTIONS, words).operands
    if len(operands) not in (1, 2) or not all(word.is_single for word in operands):
        raise UnprovedCommand(f"`{name}` without one or two files")
    return named_files(name, operands[-1:])


COMPILERS: dict[str, Callable[[str, Sequence[Word]], Writes]] = {
    **dict.fromkeys(("cc", "gcc", "g++", "c++", "clang", "clang++"), write_compiler),
    "objcopy": write_objcopy,
}

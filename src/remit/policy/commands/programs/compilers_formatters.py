"""Development tools: compilers, linker tools and formatters.

A compiler is known as far as the words show the written files. A formatter rewrites the given files, and the files in
given folders. `eslint` and `prettier` are left out on purpose (their settings are programs), and `rustfmt` and `cargo
fmt` (they follow `mod`). Source: the manuals of GCC 14, Clang 18, GNU binutils 2.42, gettext 0.22 and of the formatters
named, read 2026-11.
"""

import posixpath
import re
from collections.abc import Mapping, Sequence

from msgspec.structs import replace

from remit.policy.commands.programs.row import (
    DESTROYS_REMOTELY,
    DangerRule,
    Program,
    WriterRow,
    Writes,
    check_no_at_files,
    formatter_row,
    rows,
    write_all,
    write_files,
)
from remit.policy.commands.words import (
    OptionRow,
    UnprovedCommand,
    Word,
    dashed_options,
    parse_dashed,
    parse_options,
    word_set,
)

RUFF: Mapping[str, WriterRow] = {
    "format": formatter_row(OptionRow("qvs", "", "check diff quiet verbose no-cache",
        "line-length exclude target-version"), "--check --diff", here=True),
    "check": formatter_row(OptionRow("qvse", "", "fix fix-only unsafe-fixes quiet verbose no-cache show-fixes "
        "exit-zero diff no-fix", "select ignore extend-select line-length exclude output-format"), "--diff",
        "--fix --fix-only", here=True),
}  # fmt: skip
"""Without `--config`: a setting given there makes a reader write (`fix=true`), and elsewhere (`cache-dir`)."""

TIDY_OPTIONS = dashed_options("i indent q quiet m modify asxml asxhtml utf8 e errors", "o output f file wrap w")


def write_tidy(name: str, words: Sequence[Word]) -> Writes:
    values, operands = parse_dashed(name, TIDY_OPTIONS, words)
    outputs = [word for option in ("-o", "-output", "-f", "-file") for word in values.get(option, ())]
    changed = write_files(name, operands if {"-m", "-modify"} & set(values) else ())
    return (*write_files(name, outputs), *(replace(write, edits_in_place=True) for write in changed))


TERRAFORM_OPTIONS = dashed_options("check diff recursive no-color")


def write_terraform(name: str, words: Sequence[Word]) -> Writes:
    if not words or words[0].text != "fmt" or not words[0].is_literal:
        raise UnprovedCommand(f"what `{name}` does is not on the tables")
    values, operands = parse_dashed(f"{name} fmt", TERRAFORM_OPTIONS, words[1:])
    folders = () if "-check" in values else operands or (Word("."),)
    return write_all(name, folders, is_recursive=True, edits_in_place=True, is_optional=True)


COMPILER_OPTION = re.compile(
    r"-(?:c|S|E|v|w|g[0-3]?|O(?:[0-3sgz]|fast)?|W(?![alp],)[\w=+-]*|std=[\w+]+|pedantic|pedantic-errors|ansi|pthread|"
    r"shared|static|pie|no-pie|m(?:32|64|arch=[\w.-]+|tune=[\w-]+|avx2?)|"
    r"f(?:PIC|PIE|pic|pie|no-[\w-]+|openmp|sanitize=[\w,-]+|visibility=\w+|exceptions|stack-protector[\w-]*|"
    r"syntax-only|diagnostics-color(?:=\w+)?|strict-aliasing)|[IDUl].+)",
    re.ASCII,
)
"""Options with which a compiler writes only the file of `-o`: no `-save-temps`, `-M…`, plugins, or linker options."""

SOURCE_SUFFIXES = word_set(".c .cc .cpp .cxx .C .s .S")
"""Suffixes of sources. Objects and libraries may contain linker options, and a header compiles to another file."""


def write_compiler(name: str, words: Sequence[Word]) -> Writes:
    """Return the file of `cc … -o FILE`; with only `-c` or `-S`, one file a source, in the present folder."""
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
    if outputs:
        return write_files(name, outputs)
    if not sources or (given & {"-E", "-fsyntax-only"} and not given & {"-c", "-S"}):
        return ()
    suffix = ".o" if "-c" in given else ".s" if "-S" in given else ""
    if not suffix or not all(word.is_literal and "." in word.text for word in sources) or {"-c", "-S"} <= given:
        raise UnprovedCommand(f"what `{name}` writes to is not in its words")
    stems = (posixpath.splitext(posixpath.basename(word.text))[0] for word in sources)
    return write_all(name, (Word(stem + suffix) for stem in stems))


def write_objcopy(name: str, words: Sequence[Word]) -> Writes:
    check_no_at_files(name, words)
    long = "strip-all strip-debug strip-unneeded only-keep-debug preserve-dates verbose"
    row = OptionRow("SgxXpvD", "OIjR", long, "output-target input-target only-section remove-section")
    operands = parse_options(name, row, words).operands
    if len(operands) not in (1, 2) or not all(word.is_single for word in operands):
        raise UnprovedCommand(f"`{name}` without one or two files")
    return write_files(name, operands[-1:])


TERRAFORM_DANGERS = (
    DangerRule("apply|destroy|import|taint|force-unlock", DESTROYS_REMOTELY),
    DangerRule("state|workspace rm|mv|push|delete", DESTROYS_REMOTELY),
)

PROGRAMS = rows({
    "black": Program(writes=formatter_row(OptionRow("qvSt", "lt", "quiet verbose check diff preview",
        "line-length target-version config"), "--check --diff")),
    "isort": Program(writes=formatter_row(OptionRow("qvcd", "lm", "quiet verbose check check-only diff atomic",
        "profile line-length"), "-c -d --check --check-only --diff")),
    "autopep8": Program(writes=formatter_row(OptionRow("iradv", "p", "in-place recursive aggressive diff",
        "max-line-length select ignore"), "-d --diff", "-i --in-place")),
    "yapf": Program(writes=formatter_row(OptionRow("irdpv", "e", "in-place recursive diff parallel", "style exclude"),
        "-d --diff", "-i --in-place")),
    "gofmt": Program(writes=formatter_row(OptionRow("wlsde"), "", "-w")),
    "clang-format": Program(writes=replace(formatter_row(OptionRow("in", "", "verbose dry-run Werror", "style"),
        "-n --dry-run", "-i"), expands_at_files=True)),
    "goimports gofumpt": Program(writes=formatter_row(OptionRow("wlde"), "", "-w")),
    "pyupgrade": Program(writes=formatter_row(OptionRow("", "", "py3-plus py36-plus py37-plus py38-plus py39-plus "
        "py310-plus py311-plus py312-plus py313-plus py314-plus keep-percent-format keep-runtime-typing "
        "exit-zero-even-if-changed"))),
    "autoflake": Program(writes=formatter_row(OptionRow("irc", "",
        "in-place recursive check check-diff remove-all-unused-imports remove-unused-variables expand-star-imports "
        "ignore-init-module-imports", "imports exclude"), "-c --check --check-diff")),
    "docformatter": Program(writes=formatter_row(OptionRow("irc", "", "in-place recursive check",
        "wrap-summaries wrap-descriptions"), "-c --check")),
    "stylua": Program(writes=formatter_row(OptionRow("v", "", "check verify verbose"), "--check")),
    "nixfmt": Program(writes=formatter_row(OptionRow("cqs", "w", "check quiet strict verify", "width"), "-c --check")),
    "shfmt": Program(writes=formatter_row(OptionRow("wldsm", "i", "write list diff simplify"), "", "-w --write")),
    "ruff": Program(verbs=RUFF, version_options="--version"),
    "taplo": Program(verbs=dict.fromkeys(("fmt", "format"), formatter_row(OptionRow("", "", "check diff force"),
        "--check"))),
    "zig": Program(verbs={"fmt": formatter_row(OptionRow("", "", "check"), "--check")}),
    "tidy": Program(writes=write_tidy),
    "terraform tofu": Program(writes=write_terraform, danger=TERRAFORM_DANGERS),
    "msgfmt": Program(writes=WriterRow(OptionRow("cvf", "", "check statistics use-fuzzy verbose",
        required="--output-file -o"), "none", outputs="--output-file -o")),
    "msgmerge": Program(writes=WriterRow(OptionRow("qvN", "", "no-fuzzy-matching quiet verbose",
        required="--output-file -o"), "none", outputs="--output-file -o")),
    "xgettext": Program(writes=WriterRow(OptionRow("ans", "Lk", "no-location sort-output",
        "from-code keyword language", required="--output -o"), "none", outputs="--output -o")),
    "patchelf": Program(writes=WriterRow(OptionRow("", "", "force-rpath print-interpreter print-needed print-rpath "
        "print-soname remove-rpath shrink-rpath", "add-needed remove-needed set-interpreter set-rpath set-soname"),
        outputs="--output", required="--add-needed --force-rpath --remove-needed --remove-rpath --set-interpreter "
        "--set-rpath --set-soname --shrink-rpath", edits_in_place=True)),
    "ranlib": Program(writes=WriterRow(OptionRow("DU"), edits_in_place=True, expands_at_files=True)),
    "strip": Program(writes=WriterRow(OptionRow("sgSdxXpDv", "KNR",
        "preserve-dates strip-all strip-debug strip-unneeded verbose", "keep-symbol remove-section strip-symbol"),
        outputs="-o", edits_in_place=True, expands_at_files=True)),
    "cc c++ clang++": Program(writes=write_compiler),
    "gcc g++ clang": Program(writes=write_compiler, version_options="--version"),
    "objcopy": Program(writes=write_objcopy),
})  # fmt: skip

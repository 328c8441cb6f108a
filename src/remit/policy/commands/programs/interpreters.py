"""Interpreters of programming languages, debuggers and build tools.

Most are known only by the options that print their version: they run what files say.
Source: the manuals of the programs named, read 2026-11.
"""

import re
from collections.abc import Sequence

from remit.policy.commands.programs.remote_services import REGISTRY
from remit.policy.commands.programs.row import ANY_NUMBER, CommandEffects, Program, StdinRule, formatter_row, rows
from remit.policy.commands.programs.text import read_awk, write_perl
from remit.policy.commands.words import OptionRow, UnprovedCommand, Word

PYTHON_PRINTS = re.compile(r"print\((?:[\s\d.+*/%<>=!,()-]|\"[^\"\\]*\"|'[^'\\]*')*\)")
"""`print` of numbers and texts: no other name occurs, so no other function is called."""


def read_python(name: str, words: Sequence[Word]) -> CommandEffects:
    prints = len(words) == 2 and words[0].text == "-c" and all(word.is_literal for word in words)
    if not prints or not PYTHON_PRINTS.fullmatch(words[1].text):
        raise UnprovedCommand(f"`{name}` runs a program")
    return CommandEffects((name,))


PYTHON_STDIN = StdinRule(1, "c m V h", "i", "W X --check-hash-based-pycs")
PYTHON_VERSION = "--version -V -VV"
NODE_STDIN = StdinRule(1, "e p v h c --eval --print --check --test --run", "i --interactive", "r --require --import")
LUA_STDIN = StdinRule(1, "e v", "i")

PROGRAMS = rows({
    "awk gawk": Program(reads=read_awk, version_options="--version", roles="editor"),
    "mawk": Program(reads=read_awk),
    "python python3": Program(reads=read_python, stdin=PYTHON_STDIN, version_options=PYTHON_VERSION,
        roles="interpreter"),
    "python2": Program(stdin=PYTHON_STDIN, roles="interpreter"),
    "pypy pypy3": Program(stdin=PYTHON_STDIN),
    "deno": Program(verbs={"fmt": formatter_row(OptionRow("q", "", "check quiet"), "--check")}, stdin=StdinRule(1),
        version_options="--version", roles="interpreter"),
    "perl": Program(writes=write_perl, stdin=StdinRule(1, "e E v h V", "d"), version_options="--version -v",
        roles="interpreter editor"),
    "bun": Program(danger=REGISTRY, roles="interpreter"),
    "lua": Program(stdin=LUA_STDIN, roles="interpreter"),
    "luajit": Program(stdin=LUA_STDIN),
    "node": Program(stdin=NODE_STDIN, version_options="--version -v", roles="interpreter"),
    "nodejs": Program(stdin=NODE_STDIN, roles="interpreter"),
    "osascript powershell pwsh": Program(roles="interpreter"),
    "php": Program(stdin=StdinRule(1, "r f v i m", "a", "d c"), roles="interpreter"),
    "ruby": Program(stdin=StdinRule(1, "e v h", "", "r I"), version_options="--version", roles="interpreter editor"),
    "R": Program(stdin=StdinRule(ANY_NUMBER, "e f --file CMD")),
    "julia": Program(stdin=StdinRule(1, "e E", "i")),
    "ghci pry": Program(stdin=StdinRule(ANY_NUMBER, "e")),
    "irb iex jshell": Program(stdin=StdinRule(ANY_NUMBER)),
    "ipython ipython3": Program(stdin=StdinRule(1, "c m", "i")),
    "bpython": Program(stdin=StdinRule(1, "c")),
    "erl": Program(stdin=StdinRule(ANY_NUMBER, "-noshell -noinput")),
    "scala": Program(stdin=StdinRule(1, "e")),
    "tclsh": Program(stdin=StdinRule(1)),
    "gdb": Program(stdin=StdinRule(ANY_NUMBER, "-batch --batch")),
    "python3.11 python3.12 python3.13 python3.14": Program(version_options=PYTHON_VERSION),
    "cmake make java": Program(version_options="--version"),
})  # fmt: skip

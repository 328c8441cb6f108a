"""Commands that would wait for input: a bare shell, an interpreter without a script, `ssh host`, `cat > file`.

Some agents can type into a running command, and no hook sees what they type. This names the programs for which that
would matter; a program that is not listed is not marked. A text that cannot be read is not marked either: what
the shell itself cannot read does not run.
Sources: the manual pages of the programs named, read 2026-11.
"""

import re
from collections.abc import Sequence

from msgspec import Struct

from remit.core.shell import ShellWord, SimpleCommand, UnreadableShell, simple_commands

DEEPEST = 5
"""`bash -c` within `bash -c`, and `sudo nice env …`: what is deeper is marked."""


class Reader(Struct, frozen=True):
    """When a program reads what is typed: unless it gets `operands` operands, or one of the options `given`.

    `always` are options that make it read all the same; `with_value` options whose value is the next word.
    Options are letters for `-x`, also within `-xyz`, or whole words for `--long` and `-long`.
    """

    operands: int = 1
    given: frozenset[str] = frozenset()
    always: frozenset[str] = frozenset()
    with_value: frozenset[str] = frozenset()


def reader(operands: int, given: str = "", always: str = "", with_value: str = "") -> Reader:
    """A row of the table, each set written as words."""
    return Reader(operands, frozenset(given.split()), frozenset(always.split()), frozenset(with_value.split()))


INFORMS = frozenset({"--help", "--version"})
NEVER_ENOUGH = 99

SHELL = reader(1, "c", "s", "o O --rcfile --init-file")
EDITOR = reader(NEVER_ENOUGH, "-es -Es")
SQL = reader(NEVER_ENOUGH, "c e f l --command --execute --file --list")
PAGERS = frozenset({"less", "more", "most", "man", "info"})
"""They read the terminal itself, whatever is fed to them, and `!` typed into them runs any program."""

WIRE = reader(NEVER_ENOUGH, "z")

READERS: dict[str, Reader] = {
    **dict.fromkeys(("sh", "bash", "dash", "zsh", "ksh", "ash", "fish", "rbash", "mksh"), SHELL),
    "python": reader(1, "c m V h", "i", "W X --check-hash-based-pycs"),
    "node": reader(1, "e p v h c --eval --print --check --test --run", "i --interactive", "r --require --import"),
    "deno": reader(1),
    "ruby": reader(1, "e v h", "", "r I"),
    "perl": reader(1, "e E v h V", "d"),
    "php": reader(1, "r f v i m", "a", "d c"),
    "lua": reader(1, "e v", "i"),
    "R": reader(NEVER_ENOUGH, "e f --file CMD"),
    "julia": reader(1, "e E", "i"),
    "ghci": reader(NEVER_ENOUGH, "e"),
    "irb": reader(NEVER_ENOUGH),
    "pry": reader(NEVER_ENOUGH, "e"),
    "ipython": reader(1, "c m", "i"),
    "bpython": reader(1, "c"),
    "iex": reader(NEVER_ENOUGH),
    "erl": reader(NEVER_ENOUGH, "-noshell -noinput"),
    "jshell": reader(NEVER_ENOUGH),
    "scala": reader(1, "e"),
    "tclsh": reader(1),
    "expect": reader(1, "c", "", "f"),
    "gdb": reader(NEVER_ENOUGH, "-batch --batch"),
    "sqlite3": reader(2, "-version", "", "-cmd -init -separator"),
    "psql": SQL,
    "mysql": SQL,
    "mariadb": SQL,
    "redis-cli": reader(1, "", "", "h p a n u s"),
    "mongosh": reader(NEVER_ENOUGH, "f --eval --file"),
    "ssh": reader(2, "N V G Q O", "", "i p l o F J L R D b c E e m S W w B I"),
    "telnet": WIRE,
    "nc": WIRE,
    "ncat": WIRE,
    "netcat": WIRE,
    "socat": WIRE,
    "ftp": WIRE,
    "sftp": reader(NEVER_ENOUGH, "b"),
    "tmux": reader(1),
    "screen": reader(NEVER_ENOUGH, "-ls -dmS"),
    "script": reader(NEVER_ENOUGH, "c --command"),
    **dict.fromkeys(("ed", "ex", "vi", "vim", "nvim", "view", "nano", "pico", "red"), EDITOR),
    "emacs": reader(NEVER_ENOUGH, "-batch --batch"),
    **dict.fromkeys(PAGERS, reader(NEVER_ENOUGH)),
    "top": reader(NEVER_ENOUGH, "b"),
    "cat": reader(1),
    "tee": reader(NEVER_ENOUGH),
    "dd": reader(NEVER_ENOUGH),
    "xargs": reader(NEVER_ENOUGH, "a --arg-file"),
    "parallel": reader(NEVER_ENOUGH, "a --arg-file :::"),
    "patch": reader(NEVER_ENOUGH, "i --input"),
    "apply_patch": reader(1),
    "applypatch": reader(1),
    "at": reader(NEVER_ENOUGH, "f l"),
    "batch": reader(NEVER_ENOUGH, "f"),
}

SAME = {
    "nodejs": "node",
    "pypy": "python",
    "luajit": "lua",
    "pypy3": "python",
    "python2": "python",
    "python3": "python",
    "ipython3": "ipython",
}
VERSIONED = re.compile(r"(python|pypy|perl|ruby|lua|php|tclsh)\d[\d.]*")

WRAPPERS: dict[str, frozenset[str]] = {
    "env": frozenset({"u", "C", "--unset", "--chdir"}),
    "sudo": frozenset({"u", "g", "h", "p", "C", "D", "R", "T", "U"}),
    "doas": frozenset({"u", "C"}),
    "nohup": frozenset(),
    "setsid": frozenset(),
    "stdbuf": frozenset({"i", "o", "e"}),
    "nice": frozenset({"n"}),
    "ionice": frozenset({"c", "n"}),
    "time": frozenset({"f", "o"}),
    "timeout": frozenset({"k", "s"}),
    "command": frozenset(),
    "builtin": frozenset(),
    "exec": frozenset({"a"}),
    "unbuffer": frozenset(),
    "rlwrap": frozenset(),
    "busybox": frozenset(),
    "uv": frozenset({"p", "--python", "--with"}),
    "poetry": frozenset(),
    "pipenv": frozenset(),
    "hatch": frozenset(),
    "npx": frozenset({"p"}),
}
"""Programs that run another; with their options whose value is the next word."""

BECOMES_SHELL = frozenset({"sudo", "doas"})
FIRST_OPERAND_IS_NO_PROGRAM = re.compile(r"\d+(\.\d+)?[smhd]?|run|[A-Za-z_]\w*=.*", re.DOTALL)
RESERVED = frozenset({"{", "!", "if", "then", "else", "elif", "while", "until", "do", "time"})
CLOSES = frozenset({"}", "done", "fi", "esac"})
LOOPS = frozenset({"{", "if", "while", "until", "for", "case"})
PIPES = ("|", "|&")
ASSIGNMENT = re.compile(r"[A-Za-z_]\w*\+?=")


def opens_stdin(command: str) -> bool:
    """Whether some program of `command` would read what is typed into it. Never raises."""
    return opens(command, 0)


def opens(command: str, depth: int) -> bool:
    """The same, inside `depth` shells."""
    try:
        commands = simple_commands(command)
    except UnreadableShell:
        return False
    if any(c.words and known_name(c.words[0].text) in PAGERS and reads(c.words, depth) for c in commands):
        return True
    return not feeds_a_block(commands) and any(reads(c.words, depth) for c in commands if from_terminal(c))


def feeds_a_block(commands: Sequence[SimpleCommand]) -> bool:
    """Whether a loop or a group gets its input from elsewhere: what is in it reads that."""
    return any(c.words and begins_fed(c) for c in commands)


def begins_fed(command: SimpleCommand) -> bool:
    """A pipe before a block, or a redirection after it."""
    first = command.words[0].text
    return (first in LOOPS and command.before in PIPES) or (first in CLOSES and command.fed)


def from_terminal(command: SimpleCommand) -> bool:
    """Whether nothing is fed to it."""
    return bool(command.words) and not command.fed and command.before not in PIPES


def reads(words: tuple[ShellWord, ...], depth: int) -> bool:
    """Whether the program of these words reads what is typed."""
    while words and (words[0].text in RESERVED or ASSIGNMENT.match(words[0].text)):
        words = words[1:]
    if not words or depth > DEEPEST:
        return bool(words)
    if not words[0].literal:
        return len(words) == 1
    name, arguments = known_name(words[0].text), words[1:]
    if name == "su":
        return "c" not in switches(arguments) and "--command" not in switches(arguments)
    if name in WRAPPERS:
        return wrapped(name, arguments, depth)
    if name == "git":
        return bool(arguments) and arguments[0].text == "apply" and all(w.text.startswith("-") for w in arguments[1:])
    if name in ("docker", "podman"):
        return any(re.fullmatch(r"-\w*i\w*|--interactive", word.text) for word in arguments[1:3])
    row = READERS.get(name)
    return row is not None and waits(name, row, arguments, depth)


def known_name(text: str) -> str:
    """The program as the tables call it."""
    name = text.rpartition("/")[2]
    versioned = VERSIONED.fullmatch(name)
    return SAME.get(name) or (versioned[1] if versioned else name)


def wrapped(name: str, arguments: tuple[ShellWord, ...], depth: int) -> bool:
    """A program that runs the rest of its words, or a shell where there are none."""
    options, rest = split(arguments, WRAPPERS.get(name, frozenset()))
    if name in BECOMES_SHELL and not rest:
        return bool(options & {"s", "i"})
    while rest and FIRST_OPERAND_IS_NO_PROGRAM.fullmatch(rest[0].text):
        rest = rest[1:]
    return reads(rest, depth + 1)


def split(arguments: tuple[ShellWord, ...], with_value: frozenset[str]) -> tuple[frozenset[str], tuple[ShellWord, ...]]:
    """The options before the first operand, and the words from that operand on."""
    options: tuple[ShellWord, ...] = ()
    while arguments and arguments[0].text.startswith("-") and arguments[0].text != "-":
        word, arguments = arguments[0].text, arguments[1:]
        if word == "--":
            break
        options = (*options, ShellWord(word))
        takes = word in with_value or (not word.startswith("--") and word[-1:] in with_value)
        arguments = arguments[1:] if takes else arguments
    return switches(options), arguments


def switches(words: Sequence[ShellWord]) -> frozenset[str]:
    """The options among these words: whole, without their value, and letter by letter."""
    texts = [word.text for word in words if word.text.startswith("-")]
    letters = (letter for text in texts if not text.startswith("--") for letter in text[1:])
    return frozenset((*texts, *(text.partition("=")[0] for text in texts), *letters))


def waits(name: str, row: Reader, arguments: tuple[ShellWord, ...], depth: int) -> bool:
    """Whether the row says that the program reads what is typed."""
    options, rest = split(arguments, row.with_value)
    if options & INFORMS:
        return False
    if row is SHELL and "c" in options:
        return bool(rest) and rest[0].literal and opens(rest[0].text, depth + 1)
    if options & row.always:
        return True
    if row.operands == NEVER_ENOUGH:
        options |= switches(rest) | {word.text for word in rest}
    if options & row.given:
        return False
    if name == "dd":
        return not any(word.text.startswith("if=") for word in rest)
    if rest and rest[0].text == "-":
        return True
    return len(rest) < row.operands or (name == "deno" and rest[0].text == "repl")

"""Commands that would wait for input: a bare shell, an interpreter without a script, `ssh host`, `cat > file`.

Some agents can type into a running command, and no hook sees what they type. This names the programs for which that
would matter; a program that is not listed is not marked. A text that cannot be read is not marked either: what
the shell itself cannot read does not run.
Sources: the manual pages of the programs named, read 2026-11.
"""

import re
from collections.abc import Sequence

from msgspec import Struct

from remit.core.shell.simple_commands import ShellWord, SimpleCommand, UnreadableShell, parse_simple_commands

MAX_DEPTH = 5
"""`bash -c` within `bash -c`, and `sudo nice env …`: what is deeper is marked."""


class StdinReader(Struct, frozen=True):
    """When a program reads what is typed: unless it gets `operands` operands, or one of the options `given`.

    `always` are options that make it read all the same; `with_value` options whose value is the next word.
    Options are letters for `-x`, also within `-xyz`, or whole words for `--long` and `-long`.
    """

    enough_operands: int = 1
    noninteractive_options: frozenset[str] = frozenset()
    interactive_options: frozenset[str] = frozenset()
    options_with_value: frozenset[str] = frozenset()


def stdin_reader(operands: int, given: str = "", always: str = "", with_value: str = "") -> StdinReader:
    """A row of the table, each set written as words."""
    return StdinReader(operands, frozenset(given.split()), frozenset(always.split()), frozenset(with_value.split()))


INFORMATIONAL_OPTIONS = frozenset({"--help", "--version"})
ALWAYS_READS = 99

SHELL_READER = stdin_reader(1, "c", "s", "o O --rcfile --init-file")
EDITOR_READER = stdin_reader(ALWAYS_READS, "-es -Es")
SQL_READER = stdin_reader(ALWAYS_READS, "c e f l --command --execute --file --list")
PAGERS = frozenset({"less", "more", "most", "man", "info"})
"""They read the terminal itself, whatever is fed to them, and `!` typed into them runs any program."""

NETWORK_READER = stdin_reader(ALWAYS_READS, "z")

STDIN_READERS: dict[str, StdinReader] = {
    **dict.fromkeys(("sh", "bash", "dash", "zsh", "ksh", "ash", "fish", "rbash", "mksh"), SHELL_READER),
    "python": stdin_reader(1, "c m V h", "i", "W X --check-hash-based-pycs"),
    "node": stdin_reader(1, "e p v h c --eval --print --check --test --run", "i --interactive", "r --require --import"),
    "deno": stdin_reader(1),
    "ruby": stdin_reader(1, "e v h", "", "r I"),
    "perl": stdin_reader(1, "e E v h V", "d"),
    "php": stdin_reader(1, "r f v i m", "a", "d c"),
    "lua": stdin_reader(1, "e v", "i"),
    "R": stdin_reader(ALWAYS_READS, "e f --file CMD"),
    "julia": stdin_reader(1, "e E", "i"),
    "ghci": stdin_reader(ALWAYS_READS, "e"),
    "irb": stdin_reader(ALWAYS_READS),
    "pry": stdin_reader(ALWAYS_READS, "e"),
    "ipython": stdin_reader(1, "c m", "i"),
    "bpython": stdin_reader(1, "c"),
    "iex": stdin_reader(ALWAYS_READS),
    "erl": stdin_reader(ALWAYS_READS, "-noshell -noinput"),
    "jshell": stdin_reader(ALWAYS_READS),
    "scala": stdin_reader(1, "e"),
    "tclsh": stdin_reader(1),
    "expect": stdin_reader(1, "c", "", "f"),
    "gdb": stdin_reader(ALWAYS_READS, "-batch --batch"),
    "sqlite3": stdin_reader(2, "-version", "", "-cmd -init -separator"),
    "psql": SQL_READER,
    "mysql": SQL_READER,
    "mariadb": SQL_READER,
    "redis-cli": stdin_reader(1, "", "", "h p a n u s"),
    "mongosh": stdin_reader(ALWAYS_READS, "f --eval --file"),
    "ssh": stdin_reader(2, "N V G Q O", "", "i p l o F J L R D b c E e m S W w B I"),
    "telnet": NETWORK_READER,
    "nc": NETWORK_READER,
    "ncat": NETWORK_READER,
    "netcat": NETWORK_READER,
    "socat": NETWORK_READER,
    "ftp": NETWORK_READER,
    "sftp": stdin_reader(ALWAYS_READS, "b"),
    "tmux": stdin_reader(1),
    "screen": stdin_reader(ALWAYS_READS, "-ls -dmS"),
    "script": stdin_reader(ALWAYS_READS, "c --command"),
    **dict.fromkeys(("ed", "ex", "vi", "vim", "nvim", "view", "nano", "pico", "red"), EDITOR_READER),
    "emacs": stdin_reader(ALWAYS_READS, "-batch --batch"),
    **dict.fromkeys(PAGERS, stdin_reader(ALWAYS_READS)),
    "top": stdin_reader(ALWAYS_READS, "b"),
    "cat": stdin_reader(1),
    "tee": stdin_reader(ALWAYS_READS),
    "dd": stdin_reader(ALWAYS_READS),
    "xargs": stdin_reader(ALWAYS_READS, "a --arg-file"),
    "parallel": stdin_reader(ALWAYS_READS, "a --arg-file :::"),
    "patch": stdin_reader(ALWAYS_READS, "i --input"),
    "apply_patch": stdin_reader(1),
    "applypatch": stdin_reader(1),
    "at": stdin_reader(ALWAYS_READS, "f l"),
    "batch": stdin_reader(ALWAYS_READS, "f"),
}

PROGRAM_ALIASES = {
    "nodejs": "node",
    "pypy": "python",
    "luajit": "lua",
    "pypy3": "python",
    "python2": "python",
    "python3": "python",
    "ipython3": "ipython",
}
VERSIONED_PROGRAM = re.compile(r"(python|pypy|perl|ruby|lua|php|tclsh)\d[\d.]*")

WRAPPER_PROGRAMS: dict[str, frozenset[str]] = {
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

SHELL_WITHOUT_OPERANDS = frozenset({"sudo", "doas"})
NON_PROGRAM_OPERAND = re.compile(r"\d+(\.\d+)?[smhd]?|run|[A-Za-z_]\w*=.*", re.DOTALL)
RESERVED_WORDS = frozenset({"{", "!", "if", "then", "else", "elif", "while", "until", "do", "time"})
BLOCK_ENDS = frozenset({"}", "done", "fi", "esac"})
BLOCK_STARTS = frozenset({"{", "if", "while", "until", "for", "case"})
PIPES = ("|", "|&")
ASSIGNMENT = re.compile(r"[A-Za-z_]\w*\+?=")


def reads_terminal(command: str) -> bool:
    """Whether some program of `command` would read what is typed into it. Never raises."""
    return text_reads_terminal(command, 0)


def text_reads_terminal(command: str, depth: int) -> bool:
    """The same, inside `depth` shells."""
    try:
        commands = parse_simple_commands(command)
    except UnreadableShell:
        return False
    if any(
        c.words and normalize_program(c.words[0].text) in PAGERS and program_reads_terminal(c.words, depth)
        for c in commands
    ):
        return True
    return not has_fed_block(commands) and any(
        program_reads_terminal(c.words, depth) for c in commands if has_terminal_input(c)
    )


def has_fed_block(commands: Sequence[SimpleCommand]) -> bool:
    """Whether a loop or a group gets its input from elsewhere: what is in it reads that."""
    return any(c.words and is_fed_block(c) for c in commands)


def is_fed_block(command: SimpleCommand) -> bool:
    """A pipe before a block, or a redirection after it."""
    first = command.words[0].text
    return (first in BLOCK_STARTS and command.before in PIPES) or (first in BLOCK_ENDS and command.fed)


def has_terminal_input(command: SimpleCommand) -> bool:
    """Whether nothing is fed to it."""
    return bool(command.words) and not command.fed and command.before not in PIPES


def program_reads_terminal(words: tuple[ShellWord, ...], depth: int) -> bool:
    """Whether the program of these words reads what is typed."""
    while words and (words[0].text in RESERVED_WORDS or ASSIGNMENT.match(words[0].text)):
        words = words[1:]
    if not words or depth > MAX_DEPTH:
        return bool(words)
    if not words[0].literal:
        return len(words) == 1
    name, arguments = normalize_program(words[0].text), words[1:]
    if name == "su":
        return "c" not in collect_options(arguments) and "--command" not in collect_options(arguments)
    if name in WRAPPER_PROGRAMS:
        return wrapper_reads_terminal(name, arguments, depth)
    if name == "git":
        return bool(arguments) and arguments[0].text == "apply" and all(w.text.startswith("-") for w in arguments[1:])
    if name in ("docker", "podman"):
        return any(re.fullmatch(r"-\w*i\w*|--interactive", word.text) for word in arguments[1:3])
    row = STDIN_READERS.get(name)
    return row is not None and matches_reader(name, row, arguments, depth)


def normalize_program(text: str) -> str:
    """The program as the tables call it."""
    name = text.rpartition("/")[2]
    versioned = VERSIONED_PROGRAM.fullmatch(name)
    return PROGRAM_ALIASES.get(name) or (versioned[1] if versioned else name)


def wrapper_reads_terminal(name: str, arguments: tuple[ShellWord, ...], depth: int) -> bool:
    """A program that runs the rest of its words, or a shell where there are none."""
    options, rest = split_options(arguments, WRAPPER_PROGRAMS.get(name, frozenset()))
    if name in SHELL_WITHOUT_OPERANDS and not rest:
        return bool(options & {"s", "i"})
    while rest and NON_PROGRAM_OPERAND.fullmatch(rest[0].text):
        rest = rest[1:]
    return program_reads_terminal(rest, depth + 1)


def split_options(
    arguments: tuple[ShellWord, ...], with_value: frozenset[str]
) -> tuple[frozenset[str], tuple[ShellWord, ...]]:
    """The options before the first operand, and the words from that operand on."""
    options: tuple[ShellWord, ...] = ()
    while arguments and arguments[0].text.startswith("-") and arguments[0].text != "-":
        word, arguments = arguments[0].text, arguments[1:]
        if word == "--":
            break
        options = (*options, ShellWord(word))
        takes = word in with_value or (not word.startswith("--") and word[-1:] in with_value)
        arguments = arguments[1:] if takes else arguments
    return collect_options(options), arguments


def collect_options(words: Sequence[ShellWord]) -> frozenset[str]:
    """The options among these words: whole, without their value, and letter by letter."""
    texts = [word.text for word in words if word.text.startswith("-")]
    letters = (letter for text in texts if not text.startswith("--") for letter in text[1:])
    return frozenset((*texts, *(text.partition("=")[0] for text in texts), *letters))


def matches_reader(name: str, row: StdinReader, arguments: tuple[ShellWord, ...], depth: int) -> bool:
    """Whether the row says that the program reads what is typed."""
    options, rest = split_options(arguments, row.options_with_value)
    if options & INFORMATIONAL_OPTIONS:
        return False
    if row is SHELL_READER and "c" in options:
        return bool(rest) and rest[0].literal and text_reads_terminal(rest[0].text, depth + 1)
    if options & row.interactive_options:
        return True
    if row.enough_operands == ALWAYS_READS:
        options |= collect_options(rest) | {word.text for word in rest}
    if options & row.noninteractive_options:
        return False
    if name == "dd":
        return not any(word.text.startswith("if=") for word in rest)
    if rest and rest[0].text == "-":
        return True
    return len(rest) < row.enough_operands or (name == "deno" and rest[0].text == "repl")

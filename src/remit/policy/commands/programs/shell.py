"""The shell: builtins, shells, variables, programs that run another command, and terminal multiplexers.

Source: bash(1) 5.2, the manuals of GNU coreutils 9.1, findutils 4.9 and util-linux 2.38, read 2026-11.
"""

import re
from collections.abc import Mapping, Sequence

from msgspec.structs import replace

from remit.policy.commands.programs.row import (
    ANY_NUMBER,
    ANY_USE,
    CHANGES_MACHINE,
    CommandEffects,
    DangerRule,
    InnerCommand,
    Lines,
    Program,
    StdinRule,
    rows,
    write_all,
)
from remit.policy.commands.words import (
    ANY_WORDS,
    HOME_MARK,
    SAFE_NAME,
    OptionRow,
    UnprovedCommand,
    Word,
    escape_glob,
    harmless_row,
    parse_options,
    word_set,
)

ASSIGNMENT = re.compile(r"([A-Za-z_]\w*)=(.*)", re.ASCII | re.DOTALL)

HARMLESS_VARIABLES = word_set(
    "LC_ALL LC_CTYPE LC_COLLATE LC_MESSAGES LC_NUMERIC LC_TIME LANG LANGUAGE TZ NO_COLOR FORCE_COLOR CLICOLOR "
    "CLICOLOR_FORCE COLUMNS LINES FOO BAR BAZ QUX CI DEBUG VERBOSE NODE_ENV RAILS_ENV RACK_ENV APP_ENV FLASK_ENV "
    "RUST_LOG RUST_BACKTRACE LOG_LEVEL PORT PYTHONUNBUFFERED PYTHONDONTWRITEBYTECODE DEBIAN_FRONTEND TERM"
)
"""Variables that may stand before a command: no program of the table runs or writes anything because of them."""

HARMLESS_VALUE = re.compile(r"[\w.:@+,-]*(?:/[\w+-]+)*", re.ASCII)


STEERING_VARIABLES: Mapping[str, frozenset[str]] = {
    **dict.fromkeys(("PAGER", "GIT_PAGER", "MANPAGER", "GH_PAGER", "SYSTEMD_PAGER"), frozenset({"", "cat"})),
    **dict.fromkeys(("EDITOR", "VISUAL", "GIT_EDITOR", "GIT_SEQUENCE_EDITOR"), frozenset({"true", ":"})),
    **dict.fromkeys(("GIT_TERMINAL_PROMPT", "GIT_OPTIONAL_LOCKS"), frozenset({"0", "1"})),
}
"""Variables that name a program, or steer one, with the values that leave everything as it is."""


def check_variable(name: str, value: str) -> None:
    harmless = name in HARMLESS_VARIABLES and HARMLESS_VALUE.fullmatch(value)
    if not harmless and value not in STEERING_VARIABLES.get(name, ()):
        raise UnprovedCommand(f"{name}={value!r} may change what a program does")


def read_cd(name: str, words: Sequence[Word]) -> CommandEffects:
    folder = ""
    if not words and name == "cd":
        folder = HOME_MARK
    elif len(words) == 1 and words[0].is_literal and not words[0].text.startswith(("-", "+")):
        # `cd ''` stays in the folder in bash, dash and zsh; shells differ on `pushd ''`.
        stays = "." if name == "cd" else ""
        folder = (words[0].text.rstrip("/") or "/") if words[0].text else stays
    return CommandEffects((name,), folder=folder, changes_folder=True)


SET_MODES = word_set("pipefail errexit nounset")


def read_set(name: str, words: Sequence[Word]) -> CommandEffects:
    parsed = parse_options(name, OptionRow("eux", "o", operands=0), words)
    if any(word.text not in SET_MODES for word in parsed.values("-o")):
        raise UnprovedCommand("`set -o` changes how the shell reads what follows")
    return CommandEffects((name,))


def read_input(name: str, words: Sequence[Word]) -> CommandEffects:
    parsed = parse_options(name, OptionRow("r"), words)
    if not all(word.is_literal and SAFE_NAME.fullmatch(word.text) for word in parsed.operands):
        raise UnprovedCommand("`read` into something other than lower-case names")
    return CommandEffects((name,), variables=tuple(word.text for word in parsed.operands))


def read_printf(name: str, words: Sequence[Word]) -> CommandEffects:
    rest = words[1:] if words and words[0].text == "--" else words
    if not rest or not rest[0].is_literal or rest[0].text.startswith("-"):
        raise UnprovedCommand("`printf` without a literal format")
    if re.search(r"%[^%a-zA-Z]*[hlLqjzt]*n", rest[0].text.replace("%%", "")):
        raise UnprovedCommand("`printf` with %n sets a variable")
    return CommandEffects((name,))


def list_echo(name: str, words: Sequence[Word]) -> Lines:
    rest = words[1:] if name == "printf" else words
    if name == "printf" and (not words or words[0].text not in ("%s\\n", "%s\\0")):
        return None
    plain = (word.is_literal and not re.search(r"^-|[\s\\'\"]", word.text) for word in rest)
    return tuple(rest) if rest and all(plain) else None


UNARY_TESTS = word_set("-b -c -d -e -f -g -h -k -n -p -r -s -t -u -w -x -z -G -L -N -O -S")
"""`-v` and `-R` are out: they evaluate a subscript, which may run a substitution."""

BINARY_TESTS = word_set("= == != -eq -ne -lt -le -gt -ge -nt -ot -ef")
CONDITION_OPERATORS = word_set("= == != =~ < > && || ! ( ) -nt -ot -ef -a -o") | UNARY_TESTS
"""The operators of `[[ … ]]`."""

EVALUATING_OPERATORS = word_set("-v -R -eq -ne -lt -le -gt -ge")
"""Operators of `[[ … ]]` that evaluate their operands as arithmetic, subscripts included."""


def read_test(name: str, words: Sequence[Word]) -> CommandEffects:
    check_test(words)
    return CommandEffects((name,))


def check_test(words: Sequence[Word]) -> None:
    """Raise UnprovedCommand unless the words of `[ … ]` are a test whose operator is in the text."""
    rest = words[1:] if words and words[0].is_literal and words[0].text == "!" else words
    if not all(word.is_single for word in rest):
        raise UnprovedCommand("a word of a test may become several words")
    match rest:
        case [] | [_]:
            return
        case [operator, _] if operator.is_literal and operator.text in UNARY_TESTS:
            return
        case [_, operator, _] if operator.is_literal and operator.text in BINARY_TESTS:
            return
        case _:
            raise UnprovedCommand(f"the test {' '.join(word.text for word in words)!r} is not on the read-only table")


def read_shell(name: str, words: Sequence[Word]) -> CommandEffects:
    left = list(words)
    if len(left) == 2 and left[0].is_literal and left[0].text == "-n":
        file = left[1]
        if file.is_single and not file.may_be_option:
            return CommandEffects((name,), (file.text,) if file.is_literal else ())
    while left and left[0].is_literal and re.fullmatch(r"-[euxf]*[oc]?", left[0].text):
        option = left.pop(0).text
        if option.endswith("o") and (not left or left.pop(0).text not in SET_MODES | {"xtrace"}):
            break
        if option.endswith("c") and left and left[0].is_literal:
            return CommandEffects((name,), script=left[0].text, is_posix_shell=name != "bash")
    raise UnprovedCommand(f"`{name}` runs a script that the text does not show")


def unwrap_command(words: Sequence[Word], lines: Lines) -> InnerCommand:
    parsed = parse_options("command", OptionRow("vV"), words, stop_at_operand=True)
    return InnerCommand(() if parsed.has_option("-v", "-V") else parsed.operands, lines)


def unwrap_timeout(words: Sequence[Word], lines: Lines) -> InnerCommand:
    row = OptionRow("v", "ks", long="preserve-status foreground verbose kill-after signal")
    operands = parse_options("timeout", row, words, stop_at_operand=True).operands
    if len(operands) < 2 or not re.fullmatch(r"[\d.]+[smhd]?", operands[0].text, re.ASCII):
        raise UnprovedCommand("`timeout` without a literal duration and a command")
    return InnerCommand(operands[1:], lines)


def unwrap_env(words: Sequence[Word], lines: Lines) -> InnerCommand:
    rest = parse_options("env", OptionRow("i0", "u", "null"), words, stop_at_operand=True).operands
    while rest and (found := ASSIGNMENT.fullmatch(rest[0].text)):
        if not rest[0].is_literal:
            raise UnprovedCommand(f"`env` sets {found[1]!r} to what the text does not show")
        check_variable(found[1], found[2])
        rest = rest[1:]
    return InnerCommand(rest, lines)


def unwrap_flock(words: Sequence[Word], lines: Lines) -> InnerCommand:
    row = OptionRow("sxneuFov", "wE", "exclusive shared nonblock")
    operands = parse_options("flock", row, words, stop_at_operand=True).operands
    if len(operands) < 2 or operands[1].may_be_option:
        raise UnprovedCommand("`flock` without a command of words")
    return InnerCommand(operands[1:], lines, write_all("flock", operands[:1], edits_in_place=True))


def unwrap_xargs(words: Sequence[Word], lines: Lines) -> InnerCommand:
    row = OptionRow("0rtx", "aIELnPsd", "null no-run-if-empty verbose")
    parsed = parse_options("xargs", row, words, stop_at_operand=True)
    marks = [word.text for word in parsed.values("-I")]
    if not parsed.operands:
        return InnerCommand((Word("echo"), ANY_WORDS))
    if any(mark in parsed.operands[0].text for mark in marks) or not all(marks):
        raise UnprovedCommand("`xargs` reads the name of the command that it runs")
    known = None if parsed.has_option("-a") else lines
    if not marks:
        return InnerCommand((*parsed.operands, *(known or (ANY_WORDS,))))
    if known is None or len(known) != 1 or len(marks) != 1:
        replaced = (ANY_WORDS if any(mark in word.text for mark in marks) else word for word in parsed.operands)
        return InnerCommand(tuple(replaced))
    return InnerCommand(tuple(substitute_word(word, known[0], marks[0]) for word in parsed.operands))


def substitute_word(word: Word, value: Word, mark: str = "{}") -> Word:
    """Return the word with `value` in place of the mark. Raises UnprovedCommand where the result may be any word."""
    if mark not in word.text:
        return word
    glob = value.glob
    before, _, after = word.text.partition(mark)
    if not word.is_literal or glob is None or mark in after:
        raise UnprovedCommand(f"{word.text!r} may become any word")
    if value.is_literal:
        return replace(value, text=before + value.text + after)
    return replace(value, text=before + value.text, pattern=escape_glob(before) + glob + escape_glob(after))


NO_READ = harmless_row()
SHELL_STDIN = StdinRule(1, "c", "s", "o O --rcfile --init-file")
RUNS_LATER = (DangerRule("", "runs something later, when nobody looks", unless="-l -V"),)
KILLS_SERVER = (DangerRule("kill-server", CHANGES_MACHINE, is_irreversible=False),)

PROGRAMS = rows({
    # builtins
    "true false : seq expr sleep which whereis type exit return break continue shift": Program(reads=NO_READ),
    "echo": Program(reads=NO_READ, lists=list_echo),
    "printf": Program(reads=read_printf, lists=list_echo),
    "cd pushd popd": Program(reads=read_cd),
    "dirs": Program(reads=OptionRow("lpv")),
    "wait": Program(reads=OptionRow()),
    "jobs": Program(reads=OptionRow("lnprs")),
    "set": Program(reads=read_set, roles="environment"),
    "printenv": Program(reads=NO_READ, roles="environment"),
    "declare export": Program(roles="environment"),
    "read": Program(reads=read_input),
    "test": Program(reads=read_test),
    "history": Program(danger=(DangerRule("", "wipes what the shell remembers", "-c -d -w", is_irreversible=False),)),
    "coproc disown": Program(background=ANY_USE),
    "eval": Program(roles="runner"),
    "exec": Program(stdin=StdinRule(valued="a", runs_rest=True), roles="runner"),
    "! { do else if then until while": Program(roles="wrapper"),
    # shells
    "bash": Program(reads=read_shell, stdin=SHELL_STDIN, version_options="--version", roles="runner shell"),
    "sh dash": Program(reads=read_shell, stdin=SHELL_STDIN, roles="runner shell"),
    "ksh zsh": Program(stdin=SHELL_STDIN, roles="runner shell"),
    "ash fish": Program(stdin=SHELL_STDIN, roles="shell"),
    "rbash mksh": Program(stdin=SHELL_STDIN),
    # programs that run another command
    "time": Program(runs=OptionRow("p"), stdin=StdinRule(valued="f o", runs_rest=True), roles="runner"),  # the keyword
    "command": Program(runs=unwrap_command, stdin=StdinRule(runs_rest=True), roles="runner"),
    "builtin": Program(runs=OptionRow(), stdin=StdinRule(runs_rest=True), roles="runner"),
    "env": Program(runs=unwrap_env, stdin=StdinRule(valued="C u --chdir --unset", runs_rest=True),
        roles="runner environment"),
    "nohup": Program(runs=OptionRow(), stdin=StdinRule(runs_rest=True), background=ANY_USE, roles="runner"),
    "setsid": Program(runs=OptionRow("cfw", long="ctty fork wait"), stdin=StdinRule(runs_rest=True),
        background=ANY_USE, roles="runner"),
    "timeout": Program(runs=unwrap_timeout, stdin=StdinRule(valued="k s", runs_rest=True), roles="runner"),
    "nice": Program(runs=OptionRow("", "n", takes_number=True), stdin=StdinRule(valued="n", runs_rest=True),
        roles="runner"),
    "ionice": Program(runs=OptionRow("t", "cn"), stdin=StdinRule(valued="c n", runs_rest=True), roles="runner"),
    "stdbuf": Program(runs=OptionRow("", "ioe"), stdin=StdinRule(valued="e i o", runs_rest=True), roles="runner"),
    "flock": Program(runs=unwrap_flock, roles="runner"),
    "xargs": Program(runs=unwrap_xargs, stdin=StdinRule(ANY_NUMBER, "a --arg-file"), version_options="--version",
        roles="runner"),
    "parallel": Program(stdin=StdinRule(ANY_NUMBER, "a --arg-file :::"), roles="runner"),
    "watch": Program(roles="runner"),
    "caffeinate chronic entr": Program(roles="wrapper"),
    "unbuffer": Program(stdin=StdinRule(runs_rest=True), roles="wrapper"),
    "busybox": Program(stdin=StdinRule(runs_rest=True), roles="wrapper editor"),
    "script": Program(stdin=StdinRule(ANY_NUMBER, "c --command"), roles="wrapper"),
    "rlwrap": Program(stdin=StdinRule(runs_rest=True)),
    "expect": Program(stdin=StdinRule(1, "c", "", "f")),
    # later, or in another terminal
    "at": Program(danger=RUNS_LATER, stdin=StdinRule(ANY_NUMBER, "f l"), background=ANY_USE),
    "batch": Program(danger=RUNS_LATER, stdin=StdinRule(ANY_NUMBER, "f"), background=ANY_USE),
    "tmux": Program(danger=KILLS_SERVER, stdin=StdinRule(1), background="new new-session neww new-window split-window "
        "splitw send send-keys respawn-pane run run-shell"),
    "screen": Program(danger=KILLS_SERVER, stdin=StdinRule(ANY_NUMBER, "-ls -dmS"), background="-dm -dmS -d -X"),
})  # fmt: skip

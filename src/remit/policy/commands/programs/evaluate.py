"""What one simple command does: the table's rows, and the programs that need more than a row."""

import re
from collections.abc import Callable, Sequence
from typing import TypeAlias

from msgspec.structs import replace

from remit.policy.commands.parse.options import OptionRow, ParsedOptions, parse_options
from remit.policy.commands.parse.words import ANY_WORDS, HOME_MARK, UnprovedCommand, Word
from remit.policy.commands.programs.effects import CommandEffects, write_to
from remit.policy.commands.programs.git_reads import check_reading_git
from remit.policy.commands.programs.output_lines import list_output
from remit.policy.commands.programs.readers import (
    BINARY_TESTS,
    FIND_TESTS,
    HARMLESS_VARIABLES,
    READERS,
    UNARY_TESTS,
    VERSION_WORDS,
)
from remit.policy.commands.programs.sed_perl import is_plain_sed
from remit.policy.commands.programs.special_writers import find_writes, is_known_writer, substitute_word

SYSTEM_FOLDERS = ("/bin/", "/usr/bin/")
MAX_WRAPPERS = 8
"""Programs that run a program that runs a program …"""

ASSIGNMENT = re.compile(r"([A-Za-z_]\w*)=(.*)", re.ASCII | re.DOTALL)
SAFE_VARIABLE = re.compile(
    r"(?!npm_|\w*proxy$|histchars$|auto_resume$|(?:cd|f|man|module_)?path$|(?:commands|functions|aliases|builtins|options|argv)$)"
    r"[a-z_][a-z0-9_]*",
    re.ASCII,
)
"""Lower-case names: no program here is run otherwise because of one. Not those that zsh ties to its own, as `path`."""

HARMLESS_VALUE = re.compile(r"[\w.:@+,-]*(?:/[\w+-]+)*", re.ASCII)


InputLines: TypeAlias = tuple[Word, ...] | None
"""The words that the lines of a program's input are; None where the text does not tell."""


def evaluate_command(words: Sequence[Word], input_lines: InputLines = None, wrapper_depth: int = 0) -> CommandEffects:
    """What one simple command does, given as its words and the lines that it reads; raises Refused."""
    if not words or not words[0].is_literal:
        raise UnprovedCommand("the name of a command is not literal")
    if wrapper_depth > MAX_WRAPPERS:
        raise UnprovedCommand("too many programs run each other")
    name, rest = program_name(words[0].text), words[1:]
    try:
        ran = evaluate_reader(name, rest, input_lines, wrapper_depth)
    except UnprovedCommand:
        if not is_known_writer(name):
            raise
        ran = find_writes(name, rest, lambda inner: evaluate_command(inner, None, wrapper_depth + 1))
    return replace(ran, output_lines=list_output(name, rest, input_lines)) if ran.output_lines is None else ran


def evaluate_reader(name: str, words: Sequence[Word], input_lines: InputLines, wrapper_depth: int) -> CommandEffects:
    """What a program does that only reads, or runs another; raises Refused."""
    if len(words) == 1 and words[0].is_literal and words[0].text in VERSION_WORDS.get(name, ()):
        return CommandEffects((name,))
    if name == "xargs":
        return run_inner_command(name, unwrap_xargs(words, input_lines), None, wrapper_depth)
    if name == "flock":
        return run_under_flock(words, input_lines, wrapper_depth)
    if name in WRAPPER_PROGRAMS:
        return run_inner_command(name, WRAPPER_PROGRAMS[name](words), input_lines, wrapper_depth)
    if name in SPECIAL_READERS:
        return SPECIAL_READERS[name](name, words)
    if name not in READERS:
        raise UnprovedCommand(f"`{name}` is not on the read-only table")
    return read_by_row(name, READERS[name], words)


def program_name(word: str) -> str:
    """The name that the tables know: without the folder, if that is one of the system's."""
    for folder in SYSTEM_FOLDERS:
        if word.startswith(folder):
            return word.removeprefix(folder)
    return word


def run_inner_command(name: str, words: Sequence[Word], input_lines: InputLines, wrapper_depth: int) -> CommandEffects:
    if not words:
        return CommandEffects((name,))
    inner = evaluate_command(words, input_lines, wrapper_depth + 1)
    if inner.changes_folder and name not in ("command", "builtin"):
        raise UnprovedCommand(f"`{name}` with a command of the shell's own")
    return replace(inner, programs=(name, *inner.programs))


def run_under_flock(words: Sequence[Word], input_lines: InputLines, wrapper_depth: int) -> CommandEffects:
    """`flock FILE COMMAND…`: the file is made where there is none."""
    row = OptionRow("sxneuFov", "wE", long=frozenset({"exclusive", "shared", "nonblock"}))
    operands = parse_options("flock", row, words, stop_at_operand=True).operands
    if len(operands) < 2 or operands[1].may_be_option:
        raise UnprovedCommand("`flock` without a command of words")
    inner = run_inner_command("flock", operands[1:], input_lines, wrapper_depth)
    return replace(
        inner, changes_state=True, writes=(replace(write_to(operands[0], "flock"), edits_in_place=True), *inner.writes)
    )


def read_by_row(name: str, row: OptionRow, words: Sequence[Word]) -> CommandEffects:
    taken = parse_options(name, row, words)
    return CommandEffects((name,), file_operands(row, taken))


def file_operands(row: OptionRow, parsed: ParsedOptions) -> tuple[str, ...]:
    """The literal file operands."""
    given = parsed.has_option("-e", "-f", "--regexp", "--file", "--from-file", "--files")
    skipped = 1 if row.read_operands == "rest" and not given else 0
    operands = () if row.read_operands == "none" else parsed.operands[skipped:]
    return tuple(word.text for word in operands if word.is_literal and word.text not in ("", "-"))


# Programs that run another one: each answers the words of the command that it runs, if any.


def unwrap_setsid(words: Sequence[Word]) -> Sequence[Word]:
    return parse_options(
        "setsid", OptionRow("cfw", long=frozenset({"ctty", "fork", "wait"})), words, stop_at_operand=True
    ).operands


def unwrap_ionice(words: Sequence[Word]) -> Sequence[Word]:
    return parse_options("ionice", OptionRow("t", "cn"), words, stop_at_operand=True).operands


def unwrap_plain(words: Sequence[Word]) -> Sequence[Word]:
    """`builtin` and `nohup` have no options."""
    return parse_options("nohup", OptionRow(), words, stop_at_operand=True).operands


def unwrap_time(words: Sequence[Word]) -> Sequence[Word]:
    """The keyword. `time -o` is the program's, but then the word was quoted or a path."""
    return parse_options("time", OptionRow("p"), words, stop_at_operand=True).operands


def unwrap_command(words: Sequence[Word]) -> Sequence[Word]:
    taken = parse_options("command", OptionRow("vV"), words, stop_at_operand=True)
    return () if taken.has_option("-v", "-V") else taken.operands


def unwrap_timeout(words: Sequence[Word]) -> Sequence[Word]:
    long = frozenset({"preserve-status", "foreground", "verbose", "kill-after", "signal"})
    operands = parse_options("timeout", OptionRow("v", "ks", long=long), words, stop_at_operand=True).operands
    if len(operands) < 2 or not re.fullmatch(r"[\d.]+[smhd]?", operands[0].text, re.ASCII):
        raise UnprovedCommand("`timeout` without a literal duration and a command")
    return operands[1:]


def unwrap_nice(words: Sequence[Word]) -> Sequence[Word]:
    return parse_options("nice", OptionRow("", "n", takes_number=True), words, stop_at_operand=True).operands


def unwrap_stdbuf(words: Sequence[Word]) -> Sequence[Word]:
    return parse_options("stdbuf", OptionRow("", "ioe"), words, stop_at_operand=True).operands


def unwrap_env(words: Sequence[Word]) -> Sequence[Word]:
    """Not `-S`, which splits a word into words, and not `-C`, which changes the folder."""
    rest = parse_options("env", OptionRow("i0", "u", long=frozenset({"null"})), words, stop_at_operand=True).operands
    while rest and (found := ASSIGNMENT.fullmatch(rest[0].text)):
        if not rest[0].is_literal:
            raise UnprovedCommand(f"`env` sets {found[1]!r} to what the text does not show")
        check_variable(found[1], found[2])
        rest = rest[1:]
    return rest


def unwrap_xargs(words: Sequence[Word], input_lines: InputLines) -> Sequence[Word]:
    """What xargs reads are the lines it is fed, where they are known; else they may be any words."""
    row = OptionRow("0rtx", "aIELnPsd", long=frozenset({"null", "no-run-if-empty", "verbose"}))
    taken = parse_options("xargs", row, words, stop_at_operand=True)
    marks = [word.text for word in taken.values("-I")]
    if not taken.operands:
        return (Word("echo"), ANY_WORDS)
    if any(mark in taken.operands[0].text for mark in marks) or not all(marks):
        raise UnprovedCommand("`xargs` reads the name of the command that it runs")
    given = None if taken.has_option("-a") else input_lines
    if not marks:
        return (*taken.operands, *(given or (ANY_WORDS,)))
    if given is None or len(given) != 1 or len(marks) != 1:
        return tuple(ANY_WORDS if any(mark in word.text for mark in marks) else word for word in taken.operands)
    return tuple(substitute_word(word, given[0], marks[0]) for word in taken.operands)


WRAPPER_PROGRAMS: dict[str, Callable[[Sequence[Word]], Sequence[Word]]] = {
    "time": unwrap_time,
    "command": unwrap_command,
    "timeout": unwrap_timeout,
    "nice": unwrap_nice,
    "stdbuf": unwrap_stdbuf,
    "env": unwrap_env,
    "setsid": unwrap_setsid,
    "ionice": unwrap_ionice,
    "builtin": unwrap_plain,
    "nohup": unwrap_plain,
}


def check_variable(name: str, value: str) -> None:
    """Whether a variable may be given to a command; raises Refused."""
    if name not in HARMLESS_VARIABLES or not HARMLESS_VALUE.fullmatch(value):
        raise UnprovedCommand(f"{name}={value!r} may change what a program does")


# Programs that need more than a row: each answers what is proved of it, or raises Refused.


def read_git(name: str, words: Sequence[Word]) -> CommandEffects:
    return CommandEffects((name,), folder=check_reading_git(words))


def read_cd(name: str, words: Sequence[Word]) -> CommandEffects:
    if not words and name == "cd":
        return CommandEffects((name,), folder=HOME_MARK, changes_folder=True)
    if len(words) != 1 or not words[0].is_literal or words[0].text.startswith(("-", "+")):
        return CommandEffects((name,), folder="", changes_folder=True)
    path = words[0].text
    if not path:
        # `cd ''` stays where it is, in bash, dash and zsh; what `pushd ''` does differs.
        return CommandEffects((name,), folder="." if name == "cd" else "", changes_folder=True)
    return CommandEffects((name,), folder=path.rstrip("/") or "/", changes_folder=True)


def read_find(name: str, words: Sequence[Word]) -> CommandEffects:
    """No abbreviations:  word that begins with `-` is one of its tests, or a value."""
    for word in words:
        if word.may_split or (not word.is_literal and word.text[:1] in ("", "-", "(", "!")):
            raise UnprovedCommand("a word of `find` may become any option")
        if word.text.startswith("-") and word.text not in FIND_TESTS and not is_number(word.text):
            raise UnprovedCommand(f"{word.text!r} of `find` is not on the read-only table")
    return CommandEffects((name,))


def is_number(text: str) -> bool:
    return re.fullmatch(r"-\d+[a-zA-Z]?", text, re.ASCII) is not None


def read_printf(name: str, words: Sequence[Word]) -> CommandEffects:
    """`-v` sets a variable; `%n` sets the one that an argument names, and evaluates its subscript."""
    rest = words[1:] if words and words[0].text == "--" else words
    if not rest or not rest[0].is_literal or rest[0].text.startswith("-"):
        raise UnprovedCommand("`printf` without a literal format")
    if re.search(r"%[^%a-zA-Z]*[hlLqjzt]*n", rest[0].text.replace("%%", "")):
        raise UnprovedCommand("`printf` with %n sets a variable")
    return CommandEffects((name,))


def read_date(name: str, words: Sequence[Word]) -> CommandEffects:
    """An operand that is no format sets the clock."""
    long = frozenset({"utc", "universal", "iso-8601", "rfc-3339", "rfc-email", "date", "reference"})
    row = OptionRow("uRj", "dr", "I", long=long, long_valued=frozenset({"date", "reference"}), max_operands=1)
    taken = parse_options(name, row, words)
    if not all(word.text.startswith("+") for word in taken.operands):
        raise UnprovedCommand("`date` with an operand that is no format sets the clock")
    return CommandEffects((name,))


def read_set_command(name: str, words: Sequence[Word]) -> CommandEffects:
    taken = parse_options(name, READERS[name], words)
    if any(word.text not in ("pipefail", "errexit", "nounset") for word in taken.values("-o")):
        raise UnprovedCommand("`set -o` changes how the shell reads what follows")
    return CommandEffects((name,))


def read_read_command(name: str, words: Sequence[Word]) -> CommandEffects:
    taken = parse_options(name, READERS[name], words)
    if not all(word.is_literal and SAFE_VARIABLE.fullmatch(word.text) for word in taken.operands):
        raise UnprovedCommand("`read` into something other than lower-case names")
    return CommandEffects((name,), variables=tuple(word.text for word in taken.operands))


def read_pager(name: str, words: Sequence[Word]) -> CommandEffects:
    """`+` begins a command of the pager, and those can run programs."""
    taken = parse_options(name, READERS[name], words)
    if any(word.text.startswith("+") for word in taken.operands):
        raise UnprovedCommand(f"`{name}` with a command of its own")
    return CommandEffects((name,), file_operands(READERS[name], taken))


def read_xxd(name: str, words: Sequence[Word]) -> CommandEffects:
    """Options do not bundle: `-ps` is one option, so only single letters are sure."""
    if any(word.text.startswith("-") and len(word.text) > 2 for word in words):
        raise UnprovedCommand("`xxd` with an option of several letters")
    return read_by_row(name, READERS[name], words)


def read_test(name: str, words: Sequence[Word]) -> CommandEffects:
    check_test(words)
    return CommandEffects((name,))


def check_test(words: Sequence[Word]) -> None:
    """Whether the words of `[ … ]` are a test whose operator the text fixes; raises Refused."""
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


def read_tar(name: str, words: Sequence[Word]) -> CommandEffects:
    """Only `tar tf ARCHIVE MEMBER…`: `I`, `F` and long options run programs, so does `host:archive`."""
    if len(words) < 2 or not all(word.is_literal for word in words[:2]):
        raise UnprovedCommand("`tar` is proved only as `tar tf ARCHIVE`")
    letters, archive = words[0].text, words[1].text
    listing = re.fullmatch(r"-?[tvzjJ]*f", letters) and "t" in letters
    if not listing or ":" in archive or any(word.may_be_option for word in words[1:]):
        raise UnprovedCommand("`tar` is proved only as `tar tf ARCHIVE`")
    return CommandEffects((name,), (archive,))


AWK_EFFECTS = re.compile(r"system|getline|@|\\\n")


def read_awk(name: str, words: Sequence[Word]) -> CommandEffects:
    """The program must be literal and hold no word that runs or writes.

    `>` and `|` write only in `print`, and `print` stands only in an action, so after the first brace.
    """
    row = OptionRow("", "Fv", read_operands="rest")
    taken = parse_options(name, row, words, stop_at_operand=True)
    if not taken.operands or not taken.operands[0].is_literal:
        raise UnprovedCommand(f"`{name}` without a literal program")
    program = taken.operands[0].text
    action = program.partition("{")[2] if "print" in program else ""
    found = AWK_EFFECTS.search(program) or re.search(r"[>|]", action.replace("||", ""))
    if found:
        raise UnprovedCommand(f"{found[0]!r} in a program of `{name}` may run or write something")
    if not all(word.is_literal for word in taken.values("-v", "-F")):
        raise UnprovedCommand(f"`{name}` with a value that is not literal")
    if any(word.may_be_option for word in taken.operands[1:]):
        raise UnprovedCommand(f"a word of `{name}` may become any option")
    return CommandEffects((name,), file_operands(row, taken))


def read_sed(name: str, words: Sequence[Word]) -> CommandEffects:
    long = frozenset({"quiet", "silent", "regexp-extended", "expression", "null-data", "unbuffered", "separate"})
    row = OptionRow("nErzsu", "e", long=long, long_valued=frozenset({"expression"}), read_operands="rest")
    taken = parse_options(name, row, words)
    given = taken.values("-e", "--expression")
    scripts = given or taken.operands[:1]
    if not scripts or not all(word.is_literal and is_plain_sed(word.text) for word in scripts):
        raise UnprovedCommand("a script of `sed` is not literal, or may write or run something")
    operands = taken.operands if given else taken.operands[1:]
    return CommandEffects((name,), tuple(word.text for word in operands if word.is_literal and word.text != "-"))


PYTHON_PRINTS = re.compile(r"print\((?:[\s\d.+*/%<>=!,()-]|\"[^\"\\]*\"|'[^'\\]*')*\)")
"""`print` of numbers and texts: no other name, so nothing else is called."""


def read_python(name: str, words: Sequence[Word]) -> CommandEffects:
    match words:
        case [option, script] if option.text == "-c" and option.is_literal and script.is_literal:
            if PYTHON_PRINTS.fullmatch(script.text):
                return CommandEffects((name,))
        case _:
            pass
    raise UnprovedCommand(f"`{name}` runs a program")


def read_shell(name: str, words: Sequence[Word]) -> CommandEffects:
    """`bash -c 'literal'`, or `bash -n FILE`, which parses only."""
    match words:
        case [option, file] if option.is_literal and option.text == "-n" and not file.may_be_option:
            if file.is_single:
                return CommandEffects((name,), (file.text,) if file.is_literal else ())
        case _:
            pass
    left = list(words)
    while left and left[0].is_literal and re.fullmatch(r"-[euxf]*[oc]?", left[0].text):
        option = left.pop(0).text
        if option.endswith("o") and (not left or left.pop(0).text not in ("pipefail", "errexit", "nounset", "xtrace")):
            break
        if option.endswith("c") and left and left[0].is_literal:
            return CommandEffects((name,), script=left[0].text, is_posix_shell=name != "bash")
    raise UnprovedCommand(f"`{name}` runs a script that the text does not show")


SPECIAL_READERS: dict[str, Callable[[str, Sequence[Word]], CommandEffects]] = {
    "git": read_git,
    "cd": read_cd,
    "pushd": read_cd,
    "popd": read_cd,
    "find": read_find,
    "printf": read_printf,
    "date": read_date,
    "set": read_set_command,
    "read": read_read_command,
    "less": read_pager,
    "more": read_pager,
    "xxd": read_xxd,
    "test": read_test,
    "tar": read_tar,
    "awk": read_awk,
    "gawk": read_awk,
    "mawk": read_awk,
    "sed": read_sed,
    "python": read_python,
    "python3": read_python,
    "bash": read_shell,
    "sh": read_shell,
    "dash": read_shell,
}

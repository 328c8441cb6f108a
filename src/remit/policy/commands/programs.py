"""What one simple command does: the table's rows, and the programs that need more than a row."""

import re
from collections.abc import Callable, Sequence
from typing import TypeAlias

from msgspec.structs import replace

from remit.policy.commands.changing import change, known_writer, put
from remit.policy.commands.effects import Run, written
from remit.policy.commands.git import other_repository
from remit.policy.commands.lines import lines_of
from remit.policy.commands.little import is_plain_sed
from remit.policy.commands.options import Row, Taken, take
from remit.policy.commands.tables import (
    COMMANDS,
    FIND_TESTS,
    HARMLESS_VARIABLES,
    TEST_BINARY,
    TEST_UNARY,
    VERSION_WORDS,
)
from remit.policy.commands.words import ANYTHING, HOME, Refused, Word

FOLDERS = ("/bin/", "/usr/bin/")
LONGEST_CHAIN = 8
"""Programs that run a program that runs a program …"""

ASSIGNMENT = re.compile(r"([A-Za-z_]\w*)=(.*)", re.ASCII | re.DOTALL)
VARIABLE = re.compile(
    r"(?!npm_|\w*proxy$|histchars$|auto_resume$|(?:cd|f|man|module_)?path$|(?:commands|functions|aliases|builtins|options|argv)$)"
    r"[a-z_][a-z0-9_]*",
    re.ASCII,
)
"""Lower-case names: no program here is run otherwise because of one. Not those that zsh ties to its own, as `path`."""

HARMLESS_VALUE = re.compile(r"[\w.:@+,-]*(?:/[\w+-]+)*", re.ASCII)


Lines: TypeAlias = tuple[Word, ...] | None
"""The words that the lines of a program's input are; None where the text does not tell."""


def run(words: Sequence[Word], fed: Lines = None, chain: int = 0) -> Run:
    """What one simple command does, given as its words and the lines that it reads; raises Refused."""
    if not words or not words[0].literal:
        raise Refused("the name of a command is not literal")
    if chain > LONGEST_CHAIN:
        raise Refused("too many programs run each other")
    name, rest = program_name(words[0].text), words[1:]
    try:
        ran = read(name, rest, fed, chain)
    except Refused:
        if not known_writer(name):
            raise
        ran = change(name, rest, lambda inner: run(inner, None, chain + 1))
    return replace(ran, lists=lines_of(name, rest, fed)) if ran.lists is None else ran


def read(name: str, words: Sequence[Word], fed: Lines, chain: int) -> Run:
    """What a program does that only reads, or runs another; raises Refused."""
    if len(words) == 1 and words[0].literal and words[0].text in VERSION_WORDS.get(name, ()):
        return Run((name,))
    if name == "xargs":
        return _wrapped(name, _xargs(words, fed), None, chain)
    if name == "flock":
        return _locked(words, fed, chain)
    if name in WRAPPERS:
        return _wrapped(name, WRAPPERS[name](words), fed, chain)
    if name in SPECIAL:
        return SPECIAL[name](name, words)
    if name not in COMMANDS:
        raise Refused(f"`{name}` is not on the read-only table")
    return _by_row(name, COMMANDS[name], words)


def program_name(word: str) -> str:
    """The name that the tables know: without the folder, if that is one of the system's."""
    for folder in FOLDERS:
        if word.startswith(folder):
            return word.removeprefix(folder)
    return word


def _wrapped(name: str, words: Sequence[Word], fed: Lines, chain: int) -> Run:
    if not words:
        return Run((name,))
    inner = run(words, fed, chain + 1)
    if inner.moves and name not in ("command", "builtin"):
        raise Refused(f"`{name}` with a command of the shell's own")
    return replace(inner, programs=(name, *inner.programs))


def _locked(words: Sequence[Word], fed: Lines, chain: int) -> Run:
    """`flock FILE COMMAND…`: the file is made where there is none."""
    row = Row("sxneuFov", "wE", long=frozenset({"exclusive", "shared", "nonblock"}))
    operands = take("flock", row, words, stop=True).operands
    if len(operands) < 2 or operands[1].may_be_option:
        raise Refused("`flock` without a command of words")
    inner = _wrapped("flock", operands[1:], fed, chain)
    return replace(inner, acts=True, writes=(replace(written(operands[0], "flock"), edits=True), *inner.writes))


def _by_row(name: str, row: Row, words: Sequence[Word]) -> Run:
    taken = take(name, row, words)
    return Run((name,), files(row, taken))


def files(row: Row, taken: Taken) -> tuple[str, ...]:
    """The literal file operands."""
    given = taken.has("-e", "-f", "--regexp", "--file", "--from-file", "--files")
    skipped = 1 if row.reads == "rest" and not given else 0
    operands = () if row.reads == "none" else taken.operands[skipped:]
    return tuple(word.text for word in operands if word.literal and word.text not in ("", "-"))


# Programs that run another one: each answers the words of the command that it runs, if any.


def _setsid(words: Sequence[Word]) -> Sequence[Word]:
    return take("setsid", Row("cfw", long=frozenset({"ctty", "fork", "wait"})), words, stop=True).operands


def _ionice(words: Sequence[Word]) -> Sequence[Word]:
    return take("ionice", Row("t", "cn"), words, stop=True).operands


def _plain(words: Sequence[Word]) -> Sequence[Word]:
    """`builtin` and `nohup` have no options."""
    return take("nohup", Row(), words, stop=True).operands


def _time(words: Sequence[Word]) -> Sequence[Word]:
    """The keyword. `time -o` is the program's, but then the word was quoted or a path."""
    return take("time", Row("p"), words, stop=True).operands


def _command(words: Sequence[Word]) -> Sequence[Word]:
    taken = take("command", Row("vV"), words, stop=True)
    return () if taken.has("-v", "-V") else taken.operands


def _timeout(words: Sequence[Word]) -> Sequence[Word]:
    long = frozenset({"preserve-status", "foreground", "verbose", "kill-after", "signal"})
    operands = take("timeout", Row("v", "ks", long=long), words, stop=True).operands
    if len(operands) < 2 or not re.fullmatch(r"[\d.]+[smhd]?", operands[0].text, re.ASCII):
        raise Refused("`timeout` without a literal duration and a command")
    return operands[1:]


def _nice(words: Sequence[Word]) -> Sequence[Word]:
    return take("nice", Row("", "n", digits=True), words, stop=True).operands


def _stdbuf(words: Sequence[Word]) -> Sequence[Word]:
    return take("stdbuf", Row("", "ioe"), words, stop=True).operands


def _env(words: Sequence[Word]) -> Sequence[Word]:
    """Not `-S`, which splits a word into words, and not `-C`, which changes the folder."""
    rest = take("env", Row("i0", "u", long=frozenset({"null"})), words, stop=True).operands
    while rest and (found := ASSIGNMENT.fullmatch(rest[0].text)):
        if not rest[0].literal:
            raise Refused(f"`env` sets {found[1]!r} to what the text does not show")
        check_variable(found[1], found[2])
        rest = rest[1:]
    return rest


def _xargs(words: Sequence[Word], fed: Lines) -> Sequence[Word]:
    """What xargs reads are the lines it is fed, where they are known; else they may be any words."""
    row = Row("0rtx", "aIELnPsd", long=frozenset({"null", "no-run-if-empty", "verbose"}))
    taken = take("xargs", row, words, stop=True)
    marks = [word.text for word in taken.values("-I")]
    if not taken.operands:
        return (Word("echo"), ANYTHING)
    if any(mark in taken.operands[0].text for mark in marks) or not all(marks):
        raise Refused("`xargs` reads the name of the command that it runs")
    given = None if taken.has("-a") else fed
    if not marks:
        return (*taken.operands, *(given or (ANYTHING,)))
    if given is None or len(given) != 1 or len(marks) != 1:
        return tuple(ANYTHING if any(mark in word.text for mark in marks) else word for word in taken.operands)
    return tuple(put(word, given[0], marks[0]) for word in taken.operands)


WRAPPERS: dict[str, Callable[[Sequence[Word]], Sequence[Word]]] = {
    "time": _time,
    "command": _command,
    "timeout": _timeout,
    "nice": _nice,
    "stdbuf": _stdbuf,
    "env": _env,
    "setsid": _setsid,
    "ionice": _ionice,
    "builtin": _plain,
    "nohup": _plain,
}


def check_variable(name: str, value: str) -> None:
    """Whether a variable may be given to a command; raises Refused."""
    if name not in HARMLESS_VARIABLES or not HARMLESS_VALUE.fullmatch(value):
        raise Refused(f"{name}={value!r} may change what a program does")


# Programs that need more than a row: each answers what is proved of it, or raises Refused.


def _git(name: str, words: Sequence[Word]) -> Run:
    return Run((name,), folder=other_repository(words))


def _cd(name: str, words: Sequence[Word]) -> Run:
    if not words and name == "cd":
        return Run((name,), folder=HOME, moves=True)
    if len(words) != 1 or not words[0].literal or words[0].text.startswith(("-", "+")):
        return Run((name,), folder="", moves=True)
    path = words[0].text
    if not path:
        # `cd ''` stays where it is, in bash, dash and zsh; what `pushd ''` does differs.
        return Run((name,), folder="." if name == "cd" else "", moves=True)
    return Run((name,), folder=path.rstrip("/") or "/", moves=True)


def _find(name: str, words: Sequence[Word]) -> Run:
    """No abbreviations:  word that begins with `-` is one of its tests, or a value."""
    for word in words:
        if word.splits or (not word.literal and word.text[:1] in ("", "-", "(", "!")):
            raise Refused("a word of `find` may become any option")
        if word.text.startswith("-") and word.text not in FIND_TESTS and not _number(word.text):
            raise Refused(f"{word.text!r} of `find` is not on the read-only table")
    return Run((name,))


def _number(text: str) -> bool:
    return re.fullmatch(r"-\d+[a-zA-Z]?", text, re.ASCII) is not None


def _printf(name: str, words: Sequence[Word]) -> Run:
    """`-v` sets a variable; `%n` sets the one that an argument names, and evaluates its subscript."""
    rest = words[1:] if words and words[0].text == "--" else words
    if not rest or not rest[0].literal or rest[0].text.startswith("-"):
        raise Refused("`printf` without a literal format")
    if re.search(r"%[^%a-zA-Z]*[hlLqjzt]*n", rest[0].text.replace("%%", "")):
        raise Refused("`printf` with %n sets a variable")
    return Run((name,))


def _date(name: str, words: Sequence[Word]) -> Run:
    """An operand that is no format sets the clock."""
    long = frozenset({"utc", "universal", "iso-8601", "rfc-3339", "rfc-email", "date", "reference"})
    row = Row("uRj", "dr", "I", long=long, long_valued=frozenset({"date", "reference"}), operands=1)
    taken = take(name, row, words)
    if not all(word.text.startswith("+") for word in taken.operands):
        raise Refused("`date` with an operand that is no format sets the clock")
    return Run((name,))


def _set(name: str, words: Sequence[Word]) -> Run:
    taken = take(name, COMMANDS[name], words)
    if any(word.text not in ("pipefail", "errexit", "nounset") for word in taken.values("-o")):
        raise Refused("`set -o` changes how the shell reads what follows")
    return Run((name,))


def _read(name: str, words: Sequence[Word]) -> Run:
    taken = take(name, COMMANDS[name], words)
    if not all(word.literal and VARIABLE.fullmatch(word.text) for word in taken.operands):
        raise Refused("`read` into something other than lower-case names")
    return Run((name,), sets=tuple(word.text for word in taken.operands))


def _pager(name: str, words: Sequence[Word]) -> Run:
    """`+` begins a command of the pager, and those can run programs."""
    taken = take(name, COMMANDS[name], words)
    if any(word.text.startswith("+") for word in taken.operands):
        raise Refused(f"`{name}` with a command of its own")
    return Run((name,), files(COMMANDS[name], taken))


def _xxd(name: str, words: Sequence[Word]) -> Run:
    """Options do not bundle: `-ps` is one option, so only single letters are sure."""
    if any(word.text.startswith("-") and len(word.text) > 2 for word in words):
        raise Refused("`xxd` with an option of several letters")
    return _by_row(name, COMMANDS[name], words)


def _test(name: str, words: Sequence[Word]) -> Run:
    check_test(words)
    return Run((name,))


def check_test(words: Sequence[Word]) -> None:
    """Whether the words of `[ … ]` are a test whose operator the text fixes; raises Refused."""
    rest = words[1:] if words and words[0].literal and words[0].text == "!" else words
    if not all(word.single for word in rest):
        raise Refused("a word of a test may become several words")
    match rest:
        case [] | [_]:
            return
        case [operator, _] if operator.literal and operator.text in TEST_UNARY:
            return
        case [_, operator, _] if operator.literal and operator.text in TEST_BINARY:
            return
        case _:
            raise Refused(f"the test {' '.join(word.text for word in words)!r} is not on the read-only table")


def _tar(name: str, words: Sequence[Word]) -> Run:
    """Only `tar tf ARCHIVE MEMBER…`: `I`, `F` and long options run programs, so does `host:archive`."""
    if len(words) < 2 or not all(word.literal for word in words[:2]):
        raise Refused("`tar` is proved only as `tar tf ARCHIVE`")
    letters, archive = words[0].text, words[1].text
    listing = re.fullmatch(r"-?[tvzjJ]*f", letters) and "t" in letters
    if not listing or ":" in archive or any(word.may_be_option for word in words[1:]):
        raise Refused("`tar` is proved only as `tar tf ARCHIVE`")
    return Run((name,), (archive,))


AWK_HARM = re.compile(r"system|getline|@|\\\n")


def _awk(name: str, words: Sequence[Word]) -> Run:
    """The program must be literal and hold no word that runs or writes.

    `>` and `|` write only in `print`, and `print` stands only in an action, so after the first brace.
    """
    row = Row("", "Fv", reads="rest")
    taken = take(name, row, words, stop=True)
    if not taken.operands or not taken.operands[0].literal:
        raise Refused(f"`{name}` without a literal program")
    program = taken.operands[0].text
    action = program.partition("{")[2] if "print" in program else ""
    found = AWK_HARM.search(program) or re.search(r"[>|]", action.replace("||", ""))
    if found:
        raise Refused(f"{found[0]!r} in a program of `{name}` may run or write something")
    if not all(word.literal for word in taken.values("-v", "-F")):
        raise Refused(f"`{name}` with a value that is not literal")
    if any(word.may_be_option for word in taken.operands[1:]):
        raise Refused(f"a word of `{name}` may become any option")
    return Run((name,), files(row, taken))


def _sed(name: str, words: Sequence[Word]) -> Run:
    long = frozenset({"quiet", "silent", "regexp-extended", "expression", "null-data", "unbuffered", "separate"})
    row = Row("nErzsu", "e", long=long, long_valued=frozenset({"expression"}), reads="rest")
    taken = take(name, row, words)
    given = taken.values("-e", "--expression")
    scripts = given or taken.operands[:1]
    if not scripts or not all(word.literal and is_plain_sed(word.text) for word in scripts):
        raise Refused("a script of `sed` is not literal, or may write or run something")
    operands = taken.operands if given else taken.operands[1:]
    return Run((name,), tuple(word.text for word in operands if word.literal and word.text != "-"))


PYTHON_PRINTS = re.compile(r"print\((?:[\s\d.+*/%<>=!,()-]|\"[^\"\\]*\"|'[^'\\]*')*\)")
"""`print` of numbers and texts: no other name, so nothing else is called."""


def _python(name: str, words: Sequence[Word]) -> Run:
    match words:
        case [option, script] if option.text == "-c" and option.literal and script.literal:
            if PYTHON_PRINTS.fullmatch(script.text):
                return Run((name,))
        case _:
            pass
    raise Refused(f"`{name}` runs a program")


def _shell(name: str, words: Sequence[Word]) -> Run:
    """`bash -c 'literal'`, or `bash -n FILE`, which parses only."""
    match words:
        case [option, file] if option.literal and option.text == "-n" and not file.may_be_option:
            if file.single:
                return Run((name,), (file.text,) if file.literal else ())
        case _:
            pass
    left = list(words)
    while left and left[0].literal and re.fullmatch(r"-[euxf]*[oc]?", left[0].text):
        option = left.pop(0).text
        if option.endswith("o") and (not left or left.pop(0).text not in ("pipefail", "errexit", "nounset", "xtrace")):
            break
        if option.endswith("c") and left and left[0].literal:
            return Run((name,), script=left[0].text, dash=name != "bash")
    raise Refused(f"`{name}` runs a script that the text does not show")


SPECIAL: dict[str, Callable[[str, Sequence[Word]], Run]] = {
    "git": _git,
    "cd": _cd,
    "pushd": _cd,
    "popd": _cd,
    "find": _find,
    "printf": _printf,
    "date": _date,
    "set": _set,
    "read": _read,
    "less": _pager,
    "more": _pager,
    "xxd": _xxd,
    "test": _test,
    "tar": _tar,
    "awk": _awk,
    "gawk": _awk,
    "mawk": _awk,
    "sed": _sed,
    "python": _python,
    "python3": _python,
    "bash": _shell,
    "sh": _shell,
    "dash": _shell,
}

"""Scripts of sed, awk and perl, proved to write no unknown file and to run no program.

A script is read once, from left to right: no script takes long. No proof rests on possessive or atomic regular
expressions (`++`, `(?>…)`): Python 3.11.0 to 3.11.4 match too much with them, and would prove a script refused by other
versions. Source: CPython issues 100061 and 106052, read 2026-11.
"""

import re
from collections.abc import Sequence

from msgspec.structs import replace

from remit.policy.commands.parse.options import OptionRow, file_operands, parse_options
from remit.policy.commands.parse.words import UnprovedCommand, Word
from remit.policy.commands.programs.effects import CommandEffects, Write, write_to

MAX_SCRIPT = 4096
"""Characters of a script; a longer script is refused. Patterns are compiled at their first use, not at the start."""

SED_DELIMITERS = "/|,#:@!%"
"""Characters that may delimit the parts of a substitution."""

SED_BRACKET = r"\[\^?(?!\^)((?:\[:[a-z]+:\]|[^\]\\\n\[])+)\]"
SED_NUMBER = r"\d+(?:~\d+)?|\$"
SED_STEP = r"[+~]\d+"
SED_PLAIN = r"[{pdnNDPgGhHx=]|[qQl]\d*"
"""Commands without a file: not `w W r R e`."""

SED_FLAGS = r"[gpiI0-9]*"
"""Of a substitution; not `w`, `e`, `m`."""

SED_TEXT = r"[aic](?:[^\n\\]|\\[\s\S])*\n?"
"""Added text: everything up to a new line that is not escaped."""


class UnsafeScript(ValueError):
    """A script with a part that is not known to be harmless."""


class SedScript:
    """One pass over a sed script; `position` only moves forward."""

    def __init__(self, text: str) -> None:
        self.text, self.position = text, 0

    def check(self, *, text_at_end: bool) -> None:
        """Raise UnsafeScript unless every command is known to use no file and to run nothing.

        With `text_at_end` the last command may add text.
        """
        while True:
            self.skip(" \t\n\r\v\f;}")
            if self.position == len(self.text):
                return
            self.check_addresses()
            if self.text.startswith("s", self.position):
                self.check_substitution()
            elif not self.read_token(SED_PLAIN):
                if not text_at_end or not self.read_token(SED_TEXT) or self.position != len(self.text):
                    raise UnsafeScript(self.text[self.position :])
                return

    def check_addresses(self) -> None:
        """Pass over `2`, `$!`, `/x/,+3` or nothing. Raises UnsafeScript."""
        if self.check_address():
            self.skip(" \t")
            if self.text.startswith(",", self.position):
                self.position += 1
                self.skip(" \t")
                if not self.check_address() and not self.read_token(SED_STEP):
                    raise UnsafeScript(self.text[self.position :])
                self.skip(" \t")
            if self.text.startswith("!", self.position):
                self.position += 1
                self.skip(" \t")

    def check_address(self) -> bool:
        """Pass over a line number or a pattern; return False if neither stands here. Raises UnsafeScript."""
        if not self.text.startswith("/", self.position):
            return self.read_token(SED_NUMBER)
        self.position += 1
        self.check_pattern("/")
        self.skip_one("I")
        return True

    def check_substitution(self) -> None:
        """Pass over `s/pattern/replacement/flags`. Raises UnsafeScript."""
        mark = self.text[self.position + 1 : self.position + 2]
        if not mark or mark not in SED_DELIMITERS:
            raise UnsafeScript(self.text[self.position :])
        self.position += 2
        self.check_pattern(mark)
        while not self.text.startswith(mark, self.position):
            self.skip_character()
        self.position += 1
        self.read_token(SED_FLAGS)

    def check_pattern(self, mark: str) -> None:
        """Pass over a pattern and its closing delimiter. Raises UnsafeScript.

        A bracket expression with the delimiter in it is refused: some builds of sed end the pattern there.
        """
        while not self.text.startswith(mark, self.position):
            start = self.position
            if not self.text.startswith("[", start):
                self.skip_character()
            elif not self.read_token(SED_BRACKET) or mark in self.text[start : self.position]:
                raise UnsafeScript(self.text[start:])
        self.position += 1

    def skip_character(self) -> None:
        """Pass over a character, or a backslash and a character. Raises UnsafeScript at a new line or the end."""
        size = 2 if self.text.startswith("\\", self.position) else 1
        character = self.text[self.position : self.position + size]
        if len(character) < size or "\n" in character:
            raise UnsafeScript(self.text[self.position :])
        self.position += size

    def skip(self, characters: str) -> None:
        while self.position < len(self.text) and self.text[self.position] in characters:
            self.position += 1

    def skip_one(self, character: str) -> None:
        self.position += self.text.startswith(character, self.position)

    def read_token(self, token: str) -> bool:
        found = re.compile(token).match(self.text, self.position)
        self.position = self.position if found is None else found.end()
        return found is not None


PERL_PART = r"(?:\\[^\nN-PpkgEU]|[^\\\n$@({d}]|\((?!\?[?{{])|\$(?=[\d&)|{d}])|\$(?=$)|@(?![\w{{$:]))*"
"""Without `${{…}}`, `@{{…}}` and `(?{{…}})`, which run code, and without variables by name."""

PERL_SUBSTITUTE = "|".join(
    f"s{mark}{PERL_PART.format(d=mark)}{mark}{PERL_PART.format(d=mark)}{mark}[gimsx]*"
    f"|(?:tr|y){mark}{PERL_PART.format(d=mark)}{mark}{PERL_PART.format(d=mark)}{mark}[cds]*"
    for mark in ("/", r"\|", ",", "#", ":", "!", "%")
)
PERL_SCRIPT = rf"\s*(?:{PERL_SUBSTITUTE})(?:\s*;\s*(?:{PERL_SUBSTITUTE}))*\s*;?\s*"
"""Substitutions only, without the flag `e`."""


def is_plain_sed(script: str, *, text_at_end: bool = False) -> bool:
    """Return True if a sed script uses no file and runs nothing; with `text_at_end` the last command may add text."""
    if len(script) > MAX_SCRIPT:
        return False
    try:
        SedScript(script).check(text_at_end=text_at_end)
    except UnsafeScript:
        return False
    return True


def is_plain_perl(script: str) -> bool:
    return len(script) <= MAX_SCRIPT and re.fullmatch(PERL_SCRIPT, script) is not None


# The programs


SED_LONG = "quiet silent regexp-extended expression null-data separate"


def read_sed(name: str, words: Sequence[Word]) -> CommandEffects:
    row = OptionRow("nErzsu", "e", f"{SED_LONG} unbuffered", "expression")
    parsed = parse_options(name, row, words)
    given = parsed.values("-e", "--expression")
    scripts = given or parsed.operands[:1]
    if not scripts or not all(word.is_literal and is_plain_sed(word.text) for word in scripts):
        raise UnprovedCommand("a script of `sed` is not literal, or may write or run something")
    operands = parsed.operands if given else parsed.operands[1:]
    return CommandEffects((name,), tuple(word.text for word in operands if word.is_literal and word.text != "-"))


def write_sed(name: str, words: Sequence[Word]) -> tuple[Write, ...]:
    """Return the files of `sed -i`, and the backups of them if the option has a suffix."""
    row = OptionRow("nErzs", "e", f"{SED_LONG} in-place follow-symlinks", "expression", attached="i")
    parsed = parse_options(name, row, words, globs_are_operands=True)
    operands = [word for word in parsed.operands if not word.is_literal or word.text]
    scripts = parsed.values("-e", "--expression")
    if not scripts:
        scripts, operands = tuple(operands[:1]), operands[1:]
    if not scripts or not all(word.is_literal and is_plain_sed(word.text, text_at_end=True) for word in scripts):
        raise UnprovedCommand("a script of `sed` is not literal, or may write or run something")
    if not parsed.has_option("-i", "--in-place"):
        return ()
    follows = parsed.has_option("--follow-symlinks")
    files = [replace(write_to(word, name), follows_links=follows, edits_in_place=True) for word in operands]
    suffix = "".join(word.text for word in parsed.values("-i", "--in-place"))
    return (*files, *backup_copies(files, suffix))


def write_perl(name: str, words: Sequence[Word]) -> tuple[Write, ...]:
    """Return the files of `perl -pi -e 's/…/…/'` with a harmless substitution."""
    scripts: list[Word] = []
    suffix: str | None = None
    rest = list(words)
    while rest and rest[0].is_literal and rest[0].text.startswith("-") and len(rest[0].text) > 1:
        letters = rest.pop(0).text[1:]
        if letters == "-":
            break
        found = re.fullmatch(r"(0[0-7]*|0777)?([plnwW]*)(?:i([\w.~]*)|(e))?", letters)
        if found is None:
            raise UnprovedCommand(f"'-{letters}' of `perl` is not on the tables")
        suffix = found[3] if found[3] is not None else suffix
        if found[4]:
            scripts += rest[:1]
            rest = rest[1:]
    if suffix is None or not scripts or not all(word.is_literal and is_plain_perl(word.text) for word in scripts):
        raise UnprovedCommand("`perl` runs a program")
    files = [replace(write_to(word, name), follows_links=False, edits_in_place=True) for word in rest]
    return (*files, *backup_copies(files, suffix))


def backup_copies(files: Sequence[Write], suffix: str) -> list[Write]:
    """Return the copies of `-i.bak`. Refuse `*` (stands for the name) and `/` (names another folder)."""
    if not suffix:
        return []
    if "*" in suffix or "/" in suffix:
        raise UnprovedCommand(f"where copies go by the suffix {suffix!r} is not on the tables")
    return [replace(file, path=file.path + suffix, follows_links=False) for file in files]


AWK_EFFECTS = re.compile(r"system|getline|@|\\\n")


def read_awk(name: str, words: Sequence[Word]) -> CommandEffects:
    """Evaluate awk with a literal program without words for running or writing.

    `>` and `|` write only in `print`, and `print` stands only in an action, after the first brace.
    """
    row = OptionRow("", "Fv", reads="rest")
    parsed = parse_options(name, row, words, stop_at_operand=True)
    if not parsed.operands or not parsed.operands[0].is_literal:
        raise UnprovedCommand(f"`{name}` without a literal program")
    program = parsed.operands[0].text
    action = program.partition("{")[2] if "print" in program else ""
    found = AWK_EFFECTS.search(program) or re.search(r"[>|]", action.replace("||", ""))
    if found:
        raise UnprovedCommand(f"{found[0]!r} in a program of `{name}` may run or write something")
    if not all(word.is_literal for word in parsed.values("-v", "-F")):
        raise UnprovedCommand(f"`{name}` with a value that is not literal")
    if any(word.may_be_option for word in parsed.operands[1:]):
        raise UnprovedCommand(f"a word of `{name}` may become any option")
    return CommandEffects((name,), file_operands(row, parsed))

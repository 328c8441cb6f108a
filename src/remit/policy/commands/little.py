"""Little languages, as far as a script of theirs shows by itself that it neither writes nor runs anything.

A script is read from left to right and never read again, so that no script takes long. No proof rests on a regular
expression that keeps the engine from going back (`++`, `(?>…)`): Python 3.11.0 to 3.11.4 match too much there, and
would prove what another version refuses. Source: CPython issues 100061 and 106052, read 2026-11.
"""

import re

MAX_SCRIPT = 4096
"""Characters of a script; a longer one is not read. Patterns are compiled when one is needed, not at the start."""

SED_MARKS = "/|,#:@!%"
"""Characters that may enclose the parts of a substitution."""

SED_BRACKET = r"\[\^?(?!\^)((?:\[:[a-z]+:\]|[^\]\\\n\[])+)\]"
SED_NUMBER = r"\d+(?:~\d+)?|\$"
SED_STEP = r"[+~]\d+"
SED_PLAIN = r"[{pdnNDPgGhHx=]|[qQl]\d*"
"""Commands that take no file: not `w W r R e`."""

SED_FLAGS = r"[gpiI0-9]*"
"""Of a substitution; not `w`, `e`, `m`."""

SED_TEXT = r"[aic](?:[^\n\\]|\\[\s\S])*\n?"
"""Text that is added: all up to a new line that is not escaped."""


class NotPlain(ValueError):
    """The script holds what is not on the tables."""


class SedScript:
    """One pass over a script of sed; `at` only moves forward."""

    def __init__(self, text: str) -> None:
        self.text, self.at = text, 0

    def read(self, *, text_at_end: bool) -> None:
        """Read all commands, each known to take no file and to run nothing; raises NotPlain.

        `text_at_end`: the last command may be one that adds text.
        """
        while True:
            self.skip(" \t\n\r\v\f;}")
            if self.at == len(self.text):
                return
            self.read_addresses()
            if self.text.startswith("s", self.at):
                self.read_substitution()
            elif not self.take(SED_PLAIN):
                if not text_at_end or not self.take(SED_TEXT) or self.at != len(self.text):
                    raise NotPlain(self.text[self.at :])
                return

    def read_addresses(self) -> None:
        """Read `2`, `$!`, `/x/,+3` or nothing; raises NotPlain."""
        if self.read_address():
            self.skip(" \t")
            if self.text.startswith(",", self.at):
                self.at += 1
                self.skip(" \t")
                if not self.read_address() and not self.take(SED_STEP):
                    raise NotPlain(self.text[self.at :])
                self.skip(" \t")
            if self.text.startswith("!", self.at):
                self.at += 1
                self.skip(" \t")

    def read_address(self) -> bool:
        """Read a line number or a pattern, if one stands here; raises NotPlain."""
        if not self.text.startswith("/", self.at):
            return self.take(SED_NUMBER)
        self.at += 1
        self.read_pattern("/")
        self.skip_one("I")
        return True

    def read_substitution(self) -> None:
        """Read `s/pattern/replacement/flags`; raises NotPlain."""
        mark = self.text[self.at + 1 : self.at + 2]
        if not mark or mark not in SED_MARKS:
            raise NotPlain(self.text[self.at :])
        self.at += 2
        self.read_pattern(mark)
        while not self.text.startswith(mark, self.at):
            self.read_character()
        self.at += 1
        self.take(SED_FLAGS)

    def read_pattern(self, mark: str) -> None:
        """Read a pattern to the mark that ends it; raises NotPlain.

        A bracket expression that holds the mark is refused: some builds of sed end the pattern there.
        """
        while not self.text.startswith(mark, self.at):
            start = self.at
            if not self.text.startswith("[", start):
                self.read_character()
            elif not self.take(SED_BRACKET) or mark in self.text[start : self.at]:
                raise NotPlain(self.text[start:])
        self.at += 1

    def read_character(self) -> None:
        """Read one character, or two where the first is a backslash; raises NotPlain at a new line or the end."""
        size = 2 if self.text.startswith("\\", self.at) else 1
        character = self.text[self.at : self.at + size]
        if len(character) < size or "\n" in character:
            raise NotPlain(self.text[self.at :])
        self.at += size

    def skip(self, characters: str) -> None:
        """Pass over any number of these."""
        while self.at < len(self.text) and self.text[self.at] in characters:
            self.at += 1

    def skip_one(self, character: str) -> None:
        """Pass over this character, if it stands here."""
        self.at += self.text.startswith(character, self.at)

    def take(self, token: str) -> bool:
        """Pass over a token; False where another stands here."""
        found = re.compile(token).match(self.text, self.at)
        self.at = self.at if found is None else found.end()
        return found is not None


PERL_PART = r"(?:\\[^\nN-PpkgEU]|[^\\\n$@({d}]|\((?!\?[?{{])|\$(?=[\d&)|{d}])|\$(?=$)|@(?![\w{{$:]))*"
"""Not `${{…}}`, `@{{…}}` and `(?{{…}})`, which run code, nor variables by name."""

PERL_SUBSTITUTE = "|".join(
    f"s{mark}{PERL_PART.format(d=mark)}{mark}{PERL_PART.format(d=mark)}{mark}[gimsx]*"
    f"|(?:tr|y){mark}{PERL_PART.format(d=mark)}{mark}{PERL_PART.format(d=mark)}{mark}[cds]*"
    for mark in ("/", r"\|", ",", "#", ":", "!", "%")
)
PERL_SCRIPT = rf"\s*(?:{PERL_SUBSTITUTE})(?:\s*;\s*(?:{PERL_SUBSTITUTE}))*\s*;?\s*"
"""Substitutions and nothing else. Not the flag `e`."""


def is_plain_sed(script: str, *, text_at_end: bool = False) -> bool:
    """Whether a script of sed takes no file and runs nothing. `text_at_end`: it may end with text that it adds."""
    if len(script) > MAX_SCRIPT:
        return False
    try:
        SedScript(script).read(text_at_end=text_at_end)
    except NotPlain:
        return False
    return True


def is_plain_perl(script: str) -> bool:
    """Whether a program of perl only substitutes."""
    return len(script) <= MAX_SCRIPT and re.fullmatch(PERL_SCRIPT, script) is not None

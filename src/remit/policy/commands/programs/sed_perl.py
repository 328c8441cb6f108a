"""Little languages, as far as a script of theirs shows by itself that it neither writes nor runs anything.

A script is read from left to right and never read again, so that no script takes long. No proof rests on a regular
expression that keeps the engine from going back (`++`, `(?>…)`): Python 3.11.0 to 3.11.4 match too much there, and
would prove what another version refuses. Source: CPython issues 100061 and 106052, read 2026-11.
"""

import re

MAX_SCRIPT = 4096
"""Characters of a script; a longer one is not read. Patterns are compiled when one is needed, not at the start."""

SED_DELIMITERS = "/|,#:@!%"
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


class UnsafeScript(ValueError):
    """The script holds what is not on the tables."""


class SedScript:
    """One pass over a script of sed; `at` only moves forward."""

    def __init__(self, text: str) -> None:
        self.text, self.position = text, 0

    def check(self, *, text_at_end: bool) -> None:
        """Read all commands, each known to take no file and to run nothing; raises NotPlain.

        `text_at_end`: the last command may be one that adds text.
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
        """Read `2`, `$!`, `/x/,+3` or nothing; raises NotPlain."""
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
        """Read a line number or a pattern, if one stands here; raises NotPlain."""
        if not self.text.startswith("/", self.position):
            return self.read_token(SED_NUMBER)
        self.position += 1
        self.check_pattern("/")
        self.skip_one("I")
        return True

    def check_substitution(self) -> None:
        """Read `s/pattern/replacement/flags`; raises NotPlain."""
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
        """Read a pattern to the mark that ends it; raises NotPlain.

        A bracket expression that holds the mark is refused: some builds of sed end the pattern there.
        """
        while not self.text.startswith(mark, self.position):
            start = self.position
            if not self.text.startswith("[", start):
                self.skip_character()
            elif not self.read_token(SED_BRACKET) or mark in self.text[start : self.position]:
                raise UnsafeScript(self.text[start:])
        self.position += 1

    def skip_character(self) -> None:
        """Read one character, or two where the first is a backslash; raises NotPlain at a new line or the end."""
        size = 2 if self.text.startswith("\\", self.position) else 1
        character = self.text[self.position : self.position + size]
        if len(character) < size or "\n" in character:
            raise UnsafeScript(self.text[self.position :])
        self.position += size

    def skip(self, characters: str) -> None:
        """Pass over any number of these."""
        while self.position < len(self.text) and self.text[self.position] in characters:
            self.position += 1

    def skip_one(self, character: str) -> None:
        """Pass over this character, if it stands here."""
        self.position += self.text.startswith(character, self.position)

    def read_token(self, token: str) -> bool:
        """Pass over a token; False where another stands here."""
        found = re.compile(token).match(self.text, self.position)
        self.position = self.position if found is None else found.end()
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
        SedScript(script).check(text_at_end=text_at_end)
    except UnsafeScript:
        return False
    return True


def is_plain_perl(script: str) -> bool:
    """Whether a program of perl only substitutes."""
    return len(script) <= MAX_SCRIPT and re.fullmatch(PERL_SCRIPT, script) is not None

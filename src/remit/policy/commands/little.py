"""Little languages, as far as a regular expression tells that a script of theirs neither writes nor runs anything."""

import re

LONGEST = 4096
"""Characters of a script; a longer one is not looked at.

The patterns are compiled when one is needed, not at the start; they never go back, so that no script takes long.
"""

SED_REGEX = r"(?:\\[^\n]|\[\^?(?!\^)(?:\[:[a-z]+:\]|[^\]\\\n\[{d}])++\]|[^\\\n\[{d}])*+"
"""Bracket expressions that hold the delimiter are left out: some builds of sed end the regex there."""

SED_SUBSTITUTE = "|".join(
    f"s{mark}{SED_REGEX.replace('{d}', mark)}{mark}(?:\\\\[^\\n]|[^\\\\\\n{mark}])*+{mark}[gpiI0-9]*+"
    for mark in ("/", r"\|", ",", "#", ":", "@", "!", "%")
)
SED_ADDRESS = rf"(?:\d+(?:~\d+)?|\$|/{SED_REGEX.replace('{d}', '/')}/I?)"
SED_BODY = (
    rf"(?:[\s;}}]*+(?:{SED_ADDRESS}(?:\s*+,\s*+(?:{SED_ADDRESS}|[+~]\d+))?+\s*+(?:!\s*+)?+)?+"
    rf"(?:\{{|[pdnNDPgGhHx=]|[qQl]\d*+|{SED_SUBSTITUTE}))*+[\s;}}]*+"
)
"""Addresses, and the commands that take no file: not `w W r R e a i c`, and no flag `w`, `e`, `m`."""

SED_TEXT = rf"{SED_BODY}(?:{SED_ADDRESS}(?:\s*+,\s*+{SED_ADDRESS})?+)?+\s*+(?:!\s*+)?+[aic](?:[^\n\\]|\\[\s\S])*+\n?"
"""Such commands, and at the end one that adds text: everything up to an unescaped new line is that text."""

PERL_PART = r"(?:\\[^\nN-PpkgEU]|[^\\\n$@({d}]|\((?!\?[?{{])|\$(?=[\d&)|{d}])|\$(?=$)|@(?![\w{{$:]))*"
"""Not `${{…}}`, `@{{…}}` and `(?{{…}})`, which run code, nor variables by name."""

PERL_SUBSTITUTE = "|".join(
    f"s{mark}{PERL_PART.format(d=mark)}{mark}{PERL_PART.format(d=mark)}{mark}[gimsx]*"
    f"|(?:tr|y){mark}{PERL_PART.format(d=mark)}{mark}{PERL_PART.format(d=mark)}{mark}[cds]*"
    for mark in ("/", r"\|", ",", "#", ":", "!", "%")
)
PERL_SCRIPT = rf"\s*(?:{PERL_SUBSTITUTE})(?:\s*;\s*(?:{PERL_SUBSTITUTE}))*\s*;?\s*"
"""Substitutions and nothing else. Not the flag `e`."""


def is_plain_sed(script: str) -> bool:
    """Whether a script of sed takes no file and runs nothing."""
    return len(script) <= LONGEST and re.fullmatch(SED_BODY, script) is not None


def is_adding_sed(script: str) -> bool:
    """Likewise, where it ends with text that it adds."""
    return len(script) <= LONGEST and re.fullmatch(SED_TEXT, script) is not None


def is_plain_perl(script: str) -> bool:
    """Whether a program of perl only substitutes."""
    return len(script) <= LONGEST and re.fullmatch(PERL_SCRIPT, script) is not None

"""The simple commands of a shell text: words, operators and here-documents.

The scanner only cuts the text; `policy.commands` proves the effects of commands.
Source: POSIX.1-2024, Shell Command Language §2.2, §2.3, §2.7; bash(1) 5.2.
"""

import re

from msgspec import Struct

MAX_DEPTH = 25
"""Expansions within expansions; a deeper text is unreadable."""

BLANKS = " \t"
ENDS_WORD = frozenset(" \t\n;&|()<>")
GLOB = frozenset("*?[")
REDIRECTION = re.compile(r"(?:\d+|\{\w+\})?(<<<|<<-|<<|<>|<&|>&|>>|>\||<|>)|(&>>|&>)")
OPERATOR = re.compile(r"&&|\|\||\|&|;;&|;;|;&|[;&|()]")
FEEDS = frozenset({"<<<", "<<-", "<<", "<>", "<&", "<"})


class UnreadableShell(ValueError):
    """A text with an open quote or substitution, or with too deep nesting."""


class ShellWord(Struct, frozen=True):
    """A word without quotes. The shell replaces a word that is not `literal`."""

    text: str
    literal: bool = True


class HereDocument(Struct, frozen=True):
    """The text of `<<`. `quoted`: the shell expands nothing. `closed`: the end was found."""

    body: str
    quoted: bool
    closed: bool


class SimpleCommand(Struct, frozen=True):
    """A program with its words. `before` is the operator in front of the command, empty for the first command.

    `depth` counts the enclosing substitutions. `fed`: the standard input is redirected.
    """

    words: tuple[ShellWord, ...]
    before: str = ""
    depth: int = 0
    fed: bool = False
    documents: tuple[HereDocument, ...] = ()


class _PendingDocument:
    """A here-document without its body yet."""

    def __init__(self, delimiter: str, *, quoted: bool, tabs: bool) -> None:
        self.delimiter, self.quoted, self.tabs = delimiter, quoted, tabs


class _OpenCommand:
    """A command without its end yet."""

    def __init__(self, before: str) -> None:
        self.before = before
        self.words: list[ShellWord] = []
        self.documents: list[HereDocument] = []
        self.fed = False


def parse_simple_commands(text: str) -> tuple[SimpleCommand, ...]:
    """Return the commands of a text in order, including those in substitutions. Raises only UnreadableShell."""
    return tuple(_ShellScanner(text).scan_all())


class _ShellScanner:
    """One pass over the text; `at` only moves forward."""

    def __init__(self, text: str, at: int = 0, depth: int = 0) -> None:
        self.text, self.at, self.depth = text, at, depth
        self.found: list[SimpleCommand] = []
        self.open = _OpenCommand("")
        self.pending: list[tuple[_OpenCommand, _PendingDocument]] = []
        self.done: list[_OpenCommand] = []
        self.level = self.nesting = 0

    def scan_all(self) -> list[SimpleCommand]:
        while self.at < len(self.text):
            self.scan_step()
        self.read_documents()
        self.finish_command("")
        return self.collect_commands()

    def scan_substitution(self) -> int:
        """Read up to the `)` of a substitution; return the position behind."""
        while self.at < len(self.text):
            if self.text[self.at] == ")" and self.level == 0:
                self.finish_command(")")
                self.at += 1
                return self.at
            self.scan_step()
        raise UnreadableShell("a substitution is not closed")

    def scan_step(self) -> None:
        """Read a blank, comment, line end, operator, redirection or word."""
        character = self.text[self.at]
        if character in BLANKS:
            self.at += 1
        elif self.text.startswith("\\\n", self.at):
            self.at += 2
        elif character == "#":
            end = self.text.find("\n", self.at)
            self.at = len(self.text) if end < 0 else end
        elif character == "\n":
            self.at += 1
            self.read_documents()
            self.finish_command("\n")
        elif not self.open.words and self.text.startswith("((", self.at):
            self.skip_arithmetic(2)
        elif not self.scan_redirection():
            self.scan_operator_or_word()

    def scan_operator_or_word(self) -> None:
        """Read an operator, which ends the command, or a word of the command."""
        operator = OPERATOR.match(self.text, self.at)
        if operator is None:
            self.open.words.append(self.scan_word()[0])
            return
        self.at = operator.end()
        self.level += {"(": 1, ")": -1}.get(operator[0], 0)
        self.level = max(self.level, 0)
        self.finish_command(operator[0])

    def scan_redirection(self) -> bool:
        """Read a redirection; return False for other text."""
        found = REDIRECTION.match(self.text, self.at)
        if found is None or self.text.startswith(("<(", ">("), self.at):
            return False
        self.at = found.end()
        while self.at < len(self.text) and self.text[self.at] in BLANKS:
            self.at += 1
        operator = found[1] or found[2]
        word, quoted = self.scan_word()
        self.open.fed |= operator in FEEDS
        if operator in ("<<", "<<-"):
            self.pending.append((self.open, _PendingDocument(word.text, quoted=quoted, tabs=operator == "<<-")))
        return True

    def finish_command(self, operator: str) -> None:
        """End the command. A new line behind an operator ends no command: `a &&` continues in the next line."""
        if self.open.words or self.open.fed:
            self.done.append(self.open)
        elif operator == "\n" and self.open.before:
            return
        self.open = _OpenCommand(operator)

    def collect_commands(self) -> list[SimpleCommand]:
        """Return the commands, with their here-documents."""
        own = [SimpleCommand(tuple(c.words), c.before, self.depth, c.fed, tuple(c.documents)) for c in self.done]
        return own + self.found

    def read_documents(self) -> None:
        """Read the bodies of here-documents from the next line on."""
        for command, wanted in self.pending:
            command.documents.append(self.read_document(wanted))
        self.pending = []

    def read_document(self, wanted: _PendingDocument) -> HereDocument:
        """Read a body up to the delimiter's line, or to the end of the text."""
        lines: list[str] = []
        while self.at < len(self.text):
            end = self.text.find("\n", self.at)
            stop = len(self.text) if end < 0 else end
            line = self.text[self.at : stop]
            self.at = min(stop + 1, len(self.text))
            line = line.lstrip("\t") if wanted.tabs else line
            if line == wanted.delimiter:
                return HereDocument("\n".join(lines), wanted.quoted, closed=True)
            lines.append(line)
        return HereDocument("\n".join(lines), wanted.quoted, closed=False)

    def scan_word(self) -> tuple[ShellWord, bool]:
        """Read a word; return the word and True if a part was quoted. The word is empty before an operator."""
        pieces: list[str] = []
        literal, quoted = not self.text.startswith("~", self.at), False
        while self.at < len(self.text):
            character = self.text[self.at]
            if character in ENDS_WORD and not self.text.startswith(("<(", ">("), self.at):
                break
            piece, fixed = self.scan_piece(character)
            quoted |= character in "'\"\\" or piece.startswith("$'")
            literal &= fixed
            pieces.append(piece)
        text = "".join(pieces)
        braces = "{" in text and ("," in text or ".." in text) and not quoted
        return ShellWord(text, literal and not braces), quoted

    def scan_piece(self, character: str) -> tuple[str, bool]:
        """Read the next part of a word; return the text and True if the part is literal."""
        match character:
            case "'":
                return self.scan_quoted("'"), True
            case '"':
                return self.scan_double_quoted()
            case "\\":
                escaped = self.text[self.at + 1 : self.at + 2]
                self.at += 2
                return ("" if escaped == "\n" else escaped), True
            case "$" | "`" | "<" | ">":
                return self.scan_expansion(), False
            case _:
                self.at += 1
                return character, character not in GLOB

    def scan_quoted(self, quote: str) -> str:
        """Return the text up to the closing quote."""
        end = self.text.find(quote, self.at + 1)
        if end < 0:
            raise UnreadableShell(f"a {quote} is not closed")
        inner = self.text[self.at + 1 : end]
        self.at = end + 1
        return inner

    def scan_double_quoted(self) -> tuple[str, bool]:
        """Return the text between double quotes, and True if nothing expands."""
        pieces: list[str] = []
        fixed = True
        self.at += 1
        while self.at < len(self.text):
            character = self.text[self.at]
            if character == '"':
                self.at += 1
                return "".join(pieces), fixed
            if character == "\\":
                after = self.text[self.at + 1 : self.at + 2]
                pieces.append({"\n": ""}.get(after, after) if after in '$`"\\\n' else "\\" + after)
                self.at += 2
            elif character in "$`":
                pieces.append(self.scan_expansion(in_quotes=True))
                fixed = False
            else:
                pieces.append(character)
                self.at += 1
        raise UnreadableShell('a " is not closed')

    def scan_expansion(self, *, in_quotes: bool = False) -> str:
        """Return an expansion unchanged, and collect the commands inside."""
        start = self.at
        self.nesting += 1
        if self.depth + self.nesting > MAX_DEPTH:
            raise UnreadableShell(f"expansions nest deeper than {MAX_DEPTH}")
        if self.text.startswith("$((", start):
            self.skip_arithmetic(3)
        elif self.text.startswith(("$(", "<(", ">("), start):
            inner = _ShellScanner(self.text, start + 2, self.depth + self.nesting)
            self.at = inner.scan_substitution()
            self.found += inner.collect_commands()
        elif self.text.startswith("${", start):
            self.skip_braces()
        elif self.text.startswith("$'", start) and not in_quotes:
            self.skip_ansi_c()
        elif self.text[start] == "`":
            self.scan_backquotes()
        else:
            self.at += 1
        self.nesting -= 1
        return self.text[start : self.at]

    def skip_arithmetic(self, opening: int) -> None:
        """Skip `((…))`. Without an end the text is two subshells, and unreadable."""
        depth, at = 2, self.at + opening
        while at < len(self.text) and depth:
            depth += {"(": 1, ")": -1}.get(self.text[at], 0)
            at += 1
        if depth:
            raise UnreadableShell("an arithmetic expression is not closed")
        self.at = at

    def skip_braces(self) -> None:
        """Skip `${…}` with nested expansions."""
        self.at += 2
        while self.at < len(self.text):
            character = self.text[self.at]
            if character == "}":
                self.at += 1
                return
            if character == "\\":
                self.at += 2
            elif character == '"':
                self.scan_double_quoted()
            elif character == "'":
                self.scan_quoted("'")
            elif character in "$`":
                self.scan_expansion()
            else:
                self.at += 1
        raise UnreadableShell("a ${ is not closed")

    def skip_ansi_c(self) -> None:
        """Skip `$'…'`, in which a backslash may escape the quote."""
        found = re.compile(r"\$'(?:[^'\\]|\\.)*'", re.DOTALL).match(self.text, self.at)
        if found is None:
            raise UnreadableShell("a $' is not closed")
        self.at = found.end()

    def scan_backquotes(self) -> None:
        """Read a substitution in backquotes."""
        found = re.compile(r"`((?:[^`\\]|\\.)*)`", re.DOTALL).match(self.text, self.at)
        if found is None:
            raise UnreadableShell("a ` is not closed")
        self.at = found.end()
        inner = re.sub(r"\\([\\$`])", r"\1", found[1])
        self.found += _ShellScanner(inner, 0, self.depth + self.nesting).scan_all()

"""A word of a command: what of it is fixed by its text, and what the shell may make of the rest."""

import re
from typing import TYPE_CHECKING

from msgspec import Struct

if TYPE_CHECKING:
    from tree_sitter import Node


class Refused(ValueError):
    """The text does not prove the command read-only. The message names the words that decided."""


class Word(Struct, frozen=True):
    """One word. `text` is the whole of a literal word, and the fixed beginning of any other.

    `splits`: it may become any number of words, whatever they begin with (an unquoted expansion).
    `many`: it may become several words that all begin with `text` (a glob, braces).
    `inner` are the substitutions in it, which must be proved as well.
    """

    text: str
    literal: bool = True
    splits: bool = False
    many: bool = False
    inner: "tuple[Node, ...]" = ()

    @property
    def may_be_option(self) -> bool:
        """Whether the program may take it for an option."""
        if self.splits or self.text.startswith("-"):
            return True
        return not self.literal and not self.text

    @property
    def single(self) -> bool:
        """Whether it stays one word."""
        return not self.splits and not self.many


ANYTHING = Word("", literal=False, splits=True)
"""Words that the text does not show, such as those that xargs adds."""

EXPANSION = re.compile(
    r"\$\{#?[A-Za-z_]\w*(?:\[(?:[@*]|\d+)\])?\}"  # ${x} ${#x} ${x[@]}
    r"|\$\{#?[0-9@*#?]\}"
    r"|\$\{[A-Za-z_0-9]\w*(?:\[(?:[@*]|\d+)\])?"
    r"(?::?[-+]|##?|%%?|//?|\^\^?|,,?)[\w ./*:,=@%+-]*\}"  # ${x:-word} ${x#word} ${x/a/b}
    r"|\$\{[A-Za-z_]\w*:\d+(?::\d+)?\}"  # ${x:1:2}
    r"|\$(?:[A-Za-z_]\w*|[0-9?#@*$!_-])",
    re.ASCII,
)
"""Expansions that run nothing and set nothing. Not: `:=` (sets), `@P` and `!x` (may run what the value
holds), subscripts and offsets other than numbers (evaluated as arithmetic, which may run a substitution)."""

ARITHMETIC = re.compile(r"\$\(\([\s0-9+*/%<>=!&|^~?:(),-]*\)\)", re.ASCII)
"""Without names: the value of a name is evaluated in turn, and may run a substitution."""

ANSI_C = re.compile(r"\$'((?:[^'\\]|\\.)*)'", re.DOTALL)
ANSI_C_ESCAPES = {"\\n": "\n", "\\t": "\t", "\\\\": "\\", "\\'": "'", '\\"': '"'}
SPECIAL = frozenset(" \t\n;|&<>()$`\"'")
GLOB = frozenset("*?[")
EXPANDS = re.compile(r"[A-Za-z0-9_({\[?#@*!$-]", re.ASCII)
SUBSTITUTIONS = frozenset({"command_substitution", "process_substitution"})
EXPANSIONS = frozenset({"simple_expansion", "expansion", "arithmetic_expansion"}) | SUBSTITUTIONS


def source(node: "Node") -> str:
    """The text of a node, as written."""
    return (node.text or b"").decode()


def read_word(node: "Node") -> Word:
    """What the text fixes of one word; raises Refused."""
    if node.type != "concatenation":
        return _join(source(node), (_piece(node, source(node)),))
    if not _contiguous(node):
        raise Refused(f"the word {source(node)!r} is not understood")
    return _join(source(node), tuple(_piece(child, source(node)) for child in node.children))


def _contiguous(node: "Node") -> bool:
    ends = [node.start_byte, *(child.end_byte for child in node.children)]
    starts = [*(child.start_byte for child in node.children), node.end_byte]
    return ends == starts


def _join(raw: str, pieces: tuple[Word, ...]) -> Word:
    text = ""
    for piece in pieces:
        text += piece.text
        if not piece.literal:
            break
    return Word(
        text,
        literal=all(piece.literal for piece in pieces) and not raw.startswith("~"),
        splits=any(piece.splits for piece in pieces),
        many=any(piece.many for piece in pieces),
        inner=tuple(node for piece in pieces for node in piece.inner),
    )


def _piece(node: "Node", word: str) -> Word:
    """One part of a word, quoted in one way."""
    raw = source(node)
    match node.type:
        case "word" | "number" | "brace_expression" | "extglob_pattern" | "variable_name" | "test_operator":
            return _bare(raw, braces="," in word or ".." in word)
        case "raw_string" if len(raw) > 1 and "'" not in raw[1:-1]:
            return Word(raw[1:-1])
        case "ansi_c_string":
            return _ansi_c(raw)
        case "string":
            return _quoted(node)
        case "==" | "=~" | "=" | "!=" | "!":
            return Word(raw)
        case kind if kind in EXPANSIONS:
            return _expansion(node)
        case _:
            raise Refused(f"{raw!r} is not understood")


def _bare(raw: str, *, braces: bool) -> Word:
    """Text outside quotes. The literal beginning stops at the first glob character or brace list."""
    text = ""
    cut = False
    position = 0
    while position < len(raw):
        character = raw[position]
        if character == "\\":
            position += 1
            character = raw[position : position + 1]
            if character in ("", "\n"):
                raise Refused(f"a line is continued inside the word {raw!r}")
        elif character in SPECIAL:
            raise Refused(f"{character!r} in the word {raw!r}")
        elif character in GLOB or (character == "{" and braces):
            cut = True
        text += "" if cut else character
        position += 1
    return Word(text, literal=not cut, many=cut)


def _ansi_c(raw: str) -> Word:
    found = ANSI_C.fullmatch(raw)
    if found is None:
        raise Refused(f"the quotes in {raw!r} are not understood")
    escapes = re.findall(r"\\.", found[1], re.DOTALL)
    if all(escape in ANSI_C_ESCAPES for escape in escapes):
        return Word(re.sub(r"\\.", lambda escape: ANSI_C_ESCAPES[escape[0]], found[1]))
    return Word("", literal=False)


def _expansion(node: "Node") -> Word:
    """An expansion outside quotes."""
    raw = source(node)
    if raw.startswith("<("):
        return Word("/dev/fd/", literal=False, inner=(node,))
    if node.type in SUBSTITUTIONS:
        return Word("", literal=False, splits=True, inner=(_substitution(node),))
    if not EXPANSION.fullmatch(raw) and not ARITHMETIC.fullmatch(raw):
        raise Refused(f"the expansion {raw!r} may do more than read")
    return Word("", literal=False, splits=True)


def _substitution(node: "Node") -> "Node":
    raw = source(node)
    if raw.startswith("$(") or (raw.startswith("`") and "\\" not in raw):
        return node
    raise Refused(f"the substitution {raw!r} may do more than read")


def _quoted(node: "Node") -> Word:
    """Text in double quotes: one word, whatever expands in it, but for `$@` and its like."""
    raw = node.text or b""
    if len(raw) < 2 or raw[:1] != b'"' or raw[-1:] != b'"':
        raise Refused(f"the quotes in {source(node)!r} are not understood")
    return live_text(node, node.start_byte + 1, node.end_byte - 1, '"')


def live_text(node: "Node", start: int, end: int, quote: str) -> Word:
    """The bytes from `start` to `end` of `node`, in which the shell expands but does not split.

    `quote` is what may not occur unescaped: it would mean that the text was cut wrongly.
    """
    raw = node.text or b""
    pieces: list[Word] = []
    position = start
    for child in (child for child in node.children if child.type in EXPANSIONS):
        before = raw[position - node.start_byte : child.start_byte - node.start_byte]
        pieces.append(_unescape(before.decode(), quote, last=False))
        inside = _expansion(child)
        several = "@" in source(child) and child.type not in SUBSTITUTIONS
        pieces.append(Word("", literal=False, splits=several, inner=inside.inner))
        position = child.end_byte
    tail = raw[position - node.start_byte : end - node.start_byte]
    pieces.append(_unescape(tail.decode(), quote, last=True))
    return _join("", tuple(pieces))


def _unescape(text: str, quote: str, *, last: bool) -> Word:
    """The literal text of a stretch without expansions; raises Refused where one was overlooked."""
    plain = re.sub(r"\\([\\$`\"\n])", lambda found: found[1].strip("\n"), text)
    live = re.sub(r"\\.", "..", text, flags=re.DOTALL)
    for position, character in enumerate(live):
        after = live[position + 1 : position + 2]
        expands = EXPANDS.match(after) if after else not last
        if character == "`" or (character == quote and quote) or (character == "$" and expands):
            raise Refused(f"{text[position:][:40]!r} is not understood")
    return Word(plain)

"""A word of a command: what of it is fixed by its text, and what the shell may make of the rest."""

import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, TypeAlias

from msgspec import Struct
from msgspec.structs import replace

from remit.policy.commands.patterns import escaped, expanded

if TYPE_CHECKING:
    from tree_sitter import Node


class Refused(ValueError):
    """The text does not prove what the command does. The message names the words that decided."""


class Word(Struct, frozen=True):
    """One word. `text` is the whole of a literal word, and the fixed beginning of any other.

    `splits`: it may become any number of words, whatever they begin with (an unquoted expansion).
    `many`: it may become several words that all begin with `text` (a glob, braces).
    `inner` are the substitutions in it, which must be proved as well.
    `pattern`: of a word that is not literal, the glob that all words it may become match, where that is known.
    `maybe`: it may be left out, as a line that a filter drops.
    """

    text: str
    literal: bool = True
    splits: bool = False
    many: bool = False
    inner: "tuple[Node, ...]" = ()
    pattern: str | None = None
    maybe: bool = False

    @property
    def glob(self) -> str | None:
        """The pattern of all that it may become: of a literal word, itself. None where that is not known."""
        return escaped(self.text) if self.literal else self.pattern

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


Known: TypeAlias = Mapping[str, Word]
"""Variables whose value the text fixes."""

NOTHING_KNOWN: Known = {}

HOME = "\x01"
"""Stands for the home folder at the start of a word. No text holds it: control characters are refused before."""

START = "\x02"
"""Stands for the folder that the command starts in."""

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


def read_word(node: "Node", known: Known = NOTHING_KNOWN) -> Word:
    """What the text fixes of one word; raises Refused."""
    raw = source(node)
    if node.type != "concatenation":
        return _join(raw, (_piece(node, raw, known),), known)
    if not _contiguous(node):
        raise Refused(f"the word {raw!r} is not understood")
    *first, last = node.children
    pieces = [_piece(child, raw, known) for child in first]
    pieces.append(Word("$") if last.type == "$" else _piece(last, raw, known))
    return _join(raw, tuple(pieces), known)


def read_words(node: "Node", known: Known = NOTHING_KNOWN) -> tuple[Word, ...]:
    """The words that one becomes where braces are expanded; raises Refused."""
    raw = source(node)
    if "{" not in raw or not PLAIN_BRACES.fullmatch(raw):
        return (read_word(node, known),)
    texts = expanded(raw)
    return (
        tuple(_join(text, (_bare(text, braces=False),), known) for text in texts)
        if texts
        else (read_word(node, known),)
    )


PLAIN_BRACES = re.compile(r"[\w./*?+:@%,{}=~-]+", re.ASCII)
"""A word in which nothing is quoted and nothing but braces, globs and a tilde expands."""


def _contiguous(node: "Node") -> bool:
    ends = [node.start_byte, *(child.end_byte for child in node.children)]
    starts = [*(child.start_byte for child in node.children), node.end_byte]
    return ends == starts


def _join(raw: str, pieces: tuple[Word, ...], known: Known) -> Word:
    text = ""
    for piece in pieces:
        text += piece.text
        if not piece.literal:
            break
    literal = all(piece.literal for piece in pieces)
    globs = [piece.glob for piece in pieces]
    pattern = None if literal else "".join(glob for glob in globs if glob is not None)
    word = Word(
        text,
        literal=literal,
        splits=any(piece.splits for piece in pieces),
        many=any(piece.many for piece in pieces),
        inner=tuple(node for piece in pieces for node in piece.inner),
        pattern=None if None in globs else pattern,
        maybe=any(piece.maybe for piece in pieces),
    )
    return _tilde(word, known) if raw.startswith("~") else word


def _tilde(word: Word, known: Known) -> Word:
    """`~/x` and `~+/x`; another's home is not known."""
    for mark, place in (("~", Word(HOME)), ("~+", known.get("PWD", ANYTHING))):
        if word.text == mark or word.text.startswith(f"{mark}/"):
            text, pattern = place.text + word.text.removeprefix(mark), word.pattern
            pattern = pattern if pattern is None else escaped(place.text) + pattern.removeprefix(mark)
            return replace(word, text=text, literal=word.literal and place.literal, pattern=pattern)
    return replace(word, literal=False, pattern=None)


def _piece(node: "Node", word: str, known: Known) -> Word:
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
            return _quoted(node, known)
        case "==" | "=~" | "=" | "!=" | "!":
            return Word(raw)
        case kind if kind in EXPANSIONS:
            return _expansion(node, known)
        case _:
            raise Refused(f"{raw!r} is not understood")


def _bare(raw: str, *, braces: bool) -> Word:
    """Text outside quotes. The literal beginning stops at the first glob character or brace list."""
    text = pattern = ""
    cut = listed = False
    position = 0
    while position < len(raw):
        character = raw[position]
        quoted = character == "\\"
        if quoted:
            position += 1
            character = raw[position : position + 1]
            if character in ("", "\n"):
                raise Refused(f"a line is continued inside the word {raw!r}")
        elif character in SPECIAL:
            raise Refused(f"{character!r} in the word {raw!r}")
        elif character in GLOB or (character == "{" and braces):
            cut = True
            listed |= character == "{"
        text += "" if cut else character
        pattern += escaped(character) if quoted else character
        position += 1
    return Word(text, literal=not cut, many=cut, pattern=pattern if cut and not listed else None)


def _ansi_c(raw: str) -> Word:
    found = ANSI_C.fullmatch(raw)
    if found is None:
        raise Refused(f"the quotes in {raw!r} are not understood")
    escapes = re.findall(r"\\.", found[1], re.DOTALL)
    if all(escape in ANSI_C_ESCAPES for escape in escapes):
        return Word(re.sub(r"\\.", lambda escape: ANSI_C_ESCAPES[escape[0]], found[1]))
    return Word("", literal=False)


NAMED = re.compile(r"\$(?:(\w+)|\{(\w+)(?:(%%?|##?)([\w./*-]+))?\})", re.ASCII)
"""`$x`, `${x}`, and `${x%suffix}` or `${x#prefix}` of plain characters."""

SPLITS = re.compile(r"[\s*?\[\\]")


def _expansion(node: "Node", known: Known, *, quoted: bool = False) -> Word:
    """An expansion outside quotes, unless they are around it."""
    raw = source(node)
    if raw.startswith(("<(", ">(")):
        return Word("/dev/fd/", literal=False, inner=(node,))
    if node.type in SUBSTITUTIONS:
        return _substitution(node, known)
    if not EXPANSION.fullmatch(raw) and not ARITHMETIC.fullmatch(raw):
        raise Refused(f"the expansion {raw!r} may do more than read")
    value = _value(raw, known)
    if value is None or (not quoted and value.literal and (not value.text or SPLITS.search(value.text))):
        return Word("", literal=False, splits=True)
    return value


def _value(raw: str, known: Known) -> Word | None:
    """What a variable holds, or its rest without a prefix or suffix; None where the text does not tell."""
    found = NAMED.fullmatch(raw)
    if found is None:
        return None
    name = found[1] or found[2]
    value = known.get(name, Word(HOME) if name == "HOME" else None)
    if value is None or found[3] is None:
        return value
    return _trimmed(value, found[3], found[4])


def _trimmed(value: Word, sign: str, affix: str) -> Word | None:
    """`${x%affix}` and its kin, for a fixed value and affixes without globs, and for `##*/`."""
    if not value.literal or value.text.startswith((HOME, START)):
        return None
    if (sign, affix) == ("##", "*/"):
        return Word(value.text.rpartition("/")[2])
    if (sign, affix) == ("%", "/*"):
        return Word(value.text.rpartition("/")[0] or value.text)
    if "*" in affix:
        return None
    return Word(value.text.removesuffix(affix) if sign[0] == "%" else value.text.removeprefix(affix))


def _substitution(node: "Node", known: Known) -> Word:
    raw = source(node)
    if not raw.startswith("$(") and (not raw.startswith("`") or "\\" in raw):
        raise Refused(f"the substitution {raw!r} may do more than read")
    where = known.get("PWD")
    if raw in ("$(pwd)", "`pwd`") and where is not None:
        return where
    return Word("", literal=False, splits=True, inner=(node,))


def _quoted(node: "Node", known: Known) -> Word:
    """Text in double quotes: one word, whatever expands in it, but for `$@` and its like."""
    raw = node.text or b""
    if len(raw) < 2 or raw[:1] != b'"' or raw[-1:] != b'"':
        raise Refused(f"the quotes in {source(node)!r} are not understood")
    return live_text(node, node.start_byte + 1, node.end_byte - 1, '"', known)


def live_text(node: "Node", start: int, end: int, quote: str, known: Known = NOTHING_KNOWN) -> Word:
    """The bytes from `start` to `end` of `node`, in which the shell expands but does not split.

    `quote` is what may not occur unescaped: it would mean that the text was cut wrongly.
    """
    raw = node.text or b""
    pieces: list[Word] = []
    position = start
    for child in (child for child in node.children if child.type in EXPANSIONS):
        before = raw[position - node.start_byte : child.start_byte - node.start_byte]
        pieces.append(_unescape(before.decode(), quote, last=False))
        inside = _expansion(child, known, quoted=True)
        several = "@" in source(child) and child.type not in SUBSTITUTIONS
        pieces.append(replace(inside, splits=several, many=False))
        position = child.end_byte
    tail = raw[position - node.start_byte : end - node.start_byte]
    pieces.append(_unescape(tail.decode(), quote, last=True))
    return _join("", tuple(pieces), known)


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

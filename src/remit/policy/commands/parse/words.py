"""Words of a command: the literal part, and the possible results of expansions."""

import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, TypeAlias

from msgspec import Struct
from msgspec.structs import replace

if TYPE_CHECKING:
    from tree_sitter import Node


MAX_WORDS = 64
"""Words that the braces of one word may make; a word that makes more is not expanded."""

MAX_BRACED = 1024
"""Characters of a word whose braces are expanded."""

BRACES = re.compile(r"\{([^{}]*)\}")
SEQUENCE = re.compile(r"(0|-?[1-9]\d{0,5})\.\.(0|-?[1-9]\d{0,5})", re.ASCII)
GLOB_CHARACTER = re.compile(r"[*?\[\]]")


def escape_glob(text: str) -> str:
    return re.sub(r"[*?\[]", r"[\g<0>]", text)


def expand_braces(text: str) -> tuple[str, ...]:
    """Return the words of a text with expanded braces; empty if too many, or of another kind."""
    if len(text) > MAX_BRACED:
        return ()
    words = [text]
    while (found := next(filter(None, map(find_braces, words)), None)) is not None:
        parts = split_braces(found[1])
        if not parts or sum(len(parts) if found[0] in word else 1 for word in words) > MAX_WORDS:
            return ()
        words = [word.replace(found[0], part, 1) for word in words for part in (parts if found[0] in word else ("",))]
    return () if any(re.search(r"\{[^}]*[,{]", word) for word in words) else tuple(words)


def find_braces(text: str) -> re.Match[str] | None:
    """Return the first braces around a list or a sequence without braces inside."""
    return next((found for found in BRACES.finditer(text) if "," in found[1] or ".." in found[1]), None)


def split_braces(inside: str) -> tuple[str, ...]:
    """Return the parts of a list or a sequence; none for other text."""
    if "," in inside:
        return tuple(inside.split(","))
    sequence = SEQUENCE.fullmatch(inside)
    if sequence is None:
        return ()
    first, last = int(sequence[1]), int(sequence[2])
    step = 1 if last >= first else -1
    return tuple(map(str, range(first, last + step, step))) if abs(last - first) < MAX_WORDS else ()


def fixed_folder(pattern: str) -> str:
    """Return the folder of all matches of a pattern: the path before its first glob character."""
    found = GLOB_CHARACTER.search(pattern)
    head = pattern if found is None else pattern[: found.start()]
    return head.rpartition("/")[0]


class UnprovedCommand(ValueError):
    """A command whose effects the text does not prove. The message names the words that decided."""


class Word(Struct, frozen=True):
    """One word. `text` is a literal word, or the fixed beginning of a word with expansions.

    `may_split`: an unquoted expansion, with any words as result. `may_be_several`: a glob or braces, with several words
    as result, each beginning with `text`. `substitutions` must be proved as well. `pattern`: a glob for all possible
    results of a non-literal word, if known. `is_optional`: the word may be left out, like a line dropped by a filter.
    """

    text: str
    is_literal: bool = True
    may_split: bool = False
    may_be_several: bool = False
    substitutions: "tuple[Node, ...]" = ()
    pattern: str | None = None
    is_optional: bool = False

    @property
    def glob(self) -> str | None:
        """The pattern of all possible results; None if unknown."""
        return escape_glob(self.text) if self.is_literal else self.pattern

    @property
    def may_be_option(self) -> bool:
        """True if the program may take the word for an option."""
        if self.may_split or self.text.startswith("-"):
            return True
        return not self.is_literal and not self.text

    @property
    def is_single(self) -> bool:
        return not self.may_split and not self.may_be_several


KnownVariables: TypeAlias = Mapping[str, Word]
"""Variables with values that the text fixes."""

NO_VARIABLES: KnownVariables = {}

HOME_MARK = "\x01"
"""The home folder at the start of a word. No text contains the mark: control characters are refused before."""

START_MARK = "\x02"
"""The folder that the command starts in."""

ANY_WORDS = Word("", is_literal=False, may_split=True)
"""Words that the text does not show, such as the words that xargs adds."""

EXPANSION = re.compile(
    r"\$\{#?[A-Za-z_]\w*(?:\[(?:[@*]|\d+)\])?\}"  # ${x} ${#x} ${x[@]}
    r"|\$\{#?[0-9@*#?]\}"
    r"|\$\{[A-Za-z_0-9]\w*(?:\[(?:[@*]|\d+)\])?"
    r"(?::?[-+]|##?|%%?|//?|\^\^?|,,?)[\w ./*:,=@%+-]*\}"  # ${x:-word} ${x#word} ${x/a/b}
    r"|\$\{[A-Za-z_]\w*:\d+(?::\d+)?\}"  # ${x:1:2}
    r"|\$(?:[A-Za-z_]\w*|[0-9?#@*$!_-])",
    re.ASCII,
)
"""Expansions that run nothing and set nothing. Left out: `:=` (sets), `@P` and `!x` (may run the value), subscripts and
offsets other than numbers (evaluated as arithmetic, which may run a substitution)."""

ARITHMETIC = re.compile(r"\$\(\([\s0-9+*/%<>=!&|^~?:(),-]*\)\)", re.ASCII)
"""Arithmetic without names: the value of a name is evaluated in turn, and may run a substitution."""

ANSI_C = re.compile(r"\$'((?:[^'\\]|\\.)*)'", re.DOTALL)
ANSI_C_ESCAPES = {"\\n": "\n", "\\t": "\t", "\\\\": "\\", "\\'": "'", '\\"': '"'}
SPECIAL_CHARACTERS = frozenset(" \t\n;|&<>()$`\"'")
GLOB_CHARACTERS = frozenset("*?[")
EXPANSION_START = re.compile(r"[A-Za-z0-9_({\[?#@*!$-]", re.ASCII)
SUBSTITUTION_NODES = frozenset({"command_substitution", "process_substitution"})
EXPANSION_NODES = frozenset({"simple_expansion", "expansion", "arithmetic_expansion"}) | SUBSTITUTION_NODES


def node_source(node: "Node") -> str:
    return (node.text or b"").decode()


def read_word(node: "Node", variables: KnownVariables = NO_VARIABLES) -> Word:
    """Return a word, expanded by known variables. Raises UnprovedCommand."""
    raw = node_source(node)
    if node.type != "concatenation":
        return _join_pieces(raw, (_read_piece(node, raw, variables),), variables)
    if not _is_contiguous(node):
        raise UnprovedCommand(f"the word {raw!r} is not understood")
    *first, last = node.children
    pieces = [_read_piece(child, raw, variables) for child in first]
    pieces.append(Word("$") if last.type == "$" else _read_piece(last, raw, variables))
    return _join_pieces(raw, tuple(pieces), variables)


def read_words(node: "Node", variables: KnownVariables = NO_VARIABLES) -> tuple[Word, ...]:
    """Return the words of a node whose braces are expanded. Raises UnprovedCommand."""
    raw = node_source(node)
    if "{" not in raw or not PLAIN_BRACES.fullmatch(raw):
        return (read_word(node, variables),)
    texts = expand_braces(raw)
    return (
        tuple(_join_pieces(text, (_read_bare(text, braces=False),), variables) for text in texts)
        if texts
        else (read_word(node, variables),)
    )


PLAIN_BRACES = re.compile(r"[\w./*?+:@%,{}=~-]+", re.ASCII)
"""A word without quotes in which only braces, globs and a tilde expand."""


def _is_contiguous(node: "Node") -> bool:
    ends = [node.start_byte, *(child.end_byte for child in node.children)]
    starts = [*(child.start_byte for child in node.children), node.end_byte]
    return ends == starts


def _join_pieces(raw: str, pieces: tuple[Word, ...], variables: KnownVariables) -> Word:
    text = ""
    for piece in pieces:
        text += piece.text
        if not piece.is_literal:
            break
    literal = all(piece.is_literal for piece in pieces)
    globs = [piece.glob for piece in pieces]
    pattern = None if literal else "".join(glob for glob in globs if glob is not None)
    word = Word(
        text,
        is_literal=literal,
        may_split=any(piece.may_split for piece in pieces),
        may_be_several=any(piece.may_be_several for piece in pieces),
        substitutions=tuple(node for piece in pieces for node in piece.substitutions),
        pattern=None if None in globs else pattern,
        is_optional=any(piece.is_optional for piece in pieces),
    )
    return _expand_tilde(word, variables) if raw.startswith("~") else word


def _expand_tilde(word: Word, variables: KnownVariables) -> Word:
    """Expand `~/x` and `~+/x`; the homes of other users are unknown."""
    for mark, place in (("~", Word(HOME_MARK)), ("~+", variables.get("PWD", ANY_WORDS))):
        if word.text == mark or word.text.startswith(f"{mark}/"):
            text, pattern = place.text + word.text.removeprefix(mark), word.pattern
            pattern = pattern if pattern is None else escape_glob(place.text) + pattern.removeprefix(mark)
            return replace(word, text=text, is_literal=word.is_literal and place.is_literal, pattern=pattern)
    return replace(word, is_literal=False, pattern=None)


def _read_piece(node: "Node", word: str, variables: KnownVariables) -> Word:
    """Return one part of a word, quoted in one way."""
    raw = node_source(node)
    match node.type:
        case "word" | "number" | "brace_expression" | "extglob_pattern" | "variable_name" | "test_operator":
            return _read_bare(raw, braces="," in word or ".." in word)
        case "raw_string" if len(raw) > 1 and "'" not in raw[1:-1]:
            return Word(raw[1:-1])
        case "ansi_c_string":
            return _read_ansi_c(raw)
        case "string":
            return _read_double_quotes(node, variables)
        case "==" | "=~" | "=" | "!=" | "!":
            return Word(raw)
        case kind if kind in EXPANSION_NODES:
            return _read_expansion(node, variables)
        case _:
            raise UnprovedCommand(f"{raw!r} is not understood")


def _read_bare(raw: str, *, braces: bool) -> Word:
    """Return text outside quotes; its literal beginning ends at the first glob character or brace list."""
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
                raise UnprovedCommand(f"a line is continued inside the word {raw!r}")
        elif character in SPECIAL_CHARACTERS:
            raise UnprovedCommand(f"{character!r} in the word {raw!r}")
        elif character in GLOB_CHARACTERS or (character == "{" and braces):
            cut = True
            listed |= character == "{"
        text += "" if cut else character
        pattern += escape_glob(character) if quoted else character
        position += 1
    return Word(text, is_literal=not cut, may_be_several=cut, pattern=pattern if cut and not listed else None)


def _read_ansi_c(raw: str) -> Word:
    found = ANSI_C.fullmatch(raw)
    if found is None:
        raise UnprovedCommand(f"the quotes in {raw!r} are not understood")
    escapes = re.findall(r"\\.", found[1], re.DOTALL)
    if all(escape in ANSI_C_ESCAPES for escape in escapes):
        return Word(re.sub(r"\\.", lambda escape: ANSI_C_ESCAPES[escape[0]], found[1]))
    return Word("", is_literal=False)


NAMED_EXPANSION = re.compile(r"\$(?:(\w+)|\{(\w+)(?:(%%?|##?)([\w./*-]+))?\})", re.ASCII)
"""`$x`, `${x}`, and `${x%suffix}` or `${x#prefix}` of plain characters."""

SPLITTING = re.compile(r"[\s*?\[\\]")


def _read_expansion(node: "Node", variables: KnownVariables, *, in_quotes: bool = False) -> Word:
    """Return the word of an expansion."""
    raw = node_source(node)
    if raw.startswith(("<(", ">(")):
        return Word("/dev/fd/", is_literal=False, substitutions=(node,))
    if node.type in SUBSTITUTION_NODES:
        return _read_substitution(node, variables)
    if not EXPANSION.fullmatch(raw) and not ARITHMETIC.fullmatch(raw):
        raise UnprovedCommand(f"the expansion {raw!r} may do more than read")
    value = _variable_value(raw, variables)
    if value is None or (not in_quotes and value.is_literal and (not value.text or SPLITTING.search(value.text))):
        return Word("", is_literal=False, may_split=True)
    return value


def _variable_value(raw: str, variables: KnownVariables) -> Word | None:
    """Return the value of a variable, perhaps without a prefix or suffix; None if unknown."""
    found = NAMED_EXPANSION.fullmatch(raw)
    if found is None:
        return None
    name = found[1] or found[2]
    value = variables.get(name, Word(HOME_MARK) if name == "HOME" else None)
    if value is None or found[3] is None:
        return value
    return _trim_affix(value, found[3], found[4])


def _trim_affix(value: Word, sign: str, affix: str) -> Word | None:
    """Return `${x%affix}` and its kin for a fixed value: affixes without globs, `##*/` and `%/*`."""
    if not value.is_literal or value.text.startswith((HOME_MARK, START_MARK)):
        return None
    if (sign, affix) == ("##", "*/"):
        return Word(value.text.rpartition("/")[2])
    if (sign, affix) == ("%", "/*"):
        return Word(value.text.rpartition("/")[0] or value.text)
    if "*" in affix:
        return None
    return Word(value.text.removesuffix(affix) if sign[0] == "%" else value.text.removeprefix(affix))


def _read_substitution(node: "Node", variables: KnownVariables) -> Word:
    raw = node_source(node)
    if not raw.startswith("$(") and (not raw.startswith("`") or "\\" in raw):
        raise UnprovedCommand(f"the substitution {raw!r} may do more than read")
    where = variables.get("PWD")
    if raw in ("$(pwd)", "`pwd`") and where is not None:
        return where
    return Word("", is_literal=False, may_split=True, substitutions=(node,))


def _read_double_quotes(node: "Node", variables: KnownVariables) -> Word:
    """Return text in double quotes: one word whatever expands in the text, except for `$@` and its like."""
    raw = node.text or b""
    if len(raw) < 2 or raw[:1] != b'"' or raw[-1:] != b'"':
        raise UnprovedCommand(f"the quotes in {node_source(node)!r} are not understood")
    return read_live_text(node, node.start_byte + 1, node.end_byte - 1, '"', variables)


def read_live_text(node: "Node", start: int, end: int, quote: str, variables: KnownVariables = NO_VARIABLES) -> Word:
    """Return the bytes from `start` to `end` of `node`, in which the shell expands but does not split.

    `quote` must not occur unescaped: the grammar would have cut the text wrongly.
    """
    raw = node.text or b""
    pieces: list[Word] = []
    position = start
    for child in (child for child in node.children if child.type in EXPANSION_NODES):
        before = raw[position - node.start_byte : child.start_byte - node.start_byte]
        pieces.append(_unescape_text(before.decode(), quote, is_last=False))
        inside = _read_expansion(child, variables, in_quotes=True)
        several = "@" in node_source(child) and child.type not in SUBSTITUTION_NODES
        pieces.append(replace(inside, may_split=several, may_be_several=False))
        position = child.end_byte
    tail = raw[position - node.start_byte : end - node.start_byte]
    pieces.append(_unescape_text(tail.decode(), quote, is_last=True))
    return _join_pieces("", tuple(pieces), variables)


def _unescape_text(text: str, quote: str, *, is_last: bool) -> Word:
    """Return the literal text of a stretch without expansions. Raises UnprovedCommand if the grammar missed one."""
    plain = re.sub(r"\\([\\$`\"\n])", lambda found: found[1].strip("\n"), text)
    live = re.sub(r"\\.", "..", text, flags=re.DOTALL)
    for position, character in enumerate(live):
        after = live[position + 1 : position + 2]
        expands = EXPANSION_START.match(after) if after else not is_last
        if character == "`" or (character == quote and quote) or (character == "$" and expands):
            raise UnprovedCommand(f"{text[position:][:40]!r} is not understood")
    return Word(plain)

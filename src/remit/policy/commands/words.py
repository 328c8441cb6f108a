"""Words of a command: the literal part, the possible results of expansions, and the options and operands among them."""

import re
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, TypeAlias

from msgspec import Struct
from msgspec.structs import replace

if TYPE_CHECKING:
    from tree_sitter import Node

from collections.abc import Iterator
from functools import cache
from typing import Literal

MAX_WORDS = 64  # Words that the braces of one word may make; a word that makes more is not expanded
MAX_BRACED = 1024  # Characters of a word whose braces are expanded

BRACES = re.compile(r"\{([^{}]*)\}")
SEQUENCE = re.compile(r"(0|-?[1-9]\d{0,5})\.\.(0|-?[1-9]\d{0,5})", re.ASCII)
GLOB_CHARACTER = re.compile(r"[*?\[\]]")


def escape_glob(text: str) -> str:
    return re.sub(r"[*?\[]", r"[\g<0>]", text)


def expand_braces(text: str) -> tuple[str, ...]:
    words = [text] if len(text) <= MAX_BRACED else []
    while found := next((b for word in words for b in BRACES.finditer(word) if "," in b[1] or ".." in b[1]), None):
        parts = found[1].split(",") if "," in found[1] else expand_sequence(found[1])
        size = sum(len(parts) if found[0] in word else 1 for word in words)
        if not parts or size > MAX_WORDS:
            return ()
        words = [word.replace(found[0], part, 1) for word in words for part in (parts if found[0] in word else ("",))]
    return () if any(re.search(r"\{[^}]*[,{]", word) for word in words) else tuple(words)


def expand_sequence(text: str) -> list[str]:
    if (sequence := SEQUENCE.fullmatch(text)) is None:
        return []
    first, last = int(sequence[1]), int(sequence[2])
    step = 1 if last >= first else -1
    return [str(n) for n in range(first, last + step, step)] if abs(last - first) < MAX_WORDS else []


class UnprovedCommand(ValueError):
    """A command whose effects the text does not prove. The message names the words that decided."""


class Word(Struct, frozen=True):
    """One word. `text` is a literal word, or the fixed beginning of a word with expansions."""

    text: str
    is_literal: bool = True
    may_split: bool = False  # an unquoted expansion, with any words as result
    may_be_several: bool = False  # a glob or braces, with words that begin with `text` as result
    substitutions: "tuple[Node, ...]" = ()  # must be proved as well
    pattern: str | None = None  # a glob for all possible results of a non-literal word, if known
    is_optional: bool = False  # may be left out, like a line dropped by a filter

    @property
    def glob(self) -> str | None:
        """The pattern of all possible results; None if unknown."""
        return escape_glob(self.text) if self.is_literal else self.pattern

    @property
    def may_be_option(self) -> bool:
        return self.may_split or self.text.startswith("-") or (not self.is_literal and not self.text)

    @property
    def is_single(self) -> bool:
        return not self.may_split and not self.may_be_several


KnownVariables: TypeAlias = Mapping[str, Word]  # Variables with values that the text fixes

NO_VARIABLES: KnownVariables = {}

HOME_MARK = "\x01"
"""The home folder at the start of a word. No text contains the mark: control characters are refused before."""

START_MARK = "\x02"  # The folder that the command starts in

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

SAFE_NAME = re.compile(
    r"(?!npm_|\w*proxy$|histchars$|auto_resume$|(?:cd|f|man|module_)?path$|(?:commands|functions|aliases|builtins|options|argv)$)"
    r"[a-z_][a-z0-9_]*",
    re.ASCII,
)
"""Lower-case names, which no program of the table reads, without those that zsh ties to its own, such as `path`."""

SCRIPT_NAMES = re.compile(
    r"FILE|FILES|FILENAME|DIR|DIRS|OUT|OUTPUT|OUTFILE|OUTDIR|OUT_DIR|OUT_FILE|SRC|SRC_DIR|DST|DEST|DEST_DIR"
    r"|TARGET|TARGET_DIR|NAME|NAMES|BASE|BASE_DIR|ROOT|ROOT_DIR|REPO|REPO_ROOT|PROJECT|F|D|I|J|K|N|S|T|X|Y|Z"
    r"|LINE|COUNT|TOTAL|LOG|LOGFILE|LOG_FILE|MSG|RESULT|STATUS|START|END|DATE|NOW|BRANCH|COMMIT|FOUND|MATCHES"
    r"|CONTENT|DATA|PATTERN|OLD|NEW|TMPFILE|TMP_FILE"
)
"""Names in capitals that scripts choose: no program of the table looks at one."""


def is_safe_name(name: str) -> bool:
    """Return True if setting the variable in a script leaves all programs as they are."""
    return SAFE_NAME.fullmatch(name) is not None or SCRIPT_NAMES.fullmatch(name) is not None


DEFAULTING = re.compile(r"\$\{([A-Za-z_]\w*):?=[\w ./:,@%+-]*\}", re.ASCII)
"""`${x:=word}`, which sets the variable where it is empty."""

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


PLAIN_BRACES = re.compile(r"[\w./*?+:@%,{}=~-]+", re.ASCII)
"""A word without quotes in which only braces, globs and a tilde expand."""

NAMED_EXPANSION = re.compile(r"\$(?:(\w+)|\{(\w+)(?:(%%?|##?)([\w./*-]+))?\})", re.ASCII)
"""`$x`, `${x}`, and `${x%suffix}` or `${x#prefix}` of plain characters."""

SPLITTING = re.compile(r"[\s*?\[\\]")


def read_word(node: "Node", variables: KnownVariables = NO_VARIABLES) -> Word:
    """Return a word, expanded by known variables. Raises UnprovedCommand."""
    raw = node_source(node)
    if node.type != "concatenation":
        return join_pieces(raw, (read_piece(node, raw, variables),), variables)
    ends = [node.start_byte, *(child.end_byte for child in node.children)]
    if ends != [*(child.start_byte for child in node.children), node.end_byte]:
        raise UnprovedCommand(f"the word {raw!r} is not understood")
    *first, last = node.children
    pieces = [read_piece(child, raw, variables) for child in first]
    pieces.append(Word("$") if last.type == "$" else read_piece(last, raw, variables))
    return join_pieces(raw, pieces, variables)


def read_words(node: "Node", variables: KnownVariables = NO_VARIABLES) -> tuple[Word, ...]:
    raw = node_source(node)
    texts = expand_braces(raw) if "{" in raw and PLAIN_BRACES.fullmatch(raw) else ()
    if not texts:
        return (read_word(node, variables),)
    return tuple(join_pieces(text, (read_bare(text, braces=False),), variables) for text in texts)


def join_pieces(raw: str, pieces: Sequence[Word], variables: KnownVariables) -> Word:
    literal = all(piece.is_literal for piece in pieces)
    fixed = next((at for at, piece in enumerate(pieces) if not piece.is_literal), len(pieces))
    globs = [piece.glob for piece in pieces]
    word = Word(
        "".join(piece.text for piece in pieces[: fixed + 1]),
        is_literal=literal,
        may_split=any(piece.may_split for piece in pieces),
        may_be_several=any(piece.may_be_several for piece in pieces),
        substitutions=tuple(node for piece in pieces for node in piece.substitutions),
        pattern=None if literal or None in globs else "".join(filter(None, globs)),
        is_optional=any(piece.is_optional for piece in pieces),
    )
    if not raw.startswith("~"):
        return word
    # `~/x` and `~+/x`; the homes of other users are unknown.
    for mark, place in (("~", Word(HOME_MARK)), ("~+", variables.get("PWD", ANY_WORDS))):
        if word.text == mark or word.text.startswith(f"{mark}/"):
            text, pattern = place.text + word.text.removeprefix(mark), word.pattern
            pattern = pattern if pattern is None else escape_glob(place.text) + pattern.removeprefix(mark)
            return replace(word, text=text, is_literal=literal and place.is_literal, pattern=pattern)
    return replace(word, is_literal=False, pattern=None)


def read_piece(node: "Node", word: str, variables: KnownVariables) -> Word:
    raw = node_source(node)
    match node.type:
        case "word" | "number" | "brace_expression" | "extglob_pattern" | "variable_name" | "test_operator":
            return read_bare(raw, braces="," in word or ".." in word)
        case "raw_string" if len(raw) > 1 and "'" not in raw[1:-1]:
            return Word(raw[1:-1])
        case "ansi_c_string" if found := ANSI_C.fullmatch(raw):
            if not all(escape in ANSI_C_ESCAPES for escape in re.findall(r"\\.", found[1], re.DOTALL)):
                return Word("", is_literal=False)
            return Word(re.sub(r"\\.", lambda escape: ANSI_C_ESCAPES[escape[0]], found[1]))
        case "string" if len(raw) > 1 and raw[0] == raw[-1] == '"':
            # One word whatever expands in the text, except for `$@` and its like.
            return read_live_text(node, node.start_byte + 1, node.end_byte - 1, '"', variables)
        case "==" | "=~" | "=" | "!=" | "!":
            return Word(raw)
        case kind if kind in EXPANSION_NODES:
            return read_expansion(node, variables)
        case _:
            raise UnprovedCommand(f"{raw!r} is not understood")


def read_bare(raw: str, *, braces: bool) -> Word:
    text = pattern = ""
    cut = listed = False
    characters = iter(raw)
    for character in characters:
        quoted = character == "\\"
        if quoted and (character := next(characters, "\n")) == "\n":
            raise UnprovedCommand(f"a line is continued inside the word {raw!r}")
        if not quoted and character in SPECIAL_CHARACTERS:
            raise UnprovedCommand(f"{character!r} in the word {raw!r}")
        if not quoted and (character in GLOB_CHARACTERS or (character == "{" and braces)):
            cut, listed = True, listed or character == "{"
        text += "" if cut else character
        pattern += escape_glob(character) if quoted else character
    return Word(text, is_literal=not cut, may_be_several=cut, pattern=pattern if cut and not listed else None)


def read_expansion(node: "Node", variables: KnownVariables, *, in_quotes: bool = False) -> Word:
    raw = node_source(node)
    if raw.startswith(("<(", ">(")):
        return Word("/dev/fd/", is_literal=False, substitutions=(node,))
    unknown = Word("", is_literal=False, may_split=True)
    if node.type in SUBSTITUTION_NODES:
        if not raw.startswith("$(") and (not raw.startswith("`") or "\\" in raw):
            raise UnprovedCommand(f"the substitution {raw!r} may do more than read")
        place = variables.get("PWD") if raw in ("$(pwd)", "`pwd`") else None
        return place or replace(unknown, substitutions=(node,))
    if found := DEFAULTING.fullmatch(raw):
        if not is_safe_name(found[1]) or found[1] in variables:
            raise UnprovedCommand(f"the expansion {raw!r} may set what a program looks at")
        return unknown
    if not EXPANSION.fullmatch(raw) and not ARITHMETIC.fullmatch(raw):
        raise UnprovedCommand(f"the expansion {raw!r} may do more than read")
    value = find_value(raw, variables)
    if value is None or (not in_quotes and value.is_literal and (not value.text or SPLITTING.search(value.text))):
        return unknown
    return value


def find_value(raw: str, variables: KnownVariables) -> Word | None:
    """Return the value of a variable, perhaps without an affix that has no glob, `##*/` or `%/*`; None if unknown."""
    if (found := NAMED_EXPANSION.fullmatch(raw)) is None:
        return None
    name, sign, affix = found[1] or found[2], found[3], found[4]
    value = variables.get(name, Word(HOME_MARK) if name == "HOME" else None)
    if value is None or sign is None:
        return value
    if not value.is_literal or value.text.startswith((HOME_MARK, START_MARK)):
        return None
    match sign + affix:
        case "##*/":
            return Word(value.text.rpartition("/")[2])
        case "%/*":
            return Word(value.text.rpartition("/")[0] or value.text)
        case _ if "*" in affix:
            return None
        case _:
            return Word(value.text.removesuffix(affix) if sign[0] == "%" else value.text.removeprefix(affix))


def read_live_text(node: "Node", start: int, end: int, quote: str, variables: KnownVariables = NO_VARIABLES) -> Word:
    """Return the bytes from `start` to `end` of `node`, in which the shell expands but does not split.

    `quote` must not occur unescaped: the grammar would have cut the text wrongly.
    """
    raw = node.text or b""
    pieces: list[Word] = []
    position = start
    for child in (child for child in node.children if child.type in EXPANSION_NODES):
        before = raw[position - node.start_byte : child.start_byte - node.start_byte]
        pieces.append(unescape_text(before.decode(), quote, is_last=False))
        inside = read_expansion(child, variables, in_quotes=True)
        several = "@" in node_source(child) and child.type not in SUBSTITUTION_NODES
        pieces.append(replace(inside, may_split=several, may_be_several=False))
        position = child.end_byte
    tail = raw[position - node.start_byte : end - node.start_byte]
    return join_pieces("", (*pieces, unescape_text(tail.decode(), quote, is_last=True)), variables)


def unescape_text(text: str, quote: str, *, is_last: bool) -> Word:
    """Return the literal text of a stretch without expansions. Raises UnprovedCommand if the grammar missed one."""
    live = re.sub(r"\\.", "..", text, flags=re.DOTALL)
    for position, character in enumerate(live):
        after = live[position + 1 : position + 2]
        expands = EXPANSION_START.match(after) if after else not is_last
        if character == "`" or (character == quote and quote) or (character == "$" and expands):
            raise UnprovedCommand(f"{text[position:][:40]!r} is not understood")
    return Word(re.sub(r"\\([\\$`\"\n])", lambda found: found[1].strip("\n"), text))


ReadOperands: TypeAlias = Literal["none", "all", "rest"]

UNIVERSAL_OPTIONS = frozenset({"--help", "--version"})


@cache
def word_set(text: str) -> frozenset[str]:
    """Return the words of `text`: tables are easier to read without quotes and commas."""
    return frozenset(text.split())


class OptionRow(Struct, frozen=True):
    """The allowed options and operands of a program. Sets of long options are words, without `--`.

    GNU programs take any abbreviation of a long option; a shortened name is not recognised here.
    """

    flags: str = ""  # letters without a value
    valued: str = ""  # letters with a value, attached or the next word
    long: str = ""
    long_valued: str = ""  # take the next word, or `=`
    attached: str = ""  # letters with an attached value or none
    allows_any: bool = False  # unknown options are harmless too
    operands: int | None = None
    takes_number: bool = False  # `-5` is an option
    required: str = ""  # at least one of these options must be given
    reads: ReadOperands = "none"  # the file operands; "rest": all but the first


def harmless_row(valued: str = "", reads: ReadOperands = "none", long_valued: str = "") -> OptionRow:
    """Return the row of a program without writes; options with values are listed only to find file operands."""
    return OptionRow("", valued, long_valued=long_valued, allows_any=True, takes_number=True, reads=reads)


class GivenOption(Struct, frozen=True):
    """An option of a command: `-n` or `--name`, perhaps with a value."""

    name: str
    value: Word | None = None


class ParsedOptions(Struct, frozen=True):
    """The words of a command, sorted."""

    options: tuple[GivenOption, ...] = ()
    operands: tuple[Word, ...] = ()

    def has_option(self, *names: str) -> bool:
        return any(option.name in names for option in self.options)

    def values(self, *names: str) -> tuple[Word, ...]:
        return tuple(option.value for option in self.options if option.name in names and option.value)


def file_operands(row: OptionRow, parsed: ParsedOptions) -> tuple[str, ...]:
    """Return the literal file operands. A pattern given by an option leaves the first operand a file."""
    given = parsed.has_option("-e", "-f", "--regexp", "--file", "--from-file", "--files")
    skipped = 1 if row.reads == "rest" and not given else 0
    operands = () if row.reads == "none" else parsed.operands[skipped:]
    return tuple(word.text for word in operands if word.is_literal and word.text not in ("", "-"))


def parse_options(
    program: str, row: OptionRow, words: Sequence[Word], *, stop_at_operand: bool = False, takes_globs: bool = False
) -> ParsedOptions:
    """Sort the words behind a program by the row. Raises UnprovedCommand for a word beyond the row.

    `stop_at_operand`: the first operand ends the options, as in wrappers of commands. `takes_globs`: a glob is
    an operand although a file could have the name of an option; the caller checks the glob's matches.
    """
    options: list[GivenOption] = []
    operands: list[Word] = []
    left = list(words)
    while left:
        word = left.pop(0)
        if word.is_literal and word.text == "--":
            operands += left
            break
        matched = takes_globs and word.pattern is not None and not word.text
        if not word.may_be_option or matched or (word.is_literal and word.text == "-"):
            operands.append(word)
            if not stop_at_operand:
                continue
            operands += left
            break
        if row.operands is not None and operands:
            raise UnprovedCommand(f"`{program}` has the option {word.text!r} after an operand")
        if not word.is_single or (not word.is_literal and "=" not in word.text):
            if not row.allows_any:
                raise UnprovedCommand(f"a word of `{program}` may become any option")
            operands.append(word)
        elif word.text.startswith("--"):
            options.append(parse_long_option(program, row, word, left))
        elif not word.is_literal and not row.allows_any:
            raise UnprovedCommand(f"the option {word.text!r} of `{program}` is not literal")
        else:
            options += parse_short_options(program, row, word.text[1:], left)
    parsed = ParsedOptions(tuple(options), tuple(operands))
    if row.required and not parsed.has_option(*row.required.split()):
        names = " or ".join(sorted(row.required.split()))
        raise UnprovedCommand(f"`{program}` without {names} is not on the read-only table")
    if row.operands is not None and (len(operands) > row.operands or not all(word.is_single for word in operands)):
        raise UnprovedCommand(f"`{program}` may have more than {row.operands} operands")
    return parsed


def parse_long_option(program: str, row: OptionRow, word: Word, left: list[Word]) -> GivenOption:
    """Return the option `--name` or `--name=value`; a value that is a word of its own is taken off `left`."""
    spelled, equals, value = word.text.partition("=")
    name = spelled[2:]
    takes_value = name in word_set(row.long_valued)
    if not (takes_value or name in word_set(row.long) or row.allows_any or word.text in UNIVERSAL_OPTIONS):
        raise UnprovedCommand(f"{spelled!r} of `{program}` is not on the read-only table")
    if equals:
        return GivenOption(spelled, Word(value, is_literal=word.is_literal))
    return GivenOption(spelled, take_value(program, row, spelled, left) if takes_value else None)


def parse_short_options(program: str, row: OptionRow, letters: str, left: list[Word]) -> Iterator[GivenOption]:
    """Yield the options of a bundle; a value that is a word of its own is taken off `left`."""
    if row.takes_number and letters.isascii() and letters.isdigit():
        yield GivenOption("-1", Word(letters))
        return
    for position, letter in enumerate(letters):
        name, rest = f"-{letter}", letters[position + 1 :]
        if letter in row.valued:
            yield GivenOption(name, Word(rest) if rest else take_value(program, row, name, left))
            return
        if letter in row.attached:
            yield GivenOption(name, Word(rest) if rest else None)
            return
        if letter not in row.flags and not row.allows_any:
            raise UnprovedCommand(f"{name!r} of `{program}` is not on the read-only table")
        yield GivenOption(name)


def take_value(program: str, row: OptionRow, name: str, left: list[Word]) -> Word:
    """Take the next word. Refuse a word like an option: some build of the program may take the word as an option."""
    if not left:
        raise UnprovedCommand(f"{name!r} of `{program}` lacks its value")
    value = left.pop(0)
    if not value.is_single:
        raise UnprovedCommand(f"the value of {name!r} of `{program}` may become several words")
    if value.text.startswith("-") and not value.text[1:].isdigit() and not row.allows_any:
        raise UnprovedCommand(f"{value.text!r} of `{program}` may be an option")
    return value


DashedOptions: TypeAlias = tuple[frozenset[str], frozenset[str]]
"""Long options behind a single dash: without a value, and with the next word as value."""


def dashed_options(flags: str, valued: str = "") -> DashedOptions:
    return frozenset(f"-{option}" for option in flags.split()), frozenset(f"-{option}" for option in valued.split())


def parse_dashed(
    program: str, options: DashedOptions, words: Sequence[Word]
) -> tuple[dict[str, tuple[Word, ...]], tuple[Word, ...]]:
    """Return the values by option, and the operands. Raises UnprovedCommand."""
    flags, valued = options
    values: dict[str, tuple[Word, ...]] = {}
    operands: list[Word] = []
    left = list(words)
    while left:
        word = left.pop(0)
        if not word.may_be_option or (word.is_literal and word.text == "-"):
            operands.append(word)
        elif word.is_literal and word.text in flags:
            values.setdefault(word.text, ())
        elif word.is_literal and word.text in valued and left and left[0].is_single:
            values[word.text] = (*values.get(word.text, ()), left.pop(0))
        else:
            raise UnprovedCommand(f"{word.text!r} of `{program}` is not on the tables")
    return values, tuple(operands)

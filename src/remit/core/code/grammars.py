"""Grammars of tree-sitter, loaded on first use.

Each import stands inside a function: startup must not load sixteen shared libraries for a process that needs at most a
few.
"""

import re
from collections.abc import Callable
from functools import cache
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tree_sitter import Language, Node


BLOCK_MARK = re.compile(rb"[-?:](?=[ \t]|$)")


def _python() -> object:
    import tree_sitter_python as grammar

    return grammar.language()


def _javascript() -> object:
    import tree_sitter_javascript as grammar

    return grammar.language()


def _typescript() -> object:
    import tree_sitter_typescript as grammar

    return grammar.language_typescript()


def _tsx() -> object:
    import tree_sitter_typescript as grammar

    return grammar.language_tsx()


def _go() -> object:
    import tree_sitter_go as grammar

    return grammar.language()


def _rust() -> object:
    import tree_sitter_rust as grammar

    return grammar.language()


def _java() -> object:
    import tree_sitter_java as grammar

    return grammar.language()


def _c() -> object:
    import tree_sitter_c as grammar

    return grammar.language()


def _cpp() -> object:
    import tree_sitter_cpp as grammar

    return grammar.language()


def _ruby() -> object:
    import tree_sitter_ruby as grammar

    return grammar.language()


def _csharp() -> object:
    import tree_sitter_c_sharp as grammar

    return grammar.language()


def _php() -> object:
    import tree_sitter_php as grammar

    return grammar.language_php()


def _bash() -> object:
    import tree_sitter_bash as grammar

    return grammar.language()


def _json() -> object:
    import tree_sitter_json as grammar

    return grammar.language()


def _yaml() -> object:
    import tree_sitter_yaml as grammar

    return grammar.language()


def _toml() -> object:
    import tree_sitter_toml as grammar

    return grammar.language()


def _markdown() -> object:
    import tree_sitter_markdown as grammar

    return vars(grammar)["language"]()  # its stub names a type that it does not import


GRAMMARS: dict[str, Callable[[], object]] = {
    "python": _python,
    "javascript": _javascript,
    "typescript": _typescript,
    "tsx": _tsx,
    "go": _go,
    "rust": _rust,
    "java": _java,
    "c": _c,
    "cpp": _cpp,
    "ruby": _ruby,
    "csharp": _csharp,
    "php": _php,
    "bash": _bash,
    "json": _json,
    "yaml": _yaml,
    "toml": _toml,
    "markdown": _markdown,
}


@cache
def grammar_of(language: str) -> "Language | None":
    """Return a language's grammar; None if missing, or built for a different tree-sitter."""
    try:
        from tree_sitter import Language

        return Language(GRAMMARS[language]())
    except (ImportError, ValueError):
        return None


def list_missing_grammars() -> tuple[str, ...]:
    return tuple(name for name in GRAMMARS if grammar_of(name) is None)


MAX_YAML_INDENT, MAX_YAML_MARKS = 120, 60
"""Limits for parsing YAML: columns before a line, and block marks on a line."""


def is_deep_yaml(content: bytes) -> bool:
    """Return whether YAML may nest so deep that the scanner overruns its 1,024 bytes and the process dies.

    The scanner keeps four bytes per open block collection, and each collection begins in a column of its own: at a line
    start, or after a mark. Source: tree-sitter-yaml 0.7.2, `src/scanner.c`; found with 300 times `- `.
    """
    lines = re.split(rb"[\r\n]", content)
    return any(
        len(line) - len(line.lstrip()) > MAX_YAML_INDENT or len(BLOCK_MARK.findall(line)) > MAX_YAML_MARKS
        for line in lines
    )


MAX_OPEN_ANGLES = 500
"""Open `<` without a closing `>` or a line ending in `;`, up to which a text is parsed."""

ANGLE = re.compile(rb"[-=]>|[<>]=|<<|[<>]|;[ \t\r]*(?:\n|\Z)")
ANGLE_LANGUAGES = frozenset({"typescript", "tsx"})


def has_many_open_angles(content: bytes) -> bool:
    """Return whether many open `<` may each begin a type list: the parser keeps both readings of each.

    Work and memory then grow with the square of the length. Found with `a<b,` in TypeScript: 100 kB took a minute, 1 MB
    exhausted the memory.
    """
    depth = 0
    for match in ANGLE.finditer(content):
        mark = match[0]
        if mark.startswith(b";"):
            depth = 0
        elif mark in b"<>":
            depth = max(0, depth + (1 if mark == b"<" else -1))
        if depth > MAX_OPEN_ANGLES:
            return True
    return False


def can_crash_parser(language: str, content: bytes) -> bool:
    """Return whether parsing may crash the process, or never end."""
    if language == "yaml":
        return is_deep_yaml(content)
    if language == "bash":
        return has_wide_characters(content)
    return language in ANGLE_LANGUAGES and has_many_open_angles(content)


CHUNK_BYTES = 64 * 1024
MIN_STEPS, BYTES_PER_STEP = 1000, 8
"""Limit of progress reports: garbage can keep a parser busy for ever. A report per 70 bytes is usual."""


def has_wide_characters(content: bytes) -> bool:
    """Return whether a script holds characters from U+0100 on.

    The scanner of tree-sitter-bash 0.25.1 looks such characters up beyond its tables, and some crash the process.
    """
    return content.translate(None, BELOW_U0100) != b""


BELOW_U0100 = bytes(range(0xC4))
"""Bytes in the UTF-8 of characters below U+0100."""


def parse_tree(language: str, content: bytes, *, allow_errors: bool = False) -> "Node | None":
    """Return the root of the tree; None without a grammar, or if the text has syntax errors.

    `allow_errors` accepts a partial tree. Each call makes a new parser: a parser costs microseconds, and must not be
    shared by threads.
    """
    grammar = grammar_of(language)
    if grammar is None or can_crash_parser(language, content):
        return None
    from tree_sitter import Parser

    steps = iter(range(MIN_STEPS + len(content) // BYTES_PER_STEP))
    try:
        tree = Parser(grammar).parse(
            lambda at, _: content[at : at + CHUNK_BYTES],  # of bytes as a whole no progress is reported
            progress_callback=lambda _, __: next(steps, None) is None,
        )
    except ValueError:
        return None
    return None if tree.root_node.has_error and not allow_errors else tree.root_node

"""Grammars of tree-sitter, loaded on first use: startup must not load sixteen shared libraries for at most a few."""

import re
from functools import cache
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tree_sitter import Language, Node

GRAMMARS = (
    *("python", "javascript", "typescript", "tsx", "go", "rust", "java", "c", "cpp", "ruby", "csharp", "php", "bash"),
    *("json", "yaml", "toml", "markdown"),
)


def load_grammar(name: str) -> object:
    """Return the pointer to a grammar. Raises ImportError; the imports are spelled out for the import contracts."""
    match name:
        case "python":
            import tree_sitter_python as grammar
        case "javascript":
            import tree_sitter_javascript as grammar
        case "typescript" | "tsx":
            import tree_sitter_typescript as grammar
        case "go":
            import tree_sitter_go as grammar
        case "rust":
            import tree_sitter_rust as grammar
        case "java":
            import tree_sitter_java as grammar
        case "c":
            import tree_sitter_c as grammar
        case "cpp":
            import tree_sitter_cpp as grammar
        case "ruby":
            import tree_sitter_ruby as grammar
        case "csharp":
            import tree_sitter_c_sharp as grammar
        case "php":
            import tree_sitter_php as grammar
        case "bash":
            import tree_sitter_bash as grammar
        case "json":
            import tree_sitter_json as grammar
        case "yaml":
            import tree_sitter_yaml as grammar
        case "toml":
            import tree_sitter_toml as grammar
        case _:
            import tree_sitter_markdown as grammar
    functions = vars(grammar)
    return (functions.get(f"language_{name}") or functions["language"])()


@cache
def grammar_of(language: str) -> "Language | None":
    """Return a language's grammar; None if missing, or built for a different tree-sitter."""
    try:
        from tree_sitter import Language

        return Language(load_grammar(language))
    except (ImportError, ValueError):
        return None


def list_missing_grammars() -> tuple[str, ...]:
    return tuple(name for name in GRAMMARS if grammar_of(name) is None)


MAX_YAML_INDENT, MAX_YAML_MARKS = 120, 60
"""Limits for parsing YAML: columns before a line, and block marks on a line."""
MAX_OPEN_ANGLES = 500
"""Open `<` without a closing `>` or a line ending in `;`, up to which a text is parsed."""
BLOCK_MARK = re.compile(rb"[-?:](?=[ \t]|$)")
ANGLE = re.compile(rb"[-=]>|[<>]=|<<|[<>]|;[ \t\r]*(?:\n|\Z)")
BELOW_U0100 = bytes(range(0xC4))
"""Bytes in the UTF-8 of characters below U+0100."""


def can_crash_parser(language: str, content: bytes) -> bool:
    """Return whether parsing may crash the process, or never end."""
    match language:
        case "yaml":
            # The scanner keeps four bytes of its 1,024 per open block collection, and each collection begins in a
            # column of its own: at a line start, or after a mark.
            # Source: tree-sitter-yaml 0.7.2, `src/scanner.c`; found with 300 times `- `.
            lines = re.split(rb"[\r\n]", content)
            is_deep = any(len(line) - len(line.lstrip()) > MAX_YAML_INDENT for line in lines)
            return is_deep or any(len(BLOCK_MARK.findall(line)) > MAX_YAML_MARKS for line in lines)
        case "bash":
            # The scanner of tree-sitter-bash 0.25.1 looks characters from U+0100 on up beyond its tables.
            return content.translate(None, BELOW_U0100) != b""
        case "typescript" | "tsx":
            # Each open `<` may begin a type list, and the parser keeps both readings: work and memory grow with the
            # square of the length. With `a<b,` 100 kB took a minute, 1 MB exhausted the memory.
            depth = 0
            for match in ANGLE.finditer(content):
                mark = match[0]
                depth = 0 if mark.startswith(b";") else max(0, depth + (mark == b"<") - (mark == b">"))
                if depth > MAX_OPEN_ANGLES:
                    return True
            return False
        case _:
            return False


CHUNK_BYTES = 64 * 1024
MIN_STEPS, BYTES_PER_STEP = 1000, 8
"""Limit of progress reports: garbage can keep a parser busy for ever. A report per 70 bytes is usual."""


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

"""Modules imported by a source text: import statements, and calls with a literal module name."""

import ast
import re
import unicodedata
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, TypeAlias

from msgspec import Struct

from remit.core.code.grammars import grammar_of, parse_tree
from remit.core.code.source_text import UncheckableContent

if TYPE_CHECKING:
    from tree_sitter import Node


class Import(Struct, frozen=True):
    """An imported module as spelled in its language, with its 1-based line. `is_wildcard` means `*`."""

    module: str
    line: int
    is_wildcard: bool = False


ImportedNames: TypeAlias = "Iterator[tuple[str, bool]]"
"""Modules, each with True for a wildcard."""
Reader: TypeAlias = "Callable[[Node], ImportedNames]"
MISSING_GRAMMAR = (
    "the grammar of {} is not installed, which this constraint needs: run `pip install --force-reinstall remit`"
)
IMPORT_KEYWORD = re.compile(r"\b(?:import|from|require|use|using|include|extern|__import__|import_module)\b")
UNICODE_ESCAPE = re.compile(r"\\(?:u\{([0-9A-Fa-f]{1,6})\}|u([0-9A-Fa-f]{4})|x([0-9A-Fa-f]{2}))")


def find_imports(language: str, text: str) -> tuple[tuple[Import, ...], bool]:
    """Return the imports, and whether the text parsed without errors. Raises UncheckableContent."""
    if language == "python":
        text = unicodedata.normalize("NFKC", text)  # as Python reads names
    root = parse_tree(language, text.encode("utf-8", "replace"), allow_errors=True)
    if root is None:
        is_missing = grammar_of(language) is None
        raise UncheckableContent(MISSING_GRAMMAR.format(language) if is_missing else f"it does not parse as {language}")
    readers, pending = READERS[language], [root]
    imports: dict[Import, None] = {}
    while pending:
        node = pending.pop()
        if node.type in readers:
            found = readers[node.type](node)
            imports |= {Import(name, node.start_point[0] + 1, whole): None for name, whole in found}
        pending += reversed(node.named_children)
    return tuple(imports), not root.has_error


def find_import_mentions(text: str, module: str) -> list[int]:
    mention = re.compile(rf"(?<![\w]){re.escape(module)}(?![\w])")
    return [n for n, line in enumerate(text.splitlines(), 1) if mention.search(line) and IMPORT_KEYWORD.search(line)]


def compact_text(node: "Node | None", field: str = "") -> str:
    part = node.child_by_field_name(field) if node is not None and field else node
    return "".join((part.text or b"").decode("utf-8", "replace").split()) if part is not None else ""


def read_field(field: str, quotes: str = "") -> Reader:
    def read(node: "Node") -> ImportedNames:
        yield compact_text(node, field).strip(quotes), False

    return read


def python_import(node: "Node") -> ImportedNames:
    for child in node.named_children:
        if child.type in ("dotted_name", "aliased_import"):
            yield compact_text(child, "name" if child.type == "aliased_import" else ""), False


def python_from(node: "Node") -> ImportedNames:
    module = compact_text(node, "module_name")
    yield module, any(child.type == "wildcard_import" for child in node.named_children)
    stem = module if module.endswith(".") else f"{module}."
    for child in node.children_by_field_name("name"):
        yield stem + compact_text(child, "name" if child.type == "aliased_import" else ""), False


def python_call(node: "Node") -> ImportedNames:
    called, arguments = compact_text(node, "function"), node.child_by_field_name("arguments")
    if arguments is None or called.rpartition(".")[2] not in ("__import__", "import_module", "find_spec", "run_module"):
        return
    for child in arguments.named_children:
        value = child.child_by_field_name("value") if child.type == "keyword_argument" else child
        if value is not None and value.type in ("string", "concatenated_string"):
            try:
                yield str(ast.literal_eval((value.text or b"").decode("utf-8", "replace"))), False
            except (ValueError, SyntaxError, MemoryError, RecursionError):
                yield re.sub(r"\A[A-Za-z]*['\"]+|['\"]+\Z", "", compact_text(value)), False
            return


def script_statement(node: "Node") -> ImportedNames:
    source = node.child_by_field_name("source")
    if source is not None:
        yield script_literal(source), False


def script_call(node: "Node") -> ImportedNames:
    names = compact_text(node, "function").replace("?.", ".").split(".")
    arguments = node.child_by_field_name("arguments")
    if arguments is not None and {"require", "import"} & set(names) and arguments.named_children:
        first = arguments.named_children[0]
        if first.type in ("string", "template_string"):
            yield script_literal(first), False


def script_literal(node: "Node") -> str:
    text = (node.text or b"").decode("utf-8", "replace")[1:-1]
    plain = UNICODE_ESCAPE.sub(lambda m: chr(min(int(m[1] or m[2] or m[3], 16), 0x10FFFF)), text)
    return plain.replace("\\", "").removeprefix("node:")


def rust_use(node: "Node", prefix: str = "") -> ImportedNames:
    match node.type:
        case "use_declaration":
            argument = node.child_by_field_name("argument")
            yield from rust_use(argument) if argument is not None else ()
        case "use_list":
            for child in node.named_children:
                yield from rust_use(child, prefix)
        case "scoped_use_list":
            inner = node.child_by_field_name("list")
            yield from rust_use(inner, join_rust_path(prefix, compact_text(node, "path"))) if inner is not None else ()
        case "use_as_clause":
            yield join_rust_path(prefix, compact_text(node, "path")), False
        case "use_wildcard":
            yield join_rust_path(prefix, compact_text(node).removesuffix("*").removesuffix("::")), True
        case "line_comment" | "block_comment":
            pass
        case _:
            name = compact_text(node)
            yield (prefix if name == "self" else join_rust_path(prefix, name)), False


def join_rust_path(prefix: str, name: str) -> str:
    return "::".join(part.removeprefix("r#") for part in f"{prefix}::{name}".split("::") if part)


def rust_path(node: "Node") -> ImportedNames:
    yield join_rust_path("", compact_text(node, "name" if node.type == "extern_crate_declaration" else "")), False


def java_import(node: "Node") -> ImportedNames:
    star = any(child.type == "asterisk" for child in node.named_children)
    for child in node.named_children:
        if child.type in ("scoped_identifier", "identifier"):
            yield compact_text(child), star


def java_call(node: "Node") -> ImportedNames:
    arguments = node.child_by_field_name("arguments")
    if compact_text(node, "name") in ("forName", "loadClass") and arguments is not None and arguments.named_children:
        yield compact_text(arguments.named_children[0]).strip('"'), False


SCRIPT: "dict[str, Reader]" = {
    **dict.fromkeys(("import_statement", "export_statement", "import_require_clause"), script_statement),
    "call_expression": script_call,
}
C_INCLUDE = {"preproc_include": read_field("path", '<>"')}
JAVA_NAME = read_field("")  # `a.b.C` in code, which needs no import
READERS: "dict[str, dict[str, Reader]]" = {
    "python": {
        "import_statement": python_import,
        "import_from_statement": python_from,
        "future_import_statement": python_from,
        "call": python_call,
    },
    **dict.fromkeys(("javascript", "typescript", "tsx"), SCRIPT),
    "go": {"import_spec": read_field("path", '"`')},
    "rust": {
        "use_declaration": rust_use,
        **dict.fromkeys(("extern_crate_declaration", "scoped_identifier", "scoped_type_identifier"), rust_path),
    },
    "java": {
        "import_declaration": java_import,
        "scoped_type_identifier": JAVA_NAME,
        "field_access": JAVA_NAME,
        "method_invocation": java_call,
    },
    **dict.fromkeys(("c", "cpp"), C_INCLUDE),
}
"""Reader of each kind of node, by language."""
SEPARATORS = {"python": ".", "java": ".", "rust": "::"}
"""Separator between the parts of a module name; a slash in languages not listed."""

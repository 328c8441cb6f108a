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
    content = text.encode("utf-8", "replace")
    root = parse_tree(language, content, allow_errors=True)
    if root is None:
        is_missing = grammar_of(language) is None
        raise UncheckableContent(MISSING_GRAMMAR.format(language) if is_missing else f"it does not parse as {language}")
    readers = READERS[language]
    imports = [
        Import(name, node.start_point[0] + 1, whole)
        for node in iterate_nodes(root)
        if node.type in readers
        for name, whole in readers[node.type](node)
    ]
    return tuple(dict.fromkeys(imports)), not root.has_error


def find_import_mentions(text: str, module: str) -> list[int]:
    """Return lines that seem to import a module, for texts that do not parse."""
    mention = re.compile(rf"(?<![\w]){re.escape(module)}(?![\w])")
    return [n for n, line in enumerate(text.splitlines(), 1) if mention.search(line) and IMPORT_KEYWORD.search(line)]


def iterate_nodes(root: "Node") -> "Iterator[Node]":
    pending = [root]
    while pending:
        node = pending.pop()
        yield node
        pending.extend(reversed(node.named_children))


def compact_text(node: "Node | None") -> str:
    return "".join((node.text or b"").decode("utf-8", "replace").split()) if node is not None else ""


def child_field(node: "Node", name: str) -> "Node | None":
    return node.child_by_field_name(name)


def python_import(node: "Node") -> ImportedNames:
    """Read `import a.b as c, d`."""
    for child in node.named_children:
        if child.type in ("dotted_name", "aliased_import"):
            yield compact_text(child_field(child, "name") if child.type == "aliased_import" else child), False


def python_from(node: "Node") -> ImportedNames:
    """Read `from a import b, c as d`: yield `a`, and its names as possible modules."""
    module = compact_text(child_field(node, "module_name"))
    yield module, any(child.type == "wildcard_import" for child in node.named_children)
    stem = module if module.endswith(".") else f"{module}."
    for child in node.children_by_field_name("name"):
        yield stem + compact_text(child_field(child, "name") if child.type == "aliased_import" else child), False


def python_call(node: "Node") -> ImportedNames:
    """Read `__import__("a")`, `import_module("a")`, `x.import_module(name="a")`."""
    called = compact_text(child_field(node, "function"))
    arguments = child_field(node, "arguments")
    if arguments is None or called.rpartition(".")[2] not in ("__import__", "import_module", "find_spec", "run_module"):
        return
    for child in arguments.named_children:
        value = child_field(child, "value") if child.type == "keyword_argument" else child
        if value is not None and value.type in ("string", "concatenated_string"):
            yield python_literal(value), False
            return


def python_literal(node: "Node") -> str:
    try:
        return str(ast.literal_eval((node.text or b"").decode("utf-8", "replace")))
    except (ValueError, SyntaxError, MemoryError, RecursionError):
        return re.sub(r"\A[A-Za-z]*['\"]+|['\"]+\Z", "", compact_text(node))


def script_statement(node: "Node") -> ImportedNames:
    """Read `import x from "a"`, `export * from "a"`, `import x = require("a")`."""
    source = child_field(node, "source")
    if source is not None:
        yield script_literal(source), False


def script_call(node: "Node") -> ImportedNames:
    """Read `require("a")`, `import("a")`, `module.require("a")`, `require.resolve("a")`."""
    called, arguments = compact_text(child_field(node, "function")), child_field(node, "arguments")
    names = called.replace("?.", ".").split(".")
    if arguments is None or not {"require", "import"} & set(names) or not arguments.named_children:
        return
    first = arguments.named_children[0]
    if first.type in ("string", "template_string"):
        yield script_literal(first), False


def script_literal(node: "Node") -> str:
    """Return a literal's value without the prefix `node:` of built-in modules."""
    text = (node.text or b"").decode("utf-8", "replace")[1:-1]
    plain = UNICODE_ESCAPE.sub(lambda m: chr(min(int(m[1] or m[2] or m[3], 16), 0x10FFFF)), text)
    return plain.replace("\\", "").removeprefix("node:")


def go_spec(node: "Node") -> ImportedNames:
    """Read `import x "a/b"`."""
    yield compact_text(child_field(node, "path")).strip('"`'), False


def rust_use(node: "Node") -> ImportedNames:
    """Read `use a::{b, c as d, e::*};`."""
    argument = child_field(node, "argument")
    if argument is not None:
        yield from rust_paths(argument, "")


def rust_paths(node: "Node", prefix: str) -> ImportedNames:
    if node.type == "use_list":
        for child in node.named_children:
            yield from rust_paths(child, prefix)
    elif node.type == "scoped_use_list":
        path, inner = child_field(node, "path"), child_field(node, "list")
        if inner is not None:
            yield from rust_paths(inner, join_rust_path(prefix, compact_text(path)))
    elif node.type == "use_as_clause":
        yield join_rust_path(prefix, compact_text(child_field(node, "path"))), False
    elif node.type == "use_wildcard":
        yield join_rust_path(prefix, compact_text(node).removesuffix("*").removesuffix("::")), True
    elif node.type not in ("line_comment", "block_comment"):
        name = compact_text(node)
        yield (prefix if name == "self" else join_rust_path(prefix, name)), False


def join_rust_path(prefix: str, name: str) -> str:
    """Join a path, spelling raw names and a leading `::` plainly."""
    return "::".join(part.removeprefix("r#") for part in f"{prefix}::{name}".split("::") if part)


def rust_crate(node: "Node") -> ImportedNames:
    """Read `extern crate a;`."""
    yield join_rust_path("", compact_text(child_field(node, "name"))), False


def rust_path(node: "Node") -> ImportedNames:
    """Read `a::b::c` in code, which needs no `use`."""
    yield join_rust_path("", compact_text(node)), False


def java_import(node: "Node") -> ImportedNames:
    """Read `import static a.b.C.*;`."""
    star = any(child.type == "asterisk" for child in node.named_children)
    for child in node.named_children:
        if child.type in ("scoped_identifier", "identifier"):
            yield compact_text(child), star


def java_name(node: "Node") -> ImportedNames:
    """Read `a.b.C` in code, which needs no import."""
    yield compact_text(node), False


def java_call(node: "Node") -> ImportedNames:
    """Read `Class.forName("a.b.C")`."""
    arguments = child_field(node, "arguments")
    if (
        compact_text(child_field(node, "name")) in ("forName", "loadClass")
        and arguments is not None
        and arguments.named_children
    ):
        yield compact_text(arguments.named_children[0]).strip('"'), False


def c_include(node: "Node") -> ImportedNames:
    """Read `#include <a/b.h>`."""
    yield compact_text(child_field(node, "path")).strip('<>"'), False


SCRIPT: "dict[str, Reader]" = {
    "import_statement": script_statement,
    "export_statement": script_statement,
    "import_require_clause": script_statement,
    "call_expression": script_call,
}
READERS: "dict[str, dict[str, Reader]]" = {
    "python": {
        "import_statement": python_import,
        "import_from_statement": python_from,
        "future_import_statement": python_from,
        "call": python_call,
    },
    "javascript": SCRIPT,
    "typescript": SCRIPT,
    "tsx": SCRIPT,
    "go": {"import_spec": go_spec},
    "rust": {
        "use_declaration": rust_use,
        "extern_crate_declaration": rust_crate,
        "scoped_identifier": rust_path,
        "scoped_type_identifier": rust_path,
    },
    "java": {
        "import_declaration": java_import,
        "scoped_type_identifier": java_name,
        "field_access": java_name,
        "method_invocation": java_call,
    },
    "c": {"preproc_include": c_include},
    "cpp": {"preproc_include": c_include},
}
"""Reader of each kind of node, by language."""

SEPARATORS = {"python": ".", "java": ".", "rust": "::"}
"""Separator between the parts of a module name; a slash in languages not listed."""

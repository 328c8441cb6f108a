"""The table of languages: which files are theirs, what defines something in them, and what may change without effect.

Kinds and fields are those of the grammars' `node-types.json`. An edge is written `parent kind.field`, or as the parent
kind alone where any child is meant.
"""

import re
from typing import Literal, TypeAlias

from msgspec import Struct
from msgspec.structs import replace

from remit.core.code.binding_rules import NAMING, Kinds, Naming, kinds
from remit.core.code.comments import is_instruction

ReorderRule: TypeAlias = Literal["fixed", "runs", "executed", "free"]
"""Where functions may go without effect: nowhere; among their neighbours, callees first; anywhere between statements
that run when the file is read; anywhere in their container."""


class Language(Struct, frozen=True, kw_only=True):
    """One language.

    `definitions` says for a node kind what people call it; `named_by` where its name is, else in the field `name`.
    `values` are nodes that give a name to what stands in that field of theirs, where this is a function or a class.
    `containers` are definitions with members. `wrappers` stand around a definition, `prefixes` before it.
    `movable` are functions, which `order` is about; `harmless` decorators run nothing of the project's.
    `commas` and `semicolons` name the parents whose last one a formatter may drop.
    """

    name: str
    suffixes: tuple[str, ...]
    file_names: tuple[str, ...] = ()
    definitions: dict[str, str]
    named_by: dict[str, str] = {}
    values: dict[str, str] = {}
    containers: Kinds = frozenset()
    wrappers: Kinds = frozenset()
    prefixes: Kinds = frozenset()
    comments: Kinds = kinds("comment")
    kept: str = r"#!"
    order: ReorderRule = "fixed"
    imports: Kinds = frozenset()
    """Imports whose order among themselves the language does not mind."""
    parens: Kinds = frozenset()
    """Brackets that do nothing but group."""
    ordered: str = r"(?!)"
    """Names of functions that something runs in the order in which they are written."""
    marks: str = r"(?!)()"
    """How an attribute before a definition looks; its first group is its name."""
    spaced: str = ""
    """Macros that do not see how their arguments are laid out; where it is empty, all."""
    movable: Kinds = frozenset()
    calls: Kinds = frozenset()
    harmless: Kinds = frozenset()
    commas: Kinds = frozenset()
    semicolons: Kinds = frozenset()
    lines: Kinds = frozenset()
    """Parents in which a semicolon does what the end of a line does."""
    quotes: bool = False
    layout: bool = False
    """Space is content throughout: nothing but the same text is the same."""
    separator: str = "."
    macros: Kinds = frozenset()
    """What replaces text, and so can mention a local name that is not there to see."""
    barriers: Kinds = frozenset()
    """What a function does not move across: it means something by what stands behind it."""
    attributed_barriers: Kinds = frozenset()
    """Barriers where an attribute stands before them."""
    restricted: Kinds = frozenset()
    """Words that mean something else where a line ends behind them."""
    separate: bool = False
    """Whether a sign between statements says how they run."""
    returns: bool = False
    """Whether a carriage return at the end of a line is content."""
    spoken: bool = False
    """Whether something reads all comments of this file."""
    naming: Naming = Naming()

    def is_kept_comment(self, comment: str) -> bool:
        """Whether that comment is an instruction to a compiler, an interpreter or a framework."""
        return self.spoken or re.match(self.kept, comment) is not None or is_instruction(comment)


PYTHON = Language(
    name="python",
    suffixes=(".py", ".pyi", ".pyw"),
    definitions={"function_definition": "function", "class_definition": "class"},
    containers=kinds("class_definition"),
    wrappers=kinds("decorated_definition"),
    comments=kinds("comment line_continuation"),
    kept=r"#!|#.*coding[:=]",
    lines=kinds("module block"),
    order="executed",
    ordered=r"test|[tp]_",
    parens=kinds("parenthesized_expression"),
    movable=kinds("function_definition"),
    calls=kinds("call await yield named_expression"),
    harmless=kinds("property staticmethod classmethod abstractmethod override"),
    commas=kinds("argument_list parameters list dictionary set import_from_statement"),
    quotes=True,
    naming=NAMING["python"],
)
JAVASCRIPT = Language(
    name="javascript",
    suffixes=(".js", ".mjs", ".cjs", ".jsx"),
    definitions={
        "function_declaration": "function",
        "generator_function_declaration": "function",
        "class_declaration": "class",
        "method_definition": "method",
    },
    named_by={
        "pair": "key",
        "field_definition": "property",
        "assignment_expression": "left",
        "export_statement": "default",
    },
    values={
        "variable_declarator": "value",
        "pair": "value",
        "field_definition": "value",
        "public_field_definition": "value",
        "assignment_expression": "right",
        "export_statement": "value",
    },
    containers=kinds("class_declaration"),
    wrappers=kinds("export_statement"),
    prefixes=kinds("decorator"),
    comments=kinds("comment"),
    kept=(
        r"#!|///\s*<|/\*\s*(webpack|@vite|@jsx|istanbul)|//\s*@jsx|(//|/\*)\s*[#@]__|(//|/\*\*?)[\s*]*@(jsx|jest-env)"
    ),
    order="free",
    movable=kinds("function_declaration generator_function_declaration method_definition"),
    commas=kinds(
        "arguments formal_parameters object array object_pattern array_pattern named_imports export_clause"
        " type_parameters type_arguments enum_body"
    ),
    semicolons=kinds(
        "expression_statement lexical_declaration variable_declaration return_statement throw_statement break_statement"
        " continue_statement import_statement export_statement debugger_statement do_statement type_alias_declaration"
    ),
    quotes=True,
    restricted=kinds("abstract accessor async declare global interface module namespace type"),
    naming=NAMING["javascript"],
)
TYPESCRIPT = replace(
    JAVASCRIPT,
    name="typescript",
    suffixes=(".ts", ".mts", ".cts"),
    definitions={
        **JAVASCRIPT.definitions,
        "function_signature": "function",
        "abstract_class_declaration": "class",
        "interface_declaration": "interface",
        "type_alias_declaration": "type",
        "enum_declaration": "enum",
        "internal_module": "namespace",
        "module": "module",
    },
    containers=kinds("class_declaration abstract_class_declaration internal_module"),
    prefixes=kinds("decorator function_signature method_signature"),
    lines=kinds("object_type interface_body"),
    naming=NAMING["typescript"],
)
TSX = replace(TYPESCRIPT, name="tsx", suffixes=(".tsx",))
GO = Language(
    name="go",
    suffixes=(".go",),
    definitions={"function_declaration": "function", "method_declaration": "method", "type_spec": "type"},
    named_by={"method_declaration": "receiver"},
    values={"var_spec": "value"},
    wrappers=kinds("type_declaration"),
    kept=r"//([a-z]|\s*\+build)|/\*line ",
    order="free",
    imports=kinds("import_spec"),  # packages are made ready in the order of their paths
    ordered=r"Test|Benchmark|Example|Fuzz",
    barriers=kinds("package_clause import_declaration"),
    movable=kinds("function_declaration method_declaration"),
    commas=kinds("argument_list parameter_list literal_value"),
    naming=NAMING["go"],
)
RUST = Language(
    name="rust",
    suffixes=(".rs",),
    definitions={
        "function_item": "function",
        "function_signature_item": "function",
        "impl_item": "impl",
        "struct_item": "struct",
        "enum_item": "enum",
        "trait_item": "trait",
        "mod_item": "module",
        "macro_definition": "macro",
        "type_item": "type",
        "union_item": "union",
    },
    named_by={"impl_item": "type"},
    containers=kinds("impl_item mod_item trait_item"),
    prefixes=kinds("attribute_item line_comment block_comment"),
    comments=kinds("line_comment block_comment"),
    kept=r"///(?!/)|//!|/\*\*(?!\*)|/\*!",
    marks=r"#!?\[\s*([\w:]+)",
    imports=kinds("use_declaration"),
    spaced=r"e?print(ln)?|format|write(ln)?|panic|vec|(debug_)?assert(_eq|_ne)?|matches|todo|unreachable|unimplemented"
    r"|format_args|anyhow|bail|info|warn|error|debug|trace|log|json|quote|select|(try_)?join|thread_local|lazy_static"
    r"|bitflags|dbg|env|concat|include_str|include_bytes|include|cfg",
    order="free",
    movable=kinds("function_item"),
    commas=kinds("arguments parameters field_initializer_list array_expression"),
    separator="::",
    macros=kinds("macro_definition"),
    barriers=kinds("inner_attribute_item extern_crate_declaration macro_invocation expression_statement"),
    attributed_barriers=kinds("mod_item"),
    naming=NAMING["rust"],
)
JAVA = Language(
    name="java",
    suffixes=(".java",),
    definitions={
        "class_declaration": "class",
        "interface_declaration": "interface",
        "enum_declaration": "enum",
        "record_declaration": "record",
        "annotation_type_declaration": "annotation",
        "method_declaration": "method",
        "constructor_declaration": "constructor",
        "compact_constructor_declaration": "constructor",
    },
    containers=kinds("class_declaration interface_declaration record_declaration"),
    comments=kinds("line_comment block_comment"),
    marks=r"@(\w+)",
    imports=kinds("import_declaration"),
    order="free",
    movable=kinds("method_declaration"),
    commas=kinds("array_initializer element_value_array_initializer"),
    naming=NAMING["java"],
)
C = Language(
    name="c",
    suffixes=(".c", ".h"),
    definitions={
        "function_definition": "function",
        "struct_specifier": "struct",
        "union_specifier": "union",
        "enum_specifier": "enum",
        "preproc_function_def": "macro",
        "preproc_def": "macro",
    },
    named_by={"function_definition": "declarator"},
    order="runs",
    movable=kinds("function_definition"),
    separator="::",
    macros=kinds("preproc_def preproc_function_def"),
    naming=NAMING["c"],
)
CPP = replace(
    C,
    name="cpp",
    suffixes=(".cc", ".cpp", ".cxx", ".hh", ".hpp", ".hxx", ".ipp"),
    definitions={**C.definitions, "class_specifier": "class", "namespace_definition": "namespace"},
    containers=kinds("namespace_definition class_specifier struct_specifier"),
    wrappers=kinds("template_declaration"),
    naming=NAMING["cpp"],
)
RUBY = Language(
    name="ruby",
    suffixes=(".rb", ".rake", ".gemspec"),
    file_names=("Rakefile", "Gemfile"),
    definitions={"method": "method", "singleton_method": "method", "class": "class", "module": "module"},
    containers=kinds("class module"),
    kept=r"#!|#.*(coding|frozen.string.literal|warn.indent|shareable.constant.value)\s*[:=]",
    order="executed",
    movable=kinds("method singleton_method"),
    separator="::",
    naming=NAMING["ruby"],
)
CSHARP = Language(
    name="csharp",
    suffixes=(".cs",),
    definitions={
        "namespace_declaration": "namespace",
        "class_declaration": "class",
        "struct_declaration": "struct",
        "interface_declaration": "interface",
        "enum_declaration": "enum",
        "record_declaration": "record",
        "method_declaration": "method",
        "constructor_declaration": "constructor",
        "property_declaration": "property",
        "delegate_declaration": "delegate",
        "destructor_declaration": "destructor",
        "event_declaration": "event",
        "indexer_declaration": "indexer",
        "operator_declaration": "operator",
        "conversion_operator_declaration": "operator",
        "local_function_statement": "function",
    },
    named_by={
        "destructor_declaration": "signature",
        "indexer_declaration": "signature",
        "operator_declaration": "signature",
        "conversion_operator_declaration": "signature",
    },
    containers=kinds(
        "namespace_declaration class_declaration struct_declaration interface_declaration record_declaration"
    ),
    kept=r"#!|///(?!/)",
    marks=r"\[\s*([A-Za-z_][\w.]*)",
    imports=kinds("using_directive"),
    order="free",
    movable=kinds("method_declaration"),
    commas=kinds("initializer_expression"),
    naming=NAMING["csharp"],
)
PHP = Language(
    name="php",
    suffixes=(".php",),
    definitions={
        "function_definition": "function",
        "class_declaration": "class",
        "interface_declaration": "interface",
        "trait_declaration": "trait",
        "enum_declaration": "enum",
        "method_declaration": "method",
    },
    containers=kinds("class_declaration interface_declaration trait_declaration"),
    kept=r"#!|/\*\*(?s:.*)@",
    order="free",
    marks=r"(?:#\[\s*|@)([\w\\]+)",
    imports=kinds("namespace_use_declaration"),
    ordered=r"test",
    movable=kinds("function_definition method_declaration"),
    commas=kinds("arguments formal_parameters array_creation_expression"),
    separator="::",
    barriers=kinds("namespace_definition namespace_use_declaration declare_statement text_interpolation"),
    naming=NAMING["php"],
)
BASH = Language(
    name="bash",
    suffixes=(".sh", ".bash"),
    definitions={"function_definition": "function"},
    separate=True,
    returns=True,
)
JSON = Language(
    name="json",
    suffixes=(".json",),
    definitions={"pair": "key"},
    named_by={"pair": "key"},
    comments=frozenset(),  # strict readers refuse a file with any
)
YAML = Language(
    name="yaml",
    suffixes=(".yaml", ".yml"),
    definitions={"block_mapping_pair": "key", "flow_pair": "key"},
    named_by={"block_mapping_pair": "key", "flow_pair": "key"},
)
TOML = Language(
    name="toml",
    suffixes=(".toml",),
    definitions={"pair": "key", "table": "table", "table_array_element": "table"},
    named_by={"pair": "first", "table": "first", "table_array_element": "first"},
)
MARKDOWN = Language(
    name="markdown",
    suffixes=(".md", ".markdown"),
    definitions={"section": "heading"},  # `headings` says which
    comments=frozenset(),
    layout=True,
    separator=" > ",
)

LANGUAGES: tuple[Language, ...] = (
    PYTHON,
    JAVASCRIPT,
    TYPESCRIPT,
    TSX,
    GO,
    RUST,
    JAVA,
    C,
    CPP,
    RUBY,
    CSHARP,
    PHP,
    BASH,
    JSON,
    YAML,
    TOML,
    MARKDOWN,
)

_BY_SUFFIX = {suffix: row for row in LANGUAGES for suffix in row.suffixes}
_BY_NAME = {name: row for row in LANGUAGES for name in row.file_names}


def find_language(path: str) -> Language | None:
    """The language of a file, by its name; None where that tells none."""
    name = path.rpartition("/")[2]
    dot = name.rfind(".")
    return _BY_NAME.get(name) or (_BY_SUFFIX.get(name[dot:].lower()) if dot > 0 else None)

"""Languages: their files, definitions, and syntax that may change without effect.

Kinds and fields are those of the grammars' `node-types.json`. An edge is written `parent kind.field`, or as the parent
kind alone for any child.
"""

import re
from typing import Any, Literal, TypeAlias, TypeVar, get_args, get_origin

from msgspec import Struct, convert, structs

from remit.core.code.comments import is_instruction
from remit.core.python_runtime import prepare_type

Kinds: TypeAlias = frozenset[str]
ReorderRule: TypeAlias = Literal["fixed", "runs", "executed", "free"]
"""Freedom of functions to move: `fixed` nowhere; `runs` among neighbours, callees first; `executed` between statements
that run while the file is read; `free` within their container.
"""


def kinds(text: str) -> Kinds:
    return frozenset(text.split())


class Language(Struct, frozen=True, kw_only=True):
    """A language.

    `definitions` maps node kinds to names for people; `name_fields` gives the field of a name, by default `name`.
    `value_fields` are nodes that name the function or class in a field. `containers` are definitions with members.
    `wrappers` surround a definition, `prefixes` precede it. `movable_kinds` are functions, subject to `order`;
    `harmless_decorators` run no code of the project. `commas` and `semicolons` list parents with an optional last sign.
    """

    name: str
    suffixes: tuple[str, ...]
    file_names: tuple[str, ...] = ()
    definitions: dict[str, str]
    name_fields: dict[str, str] = {}
    value_fields: dict[str, str] = {}
    containers: Kinds = frozenset()
    wrappers: Kinds = frozenset()
    prefixes: Kinds = frozenset()
    comments: Kinds = kinds("comment")
    kept_comments: str = r"#!"
    order: ReorderRule = "fixed"
    imports: Kinds = frozenset()
    """Imports without a meaningful order."""
    grouping_kinds: Kinds = frozenset()
    """Brackets that only group."""
    ordered_names: str = r"(?!)"
    """Names of functions that run in source order."""
    attribute_pattern: str = r"(?!)()"
    """Pattern of an attribute before a definition; the first group is its name."""
    layout_blind_macros: str = ""
    """Macros that ignore the layout of their arguments; every macro if empty."""
    movable_kinds: Kinds = frozenset()
    call_kinds: Kinds = frozenset()
    harmless_decorators: Kinds = frozenset()
    commas: Kinds = frozenset()
    semicolons: Kinds = frozenset()
    line_parents: Kinds = frozenset()
    """Parents in which a semicolon equals a line end."""
    either_quotes: bool = False
    layout_matters: bool = False
    """White space is content: only identical text is equal."""
    separator: str = "."
    macros: Kinds = frozenset()
    """Nodes that replace text, and so may mention local names invisibly."""
    barriers: Kinds = frozenset()
    """Nodes that functions cannot move across."""
    attributed_barriers: Kinds = frozenset()
    """Nodes that are barriers only with an attribute."""
    line_sensitive_words: Kinds = frozenset()
    """Words with a different meaning before a line end."""
    separators_matter: bool = False
    """Signs between statements determine how they run."""
    carriage_returns_matter: bool = False
    """A carriage return before a line end is content."""
    comments_matter: bool = False
    """Something reads each comment of the file."""
    function_wide: bool = False
    """Every variable in a function belongs to the function."""
    unused_names_matter: bool = False
    """The name of an unused variable may have a purpose."""
    reserved_words: Kinds = frozenset()
    """Words beside those of the grammar that cannot name every local variable, or name something else."""
    name_readers: Kinds = frozenset()
    """Words, or kinds of nodes, that read local names as text."""
    exposed_kinds: Kinds = frozenset()
    """Nodes in which a name is seen from outside, beside those of `local_names`."""
    exposing_calls: str = r"(?!)"
    """Functions and, with a `!`, macros that may see how an argument is spelt, or what a parameter is called."""
    private: Literal["underscore", "module", "static", "unmarked", "none"] = "none"
    """Rule for functions that no other file can name."""

    def is_kept_comment(self, comment: str) -> bool:
        return self.comments_matter or re.match(self.kept_comments, comment) is not None or is_instruction(comment)


T = TypeVar("T", bound=Struct)
ROW = re.compile(r"(\w+)(?: like (\w+))?:")
FIELD = re.compile(r"^ {4}(\w+)(?: (\S+))?:(.*(?:\n {8}.*)*)", re.MULTILINE)


def read_rows(kind: type[T], table: str) -> dict[str, T]:
    types = {field.name: field.type for field in structs.fields(kind)}
    rows: dict[str, dict[str, Any]] = {}
    for block in re.split(r"\n(?=\w)", table.strip()):
        head, _, body = block.partition("\n")
        (name, other), *_ = ROW.findall(head)
        row = {**rows.get(other, {}), **({"name": name} if "name" in types else {})}
        for field, key, text in FIELD.findall(body):
            parts = list(map(str.strip, text.split("\n")))
            words, container = " ".join(parts).split(), get_origin(types[field])
            if container is frozenset:
                row[field] = row.get(field, frozenset()) | set(words)
            elif container is dict:
                is_text = get_args(types[field])[1] is str
                entries = {key: "".join(parts) if is_text else words} if key else dict(w.split("=") for w in words)
                row[field] = {**row.get(field, {}), **entries}
            elif container is tuple:
                row[field] = words
            else:
                row[field] = types[field] is bool or "".join(parts).strip("'")
        rows[name] = row
    return {name: convert(row, prepare_type(kind)) for name, row in rows.items()}


ROWS = r"""
python:
    suffixes: .py .pyi .pyw
    definitions: function_definition=function class_definition=class
    containers: class_definition
    wrappers: decorated_definition
    comments: comment line_continuation
    kept_comments: #!|#.*coding[:=]
    line_parents: module block
    order: executed
    ordered_names: test|[tp]_
    grouping_kinds: parenthesized_expression
    movable_kinds: function_definition
    call_kinds: call await yield named_expression
    harmless_decorators: property staticmethod classmethod abstractmethod override
    commas: argument_list parameters list dictionary set import_from_statement
    either_quotes: yes
    function_wide: yes
    reserved_words: False None True super
    name_readers: locals vars eval exec globals dir compile f_locals _getframe currentframe getouterframes ic
        nameof argname co_varnames co_freevars co_cellvars getclosurevars sql
    private: underscore
javascript:
    suffixes: .js .mjs .cjs .jsx
    definitions: function_declaration=function generator_function_declaration=function class_declaration=class
        method_definition=method
    name_fields: pair=key field_definition=property assignment_expression=left export_statement=default
    value_fields: variable_declarator=value pair=value field_definition=value public_field_definition=value
        assignment_expression=right export_statement=value
    containers: class_declaration
    wrappers: export_statement
    prefixes: decorator
    comments: comment
    order: free
    movable_kinds: function_declaration generator_function_declaration method_definition
    commas: arguments formal_parameters object array object_pattern array_pattern named_imports export_clause
        type_parameters type_arguments enum_body
    semicolons: expression_statement lexical_declaration variable_declaration return_statement throw_statement
        break_statement continue_statement import_statement export_statement debugger_statement do_statement
        type_alias_declaration
    either_quotes: yes
    line_sensitive_words: abstract accessor async declare global interface module namespace type
    kept_comments: #!|///\s*<|/\*\s*(webpack|@vite|@jsx|istanbul)
        |//\s*@jsx|(//|/\*)\s*[#@]__|(//|/\*\*?)[\s*]*@(jsx|jest-env)
    reserved_words: arguments NaN Infinity undefined require module exports eval await yield enum implements interface
        package private protected public null super this true false type declare namespace abstract any unknown never
    name_readers: eval Function with
    exposing_calls: controller|factory|service|directive|filter|config|run|provider|decorator|component|inject|invoke
    private: module
typescript like javascript:
    suffixes: .ts .mts .cts
    definitions: function_signature=function abstract_class_declaration=class interface_declaration=interface
        type_alias_declaration=type enum_declaration=enum internal_module=namespace module=module
    containers: class_declaration abstract_class_declaration internal_module
    prefixes: decorator function_signature method_signature
    line_parents: object_type interface_body
tsx like typescript:
    suffixes: .tsx
go:
    suffixes: .go
    definitions: function_declaration=function method_declaration=method type_spec=type
    name_fields: method_declaration=receiver
    value_fields: var_spec=value
    wrappers: type_declaration
    kept_comments: '//([a-z]|\s*\+build)|/\*line '
    order: free
    # Packages are made ready in the order of their paths.
    imports: import_spec
    ordered_names: Test|Benchmark|Example|Fuzz
    barriers: package_clause import_declaration
    movable_kinds: function_declaration method_declaration
    commas: argument_list parameter_list literal_value
    reserved_words: init main
rust:
    suffixes: .rs
    definitions: function_item=function function_signature_item=function impl_item=impl struct_item=struct
        enum_item=enum trait_item=trait mod_item=module macro_definition=macro type_item=type union_item=union
    name_fields: impl_item=type
    containers: impl_item mod_item trait_item
    prefixes: attribute_item line_comment block_comment
    comments: line_comment block_comment
    kept_comments: ///(?!/)|//!|/\*\*(?!\*)|/\*!
    attribute_pattern: #!?\[\s*([\w:]+)
    imports: use_declaration
    order: free
    movable_kinds: function_item
    commas: arguments parameters field_initializer_list array_expression
    separator: ::
    macros: macro_definition
    barriers: inner_attribute_item extern_crate_declaration macro_invocation expression_statement
    attributed_barriers: mod_item
    layout_blind_macros: e?print(ln)?|format|write(ln)?|panic|vec|(debug_)?assert(_eq|_ne)?|matches
        |todo|unreachable|unimplemented|format_args|anyhow|bail|info|warn|error|debug|trace|log|json|quote
        |select|(try_)?join|thread_local|lazy_static|bitflags|dbg|env|concat|include_str|include_bytes|include|cfg
    reserved_words: abstract become box crate do final macro mut override priv self super typeof unsized virtual
    name_readers: stringify dbg concat_idents asm
    exposing_calls: (?!(?:e?print(?:ln)?|format|write(?:ln)?|panic|vec|(?:debug_)?assert_(?:eq|ne)|matches
        |todo|unreachable|unimplemented|format_args|anyhow|bail)!).*!
    private: unmarked
java:
    suffixes: .java
    definitions: class_declaration=class interface_declaration=interface enum_declaration=enum
        record_declaration=record annotation_type_declaration=annotation method_declaration=method
        constructor_declaration=constructor compact_constructor_declaration=constructor
    containers: class_declaration interface_declaration record_declaration
    comments: line_comment block_comment
    attribute_pattern: @(\w+)
    imports: import_declaration
    order: free
    movable_kinds: method_declaration
    commas: array_initializer element_value_array_initializer
    reserved_words: boolean const false goto non null super this true var void
c:
    suffixes: .c .h
    definitions: function_definition=function struct_specifier=struct union_specifier=union enum_specifier=enum
        preproc_function_def=macro preproc_def=macro
    name_fields: function_definition=declarator
    order: runs
    movable_kinds: function_definition
    separator: ::
    macros: preproc_def preproc_function_def
    reserved_words: linux unix i386 errno stdin stdout stderr NULL EOF assert offsetof INFINITY NAN I complex imaginary
        major minor makedev va_start va_end va_arg va_copy setjmp near far small interface min max typeof
    name_readers: preproc_include
    exposing_calls: [A-Z_][A-Z0-9_]*|\w*assert\w*|\w*stringify|x?str|dbg
        |offsetof|container_of|\w*for_each\w*|g_return_(val_)?if_fail|\w*unit_test\w*|\w*add_\w*test\w*
    private: static
cpp like c:
    suffixes: .cc .cpp .cxx .hh .hpp .hxx .ipp
    definitions: class_specifier=class namespace_definition=namespace
    containers: namespace_definition class_specifier struct_specifier
    wrappers: template_declaration
    reserved_words: import module export override final
ruby:
    suffixes: .rb .rake .gemspec
    file_names: Rakefile Gemfile
    definitions: method=method singleton_method=method class=class module=module
    containers: class module
    kept_comments: #!|#.*(coding|frozen.string.literal|warn.indent|shareable.constant.value)\s*[:=]
    order: executed
    movable_kinds: method singleton_method
    separator: ::
    name_readers: binding eval instance_eval class_eval module_eval local_variables
    reserved_words: __ENCODING__ __FILE__ __LINE__ __method__ __callee__ __dir__ __id__ __send__ loop raise lambda proc
        binding it super self true false
csharp:
    suffixes: .cs
    definitions: namespace_declaration=namespace class_declaration=class struct_declaration=struct
        interface_declaration=interface enum_declaration=enum record_declaration=record method_declaration=method
        constructor_declaration=constructor property_declaration=property delegate_declaration=delegate
        destructor_declaration=destructor event_declaration=event indexer_declaration=indexer
        operator_declaration=operator conversion_operator_declaration=operator local_function_statement=function
    name_fields: destructor_declaration=signature indexer_declaration=signature operator_declaration=signature
        conversion_operator_declaration=signature
    containers: namespace_declaration class_declaration struct_declaration interface_declaration
        record_declaration
    kept_comments: #!|///(?!/)
    attribute_pattern: \[\s*([A-Za-z_][\w.]*)
    imports: using_directive
    order: free
    movable_kinds: method_declaration
    commas: initializer_expression
    unused_names_matter: yes
    exposed_kinds: tuple_expression
    reserved_words: value field var dynamic args extension nameof nint nuint
    name_readers: nameof CallerArgumentExpression Assert ThrowIfNull ThrowIfNullOrEmpty ThrowIfNullOrWhiteSpace
        ThrowIfZero ThrowIfNegative ThrowIfNegativeOrZero ThrowIfEqual ThrowIfNotEqual ThrowIfGreaterThan
        ThrowIfLessThan ThrowIfGreaterThanOrEqual ThrowIfLessThanOrEqual Should
php:
    suffixes: .php
    definitions: function_definition=function class_declaration=class interface_declaration=interface
        trait_declaration=trait enum_declaration=enum method_declaration=method
    containers: class_declaration interface_declaration trait_declaration
    kept_comments: #!|/\*\*(?s:.*)@
    order: free
    attribute_pattern: (?:#\[\s*|@)([\w\\]+)
    imports: namespace_use_declaration
    ordered_names: test
    movable_kinds: function_definition method_declaration
    commas: arguments formal_parameters array_creation_expression
    separator: ::
    barriers: namespace_definition namespace_use_declaration declare_statement text_interpolation
    function_wide: yes
    reserved_words: this GLOBALS argc argv http_response_header php_errormsg
    name_readers: extract compact eval include include_once require require_once parse_str get_defined_vars
        dynamic_variable_name unset_statement
bash:
    suffixes: .sh .bash
    definitions: function_definition=function
    separators_matter: yes
    carriage_returns_matter: yes
json:
    suffixes: .json
    definitions: pair=key
    name_fields: pair=key
    # Strict readers refuse a file with any comment.
    comments:
yaml:
    suffixes: .yaml .yml
    definitions: block_mapping_pair=key flow_pair=key
    name_fields: block_mapping_pair=key flow_pair=key
toml:
    suffixes: .toml
    definitions: pair=key table=table table_array_element=table
    name_fields: pair=first table=first table_array_element=first
markdown:
    suffixes: .md .markdown
    definitions: section=heading
    layout_matters: yes
    separator: ' > '
    comments:
"""
LANGUAGES = tuple(read_rows(Language, ROWS).values())
_BY_SUFFIX = {suffix: language for language in LANGUAGES for suffix in language.suffixes}
_BY_NAME = {name: language for language in LANGUAGES for name in language.file_names}


def find_language(path: str) -> Language | None:
    name = path.rpartition("/")[2]
    dot = name.rfind(".")
    return _BY_NAME.get(name) or (_BY_SUFFIX.get(name[dot:].lower()) if dot > 0 else None)

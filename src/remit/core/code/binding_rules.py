"""Binding rules of each language: the syntax that binds names visible only inside a definition.

Only listed syntax counts as local. A missing entry costs an unrecognised renaming; a wrong entry would call a change of
behaviour a renaming. Hence parameters that callers may name (Python, C#, PHP), and names that a string, macro or
framework could mean, are not listed.
"""

from typing import Literal, TypeAlias

from msgspec import Struct
from msgspec.structs import replace

from remit.core.code import reserved_words

Scope: TypeAlias = Literal[
    "function",
    "unseen",
    "outer",
    "quiet",
    "block",
    "hoisted",
    "rest",
    "body",
    "whole",
    "parent",
    "comprehension",
    "callers",
]
"""Visibility of a bound name.

`function`: the body of the nearest function (`outer`: excluding this node; `quiet`: only if nobody names its
parameters; `unseen`: unless a framework may read them). `block`: the nearest block (`hoisted`: within a function, since
elsewhere the name leaks to the whole program). `rest`: the rest of the block. `body`: the node's body. `whole`: the
node. `parent`: its parent. `comprehension`: a comprehension without its iterables. `callers`: also callers.
"""

Kinds: TypeAlias = frozenset[str]


class Naming(Struct, frozen=True, kw_only=True):
    """Binding rules of a language. Edges are written as in `languages`; `parent>kind` is a leaf below a parent.

    Leaves of `variable_leaves` name variables, unless their edge is in `member_edges` (a member, keyword or label);
    those of `label_leaves` never do. Names below `barred` edges are never renamed. Target patterns are followed through
    the edges in `through` to their `bindings`. A binding node needs one of its `required_children`, and none of its
    `excluded_children`.
    """

    variable_leaves: Kinds = frozenset()
    member_edges: Kinds = frozenset()
    label_leaves: Kinds = frozenset()
    barred: Kinds = frozenset()
    barred_if: dict[str, str] = {}
    barred_unless: dict[str, str] = {}
    """Expected first leaf in a node of that kind; unlisted macros and templates may see spellings."""
    through: Kinds = frozenset()
    bindings: dict[str, Scope] = {}
    required_children: dict[str, Kinds] = {}
    excluded_children: dict[str, Kinds] = {}
    functions: Kinds = frozenset()
    positional_kinds: Kinds = frozenset()
    positional_parents: Kinds = frozenset()
    blocks: Kinds = frozenset()
    scope_walls: Kinds = frozenset()
    """Kinds inside which names may have a different meaning."""
    sealed_kinds: Kinds = frozenset()
    """Kinds that bindings do not reach out of."""
    comprehensions: Kinds = frozenset()
    name_readers: Kinds = frozenset()
    """Words, or kinds, that read local names as text."""
    inert_strings: Kinds = frozenset()
    """Kinds of strings that never name local variables."""
    string_readers: Kinds = frozenset()
    """Functions that look up local names in strings."""
    name_reading_methods: Kinds = frozenset()
    """Methods that read local names as text on any object."""
    unused_names_matter: bool = False
    """The name of an unused variable may have a purpose."""
    positional_callers: Kinds = frozenset()
    """Functions that pass parameters by position and ignore names; every function if empty."""
    injectors: Kinds = frozenset()
    """Functions that choose arguments by parameter names."""
    naming_edges: Kinds = frozenset()
    """Edges at which a function receives a name that it carries along."""
    harmless_parents: Kinds = frozenset()
    """Parents below which a function is not given away with its name; every parent if empty."""
    name_revealers: Kinds = frozenset()
    """Words with which a file finds functions by name, or reveals names."""
    reserved_names: Kinds = frozenset()
    special_names: str = r"(?!)"
    """Names with a meaning of their own."""
    function_wide: bool = False
    """Every variable in a function belongs to the function."""
    capitals_are_constants: bool = False
    """Capitalised patterns are constants."""
    private: Literal["underscore", "module", "static", "unmarked", "none"] = "none"
    """Rule for functions that no other file can name."""


kinds = reserved_words.split_words
"""Node kinds, or edges, written on a line."""


PYTHON = Naming(
    variable_leaves=kinds("identifier"),
    member_edges=kinds("attribute.attribute keyword_argument.name"),
    barred=kinds(
        "import_statement import_from_statement future_import_statement global_statement case_pattern keyword_pattern"
        " type_alias_statement type_parameter"
    ),
    barred_if={"interpolation": "="},
    barred_unless={"string": "[^tT]*"},
    through=kinds("pattern_list tuple_pattern list_pattern as_pattern_target"),
    bindings={
        "assignment.left": "function",
        "augmented_assignment.left": "function",
        "for_statement.left": "function",
        "as_pattern.alias": "function",
        "named_expression.name": "function",
        "list_splat_pattern": "function",
        "dictionary_splat_pattern": "function",
        "function_definition.name": "outer",
        "for_in_clause.left": "comprehension",
        "lambda_parameters": "quiet",
        "parameters": "callers",
        "default_parameter.name": "callers",
        "typed_parameter": "callers",
        "typed_default_parameter.name": "callers",
    },
    functions=kinds("function_definition lambda"),
    positional_kinds=kinds("lambda"),
    positional_parents=kinds("argument_list keyword_argument"),
    scope_walls=kinds("class_definition"),
    sealed_kinds=kinds("for_in_clause lambda_parameters typed_parameter"),
    comprehensions=kinds("list_comprehension set_comprehension dictionary_comprehension generator_expression"),
    name_readers=kinds(
        "locals vars eval exec globals dir compile f_locals _getframe currentframe getouterframes ic nameof argname"
        " co_varnames co_freevars co_cellvars getclosurevars"
    ),
    inert_strings=kinds("string string_content"),
    name_reading_methods=kinds("sql"),
    string_readers=kinds(
        "query evaluate re_evaluate execute executemany runctx run timeit repeat ols gls wls glm logit probit mixedlm"
        " dmatrix dmatrices inline from_query sqldf shell"
    ),
    positional_callers=kinds(
        "sorted sort min max map filter reduce groupby takewhile dropwhile filterfalse starmap accumulate nlargest"
        " nsmallest defaultdict sub subn partial bisect_left bisect_right insort"
    ),
    naming_edges=kinds("function_definition.name"),
    harmless_parents=kinds("call"),
    name_revealers=kinds("getattr setattr hasattr modules import_module __import__ __dict__ getmembers"),
    reserved_names=reserved_words.PYTHON,
    special_names=r"__\w*",
    private="underscore",
)

JAVASCRIPT = Naming(
    variable_leaves=kinds("identifier"),
    label_leaves=kinds("property_identifier private_property_identifier statement_identifier"),
    barred=kinds(
        "jsx_opening_element.name jsx_closing_element.name jsx_self_closing_element.name import_statement export_clause"
        " decorator"
    ),
    through=kinds(
        "variable_declarator.name array_pattern object_pattern pair_pattern.value rest_pattern assignment_pattern.left"
        " object_assignment_pattern.left"
    ),
    bindings={
        "lexical_declaration": "block",
        "variable_declaration": "function",
        "for_in_statement.left": "body",
        "catch_clause.parameter": "body",
        "formal_parameters": "unseen",
        "arrow_function.parameter": "unseen",
        "function_declaration.name": "hoisted",
    },
    required_children={"for_in_statement": kinds("const let")},
    functions=kinds(
        "function_declaration function_expression arrow_function method_definition generator_function"
        " generator_function_declaration"
    ),
    blocks=kinds("statement_block for_statement for_in_statement switch_body class_static_block"),
    name_readers=kinds("eval Function with_statement"),
    inert_strings=kinds("string string_fragment"),
    injectors=kinds(
        "controller factory service directive filter config run provider decorator component inject invoke"
    ),
    naming_edges=kinds("function_declaration.name"),
    reserved_names=reserved_words.SCRIPT,
    special_names=r"arguments|undefined|NaN|Infinity|require|module|exports|\$\w+",
    private="module",
)
TYPESCRIPT = replace(
    JAVASCRIPT,
    barred=JAVASCRIPT.barred | kinds("ambient_declaration module"),
    bindings={**JAVASCRIPT.bindings, "required_parameter.pattern": "unseen", "optional_parameter.pattern": "unseen"},
    excluded_children={
        "required_parameter": kinds("accessibility_modifier readonly decorator override_modifier"),
        "optional_parameter": kinds("accessibility_modifier readonly decorator override_modifier"),
    },
    functions=JAVASCRIPT.functions
    | kinds("function_type constructor_type function_signature method_signature call_signature"),
)

GO = Naming(
    variable_leaves=kinds("identifier"),
    label_leaves=kinds("field_identifier label_name package_identifier"),
    barred=kinds("keyed_element.key"),
    through=kinds("expression_list"),
    bindings={
        "parameter_declaration.name": "function",
        "variadic_parameter_declaration.name": "function",
        "short_var_declaration.left": "rest",
        "var_spec.name": "rest",
        "const_spec.name": "rest",
        "range_clause.left": "rest",
    },
    required_children={"range_clause": kinds(":=")},
    functions=kinds("function_declaration method_declaration func_literal function_type method_elem"),
    blocks=kinds(
        "block for_statement if_statement expression_switch_statement type_switch_statement expression_case"
        " default_case type_case communication_case select_statement"
    ),
    inert_strings=kinds("interpreted_string_literal_content raw_string_literal_content"),
    reserved_names=reserved_words.GO,
    special_names=r"_|init|main",
)

RUST = Naming(
    variable_leaves=kinds("identifier"),
    member_edges=kinds("scoped_identifier lifetime label macro_invocation.macro"),
    label_leaves=kinds("field_identifier"),
    barred=kinds("shorthand_field_initializer attribute_item inner_attribute_item use_declaration"),
    through=kinds("tuple_pattern mut_pattern ref_pattern reference_pattern tuple_struct_pattern. match_pattern."),
    bindings={
        "let_declaration.pattern": "rest",
        "parameter.pattern": "function",
        "closure_parameters": "function",
        "for_expression.pattern": "body",
        "match_arm.pattern": "whole",
    },
    functions=kinds("function_item closure_expression function_signature_item function_type"),
    blocks=kinds("block match_arm"),
    scope_walls=kinds("function_item impl_item mod_item trait_item macro_definition"),
    name_readers=kinds("stringify dbg concat_idents asm"),
    barred_unless={
        "macro_invocation": "e?print(ln)?|format|write(ln)?|panic|vec|(debug_)?assert_(eq|ne)|matches|todo|unreachable"
        "|unimplemented|format_args|anyhow|bail"
    },
    name_revealers=kinds("type_name type_name_of_val"),
    reserved_names=reserved_words.RUST,
    capitals_are_constants=True,
    private="unmarked",
)

JAVA = Naming(
    variable_leaves=kinds("identifier"),
    member_edges=kinds(
        "field_access.field method_invocation.name method_reference labeled_statement break_statement"
        " continue_statement element_value_pair.key marker_annotation.name annotation.name"
    ),
    barred=kinds("scoped_identifier"),
    through=kinds("variable_declarator.name inferred_parameters"),
    bindings={
        "local_variable_declaration.declarator": "rest",
        "formal_parameter.name": "unseen",
        "spread_parameter": "unseen",
        "lambda_expression.parameters": "function",
        "catch_formal_parameter.name": "parent",
        "enhanced_for_statement.name": "body",
    },
    excluded_children={"formal_parameter": kinds("modifiers"), "spread_parameter": kinds("modifiers")},
    functions=kinds("method_declaration constructor_declaration lambda_expression"),
    blocks=kinds("block for_statement switch_block constructor_body"),
    scope_walls=kinds("class_body"),
    inert_strings=kinds("string_fragment"),
    reserved_names=reserved_words.JAVA,
)

C = Naming(
    variable_leaves=kinds("identifier"),
    label_leaves=kinds("field_identifier statement_identifier"),
    barred=kinds("asm_expression gnu_asm_expression preproc_def preproc_function_def preproc_call preproc_if"),
    through=kinds(
        "init_declarator.declarator pointer_declarator.declarator array_declarator.declarator"
        " reference_declarator parenthesized_declarator"
    ),
    bindings={"parameter_declaration.declarator": "function", "declaration.declarator": "rest"},
    excluded_children={"declaration": kinds("storage_class_specifier")},
    functions=kinds("function_definition"),
    blocks=kinds("compound_statement for_statement if_statement while_statement switch_statement case_statement"),
    sealed_kinds=kinds("declaration parameter_declaration field_declaration type_definition"),
    barred_unless={
        "call_expression": r"(?!([A-Z_][A-Z0-9_]*|\w*assert\w*|\w*stringify|x?str|dbg|offsetof|container_of"
        r"|\w*for_each\w*|g_return_(val_)?if_fail|\w*unit_test\w*|\w*add_\w*test\w*)$).*"
    },
    name_readers=kinds("preproc_include"),
    name_revealers=kinds("__func__ __FUNCTION__ __PRETTY_FUNCTION__ dlsym"),
    reserved_names=reserved_words.C,
    private="static",
)
CPP = replace(
    C,
    barred=C.barred | kinds("qualified_identifier template_function lambda_capture_initializer"),
    bindings={
        **C.bindings,
        "optional_parameter_declaration.declarator": "function",
        "for_range_loop.declarator": "body",
    },
    functions=C.functions | kinds("lambda_expression"),
    blocks=C.blocks | kinds("for_range_loop try_statement catch_clause"),
    scope_walls=kinds("field_declaration_list"),
    sealed_kinds=C.sealed_kinds | kinds("optional_parameter_declaration template_declaration requires_expression"),
    name_revealers=C.name_revealers | kinds("source_location"),
    reserved_names=reserved_words.CPP,
)

RUBY = Naming(
    variable_leaves=kinds("identifier"),
    member_edges=kinds("call.method method.name singleton_method.name alias undef"),
    through=kinds("left_assignment_list splat_parameter.name rest_assignment destructured_left_assignment"),
    bindings={
        "method_parameters": "function",
        "block_parameters": "function",
        "lambda_parameters": "function",
        "optional_parameter.name": "function",
        "block_parameter.name": "function",
        "assignment.left": "rest",
        "for.pattern": "rest",
        "exception_variable": "rest",
    },
    functions=kinds("method singleton_method block do_block lambda"),
    blocks=kinds("method singleton_method block do_block lambda"),
    scope_walls=kinds("method singleton_method class module singleton_class"),
    name_readers=kinds("binding eval instance_eval class_eval module_eval local_variables"),
    reserved_names=reserved_words.RUBY,
    special_names=r"_\d?|it",
)

CSHARP = Naming(
    variable_leaves=kinds("identifier implicit_parameter"),
    member_edges=kinds("member_access_expression.name member_binding_expression.name labeled_statement goto_statement"),
    barred=kinds(
        "argument.name initializer_expression tuple_expression anonymous_object_creation_expression with_expression"
        " query_expression subpattern property_pattern_clause recursive_pattern type_argument_list attribute_list"
        " qualified_name name_colon base_list array_type nullable_type cast_expression.type parameter.type"
        " variable_declaration.type object_creation_expression.type foreach_statement.type declaration_pattern.type"
        " typeof_expression is_pattern_expression constant_pattern"
    ),
    through=kinds("variable_declarator.name variable_declaration"),
    bindings={
        "local_declaration_statement": "rest",
        "for_statement.initializer": "whole",
        "foreach_statement.left": "body",
        "catch_declaration.name": "parent",
        "parameter.name": "quiet",
        "lambda_expression.parameters": "quiet",
    },
    functions=kinds(
        "method_declaration constructor_declaration lambda_expression anonymous_method_expression"
        " local_function_statement operator_declaration destructor_declaration accessor_declaration"
    ),
    positional_kinds=kinds("lambda_expression anonymous_method_expression"),
    blocks=kinds("block for_statement switch_section"),
    scope_walls=kinds("class_declaration struct_declaration"),
    name_readers=kinds(
        "nameof CallerArgumentExpression Assert ThrowIfNull ThrowIfNullOrEmpty ThrowIfNullOrWhiteSpace ThrowIfZero"
        " ThrowIfNegative ThrowIfNegativeOrZero ThrowIfEqual ThrowIfNotEqual ThrowIfGreaterThan ThrowIfLessThan"
        " ThrowIfGreaterThanOrEqual ThrowIfLessThanOrEqual Should"
    ),
    unused_names_matter=True,
    reserved_names=reserved_words.CSHARP,
    special_names=r"_|value|field|var|dynamic|args",
)

PHP = Naming(
    variable_leaves=kinds("variable_name>name"),
    label_leaves=kinds("name"),
    barred=kinds(
        "simple_parameter.name variadic_parameter.name property_promotion_parameter property_element global_declaration"
        " scoped_property_access_expression.name"
    ),
    functions=kinds("function_definition method_declaration anonymous_function arrow_function"),
    name_readers=kinds(
        "extract compact eval include include_once require require_once parse_str get_defined_vars"
        " dynamic_variable_name unset_statement"
    ),
    special_names=r"this|GLOBALS|_[A-Z]+|argc|argv|http_response_header|php_errormsg",
    function_wide=True,
)

NAMING: dict[str, Naming] = {
    "python": PYTHON,
    "javascript": JAVASCRIPT,
    "typescript": TYPESCRIPT,
    "go": GO,
    "rust": RUST,
    "java": JAVA,
    "c": C,
    "cpp": CPP,
    "ruby": RUBY,
    "csharp": CSHARP,
    "php": PHP,
}

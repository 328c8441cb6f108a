"""How each language binds names: the part of the table that says which of them nobody outside a definition can see.

Only what is listed is ever taken for local. What is left out costs a renaming that is not recognised; what is listed
wrongly would call a change of behaviour a renaming. So parameters that callers may name (Python, C#, PHP) are not here,
nor are names that a string, a macro or a framework could mean.
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
"""Where a name that is bound there is visible: in the body of the nearest function (`outer`: that is not this node;
`quiet`: only if it is a function whose parameters nobody names; `unseen`: unless a framework may read them); in the
nearest block (`hoisted`: within a function: elsewhere it leaks to the whole program); in the rest of it; in the node's
own body; in all of the node, or of its parent; in a comprehension, but for what it goes through; to callers as well."""

Kinds: TypeAlias = frozenset[str]


class Naming(Struct, frozen=True, kw_only=True):
    """The names of one language. Edges are written as in `rows`; `parent>kind` is a leaf below that parent.

    `variables` are leaves that name variables, unless the edge they hang on is `fixed`: then they name a member, a
    keyword or a label, which lives apart; leaves in `labels` always do. `poison` edges make every name below them one
    that is not renamed. A target pattern is followed through the edges in `through` to its `bindings`.
    `needs` and `unless`: a child that the binding node must, or must not, have.
    """

    variables: Kinds = frozenset()
    fixed: Kinds = frozenset()
    labels: Kinds = frozenset()
    poison: Kinds = frozenset()
    poison_if: dict[str, str] = {}
    poison_unless: dict[str, str] = {}
    """What the first leaf in a node of that kind has to match: a macro, or a template, may see how names are spelt."""
    through: Kinds = frozenset()
    bindings: dict[str, Scope] = {}
    needs: dict[str, Kinds] = {}
    unless: dict[str, Kinds] = {}
    functions: Kinds = frozenset()
    quiet: Kinds = frozenset()
    quiet_in: Kinds = frozenset()
    blocks: Kinds = frozenset()
    walls: Kinds = frozenset()
    """Kinds inside which names may mean something else."""
    sealed: Kinds = frozenset()
    """Kinds that a binding does not reach out of."""
    comprehensions: Kinds = frozenset()
    dynamic: Kinds = frozenset()
    """Words, or kinds, that reach local names as text."""
    silent: Kinds = frozenset()
    """Kinds of strings that name no local variable, though they say the same word."""
    frames: Kinds = frozenset()
    """Words of what looks for local names in the strings that it is given."""
    dynamic_members: Kinds = frozenset()
    """Methods that reach local names as text, whatever the object."""
    used: bool = False
    """Whether the name of what is never used may be what it is there for."""
    positional: Kinds = frozenset()
    """Functions that pass parameters by position, and look at no names; all do where this is empty."""
    injectors: Kinds = frozenset()
    """Functions that choose what to pass by the names of parameters."""
    titled: Kinds = frozenset()
    """Edges on which a function gets a name that it carries with it."""
    private_uses: Kinds = frozenset()
    """Parents below which a function may stand without being given away, with its name; all are where this is empty."""
    revealing: Kinds = frozenset()
    """Words by which a file finds functions by their names, or tells these."""
    reserved: Kinds = frozenset()
    never: str = r"(?!)"
    """Names that have a meaning of their own."""
    implicit: bool = False
    """Every variable in a function is that function's."""
    lower_case: bool = False
    """A pattern that begins with a capital letter is a constant."""
    private: Literal["underscore", "module", "static", "unmarked", "none"] = "none"
    """Which functions of a file no other file can name."""


kinds = reserved_words.split_words
"""Node kinds, or edges, written in one line."""


PYTHON = Naming(
    variables=kinds("identifier"),
    fixed=kinds("attribute.attribute keyword_argument.name"),
    poison=kinds(
        "import_statement import_from_statement future_import_statement global_statement case_pattern keyword_pattern"
        " type_alias_statement type_parameter"
    ),
    poison_if={"interpolation": "="},
    poison_unless={"string": "[^tT]*"},
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
    quiet=kinds("lambda"),
    quiet_in=kinds("argument_list keyword_argument"),
    walls=kinds("class_definition"),
    sealed=kinds("for_in_clause lambda_parameters typed_parameter"),
    comprehensions=kinds("list_comprehension set_comprehension dictionary_comprehension generator_expression"),
    dynamic=kinds(
        "locals vars eval exec globals dir compile f_locals _getframe currentframe getouterframes ic nameof argname"
        " co_varnames co_freevars co_cellvars getclosurevars"
    ),
    silent=kinds("string string_content"),
    dynamic_members=kinds("sql"),
    frames=kinds(
        "query evaluate re_evaluate execute executemany runctx run timeit repeat ols gls wls glm logit probit mixedlm"
        " dmatrix dmatrices inline from_query sqldf shell"
    ),
    positional=kinds(
        "sorted sort min max map filter reduce groupby takewhile dropwhile filterfalse starmap accumulate nlargest"
        " nsmallest defaultdict sub subn partial bisect_left bisect_right insort"
    ),
    titled=kinds("function_definition.name"),
    private_uses=kinds("call"),
    revealing=kinds("getattr setattr hasattr modules import_module __import__ __dict__ getmembers"),
    reserved=reserved_words.PYTHON,
    never=r"__\w*",
    private="underscore",
)

JAVASCRIPT = Naming(
    variables=kinds("identifier"),
    labels=kinds("property_identifier private_property_identifier statement_identifier"),
    poison=kinds(
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
    needs={"for_in_statement": kinds("const let")},
    functions=kinds(
        "function_declaration function_expression arrow_function method_definition generator_function"
        " generator_function_declaration"
    ),
    blocks=kinds("statement_block for_statement for_in_statement switch_body class_static_block"),
    dynamic=kinds("eval Function with_statement"),
    silent=kinds("string string_fragment"),
    injectors=kinds(
        "controller factory service directive filter config run provider decorator component inject invoke"
    ),
    titled=kinds("function_declaration.name"),
    reserved=reserved_words.SCRIPT,
    never=r"arguments|undefined|NaN|Infinity|require|module|exports|\$\w+",
    private="module",
)
TYPESCRIPT = replace(
    JAVASCRIPT,
    poison=JAVASCRIPT.poison | kinds("ambient_declaration module"),
    bindings={**JAVASCRIPT.bindings, "required_parameter.pattern": "unseen", "optional_parameter.pattern": "unseen"},
    unless={
        "required_parameter": kinds("accessibility_modifier readonly decorator override_modifier"),
        "optional_parameter": kinds("accessibility_modifier readonly decorator override_modifier"),
    },
    functions=JAVASCRIPT.functions
    | kinds("function_type constructor_type function_signature method_signature call_signature"),
)

GO = Naming(
    variables=kinds("identifier"),
    labels=kinds("field_identifier label_name package_identifier"),
    poison=kinds("keyed_element.key"),
    through=kinds("expression_list"),
    bindings={
        "parameter_declaration.name": "function",
        "variadic_parameter_declaration.name": "function",
        "short_var_declaration.left": "rest",
        "var_spec.name": "rest",
        "const_spec.name": "rest",
        "range_clause.left": "rest",
    },
    needs={"range_clause": kinds(":=")},
    functions=kinds("function_declaration method_declaration func_literal function_type method_elem"),
    blocks=kinds(
        "block for_statement if_statement expression_switch_statement type_switch_statement expression_case"
        " default_case type_case communication_case select_statement"
    ),
    silent=kinds("interpreted_string_literal_content raw_string_literal_content"),
    reserved=reserved_words.GO,
    never=r"_|init|main",
)

RUST = Naming(
    variables=kinds("identifier"),
    fixed=kinds("scoped_identifier lifetime label macro_invocation.macro"),
    labels=kinds("field_identifier"),
    poison=kinds("shorthand_field_initializer attribute_item inner_attribute_item use_declaration"),
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
    walls=kinds("function_item impl_item mod_item trait_item macro_definition"),
    dynamic=kinds("stringify dbg concat_idents asm"),
    poison_unless={
        "macro_invocation": "e?print(ln)?|format|write(ln)?|panic|vec|(debug_)?assert_(eq|ne)|matches|todo|unreachable"
        "|unimplemented|format_args|anyhow|bail"
    },
    revealing=kinds("type_name type_name_of_val"),
    reserved=reserved_words.RUST,
    lower_case=True,
    private="unmarked",
)

JAVA = Naming(
    variables=kinds("identifier"),
    fixed=kinds(
        "field_access.field method_invocation.name method_reference labeled_statement break_statement"
        " continue_statement element_value_pair.key marker_annotation.name annotation.name"
    ),
    poison=kinds("scoped_identifier"),
    through=kinds("variable_declarator.name inferred_parameters"),
    bindings={
        "local_variable_declaration.declarator": "rest",
        "formal_parameter.name": "unseen",
        "spread_parameter": "unseen",
        "lambda_expression.parameters": "function",
        "catch_formal_parameter.name": "parent",
        "enhanced_for_statement.name": "body",
    },
    unless={"formal_parameter": kinds("modifiers"), "spread_parameter": kinds("modifiers")},
    functions=kinds("method_declaration constructor_declaration lambda_expression"),
    blocks=kinds("block for_statement switch_block constructor_body"),
    walls=kinds("class_body"),
    silent=kinds("string_fragment"),
    reserved=reserved_words.JAVA,
)

C = Naming(
    variables=kinds("identifier"),
    labels=kinds("field_identifier statement_identifier"),
    poison=kinds("asm_expression gnu_asm_expression preproc_def preproc_function_def preproc_call preproc_if"),
    through=kinds(
        "init_declarator.declarator pointer_declarator.declarator array_declarator.declarator"
        " reference_declarator parenthesized_declarator"
    ),
    bindings={"parameter_declaration.declarator": "function", "declaration.declarator": "rest"},
    unless={"declaration": kinds("storage_class_specifier")},
    functions=kinds("function_definition"),
    blocks=kinds("compound_statement for_statement if_statement while_statement switch_statement case_statement"),
    sealed=kinds("declaration parameter_declaration field_declaration type_definition"),
    poison_unless={
        "call_expression": r"(?!([A-Z_][A-Z0-9_]*|\w*assert\w*|\w*stringify|x?str|dbg|offsetof|container_of"
        r"|\w*for_each\w*|g_return_(val_)?if_fail|\w*unit_test\w*|\w*add_\w*test\w*)$).*"
    },
    dynamic=kinds("preproc_include"),
    revealing=kinds("__func__ __FUNCTION__ __PRETTY_FUNCTION__ dlsym"),
    reserved=reserved_words.C,
    private="static",
)
CPP = replace(
    C,
    poison=C.poison | kinds("qualified_identifier template_function lambda_capture_initializer"),
    bindings={
        **C.bindings,
        "optional_parameter_declaration.declarator": "function",
        "for_range_loop.declarator": "body",
    },
    functions=C.functions | kinds("lambda_expression"),
    blocks=C.blocks | kinds("for_range_loop try_statement catch_clause"),
    walls=kinds("field_declaration_list"),
    sealed=C.sealed | kinds("optional_parameter_declaration template_declaration requires_expression"),
    revealing=C.revealing | kinds("source_location"),
    reserved=reserved_words.CPP,
)

RUBY = Naming(
    variables=kinds("identifier"),
    fixed=kinds("call.method method.name singleton_method.name alias undef"),
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
    walls=kinds("method singleton_method class module singleton_class"),
    dynamic=kinds("binding eval instance_eval class_eval module_eval local_variables"),
    reserved=reserved_words.RUBY,
    never=r"_\d?|it",
)

CSHARP = Naming(
    variables=kinds("identifier implicit_parameter"),
    fixed=kinds("member_access_expression.name member_binding_expression.name labeled_statement goto_statement"),
    poison=kinds(
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
    quiet=kinds("lambda_expression anonymous_method_expression"),
    blocks=kinds("block for_statement switch_section"),
    walls=kinds("class_declaration struct_declaration"),
    dynamic=kinds(
        "nameof CallerArgumentExpression Assert ThrowIfNull ThrowIfNullOrEmpty ThrowIfNullOrWhiteSpace ThrowIfZero"
        " ThrowIfNegative ThrowIfNegativeOrZero ThrowIfEqual ThrowIfNotEqual ThrowIfGreaterThan ThrowIfLessThan"
        " ThrowIfGreaterThanOrEqual ThrowIfLessThanOrEqual Should"
    ),
    used=True,
    reserved=reserved_words.CSHARP,
    never=r"_|value|field|var|dynamic|args",
)

PHP = Naming(
    variables=kinds("variable_name>name"),
    labels=kinds("name"),
    poison=kinds(
        "simple_parameter.name variadic_parameter.name property_promotion_parameter property_element global_declaration"
        " scoped_property_access_expression.name"
    ),
    functions=kinds("function_definition method_declaration anonymous_function arrow_function"),
    dynamic=kinds(
        "extract compact eval include include_once require require_once parse_str get_defined_vars"
        " dynamic_variable_name unset_statement"
    ),
    never=r"this|GLOBALS|_[A-Z]+|argc|argv|http_response_header|php_errormsg",
    implicit=True,
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

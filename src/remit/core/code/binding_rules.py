"""Binding rules of each language: the syntax that binds names visible only inside a definition.

Only listed syntax counts as local. A missing entry costs an unrecognised renaming; a wrong entry would call a change of
behaviour a renaming. Hence parameters that callers may name (Python, C#, PHP), and names that a string, macro or
framework could mean, are not listed.
"""

import re
from typing import Any, Literal, TypeAlias, TypeVar, get_args, get_origin

from msgspec import Struct, convert, structs

from remit.core.python_runtime import prepare_type

Scope: TypeAlias = Literal[
    "function", "unseen", "outer", "quiet", "block", "hoisted", "rest", "body", "whole", "parent", "comprehension",
    "callers",
]  # fmt: skip
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
    """Words that cannot name a local variable everywhere, though a grammar for many versions accepts them; of C also
    names that a library's macros replace.
    """
    special_names: str = r"(?!)"
    """Names with a meaning of their own."""
    function_wide: bool = False
    """Every variable in a function belongs to the function."""
    capitals_are_constants: bool = False
    """Capitalised patterns are constants."""
    private: Literal["underscore", "module", "static", "unmarked", "none"] = "none"
    """Rule for functions that no other file can name."""


T = TypeVar("T", bound=Struct)
ROW = re.compile(r"(\w+)(?: like (\w+))?:")
FIELD = re.compile(r"^ {4}(\w+)(?: (\S+))?:(.*(?:\n {8}.*)*)", re.MULTILINE)


def kinds(text: str) -> Kinds:
    return frozenset(text.split())


def read_rows(kind: type[T], table: str) -> dict[str, T]:
    """Return the rows of a table by name.

    A row begins with `name:`, or with `name like other:` to add to the other's sets and mappings. A field is
    `field: words`, with words `key=value` for a mapping, or `field key: words` for one entry; it goes on in lines that
    are indented further. Bindings are written by scope.
    """
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
            elif container is dict and field == "bindings":
                row[field] = {**row.get(field, {}), **dict.fromkeys(words, key)}
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


NO_NAMING = Naming()
ROWS = r"""
python:
    variable_leaves: identifier
    member_edges: attribute.attribute keyword_argument.name
    barred: import_statement import_from_statement future_import_statement global_statement case_pattern
        keyword_pattern type_alias_statement type_parameter
    barred_if interpolation: =
    barred_unless string: [^tT]*
    through: pattern_list tuple_pattern list_pattern as_pattern_target
    bindings function: assignment.left augmented_assignment.left for_statement.left as_pattern.alias
        named_expression.name list_splat_pattern dictionary_splat_pattern
    bindings outer: function_definition.name
    bindings comprehension: for_in_clause.left
    bindings quiet: lambda_parameters
    bindings callers: parameters default_parameter.name typed_parameter typed_default_parameter.name
    functions: function_definition lambda
    positional_kinds: lambda
    positional_parents: argument_list keyword_argument
    scope_walls: class_definition
    sealed_kinds: for_in_clause lambda_parameters typed_parameter
    comprehensions: list_comprehension set_comprehension dictionary_comprehension generator_expression
    name_readers: locals vars eval exec globals dir compile f_locals _getframe currentframe getouterframes ic
        nameof argname co_varnames co_freevars co_cellvars getclosurevars
    inert_strings: string string_content
    name_reading_methods: sql
    string_readers: query evaluate re_evaluate execute executemany runctx run timeit repeat ols gls wls glm logit
        probit mixedlm dmatrix dmatrices inline from_query sqldf shell
    positional_callers: sorted sort min max map filter reduce groupby takewhile dropwhile filterfalse starmap
        accumulate nlargest nsmallest defaultdict sub subn partial bisect_left bisect_right insort
    naming_edges: function_definition.name
    harmless_parents: call
    name_revealers: getattr setattr hasattr modules import_module __import__ __dict__ getmembers
    special_names: __\w*
    private: underscore
    reserved_names: False None True and as assert async await break class continue def del elif else except finally
        for from global if import in is lambda nonlocal not or pass raise return try while with yield super
javascript:
    variable_leaves: identifier
    label_leaves: property_identifier private_property_identifier statement_identifier
    barred: jsx_opening_element.name jsx_closing_element.name jsx_self_closing_element.name import_statement
        export_clause decorator
    through: variable_declarator.name array_pattern object_pattern pair_pattern.value rest_pattern
        assignment_pattern.left object_assignment_pattern.left
    bindings block: lexical_declaration
    bindings function: variable_declaration
    bindings body: for_in_statement.left catch_clause.parameter
    bindings unseen: formal_parameters arrow_function.parameter
    bindings hoisted: function_declaration.name
    required_children for_in_statement: const let
    functions: function_declaration function_expression arrow_function method_definition generator_function
        generator_function_declaration
    blocks: statement_block for_statement for_in_statement switch_body class_static_block
    name_readers: eval Function with_statement
    inert_strings: string string_fragment
    injectors: controller factory service directive filter config run provider decorator component inject invoke
    naming_edges: function_declaration.name
    reserved_names: arguments as async await break case catch class const continue debugger default delete do else
        enum eval export extends false finally for function get if implements import in instanceof interface let
        new null of package private protected public return set static super switch this throw true try type
        typeof undefined using var void while with yield declare namespace module abstract any unknown never
    special_names: arguments|undefined|NaN|Infinity|require|module|exports|\$\w+
    private: module
typescript like javascript:
    barred: ambient_declaration module
    bindings unseen: required_parameter.pattern optional_parameter.pattern
    excluded_children required_parameter: accessibility_modifier readonly decorator override_modifier
    excluded_children optional_parameter: accessibility_modifier readonly decorator override_modifier
    functions: function_type constructor_type function_signature method_signature call_signature
tsx like typescript:
go:
    variable_leaves: identifier
    label_leaves: field_identifier label_name package_identifier
    barred: keyed_element.key
    through: expression_list
    bindings function: parameter_declaration.name variadic_parameter_declaration.name
    bindings rest: short_var_declaration.left var_spec.name const_spec.name range_clause.left
    required_children range_clause: :=
    functions: function_declaration method_declaration func_literal function_type method_elem
    blocks: block for_statement if_statement expression_switch_statement type_switch_statement expression_case
        default_case type_case communication_case select_statement
    inert_strings: interpreted_string_literal_content raw_string_literal_content
    reserved_names: break case chan const continue default defer else fallthrough for func go goto if import
        interface map package range return select struct switch type var
    special_names: _|init|main
rust:
    variable_leaves: identifier
    member_edges: scoped_identifier lifetime label macro_invocation.macro
    label_leaves: field_identifier
    barred: shorthand_field_initializer attribute_item inner_attribute_item use_declaration
    through: tuple_pattern mut_pattern ref_pattern reference_pattern tuple_struct_pattern. match_pattern.
    bindings rest: let_declaration.pattern
    bindings function: parameter.pattern closure_parameters
    bindings body: for_expression.pattern
    bindings whole: match_arm.pattern
    functions: function_item closure_expression function_signature_item function_type
    blocks: block match_arm
    scope_walls: function_item impl_item mod_item trait_item macro_definition
    name_readers: stringify dbg concat_idents asm
    name_revealers: type_name type_name_of_val
    reserved_names: abstract as async await become box break const continue crate do dyn else enum extern false
        final fn for gen if impl in let loop macro match mod move mut override priv pub ref return self static
        struct super trait true try type typeof union unsafe unsized use virtual where while yield
    capitals_are_constants: yes
    private: unmarked
    barred_unless macro_invocation: e?print(ln)?|format|write(ln)?|panic|vec|(debug_)?assert_(eq|ne)|matches
        |todo|unreachable|unimplemented|format_args|anyhow|bail
java:
    variable_leaves: identifier
    member_edges: field_access.field method_invocation.name method_reference labeled_statement break_statement
        continue_statement element_value_pair.key marker_annotation.name annotation.name
    barred: scoped_identifier
    through: variable_declarator.name inferred_parameters
    bindings rest: local_variable_declaration.declarator
    bindings unseen: formal_parameter.name spread_parameter
    bindings function: lambda_expression.parameters
    bindings parent: catch_formal_parameter.name
    bindings body: enhanced_for_statement.name
    excluded_children formal_parameter: modifiers
    excluded_children spread_parameter: modifiers
    functions: method_declaration constructor_declaration lambda_expression
    blocks: block for_statement switch_block constructor_body
    scope_walls: class_body
    inert_strings: string_fragment
    reserved_names: _ abstract assert boolean break byte case catch char class const continue default do double
        else enum exports extends final finally float for goto if implements import instanceof int interface long
        module native new non null open opens package permits private protected provides public record requires
        return sealed short static strictfp super switch synchronized this throw throws to transient transitive
        true false try uses var void volatile when while with yield
c:
    variable_leaves: identifier
    label_leaves: field_identifier statement_identifier
    barred: asm_expression gnu_asm_expression preproc_def preproc_function_def preproc_call preproc_if
    through: init_declarator.declarator pointer_declarator.declarator array_declarator.declarator
        reference_declarator parenthesized_declarator
    bindings function: parameter_declaration.declarator
    bindings rest: declaration.declarator
    excluded_children declaration: storage_class_specifier
    functions: function_definition
    blocks: compound_statement for_statement if_statement while_statement switch_statement case_statement
    sealed_kinds: declaration parameter_declaration field_declaration type_definition
    name_readers: preproc_include
    name_revealers: __func__ __FUNCTION__ __PRETTY_FUNCTION__ dlsym
    reserved_names: alignas alignof asm auto bool break case char const constexpr continue default do double else
        enum extern false float for goto if inline int long nullptr register restrict return short signed sizeof
        static static_assert struct switch thread_local true typedef typeof typeof_unqual union unsigned void
        volatile while linux unix i386 errno stdin stdout stderr NULL EOF assert offsetof INFINITY NAN I complex
        imaginary major minor makedev va_start va_end va_arg va_copy setjmp near far small interface min max
    private: static
    barred_unless call_expression: (?!([A-Z_][A-Z0-9_]*|\w*assert\w*|\w*stringify|x?str|dbg
        |offsetof|container_of|\w*for_each\w*|g_return_(val_)?if_fail|\w*unit_test\w*|\w*add_\w*test\w*)$).*
cpp like c:
    barred: qualified_identifier template_function lambda_capture_initializer
    bindings function: optional_parameter_declaration.declarator
    bindings body: for_range_loop.declarator
    functions: lambda_expression
    blocks: for_range_loop try_statement catch_clause
    scope_walls: field_declaration_list
    sealed_kinds: optional_parameter_declaration template_declaration requires_expression
    name_revealers: source_location
    reserved_names: and and_eq bitand bitor catch char8_t char16_t char32_t class co_await co_return co_yield
        compl concept consteval constinit const_cast decltype delete dynamic_cast explicit export final friend
        import module mutable namespace new noexcept not not_eq operator or or_eq override private protected
        public reinterpret_cast requires static_cast template this throw try typeid typename using virtual wchar_t
        xor xor_eq
ruby:
    variable_leaves: identifier
    member_edges: call.method method.name singleton_method.name alias undef
    through: left_assignment_list splat_parameter.name rest_assignment destructured_left_assignment
    bindings function: method_parameters block_parameters lambda_parameters optional_parameter.name
        block_parameter.name
    bindings rest: assignment.left for.pattern exception_variable
    functions: method singleton_method block do_block lambda
    blocks: method singleton_method block do_block lambda
    scope_walls: method singleton_method class module singleton_class
    name_readers: binding eval instance_eval class_eval module_eval local_variables
    reserved_names: BEGIN END __ENCODING__ __FILE__ __LINE__ __method__ __callee__ __dir__ __id__ __send__ alias
        and begin block_given? break case class def defined? do else elsif end ensure false for if in loop module
        next nil not or redo rescue raise retry return self super then true undef unless until when while yield
        lambda proc binding it
    special_names: _\d?|it
csharp:
    variable_leaves: identifier implicit_parameter
    member_edges: member_access_expression.name member_binding_expression.name labeled_statement goto_statement
    barred: argument.name initializer_expression tuple_expression anonymous_object_creation_expression
        with_expression query_expression subpattern property_pattern_clause recursive_pattern type_argument_list
        attribute_list qualified_name name_colon base_list array_type nullable_type cast_expression.type
        parameter.type variable_declaration.type object_creation_expression.type foreach_statement.type
        declaration_pattern.type typeof_expression is_pattern_expression constant_pattern
    through: variable_declarator.name variable_declaration
    bindings rest: local_declaration_statement
    bindings whole: for_statement.initializer
    bindings body: foreach_statement.left
    bindings parent: catch_declaration.name
    bindings quiet: parameter.name lambda_expression.parameters
    functions: method_declaration constructor_declaration lambda_expression anonymous_method_expression
        local_function_statement operator_declaration destructor_declaration accessor_declaration
    positional_kinds: lambda_expression anonymous_method_expression
    blocks: block for_statement switch_section
    scope_walls: class_declaration struct_declaration
    name_readers: nameof CallerArgumentExpression Assert ThrowIfNull ThrowIfNullOrEmpty ThrowIfNullOrWhiteSpace
        ThrowIfZero ThrowIfNegative ThrowIfNegativeOrZero ThrowIfEqual ThrowIfNotEqual ThrowIfGreaterThan
        ThrowIfLessThan ThrowIfGreaterThanOrEqual ThrowIfLessThanOrEqual Should
    unused_names_matter: yes
    reserved_names: abstract as base bool break byte case catch char checked class const continue decimal default
        delegate do double else enum event explicit extern false finally fixed float for foreach goto if implicit
        in int interface internal is lock long namespace new null object operator out override params private
        protected public readonly ref return sbyte sealed short sizeof stackalloc static string struct switch this
        throw true try typeof uint ulong unchecked unsafe ushort using virtual void volatile while add and alias
        ascending async await by descending dynamic equals extension field file from get global group init into
        join let managed nameof nint not notnull nuint on or orderby partial record remove required scoped select
        set unmanaged value var when where with yield _
    special_names: _|value|field|var|dynamic|args
php:
    variable_leaves: variable_name>name
    label_leaves: name
    barred: simple_parameter.name variadic_parameter.name property_promotion_parameter property_element
        global_declaration scoped_property_access_expression.name
    functions: function_definition method_declaration anonymous_function arrow_function
    name_readers: extract compact eval include include_once require require_once parse_str get_defined_vars
        dynamic_variable_name unset_statement
    special_names: this|GLOBALS|_[A-Z]+|argc|argv|http_response_header|php_errormsg
    function_wide: yes
"""
NAMING = read_rows(Naming, ROWS)

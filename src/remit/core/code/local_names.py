"""Local names: identifiers that a definition may exchange, one to one, without changing what it does.

A name is local if the definition binds it, each of its places lies in a scope that binds it, and its letters stand
nowhere else in the definition: in no member, key, type, string or unknown macro. What no table here lists is not local;
a missing entry costs an unrecognised renaming, a wrong one would call a change of behaviour a renaming.
"""

import re
from bisect import bisect_left
from collections.abc import Iterable, Sequence
from functools import cache

from remit.core.code.flat_tree import FlatNode
from remit.core.code.grammars import grammar_of
from remit.core.code.languages import Language, kinds

BINDERS = kinds("""
    assignment.left augmented_assignment.left for_statement.left as_pattern.alias named_expression.name
    for_in_clause.left lexical_declaration variable_declaration for_in_statement.left catch_clause.parameter
    formal_parameters arrow_function.parameter required_parameter.pattern optional_parameter.pattern
    parameter_declaration.name variadic_parameter_declaration.name short_var_declaration.left var_spec.name
    const_spec.name range_clause.left let_declaration.pattern parameter.pattern closure_parameters
    for_expression.pattern match_arm.pattern local_variable_declaration.declarator formal_parameter.name
    spread_parameter lambda_expression.parameters catch_formal_parameter.name enhanced_for_statement.name
    parameter_declaration.declarator declaration.declarator optional_parameter_declaration.declarator
    for_range_loop.declarator method_parameters block_parameters optional_parameter.name block_parameter.name
    for.pattern exception_variable foreach_statement.left catch_declaration.name list_splat_pattern
    dictionary_splat_pattern variable_name
""")
"""Nodes, and edges written as in `languages`, that bind the names in them."""
TARGETS = kinds("""
    pattern_list tuple_pattern list_pattern as_pattern_target variable_declarator.name array_pattern object_pattern
    pair_pattern.value rest_pattern assignment_pattern.left object_assignment_pattern.left expression_list mut_pattern
    ref_pattern reference_pattern tuple_struct_pattern. match_pattern. inferred_parameters init_declarator.declarator
    pointer_declarator.declarator array_declarator.declarator reference_declarator parenthesized_declarator
    left_assignment_list splat_parameter.name rest_assignment destructured_left_assignment
""")
"""Parts of a pattern, between a binder and the names."""
WALLED_MARKS = kinds("accessibility_modifier readonly decorator override_modifier modifiers storage_class_specifier")
"""Children of a binder that binds for others too."""
DECLARING_MARKS = {"for_in_statement": {"const", "let"}, "range_clause": {":="}}
"""Children without which a loop assigns to a name that exists."""
COMPREHENSIONS = kinds("list_comprehension set_comprehension dictionary_comprehension generator_expression")
FUNCTIONS = kinds("""
    function_definition lambda function_declaration function_expression arrow_function method_definition
    generator_function generator_function_declaration method_declaration func_literal function_item
    closure_expression lambda_expression method singleton_method anonymous_method_expression
    local_function_statement anonymous_function operator_declaration destructor_declaration accessor_declaration
""")
LOOPS = kinds("""
    for_in_statement catch_clause for_range_loop enhanced_for_statement foreach_statement for_expression
""")
"""Nodes other than functions that bind a name in their body."""
WIDE_SCOPES = kinds("function_definition method_declaration anonymous_function") | COMPREHENSIONS
"""Scopes of Python and PHP."""
BLOCKS = kinds("""
    block do_block statement_block for_statement switch_body class_static_block if_statement expression_switch_statement
    type_switch_statement expression_case default_case type_case communication_case select_statement match_arm
    switch_block constructor_body compound_statement while_statement switch_statement case_statement try_statement
    switch_section
""")
SCOPES = FUNCTIONS | LOOPS | BLOCKS
SEALS = kinds("""
    declaration type_definition field_declaration template_declaration requires_expression parameter_declaration
    optional_parameter_declaration typed_parameter
""")
"""Nodes that no binding in them reaches out of."""
EXPOSED_EDGES = kinds("""
    attribute.attribute keyword_argument.name scoped_identifier. scoped_identifier.name scoped_identifier.path
    macro_invocation.macro field_access.field method_invocation.name call.method method.name singleton_method.name
    element_value_pair.key marker_annotation.name annotation.name member_access_expression.name
    member_binding_expression.name argument.name cast_expression.type parameter.type parameter.name
    variable_declaration.type object_creation_expression.type foreach_statement.type declaration_pattern.type
    simple_parameter.name variadic_parameter.name scoped_property_access_expression.name jsx_opening_element.name
    jsx_closing_element.name jsx_self_closing_element.name parameters. default_parameter.name typed_parameter.
    typed_default_parameter.name function_definition.name class_definition.name function_declaration.name
    type_conversion_expression.type
""")
EXPOSED_KINDS = kinds("""
    import_statement import_from_statement future_import_statement global_statement case_pattern keyword_pattern
    type_alias_statement type_parameter export_clause decorator ambient_declaration module shorthand_field_initializer
    attribute_item inner_attribute_item use_declaration lifetime label labeled_statement break_statement
    continue_statement goto_statement asm_expression gnu_asm_expression preproc_def preproc_function_def preproc_call
    preproc_if qualified_identifier template_function lambda_capture_initializer alias undef initializer_expression
    anonymous_object_creation_expression with_expression query_expression subpattern
    property_pattern_clause recursive_pattern type_argument_list attribute_list qualified_name name_colon base_list
    array_type nullable_type typeof_expression is_pattern_expression constant_pattern property_promotion_parameter
    property_element global_declaration lambda_parameters method_reference keyed_element.key
""")
"""Places that give a name a further meaning, or where others can say it."""
WALLS = kinds("""
    class_definition impl_item mod_item trait_item macro_definition class_body field_declaration_list class
    singleton_class class_declaration struct_declaration method singleton_method function_item
""")
"""Nodes in which a name may mean something else, unless they are the definition itself."""
ARGUMENTS = kinds("arguments argument_list token_tree")
MACRO_SIGNS = frozenset({".", "=", ":", "::", "!", "=>", "'", "$"})
"""Signs beside a word in a macro of Rust that make it a member, a path or a key."""
SPECIAL_NAME = re.compile(r"__\w*|_\d?|\$\w+|_?[A-Z]\w*")
PLAIN_SPELLING = re.compile(r"[\w$]+[?!]?", re.ASCII)
WORD = re.compile(r"\w+")
Span = tuple[int, int]


@cache
def list_reserved_words(name: str) -> frozenset[str]:
    grammar = grammar_of(name)
    if grammar is None:
        return frozenset()
    words = (grammar.node_kind_for_id(n) for n in range(grammar.node_kind_count) if not grammar.node_kind_is_named(n))
    return frozenset(filter(None, words))


def local_names(nodes: Sequence[FlatNode], language: Language, hidden: frozenset[str] = frozenset()) -> dict[int, str]:
    """Return a number for each local name, by node index, in order of first occurrence.

    Numbers begin with NUL, unlike any name. `hidden` are words with a meaning outside the nodes, as in macros.
    """
    tree = NameTree(nodes, language, hidden)
    exposed = set(hidden | language.reserved_words | list_reserved_words(language.name))
    places: dict[str, list[int]] = {}
    reach: dict[str, set[Span]] = {}
    for at, node in enumerate(nodes):
        if not language.name_readers.isdisjoint((node.text, node.kind)):
            return {}
        if not node.leaf:
            continue
        if not tree.is_plain(at):
            exposed.update(WORD.findall(node.text))
            continue
        if not PLAIN_SPELLING.fullmatch(node.text):
            # Two spellings may be one name.
            return {}
        places.setdefault(node.text, []).append(at)
        binder = tree.find_binder(at)
        if binder >= 0:
            spans = tree.find_reach(binder)
            if not spans:
                exposed.add(node.text)
            own = () if nodes[binder].kind == "variable_name" else [(node.start, node.end)]
            reach.setdefault(node.text, set()).update([*own, *spans])
    local = (
        name
        for name, indices in places.items()
        if name in reach
        and name not in exposed
        and not SPECIAL_NAME.fullmatch(name)
        and not (language.unused_names_matter and len(indices) == 1)
        and is_covered([nodes[at].start for at in indices], reach[name])
    )
    return {at: f"\0{number}" for number, name in enumerate(local) for at in places[name]}


def is_covered(positions: Sequence[int], spans: Iterable[Span]) -> bool:
    """Return whether each of the ascending positions lies in a span."""
    ordered, end = sorted(spans, reverse=True), -1
    for position in positions:
        while ordered and ordered[-1][0] <= position:
            end = max(end, ordered.pop()[1])
        if position >= end:
            return False
    return True


class NameTree:
    """The nodes of a definition, with their children, and whether names in them may be seen from elsewhere."""

    def __init__(self, nodes: Sequence[FlatNode], language: Language, hidden: frozenset[str]) -> None:
        self.nodes, self.language, self.hidden = nodes, language, hidden
        self.exposed_kinds = EXPOSED_KINDS | language.exposed_kinds
        self.children: dict[int, list[int]] = {}
        self.exposed: list[bool] = []
        self.scopes: list[int] = []
        self.in_function: list[bool] = []
        scopes = WIDE_SCOPES if language.function_wide else SCOPES
        for at, node in enumerate(nodes):
            self.children.setdefault(node.parent, []).append(at)
            exposed, around, in_function = False, -1, False
            if node.parent >= 0:
                exposed, in_function = self.exposed[node.parent], self.in_function[node.parent]
                around = -1 if nodes[node.parent].kind in SEALS else self.scopes[node.parent]
            self.exposed.append(exposed or self.is_exposing(at))
            self.scopes.append(at if node.kind in scopes else around)
            self.in_function.append(in_function or node.kind in FUNCTIONS or node.kind == "constructor_declaration")

    def edge(self, at: int) -> str:
        node = self.nodes[at]
        return f"{self.nodes[node.parent].kind}.{node.field}" if node.parent >= 0 else ""

    def is_exposing(self, at: int) -> bool:
        node = self.nodes[at]
        if not self.exposed_kinds.isdisjoint((node.kind, self.edge(at))):
            return True
        if at > 0 and node.kind in WALLS:
            return True
        if node.kind not in ARGUMENTS or node.parent < 0 or self.nodes[node.parent].kind == node.kind:
            return False
        mark = self.nodes[at - 1].text
        callee = self.nodes[at - 2].text if mark == "!" else mark
        known = re.fullmatch(self.language.exposing_calls, callee + "!" * (mark == "!")) is None
        return callee in self.hidden or not known

    def is_plain(self, at: int) -> bool:
        """Return whether a leaf names a variable, and nothing else."""
        node = self.nodes[at]
        parent = self.nodes[node.parent] if node.parent >= 0 else node
        is_php = node.kind == "name" and parent.kind == "variable_name"
        if not (is_php or node.kind == "identifier") or self.exposed[at]:
            return False
        if parent.kind == "token_tree":
            siblings = self.children[node.parent]
            index = bisect_left(siblings, at)
            return MACRO_SIGNS.isdisjoint(self.nodes[n].text for n in siblings[max(index - 1, 0) : index + 2])
        return self.edge(node.parent if is_php else at) not in EXPOSED_EDGES

    def find_binder(self, at: int) -> int:
        """Return the node that binds the name at this leaf, or -1."""
        while (parent := self.nodes[at].parent) >= 0:
            edge, kind = self.edge(at), self.nodes[parent].kind
            if not BINDERS.isdisjoint((edge, kind)):
                marks = {word for c in self.children[parent] for word in (self.nodes[c].kind, self.nodes[c].text)}
                return parent if marks & DECLARING_MARKS.get(kind, marks) else -1
            if TARGETS.isdisjoint((edge, kind)):
                return -1
            at = parent
        return -1

    def find_reach(self, binder: int) -> list[Span]:
        """Return the spans in which a name bound here is visible; none if it is visible outside the definition."""
        nodes, is_wide = self.nodes, self.language.function_wide
        if any(nodes[child].kind in WALLED_MARKS for child in self.children[binder]):
            return []
        scope = self.scopes[binder]
        # Outside functions JavaScript's `var` belongs to the whole program.
        is_global = nodes[binder].kind == "variable_declaration" and not self.in_function[binder]
        if scope < 0 or is_global:
            return []
        since = 0 if is_wide or scope == binder else nodes[binder].end
        parts = [nodes[scope]]
        if nodes[scope].kind in FUNCTIONS | LOOPS:
            parts = [nodes[child] for child in self.children[scope] if nodes[child].field == "body"]
        if nodes[scope].kind in COMPREHENSIONS:
            # The iterables belong to the scope around.
            clauses = [c for c in self.children[scope] if nodes[c].kind == "for_in_clause"]
            rights = [nodes[r] for c in clauses for r in self.children[c] if nodes[r].field == "right"]
            edges = [nodes[scope].start, *(end for r in rights for end in (r.start, r.end)), nodes[scope].end]
            return list(zip(edges[::2], edges[1::2], strict=True))
        return [(max(part.start, since), part.end) for part in parts if since < part.end]

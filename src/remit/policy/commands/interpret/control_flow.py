"""What runs one after the other, beside each other, several times, or only in one case."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from remit.policy.commands.interpret.interpreter import SYNTAX_TOKENS, CommandProof, Interpreter
from remit.policy.commands.interpret.redirects import REDIRECT_NODES, interpret_with_redirects
from remit.policy.commands.interpret.shell_state import ShellState, loop_value, merge_states
from remit.policy.commands.interpret.simple_commands import check_variable_name, read_pattern
from remit.policy.commands.parse.words import UnprovedCommand, Word, node_source

if TYPE_CHECKING:
    from tree_sitter import Node

MAX_UNROLLED = 32
"""Words of a loop's list that are each gone through."""


def interpret_subshell(shell: Interpreter, node: "Node") -> CommandProof:
    """`( … )`: nothing that it sets lasts."""
    with shell.subshell():
        return shell.interpret_block(node)


def interpret_negation(shell: Interpreter, node: "Node") -> CommandProof:
    """`! …`"""
    proof = shell.interpret_block(node)
    shell.merge_failure()
    return proof


def interpret_list(shell: Interpreter, node: "Node", redirects: Sequence["Node"] = ()) -> CommandProof:
    """`a && b`, `a || b`. A redirect that the grammar gives to the whole is the last command's."""
    match shell.text.children(node):
        case [left, sign, right] if sign.type in ("&&", "||"):
            pass
        case _:
            raise UnprovedCommand(f"{node_source(node)[:60]!r} is not understood")
    shell.text.check_start(sign, right)
    proof = shell.interpret(left)
    succeeded, failed = shell.state, shell.failed_state or shell.state
    shell.state = succeeded if sign.type == "&&" else shell.failed_state or shell.state_before_cd or shell.state
    proof += interpret_with_redirects(shell, right, redirects) if redirects else shell.interpret(right)
    if sign.type == "&&":
        shell.failed_state = merge_states(failed, shell.failed_state or shell.state)
    else:
        shell.state, shell.failed_state = merge_states(succeeded, shell.state), shell.failed_state or shell.state
    return proof


def interpret_pipeline(shell: Interpreter, node: "Node", redirects: Sequence["Node"] = ()) -> CommandProof:
    """Each part in a shell of its own, fed by the one before; but zsh runs the last one itself.

    A redirect that the grammar gives to the whole is the last part's.
    """
    proof = CommandProof()
    before: Node | None = None
    lists = shell.input_lines
    end = shell.state
    parts = shell.text.children(node)
    for child in parts:
        if child.is_named:
            shell.text.check_start(before, child)
            with shell.subshell():
                shell.input_lines = lists
                last = child == parts[-1] and redirects
                proof += interpret_with_redirects(shell, child, redirects) if last else shell.interpret(child)
                lists = shell.output_lines if is_single_command(child) else None
                end = shell.state
        elif child.type not in ("|", "|&"):
            raise UnprovedCommand(f"{child.type!r} in a pipeline is not on the tables")
        before = child
    shell.state = merge_states(shell.state, end)
    return proof


def interpret_if(shell: Interpreter, node: "Node") -> CommandProof:
    """`if … then … elif … else … fi`: any of the branches, or none."""
    proof = CommandProof()
    parts: list[list[Node]] = [[]]
    for child in shell.text.children(node):
        if child.type in ("then", "else"):
            parts.append([])
        elif child.type in ("elif_clause", "else_clause"):
            parts.append([child])
        elif child.type not in ("if", "elif", "fi"):
            parts[-1].append(child)
    ends: list[ShellState] = []
    proof += shell.interpret_statements(parts[0], node)
    shell.merge_failure()
    start = shell.state
    for part in parts[1:]:
        shell.state = start
        proof += shell.interpret_statements(part, node)
        shell.merge_failure()
        ends.append(shell.state)
    shell.state = start
    for end in ends:
        shell.state = merge_states(shell.state, end)
    return proof


def interpret_while(shell: Interpreter, node: "Node") -> CommandProof:
    """`while … do … done`, and `until`."""
    children = shell.text.children(node)
    return shell.repeat(lambda: shell.interpret_statements(children, node))


def interpret_for(shell: Interpreter, node: "Node") -> CommandProof:
    """`for name in words; do …; done`."""
    children = shell.text.children(node)
    named = [child for child in children if child.type == "variable_name"]
    tokens = [child.type for child in children if not child.is_named]
    bodies = [child for child in children if child.type == "do_group"]
    if len(named) != 1 or len(bodies) != 1 or not {*tokens} <= {"for", "in", ";"}:
        raise UnprovedCommand(f"{node_source(node)[:60]!r} is not on the tables")
    name = node_source(named[0])
    check_variable_name(shell, name)
    values = [c for c in children if c.is_named and c not in (*named, *bodies)]
    words = [word for child in shell.text.check_separated(values) for word in shell.read_words(child)]
    proof = shell.interpret_substitutions(words)
    rounds = [loop_value(word) for word in words] if len(words) <= MAX_UNROLLED else []
    if not rounds or None in rounds:
        return proof + shell.repeat(lambda: interpret_round(shell, name, None, bodies[0]))
    ends: list[ShellState] = []
    for value in rounds:
        several = value is not None and not value.is_literal
        proof += shell.repeat(lambda v=value: interpret_round(shell, name, v, bodies[0]), once=not several)
        ends.append(shell.state)
    for end in ends:
        shell.state = merge_states(shell.state, end)
    return proof


def interpret_round(shell: Interpreter, name: str, value: Word | None, body: "Node") -> CommandProof:
    """Once through a loop."""
    shell.state = shell.state.assign(name, value)
    return shell.interpret_block(body)


def interpret_case(shell: Interpreter, node: "Node") -> CommandProof:
    """`case … esac`: any of its parts, or none."""
    proof = CommandProof()
    ends: list[ShellState] = []
    start = shell.state
    for child in shell.text.children(node):
        if child.type == "case_item":
            shell.state = start
            proof += interpret_case_item(shell, child)
            shell.merge_failure()
            ends.append(shell.state)
        elif child.is_named and child.type != "comment":
            proof += shell.interpret_substitutions((shell.read_word(child),))
            start = shell.state
        elif child.type not in ("case", "in", "esac", ";"):
            raise UnprovedCommand(f"{node_source(node)[:60]!r} is not on the tables")
    shell.state = start
    for end in ends:
        shell.state = merge_states(shell.state, end)
    return proof


def interpret_case_item(shell: Interpreter, node: "Node") -> CommandProof:
    """One part of it."""
    proof = CommandProof()
    before: Node | None = None
    for index, child in enumerate(shell.text.children(node)):
        if node.field_name_for_child(index) == "value":
            proof += interpret_case_pattern(shell, child)
        elif child.is_named:
            shell.text.check_start(before, child)
            shell.merge_failure()
            proof += shell.interpret(child)
        elif child.type not in SYNTAX_TOKENS | {";;"}:
            raise UnprovedCommand(f"{child.type!r} is not on the tables")
        before = child
    return proof


def interpret_case_pattern(shell: Interpreter, node: "Node") -> CommandProof:
    """What stands before its `)`."""
    if node.type == "extglob_pattern":
        read_pattern(node)
        return CommandProof()
    return shell.interpret_substitutions((shell.read_word(node),))


def check_comment(shell: Interpreter, node: "Node") -> CommandProof:
    """Nothing, where it is one."""
    shell.text.check_comment(node)
    return CommandProof()


def interpret_redirected(shell: Interpreter, node: "Node") -> CommandProof:
    """A statement with redirects, which the grammar may have given to more than their own."""
    children = shell.text.children(node)
    body = [child for child in children if child.type not in REDIRECT_NODES]
    redirects = [child for child in children if child.type in REDIRECT_NODES]
    if len(body) == 1 and body[0].type in ("list", "pipeline"):
        several = interpret_list if body[0].type == "list" else interpret_pipeline
        return several(shell, body[0], redirects)
    if len(body) > 1:
        raise UnprovedCommand(f"{node_source(node)[:60]!r} is not understood")
    return interpret_with_redirects(shell, body[0], redirects) if body else shell.interpret_all(redirects)


def is_single_command(node: "Node") -> bool:
    """Whether it is one command, so that its output is that command's."""
    first = node.children[0] if node.type == "redirected_statement" and node.children else node
    return first.type == "command"

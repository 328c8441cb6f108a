"""Control flow: lists, pipelines, branches, loops, and redirects of whole statements."""

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
"""Words of a loop's list that are each interpreted."""


def interpret_subshell(shell: Interpreter, node: "Node") -> CommandProof:
    """Interpret `( … )`, whose settings do not last."""
    with shell.subshell():
        return shell.interpret_block(node)


def interpret_negation(shell: Interpreter, node: "Node") -> CommandProof:
    proof = shell.interpret_block(node)
    shell.merge_failure()
    return proof


def interpret_list(shell: Interpreter, node: "Node", redirects: Sequence["Node"] = ()) -> CommandProof:
    """Interpret `a && b` and `a || b`. A redirect that the grammar gives to the list belongs to the last command."""
    match shell.text.children(node):
        case [left, sign, right] if sign.type in ("&&", "||"):
            pass
        case _:
            raise UnprovedCommand(f"{node_source(node)[:60]!r} is not understood")
    shell.text.check_start(sign, right)
    proof = shell.interpret(left)
    succeeded, failed = shell.state, shell.failed_state or shell.state
    if sign.type == "||":
        shell.state = shell.failed_state or shell.state_before_cd or shell.state
    proof += interpret_with_redirects(shell, right, redirects) if redirects else shell.interpret(right)
    if sign.type == "&&":
        shell.failed_state = merge_states(failed, shell.failed_state or shell.state)
    else:
        shell.state, shell.failed_state = merge_states(succeeded, shell.state), shell.failed_state or shell.state
    return proof


def interpret_pipeline(shell: Interpreter, node: "Node", redirects: Sequence["Node"] = ()) -> CommandProof:
    """Interpret each part in a shell of its own, fed by the part before; zsh runs the last part in the shell itself.

    A redirect that the grammar gives to the pipeline belongs to the last part.
    """
    proof = CommandProof()
    before: Node | None = None
    lines = shell.input_lines
    end = shell.state
    parts = shell.text.children(node)
    for child in parts:
        if child.is_named:
            shell.text.check_start(before, child)
            with shell.subshell():
                shell.input_lines = lines
                is_last = child == parts[-1]
                if is_last and redirects:
                    proof += interpret_with_redirects(shell, child, redirects)
                else:
                    proof += shell.interpret(child)
                lines = shell.output_lines if is_single_command(child) else None
                end = shell.state
        elif child.type not in ("|", "|&"):
            raise UnprovedCommand(f"{child.type!r} in a pipeline is not on the tables")
        before = child
    shell.state = merge_states(shell.state, end)
    return proof


def is_single_command(node: "Node") -> bool:
    """Return True for one command, whose output is the output of the node."""
    first = node.children[0] if node.type == "redirected_statement" and node.children else node
    return first.type == "command"


def merge_ends(shell: Interpreter, start: ShellState, ends: Sequence[ShellState]) -> None:
    shell.state = start
    for end in ends:
        shell.state = merge_states(shell.state, end)


def interpret_if(shell: Interpreter, node: "Node") -> CommandProof:
    """Interpret `if … then … elif … else … fi`: any of the branches runs, or none."""
    parts: list[list[Node]] = [[]]
    for child in shell.text.children(node):
        if child.type in ("then", "else"):
            parts.append([])
        elif child.type in ("elif_clause", "else_clause"):
            parts.append([child])
        elif child.type not in ("if", "elif", "fi"):
            parts[-1].append(child)
    proof = shell.interpret_statements(parts[0], node)
    shell.merge_failure()
    start = shell.state
    ends: list[ShellState] = []
    for part in parts[1:]:
        shell.state = start
        proof += shell.interpret_statements(part, node)
        shell.merge_failure()
        ends.append(shell.state)
    merge_ends(shell, start, ends)
    return proof


def interpret_while(shell: Interpreter, node: "Node") -> CommandProof:
    children = shell.text.children(node)
    return shell.repeat(lambda: shell.interpret_statements(children, node))


def interpret_for(shell: Interpreter, node: "Node") -> CommandProof:
    """Interpret `for name in words; do …; done`, round by round if all words are known."""
    children = shell.text.children(node)
    names = [child for child in children if child.type == "variable_name"]
    tokens = [child.type for child in children if not child.is_named]
    bodies = [child for child in children if child.type == "do_group"]
    if len(names) != 1 or len(bodies) != 1 or not {*tokens} <= {"for", "in", ";"}:
        raise UnprovedCommand(f"{node_source(node)[:60]!r} is not on the tables")
    name = node_source(names[0])
    check_variable_name(name)
    values = [child for child in children if child.is_named and child not in (*names, *bodies)]
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
    merge_ends(shell, shell.state, ends)
    return proof


def interpret_round(shell: Interpreter, name: str, value: Word | None, body: "Node") -> CommandProof:
    shell.state = shell.state.assign(name, value)
    return shell.interpret_block(body)


def interpret_case(shell: Interpreter, node: "Node") -> CommandProof:
    """Interpret `case … esac`: any of the items runs, or none."""
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
    merge_ends(shell, start, ends)
    return proof


def interpret_case_item(shell: Interpreter, node: "Node") -> CommandProof:
    """Interpret the pattern and the statements of one item."""
    proof = CommandProof()
    before: Node | None = None
    for index, child in enumerate(shell.text.children(node)):
        if node.field_name_for_child(index) == "value":
            if child.type == "extglob_pattern":
                read_pattern(child)
            else:
                proof += shell.interpret_substitutions((shell.read_word(child),))
        elif child.is_named:
            shell.text.check_start(before, child)
            shell.merge_failure()
            proof += shell.interpret(child)
        elif child.type not in SYNTAX_TOKENS | {";;"}:
            raise UnprovedCommand(f"{child.type!r} is not on the tables")
        before = child
    return proof


def check_comment(shell: Interpreter, node: "Node") -> CommandProof:
    """Return an empty proof for a comment. Raises UnprovedCommand where bash sees none."""
    shell.text.check_comment(node)
    return CommandProof()


def interpret_redirected(shell: Interpreter, node: "Node") -> CommandProof:
    """Interpret a statement with redirects, which the grammar may have given to more than their own command."""
    children = shell.text.children(node)
    body = [child for child in children if child.type not in REDIRECT_NODES]
    redirects = [child for child in children if child.type in REDIRECT_NODES]
    if not body:
        return shell.interpret_all(redirects)
    if len(body) > 1:
        raise UnprovedCommand(f"{node_source(node)[:60]!r} is not understood")
    if body[0].type == "list":
        return interpret_list(shell, body[0], redirects)
    if body[0].type == "pipeline":
        return interpret_pipeline(shell, body[0], redirects)
    return interpret_with_redirects(shell, body[0], redirects)

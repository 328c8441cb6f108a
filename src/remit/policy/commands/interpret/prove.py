"""The proof of a command's effects by the syntax tree: all nodes must be known.

Of branches with an unknown condition, each is interpreted.
"""

from msgspec.structs import replace

from remit.policy.commands.interpret import control_flow, redirects, simple_commands
from remit.policy.commands.interpret.interpreter import Budget, CommandProof, Handlers, Interpreter, interpret_tree
from remit.policy.commands.interpret.shell_state import ShellState
from remit.policy.commands.parse.command import parse_command
from remit.policy.commands.parse.syntax_tree import unmask_text
from remit.policy.commands.parse.words import HOME_MARK, START_MARK, UnprovedCommand, node_source
from remit.policy.commands.programs.effects import check_links

NODE_HANDLERS: Handlers = {
    **dict.fromkeys(
        ("program", "compound_statement", "do_group", "else_clause", "variable_assignments"),
        Interpreter.interpret_block,
    ),
    "subshell": control_flow.interpret_subshell,
    "negated_command": control_flow.interpret_negation,
    "list": control_flow.interpret_list,
    "pipeline": control_flow.interpret_pipeline,
    "if_statement": control_flow.interpret_if,
    "elif_clause": control_flow.interpret_if,
    "while_statement": control_flow.interpret_while,
    "for_statement": control_flow.interpret_for,
    "case_statement": control_flow.interpret_case,
    "function_definition": simple_commands.define_function,
    "comment": control_flow.check_comment,
    "command": simple_commands.interpret_command,
    "redirected_statement": control_flow.interpret_redirected,
    "file_redirect": redirects.interpret_file_redirect,
    "herestring_redirect": redirects.interpret_herestring,
    "heredoc_redirect": redirects.interpret_heredoc,
    "variable_assignment": simple_commands.interpret_assignment,
    "declaration_command": simple_commands.interpret_declaration,
    "test_command": simple_commands.interpret_condition,
}


def prove_command(text: str) -> CommandProof:
    """Return the proved effects of `text`, which must be free of control characters. Raises UnprovedCommand."""
    command = parse_command(text)
    proof = interpret_tree(command.tree, command.masked, ShellState(), 0, NODE_HANDLERS, Budget())
    writes = tuple(dict.fromkeys(proof.writes))
    check_links(writes)
    return replace(proof, writes=writes)


def literal_simple_command(text: str) -> tuple[str, ...] | None:
    """Return the words of a text that is one simple command of literal words; None for other texts."""
    parsed = parse_command(text)
    command = parsed.tree.children[0] if parsed.tree.child_count == 1 else None
    if command is None or command.type != "command" or node_source(command) != parsed.masked.strip(" \t\n"):
        return None
    if any(child.type in simple_commands.NON_WORD_NODES for child in command.children):
        return None
    try:
        interpreter = Interpreter(parsed.masked.encode(), 0, ShellState(), NODE_HANDLERS, Budget())
        words = simple_commands.command_words(interpreter, command)
    except UnprovedCommand:
        return None
    if len(words) != len(command.children):  # braces became several words
        return None
    if not all(word.is_literal and HOME_MARK not in word.text and START_MARK not in word.text for word in words):
        return None
    return tuple(unmask_text(word.text) for word in words)

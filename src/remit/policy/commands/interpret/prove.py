"""What is proved of a command by a walk over its syntax tree: every node must be known, or nothing is.

The walk runs the text as far as the text tells: it follows the folder, the variables and the functions, takes both ways
where the text does not tell which, and collects what each simple command reads and writes.
"""

from msgspec.structs import replace

from remit.policy.commands.interpret import control_flow, redirects, simple_commands
from remit.policy.commands.interpret.interpreter import Budget, CommandProof, Handlers, Interpreter, interpret_text
from remit.policy.commands.interpret.shell_state import ShellState
from remit.policy.commands.parse.syntax_tree import mask_text, parse_tree, unmask_text
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
    """What is proved of `text`, which must be free of control characters; raises Refused."""
    proof = interpret_text(mask_text(text), ShellState(), 0, NODE_HANDLERS, Budget())
    writes = tuple(dict.fromkeys(proof.writes))
    check_links(writes)
    return replace(proof, writes=writes)


def literal_simple_command(text: str) -> tuple[str, ...] | None:
    """The words of `text` when all of it is one simple command of literal words, else None."""
    text = mask_text(text)
    root = parse_tree(text)
    if root.child_count != 1 or node_source(root.children[0]) != text.strip(" \t\n"):
        return None
    if root.children[0].type != "command" or any(
        child.type in simple_commands.NON_WORD_NODES for child in root.children[0].children
    ):
        return None
    try:
        words = simple_commands.command_words(
            Interpreter(text.encode(), 0, ShellState(), NODE_HANDLERS, Budget()), root.children[0]
        )
    except UnprovedCommand:
        return None
    written_so = len(words) == sum(
        child.type not in simple_commands.NON_WORD_NODES for child in root.children[0].children
    )
    plain = written_so and all(
        word.is_literal and HOME_MARK not in word.text and START_MARK not in word.text for word in words
    )
    return tuple(unmask_text(word.text) for word in words) if plain else None

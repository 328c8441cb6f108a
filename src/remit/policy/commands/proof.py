"""What is proved of a command by a walk over its syntax tree: every node must be known, or nothing is.

The walk runs the text as far as the text tells: it follows the folder, the variables and the functions, takes both ways
where the text does not tell which, and collects what each simple command reads and writes.
"""

from msgspec.structs import replace

from remit.policy.commands import assignments, flow, redirects, simple
from remit.policy.commands.effects import check_links
from remit.policy.commands.state import State
from remit.policy.commands.syntax import masked, parse, unmasked
from remit.policy.commands.walk import Budget, Proof, Walk, Walks, walked
from remit.policy.commands.words import HOME, START, Refused, source

WALKS: Walks = {
    **dict.fromkeys(("program", "compound_statement", "do_group", "else_clause", "variable_assignments"), Walk.block),
    "subshell": flow.subshell,
    "negated_command": flow.negated,
    "list": flow.listed,
    "pipeline": flow.pipeline,
    "if_statement": flow.branches,
    "elif_clause": flow.branches,
    "while_statement": flow.while_loop,
    "for_statement": flow.for_loop,
    "case_statement": flow.case,
    "function_definition": simple.function,
    "comment": flow.comment,
    "command": simple.command,
    "redirected_statement": flow.redirected,
    "file_redirect": redirects.file_redirect,
    "herestring_redirect": redirects.herestring,
    "heredoc_redirect": redirects.heredoc,
    "variable_assignment": assignments.assignment,
    "declaration_command": assignments.declaration,
    "test_command": simple.condition,
}


def prove(text: str) -> Proof:
    """What is proved of `text`, which must be free of control characters; raises Refused."""
    proof = walked(masked(text), State(), 0, WALKS, Budget())
    writes = tuple(dict.fromkeys(proof.writes))
    check_links(writes)
    return replace(proof, writes=writes)


def simple_command(text: str) -> tuple[str, ...] | None:
    """The words of `text` when all of it is one simple command of literal words, else None."""
    text = masked(text)
    root = parse(text)
    if root.child_count != 1 or source(root.children[0]) != text.strip(" \t\n"):
        return None
    if root.children[0].type != "command" or any(child.type in simple.BESIDE for child in root.children[0].children):
        return None
    try:
        words = simple.words_of(Walk(text.encode(), 0, State(), WALKS, Budget()), root.children[0])
    except Refused:
        return None
    written_so = len(words) == sum(child.type not in simple.BESIDE for child in root.children[0].children)
    plain = written_so and all(word.literal and HOME not in word.text and START not in word.text for word in words)
    return tuple(unmasked(word.text) for word in words) if plain else None

"""Simple commands, and the functions and conditions that stand where they do.

Variables that the text sets.

`[ … ]` and `[[ … ]]`: their words, where each operator is one that evaluates nothing.
"""

import re
from collections.abc import Iterable
from typing import TYPE_CHECKING

from msgspec.structs import replace

from remit.policy.commands.interpret.interpreter import CommandProof, Interpreter
from remit.policy.commands.interpret.redirects import REDIRECT_NODES, check_plain_file, feeds_input, named_file
from remit.policy.commands.interpret.shell_state import loop_value
from remit.policy.commands.parse.options import word_set
from remit.policy.commands.parse.syntax_tree import unmask_text
from remit.policy.commands.parse.words import UnprovedCommand, Word, node_source
from remit.policy.commands.programs.effects import CommandEffects, Write, display_path, locate_write
from remit.policy.commands.programs.evaluate import (
    SAFE_VARIABLE,
    SPECIAL_READERS,
    WRAPPER_PROGRAMS,
    check_test,
    check_variable,
    evaluate_command,
)
from remit.policy.commands.programs.readers import CONDITION_WORDS, EVALUATING_OPERATORS, HARMLESS_NAMES, READERS
from remit.policy.commands.programs.special_writers import is_known_writer
from remit.policy.commands.programs.writers import SHELL_WORDS

if TYPE_CHECKING:
    from tree_sitter import Node


def read_assignment(shell: Interpreter, node: "Node") -> tuple[str, Word]:
    """The name and the value of an assignment; raises Refused."""
    match node.children:
        case [name, sign] if sign.type == "=" and name.type == "variable_name":
            value = Word("")
        case [name, sign, text] if sign.type == "=" and name.type == "variable_name":
            value = read_value(shell, text)
        case _:
            raise UnprovedCommand(f"the assignment {node_source(node)!r} is not on the tables")
    ends = [child.end_byte for child in node.children[:-1]]
    if ends != [child.start_byte for child in node.children[1:]]:
        raise UnprovedCommand(f"the assignment {node_source(node)!r} is not understood")
    return node_source(node.children[0]), value


def read_value(shell: Interpreter, node: "Node") -> Word:
    """The value as a word; of an array nothing is known."""
    if node.type != "array":
        return shell.read_word(node)
    words = [shell.read_word(child) for child in shell.text.children(node) if child.type not in ("(", ")")]
    return Word("", is_literal=False, substitutions=tuple(inner for word in words for inner in word.substitutions))


def interpret_assignment(shell: Interpreter, node: "Node") -> CommandProof:
    """`x=…` by itself; raises Refused."""
    name, value = read_assignment(shell, node)
    check_variable_name(shell, name)
    proof = shell.interpret_substitutions((value,))
    shell.state = shell.state.assign(name, None if ":~" in value.text else value)
    return proof


def interpret_declaration(shell: Interpreter, node: "Node") -> CommandProof:
    """`export x=…`, `local x=…`, `readonly x=…`, without options."""
    proof = CommandProof()
    for child in shell.text.check_separated(shell.text.children(node))[1:]:
        if child.type != "variable_assignment" or node.children[0].type not in ("export", "local", "readonly"):
            raise UnprovedCommand(f"{node_source(node)[:60]!r} is not on the tables")
        proof += interpret_assignment(shell, child)
    return proof


def check_variable_name(shell: Interpreter, name: str) -> None:
    """Whether setting a variable leaves programs as they are; raises Refused."""
    if not SAFE_VARIABLE.fullmatch(name) and name not in HARMLESS_NAMES:
        raise UnprovedCommand(f"setting {name!r} may change what a program does")


def read_condition(shell: Interpreter, node: "Node") -> tuple[Word, ...]:
    """The words of the condition; raises Refused."""
    nodes = list(condition_nodes(shell, node))
    if node.children[0].type == "[[":
        return tuple(read_operand(shell, child) for child in nodes)
    return read_bracket(shell, nodes)


def condition_nodes(shell: Interpreter, node: "Node") -> Iterable["Node"]:
    """The words inside, operators included, in order."""
    pending = list(reversed(shell.text.children(node)[1:-1]))
    while pending:
        child = pending.pop()
        if child.type in ("unary_expression", "binary_expression", "parenthesized_expression"):
            pending += reversed(shell.text.children(child))
        else:
            yield child


def read_bracket(shell: Interpreter, nodes: list["Node"]) -> tuple[Word, ...]:
    """The words of `[ … ]`, in which the grammar takes a redirect for a comparison; raises Refused."""
    if any(node.type in ("<", ">", "(", ")", "&&", "||") for node in nodes):
        raise UnprovedCommand("`[` with a redirect or a list is not understood")
    words = tuple(shell.read_word(node) for node in shell.text.check_separated(nodes))
    check_test(words)
    return words


def read_operand(shell: Interpreter, node: "Node") -> Word:
    """One word of `[[ … ]]`, where nothing is split; raises Refused."""
    text = node_source(node)
    operator = not node.is_named or node.type == "test_operator"
    if (operator and text not in CONDITION_WORDS) or text in EVALUATING_OPERATORS:
        raise UnprovedCommand(f"{text!r} in a condition may evaluate what it is given")
    if operator:
        return Word(text)
    if node.type in ("regex", "extglob_pattern"):
        return read_pattern(node)
    return shell.read_word(node)


def read_pattern(node: "Node") -> Word:
    """A pattern in which nothing expands; raises Refused."""
    text = node_source(node)
    if re.search(r"[\s;&<>`'\"\\]|\$[^)|]", text):
        raise UnprovedCommand(f"the pattern {text!r} is not understood")
    return Word("", is_literal=False)


MAX_CALL_DEPTH = 4
"""Functions called by functions."""

NON_WORD_NODES = REDIRECT_NODES | {"variable_assignment"}
"""What stands in a simple command and is no word of it."""

BASH_ONLY = re.compile(r"\$['\"]|\[\[|[<>]\(|<<<|&>|\|&|\(\(|(?<!\$)\{[^}]*[,.]")
"""What bash and other shells read differently, so that a tree of bash proves nothing of them."""

RESERVED_NAMES = word_set(
    "eval exec source trap alias unalias export unset declare local readonly typeset set shift test time"
)


def interpret_command(shell: Interpreter, node: "Node") -> CommandProof:
    """A program with its words, and its redirects; raises Refused."""
    shell.budget.spend_command()
    words = command_words(shell, node)
    redirects = [child for child in node.children if child.type in REDIRECT_NODES]
    alone = not redirects and not shell.redirecting
    proof = shell.interpret_all(redirects) + shell.interpret_substitutions(words)
    name = words[0].text
    if words[0].is_literal and name in shell.state.functions:
        return proof + call_function(shell, name)
    fed = None if any(map(feeds_input, redirects)) else shell.input_lines
    return proof + apply_effects(shell, evaluate_command(words, fed), alone=alone)


def command_words(shell: Interpreter, node: "Node") -> tuple[Word, ...]:
    """The words of a simple command, without what stands before or beside them; raises Refused."""
    children = shell.text.check_separated(shell.text.children(node))
    names = [child for child in children if child.type == "command_name"]
    name = names[0].children[0] if names and names[0].child_count == 1 else None
    if name is None:
        raise UnprovedCommand(f"{node_source(node)[:60]!r} has no plain name")
    first = shell.read_word(name)
    for child in children:
        if child.type == "variable_assignment":
            check_prefix_assignment(shell, child, first.text)
    rest = [child for child in children if child.type not in NON_WORD_NODES | {"command_name"}]
    return (first, *(word for child in rest for word in shell.read_words(child)))


def check_prefix_assignment(shell: Interpreter, node: "Node", name: str) -> None:
    """A variable set for one command; raises Refused."""
    variable, value = read_assignment(shell, node)
    if not value.is_literal:
        raise UnprovedCommand(f"{variable!r} is set to what the text does not show")
    if variable == "IFS" and name == "read":
        return
    check_variable(variable, value.text)


def apply_effects(shell: Interpreter, ran: CommandEffects, *, alone: bool) -> CommandProof:
    """What a program did, and where it left the shell; raises Refused."""
    writes = tuple(locate_write(write, shell.state.folder) for write in ran.writes)
    for write in writes:
        check_plain_file(write.path)
    if ran.programs[:1] == ("nohup",) and alone:
        writes = (*writes, locate_write(Write("nohup.out", edits_in_place=True, is_optional=True), shell.state.folder))
    folders = () if ran.folder is None else (unmask_text(ran.folder),)
    proof = CommandProof(
        ran.programs,
        tuple(map(named_file, ran.reads)),
        folders,
        writes,
        changes_state=ran.changes_state or bool(writes),
        git_verbs=(ran.git_verb,) if ran.git_verb else (),
        undetermined=(ran.undetermined,) if ran.undetermined else (),
    )
    for name in ran.variables:
        line = (
            shell.input_lines[0]
            if shell.input_lines is not None and len(shell.input_lines) == 1 and len(ran.variables) == 1
            else None
        )
        shell.state = shell.state.assign(name, None if line is None else loop_value(line))
    if ran.programs[-1:] in (("exit",), ("return",), ("break",), ("continue",)):
        record_exit(shell, ran.programs[-1])
    if ran.changes_folder:
        before = shell.state
        shell.state, shell.state_before_cd = before.enter_folder(ran.programs[-1], ran.folder or ""), before
        proof = replace(proof, entered_folders=(display_path(shell.state.folder),) if shell.state.folder else ())
    if ran.script is not None:
        if ran.is_posix_shell and BASH_ONLY.search(ran.script):
            raise UnprovedCommand(f"a script of `{ran.programs[-1]}` uses what only bash reads so")
        proof += shell.interpret_script(ran.script, shell.depth + 1)
    shell.output_lines = ran.output_lines
    return proof


def record_exit(shell: Interpreter, program: str) -> None:
    """The shell does not go on here."""
    if program != "exit":
        shell.exits.append(shell.state)
    shell.state = replace(shell.state, unreachable=True)


def define_function(shell: Interpreter, node: "Node") -> CommandProof:
    """Remembered, not run. It may not take the name of what the tables know: wrappers would run the other."""
    children = shell.text.children(node)
    named = [child for child in children if child.type == "word"]
    bodies = [child for child in children if child.type in ("compound_statement", "subshell")]
    tokens = {child.type for child in children if not child.is_named}
    plain = len(named) == len(bodies) == 1 and tokens <= {"function", "(", ")"}
    if not plain or len(children) != 2 + sum(not child.is_named for child in children):
        raise UnprovedCommand(f"{node_source(node)[:60]!r} is not on the tables")
    name = node_source(named[0])
    taken = (
        name in READERS
        or name in SPECIAL_READERS
        or name in WRAPPER_PROGRAMS
        or name in SHELL_WORDS
        or is_known_writer(name)
    )
    if taken or not re.fullmatch(r"[A-Za-z_][\w-]*", name, re.ASCII) or name in RESERVED_NAMES:
        raise UnprovedCommand(f"the function {name!r} hides a command")
    shell.state = replace(shell.state, functions={**shell.state.functions, name: bodies[0]})
    return CommandProof()


def call_function(shell: Interpreter, name: str) -> CommandProof:
    """What a function of the text does; raises Refused."""
    body = shell.state.functions[name]
    if body is None or name in shell.calls or len(shell.calls) >= MAX_CALL_DEPTH:
        raise UnprovedCommand(f"what the function {name!r} does is not in the text")
    calls, shell.calls = shell.calls, (*shell.calls, name)
    proof = shell.repeat(lambda: shell.interpret(body), once=True)
    shell.calls, shell.output_lines = calls, None
    return proof


def interpret_condition(shell: Interpreter, node: "Node") -> CommandProof:
    """`[ … ]` and `[[ … ]]`."""
    return CommandProof(("[",)) + shell.interpret_substitutions(read_condition(shell, node))

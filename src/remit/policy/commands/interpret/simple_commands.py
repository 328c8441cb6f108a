"""Simple commands, assignments, functions and conditions."""

import re
from collections.abc import Iterable
from typing import TYPE_CHECKING

from msgspec.structs import replace

from remit.policy.commands.interpret.interpreter import CommandProof, Interpreter
from remit.policy.commands.interpret.redirects import REDIRECT_NODES, feeds_input, named_file
from remit.policy.commands.interpret.shell_state import loop_value
from remit.policy.commands.parse.options import word_set
from remit.policy.commands.parse.syntax_tree import unmask_text
from remit.policy.commands.parse.words import UnprovedCommand, Word, node_source
from remit.policy.commands.programs.effects import (
    CommandEffects,
    Write,
    check_plain_file,
    display_path,
    locate_write,
)
from remit.policy.commands.programs.evaluate import evaluate_command
from remit.policy.commands.programs.shell import (
    CONDITION_OPERATORS,
    EVALUATING_OPERATORS,
    check_test,
    check_variable,
    is_safe_name,
)
from remit.policy.commands.programs.table import find_program

if TYPE_CHECKING:
    from tree_sitter import Node

MAX_CALL_DEPTH = 4
"""Functions called by functions."""

NON_WORD_NODES = REDIRECT_NODES | {"variable_assignment"}
"""Parts of a simple command that are no words of it."""

BASH_ONLY = re.compile(r"\$['\"]|\[\[|[<>]\(|<<<|&>|\|&|\(\(|(?<!\$)\{[^}]*[,.]")
"""Syntax that bash and other shells read differently: a tree of bash proves nothing of scripts for them."""

RESERVED_NAMES = word_set(
    "eval exec source trap alias unalias export unset declare local readonly typeset set shift test time"
)


def interpret_command(shell: Interpreter, node: "Node") -> CommandProof:
    """Interpret a program with its words and redirects. Raises UnprovedCommand."""
    shell.budget.spend_command()
    words = command_words(shell, node)
    redirects = [child for child in node.children if child.type in REDIRECT_NODES]
    alone = not redirects and not shell.redirecting
    proof = shell.interpret_all(redirects) + shell.interpret_substitutions(words)
    name = words[0].text
    if words[0].is_literal and name in shell.state.functions:
        return proof + call_function(shell, name)
    input_lines = None if any(map(feeds_input, redirects)) else shell.input_lines
    return proof + apply_effects(shell, evaluate_command(words, input_lines), alone=alone)


def command_words(shell: Interpreter, node: "Node") -> tuple[Word, ...]:
    """Return the words of a simple command without its assignments and redirects. Raises UnprovedCommand."""
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


def apply_effects(shell: Interpreter, effects: CommandEffects, *, alone: bool) -> CommandProof:
    """Return the proof of a program's effects, and leave the shell where the program does. Raises UnprovedCommand."""
    program = effects.programs[-1] if effects.programs else ""
    writes = tuple(locate_write(write, shell.state.folder) for write in effects.writes)
    for write in writes:
        check_plain_file(write.path)
    if effects.programs[:1] == ("nohup",) and alone:
        nohup_out = Write("nohup.out", edits_in_place=True, is_optional=True)
        writes = (*writes, locate_write(nohup_out, shell.state.folder))
    proof = CommandProof(
        effects.programs,
        tuple(map(named_file, effects.reads)),
        () if effects.folder is None else (unmask_text(effects.folder),),
        writes,
        changes_state=effects.changes_state or bool(writes),
        git_verbs=(effects.git_verb,) if effects.git_verb else (),
        undetermined=(effects.undetermined,) if effects.undetermined else (),
    )
    # The value that `read` sets is known if the input is one known line for one variable.
    lines = shell.input_lines
    line = lines[0] if lines is not None and len(lines) == 1 and len(effects.variables) == 1 else None
    for name in effects.variables:
        shell.state = shell.state.assign(name, None if line is None else loop_value(line))
    if program in ("exit", "return", "break", "continue"):
        record_exit(shell, program)
    if effects.changes_folder:
        before = shell.state
        shell.state, shell.state_before_cd = before.enter_folder(program, effects.folder or ""), before
        proof = replace(proof, entered_folders=(display_path(shell.state.folder),) if shell.state.folder else ())
    if effects.script is not None:
        if effects.is_posix_shell and BASH_ONLY.search(effects.script):
            raise UnprovedCommand(f"a script of `{program}` uses what only bash reads so")
        proof += shell.interpret_script(effects.script, shell.depth + 1)
    shell.output_lines = effects.output_lines
    return proof


def record_exit(shell: Interpreter, program: str) -> None:
    """Mark the statements behind `exit`, `return`, `break` or `continue` as unreachable."""
    if program != "exit":
        shell.exits.append(shell.state)
    shell.state = replace(shell.state, unreachable=True)


# Assignments


def read_assignment(shell: Interpreter, node: "Node") -> tuple[str, Word]:
    """Return the name and the value of an assignment. Raises UnprovedCommand."""
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
    """Return the value as a word; the value of an array is unknown."""
    if node.type != "array":
        return shell.read_word(node)
    words = [shell.read_word(child) for child in shell.text.children(node) if child.type not in ("(", ")")]
    return Word("", is_literal=False, substitutions=tuple(inner for word in words for inner in word.substitutions))


def interpret_assignment(shell: Interpreter, node: "Node") -> CommandProof:
    """Interpret `x=…` as a statement. Raises UnprovedCommand."""
    name, value = read_assignment(shell, node)
    check_variable_name(name)
    proof = shell.interpret_substitutions((value,))
    # The shell also expands a tilde behind a colon, which the value does not show.
    shell.state = shell.state.assign(name, None if ":~" in value.text else value)
    return proof


def interpret_declaration(shell: Interpreter, node: "Node") -> CommandProof:
    """Interpret `export x=…`, `local x=…` and `readonly x=…`, without options."""
    proof = CommandProof()
    for child in shell.text.check_separated(shell.text.children(node))[1:]:
        if child.type != "variable_assignment" or node.children[0].type not in ("export", "local", "readonly"):
            raise UnprovedCommand(f"{node_source(node)[:60]!r} is not on the tables")
        proof += interpret_assignment(shell, child)
    return proof


def check_prefix_assignment(shell: Interpreter, node: "Node", program: str) -> None:
    """Check a variable that is set for one command. Raises UnprovedCommand."""
    variable, value = read_assignment(shell, node)
    if not value.is_literal:
        raise UnprovedCommand(f"{variable!r} is set to what the text does not show")
    if variable == "IFS" and program == "read":
        return
    check_variable(variable, value.text)


def check_variable_name(name: str) -> None:
    if not is_safe_name(name):
        raise UnprovedCommand(f"setting {name!r} may change what a program does")


# Functions


def define_function(shell: Interpreter, node: "Node") -> CommandProof:
    """Remember a function. Refuse the name of a program in the table: wrappers would run the program."""
    children = shell.text.children(node)
    names = [child for child in children if child.type == "word"]
    bodies = [child for child in children if child.type in ("compound_statement", "subshell")]
    tokens = {child.type for child in children if not child.is_named}
    plain = len(names) == len(bodies) == 1 and tokens <= {"function", "(", ")"}
    if not plain or len(children) != 2 + sum(not child.is_named for child in children):
        raise UnprovedCommand(f"{node_source(node)[:60]!r} is not on the tables")
    name = node_source(names[0])
    taken = find_program(name).is_provable or name in RESERVED_NAMES
    if taken or not re.fullmatch(r"[A-Za-z_][\w-]*", name, re.ASCII):
        raise UnprovedCommand(f"the function {name!r} hides a command")
    shell.state = replace(shell.state, functions={**shell.state.functions, name: bodies[0]})
    return CommandProof()


def call_function(shell: Interpreter, name: str) -> CommandProof:
    """Interpret the body of a function. Raises UnprovedCommand for recursion, and for one of several definitions."""
    body = shell.state.functions[name]
    if body is None or name in shell.calls or len(shell.calls) >= MAX_CALL_DEPTH:
        raise UnprovedCommand(f"what the function {name!r} does is not in the text")
    calls, shell.calls = shell.calls, (*shell.calls, name)
    proof = shell.repeat(lambda: shell.interpret(body), once=True)
    shell.calls, shell.output_lines = calls, None
    return proof


# Conditions


def interpret_condition(shell: Interpreter, node: "Node") -> CommandProof:
    return CommandProof(("[",)) + shell.interpret_substitutions(read_condition(shell, node))


def read_condition(shell: Interpreter, node: "Node") -> tuple[Word, ...]:
    """Return the words of a condition in which no operator evaluates its operands. Raises UnprovedCommand."""
    nodes = list(condition_nodes(shell, node))
    if node.children[0].type == "[[":
        return tuple(read_operand(shell, child) for child in nodes)
    # In `[ … ]` the grammar takes a redirect for a comparison.
    if any(child.type in ("<", ">", "(", ")", "&&", "||") for child in nodes):
        raise UnprovedCommand("`[` with a redirect or a list is not understood")
    words = tuple(shell.read_word(child) for child in shell.text.check_separated(nodes))
    check_test(words)
    return words


def condition_nodes(shell: Interpreter, node: "Node") -> Iterable["Node"]:
    """Yield the words of a condition in order, operators included."""
    pending = list(reversed(shell.text.children(node)[1:-1]))
    while pending:
        child = pending.pop()
        if child.type in ("unary_expression", "binary_expression", "parenthesized_expression"):
            pending += reversed(shell.text.children(child))
        else:
            yield child


def read_operand(shell: Interpreter, node: "Node") -> Word:
    """Return a word of `[[ … ]]`, where words are not split. Raises UnprovedCommand."""
    text = node_source(node)
    operator = not node.is_named or node.type == "test_operator"
    if (operator and text not in CONDITION_OPERATORS) or text in EVALUATING_OPERATORS:
        raise UnprovedCommand(f"{text!r} in a condition may evaluate what it is given")
    if operator:
        return Word(text)
    if node.type in ("regex", "extglob_pattern"):
        return read_pattern(node)
    return shell.read_word(node)


def read_pattern(node: "Node") -> Word:
    """Return the word of a pattern. Raises UnprovedCommand if something may expand in the pattern."""
    text = node_source(node)
    if re.search(r"[\s;&<>`'\"\\]|\$[^)|]", text):
        raise UnprovedCommand(f"the pattern {text!r} is not understood")
    return Word("", is_literal=False)

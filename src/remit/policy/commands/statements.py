"""The proof of a command's effects by the syntax tree: all nodes must be known.

Of branches with an unknown condition, each is interpreted.
"""

import re
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from msgspec.structs import replace

from remit.policy.commands.interpreter import (
    REDIRECT_HANDLERS,
    REDIRECT_NODES,
    SYNTAX_TOKENS,
    Budget,
    CommandProof,
    Handlers,
    Interpreter,
    ShellState,
    feeds_input,
    interpret_with_redirects,
    merge_states,
    named_file,
)
from remit.policy.commands.parsed_command import parse_command, unmask_text
from remit.policy.commands.programs.row import (
    CommandEffects,
    Write,
    change_folder,
    check_links,
    check_plain_file,
    display_path,
    locate_write,
)
from remit.policy.commands.programs.shell import (
    CONDITION_OPERATORS,
    EVALUATING_OPERATORS,
    check_test,
    check_variable,
)
from remit.policy.commands.programs.table import evaluate_command, find_program
from remit.policy.commands.words import (
    HOME_MARK,
    START_MARK,
    UnprovedCommand,
    Word,
    is_safe_name,
    node_source,
    word_set,
)

if TYPE_CHECKING:
    from tree_sitter import Node

MAX_CALL_DEPTH = 4  # Functions called by functions
MAX_UNROLLED = 32  # Words of a loop's list that are each interpreted
NON_WORD_NODES = REDIRECT_NODES | {"variable_assignment"}  # Parts of a simple command that are no words of it

BASH_ONLY = re.compile(r"\$['\"]|\[\[|[<>]\(|<<<|&>|\|&|\(\(|(?<!\$)\{[^}]*[,.]")
"""Syntax that bash and other shells read differently: a tree of bash proves nothing of scripts for them."""

RESERVED_NAMES = word_set(
    "eval exec source trap alias unalias export unset declare local readonly typeset set shift test time"
)


def prove_command(text: str) -> CommandProof:
    """Return the proved effects of `text`, which must be free of control characters. Raises UnprovedCommand."""
    command = parse_command(text)
    proof = Interpreter(command.masked, NODE_HANDLERS, ShellState(), Budget()).interpret_root(command.tree)
    writes = tuple(dict.fromkeys(proof.writes))
    check_links(writes)
    return replace(proof, writes=writes)


def literal_simple_command(text: str) -> tuple[str, ...] | None:
    """Return the words of a text with a single simple command of literal words; otherwise None."""
    parsed = parse_command(text)
    command = parsed.tree.children[0] if parsed.tree.child_count == 1 else None
    if command is None or command.type != "command" or node_source(command) != parsed.masked.strip(" \t\n"):
        return None
    if any(child.type in NON_WORD_NODES for child in command.children):
        return None
    try:
        words = command_words(Interpreter(parsed.masked, NODE_HANDLERS, ShellState(), Budget()), command)
    except UnprovedCommand:
        return None
    if len(words) != len(command.children):  # braces became several words
        return None
    if not all(word.is_literal and HOME_MARK not in word.text and START_MARK not in word.text for word in words):
        return None
    return tuple(unmask_text(word.text) for word in words)


# Simple commands


def interpret_command(shell: Interpreter, node: "Node") -> CommandProof:
    """Interpret a program with its words and redirects. Raises UnprovedCommand."""
    shell.budget.spend_command()
    words = command_words(shell, node)
    redirects = [child for child in node.children if child.type in REDIRECT_NODES]
    proof = shell.interpret_all(redirects) + shell.interpret_substitutions(words)
    name = words[0].text
    if words[0].is_literal and name in shell.state.functions:
        return proof + call_function(shell, name)
    input_lines = None if any(map(feeds_input, redirects)) else shell.input_lines
    effects = evaluate_command(words, input_lines)
    return proof + apply_effects(shell, effects, alone=not redirects and not shell.redirecting)


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
            variable, value = read_assignment(shell, child)
            if not value.is_literal:
                raise UnprovedCommand(f"{variable!r} is set to what the text does not show")
            if variable != "IFS" or first.text != "read":
                check_variable(variable, value.text)
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
        () if effects.folder is None else (locate_folder(shell.state, effects.folder),),
        writes,
        changes_state=effects.changes_state or bool(writes),
        git_verbs=(effects.git_verb,) if effects.git_verb else (),
        undetermined=(effects.undetermined,) if effects.undetermined else (),
        rewrites=effects.rewrites,
        stores_rewritten=effects.rewrites and bool(writes),
        unproved_formatters=(effects.unproved_formatter,) if effects.unproved_formatter else (),
    )
    # The value that `read` sets is known if the input is one known line for one variable.
    lines = shell.input_lines
    line = lines[0] if lines is not None and len(lines) == 1 and len(effects.variables) == 1 else None
    for name in effects.variables:
        shell.state = shell.state.assign(name, None if line is None else loop_value(line))
    if program in ("exit", "return", "break", "continue"):
        if program != "exit":
            shell.exits.append(shell.state)
        shell.state = replace(shell.state, unreachable=True)
    if effects.changes_folder:
        before = shell.state
        shell.state, shell.state_before_cd = before.enter_folder(program, effects.folder or ""), before
        proof = replace(proof, entered_folders=(display_path(shell.state.folder),) if shell.state.folder else ())
    if effects.script is not None:
        if effects.is_posix_shell and BASH_ONLY.search(effects.script):
            raise UnprovedCommand(f"a script of `{program}` uses what only bash reads so")
        proof += shell.interpret_script(effects.script)
    shell.output_lines = effects.output_lines
    return proof


def locate_folder(state: ShellState, folder: str) -> str:
    try:
        return display_path(change_folder(state.folder, folder)) or "." if folder else ""
    except UnprovedCommand:
        return ""


def loop_value(word: Word) -> Word | None:
    if word.is_literal or word.glob is None or word.substitutions:
        return None if word.substitutions or word.glob is None else word
    return Word(word.text, is_literal=False, pattern=word.pattern, is_optional=word.is_optional)


def read_assignment(shell: Interpreter, node: "Node") -> tuple[str, Word]:
    """Return the name and the value of an assignment; the value of an array is unknown. Raises UnprovedCommand."""
    match node.children:
        case [name, sign] if sign.type == "=" and name.type == "variable_name":
            value = Word("")
        case [name, sign, text] if sign.type == "=" and name.type == "variable_name":
            if text.type == "array":
                words = [shell.read_word(item) for item in shell.text.children(text) if item.type not in ("(", ")")]
                inner = tuple(node for word in words for node in word.substitutions)
                value = Word("", is_literal=False, substitutions=inner)
            else:
                value = shell.read_word(text)
        case _:
            raise UnprovedCommand(f"the assignment {node_source(node)!r} is not on the tables")
    ends = [child.end_byte for child in node.children[:-1]]
    if ends != [child.start_byte for child in node.children[1:]]:
        raise UnprovedCommand(f"the assignment {node_source(node)!r} is not understood")
    return node_source(name), value


def interpret_assignment(shell: Interpreter, node: "Node") -> CommandProof:
    name, value = read_assignment(shell, node)
    if not is_safe_name(name) and not value.is_literal:
        raise UnprovedCommand(f"{name!r} is set to what the text does not show")
    if not is_safe_name(name):
        check_variable(name, value.text)
    proof = shell.interpret_substitutions((value,))
    # The shell also expands a tilde behind a colon, which the value does not show.
    shell.state = shell.state.assign(name, None if ":~" in value.text else value)
    return proof


def interpret_declaration(shell: Interpreter, node: "Node") -> CommandProof:
    proof = CommandProof()
    for child in shell.text.check_separated(shell.text.children(node))[1:]:
        if child.type != "variable_assignment" or node.children[0].type not in ("export", "local", "readonly"):
            raise UnprovedCommand(f"{node_source(node)[:60]!r} is not on the tables")
        proof += interpret_assignment(shell, child)
    return proof


def check_variable_name(name: str) -> None:
    if not is_safe_name(name):
        raise UnprovedCommand(f"setting {name!r} may change what a program does")


def define_function(shell: Interpreter, node: "Node") -> CommandProof:
    children = shell.text.children(node)
    names = [child for child in children if child.type == "word"]
    bodies = [child for child in children if child.type in ("compound_statement", "subshell")]
    tokens = [child.type for child in children if not child.is_named]
    if not len(names) == len(bodies) == 1 or len(children) != 2 + len(tokens) or {*tokens} - {"function", "(", ")"}:
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


# Control flow


def interpret_redirected(shell: Interpreter, node: "Node") -> CommandProof:
    children = shell.text.children(node)
    body = [child for child in children if child.type not in REDIRECT_NODES]
    redirects = [child for child in children if child.type in REDIRECT_NODES]
    if not body:
        return shell.interpret_all(redirects)
    if len(body) > 1:
        raise UnprovedCommand(f"{node_source(node)[:60]!r} is not understood")
    handler = {"list": interpret_list, "pipeline": interpret_pipeline}.get(body[0].type, interpret_with_redirects)
    return handler(shell, body[0], redirects)


ARITHMETIC_COMMAND = re.compile(r"\(\([\s0-9+*/%<>=!&|^~?:(),-]*\)\)", re.ASCII)
"""`((…))` without names: the value of a name is evaluated in turn, and may run a substitution."""


def interpret_compound(shell: Interpreter, node: "Node") -> CommandProof:
    """Interpret `{ … }`, and `((…))` of numbers. Raises UnprovedCommand."""
    if node.children[0].type != "((":
        return shell.interpret_block(node)
    if not ARITHMETIC_COMMAND.fullmatch(node_source(node)):
        raise UnprovedCommand(f"{node_source(node)[:60]!r} may evaluate what it is given")
    return CommandProof(("[",))


def interpret_subshell(shell: Interpreter, node: "Node") -> CommandProof:
    with shell.subshell():
        return shell.interpret_block(node)


def interpret_negation(shell: Interpreter, node: "Node") -> CommandProof:
    proof = shell.interpret_block(node)
    shell.merge_failure()
    return proof


def check_comment(shell: Interpreter, node: "Node") -> CommandProof:
    """Return an empty proof for a comment. Raises UnprovedCommand where bash sees none."""
    shell.text.check_comment(node)
    return CommandProof()


def interpret_list(shell: Interpreter, node: "Node", redirects: Sequence["Node"] = ()) -> CommandProof:
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
    proof += interpret_with_redirects(shell, right, redirects)
    if sign.type == "&&":
        shell.failed_state = merge_states(failed, shell.failed_state or shell.state)
    else:
        shell.state, shell.failed_state = merge_states(succeeded, shell.state), shell.failed_state or shell.state
    return proof


def interpret_pipeline(shell: Interpreter, node: "Node", redirects: Sequence["Node"] = ()) -> CommandProof:
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
                proof += interpret_with_redirects(shell, child, redirects if child == parts[-1] else ())
                # Only of one command is the output the output of the node.
                first = child.children[0] if child.type == "redirected_statement" and child.children else child
                lines = shell.output_lines if first.type == "command" else None
                end = shell.state
        elif child.type not in ("|", "|&"):
            raise UnprovedCommand(f"{child.type!r} in a pipeline is not on the tables")
        before = child
    shell.state = merge_states(shell.state, end)
    return proof.join_output()


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
    shell.merge_ends(start, ends)
    return proof


def interpret_while(shell: Interpreter, node: "Node") -> CommandProof:
    return shell.repeat(lambda: shell.interpret_block(node))


def interpret_for(shell: Interpreter, node: "Node") -> CommandProof:
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

    def interpret_round(value: Word | None) -> CommandProof:
        shell.state = shell.state.assign(name, value)
        return shell.interpret_block(bodies[0])

    rounds = [loop_value(word) for word in words] if len(words) <= MAX_UNROLLED else []
    if not rounds or None in rounds:
        return proof + shell.repeat(lambda: interpret_round(None))
    ends: list[ShellState] = []
    for value in rounds:
        several = value is not None and not value.is_literal
        proof += shell.repeat(lambda v=value: interpret_round(v), once=not several)
        ends.append(shell.state)
    shell.merge_ends(shell.state, ends)
    return proof


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
    shell.merge_ends(start, ends)
    return proof


def interpret_case_item(shell: Interpreter, node: "Node") -> CommandProof:
    proof = CommandProof()
    before: Node | None = None
    for index, child in enumerate(shell.text.children(node)):
        if node.field_name_for_child(index) == "value":
            word = read_pattern(child) if child.type == "extglob_pattern" else shell.read_word(child)
            proof += shell.interpret_substitutions((word,))
        elif child.is_named:
            shell.text.check_start(before, child)
            shell.merge_failure()
            proof += shell.interpret(child)
        elif child.type not in SYNTAX_TOKENS | {";;"}:
            raise UnprovedCommand(f"{child.type!r} is not on the tables")
        before = child
    return proof


def interpret_condition(shell: Interpreter, node: "Node") -> CommandProof:
    """Interpret a condition without operators that evaluate operands. Raises UnprovedCommand."""
    nodes = list(condition_nodes(shell, node))
    if node.children[0].type == "[[":
        words = tuple(read_operand(shell, child) for child in nodes)
    elif any(child.type in ("<", ">", "(", ")", "&&", "||") for child in nodes):
        # In `[ … ]` the grammar takes a redirect for a comparison.
        raise UnprovedCommand("`[` with a redirect or a list is not understood")
    else:
        words = tuple(shell.read_word(child) for child in shell.text.check_separated(nodes))
        check_test(words)
    return CommandProof(("[",)) + shell.interpret_substitutions(words)


def condition_nodes(shell: Interpreter, node: "Node") -> Iterable["Node"]:
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
    return read_pattern(node) if node.type in ("regex", "extglob_pattern") else shell.read_word(node)


def read_pattern(node: "Node") -> Word:
    """Return the word of a pattern. Raises UnprovedCommand if something may expand in the pattern."""
    text = node_source(node)
    if re.search(r"[\s;&<>`'\"\\]|\$[^)|]", text):
        raise UnprovedCommand(f"the pattern {text!r} is not understood")
    return Word("", is_literal=False)


NODE_HANDLERS: Handlers = {
    **dict.fromkeys(
        ("program", "do_group", "else_clause", "variable_assignments"),
        Interpreter.interpret_block,
    ),
    "compound_statement": interpret_compound,
    "subshell": interpret_subshell,
    "negated_command": interpret_negation,
    "list": interpret_list,
    "pipeline": interpret_pipeline,
    "if_statement": interpret_if,
    "elif_clause": interpret_if,
    "while_statement": interpret_while,
    "for_statement": interpret_for,
    "case_statement": interpret_case,
    "function_definition": define_function,
    "comment": check_comment,
    "command": interpret_command,
    "redirected_statement": interpret_redirected,
    **REDIRECT_HANDLERS,
    "variable_assignment": interpret_assignment,
    "declaration_command": interpret_declaration,
    "test_command": interpret_condition,
}

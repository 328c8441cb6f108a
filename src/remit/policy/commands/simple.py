"""Simple commands, and the functions and conditions that stand where they do."""

import re
from typing import TYPE_CHECKING

from msgspec.structs import replace

from remit.policy.commands.assignments import assigned
from remit.policy.commands.changing import known_writer
from remit.policy.commands.conditions import condition_words
from remit.policy.commands.effects import Run, Write, as_told, located
from remit.policy.commands.options import names
from remit.policy.commands.programs import SPECIAL, WRAPPERS, check_variable, run
from remit.policy.commands.redirects import REDIRECTS, check_place, feeds, plain
from remit.policy.commands.state import bound
from remit.policy.commands.syntax import unmasked
from remit.policy.commands.tables import COMMANDS
from remit.policy.commands.walk import Proof, Walk
from remit.policy.commands.words import Refused, Word, source
from remit.policy.commands.writers import SHELL_WORDS

if TYPE_CHECKING:
    from tree_sitter import Node

DEEPEST_CALL = 4
"""Functions called by functions."""

BESIDE = REDIRECTS | {"variable_assignment"}
"""What stands in a simple command and is no word of it."""

NOT_DASH = re.compile(r"\$['\"]|\[\[|[<>]\(|<<<|&>|\|&|\(\(|(?<!\$)\{[^}]*[,.]")
"""What bash and other shells read differently, so that a tree of bash proves nothing of them."""

RESERVED = names("eval exec source trap alias unalias export unset declare local readonly typeset set shift test time")


def command(walk: Walk, node: "Node") -> Proof:
    """A program with its words, and its redirects; raises Refused."""
    walk.budget.spend_command()
    words = words_of(walk, node)
    redirects = [child for child in node.children if child.type in REDIRECTS]
    alone = not redirects and not walk.redirecting
    proof = walk.all(redirects) + walk.inner(words)
    name = words[0].text
    if words[0].literal and name in walk.state.functions:
        return proof + called(walk, name)
    fed = None if any(map(feeds, redirects)) else walk.fed
    return proof + ran(walk, run(words, fed), alone=alone)


def words_of(walk: Walk, node: "Node") -> tuple[Word, ...]:
    """The words of a simple command, without what stands before or beside them; raises Refused."""
    children = walk.text.separated(walk.text.children(node))
    names = [child for child in children if child.type == "command_name"]
    name = names[0].children[0] if names and names[0].child_count == 1 else None
    if name is None:
        raise Refused(f"{source(node)[:60]!r} has no plain name")
    first = walk.read_word(name)
    for child in children:
        if child.type == "variable_assignment":
            prefix(walk, child, first.text)
    rest = [child for child in children if child.type not in BESIDE | {"command_name"}]
    return (first, *(word for child in rest for word in walk.read_words(child)))


def prefix(walk: Walk, node: "Node", name: str) -> None:
    """A variable set for one command; raises Refused."""
    variable, value = assigned(walk, node)
    if not value.literal:
        raise Refused(f"{variable!r} is set to what the text does not show")
    if variable == "IFS" and name == "read":
        return
    check_variable(variable, value.text)


def ran(walk: Walk, ran: Run, *, alone: bool) -> Proof:
    """What a program did, and where it left the shell; raises Refused."""
    writes = tuple(located(write, walk.state.folder) for write in ran.writes)
    for write in writes:
        check_place(write.path)
    if ran.programs[:1] == ("nohup",) and alone:
        writes = (*writes, located(Write("nohup.out", edits=True, maybe=True), walk.state.folder))
    folders = () if ran.folder is None else (unmasked(ran.folder),)
    proof = Proof(
        ran.programs,
        tuple(map(plain, ran.reads)),
        folders,
        writes,
        acts=ran.acts or bool(writes),
        git=(ran.git,) if ran.git else (),
        untold=(ran.untold,) if ran.untold else (),
    )
    for name in ran.sets:
        line = walk.fed[0] if walk.fed is not None and len(walk.fed) == 1 and len(ran.sets) == 1 else None
        walk.state = walk.state.assigned(name, None if line is None else bound(line))
    if ran.programs[-1:] in (("exit",), ("return",), ("break",), ("continue",)):
        left(walk, ran.programs[-1])
    if ran.moves:
        before = walk.state
        walk.state, walk.unmoved = before.entered(ran.programs[-1], ran.folder or ""), before
        proof = replace(proof, enters=(as_told(walk.state.folder),) if walk.state.folder else ())
    if ran.script is not None:
        if ran.dash and NOT_DASH.search(ran.script):
            raise Refused(f"a script of `{ran.programs[-1]}` uses what only bash reads so")
        proof += walk.script(ran.script, walk.depth + 1)
    walk.lists = ran.lists
    return proof


def left(walk: Walk, program: str) -> None:
    """The shell does not go on here."""
    if program != "exit":
        walk.escapes.append(walk.state)
    walk.state = replace(walk.state, gone=True)


def function(walk: Walk, node: "Node") -> Proof:
    """Remembered, not run. It may not take the name of what the tables know: wrappers would run the other."""
    children = walk.text.children(node)
    named = [child for child in children if child.type == "word"]
    bodies = [child for child in children if child.type in ("compound_statement", "subshell")]
    tokens = {child.type for child in children if not child.is_named}
    plain = len(named) == len(bodies) == 1 and tokens <= {"function", "(", ")"}
    if not plain or len(children) != 2 + sum(not child.is_named for child in children):
        raise Refused(f"{source(node)[:60]!r} is not on the tables")
    name = source(named[0])
    taken = name in COMMANDS or name in SPECIAL or name in WRAPPERS or name in SHELL_WORDS or known_writer(name)
    if taken or not re.fullmatch(r"[A-Za-z_][\w-]*", name, re.ASCII) or name in RESERVED:
        raise Refused(f"the function {name!r} hides a command")
    walk.state = replace(walk.state, functions={**walk.state.functions, name: bodies[0]})
    return Proof()


def called(walk: Walk, name: str) -> Proof:
    """What a function of the text does; raises Refused."""
    body = walk.state.functions[name]
    if body is None or name in walk.calls or len(walk.calls) >= DEEPEST_CALL:
        raise Refused(f"what the function {name!r} does is not in the text")
    calls, walk.calls = walk.calls, (*walk.calls, name)
    proof = walk.repeated(lambda: walk.statement(body), once=True)
    walk.calls, walk.lists = calls, None
    return proof


def condition(walk: Walk, node: "Node") -> Proof:
    """`[ … ]` and `[[ … ]]`."""
    return Proof(("[",)) + walk.inner(condition_words(walk, node))

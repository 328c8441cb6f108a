"""A walk over the syntax tree of a command: every node must be known, or nothing is proved.

The grammar reads some texts otherwise than bash does. So the walk also looks at the bytes between the
nodes: only blanks may be left out, and a newline only between statements.
"""

import re
from collections.abc import Callable, Iterable
from functools import cache
from itertools import pairwise
from typing import TYPE_CHECKING

from msgspec import Struct

from remit.policy.commands.options import names
from remit.policy.commands.programs import VARIABLE, Run, check_test, check_variable, run
from remit.policy.commands.tables import CONDITION_WORDS, EVALUATING, WRITTEN_TO_FREELY
from remit.policy.commands.words import Refused, Word, live_text, read_word, source

if TYPE_CHECKING:
    from tree_sitter import Node, Parser

DEEPEST = 60
"""Levels of the syntax tree; a deeper command is unknown."""

LARGEST = 5000
"""Nodes of the syntax tree; a larger command is unknown, so that no text takes long."""

DEEPEST_SCRIPT = 3
"""Shells started by shells."""

BLANK = re.compile(rb"(?:[ \t\n]|(?<=[ \t\n])\\\n)*")
BETWEEN_WORDS = re.compile(rb"[ \t](?:[ \t]|\\\n)*")
NEW_LINE = re.compile(rb"(?:^|[^\\])\n")

BLOCKS = names(
    "program list pipeline negated_command subshell compound_statement do_group if_statement elif_clause "
    "else_clause while_statement variable_assignments"
)
TOKENS = names("; & && || | |& ! ( ) { } if then elif else fi while until do done")
PUNCTUATION = names("; & && || | |& ( ) { }")
NOT_DASH = re.compile(r"\$['\"]|\[\[|[<>]\(|<<<|&>|\|&|\(\(")
"""What bash and other shells read differently, so that a tree of bash proves nothing of them."""


class Proof(Struct, frozen=True):
    """What is proved of a command that only reads: the programs it runs, the files it names.

    `folders` are those it changes to, or lets git work in; "" where the text does not tell.
    """

    programs: tuple[str, ...] = ()
    reads: tuple[str, ...] = ()
    folders: tuple[str, ...] = ()

    def __add__(self, other: "Proof") -> "Proof":
        return Proof(self.programs + other.programs, self.reads + other.reads, self.folders + other.folders)


@cache
def _parser() -> "Parser":
    # Imported here, not above: a call without a command must not pay for the grammar at its start.
    import tree_sitter_bash
    from tree_sitter import Language, Parser

    return Parser(Language(tree_sitter_bash.language()))


def parse(text: str) -> "Node":
    """The syntax tree of `text`; raises Refused where the grammar does not know it."""
    root = _parser().parse(text.encode()).root_node
    if root.has_error:
        raise Refused("the command is not understood as bash")
    _check_size(root)
    return root


def _check_size(root: "Node") -> None:
    level = [root]
    seen = 0
    for _ in range(DEEPEST):
        level = [child for node in level for child in node.children]
        seen += len(level)
        if not level:
            return
        if seen > LARGEST:
            raise Refused(f"the command has more than {LARGEST} parts")
    raise Refused(f"the command is nested more than {DEEPEST} deep")


def prove(text: str, depth: int = 0) -> Proof:
    """What is proved of `text`, which must be free of control characters; raises Refused."""
    if depth > DEEPEST_SCRIPT:
        raise Refused("too many shells run each other")
    root = parse(text)
    raw = text.encode()
    if not BLANK.fullmatch(raw[: root.start_byte]) or not BLANK.fullmatch(raw[root.end_byte :]):
        raise Refused("the command is not understood as bash")
    return _Walk(raw, depth).statement(root)


def simple_command(text: str) -> tuple[str, ...] | None:
    """The words of `text` when all of it is one simple command of literal words, else None."""
    root = parse(text)
    if root.child_count != 1 or source(root.children[0]) != text.strip(" \t\n"):
        return None
    if root.children[0].type != "command" or any(child.type in BESIDE for child in root.children[0].children):
        return None
    try:
        words = _Walk(text.encode(), 0).words(root.children[0])
    except Refused:
        return None
    return tuple(word.text for word in words) if all(word.literal for word in words) else None


class _Walk:
    """The walk over one text: the source is needed beside the nodes."""

    def __init__(self, raw: bytes, depth: int) -> None:
        self.raw = raw
        self.depth = depth

    def statement(self, node: "Node") -> Proof:
        kind = node.type
        if kind in BLOCKS:
            return self.block(node)
        walk = WALKS.get(kind)
        if walk is None or not node.is_named:
            raise Refused(f"{source(node)[:60]!r} is not proved read-only")
        return walk(self, node)

    def all(self, nodes: Iterable["Node"]) -> Proof:
        return sum((self.statement(node) for node in nodes), Proof())

    def children(self, node: "Node") -> list["Node"]:
        """The children of `node`, between which only blanks are left out; raises Refused."""
        position = node.start_byte
        for child in node.children:
            if not BLANK.fullmatch(self.raw[position : child.start_byte]):
                raise Refused(f"{source(node)[:60]!r} is not understood")
            position = child.end_byte
        if position != node.end_byte and not BLANK.fullmatch(self.raw[position : node.end_byte]):
            raise Refused(f"{source(node)[:60]!r} is not understood")
        return node.children

    def separated(self, nodes: list["Node"]) -> list["Node"]:
        """Words, between which blanks must stand, but no newline; raises Refused."""
        for left, right in pairwise(nodes):
            if not BETWEEN_WORDS.fullmatch(self.raw[left.end_byte : right.start_byte]):
                raise Refused(f"{source(left)[:30]!r} and {source(right)[:30]!r} may be one word")
        return nodes

    def block(self, node: "Node") -> Proof:
        """Statements and the keywords around them."""
        proof = Proof()
        before: Node | None = None
        for child in self.children(node):
            if child.is_named:
                self.check_start(before, child)
                proof += self.statement(child)
            elif child.type not in TOKENS:
                raise Refused(f"{child.type!r} is not on the read-only table")
            before = child
        return proof

    def check_start(self, before: "Node | None", child: "Node") -> None:
        """A statement follows an operator, or a new line; assignments may follow each other."""
        if before is None or child.type == "comment" or before.type in PUNCTUATION:
            return
        gap = self.raw[before.end_byte : child.start_byte]
        if not before.is_named or child.type in ("variable_assignment", "elif_clause", "else_clause"):
            fits = bool(gap)
        else:
            fits = NEW_LINE.search(gap) is not None
        if not fits:
            raise Refused(f"{source(child)[:60]!r} may belong to what is before it")

    def comment(self, node: "Node") -> Proof:
        """A comment begins a word; elsewhere `#` is a character like others."""
        before = self.raw[max(node.start_byte - 2, 0) : node.start_byte]
        if b"\n" in (node.text or b"") or (before and (before[-1:] not in b" \t\n;" or before[:-1] == b"\\")):
            raise Refused("a comment is not understood")
        return Proof()

    # Simple commands

    def command(self, node: "Node") -> Proof:
        words = self.words(node)
        redirects = [child for child in node.children if child.type in REDIRECTS]
        proof = self.all(redirects) + self.inner(words)
        return proof + self.ran(run(words))

    def words(self, node: "Node") -> tuple[Word, ...]:
        """The words of a simple command, without what stands before or beside them; raises Refused."""
        children = self.separated(self.children(node))
        names = [child for child in children if child.type == "command_name"]
        name = names[0].children[0] if names and names[0].child_count == 1 else None
        if name is None:
            raise Refused(f"{source(node)[:60]!r} has no plain name")
        first = read_word(name)
        for child in children:
            if child.type == "variable_assignment":
                self.prefix(child, first.text)
        rest = [child for child in children if child.type not in BESIDE | {"command_name"}]
        return (first, *(read_word(child) for child in rest))

    def prefix(self, node: "Node", name: str) -> None:
        """A variable set for one command; raises Refused."""
        variable, value = self.assigned(node)
        if not value.literal:
            raise Refused(f"{variable!r} is set to what the text does not show")
        if variable == "IFS" and name == "read":
            return
        check_variable(variable, value.text)

    def ran(self, ran: Run) -> Proof:
        folders = () if ran.folder is None else (ran.folder,)
        proof = Proof(ran.programs, ran.reads, folders)
        if ran.script is None:
            return proof
        if ran.dash and NOT_DASH.search(ran.script):
            raise Refused(f"a script of `{ran.programs[-1]}` uses what only bash reads so")
        return proof + prove(ran.script, self.depth + 1)

    def inner(self, words: Iterable[Word]) -> Proof:
        """The substitutions in these words."""
        return sum((self.substitution(node) for word in words for node in word.inner), Proof())

    def substitution(self, node: "Node") -> Proof:
        proof = Proof()
        before: Node | None = None
        for child in self.children(node):
            if child.is_named:
                if before is not None and before.type not in ("$(", "<(", "`"):
                    self.check_start(before, child)
                proof += self.statement(child)
            elif child.type not in TOKENS | {"$(", "<(", "`"}:
                raise Refused(f"{source(node)[:60]!r} is not proved read-only")
            before = child
        return proof

    # Variables

    def assigned(self, node: "Node") -> tuple[str, Word]:
        """The name and the value of an assignment; raises Refused."""
        match node.children:
            case [name, sign] if sign.type == "=" and name.type == "variable_name":
                value = Word("")
            case [name, sign, text] if sign.type == "=" and name.type == "variable_name":
                value = self.value(text)
            case _:
                raise Refused(f"the assignment {source(node)!r} is not on the read-only table")
        ends = [child.end_byte for child in node.children[:-1]]
        if ends != [child.start_byte for child in node.children[1:]]:
            raise Refused(f"the assignment {source(node)!r} is not understood")
        return source(node.children[0]), value

    def value(self, node: "Node") -> Word:
        if node.type != "array":
            return read_word(node)
        words = [read_word(child) for child in self.children(node) if child.type not in ("(", ")")]
        return Word("", literal=False, inner=tuple(inner for word in words for inner in word.inner))

    def assignment(self, node: "Node") -> Proof:
        name, value = self.assigned(node)
        self.variable(name)
        return self.inner((value,))

    def variable(self, name: str) -> None:
        if not VARIABLE.fullmatch(name):
            raise Refused(f"setting {name!r} may change what a program does")

    # Redirects

    def redirected(self, node: "Node") -> Proof:
        children = self.children(node)
        return self.all(children)

    def file_redirect(self, node: "Node") -> Proof:
        children = [child for child in self.children(node) if child.type != "file_descriptor"]
        operator, targets = children[0].type, children[1:]
        if operator in (">&-", "<&-") and not targets:
            return Proof()
        if len(targets) != 1:
            raise Refused(f"the redirect {source(node)!r} is not understood")
        target = read_word(targets[0])
        if operator == "<":
            return self.input(target) + self.inner((target,))
        if operator in (">&", "<&") and target.literal and (target.text.isdigit() or target.text == "-"):
            return Proof()
        if operator not in (">", ">>", "&>", "&>>", ">|", ">&") or target.text not in WRITTEN_TO_FREELY:
            raise Refused(f"redirect to {source(targets[0])}")
        if not target.literal:
            raise Refused(f"redirect to {source(targets[0])}")
        return Proof()

    def input(self, target: Word) -> Proof:
        """Reading a file. bash takes `/dev/tcp/…` for a connection, which an expansion could make."""
        if target.text.startswith(("/dev/tcp", "/dev/udp")) or (not target.literal and not target.inner):
            raise Refused("a redirect from what the text does not show, or from the network")
        if not target.literal and target.text != "/dev/fd/":
            raise Refused("a redirect from what the text does not show")
        return Proof(reads=(target.text,) if target.literal else ())

    def herestring(self, node: "Node") -> Proof:
        children = self.children(node)
        if len(children) != 2 or children[0].type != "<<<":
            raise Refused(f"the redirect {source(node)!r} is not understood")
        return self.inner((read_word(children[1]),))

    def heredoc(self, node: "Node") -> Proof:
        """A here-document, and what follows its mark on the line."""
        children = self.children(node)
        parts = {child.type: child for child in children}
        start, body, end = (parts.get("heredoc_" + part) for part in ("start", "body", "end"))
        if start is None or body is None or end is None:
            raise Refused("a here-document is not understood")
        mark = re.fullmatch(r"(['\"]?)(\w+)\1", source(start), re.ASCII)
        if mark is None or sum(child.type.startswith("heredoc") for child in children) != 3:
            raise Refused("the end of a here-document is not understood")
        self.check_body(body, end, mark[2], tabs="<<-" in parts)
        proof = Proof() if mark[1] else self.body(body, end)
        return proof + self.beside(children)

    def beside(self, children: list["Node"]) -> Proof:
        """The rest of the line on which a here-document is asked for."""
        marks = ("heredoc_start", "heredoc_body", "heredoc_end", "<<", "<<-")
        rest = [child for child in children if child.type not in marks]
        named = [child for child in rest if child.is_named]
        if any(not child.is_named and child.type not in ("&&", "||", "|") for child in rest):
            raise Refused("what follows a here-document is not understood")
        return self.all(named)

    def check_body(self, body: "Node", end: "Node", mark: str, *, tabs: bool) -> None:
        """The body ends where bash ends it: at the first line that is the mark; raises Refused."""
        lines = self.raw[body.start_byte : end.end_byte].decode().split("\n")
        bare = [line.lstrip("\t") if tabs else line for line in lines]
        if bare.count(mark) != 1 or bare[-1] != mark or self.raw[end.end_byte : end.end_byte + 1] not in (b"", b"\n"):
            raise Refused("the end of a here-document is not understood")

    def body(self, body: "Node", end: "Node") -> Proof:
        if b"\\\n" in self.raw[body.start_byte : end.start_byte]:
            raise Refused("a line is continued inside a here-document")
        return self.inner((live_text(body, body.start_byte, body.end_byte, ""),))

    # Conditions and loops

    def condition(self, node: "Node") -> Proof:
        """`[ … ]` and `[[ … ]]`."""
        nodes = list(self.tested(node))
        double = node.children[0].type == "[["
        words = tuple(map(self.compared, nodes)) if double else self.bracket(nodes)
        return Proof(("[",)) + self.inner(words)

    def tested(self, node: "Node") -> Iterable["Node"]:
        """The words inside, operators included, in order."""
        pending = list(reversed(self.children(node)[1:-1]))
        while pending:
            child = pending.pop()
            if child.type in ("unary_expression", "binary_expression", "parenthesized_expression"):
                pending += reversed(self.children(child))
            else:
                yield child

    def bracket(self, nodes: list["Node"]) -> tuple[Word, ...]:
        """The words of `[ … ]`, in which the grammar takes a redirect for a comparison; raises Refused."""
        if any(node.type in ("<", ">", "(", ")", "&&", "||") for node in nodes):
            raise Refused("`[` with a redirect or a list is not understood")
        words = tuple(read_word(node) for node in self.separated(nodes))
        check_test(words)
        return words

    def compared(self, node: "Node") -> Word:
        """One word of `[[ … ]]`, where nothing is split; raises Refused."""
        text = source(node)
        operator = not node.is_named or node.type == "test_operator"
        if (operator and text not in CONDITION_WORDS) or text in EVALUATING:
            raise Refused(f"{text!r} in a condition may evaluate what it is given")
        if operator:
            return Word(text)
        if node.type in ("regex", "extglob_pattern"):
            return self.pattern(node)
        return read_word(node)

    def pattern(self, node: "Node") -> Word:
        text = source(node)
        if re.search(r"[\s;&<>`'\"\\]|\$[^)|]", text):
            raise Refused(f"the pattern {text!r} is not understood")
        return Word("", literal=False)

    def loop(self, node: "Node") -> Proof:
        """`for name in words; do …; done`."""
        children = self.children(node)
        names = [child for child in children if child.type == "variable_name"]
        tokens = [child.type for child in children if not child.is_named]
        bodies = [child for child in children if child.type == "do_group"]
        if len(names) != 1 or len(bodies) != 1 or not {*tokens} <= {"for", "in", ";"}:
            raise Refused(f"{source(node)[:60]!r} is not on the read-only table")
        self.variable(source(names[0]))
        values = [c for c in children if c.is_named and c not in (*names, *bodies)]
        words = [read_word(child) for child in self.separated(values)]
        return self.inner(words) + self.block(bodies[0])

    def case(self, node: "Node") -> Proof:
        proof = Proof()
        for child in self.children(node):
            if child.type == "case_item":
                proof += self.case_item(child)
            elif child.is_named and child.type != "comment":
                proof += self.inner((read_word(child),))
            elif child.type not in ("case", "in", "esac", ";"):
                raise Refused(f"{source(node)[:60]!r} is not on the read-only table")
        return proof

    def case_item(self, node: "Node") -> Proof:
        proof = Proof()
        before: Node | None = None
        for index, child in enumerate(self.children(node)):
            if node.field_name_for_child(index) == "value":
                proof += self.case_pattern(child)
            elif child.is_named:
                self.check_start(before, child)
                proof += self.statement(child)
            elif child.type not in TOKENS | {";;"}:
                raise Refused(f"{child.type!r} is not on the read-only table")
            before = child
        return proof

    def case_pattern(self, node: "Node") -> Proof:
        if node.type == "extglob_pattern":
            self.pattern(node)
            return Proof()
        return self.inner((read_word(node),))


REDIRECTS = frozenset({"file_redirect", "herestring_redirect", "heredoc_redirect"})
BESIDE = REDIRECTS | {"variable_assignment"}
"""What stands in a simple command and is no word of it."""

WALKS: dict[str, "Callable[[_Walk, Node], Proof]"] = {
    "comment": _Walk.comment,
    "command": _Walk.command,
    "redirected_statement": _Walk.redirected,
    "file_redirect": _Walk.file_redirect,
    "herestring_redirect": _Walk.herestring,
    "heredoc_redirect": _Walk.heredoc,
    "variable_assignment": _Walk.assignment,
    "test_command": _Walk.condition,
    "for_statement": _Walk.loop,
    "case_statement": _Walk.case,
}

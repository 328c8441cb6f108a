"""An interpreter of shell texts without running them: it follows the folder, the variables and the functions.

The handlers of the syntax nodes, and the resulting proof, are in `proof`.
"""

import re
from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, TypeAlias

from msgspec import Struct
from msgspec.structs import replace

from remit.policy.commands.parsed_command import BLANKS, TreeText, parse_tree, unmask_text
from remit.policy.commands.programs.row import (
    Lines,
    Write,
    change_folder,
    check_plain_file,
    is_harmless_device,
    locate_write,
    write_to,
)
from remit.policy.commands.words import (
    HOME_MARK,
    START_MARK,
    KnownVariables,
    UnprovedCommand,
    Word,
    node_source,
    read_live_text,
    read_word,
    read_words,
    word_set,
)

if TYPE_CHECKING:
    from tree_sitter import Node

MAX_VALUE = 1024  # Characters of a variable's value; a longer value counts as unknown: `a=$a$a` doubles it in each line
MAX_VARIABLES = 128  # Variables with known values
MAX_FOLDER = 4096  # Characters of a folder's path; the system takes no longer one
MAX_SCRIPT_DEPTH = 3  # Shells started by shells
MAX_LOOP_ROUNDS = 4  # Rounds after which the state that a loop leaves must no longer change
MAX_COMMANDS = 400  # Interpreted simple commands, loops unrolled
MAX_STEPS = 10_000  # Interpreted statements and words, loops unrolled; a long word counts as several

CHARACTERS_PER_STEP = 64

SYNTAX_TOKENS = word_set("; & && || | |& ! ( ) { } if then elif else fi while until do done")
SUBSTITUTION_OPENINGS = ("$(", "<(", ">(", "`")

WRITING_OPERATORS = word_set("> >> &> &>> >| >& <>")
REDIRECT_NODES = word_set("file_redirect herestring_redirect heredoc_redirect")
DOCUMENT_NODES = word_set("heredoc_start heredoc_body heredoc_end << <<-")

Folder: TypeAlias = str | None
"""A path from the folder that the command starts in, absolute, or in the home folder; None if unknown."""


class ShellState(Struct, frozen=True):
    """The shell at one place of the text. A function with several definitions is None."""

    folder: Folder = ""
    stack: tuple[Folder, ...] = ()
    variables: dict[str, Word] = {}
    functions: "dict[str, Node | None]" = {}
    unreachable: bool = False

    @property
    def known_variables(self) -> KnownVariables:
        if self.folder is None:
            return self.variables
        absolute = self.folder.startswith(("/", HOME_MARK))
        place = self.folder if absolute else f"{START_MARK}/{self.folder}" if self.folder else START_MARK
        return {**self.variables, "PWD": Word(place)}

    def assign(self, name: str, value: Word | None) -> "ShellState":
        """Return the state after `name=value`; None stands for an unknown value."""
        variables = {other: word for other, word in self.variables.items() if other != name}
        glob = None if value is None or value.substitutions else value.glob
        if value is not None and glob is not None and len(glob) <= MAX_VALUE and len(variables) < MAX_VARIABLES:
            variables[name] = value
        return replace(self, variables=variables)

    def enter_folder(self, program: str, folder: str) -> "ShellState":
        """Return the state after `cd`, `pushd` or `popd`; an empty `folder` is unknown."""
        if program == "popd":
            return replace(self, folder=self.stack[-1] if self.stack else None, stack=self.stack[:-1])
        try:
            target = change_folder(self.folder, folder) if folder else None
        except UnprovedCommand:
            target = None
        stack = (*self.stack, self.folder) if program == "pushd" else self.stack
        return replace(self, folder=None if target is None or len(target) > MAX_FOLDER else target, stack=stack)


def merge_states(first: ShellState, second: ShellState) -> ShellState:
    """Return the part of two states that holds in both."""
    if first == second or second.unreachable:
        return first
    if first.unreachable:
        return second
    names = first.functions.keys() | second.functions.keys()
    return ShellState(
        folder=first.folder if first.folder == second.folder else None,
        stack=first.stack if first.stack == second.stack else (),
        variables={name: word for name, word in first.variables.items() if second.variables.get(name) == word},
        functions={n: body if (body := first.functions.get(n)) == second.functions.get(n) else None for n in names},
    )


class CommandProof(Struct, frozen=True):
    """The proved effects of a text; its paths start at the folder that the text starts in."""

    programs: tuple[str, ...] = ()
    reads: tuple[str, ...] = ()
    git_folders: tuple[str, ...] = ()  # entered, or of git commands; "" if unknown
    writes: tuple[Write, ...] = ()
    entered_folders: tuple[str, ...] = ()
    changes_state: bool = False  # the text does more than read
    git_verbs: tuple[str, ...] = ()  # of git commands with writes
    undetermined: tuple[str, ...] = ()  # why only the end of a git command shows the changes
    rewrites: bool = False  # a program prints or stores what it read, rewritten
    stores_rewritten: bool = False  # and a file gets that: its new content is not in the text
    unproved_formatters: tuple[str, ...] = ()  # why formatters may do more than lay files out: nothing is proved

    def __add__(self, other: "CommandProof") -> "CommandProof":
        return CommandProof(
            self.programs + other.programs,
            self.reads + other.reads,
            self.git_folders + other.git_folders,
            self.writes + other.writes,
            self.entered_folders + other.entered_folders,
            self.changes_state or other.changes_state,
            self.git_verbs + other.git_verbs,
            self.undetermined + other.undetermined,
            self.rewrites or other.rewrites,
            self.stores_rewritten or other.stores_rewritten,
            self.unproved_formatters + other.unproved_formatters,
        )

    def join_output(self) -> "CommandProof":
        """Return the proof of statements with output to the written files."""
        return replace(self, stores_rewritten=True) if self.rewrites and self.writes else self


class Budget:
    """The work left for a text and its scripts: a bound on time and memory."""

    def __init__(self) -> None:
        self.commands, self.steps = MAX_COMMANDS, MAX_STEPS

    def spend_command(self) -> None:
        self.commands -= 1
        if self.commands < 0:
            raise UnprovedCommand(f"more than {MAX_COMMANDS} commands are run")

    def spend_steps(self, characters: int = 0) -> None:
        self.steps -= 1 + characters // CHARACTERS_PER_STEP
        if self.steps < 0:
            raise UnprovedCommand(f"the command takes more than {MAX_STEPS} steps to read, with its loops run through")


Handlers: TypeAlias = "Mapping[str, Callable[[Interpreter, Node], CommandProof]]"
"""The handlers of syntax nodes, by their type."""


class Interpreter:
    """The interpretation of one text.

    `state` is the shell's state after the interpreted part, `failed_state` the state after a failure of that part. `cd`
    is assumed to succeed (the caller checks the folder), except for commands behind `cd … ||`: they start from
    `state_before_cd`. `input_lines` are the lines of the input, `output_lines` the lines of the last command.
    """

    def __init__(self, text: str, handlers: Handlers, state: ShellState, budget: Budget, depth: int = 0) -> None:
        self.text = TreeText(text.encode())
        self.handlers = handlers
        self.state = state
        self.budget = budget
        self.depth = depth
        self.failed_state: ShellState | None = None
        self.state_before_cd: ShellState | None = None
        self.exits: list[ShellState] = []
        self.calls: tuple[str, ...] = ()
        self.input_lines: Lines = None
        self.output_lines: Lines = None
        self.redirecting = False

    def interpret_root(self, root: "Node") -> CommandProof:
        raw = self.text.raw
        if not BLANKS.fullmatch(raw[: root.start_byte]) or not BLANKS.fullmatch(raw[root.end_byte :]):
            raise UnprovedCommand("the command is not understood as bash")
        return self.interpret(root)

    def interpret_script(self, text: str) -> CommandProof:
        """Interpret a script that starts in the present folder. Raises UnprovedCommand."""
        if self.depth >= MAX_SCRIPT_DEPTH:
            raise UnprovedCommand("too many shells run each other")
        start = ShellState(folder=self.state.folder)
        return Interpreter(text, self.handlers, start, self.budget, self.depth + 1).interpret_root(parse_tree(text))

    def interpret(self, node: "Node") -> CommandProof:
        self.failed_state = self.state_before_cd = self.output_lines = None
        self.budget.spend_steps()
        handler = self.handlers.get(node.type)
        if handler is None or not node.is_named:
            raise UnprovedCommand(f"{node_source(node)[:60]!r} is not on the tables")
        return handler(self, node)

    def interpret_all(self, nodes: Iterable["Node"]) -> CommandProof:
        return sum((self.interpret(node) for node in nodes), CommandProof())

    def interpret_block(self, node: "Node") -> CommandProof:
        return self.interpret_statements(self.text.children(node), node)

    def interpret_statements(self, nodes: Sequence["Node"], parent: "Node") -> CommandProof:
        """Interpret statements in order; a statement that ends in `&` leaves the state as before."""
        proof = CommandProof()
        before: Node | None = None
        start = self.state
        for child in nodes:
            if child.is_named:
                if before is None or before.type not in SUBSTITUTION_OPENINGS:
                    self.text.check_start(before, child)
                self.merge_failure()
                start = self.state
                proof += self.interpret(child)
            elif child.type == "&":
                self.state, self.failed_state = start, None
            elif child.type not in SYNTAX_TOKENS and child.type not in SUBSTITUTION_OPENINGS:
                raise UnprovedCommand(f"{child.type!r} in {node_source(parent)[:60]!r} is not on the tables")
            before = child
        return proof

    def interpret_substitutions(self, words: Iterable[Word]) -> CommandProof:
        proof = CommandProof()
        for node in (node for word in words for node in word.substitutions):
            output_lines = self.output_lines
            with self.subshell():
                self.input_lines = None
                proof += self.interpret_block(node)
            self.output_lines = output_lines
        return proof

    def merge_failure(self) -> None:
        """Continue from both states: the next statement runs whether the last one failed or not."""
        if self.failed_state is not None:
            self.state, self.failed_state = merge_states(self.state, self.failed_state), None

    def merge_ends(self, start: ShellState, ends: Iterable[ShellState]) -> None:
        self.state = start
        for end in ends:
            self.state = merge_states(self.state, end)

    @contextmanager
    def subshell(self) -> Generator[None]:
        """Interpret in a separate shell; its settings do not last."""
        state, exits, input_lines = self.state, self.exits, self.input_lines
        self.exits = []
        yield
        self.state, self.exits, self.input_lines, self.failed_state = state, exits, input_lines, None

    def repeat(self, interpret_body: Callable[[], CommandProof], *, once: bool = False) -> CommandProof:
        """Interpret a loop's body until the state no longer changes. Raises UnprovedCommand."""
        exits, self.exits = self.exits, []
        proof = CommandProof()
        for _ in range(MAX_LOOP_ROUNDS):
            start = self.state
            proof += interpret_body()
            self.merge_failure()
            # The body may end early, and without `once` it may not run at all.
            self.merge_ends(self.state, self.exits if once else (*self.exits, start))
            self.exits = []
            if once or self.state == start:
                self.exits = exits
                return proof
        raise UnprovedCommand("what a loop leaves set is not in the text")

    def read_word(self, node: "Node") -> Word:
        return self.pay_for_word(read_word(node, self.state.known_variables))

    def read_words(self, node: "Node") -> tuple[Word, ...]:
        return tuple(map(self.pay_for_word, read_words(node, self.state.known_variables)))

    def pay_for_word(self, word: Word) -> Word:
        self.budget.spend_steps(len(word.text) + len(word.pattern or ""))
        return word


# Redirects


def interpret_with_redirects(shell: Interpreter, body: "Node", redirects: Sequence["Node"]) -> CommandProof:
    if not redirects:
        return shell.interpret(body)
    documents = [child for child in redirects if child.type == "heredoc_redirect"]
    # A here-document may contain commands that run after the one it feeds.
    later = [child for child in documents if any(part.type in ("&&", "||", "|") for part in child.children)]
    proof = shell.interpret_all(child for child in redirects if child not in documents)
    before, input_lines = shell.redirecting, shell.input_lines
    shell.redirecting = True
    if any(map(feeds_input, redirects)):
        shell.input_lines = None
    proof += shell.interpret_all(child for child in documents if child not in later) + shell.interpret(body)
    shell.redirecting, shell.input_lines = before, input_lines
    return proof.join_output() + shell.interpret_all(later)


def feeds_input(node: "Node") -> bool:
    return node.type != "file_redirect" or any(child.type in ("<", "<&", "<>") for child in node.children)


def interpret_file_redirect(shell: Interpreter, node: "Node") -> CommandProof:
    """Interpret `>`, `<` and their kin. Raises UnprovedCommand."""
    children = [child for child in shell.text.children(node) if child.type != "file_descriptor"]
    operator, targets = children[0].type, children[1:]
    if operator in (">&-", "<&-") and not targets:
        return CommandProof()
    if len(targets) != 1:
        raise UnprovedCommand(f"the redirect {node_source(node)!r} is not understood")
    target = shell.read_word(targets[0])
    if operator == "<":
        # For bash `/dev/tcp/…` is a connection, which an expansion could make.
        if target.text.startswith(("/dev/tcp", "/dev/udp")) or (target.glob is None and not target.substitutions):
            raise UnprovedCommand("a redirect from what the text does not show, or from the network")
        if target.glob is None and target.text != "/dev/fd/":
            raise UnprovedCommand("a redirect from what the text does not show")
        reads = (named_file(target.text),) if target.is_literal else ()
        return CommandProof(reads=reads) + shell.interpret_substitutions((target,))
    if operator in (">&", "<&") and target.is_literal and (target.text.isdigit() or target.text == "-"):
        return CommandProof()
    if operator not in WRITING_OPERATORS:
        raise UnprovedCommand(f"the redirect {node_source(node)!r} is not on the tables")
    if target.text == "/dev/fd/" and target.substitutions:
        return shell.interpret_substitutions((target,))
    write = replace(write_to(target, "a redirect"), edits_in_place=operator in (">>", "&>>", "<>"))
    write = locate_write(write, shell.state.folder)
    if is_harmless_device(write.path) and not write.glob:
        return CommandProof()
    check_plain_file(write.path)
    return CommandProof(writes=(write,), changes_state=True)


def interpret_herestring(shell: Interpreter, node: "Node") -> CommandProof:
    children = shell.text.children(node)
    if len(children) != 2 or children[0].type != "<<<":
        raise UnprovedCommand(f"the redirect {node_source(node)!r} is not understood")
    return shell.interpret_substitutions((shell.read_word(children[1]),))


def interpret_heredoc(shell: Interpreter, node: "Node") -> CommandProof:
    children = shell.text.children(node)
    parts = {child.type: child for child in children}
    start, body, end = (parts.get("heredoc_" + part) for part in ("start", "body", "end"))
    if start is None or body is None or end is None:
        raise UnprovedCommand("a here-document is not understood")
    mark = re.fullmatch(r"(['\"]?)(\w+)\1", node_source(start), re.ASCII)
    # The body must end where bash ends it: at the first line that is the mark.
    raw = shell.text.raw
    lines = raw[body.start_byte : end.end_byte].decode().split("\n")
    bare = [line.lstrip("\t") if "<<-" in parts else line for line in lines]
    ends = mark is not None and bare.count(mark[2]) == 1 and bare[-1] == mark[2]
    single = sum(child.type.startswith("heredoc") for child in children) == 3
    if mark is None or not ends or not single or raw[end.end_byte : end.end_byte + 1] not in (b"", b"\n"):
        raise UnprovedCommand("the end of a here-document is not understood")
    proof = CommandProof()
    if not mark[1]:  # without quotes the text expands
        if b"\\\n" in raw[body.start_byte : end.start_byte]:
            raise UnprovedCommand("a line is continued inside a here-document")
        text = read_live_text(body, body.start_byte, body.end_byte, "", shell.state.known_variables)
        proof = shell.interpret_substitutions((text,))
    rest = [child for child in children if child.type not in DOCUMENT_NODES]
    if any(not child.is_named and child.type not in ("&&", "||", "|") for child in rest):
        raise UnprovedCommand("what follows a here-document is not understood")
    if not any(child.type == "|" for child in rest):
        return proof + interpret_rest_of_line(shell, rest)
    with shell.subshell():
        return proof + interpret_rest_of_line(shell, rest)


def interpret_rest_of_line(shell: Interpreter, nodes: Sequence["Node"]) -> CommandProof:
    proof = CommandProof()
    for child in nodes:
        if child.is_named:
            start = shell.state
            proof += shell.interpret(child)
            shell.merge_failure()
            if child.type not in REDIRECT_NODES:
                shell.failed_state = merge_states(start, shell.state)
    return proof


def named_file(path: str) -> str:
    """Return a read file by its name in the text; empty for a file in the home folder."""
    return "" if HOME_MARK in path or START_MARK in path else unmask_text(path)


REDIRECT_HANDLERS: Handlers = {
    "file_redirect": interpret_file_redirect,
    "herestring_redirect": interpret_herestring,
    "heredoc_redirect": interpret_heredoc,
}

"""An interpreter of shell texts that runs nothing: it follows the folder, the variables and the functions.

The handlers of the syntax nodes are in `control_flow`, `simple_commands` and `redirects`; `prove` joins them.
"""

from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, TypeAlias

from msgspec import Struct

from remit.policy.commands.interpret.shell_state import ShellState, merge_states
from remit.policy.commands.parse.options import word_set
from remit.policy.commands.parse.syntax_tree import BLANKS, TreeText, parse_tree
from remit.policy.commands.parse.words import UnprovedCommand, Word, node_source, read_word, read_words
from remit.policy.commands.programs.effects import Lines, Write

if TYPE_CHECKING:
    from tree_sitter import Node

MAX_SCRIPT_DEPTH = 3
"""Shells started by shells."""

MAX_LOOP_ROUNDS = 4
"""Rounds after which the state that a loop leaves must no longer change."""

MAX_COMMANDS = 400
"""Interpreted simple commands, loops unrolled."""

MAX_STEPS = 10_000
"""Interpreted statements and words, loops unrolled; a long word counts as several."""

CHARACTERS_PER_STEP = 64

SYNTAX_TOKENS = word_set("; & && || | |& ! ( ) { } if then elif else fi while until do done")
SUBSTITUTION_OPENINGS = ("$(", "<(", ">(", "`")


class CommandProof(Struct, frozen=True):
    """The proved effects of a text: the programs run, and the files named.

    `git_folders` are entered folders, and folders of git commands; "" if unknown. The paths of `writes` and
    `entered_folders` start at the text's starting folder. `changes_state`: the text does more than read. `git_verbs`
    name git commands with writes; `undetermined` says why only the end of a git command shows the changes.
    """

    programs: tuple[str, ...] = ()
    reads: tuple[str, ...] = ()
    git_folders: tuple[str, ...] = ()
    writes: tuple[Write, ...] = ()
    entered_folders: tuple[str, ...] = ()
    changes_state: bool = False
    git_verbs: tuple[str, ...] = ()
    undetermined: tuple[str, ...] = ()

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
        )


class Budget:
    """The work left for a text and the scripts in it, so that no text takes long or much memory."""

    def __init__(self) -> None:
        self.commands = MAX_COMMANDS
        self.steps = MAX_STEPS

    def spend_command(self) -> None:
        self.commands -= 1
        if self.commands < 0:
            raise UnprovedCommand(f"more than {MAX_COMMANDS} commands are run")

    def spend_steps(self, characters: int = 0) -> None:
        self.steps -= 1 + characters // CHARACTERS_PER_STEP
        if self.steps < 0:
            raise UnprovedCommand(f"the command takes more than {MAX_STEPS} steps to read, with its loops run through")


class Interpreter:
    """The interpretation of one text.

    `state` is the shell's state after the interpreted part, `failed_state` the state after a failure of that part. `cd`
    is assumed to succeed (the caller checks the folder), except for commands behind `cd … ||`: they start from
    `state_before_cd`. `input_lines` are the lines of the input, `output_lines` the lines of the last command.
    """

    def __init__(self, raw: bytes, depth: int, state: ShellState, handlers: "Handlers", budget: Budget) -> None:
        self.text = TreeText(raw)
        self.budget = budget
        self.depth = depth
        self.handlers = handlers
        self.state = state
        self.failed_state: ShellState | None = None
        self.state_before_cd: ShellState | None = None
        self.exits: list[ShellState] = []
        self.calls: tuple[str, ...] = ()
        self.input_lines: Lines = None
        self.output_lines: Lines = None
        self.redirecting = False

    def interpret(self, node: "Node") -> CommandProof:
        """Interpret a statement of any kind. Raises UnprovedCommand."""
        self.failed_state = self.state_before_cd = self.output_lines = None
        self.budget.spend_steps()
        handler = self.handlers.get(node.type)
        if handler is None or not node.is_named:
            raise UnprovedCommand(f"{node_source(node)[:60]!r} is not on the tables")
        return handler(self, node)

    def interpret_all(self, nodes: Iterable["Node"]) -> CommandProof:
        return sum((self.interpret(node) for node in nodes), CommandProof())

    def merge_failure(self) -> None:
        """Continue from both states: the next statement runs whether the last one failed or not."""
        if self.failed_state is not None:
            self.state, self.failed_state = merge_states(self.state, self.failed_state), None

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

    @contextmanager
    def subshell(self) -> Generator[None]:
        """Interpret in a shell of its own, whose settings do not last."""
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
            for state in self.exits if once else (*self.exits, start):
                self.state = merge_states(self.state, state)
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

    def interpret_substitutions(self, words: Iterable[Word]) -> CommandProof:
        """Interpret the substitutions in these words, each in a shell of its own."""
        proof = CommandProof()
        for node in (node for word in words for node in word.substitutions):
            output_lines = self.output_lines
            with self.subshell():
                self.input_lines = None
                proof += self.interpret_statements(self.text.children(node), node)
            self.output_lines = output_lines
        return proof

    def interpret_script(self, text: str, depth: int) -> CommandProof:
        """Interpret a script that starts in the present folder. Raises UnprovedCommand."""
        if depth > MAX_SCRIPT_DEPTH:
            raise UnprovedCommand("too many shells run each other")
        start = ShellState(folder=self.state.folder)
        return interpret_tree(parse_tree(text), text, start, depth, self.handlers, self.budget)


Handlers: TypeAlias = "Mapping[str, Callable[[Interpreter, Node], CommandProof]]"
"""The handlers of syntax nodes, by their type."""


def interpret_tree(
    root: "Node", text: str, state: ShellState, depth: int, handlers: Handlers, budget: Budget
) -> CommandProof:
    raw = text.encode()
    if not BLANKS.fullmatch(raw[: root.start_byte]) or not BLANKS.fullmatch(raw[root.end_byte :]):
        raise UnprovedCommand("the command is not understood as bash")
    return Interpreter(raw, depth, state, handlers, budget).interpret(root)

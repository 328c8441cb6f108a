"""The walk over one text: where the shell stands, and what was found on the way.

What each kind of node does, others say (`flow`, `simple`, `redirects`, `assignments`); `proof` puts them together.
"""

from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, TypeAlias

from msgspec import Struct

from remit.policy.commands.interpret.shell_state import ShellState, merge_states
from remit.policy.commands.parse.options import word_set
from remit.policy.commands.parse.syntax_tree import BLANKS, TreeText, parse_tree
from remit.policy.commands.parse.words import UnprovedCommand, Word, node_source, read_word, read_words
from remit.policy.commands.programs.effects import Write

if TYPE_CHECKING:
    from tree_sitter import Node

MAX_SCRIPT_DEPTH = 3
"""Shells started by shells."""

MAX_LOOP_ROUNDS = 4
"""Rounds after which a loop must have come to rest."""

MAX_COMMANDS = 400
"""Simple commands that are run through, loops unrolled."""

MAX_STEPS = 10_000
"""Statements and words that are gone through, loops unrolled; a long word counts as several."""

CHARACTERS_PER_STEP = 64

SYNTAX_TOKENS = word_set("; & && || | |& ! ( ) { } if then elif else fi while until do done")
SUBSTITUTION_OPENINGS = ("$(", "<(", ">(", "`")


class CommandProof(Struct, frozen=True):
    """What is proved of a command: the programs it runs, the files it names.

    `folders` are those it changes to, or lets git work in; "" where the text does not tell. `writes` are from the
    folder that it starts in, and so is `enters`, the folders that it goes into. `acts`: it does more than read. `git`
    are the verbs of git's commands that do, and `untold` says of which of them only the end tells what they changed.
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
    """Work that may still be done for one text and the scripts in it, so that no text takes long or much memory."""

    def __init__(self) -> None:
        self.commands = MAX_COMMANDS
        self.steps = MAX_STEPS

    def spend_command(self) -> None:
        """Pay for a simple command; raises Refused."""
        self.commands -= 1
        if self.commands < 0:
            raise UnprovedCommand(f"more than {MAX_COMMANDS} commands are run")

    def spend_steps(self, characters: int = 0) -> None:
        """Pay for a statement, or for a word of so many characters; raises Refused."""
        self.steps -= 1 + characters // CHARACTERS_PER_STEP
        if self.steps < 0:
            raise UnprovedCommand(f"the command takes more than {MAX_STEPS} steps to read, with its loops run through")


class Interpreter:
    """The walk over one text.

    `state` is where the shell stands after what was walked, `failed` where it stands if that failed. `cd` is taken to
    succeed (who asks looks whether the folder is there), but for what runs only if not: `unmoved`. `fed` are the lines
    that come in, `lists` those that came out last.
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
        self.input_lines: tuple[Word, ...] | None = None
        self.output_lines: tuple[Word, ...] | None = None
        self.redirecting = False

    def interpret(self, node: "Node") -> CommandProof:
        """One statement of any kind; raises Refused."""
        self.failed_state = self.state_before_cd = self.output_lines = None
        self.budget.spend_steps()
        walk = self.handlers.get(node.type)
        if walk is None or not node.is_named:
            raise UnprovedCommand(f"{node_source(node)[:60]!r} is not on the tables")
        return walk(self, node)

    def interpret_all(self, nodes: Iterable["Node"]) -> CommandProof:
        """Several statements."""
        return sum((self.interpret(node) for node in nodes), CommandProof())

    def merge_failure(self) -> None:
        """The next statement runs whether this one failed or not."""
        if self.failed_state is not None:
            self.state, self.failed_state = merge_states(self.state, self.failed_state), None

    def interpret_block(self, node: "Node") -> CommandProof:
        """Statements and the keywords around them."""
        return self.interpret_statements(self.text.children(node), node)

    def interpret_statements(self, nodes: Sequence["Node"], around: "Node") -> CommandProof:
        """Statements, one after the other; what `&` ends leaves the shell where it was."""
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
                raise UnprovedCommand(f"{child.type!r} in {node_source(around)[:60]!r} is not on the tables")
            before = child
        return proof

    @contextmanager
    def subshell(self) -> Generator[None]:
        """A shell of its own: nothing that it sets lasts."""
        state, escapes, fed = self.state, self.exits, self.input_lines
        self.exits = []
        yield
        self.state, self.exits, self.input_lines, self.failed_state = state, escapes, fed, None

    def repeat(self, interpret_body: Callable[[], CommandProof], *, once: bool = False) -> CommandProof:
        """What a loop's body does, gone through until nothing new is set; raises Refused."""
        escapes, self.exits = self.exits, []
        proof = CommandProof()
        for _ in range(MAX_LOOP_ROUNDS):
            start = self.state
            proof += interpret_body()
            self.merge_failure()
            for escape in self.exits if once else (*self.exits, start):
                self.state = merge_states(self.state, escape)
            self.exits = []
            if once or self.state == start:
                self.exits = escapes
                return proof
        raise UnprovedCommand("what a loop leaves set is not in the text")

    def read_word(self, node: "Node") -> Word:
        """One word, read where the shell stands; raises Refused."""
        return self.pay_for_word(read_word(node, self.state.known_variables))

    def read_words(self, node: "Node") -> tuple[Word, ...]:
        """The words that one becomes where braces are expanded; raises Refused."""
        return tuple(map(self.pay_for_word, read_words(node, self.state.known_variables)))

    def pay_for_word(self, word: Word) -> Word:
        """The word, its length paid for; raises Refused."""
        self.budget.spend_steps(len(word.text) + len(word.pattern or ""))
        return word

    def interpret_substitutions(self, words: Iterable[Word]) -> CommandProof:
        """The substitutions in these words."""
        return sum((self.interpret_substitution(node) for word in words for node in word.substitutions), CommandProof())

    def interpret_substitution(self, node: "Node") -> CommandProof:
        """A shell of its own, within a word."""
        lists = self.output_lines
        with self.subshell():
            self.input_lines = None
            proof = self.interpret_statements(self.text.children(node), node)
        self.output_lines = lists
        return proof

    def interpret_script(self, text: str, depth: int) -> CommandProof:
        """What is proved of a script, which begins where this shell stands; raises Refused."""
        return interpret_text(text, ShellState(folder=self.state.folder), depth, self.handlers, self.budget)


Handlers: TypeAlias = "Mapping[str, Callable[[Interpreter, Node], CommandProof]]"
"""What each kind of node does."""


def interpret_text(text: str, state: ShellState, depth: int, handlers: Handlers, budget: Budget) -> CommandProof:
    """What is proved of a script that begins so; raises Refused."""
    if depth > MAX_SCRIPT_DEPTH:
        raise UnprovedCommand("too many shells run each other")
    root = parse_tree(text)
    raw = text.encode()
    if not BLANKS.fullmatch(raw[: root.start_byte]) or not BLANKS.fullmatch(raw[root.end_byte :]):
        raise UnprovedCommand("the command is not understood as bash")
    return Interpreter(raw, depth, state, handlers, budget).interpret(root)

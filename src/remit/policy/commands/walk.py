"""The walk over one text: where the shell stands, and what was found on the way.

What each kind of node does, others say (`flow`, `simple`, `redirects`, `assignments`); `proof` puts them together.
"""

from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, TypeAlias

from msgspec import Struct

from remit.policy.commands.effects import Write
from remit.policy.commands.options import names
from remit.policy.commands.state import State, merged
from remit.policy.commands.syntax import BLANK, Text, parse
from remit.policy.commands.words import Refused, Word, read_word, read_words, source

if TYPE_CHECKING:
    from tree_sitter import Node

DEEPEST_SCRIPT = 3
"""Shells started by shells."""

SETTLES = 4
"""Rounds after which a loop must have come to rest."""

MAX_COMMANDS = 400
"""Simple commands that are run through, loops unrolled."""

MAX_STEPS = 10_000
"""Statements and words that are gone through, loops unrolled; a long word counts as several."""

CHARACTERS_PER_STEP = 64

TOKENS = names("; & && || | |& ! ( ) { } if then elif else fi while until do done")
PASSED = ("$(", "<(", ">(", "`")


class Proof(Struct, frozen=True):
    """What is proved of a command: the programs it runs, the files it names.

    `folders` are those it changes to, or lets git work in; "" where the text does not tell. `writes` are from the
    folder that it starts in, and so is `enters`, the folders that it goes into. `acts`: it does more than read. `git`
    are the verbs of git's commands that do, and `untold` says of which of them only the end tells what they changed.
    """

    programs: tuple[str, ...] = ()
    reads: tuple[str, ...] = ()
    folders: tuple[str, ...] = ()
    writes: tuple[Write, ...] = ()
    enters: tuple[str, ...] = ()
    acts: bool = False
    git: tuple[str, ...] = ()
    untold: tuple[str, ...] = ()

    def __add__(self, other: "Proof") -> "Proof":
        return Proof(
            self.programs + other.programs,
            self.reads + other.reads,
            self.folders + other.folders,
            self.writes + other.writes,
            self.enters + other.enters,
            self.acts or other.acts,
            self.git + other.git,
            self.untold + other.untold,
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
            raise Refused(f"more than {MAX_COMMANDS} commands are run")

    def spend_steps(self, characters: int = 0) -> None:
        """Pay for a statement, or for a word of so many characters; raises Refused."""
        self.steps -= 1 + characters // CHARACTERS_PER_STEP
        if self.steps < 0:
            raise Refused(f"the command takes more than {MAX_STEPS} steps to read, with its loops run through")


class Walk:
    """The walk over one text.

    `state` is where the shell stands after what was walked, `failed` where it stands if that failed. `cd` is taken to
    succeed (who asks looks whether the folder is there), but for what runs only if not: `unmoved`. `fed` are the lines
    that come in, `lists` those that came out last.
    """

    def __init__(self, raw: bytes, depth: int, state: State, walks: "Walks", budget: Budget) -> None:
        self.text = Text(raw)
        self.budget = budget
        self.depth = depth
        self.walks = walks
        self.state = state
        self.failed: State | None = None
        self.unmoved: State | None = None
        self.escapes: list[State] = []
        self.calls: tuple[str, ...] = ()
        self.fed: tuple[Word, ...] | None = None
        self.lists: tuple[Word, ...] | None = None
        self.redirecting = False

    def statement(self, node: "Node") -> Proof:
        """One statement of any kind; raises Refused."""
        self.failed = self.unmoved = self.lists = None
        self.budget.spend_steps()
        walk = self.walks.get(node.type)
        if walk is None or not node.is_named:
            raise Refused(f"{source(node)[:60]!r} is not on the tables")
        return walk(self, node)

    def all(self, nodes: Iterable["Node"]) -> Proof:
        """Several statements."""
        return sum((self.statement(node) for node in nodes), Proof())

    def settle(self) -> None:
        """The next statement runs whether this one failed or not."""
        if self.failed is not None:
            self.state, self.failed = merged(self.state, self.failed), None

    def block(self, node: "Node") -> Proof:
        """Statements and the keywords around them."""
        return self.statements(self.text.children(node), node)

    def statements(self, nodes: Sequence["Node"], around: "Node") -> Proof:
        """Statements, one after the other; what `&` ends leaves the shell where it was."""
        proof = Proof()
        before: Node | None = None
        start = self.state
        for child in nodes:
            if child.is_named:
                if before is None or before.type not in PASSED:
                    self.text.check_start(before, child)
                self.settle()
                start = self.state
                proof += self.statement(child)
            elif child.type == "&":
                self.state, self.failed = start, None
            elif child.type not in TOKENS and child.type not in PASSED:
                raise Refused(f"{child.type!r} in {source(around)[:60]!r} is not on the tables")
            before = child
        return proof

    @contextmanager
    def apart(self) -> Generator[None]:
        """A shell of its own: nothing that it sets lasts."""
        state, escapes, fed = self.state, self.escapes, self.fed
        self.escapes = []
        yield
        self.state, self.escapes, self.fed, self.failed = state, escapes, fed, None

    def repeated(self, go: Callable[[], Proof], *, once: bool = False) -> Proof:
        """What a loop's body does, gone through until nothing new is set; raises Refused."""
        escapes, self.escapes = self.escapes, []
        proof = Proof()
        for _ in range(SETTLES):
            start = self.state
            proof += go()
            self.settle()
            for escape in self.escapes if once else (*self.escapes, start):
                self.state = merged(self.state, escape)
            self.escapes = []
            if once or self.state == start:
                self.escapes = escapes
                return proof
        raise Refused("what a loop leaves set is not in the text")

    def read_word(self, node: "Node") -> Word:
        """One word, read where the shell stands; raises Refused."""
        return self.paid(read_word(node, self.state.known))

    def read_words(self, node: "Node") -> tuple[Word, ...]:
        """The words that one becomes where braces are expanded; raises Refused."""
        return tuple(map(self.paid, read_words(node, self.state.known)))

    def paid(self, word: Word) -> Word:
        """The word, its length paid for; raises Refused."""
        self.budget.spend_steps(len(word.text) + len(word.pattern or ""))
        return word

    def inner(self, words: Iterable[Word]) -> Proof:
        """The substitutions in these words."""
        return sum((self.substitution(node) for word in words for node in word.inner), Proof())

    def substitution(self, node: "Node") -> Proof:
        """A shell of its own, within a word."""
        lists = self.lists
        with self.apart():
            self.fed = None
            proof = self.statements(self.text.children(node), node)
        self.lists = lists
        return proof

    def script(self, text: str, depth: int) -> Proof:
        """What is proved of a script, which begins where this shell stands; raises Refused."""
        return walked(text, State(folder=self.state.folder), depth, self.walks, self.budget)


Walks: TypeAlias = "Mapping[str, Callable[[Walk, Node], Proof]]"
"""What each kind of node does."""


def walked(text: str, state: State, depth: int, walks: Walks, budget: Budget) -> Proof:
    """What is proved of a script that begins so; raises Refused."""
    if depth > DEEPEST_SCRIPT:
        raise Refused("too many shells run each other")
    root = parse(text)
    raw = text.encode()
    if not BLANK.fullmatch(raw[: root.start_byte]) or not BLANK.fullmatch(raw[root.end_byte :]):
        raise Refused("the command is not understood as bash")
    return Walk(raw, depth, state, walks, budget).statement(root)

"""Where a shell stands while it runs: its folder, and the variables and functions that the text has set."""

from typing import TYPE_CHECKING, TypeAlias

from msgspec import Struct
from msgspec.structs import replace

from remit.policy.commands.effects import moved
from remit.policy.commands.patterns import escaped
from remit.policy.commands.words import HOME, START, Known, Refused, Word

if TYPE_CHECKING:
    from tree_sitter import Node

MAX_VALUE = 1024
"""Characters of a variable's value; a longer one counts as not known, or `a=$a$a` doubles it in each line."""

MAX_VARIABLES = 128
"""Variables whose values are known at once."""

MAX_FOLDER = 4096
"""Characters of a folder's path; the system takes no longer one."""

Folder: TypeAlias = str | None
"""From the folder that the command starts in, absolute, or in the home folder; None where the text does not tell."""


class State(Struct, frozen=True):
    """The shell at one place of the text. `gone`: it never gets here. A function is None where it is one of several."""

    folder: Folder = ""
    stack: tuple[Folder, ...] = ()
    variables: dict[str, Word] = {}
    functions: "dict[str, Node | None]" = {}
    gone: bool = False

    @property
    def known(self) -> Known:
        """The variables, and the shell's own word for the folder."""
        if self.folder is None:
            return self.variables
        absolute = self.folder.startswith(("/", HOME))
        place = self.folder if absolute else f"{START}/{self.folder}" if self.folder else START
        return {**self.variables, "PWD": Word(place)}

    def assigned(self, name: str, value: Word | None) -> "State":
        """After `name=value`; None where the text does not tell the value."""
        kept = {other: word for other, word in self.variables.items() if other != name}
        glob = None if value is None or value.inner else value.glob
        if value is not None and glob is not None and len(glob) <= MAX_VALUE and len(kept) < MAX_VARIABLES:
            kept[name] = value
        return replace(self, variables=kept)

    def entered(self, program: str, folder: str) -> "State":
        """After `cd`, `pushd` or `popd`. `folder` is empty where the text does not tell it."""
        if program == "popd":
            return replace(self, folder=self.stack[-1] if self.stack else None, stack=self.stack[:-1])
        stack = (*self.stack, self.folder) if program == "pushd" else self.stack
        return replace(self, folder=self.place(folder), stack=stack)

    def place(self, folder: str) -> Folder:
        """Where `cd folder` leads from here."""
        try:
            place = moved(self.folder, folder) if folder else None
        except Refused:
            return None
        return place if place is None or len(place) <= MAX_FOLDER else None


def merged(one: State, other: State) -> State:
    """What holds whichever of the two it was."""
    if one == other or other.gone:
        return one
    if one.gone:
        return other
    names = one.functions.keys() | other.functions.keys()
    return State(
        folder=one.folder if one.folder == other.folder else None,
        stack=one.stack if one.stack == other.stack else (),
        variables={name: word for name, word in one.variables.items() if other.variables.get(name) == word},
        functions={n: body if (body := one.functions.get(n)) == other.functions.get(n) else None for n in names},
    )


def bound(word: Word) -> Word | None:
    """The value of a loop's variable for one word of its list. A file that a glob names is one word."""
    if word.glob is None or word.inner:
        return None
    if word.literal:
        return word
    return Word(word.text, literal=False, pattern=word.pattern or escaped(word.text), maybe=word.maybe)

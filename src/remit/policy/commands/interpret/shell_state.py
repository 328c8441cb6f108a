"""Where a shell stands while it runs: its folder, and the variables and functions that the text has set."""

from typing import TYPE_CHECKING, TypeAlias

from msgspec import Struct
from msgspec.structs import replace

from remit.policy.commands.parse.words import HOME_MARK, START_MARK, KnownVariables, UnprovedCommand, Word, escape_glob
from remit.policy.commands.programs.effects import change_folder

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


class ShellState(Struct, frozen=True):
    """The shell at one place of the text. `gone`: it never gets here. A function is None where it is one of several."""

    folder: Folder = ""
    stack: tuple[Folder, ...] = ()
    variables: dict[str, Word] = {}
    functions: "dict[str, Node | None]" = {}
    unreachable: bool = False

    @property
    def known_variables(self) -> KnownVariables:
        """The variables, and the shell's own word for the folder."""
        if self.folder is None:
            return self.variables
        absolute = self.folder.startswith(("/", HOME_MARK))
        place = self.folder if absolute else f"{START_MARK}/{self.folder}" if self.folder else START_MARK
        return {**self.variables, "PWD": Word(place)}

    def assign(self, name: str, value: Word | None) -> "ShellState":
        """After `name=value`; None where the text does not tell the value."""
        kept = {other: word for other, word in self.variables.items() if other != name}
        glob = None if value is None or value.substitutions else value.glob
        if value is not None and glob is not None and len(glob) <= MAX_VALUE and len(kept) < MAX_VARIABLES:
            kept[name] = value
        return replace(self, variables=kept)

    def enter_folder(self, program: str, folder: str) -> "ShellState":
        """After `cd`, `pushd` or `popd`. `folder` is empty where the text does not tell it."""
        if program == "popd":
            return replace(self, folder=self.stack[-1] if self.stack else None, stack=self.stack[:-1])
        stack = (*self.stack, self.folder) if program == "pushd" else self.stack
        return replace(self, folder=self.resolve_folder(folder), stack=stack)

    def resolve_folder(self, folder: str) -> Folder:
        """Where `cd folder` leads from here."""
        try:
            place = change_folder(self.folder, folder) if folder else None
        except UnprovedCommand:
            return None
        return place if place is None or len(place) <= MAX_FOLDER else None


def merge_states(first: ShellState, second: ShellState) -> ShellState:
    """What holds whichever of the two it was."""
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


def loop_value(word: Word) -> Word | None:
    """The value of a loop's variable for one word of its list. A file that a glob names is one word."""
    if word.glob is None or word.substitutions:
        return None
    if word.is_literal:
        return word
    return Word(
        word.text, is_literal=False, pattern=word.pattern or escape_glob(word.text), is_optional=word.is_optional
    )

"""The state of a shell: its folder, and the variables and functions that the text has set."""

from typing import TYPE_CHECKING, TypeAlias

from msgspec import Struct
from msgspec.structs import replace

from remit.policy.commands.parse.words import HOME_MARK, START_MARK, KnownVariables, UnprovedCommand, Word, escape_glob
from remit.policy.commands.programs.effects import change_folder

if TYPE_CHECKING:
    from tree_sitter import Node

MAX_VALUE = 1024
"""Characters of a variable's value; a longer value counts as unknown: `a=$a$a` doubles it in each line."""

MAX_VARIABLES = 128
"""Variables with known values."""

MAX_FOLDER = 4096
"""Characters of a folder's path; the system takes no longer one."""

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
        """The variables of the text, and PWD."""
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
        stack = (*self.stack, self.folder) if program == "pushd" else self.stack
        return replace(self, folder=self.resolve_folder(folder), stack=stack)

    def resolve_folder(self, folder: str) -> Folder:
        """Return the folder that `cd folder` leads to."""
        try:
            target = change_folder(self.folder, folder) if folder else None
        except UnprovedCommand:
            return None
        return target if target is None or len(target) <= MAX_FOLDER else None


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


def loop_value(word: Word) -> Word | None:
    """Return the value of a loop's variable for one word of its list: a file that a glob matches is one word."""
    if word.glob is None or word.substitutions:
        return None
    if word.is_literal:
        return word
    pattern = word.pattern or escape_glob(word.text)
    return Word(word.text, is_literal=False, pattern=pattern, is_optional=word.is_optional)

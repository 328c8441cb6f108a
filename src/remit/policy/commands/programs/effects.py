"""The effects of a command: the written files, and the state of the shell afterwards."""

import posixpath
from collections.abc import Sequence
from typing import TypeAlias

from msgspec import Struct
from msgspec.structs import replace

from remit.policy.commands.parse.syntax_tree import unmask_text
from remit.policy.commands.parse.words import HOME_MARK, START_MARK, UnprovedCommand, Word, fixed_folder

Lines: TypeAlias = tuple[Word, ...] | None
"""The words that the lines of a program's input or output are; None where the text does not show them."""

FREE_TARGETS = frozenset({"/dev/null", "/dev/stdout", "/dev/stderr", "/dev/tty"})
"""Devices that every command may write to."""


class Write(Struct, frozen=True):
    """One place written, created or removed by a command.

    `path` is unchanged from the text: relative to the starting folder, absolute, or `~/…`; with `glob`, a pattern.
    """

    path: str
    glob: bool = False
    follows_links: bool = True
    """If the last part of the path is a link, the file behind it is written."""
    is_recursive: bool = False
    """Everything below a folder is written as well."""
    adds_names: bool = False
    """The folder may get new names that the text does not show."""
    names_inside: tuple[str, ...] = ()
    """If the path is a folder, these names in it are written instead."""
    may_be_link: bool = False
    """Afterwards the path may be a link, or contain links."""
    edits_in_place: bool = False
    """The rest of the content stays."""
    is_optional: bool = False
    """Some or all of the files may be left as they are."""
    makes_folder: bool = False
    """A folder is made, or left alone if it exists."""
    is_work_tree: bool = False
    """A new working tree of git, with git's own folder in it."""


class CommandEffects(Struct, frozen=True):
    """The proved effects of one simple command, and the script passed to a shell.

    `changes_state`: the command does more than read, perhaps without a written file. `folder` is the shell's next
    folder (`changes_folder`), or git's folder if not the present one; "" if unknown. `variables` are set from the
    input. `git_verb` names a git command with writes; `undetermined` says why only the end of the command shows the
    changes.
    """

    programs: tuple[str, ...]
    reads: tuple[str, ...] = ()
    folder: str | None = None
    script: str | None = None
    is_posix_shell: bool = False
    changes_folder: bool = False
    changes_state: bool = False
    writes: tuple[Write, ...] = ()
    output_lines: Lines = None
    variables: tuple[str, ...] = ()
    git_verb: str = ""
    undetermined: str = ""


def write_to(word: Word, program: str) -> Write:
    """Return the write to the path in a word. Raises UnprovedCommand for an unknown path."""
    path = word.text if word.is_literal else word.pattern
    if path is None or word.substitutions:
        raise UnprovedCommand(f"what `{program}` writes to is not in the text")
    if not path or path != path.strip() or "\n" in path or path.startswith("="):
        raise UnprovedCommand(f"`{program}` writes to {path!r}, which names no plain file")
    return Write(path, glob=not word.is_literal, is_optional=word.is_optional)


def write_files(program: str, words: Sequence[Word]) -> tuple[Write, ...]:
    """Return a write to each of the files; `-` names none."""
    return tuple(write_to(word, program) for word in words if not (word.is_literal and word.text == "-"))


def extract_to(word: Word, program: str) -> Write:
    """Return the write to a folder for the files of an archive: unknown names, possibly links."""
    return replace(write_to(word, program), adds_names=True, may_be_link=True)


def check_plain_file(path: str) -> None:
    """Raise UnprovedCommand for a device, and for a path that may lead anywhere."""
    if path.startswith(("/dev/", "/proc/", "/sys/")) and path not in FREE_TARGETS:
        raise UnprovedCommand(f"{path!r} is no plain file")


# Paths from the folder that the command starts in


def join_folder(folder: str | None, path: str) -> str:
    """Return `path`, given in `folder`, from the start. Raises UnprovedCommand where the folder is not known."""
    if path.startswith(START_MARK):
        return path[1:].lstrip("/") or "."
    if path.startswith(("/", HOME_MARK)):
        return path
    if folder is None:
        raise UnprovedCommand(f"the folder in which {path!r} lies is not in the text")
    return posixpath.join(folder, path)


def change_folder(folder: str | None, path: str) -> str:
    """Return the folder after `cd path`, normalised by its text as the shell does, `..` included."""
    target = join_folder(folder, path)
    if target.startswith(HOME_MARK):
        inside = posixpath.normpath("/" + target[1:].lstrip("/"))
        return HOME_MARK + ("" if inside == "/" else inside)
    normal = posixpath.normpath(target)
    return "" if normal == "." else normal


def display_path(path: str) -> str:
    """Return the path with `~` for the home folder and for nothing else."""
    if path.startswith(HOME_MARK):
        rest = path[1:]
        if rest and not rest.startswith("/"):
            raise UnprovedCommand("a home folder in the middle of a name")
        path = "~" + rest
    elif path.startswith("~"):
        path = "./" + path
    if HOME_MARK in path or START_MARK in path:
        raise UnprovedCommand("a home folder in the middle of a name")
    return unmask_text(path)


def locate_write(write: Write, folder: str | None) -> Write:
    """Return the write with its path from the start. Raises UnprovedCommand."""
    path = display_path(join_folder(folder, write.path))
    return replace(write, path=path, names_inside=tuple(map(unmask_text, write.names_inside)))


# Links


def check_links(writes: tuple[Write, ...]) -> None:
    """Raise UnprovedCommand if a write may go through a link made by the same command."""
    for made in writes:
        if not made.may_be_link:
            continue
        for other in writes:
            if other != made and may_write_through(made, other):
                raise UnprovedCommand(f"{other.path!r} may lie behind a link that this command makes")


def may_write_through(made: Write, other: Write) -> bool:
    """Return True if `other` may be written through a link that `made` leaves."""
    for place in possible_places(made):
        for path in possible_places(other):
            replaced = other.path.count("/") <= place.count("/") if other.glob else path == place
            if replaced and not other.follows_links and not other.names_inside:
                continue
            if path == place or path.startswith(f"{place}/") or (other.glob and f"{place}/".startswith(f"{path}/")):
                return True
    return False


def possible_places(write: Write) -> tuple[str, ...]:
    """Return the normalised paths of a write; for a pattern, the folder of all matches."""
    path = fixed_folder(write.path) if write.glob else write.path
    at = posixpath.normpath(path or ".")
    inside = tuple(posixpath.normpath(posixpath.join(at, name)) for name in write.names_inside)
    return inside if write.path.endswith("/") and inside else (at, *inside)

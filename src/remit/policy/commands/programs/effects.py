"""What a command writes, as far as its text says it: paths, and how they are to be read."""

import posixpath

from msgspec import Struct
from msgspec.structs import replace

from remit.policy.commands.parse.syntax_tree import unmask_text
from remit.policy.commands.parse.words import HOME_MARK, START_MARK, UnprovedCommand, Word, fixed_folder


class Write(Struct, frozen=True):
    """One place that a command writes to, creates or removes.

    `path` is as the text gives it: relative to the folder that the command starts in, absolute, or `~/…`; where it is a
    `glob`, a pattern of such paths. `follows`: a link at its end is followed. `below`: all that is in it, too; `opens`:
    and new names that the text does not tell. `into`: where it is a folder, it is these names in it that are written.
    `links`: afterwards it may be a link, or hold some. `edits`: what is there is kept, but for the part that changes.
    `maybe`: not all of it need be written. `makes`: a folder, which is left alone where it is there already. `tree`: a
    new work tree of git's, with a folder of git's in it.
    """

    path: str
    glob: bool = False
    follows_links: bool = True
    is_recursive: bool = False
    adds_names: bool = False
    names_inside: tuple[str, ...] = ()
    may_be_link: bool = False
    edits_in_place: bool = False
    is_optional: bool = False
    makes_folder: bool = False
    is_work_tree: bool = False


class CommandEffects(Struct, frozen=True):
    """What is known of one simple command, and the script that it hands to a shell, still to be read.

    `acts`: it does more than read, even where it writes to no file of the user's. `folder` is where it leaves the shell
    (`moves`), or where git works, if not in the present folder ("" for: unknown). `lists` are the words that the lines
    of its output are, `sets` the variables that it sets. `git` is the verb of one of git's commands that do more than
    read; `untold` says why only its end tells what it changed.
    """

    programs: tuple[str, ...]
    reads: tuple[str, ...] = ()
    folder: str | None = None
    script: str | None = None
    is_posix_shell: bool = False
    changes_folder: bool = False
    changes_state: bool = False
    writes: tuple[Write, ...] = ()
    output_lines: tuple[Word, ...] | None = None
    variables: tuple[str, ...] = ()
    git_verb: str = ""
    undetermined: str = ""


def write_to(word: Word, program: str) -> Write:
    """The place that a word names; raises Refused where the text does not tell it."""
    path = word.text if word.is_literal else word.pattern
    if path is None or word.substitutions:
        raise UnprovedCommand(f"what `{program}` writes to is not in the text")
    if not path or path != path.strip() or "\n" in path or path.startswith("="):
        raise UnprovedCommand(f"`{program}` writes to {path!r}, which names no plain file")
    return Write(path, glob=not word.is_literal, is_optional=word.is_optional)


def join_folder(folder: str | None, path: str) -> str:
    """`path`, given in `folder`, from the start; raises Refused where the folder is not known."""
    if path.startswith(START_MARK):
        return path[1:].lstrip("/") or "."
    if path.startswith(("/", HOME_MARK)):
        return path
    if folder is None:
        raise UnprovedCommand(f"the folder in which {path!r} lies is not in the text")
    return posixpath.join(folder, path)


def change_folder(folder: str | None, path: str) -> str:
    """The folder after `cd path`, as the shell tidies it: by its text, `..` included."""
    target = join_folder(folder, path)
    if target.startswith(HOME_MARK):
        inside = posixpath.normpath("/" + target[1:].lstrip("/"))
        return HOME_MARK + ("" if inside == "/" else inside)
    tidy = posixpath.normpath(target)
    return "" if tidy == "." else tidy


def display_path(path: str) -> str:
    """The path as others read it: `~` for the home folder, and nothing else that begins with it."""
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
    """The write, its path from the start; raises Refused."""
    return replace(
        write,
        path=display_path(join_folder(folder, write.path)),
        names_inside=tuple(map(unmask_text, write.names_inside)),
    )


def check_links(writes: tuple[Write, ...]) -> None:
    """No write goes through what may be a link only since this command; raises Refused."""
    for made in writes:
        if not made.may_be_link:
            continue
        for other in writes:
            if other != made and may_write_through(made, other):
                raise UnprovedCommand(f"{other.path!r} may lie behind a link that this command makes")


def may_write_through(made: Write, other: Write) -> bool:
    """Whether `other` may be written through what `made` leaves."""
    for place in possible_places(made):
        for path in possible_places(other):
            at_most = other.path.count("/") <= place.count("/") if other.glob else path == place
            if at_most and not other.follows_links and not other.names_inside:
                continue
            if path == place or path.startswith(f"{place}/") or (other.glob and f"{place}/".startswith(f"{path}/")):
                return True
    return False


def possible_places(write: Write) -> tuple[str, ...]:
    """Where it may end up, tidied; of a pattern, the folder that all its matches lie in."""
    path = fixed_folder(write.path) if write.glob else write.path
    at = posixpath.normpath(path or ".")
    inside = tuple(posixpath.normpath(posixpath.join(at, name)) for name in write.names_inside)
    return inside if write.path.endswith("/") and inside else (at, *inside)

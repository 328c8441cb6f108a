"""What a command writes, as far as its text says it: paths, and how they are to be read."""

import posixpath

from msgspec import Struct
from msgspec.structs import replace

from remit.policy.commands.patterns import fixed_folder
from remit.policy.commands.syntax import unmasked
from remit.policy.commands.words import HOME, START, Refused, Word


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
    follows: bool = True
    below: bool = False
    opens: bool = False
    into: tuple[str, ...] = ()
    links: bool = False
    edits: bool = False
    maybe: bool = False
    makes: bool = False
    tree: bool = False


class Run(Struct, frozen=True):
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
    dash: bool = False
    moves: bool = False
    acts: bool = False
    writes: tuple[Write, ...] = ()
    lists: tuple[Word, ...] | None = None
    sets: tuple[str, ...] = ()
    git: str = ""
    untold: str = ""


def written(word: Word, program: str) -> Write:
    """The place that a word names; raises Refused where the text does not tell it."""
    path = word.text if word.literal else word.pattern
    if path is None or word.inner:
        raise Refused(f"what `{program}` writes to is not in the text")
    if not path or path != path.strip() or "\n" in path or path.startswith("="):
        raise Refused(f"`{program}` writes to {path!r}, which names no plain file")
    return Write(path, glob=not word.literal, maybe=word.maybe)


def joined(folder: str | None, path: str) -> str:
    """`path`, given in `folder`, from the start; raises Refused where the folder is not known."""
    if path.startswith(START):
        return path[1:].lstrip("/") or "."
    if path.startswith(("/", HOME)):
        return path
    if folder is None:
        raise Refused(f"the folder in which {path!r} lies is not in the text")
    return posixpath.join(folder, path)


def moved(folder: str | None, path: str) -> str:
    """The folder after `cd path`, as the shell tidies it: by its text, `..` included."""
    target = joined(folder, path)
    if target.startswith(HOME):
        inside = posixpath.normpath("/" + target[1:].lstrip("/"))
        return HOME + ("" if inside == "/" else inside)
    tidy = posixpath.normpath(target)
    return "" if tidy == "." else tidy


def as_told(path: str) -> str:
    """The path as others read it: `~` for the home folder, and nothing else that begins with it."""
    if path.startswith(HOME):
        rest = path[1:]
        if rest and not rest.startswith("/"):
            raise Refused("a home folder in the middle of a name")
        path = "~" + rest
    elif path.startswith("~"):
        path = "./" + path
    if HOME in path or START in path:
        raise Refused("a home folder in the middle of a name")
    return unmasked(path)


def located(write: Write, folder: str | None) -> Write:
    """The write, its path from the start; raises Refused."""
    return replace(write, path=as_told(joined(folder, write.path)), into=tuple(map(unmasked, write.into)))


def check_links(writes: tuple[Write, ...]) -> None:
    """No write goes through what may be a link only since this command; raises Refused."""
    for made in writes:
        if not made.links:
            continue
        for other in writes:
            if other != made and through(made, other):
                raise Refused(f"{other.path!r} may lie behind a link that this command makes")


def through(made: Write, other: Write) -> bool:
    """Whether `other` may be written through what `made` leaves."""
    for place in places(made):
        for path in places(other):
            at_most = other.path.count("/") <= place.count("/") if other.glob else path == place
            if at_most and not other.follows and not other.into:
                continue
            if path == place or path.startswith(f"{place}/") or (other.glob and f"{place}/".startswith(f"{path}/")):
                return True
    return False


def places(write: Write) -> tuple[str, ...]:
    """Where it may end up, tidied; of a pattern, the folder that all its matches lie in."""
    path = fixed_folder(write.path) if write.glob else write.path
    at = posixpath.normpath(path or ".")
    inside = tuple(posixpath.normpath(posixpath.join(at, name)) for name in write.into)
    return inside if write.path.endswith("/") and inside else (at, *inside)

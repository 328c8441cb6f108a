"""Where the writes of a command end up, which its text names: links followed, globs and folders looked into.

What is found here goes through the same checks as the paths of a file tool. Where the text does not hold in this
folder, the call says so (`unproved`), and the command counts as one whose effects nobody knows.
"""

import os
import posixpath
import re
import stat
from collections.abc import Iterable, Iterator
from fnmatch import translate
from pathlib import Path

from msgspec import Struct
from msgspec.structs import replace

from remit.core.call import ToolCall
from remit.core.facts import Target
from remit.core.repopath import InvalidPath
from remit.gate.environment import Environment
from remit.policy.commands import analyse
from remit.policy.commands.effects import Write
from remit.workspace.paths import Surroundings, folds_case, real_paths, target
from remit.workspace.place import Workspace

MOST_TARGETS = 200
"""Files that one command may name; of more, line 3 tells."""

MOST_VISITS = 4000
"""Entries of folders that are looked at for one command."""


class Doubt(Exception):
    """The text does not tell what this command writes here. The message says why."""


class Written(Struct, frozen=True):
    """The targets of a command: those that it surely writes, and those that it may leave alone."""

    call: ToolCall
    targets: tuple[Target, ...] = ()
    perhaps: tuple[Target, ...] = ()


def written(call: ToolCall, workspace: Workspace, around: Environment) -> Written:
    """What a command writes; nothing where that cannot be told."""
    analysis = analyse(call.command) if call.command is not None else None
    if analysis is None or not analysis.writes:
        return Written(call)
    looking = Looking(call, workspace, around)
    try:
        looking.check_entered(analysis.enters, analysis.writes)
        found = [(path, looking.sure(write, path)) for write in analysis.writes for path in looking.files(write)]
        if len(found) > MOST_TARGETS:
            raise Doubt(f"it names more than {MOST_TARGETS} files")
        sure = looking.targets(path for path, certain in found if certain)
        perhaps = looking.targets(path for path, certain in found if not certain)
    except (Doubt, InvalidPath, OSError) as error:
        return Written(replace(call, unproved=str(error)))
    edits = call.checks_itself or all(write.edits for write in analysis.writes)
    return Written(replace(call, checks_itself=edits), sure, perhaps)


class Place(Struct, frozen=True):
    """One file as the command names it. `follows`: a link at its end is followed."""

    raw: str
    follows: bool


class Looking:
    """The file system as one command meets it. `visits` are the entries that may still be looked at."""

    def __init__(self, call: ToolCall, workspace: Workspace, around: Environment) -> None:
        self.cwd = call.cwd
        self.workspace = workspace
        self.home = around.home
        self.surroundings = Surroundings(around.home, around.temporary, around.settings, around.own_folders)
        self.visits = MOST_VISITS

    def absolute(self, raw: str) -> str:
        """Where `raw` lies, nothing tidied."""
        expanded = str(self.home) + raw[1:] if raw == "~" or raw.startswith("~/") else raw
        return os.path.join(self.cwd, expanded)  # noqa: PTH118  Path would tidy `..` away

    def check_entered(self, folders: Iterable[str], writes: Iterable[Write]) -> None:
        """The folders that the command goes into are there, or it makes them. Raises Doubt."""
        made = {posixpath.normpath(write.path) for write in writes if write.makes or write.opens}
        for folder in folders:
            if not Path(self.absolute(folder)).is_dir() and posixpath.normpath(folder) not in made:
                raise Doubt(f"it goes into {folder!r}, which is no folder")

    def sure(self, write: Write, place: Place) -> bool:
        """Whether this one is written whenever the command runs."""
        named = write.below and not write.glob and place.raw == write.path
        return not write.maybe or named

    def files(self, write: Write) -> Iterator[Place]:
        """The files of one write. Raises Doubt, OSError."""
        for raw in self.matches(write.path) if write.glob else (write.path,):
            yield from self.named(write, raw)

    def named(self, write: Write, raw: str) -> Iterator[Place]:
        """The files that one path stands for: of a folder that is made, those that it is for."""
        is_folder = Path(self.absolute(raw)).is_dir()
        if is_folder and write.into:
            for name in write.into:
                yield from self.one(write, f"{raw.rstrip('/')}/{name}")
        elif write.makes:
            yield from () if is_folder else (Place(f"{raw.rstrip('/')}/*", follows=False),)
        else:
            yield from self.one(write, raw)

    def one(self, write: Write, raw: str) -> Iterator[Place]:
        """A file; of a folder what is in it, or may come into it."""
        full = Path(self.absolute(raw))
        is_folder = full.is_dir() and not (full.is_symlink() and not write.follows)
        if write.opens:
            self.check_opened(raw)
            if not write.tree:
                raise Doubt(f"what comes into {raw!r} is not in the text")
            yield Place(f"{raw.rstrip('/')}/*", follows=False)
        inside = list(self.below(raw)) if is_folder and write.below else []
        yield from inside
        if not inside and not (write.opens and is_folder):
            self.check_names(full, write)
            yield Place(raw, write.follows)

    def check_opened(self, raw: str) -> None:
        """Whatever comes into a folder stays clear of what governs agents. Raises Doubt."""
        for real in real_paths(raw.rstrip("/") or "/", Path(self.cwd), self.home):
            if os.path.realpath(self.workspace.root).startswith(real.rstrip("/") + "/") or real == str(
                self.workspace.root
            ):
                raise Doubt(f"new names come into {raw!r}, which holds the whole workspace")

    def check_names(self, full: Path, write: Write) -> None:
        """A file with several names is several files. Raises Doubt."""
        try:
            found = full.stat()
        except OSError:
            return
        if write.follows and stat.S_ISREG(found.st_mode) and found.st_nlink > 1:
            raise Doubt(f"{write.path!r} has other names (hard links), which may lie anywhere")

    def below(self, raw: str) -> Iterator[Place]:
        """All that is in a folder, links not followed. Raises Doubt, OSError."""
        pending = [raw.rstrip("/") or "/"]
        while pending:
            folder = pending.pop()
            for entry in self.entries(self.absolute(folder)):
                path = join(folder, entry.name)
                if entry.is_dir(follow_symlinks=False):
                    pending.append(path)
                else:
                    yield Place(path, follows=False)

    def entries(self, folder: str) -> list["os.DirEntry[str]"]:
        """The entries of a folder; none where there is no such. Raises Doubt, OSError."""
        try:
            with os.scandir(folder) as found:
                entries = [entry for entry, _ in zip(found, range(self.visits + 1), strict=False)]
        except (FileNotFoundError, NotADirectoryError):
            return []
        self.visits -= len(entries) + 1
        if self.visits < 0:
            raise Doubt(f"it may touch more than {MOST_VISITS} files")
        return entries

    def matches(self, pattern: str) -> list[str]:
        """The paths that a glob matches now; itself where there are none, as in the shell. Raises Doubt, OSError."""
        if "[:" in pattern:
            raise Doubt(f"what {pattern!r} matches cannot be told")
        head = "/" if pattern.startswith("/") else ""
        found = [head]
        for part in pattern.strip("/").split("/"):
            found = [path for folder in found for path in self.step(folder, part, hidden="**" in pattern)]
        for path in found:
            if re.search(r"[\s*?\[]", path) or path.startswith(("-", "@")):
                raise Doubt(f"{path!r} may become other words than one")
        return found if found or "**" in pattern else [pattern]

    def step(self, folder: str, part: str, *, hidden: bool) -> Iterator[str]:
        """What one part of a glob matches in a folder. A file stands for itself where any depth is asked for."""
        if part == "**":
            yield folder
            yield from self.folders(folder)
        elif not re.search(r"[*?\[]", part):
            if part and (os.path.lexists(self.absolute(join(folder, part))) or part in (".", "..", "~")):
                yield join(folder, part)
        else:
            wanted = re.compile(translate(part.replace("[^", "[!")))
            names = [entry.name for entry in self.entries(self.absolute(folder or "."))]
            if not names and hidden and Path(self.absolute(folder)).is_file():
                yield folder
            shown = hidden or part.startswith(".")
            yield from (join(folder, name) for name in names if wanted.match(name) and (shown or name[0] != "."))

    def folders(self, folder: str) -> Iterator[str]:
        """All folders in a folder. Raises Doubt, OSError."""
        pending = [folder]
        while pending:
            at = pending.pop()
            for entry in self.entries(self.absolute(at or ".")):
                if entry.is_dir(follow_symlinks=False):
                    pending.append(join(at, entry.name))
                    yield join(at, entry.name)

    def targets(self, places: Iterable[Place]) -> tuple[Target, ...]:
        """The files as the checks know them. Raises InvalidPath."""
        folds = folds_case(self.workspace.root)
        return tuple(
            replace(target(self.workspace, real, place.raw, self.surroundings), folds=folds)
            for place in dict.fromkeys(places)
            for real in self.reals(place)
        )

    def reals(self, place: Place) -> tuple[str, ...]:
        """The real paths of a file: its folder's, where the link itself is meant."""
        folder, _, name = place.raw.rstrip("/").rpartition("/")
        if place.follows or name in ("", ".", "..", "~"):
            return real_paths(place.raw, Path(self.cwd), self.home)
        above = folder or ("/" if place.raw.startswith("/") else ".")
        return tuple(f"{real.rstrip('/')}/{name}" for real in real_paths(above, Path(self.cwd), self.home))


def join(folder: str, name: str) -> str:
    """`folder/name`, from the present folder where there is none."""
    return f"{folder.rstrip('/')}/{name}" if folder not in ("", "/") else f"{folder}{name}"

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
from remit.core.scope.repopath import InvalidPath
from remit.gate.environment import Environment
from remit.policy.commands import analyse
from remit.policy.commands.programs.effects import Write
from remit.workspace.place.paths import MachinePlaces, folds_case, resolve_real_paths, resolve_target
from remit.workspace.place.workspace import Workspace

MAX_TARGETS = 200
"""Files that one command may name; of more, line 3 tells."""

MAX_VISITS = 4000
"""Entries of folders that are looked at for one command."""


class UnclearWrite(Exception):
    """The text does not tell what this command writes here. The message says why."""


class CommandTargets(Struct, frozen=True):
    """The targets of a command: those that it surely writes, and those that it may leave alone."""

    call: ToolCall
    targets: tuple[Target, ...] = ()
    perhaps: tuple[Target, ...] = ()


def find_command_targets(call: ToolCall, workspace: Workspace, environment: Environment) -> CommandTargets:
    """What a command writes; nothing where that cannot be told."""
    analysis = analyse(call.command) if call.command is not None else None
    if analysis is None or not analysis.writes:
        return CommandTargets(call)
    looking = TargetFinder(call, workspace, environment)
    try:
        looking.check_entered_folders(analysis.entered_folders, analysis.writes)
        found = [
            (path, looking.is_certain(write, path)) for write in analysis.writes for path in looking.find_files(write)
        ]
        if len(found) > MAX_TARGETS:
            raise UnclearWrite(f"it names more than {MAX_TARGETS} files")
        sure = looking.make_targets(path for path, certain in found if certain)
        perhaps = looking.make_targets(path for path, certain in found if not certain)
    except (UnclearWrite, InvalidPath, OSError) as error:
        return CommandTargets(replace(call, unproved=str(error)))
    edits = call.checks_itself or all(write.edits_in_place for write in analysis.writes)
    return CommandTargets(replace(call, checks_itself=edits), sure, perhaps)


class NamedFile(Struct, frozen=True):
    """One file as the command names it. `follows`: a link at its end is followed."""

    raw: str
    follows: bool


class TargetFinder:
    """The file system as one command meets it. `visits` are the entries that may still be looked at."""

    def __init__(self, call: ToolCall, workspace: Workspace, environment: Environment) -> None:
        self.cwd = call.cwd
        self.workspace = workspace
        self.home = environment.home
        self.surroundings = MachinePlaces(
            environment.home, environment.temporary, environment.settings, environment.own_folders
        )
        self.visits = MAX_VISITS

    def absolute_path(self, raw: str) -> str:
        """Where `raw` lies, nothing tidied."""
        expanded = str(self.home) + raw[1:] if raw == "~" or raw.startswith("~/") else raw
        return os.path.join(self.cwd, expanded)  # noqa: PTH118  Path would tidy `..` away

    def check_entered_folders(self, folders: Iterable[str], writes: Iterable[Write]) -> None:
        """The folders that the command goes into are there, or it makes them. Raises Doubt."""
        made = {posixpath.normpath(write.path) for write in writes if write.makes_folder or write.adds_names}
        for folder in folders:
            if not Path(self.absolute_path(folder)).is_dir() and posixpath.normpath(folder) not in made:
                raise UnclearWrite(f"it goes into {folder!r}, which is no folder")

    def is_certain(self, write: Write, place: NamedFile) -> bool:
        """Whether this one is written whenever the command runs."""
        named = write.is_recursive and not write.glob and place.raw == write.path
        return not write.is_optional or named

    def find_files(self, write: Write) -> Iterator[NamedFile]:
        """The files of one write. Raises Doubt, OSError."""
        for raw in self.match_glob(write.path) if write.glob else (write.path,):
            yield from self.expand_path(write, raw)

    def expand_path(self, write: Write, raw: str) -> Iterator[NamedFile]:
        """The files that one path stands for: of a folder that is made, those that it is for."""
        is_folder = Path(self.absolute_path(raw)).is_dir()
        if is_folder and write.names_inside:
            for name in write.names_inside:
                yield from self.expand_file(write, f"{raw.rstrip('/')}/{name}")
        elif write.makes_folder:
            yield from () if is_folder else (NamedFile(f"{raw.rstrip('/')}/*", follows=False),)
        else:
            yield from self.expand_file(write, raw)

    def expand_file(self, write: Write, raw: str) -> Iterator[NamedFile]:
        """A file; of a folder what is in it, or may come into it."""
        full = Path(self.absolute_path(raw))
        is_folder = full.is_dir() and not (full.is_symlink() and not write.follows_links)
        if write.adds_names:
            self.check_opened_folder(raw)
            if not write.is_work_tree:
                raise UnclearWrite(f"what comes into {raw!r} is not in the text")
            yield NamedFile(f"{raw.rstrip('/')}/*", follows=False)
        inside = list(self.files_below(raw)) if is_folder and write.is_recursive else []
        yield from inside
        if not inside and not (write.adds_names and is_folder):
            self.check_hard_links(full, write)
            yield NamedFile(raw, write.follows_links)

    def check_opened_folder(self, raw: str) -> None:
        """Whatever comes into a folder stays clear of what governs agents. Raises Doubt."""
        for real in resolve_real_paths(raw.rstrip("/") or "/", Path(self.cwd), self.home):
            if os.path.realpath(self.workspace.root).startswith(real.rstrip("/") + "/") or real == str(
                self.workspace.root
            ):
                raise UnclearWrite(f"new names come into {raw!r}, which holds the whole workspace")

    def check_hard_links(self, full: Path, write: Write) -> None:
        """A file with several names is several files. Raises Doubt."""
        try:
            found = full.stat()
        except OSError:
            return
        if write.follows_links and stat.S_ISREG(found.st_mode) and found.st_nlink > 1:
            raise UnclearWrite(f"{write.path!r} has other names (hard links), which may lie anywhere")

    def files_below(self, raw: str) -> Iterator[NamedFile]:
        """All that is in a folder, links not followed. Raises Doubt, OSError."""
        pending = [raw.rstrip("/") or "/"]
        while pending:
            folder = pending.pop()
            for entry in self.list_entries(self.absolute_path(folder)):
                path = join_path(folder, entry.name)
                if entry.is_dir(follow_symlinks=False):
                    pending.append(path)
                else:
                    yield NamedFile(path, follows=False)

    def list_entries(self, folder: str) -> list["os.DirEntry[str]"]:
        """The entries of a folder; none where there is no such. Raises Doubt, OSError."""
        try:
            with os.scandir(folder) as found:
                entries = [entry for entry, _ in zip(found, range(self.visits + 1), strict=False)]
        except (FileNotFoundError, NotADirectoryError):
            return []
        self.visits -= len(entries) + 1
        if self.visits < 0:
            raise UnclearWrite(f"it may touch more than {MAX_VISITS} files")
        return entries

    def match_glob(self, pattern: str) -> list[str]:
        """The paths that a glob matches now; itself where there are none, as in the shell. Raises Doubt, OSError."""
        if "[:" in pattern:
            raise UnclearWrite(f"what {pattern!r} matches cannot be told")
        head = "/" if pattern.startswith("/") else ""
        found = [head]
        for part in pattern.strip("/").split("/"):
            found = [path for folder in found for path in self.match_step(folder, part, hidden="**" in pattern)]
        for path in found:
            if re.search(r"[\s*?\[]", path) or path.startswith(("-", "@")):
                raise UnclearWrite(f"{path!r} may become other words than one")
        return found if found or "**" in pattern else [pattern]

    def match_step(self, folder: str, part: str, *, hidden: bool) -> Iterator[str]:
        """What one part of a glob matches in a folder. A file stands for itself where any depth is asked for."""
        if part == "**":
            yield folder
            yield from self.folders_below(folder)
        elif not re.search(r"[*?\[]", part):
            if part and (os.path.lexists(self.absolute_path(join_path(folder, part))) or part in (".", "..", "~")):
                yield join_path(folder, part)
        else:
            wanted = re.compile(translate(part.replace("[^", "[!")))
            names = [entry.name for entry in self.list_entries(self.absolute_path(folder or "."))]
            if not names and hidden and Path(self.absolute_path(folder)).is_file():
                yield folder
            shown = hidden or part.startswith(".")
            yield from (join_path(folder, name) for name in names if wanted.match(name) and (shown or name[0] != "."))

    def folders_below(self, folder: str) -> Iterator[str]:
        """All folders in a folder. Raises Doubt, OSError."""
        pending = [folder]
        while pending:
            at = pending.pop()
            for entry in self.list_entries(self.absolute_path(at or ".")):
                if entry.is_dir(follow_symlinks=False):
                    pending.append(join_path(at, entry.name))
                    yield join_path(at, entry.name)

    def make_targets(self, places: Iterable[NamedFile]) -> tuple[Target, ...]:
        """The files as the checks know them. Raises InvalidPath."""
        folds = folds_case(self.workspace.root)
        return tuple(
            replace(resolve_target(self.workspace, real, place.raw, self.surroundings), folds=folds)
            for place in dict.fromkeys(places)
            for real in self.resolve_file(place)
        )

    def resolve_file(self, place: NamedFile) -> tuple[str, ...]:
        """The real paths of a file: its folder's, where the link itself is meant."""
        folder, _, name = place.raw.rstrip("/").rpartition("/")
        if place.follows or name in ("", ".", "..", "~"):
            return resolve_real_paths(place.raw, Path(self.cwd), self.home)
        above = folder or ("/" if place.raw.startswith("/") else ".")
        return tuple(f"{real.rstrip('/')}/{name}" for real in resolve_real_paths(above, Path(self.cwd), self.home))


def join_path(folder: str, name: str) -> str:
    """`folder/name`, from the present folder where there is none."""
    return f"{folder.rstrip('/')}/{name}" if folder not in ("", "/") else f"{folder}{name}"

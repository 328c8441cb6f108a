"""Files that a call names: the paths of a file tool, and the writes that a command's text declares.

Links are followed, globs and folders are looked into. Both kinds of targets go through the same checks. Where a
command's text does not hold in its folder, the call is marked `unproved`: its effects count as unknown.
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
from remit.core.scope.repopath import InvalidPath, OutsideWorkspace, RepoPath
from remit.gate.environment import Environment
from remit.policy.commands import analyse
from remit.policy.commands.programs.effects import Write
from remit.workspace.place.resolve_paths import MachinePlaces, folds_case, resolve_real_paths, resolve_target
from remit.workspace.place.workspace import Workspace

MAX_TARGETS = 200
"""Files that one command may name; a command that names more is unproved."""

MAX_VISITS = 4000
"""Entries of folders that are read for one command."""


class UnclearWrite(Exception):
    """Unclear writes: the text does not tell what the command writes here. The message says why."""


class CommandTargets(Struct, frozen=True):
    """Targets of a command: certain writes, and possible writes in `perhaps`."""

    call: ToolCall
    targets: tuple[Target, ...] = ()
    perhaps: tuple[Target, ...] = ()


def resolve_targets(call: ToolCall, workspace: Workspace, environment: Environment) -> tuple[Target, ...]:
    """Return the targets that the call's own paths may name. Raises InvalidPath."""
    surroundings = make_surroundings(environment)
    folds = bool(call.paths) and folds_case(workspace.root)
    return tuple(
        replace(resolve_target(workspace, real, raw, surroundings), folds=folds)
        for raw in call.paths
        for real in resolve_real_paths(raw, Path(call.cwd), environment.home)
    )


def paths_in_workspace(
    workspace: Workspace, call: ToolCall, raws: Iterable[str], environment: Environment
) -> list[str]:
    """Return the paths of `raws` inside the workspace, relative to the root."""
    found: list[str] = []
    for raw in raws:
        try:
            reals = resolve_real_paths(raw, Path(call.cwd), environment.home)
            found += [str(RepoPath.parse(real, str(workspace.root))) for real in reals]
        except (InvalidPath, OutsideWorkspace):
            continue
    return found


def make_surroundings(environment: Environment) -> MachinePlaces:
    return MachinePlaces(environment.home, environment.temporary, environment.settings, environment.own_folders)


def find_command_targets(call: ToolCall, workspace: Workspace, environment: Environment) -> CommandTargets:
    """Return the targets that a command's text names; none if the text does not tell."""
    analysis = analyse(call.command) if call.command is not None else None
    if analysis is None or not analysis.writes:
        return CommandTargets(call)
    finder = TargetFinder(call, workspace, environment)
    try:
        finder.check_entered_folders(analysis.entered_folders, analysis.writes)
        found = [
            (path, finder.is_certain(write, path)) for write in analysis.writes for path in finder.find_files(write)
        ]
        if len(found) > MAX_TARGETS:
            raise UnclearWrite(f"it names more than {MAX_TARGETS} files")
        sure = finder.make_targets(path for path, certain in found if certain)
        perhaps = finder.make_targets(path for path, certain in found if not certain)
    except (UnclearWrite, InvalidPath, OSError) as error:
        return CommandTargets(replace(call, unproved=str(error)))
    edits = call.checks_itself or all(write.edits_in_place for write in analysis.writes)
    return CommandTargets(replace(call, checks_itself=edits), sure, perhaps)


class NamedFile(Struct, frozen=True):
    """A file named by the command; `follows` if a final link is followed."""

    raw: str
    follows: bool


class TargetFinder:
    """Finder of a command's targets in the file system; `visits` counts the entries that may still be read."""

    def __init__(self, call: ToolCall, workspace: Workspace, environment: Environment) -> None:
        self.cwd = call.cwd
        self.workspace = workspace
        self.home = environment.home
        self.surroundings = make_surroundings(environment)
        self.visits = MAX_VISITS

    def absolute_path(self, raw: str) -> str:
        """Return the absolute form of `raw`, with `..` left in place."""
        expanded = str(self.home) + raw[1:] if raw == "~" or raw.startswith("~/") else raw
        return os.path.join(self.cwd, expanded)  # noqa: PTH118  Path would tidy `..` away

    def check_entered_folders(self, folders: Iterable[str], writes: Iterable[Write]) -> None:
        """Require every entered folder to exist, or to be made by the command. Raises UnclearWrite."""
        made = {posixpath.normpath(write.path) for write in writes if write.makes_folder or write.adds_names}
        for folder in folders:
            if not Path(self.absolute_path(folder)).is_dir() and posixpath.normpath(folder) not in made:
                raise UnclearWrite(f"it goes into {folder!r}, which is no folder")

    def is_certain(self, write: Write, place: NamedFile) -> bool:
        """Return True if the file is written whenever the command runs."""
        named = write.is_recursive and not write.glob and place.raw == write.path
        return not write.is_optional or named

    def find_files(self, write: Write) -> Iterator[NamedFile]:
        """Yield the files of one write. Raises UnclearWrite, OSError."""
        for raw in self.match_glob(write.path) if write.glob else (write.path,):
            yield from self.expand_path(write, raw)

    def expand_path(self, write: Write, raw: str) -> Iterator[NamedFile]:
        """Yield the files of a path; for a new folder, a pattern for future files."""
        is_folder = Path(self.absolute_path(raw)).is_dir()
        if is_folder and write.names_inside:
            for name in write.names_inside:
                yield from self.expand_file(write, f"{raw.rstrip('/')}/{name}")
        elif write.makes_folder:
            yield from () if is_folder else (NamedFile(f"{raw.rstrip('/')}/*", follows=False),)
        else:
            yield from self.expand_file(write, raw)

    def expand_file(self, write: Write, raw: str) -> Iterator[NamedFile]:
        """Yield a file; for a folder, the present files, or a pattern for future ones."""
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
        """Require that new names in a folder cannot replace a governing file. Raises UnclearWrite."""
        for real in resolve_real_paths(raw.rstrip("/") or "/", Path(self.cwd), self.home):
            if os.path.realpath(self.workspace.root).startswith(real.rstrip("/") + "/") or real == str(
                self.workspace.root
            ):
                raise UnclearWrite(f"new names come into {raw!r}, which holds the whole workspace")

    def check_hard_links(self, full: Path, write: Write) -> None:
        """Require that the file has a single name: a hard link may lie anywhere. Raises UnclearWrite."""
        try:
            found = full.stat()
        except OSError:
            return
        if write.follows_links and stat.S_ISREG(found.st_mode) and found.st_nlink > 1:
            raise UnclearWrite(f"{write.path!r} has other names (hard links), which may lie anywhere")

    def files_below(self, raw: str) -> Iterator[NamedFile]:
        """Yield the files below a folder, links not followed. Raises UnclearWrite, OSError."""
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
        """Return the entries of a folder; none if the folder does not exist. Raises UnclearWrite, OSError."""
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
        """Return the paths that a glob matches now; as in the shell, the glob itself if there are none.

        Raises UnclearWrite, OSError.
        """
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
        """Yield the matches of one part of a glob in a folder; `**` also matches a file itself."""
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
        """Yield all folders below a folder. Raises UnclearWrite, OSError."""
        pending = [folder]
        while pending:
            at = pending.pop()
            for entry in self.list_entries(self.absolute_path(at or ".")):
                if entry.is_dir(follow_symlinks=False):
                    pending.append(join_path(at, entry.name))
                    yield join_path(at, entry.name)

    def make_targets(self, places: Iterable[NamedFile]) -> tuple[Target, ...]:
        """Return the files as the checks know them. Raises InvalidPath."""
        folds = folds_case(self.workspace.root)
        return tuple(
            replace(resolve_target(self.workspace, real, place.raw, self.surroundings), folds=folds)
            for place in dict.fromkeys(places)
            for real in self.resolve_file(place)
        )

    def resolve_file(self, place: NamedFile) -> tuple[str, ...]:
        """Return the real paths of a file; where the link itself is meant, only its folder is resolved."""
        folder, _, name = place.raw.rstrip("/").rpartition("/")
        if place.follows or name in ("", ".", "..", "~"):
            return resolve_real_paths(place.raw, Path(self.cwd), self.home)
        above = folder or ("/" if place.raw.startswith("/") else ".")
        return tuple(f"{real.rstrip('/')}/{name}" for real in resolve_real_paths(above, Path(self.cwd), self.home))


def join_path(folder: str, name: str) -> str:
    return f"{folder.rstrip('/')}/{name}" if folder not in ("", "/") else f"{folder}{name}"

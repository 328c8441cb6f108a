"""The dependencies of a cached blame answer: git settings, and every file whose change may alter the answer."""

import os
import sys
from collections.abc import Iterator
from pathlib import Path

from msgspec import Struct

from remit.cli.blame.arguments import FIXED_DATE_FORMATS, STABLE_REVISION, BlameArguments
from remit.ledger.machine_logs import MACHINES_FOLDER, list_log_places
from remit.ledger.segments import FOREIGN_FOLDER
from remit.workspace.git.command import Git, GitError
from remit.workspace.place.workspace import Workspace, find_git_root

GIT_FILES = (
    *("HEAD", "packed-refs", "reftable/tables.list", "MERGE_HEAD", "shallow", "info/grafts", "refs/replace"),
    *("info/attributes", "config", "config.worktree", "refs/notes", "objects/info/alternates"),
)
PATH_SETTINGS = ("mailmap.file", "core.attributesfile", "blame.ignorerevsfile", "include.path")
"""Settings whose value is a file that git reads."""

CONFIG_LIST_ARGUMENTS = ("config", "--list", "--show-scope", "--show-origin", "-z")
USER_SCOPES = ("system", "global")
"""Scopes outside the control of a repository."""


class BlameGitSettings(Struct, frozen=True):
    """Git's settings: the last value of each name, and the files they come from.

    `user_values` excludes values set by a repository.
    """

    values: dict[str, str]
    files: tuple[str, ...]
    is_known: bool = True
    user_values: dict[str, str] = {}

    @property
    def quotes_paths(self) -> bool:
        return self.values.get("core.quotepath", "true").lower() not in ("false", "no", "off", "0")

    @property
    def has_default_blame_format(self) -> bool:
        formats = [name for name in self.values if name.startswith("blame.") and name != "blame.ignorerevsfile"]
        return self.is_known and not formats and "core.abbrev" not in self.values

    @property
    def is_stable(self) -> bool:
        """Return whether answers under these settings stay true while the files stay unchanged."""
        date = self.values.get("blame.date", "iso")
        return self.is_known and date in FIXED_DATE_FORMATS and "mailmap.blob" not in self.values


def read_git_settings(git: Git) -> BlameGitSettings:
    """Return the settings in force, without those of Remit's own git calls. Source: git-config(1), read 2026-11."""
    try:
        out = git.run(*CONFIG_LIST_ARGUMENTS)
    except GitError:
        return BlameGitSettings({}, (), is_known=False)
    parts = out.decode("utf-8", "surrogateescape").split("\0")
    values: dict[str, str] = {}
    user_values: dict[str, str] = {}
    files: dict[str, None] = {}
    for scope, origin, entry in zip(parts[::3], parts[1::3], parts[2::3], strict=False):
        if not origin.startswith("file:"):
            continue
        path = str(git.folder / origin.removeprefix("file:"))
        name, _, value = entry.partition("\n")
        values[name] = value
        if scope in USER_SCOPES:
            user_values[name] = value
        files[path] = None
        if name in PATH_SETTINGS or name.startswith("includeif."):
            files[str(Path(path).parent / os.path.expanduser(value))] = None  # noqa: PTH111
    return BlameGitSettings(values, tuple(files), user_values=user_values)


def is_answer_stable(arguments: BlameArguments, settings: BlameGitSettings) -> bool:
    """Return whether equal arguments get an equal answer while the dependency files stay unchanged."""
    ignored = arguments.option_values("--ignore-rev")
    return arguments.is_stable and settings.is_stable and all(map(STABLE_REVISION.fullmatch, ignored))


def dependency_paths(
    workspace: Workspace, arguments: BlameArguments, path: str, settings: BlameGitSettings
) -> Iterator[str]:
    """Yield every file or folder whose change may alter the answer."""
    top = find_git_root(workspace.root) or workspace.root
    user_config = Path(os.environ.get("XDG_CONFIG_HOME") or Path.home() / ".config") / "git"
    yield from settings.files
    yield from (str(Path.home() / ".gitconfig"), "/etc/gitconfig")
    yield from (str(user_config / "config"), str(user_config / "attributes"))
    named = [
        *arguments.option_values("--contents"),
        *arguments.option_values("--ignore-revs-file"),
        *arguments.option_values("-S"),
    ]
    configured = [settings.values[name] for name in PATH_SETTINGS if name in settings.values]
    yield from (str(top / os.path.expanduser(name)) for name in [*named, *configured])  # noqa: PTH111
    yield str(top / ".mailmap")
    yield str(workspace.root / path)
    folders = [folder for folder in (workspace.root / path).parents if folder.is_relative_to(top)]
    yield from (str(folder / ".gitattributes") for folder in folders)
    yield from git_state_files(workspace)
    yield from ledger_files(workspace)
    # This code: an upgrade invalidates every answer.
    modules = [module for name, module in sys.modules.items() if name.startswith("remit.")]
    yield from (module.__file__ for module in modules if module.__file__)


def git_state_files(workspace: Workspace) -> Iterator[str]:
    """Yield git's files for HEAD, its branch, and settings that change how history reads."""
    for folder in filter(None, dict.fromkeys([workspace.git_dir, workspace.common_dir])):
        yield from (str(folder / name) for name in GIT_FILES)
        try:
            head = (folder / "HEAD").read_text("utf-8", "surrogateescape").strip()
        except OSError:
            continue
        if head.startswith("ref: "):
            yield str((workspace.common_dir or folder) / head.removeprefix("ref: "))
    if workspace.common_dir:
        yield from map(str, sorted((workspace.common_dir / "refs" / "notes").rglob("*")))


def ledger_files(workspace: Workspace) -> Iterator[str]:
    """Yield the newest segments of each log, and the marker of a governed repository."""
    yield str(workspace.state / "governed")
    yield str(workspace.log_folder / MACHINES_FOLDER)
    for place in list_log_places(workspace.log_folder):
        folder = workspace.log_folder / place
        yield from map(str, (folder, *sorted(folder.glob("*.jsonl*"))[-2:]))
    yield str(workspace.log_folder / FOREIGN_FOLDER)
    yield str(workspace.tracked_logs)
    yield from map(str, sorted(workspace.tracked_logs.glob("*")))

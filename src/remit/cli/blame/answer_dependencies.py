"""What the answers of `remit blame` depend on: git's settings, and the files whose change may change an answer."""

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


CONFIG_LIST_ARGUMENTS = ("config", "--list", "--show-scope", "--show-origin", "-z")
USER_SCOPES = ("system", "global")
"""Scopes that no repository writes to."""


class BlameGitSettings(Struct, frozen=True):
    """git's settings: the last value of each, and the files that they come from. `own` are those that no repository
    brings.
    """

    values: dict[str, str]
    files: tuple[str, ...]
    is_known: bool = True
    user_values: dict[str, str] = {}

    @property
    def quotes_paths(self) -> bool:
        """Whether git quotes file names for signs outside ASCII."""
        return self.values.get("core.quotepath", "true").lower() not in ("false", "no", "off", "0")

    @property
    def has_default_blame_format(self) -> bool:
        """Whether nothing says that lines for people look otherwise than git shows them by itself."""
        looks = [name for name in self.values if name.startswith("blame.") and name != "blame.ignorerevsfile"]
        return self.is_known and not looks and "core.abbrev" not in self.values

    @property
    def is_stable(self) -> bool:
        """Whether answers made with them stay true while the files stay."""
        date = self.values.get("blame.date", "iso")
        return self.is_known and date in FIXED_DATE_FORMATS and "mailmap.blob" not in self.values


def read_git_settings(git: Git) -> BlameGitSettings:
    """The settings in force, less those that Remit reads git with. Source: git-config(1), read 2026-11."""
    try:
        out = git.run(*CONFIG_LIST_ARGUMENTS)
    except GitError:
        return BlameGitSettings({}, (), is_known=False)
    parts = out.decode("utf-8", "surrogateescape").split("\0")
    values: dict[str, str] = {}
    own: dict[str, str] = {}
    files: dict[str, None] = {}
    for scope, origin, entry in zip(parts[::3], parts[1::3], parts[2::3], strict=False):
        if not origin.startswith("file:"):
            continue
        path = str(git.folder / origin.removeprefix("file:"))
        name, _, value = entry.partition("\n")
        values[name] = value
        own |= {name: value} if scope in USER_SCOPES else {}
        files[path] = None
        if name in PATH_SETTINGS or name.startswith("includeif."):
            files[str(Path(path).parent / os.path.expanduser(value))] = None  # noqa: PTH111
    return BlameGitSettings(values, tuple(files), user_values=own)


def is_answer_stable(asked: BlameArguments, found: BlameGitSettings) -> bool:
    """Whether the same words get the same answer while the files that it depends on stay."""
    return (
        asked.is_stable
        and found.is_stable
        and all(STABLE_REVISION.fullmatch(rev) for rev in asked.option_values("--ignore-rev"))
    )


def dependency_paths(workspace: Workspace, asked: BlameArguments, path: str, found: BlameGitSettings) -> Iterator[str]:
    """Every file or folder whose change may change the answer."""
    top = find_git_root(workspace.root) or workspace.root
    yield from found.files
    yield from (str(Path.home() / ".gitconfig"), "/etc/gitconfig")
    yield str(Path(os.environ.get("XDG_CONFIG_HOME") or Path.home() / ".config") / "git" / "config")
    yield str(Path(os.environ.get("XDG_CONFIG_HOME") or Path.home() / ".config") / "git" / "attributes")
    named = [*asked.option_values("--contents"), *asked.option_values("--ignore-revs-file"), *asked.option_values("-S")]
    configured = [found.values[name] for name in PATH_SETTINGS if name in found.values]
    yield from (str(top / os.path.expanduser(name)) for name in [*named, *configured])  # noqa: PTH111
    yield str(top / ".mailmap")
    yield str(workspace.root / path)
    yield from (
        str(folder / ".gitattributes") for folder in (workspace.root / path).parents if folder.is_relative_to(top)
    )
    yield from git_state_files(workspace)
    yield from ledger_files(workspace)
    yield from loaded_code_files()


def loaded_code_files() -> Iterator[str]:
    """The files of the code that answers."""
    modules = [module for name, module in sys.modules.items() if name.startswith("remit.")]
    yield from (module.__file__ for module in modules if module.__file__)


def git_state_files(workspace: Workspace) -> Iterator[str]:
    """What git knows: where HEAD is, and what changes how history reads."""
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
    """What was recorded: the newest segments, and whether anything governs here."""
    yield str(workspace.state / "governed")
    yield str(workspace.log_folder / MACHINES_FOLDER)
    for place in list_log_places(workspace.log_folder):
        folder = workspace.log_folder / place
        yield from map(str, (folder, *sorted(folder.glob("*.jsonl*"))[-2:]))
    yield str(workspace.log_folder / FOREIGN_FOLDER)
    yield str(workspace.tracked_logs)
    yield from map(str, sorted(workspace.tracked_logs.glob("*")))

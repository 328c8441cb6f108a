"""What the answers of `remit blame` depend on: git's settings, and the files whose change may change an answer."""

import os
import sys
from collections.abc import Iterator
from pathlib import Path

from msgspec import Struct

from remit.cli.blame_arguments import FIXED_DATES, STEADY, Asked
from remit.ledger.machine_logs import MACHINES, log_places
from remit.ledger.segments import FOREIGN
from remit.workspace.git import Git, GitError
from remit.workspace.place import Workspace, git_root

GIT_FILES = (
    *("HEAD", "packed-refs", "reftable/tables.list", "MERGE_HEAD", "shallow", "info/grafts", "refs/replace"),
    *("info/attributes", "config", "config.worktree", "refs/notes", "objects/info/alternates"),
)
READ_ELSEWHERE = ("mailmap.file", "core.attributesfile", "blame.ignorerevsfile", "include.path")


LISTED = ("config", "--list", "--show-scope", "--show-origin", "-z")
OWN = ("system", "global")
"""Scopes that no repository writes to."""


class Settings(Struct, frozen=True):
    """git's settings: the last value of each, and the files that they come from. `own` are those that no repository
    brings.
    """

    values: dict[str, str]
    files: tuple[str, ...]
    told: bool = True
    own: dict[str, str] = {}

    @property
    def quotes(self) -> bool:
        """Whether git quotes file names for signs outside ASCII."""
        return self.values.get("core.quotepath", "true").lower() not in ("false", "no", "off", "0")

    @property
    def shows_blame_plainly(self) -> bool:
        """Whether nothing says that lines for people look otherwise than git shows them by itself."""
        looks = [name for name in self.values if name.startswith("blame.") and name != "blame.ignorerevsfile"]
        return self.told and not looks and "core.abbrev" not in self.values

    @property
    def steady(self) -> bool:
        """Whether answers made with them stay true while the files stay."""
        date = self.values.get("blame.date", "iso")
        return self.told and date in FIXED_DATES and "mailmap.blob" not in self.values


def settings(git: Git) -> Settings:
    """The settings in force, less those that Remit reads git with. Source: git-config(1), read 2026-11."""
    try:
        out = git.run(*LISTED)
    except GitError:
        return Settings({}, (), told=False)
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
        own |= {name: value} if scope in OWN else {}
        files[path] = None
        if name in READ_ELSEWHERE or name.startswith("includeif."):
            files[str(Path(path).parent / os.path.expanduser(value))] = None  # noqa: PTH111
    return Settings(values, tuple(files), own=own)


def is_steady(asked: Asked, found: Settings) -> bool:
    """Whether the same words get the same answer while the files that it depends on stay."""
    return asked.steady and found.steady and all(STEADY.fullmatch(rev) for rev in asked.values("--ignore-rev"))


def depends(workspace: Workspace, asked: Asked, path: str, found: Settings) -> Iterator[str]:
    """Every file or folder whose change may change the answer."""
    top = git_root(workspace.root) or workspace.root
    yield from found.files
    yield from (str(Path.home() / ".gitconfig"), "/etc/gitconfig")
    yield str(Path(os.environ.get("XDG_CONFIG_HOME") or Path.home() / ".config") / "git" / "config")
    yield str(Path(os.environ.get("XDG_CONFIG_HOME") or Path.home() / ".config") / "git" / "attributes")
    named = [*asked.values("--contents"), *asked.values("--ignore-revs-file"), *asked.values("-S")]
    configured = [found.values[name] for name in READ_ELSEWHERE if name in found.values]
    yield from (str(top / os.path.expanduser(name)) for name in [*named, *configured])  # noqa: PTH111
    yield str(top / ".mailmap")
    yield str(workspace.root / path)
    yield from (
        str(folder / ".gitattributes") for folder in (workspace.root / path).parents if folder.is_relative_to(top)
    )
    yield from of_git(workspace)
    yield from of_ledger(workspace)
    yield from loaded()


def loaded() -> Iterator[str]:
    """The files of the code that answers."""
    modules = [module for name, module in sys.modules.items() if name.startswith("remit.")]
    yield from (module.__file__ for module in modules if module.__file__)


def of_git(workspace: Workspace) -> Iterator[str]:
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


def of_ledger(workspace: Workspace) -> Iterator[str]:
    """What was recorded: the newest segments, and whether anything governs here."""
    yield str(workspace.state / "governed")
    yield str(workspace.log_folder / MACHINES)
    for place in log_places(workspace.log_folder):
        folder = workspace.log_folder / place
        yield from map(str, (folder, *sorted(folder.glob("*.jsonl*"))[-2:]))
    yield str(workspace.log_folder / FOREIGN)
    yield str(workspace.tracked_logs)
    yield from map(str, sorted(workspace.tracked_logs.glob("*")))

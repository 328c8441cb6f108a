"""Setting up a repository (`init`), and undoing the setup (`uninstall`)."""

import shutil
from pathlib import Path

from msgspec import Struct

from remit.core.config import ShareSettings
from remit.core.decision import Mode
from remit.core.machine_paths import STATE_FOLDER
from remit.gate.records.tree_heads import NOTES_REF as NOTES
from remit.gate.rules.governed_workspaces import govern_workspace, set_mode
from remit.gate.rules.load import load_config, load_rules
from remit.wiring.plan import WiringProblem
from remit.wiring.toml_merge import merge_toml
from remit.workspace.agents.settings_files import read_settings, write_settings
from remit.workspace.contents.remit_repository import REPOSITORY_FOLDER as OBJECTS
from remit.workspace.contents.remit_repository import RemitRepository
from remit.workspace.files.atomic import write_below
from remit.workspace.git.command import Git, GitError
from remit.workspace.git.refs import NOTES_REF
from remit.workspace.place.governed_repositories import unregister_repository
from remit.workspace.place.workspace import ENFORCE_MARKER, GOVERNED_MARKER, ORCHESTRATION_FOLDER, Workspace
from remit.workspace.snapshots.git_store import SNAPSHOT_REFS as SNAPSHOTS

KEPT_REFS = (
    ("refs/remit/log", "logs of machines that were shared"),
    (SNAPSHOTS, "snapshots by an older version of Remit"),
    ("refs/remit/blobs", "contents that the ledger names, by an older version of Remit"),
    (NOTES, "notes that witness the ledger"),
    (NOTES_REF, "notes of who wrote which line"),
)
"""Refs of the user's repository that may hold Remit's objects."""

STARTER_INTENTS = """\
# What coding agents may do here. Make an intent with:  remit intent new "Greet people by name" --scope 'src/**'
# or by hand. An agent may take up one that is DRAFT or IN_PROGRESS:
#
#   - id: INT-001
#     name: Greet people by name
#     status: DRAFT
#     owned_scope:
#       - src/**
#       - "!src/generated/**"
#     constraints:
#       - no new dependency
#     acceptance_criteria:
#       - greet() takes a name
active_intents: []
"""


class RepositoryStart(Struct, frozen=True):
    """Changes of a repository by `init`.

    `mode` and `share` are None if unchanged. `private` adds `.orchestration/` to the repository's
    `info/exclude`, to hide the folder from git.
    """

    govern: bool
    mode: Mode | None
    starter: bool
    share: ShareSettings | None = None
    private: bool = False

    @property
    def has_changes(self) -> bool:
        return self.govern or self.mode is not None or self.starter or self.share is not None or self.private


def plan_start(
    workspace: Workspace, mode: Mode | None, share: ShareSettings | None, private: bool = False
) -> RepositoryStart:
    """Return the changes to make. The mode is always written into the configuration, where readers see it.

    Raises WiringProblem if `private` is requested but git tracks `.orchestration/` already, or there is no git.
    """
    if private and workspace.common_dir is None:
        raise WiringProblem(workspace.folder, "--private excludes it from git, and there is no git repository here")
    if private and count_tracked_files(workspace):
        fix = f"`git rm -r --cached {ORCHESTRATION_FOLDER}` and commit first"
        raise WiringProblem(workspace.folder, f"--private keeps it out of git, but git tracks it already: {fix}")
    config, error = load_config(workspace)
    written = config.mode if config else None
    fresh = not workspace.config_path.exists()
    wanted = mode or (None if error or written else "observe" if fresh else load_rules(workspace).mode)
    starter = not workspace.intents_path.exists() and (workspace.folder.is_dir() or not workspace.is_governed)
    changed = share if share is not None and share != (config.share if config else ShareSettings()) else None
    return RepositoryStart(
        govern=not workspace.is_governed,
        mode=wanted if wanted != written else None,
        starter=starter and error is None,
        share=changed,
        private=private and not is_private(workspace),
    )


def start_governing(workspace: Workspace, plan: RepositoryStart) -> None:
    """Make the changes. Raises OSError, ConfigError, WiringProblem."""
    if plan.govern:
        govern_workspace(workspace)
    if plan.mode is not None:
        set_mode(workspace, plan.mode)
    if plan.share is not None:
        write_share(workspace, plan.share)
    if plan.private:
        exclude_from_git(workspace)
    if plan.starter:
        write_below(workspace.root, workspace.intents_path, STARTER_INTENTS.encode())


def find_exclude_path(workspace: Workspace) -> Path | None:
    """Return the repository's `info/exclude`, shared by its worktrees and never committed."""
    return workspace.common_dir / "info" / "exclude" if workspace.common_dir else None


def build_exclude_line(workspace: Workspace) -> bytes:
    """Return the line of `info/exclude` for exactly this workspace's `.orchestration/`."""
    inside = "" if not workspace.is_nested else Git(workspace.root).text("rev-parse", "--show-prefix").strip()
    return f"/{inside}{ORCHESTRATION_FOLDER}/".encode()


def is_private(workspace: Workspace) -> bool:
    """Return True if `.orchestration/` is excluded from git by `init --private`. Raises OSError."""
    path = find_exclude_path(workspace)
    text = read_settings(path) if path else None
    return text is not None and build_exclude_line(workspace) in text.splitlines()


def exclude_from_git(workspace: Workspace) -> None:
    """Add `.orchestration/` to `info/exclude`. Raises OSError, SettingsChanged."""
    path = find_exclude_path(workspace)
    if path is not None:
        before = read_settings(path)
        above = before + b"\n" if before and not before.endswith(b"\n") else before or b""
        write_settings(path, before, above + build_exclude_line(workspace) + b"\n")


def include_in_git(workspace: Workspace) -> None:
    """Remove the line of `init --private` from `info/exclude`. Raises OSError, SettingsChanged."""
    path = find_exclude_path(workspace)
    before = read_settings(path) if path else None
    if path is not None and before is not None and is_private(workspace):
        lines = before.splitlines(keepends=True)
        write_settings(path, before, b"".join(line for line in lines if line.strip() != build_exclude_line(workspace)))


def write_share(workspace: Workspace, share: ShareSettings) -> None:
    """Write `[share]` into `remit.toml`. Raises WiringProblem if the file has such a table."""
    path = workspace.config_path
    text = path.read_text("utf-8") if path.exists() else ""
    if "[share]" in text:
        raise WiringProblem(path, "it has a [share] already; change it there by hand")
    merged, _ = merge_toml(text, {("share",): {"notes": share.notes, "log": share.log}})
    write_below(workspace.root, path, merged.encode())


def stop_governing(home: Path, workspace: Workspace) -> bool:
    """Remove the markers of a governed workspace. Returns whether there were any. Raises OSError."""
    unregister_repository(home, workspace)
    markers = [workspace.state / GOVERNED_MARKER, workspace.state / ENFORCE_MARKER]
    present = any(marker.exists() for marker in markers)
    for marker in markers:
        marker.unlink(missing_ok=True)
    return present


def purge_repository(workspace: Workspace) -> list[Path]:
    """Remove the ledger, the state with the snapshots, `.orchestration/` and Remit's refs, and return the removed
    folders.

    Notes of authorship stay: they belong to other tools as well. Raises OSError, GitError.
    """
    for name in (*list_refs(workspace, "refs/remit"), *list_refs(workspace, NOTES)):
        Git(workspace.root).run("update-ref", "-d", name)
    include_in_git(workspace)
    folders = [folder for folder in (workspace.state, workspace.folder) if folder.is_dir()]
    for folder in folders:
        if folder.is_dir():
            shutil.rmtree(folder)
    return folders


def count_tracked_files(workspace: Workspace) -> int:
    """Return the number of tracked files in `.orchestration/`: a purge appears as their deletion. Raises GitError."""
    if workspace.common_dir is None or not workspace.folder.is_dir():
        return 0
    return Git(workspace.root).run("ls-files", "-z", "--", ORCHESTRATION_FOLDER).count(b"\0")


def list_remains(workspace: Workspace, home: Path) -> list[tuple[str, str]]:
    """Return the files and refs that stay after an uninstall, each with a description."""
    state = home / STATE_FOLDER
    places = [
        (workspace.folder, "intents and configuration"),
        (workspace.log_folder, "the ledger"),
        (workspace.state / OBJECTS, f"contents that the ledger names, and {count_snapshots(workspace)} snapshots"),
        (state / "key", "this machine's key: ledgers are checked by it"),
        (state / "machine", "this machine's name in ledgers"),
        (state / "governed", "which repositories are governed"),
        (state / "wired.json", "which agents `remit init` wired, and from which repositories"),
        (state / "spool", "records that wait to be written"),
        (state / "trust", "which commands of repositories you let run"),
        (state / "checks.json", "which installed packages bring checks"),
        (state / "sandbox", "what contained commands left in caches; may be deleted"),
    ]
    found = [(str(path), about) for path, about in places if path.exists()]
    for ref, about in KEPT_REFS:
        if names := list_refs(workspace, ref):
            number = f"{len(names)} refs: " if len(names) > 1 else ""
            found.append((ref, f"{number}{about}; `git update-ref -d {names[0]}` removes one"))
    return found


def count_snapshots(workspace: Workspace) -> int:
    """Return the number of snapshots in Remit's own repository."""
    if workspace.common_dir is None:
        return 0
    try:
        return len(RemitRepository(workspace).list_refs(SNAPSHOTS))
    except GitError:
        return 0


def list_refs(workspace: Workspace, below: str) -> list[str]:
    """Return Remit's refs in the user's repository."""
    if workspace.common_dir is None:
        return []
    try:
        return Git(workspace.root).text("for-each-ref", "--format=%(refname)", below).splitlines()
    except GitError:
        return []

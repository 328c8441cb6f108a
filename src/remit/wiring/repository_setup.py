"""Setting up a repository (`init`), and undoing the setup (`uninstall`)."""

import shutil
from contextlib import suppress
from pathlib import Path

from msgspec import Struct

from remit.core.config import ShareSettings
from remit.core.decision import Mode
from remit.core.intent import INTENTS_FOLDER, LIST_FILE, MAX_FILE_BYTES
from remit.core.machine_paths import STATE_FOLDER
from remit.gate.governing.lives import life_path
from remit.gate.governing.rules import accept_present_rules, load_config, load_rules
from remit.gate.governing.settings import govern_workspace, set_mode
from remit.gate.records.tree_heads import NOTES_REF as NOTES
from remit.wiring.toml_merge import merge_toml
from remit.wiring.wire import WiringProblem
from remit.workspace.agents.read_write_settings import read_settings, write_settings
from remit.workspace.contents.content_store import REPOSITORY_FOLDER as OBJECTS
from remit.workspace.contents.content_store import RemitRepository
from remit.workspace.git.command import Git, GitError
from remit.workspace.git.repository import NOTES_REF
from remit.workspace.intents_file.storage import VIEW_MARK
from remit.workspace.place.workspace import (
    ENFORCE_MARKER,
    GOVERNED_MARKER,
    ORCHESTRATION_FOLDER,
    Workspace,
    unregister_repository,
)
from remit.workspace.safe_files import read_tail, remove_below, write_below
from remit.workspace.snapshots.git_store import SNAPSHOT_REFS as SNAPSHOTS
from remit.workspace.worktrees import HANDED_IN_REFS, WIP_REFS

KEPT_REFS = (
    ("refs/remit/log", "logs of machines that were shared"),
    (WIP_REFS, "checkpoints of attempts"),
    (HANDED_IN_REFS, "marks of handed-in attempts"),
    (SNAPSHOTS, "snapshots by an older version of Remit"),
    ("refs/remit/blobs", "contents that the ledger names, by an older version of Remit"),
    (NOTES, "notes that witness the ledger"),
    (NOTES_REF, "notes of who wrote which line"),
)
"""Refs of the user's repository that may hold Remit's objects."""

EXCLUDE_FILE = "info/exclude"  # in git's folder: shared by worktrees, and never committed

INTENTS_README = """\
# Intents

Each file here is an intent: what a coding agent may change, under which rules, and when it is done.
Make one with `remit intent new "Greet people by name" --scope 'src/**'`, or copy a file and give it an id of its own.
Edit the files as you like, and commit them with the work. Who works under which intent stands in Remit's ledger, not
here: a file says `status:` only once its intent is DONE, ABORTED or BLOCKED. Ended ones may move into `closed/`.
"""


class RepositoryStart(Struct, frozen=True):
    """Changes of a repository by `init`. `mode` and `share` are None if unchanged; `private` hides it from git."""

    govern: bool
    mode: Mode | None
    starter: bool
    share: ShareSettings | None = None
    private: bool = False
    adopts: bool = False
    """Whether only the rules that a clone carries begin to hold: nothing is written into its tree."""
    base: str = ""
    """The commit whose rules may not be loosened by the clone's, if any."""

    @property
    def has_changes(self) -> bool:
        return self.govern or self.mode is not None or self.starter or self.share is not None or self.private


def plan_start(
    workspace: Workspace, mode: Mode | None, share: ShareSettings | None, private: bool = False
) -> RepositoryStart:
    """Return the changes to make. The mode is always written into the configuration, where readers see it. Raises
    WiringProblem if `private` is requested but git tracks `.orchestration/` already, or there is no git.
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
    has_intents = workspace.intents_path.exists() or (workspace.folder / INTENTS_FOLDER).exists()
    wants_list = config is not None and config.intents.layout == "list"
    starter = not has_intents and not wants_list and (workspace.folder.is_dir() or not workspace.is_governed)
    changed = share if share is not None and share != (config.share if config else ShareSettings()) else None
    return RepositoryStart(
        govern=not (workspace.is_governed and workspace.is_separate_workspace),
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
        path = workspace.config_path
        text = path.read_text("utf-8") if path.exists() else ""
        if "[share]" in text:
            raise WiringProblem(path, "it has a [share] already; change it there by hand")
        merged, _ = merge_toml(text, {("share",): {"notes": plan.share.notes, "log": plan.share.log}})
        write_below(workspace.root, path, merged.encode())
    if plan.private:
        hide_from_git(workspace, True)
    if plan.starter:
        write_readme(workspace)
        ignore_view(workspace)
    accept_present_rules(workspace)


def write_readme(workspace: Workspace) -> None:
    """Write the page that explains the folder of intents, and keeps it. Raises OSError."""
    path = workspace.folder / INTENTS_FOLDER / "README.md"
    if not path.exists():
        write_below(workspace.root, path, INTENTS_README.encode())


def show_list(workspace: Workspace) -> None:
    """Let git see the list of intents. Raises OSError."""
    path = workspace.folder / ".gitignore"
    text = path.read_bytes() if path.exists() else b""
    kept = b"".join(line for line in text.splitlines(keepends=True) if line.strip() != LIST_FILE.encode())
    if kept != text:
        write_below(workspace.root, path, kept)


def ignore_view(workspace: Workspace) -> None:
    """Let git ignore the list that Remit writes beside the files of intents. Raises OSError."""
    path = workspace.folder / ".gitignore"
    text = path.read_bytes() if path.exists() else b""
    if LIST_FILE.encode() not in text.splitlines():
        end = b"" if not text or text.endswith(b"\n") else b"\n"
        write_below(workspace.root, path, text + end + LIST_FILE.encode() + b"\n")


def build_exclude_line(workspace: Workspace) -> bytes:
    inside = Git(workspace.root).text("rev-parse", "--show-prefix").strip() if workspace.is_nested else ""
    return f"/{inside}{ORCHESTRATION_FOLDER}/".encode()


def is_private(workspace: Workspace) -> bool:
    text = read_settings(workspace.common_dir / EXCLUDE_FILE) if workspace.common_dir else None
    return text is not None and build_exclude_line(workspace) in text.splitlines()


def hide_from_git(workspace: Workspace, hide: bool) -> None:
    if workspace.common_dir is None or is_private(workspace) == hide:
        return
    path, line = workspace.common_dir / EXCLUDE_FILE, build_exclude_line(workspace)
    before = read_settings(path)
    others = b"".join(text for text in (before or b"").splitlines(keepends=True) if text.strip() != line)
    end = b"\n" if others and not others.endswith(b"\n") else b""
    write_settings(path, before, others + end + line + b"\n" if hide else others)


def stop_governing(home: Path, workspace: Workspace) -> bool:
    """Remove the markers of a governed workspace and the view of its intents. Returns whether it was governed. Raises
    OSError.
    """
    unregister_repository(home, workspace)
    markers = [workspace.state / GOVERNED_MARKER, workspace.state / ENFORCE_MARKER]
    present = any(marker.exists() for marker in markers)
    for marker in markers:
        marker.unlink(missing_ok=True)
    if read_tail(workspace.intents_path, MAX_FILE_BYTES).startswith(VIEW_MARK):
        remove_below(workspace.root, workspace.intents_path)
    shutil.rmtree(life_path(workspace).parent, ignore_errors=True)
    return present


def purge_repository(workspace: Workspace) -> list[Path]:
    """Remove ledger, state with snapshots, `.orchestration/` and Remit's refs; return the removed folders. Notes of
    authorship stay: they belong to other tools as well. Raises OSError, GitError.
    """
    for name in (*list_refs(workspace, "refs/remit"), *list_refs(workspace, NOTES)):
        Git(workspace.root).run("update-ref", "-d", name)
    hide_from_git(workspace, False)
    folders = [folder for folder in (workspace.state, workspace.folder) if folder.is_dir()]
    for folder in folders:
        shutil.rmtree(folder)
    return folders


def count_tracked_files(workspace: Workspace) -> int:
    if workspace.common_dir is None or not workspace.folder.is_dir():
        return 0
    return Git(workspace.root).run("ls-files", "-z", "--", ORCHESTRATION_FOLDER).count(b"\0")


def list_remains(workspace: Workspace, home: Path) -> list[tuple[str, str]]:
    """Return the files and refs that stay after an uninstall, each with a description."""
    state = home / STATE_FOLDER
    snapshots = 0
    with suppress(GitError):
        snapshots = len(RemitRepository(workspace).list_refs(SNAPSHOTS)) if workspace.common_dir else 0
    places = [
        (workspace.folder, "intents and configuration"),
        (workspace.log_folder, "the ledger"),
        (workspace.state / OBJECTS, f"contents that the ledger names, and {snapshots} snapshots"),
        (state / "key", "this machine's key: ledgers are checked by it"),
        (state / "machine", "this machine's name in ledgers"),
        (state / "governed", "which repositories are governed"),
        (state / "wired.json", "which agents `remit init` wired, and from which repositories"),
        (state / "spool", "records that wait to be written"),
        (state / "trust", "which commands of repositories you let run"),
        (state / "state.db", "which agents are at work, and who is logged in"),
        (state / "checks.json", "which installed packages bring checks"),
        (state / "sandbox", "what contained commands left in caches; may be deleted"),
    ]
    found = [(str(path), about) for path, about in places if path.exists()]
    for ref, about in KEPT_REFS:
        if names := list_refs(workspace, ref):
            number = f"{len(names)} refs: " if len(names) > 1 else ""
            found.append((ref, f"{number}{about}; `git update-ref -d {names[0]}` removes one"))
    return found


def list_refs(workspace: Workspace, below: str) -> list[str]:
    git = Git(workspace.root)
    with suppress(GitError):
        return git.text("for-each-ref", "--format=%(refname)", below).splitlines() if workspace.common_dir else []
    return []

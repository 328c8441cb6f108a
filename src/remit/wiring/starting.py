"""What `init` puts into a repository, and what `uninstall` takes out of it."""

import shutil
from pathlib import Path

from msgspec import Struct

from remit.core.config import Share
from remit.core.decision import Mode
from remit.gate.governing import configuration, govern, governing, set_mode
from remit.gate.witness import REF as NOTES
from remit.wiring.plan import Problem
from remit.wiring.toml_merge import merge_toml
from remit.workspace.beneath import write_below
from remit.workspace.git import Git, GitError
from remit.workspace.place import ENFORCE, FOLDER, GOVERNED, Workspace
from remit.workspace.registry import unregister

STARTER = """\
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


class Start(Struct, frozen=True):
    """What is to be done in a repository. `mode` is None where it stays; `share` where nobody was asked."""

    govern: bool
    mode: Mode | None
    starter: bool
    share: Share | None = None

    @property
    def changes(self) -> bool:
        """Whether there is anything to do."""
        return self.govern or self.mode is not None or self.starter or self.share is not None


def start_plan(workspace: Workspace, mode: Mode | None, share: Share | None) -> Start:
    """What is to be done. The mode is always written down: the starter file alone would mean enforce."""
    config, error = configuration(workspace)
    written = config.mode if config else None
    fresh = not workspace.config_path.exists()
    wanted = mode or (None if error or written else "observe" if fresh else governing(workspace).mode)
    starter = not workspace.intents_path.exists() and (workspace.folder.is_dir() or not workspace.governed)
    changed = share if share is not None and share != (config.share if config else Share()) else None
    return Start(
        govern=not workspace.governed,
        mode=wanted if wanted != written else None,
        starter=starter and error is None,
        share=changed,
    )


def start(workspace: Workspace, plan: Start) -> None:
    """Do it. Raises OSError, ConfigError, Problem."""
    if plan.govern:
        govern(workspace)
    if plan.mode is not None:
        set_mode(workspace, plan.mode)
    if plan.share is not None:
        write_share(workspace, plan.share)
    if plan.starter:
        write_below(workspace.root, workspace.intents_path, STARTER.encode())


def write_share(workspace: Workspace, share: Share) -> None:
    """Write `[share]` into `remit.toml`. Raises Problem where there is one that says otherwise."""
    path = workspace.config_path
    text = path.read_text("utf-8") if path.exists() else ""
    if "[share]" in text:
        raise Problem(path, "it has a [share] already; change it there by hand")
    merged, _ = merge_toml(text, {("share",): {"notes": share.notes, "log": share.log}})
    write_below(workspace.root, path, merged.encode())


def ungovern(home: Path, workspace: Workspace) -> bool:
    """Stop governing: take the markers away, nothing else; whether there were any. Raises OSError."""
    unregister(home, workspace)
    markers = [workspace.state / GOVERNED, workspace.state / ENFORCE]
    there = any(marker.exists() for marker in markers)
    for marker in markers:
        marker.unlink(missing_ok=True)
    return there


def purge(workspace: Workspace) -> list[Path]:
    """Remove the ledger, the state, `.orchestration/` and the refs that keep contents; what was removed.

    Raises OSError, GitError.
    """
    for name in refs(workspace, "refs/remit"):
        Git(workspace.root).run("update-ref", "-d", name)
    folders = [folder for folder in (workspace.state, workspace.folder) if folder.is_dir()]
    for folder in folders:
        if folder.is_dir():
            shutil.rmtree(folder)
    return folders


def tracked_files(workspace: Workspace) -> int:
    """How many files of `.orchestration/` git tracks: a purge shows as their deletion. Raises GitError."""
    if workspace.common_dir is None or not workspace.folder.is_dir():
        return 0
    return Git(workspace.root).run("ls-files", "-z", "--", FOLDER).count(b"\0")


def what_stays(workspace: Workspace, home: Path) -> list[tuple[str, str]]:
    """What an uninstall leaves, with what it is."""
    state = home / ".local/state/remit"
    places = [
        (workspace.folder, "intents and configuration"),
        (workspace.log_folder, "the ledger"),
        (state / "key", "this machine's key: ledgers are checked by it"),
        (state / "machine", "this machine's name in ledgers"),
        (state / "governed", "which repositories are governed"),
        (state / "wired.json", "which agents `remit init` wired, and from which repositories"),
        (state / "spool", "records that wait to be written"),
        (state / "trust", "which commands of repositories you let run"),
        (state / "checks.json", "which installed packages bring checks"),
        (state / "sandbox", "what contained commands left in caches; may be deleted"),
    ]
    kept = [(name, "contents that the ledger names") for name in refs(workspace, "refs/remit")]
    notes = [(name, "notes that witness the ledger") for name in refs(workspace, NOTES)]
    return [(str(path), about) for path, about in places if path.exists()] + kept + notes


def refs(workspace: Workspace, below: str) -> list[str]:
    """Remit's own refs in the repository."""
    if workspace.common_dir is None:
        return []
    try:
        return Git(workspace.root).text("for-each-ref", "--format=%(refname)", below).splitlines()
    except GitError:
        return []

"""The inputs that the answer to a blame of the work tree depends on: while they are unchanged, an answer in memory is
given again.

Reading the inputs takes a few milliseconds: git's settings are asked of git, because includes and conditions decide
them; all further inputs are files. If an input cannot be read cheaply, there are no inputs, and the answer is computed
anew.
"""

import os
from collections.abc import Iterator
from pathlib import Path

from msgspec import Struct

from remit.cli.blame.arguments import option_name
from remit.cli.blame.blame import BlameQuestion
from remit.core.diff.contents import sha256
from remit.ledger.log_files import FOREIGN_FOLDER, list_segment_sizes
from remit.workspace.git.command import Git, GitError, file_state
from remit.workspace.git.repository import NOTES_REF, head_commit
from remit.workspace.place.workspace import Workspace

LASTING_OPTIONS = frozenset(
    {"-L", "-w", "-M", "-C", "-s", "-e", "-f", "-n", "-l", "-t", "-b", "-c", "--show-name", "--show-number"}
    | {"--show-email", "--abbrev", "--no-abbrev", "--root", "--minimal", "--first-parent", "--color-lines"}
)
"""Options that name no other file or commit, and whose effect does not depend on the time."""

OUTSIDE_SETTINGS = ("blame.ignorerevsfile", "blame.date", "mailmap.", "core.attributesfile", "color.blame.")
"""Settings that name further files, or whose effect depends on the time."""

GIT_FILES = ("packed-refs", "shallow", "info/grafts", "info/attributes", NOTES_REF)  # in the common folder
WORKTREE_FILES = ("index", "MERGE_HEAD")  # in the folder of the worktree


class AnswerInputs(Struct, frozen=True):
    """What an answer depends on, beside the command itself."""

    head: str
    settings: bytes
    content_sha256: str
    files: tuple[tuple[int, ...], ...]
    log: tuple[tuple[str, int], ...]


def read_inputs(question: BlameQuestion) -> AnswerInputs | None:
    """Return the inputs of a question's answer; None if some cannot be told. Raises OSError."""
    arguments, workspace = question.arguments, question.workspace
    file, common, git_dir = workspace.root / question.path, workspace.common_dir, workspace.git_dir
    if arguments.revisions or not {option_name(option) for option in arguments.options} <= LASTING_OPTIONS:
        return None
    if common is None or git_dir is None or file.is_symlink() or not file.is_file() or has_other_sources(workspace):
        return None
    try:
        settings = Git(question.folder).run("config", "--list", "--show-scope", "--show-origin", "-z")
    except GitError:
        return None
    names = settings.decode("utf-8", "replace").lower().split("\0")[2::3]
    head = head_commit(workspace)
    if head is None or any(name.startswith(OUTSIDE_SETTINGS) for name in names):
        return None
    top = next((folder for folder in (workspace.root, *workspace.root.parents) if (folder / ".git").exists()), None)
    if top is None:
        return None
    paths = [*(common / name for name in GIT_FILES), *(git_dir / name for name in WORKTREE_FILES)]
    folders = [folder for folder in file.parents if folder.is_relative_to(top)]
    paths += [top / ".mailmap", *(folder / ".gitattributes" for folder in folders), *user_attribute_files()]
    sizes = tuple(list_segment_sizes(workspace.log_folder))
    return AnswerInputs(head, settings, sha256(file.read_bytes()), tuple(map(file_state, paths)), sizes)


def has_other_sources(workspace: Workspace) -> bool:
    """Return whether replaced objects, imported records or other machines' logs take part in answers."""
    replaced = (workspace.common_dir or workspace.state) / "refs" / "replace"
    imported = (workspace.log_folder / FOREIGN_FOLDER).is_dir() or workspace.tracked_logs.is_dir()
    return imported or (replaced.is_dir() and any(replaced.iterdir()))


def user_attribute_files() -> Iterator[Path]:
    """Yield git's attribute files outside of repositories. Source: gitattributes(5), read 2026-11."""
    yield Path("/etc/gitattributes")
    own = os.environ.get("XDG_CONFIG_HOME")
    yield (Path(own) if own else Path.home() / ".config") / "git" / "attributes"

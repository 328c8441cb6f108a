"""Facts of a repository and a machine needed by plans, gathered from git, the work tree and the search path."""

import os
from collections import Counter
from collections.abc import Iterable, Sequence
from contextlib import suppress
from pathlib import Path

from msgspec.structs import replace

from remit.core.config import OrchestratorSettings
from remit.core.intent import Intent
from remit.gate.context import WorkspaceContext
from remit.gate.intents.intents import changes_in_record, record_body
from remit.wiring.agents import find_agents
from remit.workspace.git.command import Git, GitError
from remit.workspace.git.repository import BRANCH_PREFIX, head_commit, list_commits
from remit.workspace.place.resolve_paths import folds_case
from remit.workspace.place.workspace import ORCHESTRATION_FOLDER, Workspace
from remit.workspace.safe_files import read_regular_file
from remit.workspace.worktrees import STATUS_WORDS
from remit_fleet.planning.imports import ImportResolver, list_imported_modules
from remit_fleet.planning.plan import RepositoryFacts, TrackedFiles
from remit_fleet.planning.suggest.coupling import Commit, RepositoryHistory
from remit_fleet.planning.write_sets import WriteSet
from remit_fleet.remote import find_uncommitted_intents

MAX_IMPORTING_FILES = 2_000
MAX_COMMITS = 3_000
MAX_MUTATIONS = 5_000
MAX_SOURCE_BYTES = 256 * 1024


def gather_facts(
    context: WorkspaceContext, intents: Sequence[Intent], settings: OrchestratorSettings, search_path: str
) -> RepositoryFacts:
    """Gather the facts about a plan of these intents. Raises GitError, OSError."""
    workspace = context.workspace
    facts = RepositoryFacts(
        files=list_tracked_files(workspace),
        has_commit=head_commit(workspace) is not None,
        folds_case=folds_case(workspace.root),
        agents=frozenset(a.row.agent for a in find_agents(context.environment.home, search_path) if a.binary),
        trusted=context.trusted_digests(),
        dirty_target=find_dirty_target(workspace, settings.target),
        apart=count_commits_apart(workspace, settings.target),
        uncommitted=find_uncommitted(context, intents),
    )
    sets = [WriteSet(intent.id, intent.owned_scope) for intent in intents]
    tracked = TrackedFiles(facts.files, fold=facts.folds_case)
    owned = {path for own in sets for path in tracked.list_owned(own)}
    return replace(facts, imports=read_imports(workspace.root, sorted(owned)[:MAX_IMPORTING_FILES], facts.files))


def count_commits_apart(workspace: Workspace, target: str) -> tuple[int, int]:
    """Return the numbers of commits of Remit's own target that HEAD lacks, and of HEAD that the target lacks; zeros for
    a target that a person named, or that does not exist yet. Raises GitError.
    """
    if workspace.common_dir is None or target != OrchestratorSettings().target:
        return 0, 0
    words = ("rev-list", "--left-right", "--count", f"{BRANCH_PREFIX}{target}...HEAD", "--")
    ahead, _, behind = Git(workspace.root).text(*words, ok=(0, 128)).partition("\t")
    return int(ahead or 0), int(behind or 0)


def find_uncommitted(context: WorkspaceContext, intents: Sequence[Intent]) -> tuple[str, ...]:
    """Return the intents that HEAD lacks, or has with a different scope; none before the first commit."""
    head = head_commit(context.workspace)
    return tuple(find_uncommitted_intents(context, head, [intent.id for intent in intents])) if head else ()


def list_tracked_files(workspace: Workspace) -> tuple[str, ...]:
    """Return the tracked files below the workspace's root, in order; none without git. Raises GitError."""
    if workspace.common_dir is None:
        return ()
    listed = Git(workspace.root).run("ls-files", "-z", "--cached")
    return tuple(sorted(filter(None, os.fsdecode(listed).split("\0"))))


def find_dirty_target(workspace: Workspace, target: str) -> str:
    if workspace.common_dir is None:
        return ""
    with suppress(GitError):
        trees = Git(workspace.root).text("worktree", "list", "--porcelain").split("\n\n")
        for tree in trees:
            lines = tree.splitlines()
            if f"branch refs/heads/{target}" in lines:
                folder = lines[0].removeprefix("worktree ")
                # The fleet itself writes the intents file, and a landing keeps what is in it.
                but = f":(exclude,glob)**/{ORCHESTRATION_FOLDER}/active_intents.yaml"
                words = (*STATUS_WORDS, "--untracked-files=no", "--", ".", but)
                return folder if Git(Path(folder)).text(*words) else ""
    return ""


def read_imports(root: Path, paths: Iterable[str], files: Iterable[str]) -> dict[str, tuple[str, ...]]:
    """Return the files imported by each path; unreadable files import no file."""
    resolver = ImportResolver(files)
    found: dict[str, tuple[str, ...]] = {}
    for path in paths:
        with suppress(OSError):
            text = read_regular_file(root / path, MAX_SOURCE_BYTES).decode("utf-8", "replace")
            if imported := resolver.resolve(path, list_imported_modules(path, text)):
                found[path] = imported
    return found


def read_history(context: WorkspaceContext) -> RepositoryHistory:
    """Return the newest commits of HEAD without merges, and the files changed by agents under each intent. Raises
    GitError, LedgerError, OSError.
    """
    changed: dict[str, dict[str, None]] = {}
    with context.index() as index:
        for document in index.find(event="mutation", limit=MAX_MUTATIONS):
            intent_id = record_body(document).get("intent_id")
            if intent_id:
                own = changed.setdefault(str(intent_id), {})
                own |= dict.fromkeys(change.path for change in changes_in_record(document))
    return RepositoryHistory(read_commits(context.workspace), {name: tuple(own) for name, own in changed.items()})


def read_commits(workspace: Workspace) -> tuple[Commit, ...]:
    """Return the newest MAX_COMMITS commits of HEAD, the newest first; none before the first. Raises GitError."""
    return tuple(Commit(name, paths) for name, paths in list_commits(workspace, MAX_COMMITS))


def order_by_changes(files: Iterable[str], commits: Iterable[Commit]) -> list[str]:
    """Return the files, the most frequently changed first."""
    counts = Counter(path for commit in commits for path in commit.paths)
    return sorted(files, key=lambda path: (-counts[path], path))

"""git's state after a command that ran where nothing stages it: branches, tags and the index, compared with before.

What the command did there without a right to is put back, told and recorded: a branch of somebody else's that went or
moved, a branch whose new commits hold what no file here does, an entry of the index outside the scope.
"""

import re
from collections.abc import Callable, Iterable
from pathlib import Path

from remit.core.call import ToolCall
from remit.core.decision import Facts
from remit.core.scope.path_patterns import Scope
from remit.core.shell_commands import UnreadableShell
from remit.core.untrusted_input import quote_path, sanitise_line
from remit.gate.context import WorkspaceContext
from remit.gate.records.call_records import restore_record
from remit.gate.state.staged_entries import StagedEntries, StagedEntry, list_staged_changes, load_staged, note_staged
from remit.gate.state.workspace_state import PendingCall, State, put_maker, was_made_by
from remit.policy.commands.dangers import find_program_calls
from remit.workspace.git.command import Git
from remit.workspace.git.repository import prefix_in_repository, read_head_reference
from remit.workspace.place.workspace import Workspace
from remit.workspace.sandbox.git_folder_checks import HEADS, MAX_NAMED_PATHS, TAGS

HEAD = "HEAD"
MAX_NAMED = 10
MAX_COMMITS = 1000
NAME_TAKING = re.compile(r"-[a-zA-Z]*[dDmMcCf][a-zA-Z]*|--(delete|move|copy|force)")
"""Options of `git branch` that take a name away, or give it to another commit."""


def read_names(workspace: Workspace) -> dict[str, str]:
    """Return the commit of each branch and tag by its name, and what HEAD holds; empty without git. Raises GitError."""
    head = read_head_reference(workspace)
    if workspace.common_dir is None or head is None:
        return {}
    rows = Git(workspace.root).text("for-each-ref", "--format=%(objectname) %(refname)", HEADS, TAGS).splitlines()
    return {HEAD: head, **{name: commit for commit, _, name in (row.partition(" ") for row in rows)}}


class GitStateCheck:
    """The comparison of one call. Methods raise RECORDING_ERRORS."""

    def __init__(self, context: WorkspaceContext, call: ToolCall, pending: PendingCall) -> None:
        self.context = context
        self.call = call
        self.pending = pending
        self.workspace = context.workspace
        self.state: State = context.state
        self.before = pending.names
        self.after = read_names(self.workspace)
        self.scope = Scope(pending.owned_scope)
        self.prefix = prefix_in_repository(self.workspace)
        root = self.workspace.root
        self.git = Git([root, *root.parents][self.prefix.count("/")])
        self.put_back: list[str] = []

    def restore(self, stray: Iterable[str]) -> str:
        """Put back what the call had no right to change, and return the words about it; `stray` are the paths of its
        commits that no file shows.
        """
        if not self.before:
            return ""
        staged = load_staged(self.state)
        if self.before != self.after:
            self.restore_names(bool([*stray]))
            self.note_own_names()
        self.restore_entries(staged)
        note_staged(self.workspace, self.state, "unknown")
        if not self.put_back:
            return ""
        why = "the call had no right to change git's index or the names of others"
        detail: dict[str, object] = {"paths": [], "why": why, "git": list(map(quote_path, self.put_back))}
        record = restore_record(self.context.recorder, self.call, self.pending.intent_id, detail)
        self.context.recorder.append_or_spool([record])
        few = ", ".join(sanitise_line(name, 120) for name in self.put_back[:MAX_NAMED])
        more = " …" * (len(self.put_back) > MAX_NAMED)
        return (
            f"Remit [PROTECTED_PATH]: what this {self.call.tool} call did in git to {few}{more} was undone: it is as "
            "it was before the call. Name your own files and branches, or ask the person."
        )

    # -- names ----------------------------------------------------------------------------------------------

    def restore_names(self, has_stray: bool) -> None:
        branch = self.before[HEAD]
        checked_out = (branch, self.after.get(HEAD, ""))
        for name, old in self.before.items():
            new = self.after.get(name, "")
            if name == HEAD or new == old or self.is_own(name):
                continue
            if name.startswith(HEADS) and name in checked_out and new:
                is_wrong = has_stray or self.leaves_foreign_commits(old, new)
            elif new and name.startswith(HEADS):
                is_wrong = self.leaves_foreign_commits(old, new) or new in self.before.values()
            else:
                is_wrong = True
            if is_wrong:
                self.git.run("update-ref", name, old, new or "0" * len(old))
                self.put_back.append(name)
        if branch in self.put_back and branch not in self.after:
            self.restore_renamed(branch)

    def restore_renamed(self, branch: str) -> None:
        name = self.after.get(HEAD, "")
        if name.startswith(HEADS) and name not in self.before:
            self.git.run("symbolic-ref", HEAD, branch)
            self.git.run("update-ref", "-d", name, self.after[name])

    def leaves_foreign_commits(self, old: str, new: str) -> bool:
        words = ("rev-list", f"--max-count={MAX_COMMITS}", old, f"^{new}")
        return any(not self.is_own(commit) for commit in self.git.text(*words).split())

    def is_own(self, name: str) -> bool:
        return was_made_by(self.state, name, self.call.session.session_id, self.pending.intent_id or "")

    def note_own_names(self) -> None:
        known = (f"^{value}\n" for name, value in self.before.items() if name != HEAD)
        query = "".join((*known, *(f"{value}\n" for name, value in self.after.items() if name != HEAD))).encode()
        words = ("rev-list", f"--max-count={MAX_COMMITS}", "--stdin", "--ignore-missing")
        commits = self.git.run(*words, "--not", "--remotes", stdin=query).decode().split()
        made = (*commits, *(name for name in self.after if name not in self.before))
        put_maker(self.state, made, self.call.session.session_id, self.pending.intent_id or "")

    # -- the index ------------------------------------------------------------------------------------------

    def restore_entries(self, staged: StagedEntries) -> None:
        found = list_staged_changes(self.workspace)
        outside = [path for path in {**staged.entries, **found} if not self.is_in_scope(path)]
        if not outside:
            return
        head = self.before.get(self.before[HEAD], "" if self.before[HEAD].startswith("refs/") else self.before[HEAD])
        committed = self.read_entries(outside, "ls-tree", "-r", "-z", head) if head else {}
        now = self.read_entries(outside, "ls-files", "-s", "-z")
        lines: list[str] = []
        for path in outside:
            kept = staged.entries.get(path)
            old = (kept.mode, kept.blob) if kept else committed.get(path, ("", ""))
            new = now.get(path, ("", ""))
            if old != new and not self.may_change(path, kept, new):
                lines.append(f"{old[0] or '0'} {old[1] or '0' * 40}\t{path}\0")
                self.put_back.append(path)
        if lines:
            query = "".join(lines).encode("utf-8", "surrogateescape")
            self.git.run("update-index", "-z", "--index-info", stdin=query)

    def may_change(self, path: str, kept: StagedEntry | None, new: tuple[str, str]) -> bool:
        """Return True for an entry that is in the commit of HEAD, or as a person left the file."""
        if kept is not None and kept.stager == "person":
            return False
        own = self.to_workspace_path(path)
        left = self.pending.before.get(own)
        return (left.git_blob if left else "") == new[1] if own in self.pending.before else kept is not None

    def read_entries(self, paths: list[str], *words: str) -> dict[str, tuple[str, str]]:
        """Return mode and blob by path, of a commit or the index; no unmerged entries."""
        wanted = paths if len(paths) <= MAX_NAMED_PATHS else []
        out = self.git.run("--literal-pathspecs", *words, "--", *wanted)
        rows = (row.partition("\t") for row in out.decode("utf-8", "surrogateescape").split("\0")[:-1])
        parts = ((about.split(" "), path) for about, _, path in rows)
        # `mode blob stage` of the index, `mode type blob` of a commit.
        is_index = words[0] == "ls-files"
        return {p: (a[0], a[1] if is_index else a[2]) for a, p in parts if not is_index or a[2] == "0"}

    def to_workspace_path(self, path: str) -> str:
        return path.removeprefix(self.prefix)

    def is_in_scope(self, path: str) -> bool:
        return path.startswith(self.prefix) and self.scope.matches(self.to_workspace_path(path))


# -- before a command ----------------------------------------------------------------------------------------


def find_exposed_names(context: WorkspaceContext, call: ToolCall, facts: Facts) -> tuple[str, ...]:
    """Return the git commands of a text that take away a name that the session did not make, or change index entries
    beside those of the scope. Raises StateError.
    """
    try:
        commands = [one.words for one in find_program_calls(call.command or "") if one.name == "git"]
    except UnreadableShell:
        return ()
    session, intent = call.session.session_id, facts.session.intent_id or ""
    scope, folder, root = (
        Scope(facts.active.owned_scope if facts.active else ()),
        Path(call.cwd),
        context.workspace.root,
    )

    def is_own(name: str) -> bool:
        return was_made_by(context.state, f"{HEADS}{name}", session, intent)

    def is_in_scope(path: str) -> bool:
        place = (folder / path).resolve()
        return place.is_relative_to(root) and scope.matches(str(place.relative_to(root)))

    return tuple(" ".join(("git", *words)) for words in commands if is_exposed(words, is_own, is_in_scope))


def is_exposed(words: tuple[str, ...], is_own: Callable[[str], bool], is_in_scope: Callable[[str], bool]) -> bool:
    verb = next((word for word in words if not word.startswith("-")), "")
    rest = words[words.index(verb) + 1 :] if verb else ()
    named = [word for word in rest if not word.startswith("-") and word != HEAD]
    if verb == "branch":
        return any(NAME_TAKING.fullmatch(word) for word in rest) and not (named and is_own(named[0]))
    takes_out = (verb == "rm" and "--cached" in rest) or (verb == "restore" and not {"-S", "--staged"}.isdisjoint(rest))
    if verb != "reset" and not takes_out:
        return False
    return not named or not all(map(is_in_scope, named))

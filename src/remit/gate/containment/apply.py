"""Judgement of a contained command's layers, and transfer of approved changes into the real tree."""

from collections.abc import Container, Mapping, Sequence
from pathlib import Path

from msgspec.structs import replace

from remit.core.call import ToolCall
from remit.core.decision import Decision, ErrorType, Finding
from remit.core.display_text import sanitise_line
from remit.gate.containment.changed_paths import (
    find_new_worktrees,
    find_silent_changes,
    is_cache_path,
    is_escaping_link,
    is_git_path,
    is_inside,
    is_on_awaited_path,
)
from remit.gate.containment.git import GIT_FOLDER, GitPart, GitVerdict
from remit.gate.containment.messages import (
    concurrent_change,
    concurrent_deletion,
    describe_unnamed_commits,
    escaping_link,
    git_part_dropped,
    half_brought_file,
    link_in_use,
    new_worktree,
    oversized_file,
    reverted_with_git,
    special_file,
    stripped_privileges,
    write_failure,
)
from remit.gate.containment.record import ContainedRecording, ContainedResult
from remit.gate.context import WorkspaceContext
from remit.gate.effects.between_calls import ChangesBetweenCalls
from remit.gate.effects.redirected_writes import awaited_paths
from remit.gate.records import record_parts
from remit.gate.rules.generated_files import GeneratedChange, generated_record, is_exempt_from_scope, record_left_files
from remit.gate.snapshots.take import SnapshotTaker
from remit.gate.state.baseline import baseline_head, read_baseline
from remit.gate.state.tickets import has_uncontained_call
from remit.workspace.files.read_files import hash_file
from remit.workspace.git.command import Git
from remit.workspace.observe.observation import Change, try_observe_file
from remit.workspace.place.workspace import is_folder
from remit.workspace.sandbox.apply_changes import ChangeApplier, save_aside
from remit.workspace.sandbox.layers import Staging
from remit.workspace.sandbox.run_command import CommandEnd
from remit.workspace.sandbox.staged_changes import (
    MAX_FILE_BYTES,
    SPECIAL_KINDS,
    StagedChange,
    could_be_removed_meanwhile,
    find_staged_changes,
    has_origin_mark,
    has_privilege_bits,
    is_changed_since,
)


def find_concurrent_changes(
    site: WorkspaceContext, upper: Path, changes: Sequence[StagedChange], began_ns: int
) -> dict[str, Finding]:
    """Return findings for files that were changed or deleted by others meanwhile. Raises OSError, GitError, StateError."""
    root = site.workspace.root
    found = {c.path: concurrent_change(c.path) for c in changes if is_changed_since(root, c, began_ns)}
    missing = [c for c in changes if could_be_removed_meanwhile(root, c, began_ns)]
    if not missing:
        return found
    before, moves = list_known_files(site), any(c.kind == "gone" for c in changes)
    # A copy of what stood below tells so itself, but for one that the command gave another name.
    lost = [c.path for c in missing if c.path in before or (not moves and has_origin_mark(upper / c.path))]
    return found | {path: concurrent_deletion(path) for path in lost}


def list_known_files(site: WorkspaceContext) -> set[str]:
    """Return the files of the last observation and of git's index and commits."""
    observed = {one.path for one in read_baseline(site.state) if one.version is not None}
    if site.workspace.common_dir is None:
        return observed
    git = Git(site.workspace.root)
    listed = [git.run("ls-files", "-z")]
    for commit in {"HEAD", baseline_head(site.state) or "HEAD"}:
        listed.append(git.run("ls-tree", "-r", "-z", "--name-only", commit, ok=(0, 128)))
    names = b"".join(listed).decode("utf-8", "surrogateescape").split("\0")
    return observed.union(names)


INEXCUSABLE_CODES: frozenset[ErrorType] = frozenset({"PROTECTED_PATH", "OUTSIDE_WORKSPACE", "INVALID_ARGUMENTS"})
"""Findings that hold even for a file in its committed version."""


class LayerTransfer:
    """Transfer of contained commands' effects into one workspace."""

    def __init__(self, recording: ContainedRecording) -> None:
        self.recording = recording
        self.judge = recording.judge
        self.site = recording.site
        self.ticket = recording.ticket

    def take_over(self, call: ToolCall, ended: CommandEnd, staging: Staging) -> ContainedResult:
        """Judge the layers, bring over approved changes, and record the result."""
        upper, all_of_it = (
            staging.root.upper,
            find_staged_changes(staging.root.upper, self.site.workspace.root, with_times=True),
        )
        if self.ticket is not None and not all_of_it and staging.common is None and not ended.stop_text:
            return ContainedResult(ended.code, said=self.recording.describe_sandbox_limits(call, ended))
        own, never = self.split_changes(all_of_it, upper)
        changed = [c for c in own if not c.only_time]
        git = GitPart(self.judge, staging, [c for c in all_of_it if not c.only_time], changed)
        judged = git.judge(call)
        generated = self.find_generated(own)
        objections, cached = self.find_objections(call, own, staging, generated, judged.excused if judged.stays else ())
        late = {c.path for c in own if c.only_time} & objections.keys()  # times alone, of which git's part says nothing
        judged, found = join_verdicts(judged, {path: f for path, f in objections.items() if path not in late})
        objections = {**found, **{path: objections[path] for path in late}}
        kept = [c for c in own if c.path not in objections]
        counted = [c for c in kept if c.path in generated and c.kind != "folder" and not c.only_time]
        sizes = {c.path: hash_file(upper / c.path) if c.kind != "gone" else None for c in counted}
        done, failed = self.bring_over(call, upper, kept, generated)
        unsaid = find_silent_changes(own) | cached
        aside = [path for path, f in objections.items() if f.code == "STALE_FILE" and path not in unsaid]
        save_aside(upper, [*aside, *failed], self.recording.aside_folder(call))
        findings = [f for path, f in objections.items() if path not in unsaid]
        findings += [write_failure(path, why) for path, why in failed.items()]
        if failed and judged.stays:
            judged = replace(judged, stays=False, findings=(*judged.findings, git_write_failure(failed)))
        findings += git.bring_over(call, judged)
        told = self.describe_git_findings(git, judged)
        findings = [f for f in findings if f.path not in {one.path for one in told}] + told
        findings += never
        findings += [stripped_privileges(c.path) for c in kept if not c.only_time and has_privilege_bits(upper, c)]
        self.record_generated(call, [c for c in counted if c.path not in failed], generated, sizes)
        done = {path: replace(change, from_git=path in judged.brought) for path, change in done.items()}
        names = tuple(c.path for c in kept if c.path not in failed and c.path not in unsaid and c.kind != "folder")
        return self.recording.record_result(call, ended, done, findings, names)

    def describe_git_findings(self, git: GitPart, judged: GitVerdict) -> list[Finding]:
        """Return the findings about git's part, with the commits kept without a name."""
        commits = git.keep_unnamed_commits(judged) if judged.findings else ()
        found = list(judged.findings)
        at = next((i for i, f in enumerate(found) if commits and f.path == GIT_FOLDER), None)
        if at is not None:
            found[at] = replace(found[at], message=f"{found[at].message}{describe_unnamed_commits(commits)}")
        return found

    def split_changes(self, changes: Sequence[StagedChange], upper: Path) -> tuple[list[StagedChange], list[Finding]]:
        """Return the changes outside git's folder that may come over, and findings for those that never may."""
        root, common = self.site.workspace.root, self.site.workspace.common_dir
        own = [c for c in changes if not is_git_path(c.path, root, common)]
        trees = find_new_worktrees(own, upper)
        own = [c for c in own if not any(is_inside(c.path, tree) for tree in trees)]
        never = [*map(new_worktree, trees), *(special_file(c.path, c.kind) for c in own if c.kind in SPECIAL_KINDS)]
        return [c for c in own if c.kind not in SPECIAL_KINDS], never

    def find_generated(self, own: Sequence[StagedChange]) -> dict[str, str]:
        """Return the changes to generated files, by the rules before the command."""
        root = self.site.workspace.root
        # A folder that became a file or a link is judged as that: it has no ignored folder's leave.
        plain = {c.path for c in own if c.kind not in ("folder", "gone")}
        was_folder = (c.path for c in own if c.kind == "folder" or (c.kind == "gone" and is_folder(root / c.path)))
        folders = [path for path in was_folder if path not in plain]
        known = frozenset(folders)
        return self.judge.find_generated([c.path for c in own if c.path not in known], folders)

    def record_generated(
        self,
        call: ToolCall,
        counted: Sequence[StagedChange],
        generated: Mapping[str, str],
        sizes: Mapping[str, tuple[str, int] | None],
    ) -> None:
        """Record the kept generated files as one number. Raises OSError, StateError."""
        if not counted:
            return
        found = [GeneratedChange(c.path, generated[c.path], *(sizes[c.path] or (None, 0))) for c in counted]
        record_left_files(self.site.state, found)
        record = generated_record(self.site, call, self.judge.find_intent_id(call) or None, found)
        self.site.recorder.append_or_spool([record])

    def find_objections(
        self,
        call: ToolCall,
        own: Sequence[StagedChange],
        staging: Staging,
        generated: Mapping[str, str],
        excused: Container[str],
    ) -> tuple[dict[str, Finding], set[str]]:
        """Return the refused changes by path, and the paths among them whose loss needs no message.

        `excused` are files brought by git in their committed version: no violation of the agent's.
        """
        root, upper = self.site.workspace.root, staging.root.upper
        anywhere = {path for path, top in generated.items() if is_exempt_from_scope(top)}
        found = self.judge.find_objections(call, [c.path for c in own], anywhere)
        fresh = [c for c in own if c.path not in found and c.path not in generated and not c.only_time]
        found |= self.judge.find_broken_constraints(call, fresh, upper)
        found = {path: f for path, f in found.items() if path not in excused or f.code in INEXCUSABLE_CODES}
        beyond = {path for path, finding in found.items() if finding.code == "SCOPE_VIOLATION"}
        made = {c.path for c in own if c.kind != "gone"}
        emptied = {c.path for c in own if c.kind == "gone" and c.path not in made and (root / c.path).is_dir()}
        others = [c for c in own if c.path not in found]
        found |= find_concurrent_changes(self.site, upper, others, staging.began_ns)
        awaited = awaited_paths(call, self.site.state.list_open_calls())
        alone = not awaited and not has_uncontained_call(call, self.site.state)
        links = [c.path for c in others if c.kind == "link" and is_on_awaited_path(root / c.path, awaited)]
        for change in others:
            if link := next((path for path in links if is_inside(change.path, path)), None):
                found[change.path] = link_in_use(change.path, link)
            if change.kind == "file" and (upper / change.path).lstat().st_size > MAX_FILE_BYTES:
                found.setdefault(change.path, oversized_file(change.path))
            elif not alone and is_escaping_link(upper, root, change):
                found.setdefault(change.path, escaping_link(change.path))
        return found, {path for path in beyond if is_cache_path(path) or path in emptied}

    def bring_over(
        self, call: ToolCall, upper: Path, kept: Sequence[StagedChange], generated: Container[str]
    ) -> tuple[dict[str, Change], dict[str, str]]:
        """Bring over these changes; return the individually recorded changes, and the failures."""
        root = self.site.workspace.root
        files = [c.path for c in kept if c.kind != "folder" and not c.only_time and c.path not in generated]
        before = {path: try_observe_file(root / path) for path in files}
        self.site.keep_contents(record_parts.contents_to_keep(before.items()))
        ChangesBetweenCalls(self.site).record_changed_files("after a contained command", before, call.session)
        trouble = self.take_snapshot(call) if any(before.values()) else ""
        if trouble:
            return {}, {c.path: trouble for c in kept}
        failed = ChangeApplier(upper, root).apply_changes(kept)
        made = (Change(path, before[path], try_observe_file(root / path)) for path in files if path not in failed)
        return {c.path: c for c in made if c.before is not None or c.after is not None}, failed

    def take_snapshot(self, call: ToolCall) -> str:
        """Take a snapshot before an agent's own call changes existing files; return the reason if the call must stop.

        No snapshot was taken before the call: most commands change no file.
        """
        if self.ticket is None:
            return ""
        facts = self.judge.gather_facts(call)
        decision = Decision("contain", "contain", "destructive", facts.mode, intent_id=facts.session.intent_id)
        kept = SnapshotTaker(self.site).take_before_call(call, facts, decision, self.site.observe())
        if kept.refusal is not None:
            return kept.refusal.message
        self.site.recorder.append_or_spool(kept.records)
        return ""


def join_verdicts(judged: GitVerdict, objections: Mapping[str, Finding]) -> tuple[GitVerdict, dict[str, Finding]]:
    """Join the verdict on git's part with those on the files: both stay or neither does.

    If a file in git's part may not stay, git's part is dropped with every file it brought.
    """
    objections = {
        **objections,
        **{path: half_brought_file(path) for path in judged.halves if path not in judged.brought},
    }
    wrong = sorted(judged.paths & objections.keys())
    if judged.stays and wrong:
        judged = replace(
            judged, stays=False, findings=(*judged.findings, git_part_dropped(GIT_FOLDER, explain_wrong_paths(wrong)))
        )
    if judged.stays:
        return judged, dict(objections)
    return judged, {**{path: reverted_with_git(path) for path in judged.brought}, **objections}


def explain_wrong_paths(paths: Sequence[str]) -> str:
    few = ", ".join(sanitise_line(path, 80) for path in paths[:3]) + (", …" if len(paths) > 3 else "")
    return f"it speaks of {few}, which may not change so"


def git_write_failure(failed: Mapping[str, str]) -> Finding:
    return git_part_dropped(GIT_FOLDER, f"{sanitise_line(next(iter(failed)), 80)} could not be written")

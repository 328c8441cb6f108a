"""Judgement of a contained command's layers, and transfer of approved changes into the real tree."""

import os
from collections.abc import Collection, Container, Mapping, Sequence
from pathlib import Path, PurePosixPath

from msgspec.structs import replace

from remit.core.decision import Decision, ErrorType, Finding
from remit.core.display_text import sanitise_line
from remit.gate.containment import judge
from remit.gate.containment.contained_command import ContainedCommand
from remit.gate.containment.git import GIT_FOLDER, GitPart
from remit.gate.containment.git_judgement import GitVerdict
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
from remit.gate.containment.record import ContainedResult, aside_folder, describe_sandbox_limits, record_result
from remit.gate.context import WorkspaceContext, contents_to_keep
from remit.gate.effects.between_calls import ChangesBetweenCalls
from remit.gate.effects.writes_through_links import awaited_paths
from remit.gate.records.call_records import generated_record
from remit.gate.rules.scope_exempt_files import (
    MAX_LISTING_BYTES,
    GeneratedChange,
    format_listing,
    is_exempt_from_scope,
    record_left_files,
)
from remit.gate.snapshots.take import SnapshotTaker
from remit.gate.state.baseline import baseline_head, read_baseline
from remit.gate.state.tickets import has_uncontained_call
from remit.workspace.files.read_files import hash_file
from remit.workspace.git.command import Git
from remit.workspace.observe.observation import Change, try_observe_file
from remit.workspace.place.workspace import ORCHESTRATION_FOLDER, is_folder
from remit.workspace.sandbox.apply_changes import ChangeApplier, save_aside
from remit.workspace.sandbox.layer_changes import (
    MAX_FILE_BYTES,
    SPECIAL_KINDS,
    StagedChange,
    could_be_removed_meanwhile,
    find_staged_changes,
    has_origin_mark,
    has_privilege_bits,
    is_changed_since,
)
from remit.workspace.sandbox.layers import Staging
from remit.workspace.sandbox.run_command import CommandEnd

INEXCUSABLE_CODES: frozenset[ErrorType] = frozenset({"PROTECTED_PATH", "OUTSIDE_WORKSPACE", "INVALID_ARGUMENTS"})
"""Findings that hold even for a file in its committed version."""

CACHE_FOLDERS = frozenset({"__pycache__", ".pytest_cache", ".mypy_cache", ".ruff_cache"})
"""Folders that interpreters and checkers keep beside the sources."""


def take_over(command: ContainedCommand, ended: CommandEnd, staging: Staging) -> ContainedResult:
    """Judge the layers, bring over approved changes, and record the result."""
    upper, workspace = staging.root.upper, command.context.workspace
    every = find_staged_changes(upper, workspace.root, with_times=True)
    if command.ticket is not None and not every and staging.common is None and not ended.stop_text:
        return ContainedResult(ended.code, said=describe_sandbox_limits(command, ended))

    # 1 Judge git's part and the files. Both stay or neither does; changed times are no part of git's.
    own, never_kept = split_changes(command, every, upper)
    git = GitPart(command, staging, [c for c in every if not c.only_time], [c for c in own if not c.only_time])
    verdict = git.judge()
    generated = find_generated(command, own)
    objections, silent = find_objections(command, own, staging, generated, verdict.excused if verdict.stays else ())
    times = {c.path: objections[c.path] for c in own if c.only_time and c.path in objections}
    verdict, objections = join_verdicts(verdict, {p: f for p, f in objections.items() if p not in times})
    objections |= times

    # 2 Bring the files over. A generated file is counted, not recorded by itself; its size is read before the move.
    kept = [c for c in own if c.path not in objections]
    counted = [c for c in kept if c.path in generated and c.kind != "folder" and not c.only_time]
    sizes = {c.path: hash_file(upper / c.path) if c.kind != "gone" else None for c in counted}
    done, failed = bring_over(command, upper, kept, generated)
    silent |= find_silent_changes(own)
    stale = [path for path, f in objections.items() if f.code == "STALE_FILE" and path not in silent]
    save_aside(upper, [*stale, *failed], aside_folder(command))
    findings = [f for path, f in objections.items() if path not in silent]
    findings += [write_failure(path, why) for path, why in failed.items()]

    # 3 Bring git's part over, unless a file of it could not be written.
    if failed and verdict.stays:
        why = f"{sanitise_line(next(iter(failed)), 80)} could not be written"
        verdict = replace(verdict, stays=False, findings=(*verdict.findings, git_part_dropped(GIT_FOLDER, why)))
    findings += git.bring_over(verdict)
    git_findings = describe_git_findings(git, verdict)
    replace_block = {f.path for f in git_findings}
    findings = [*(f for f in findings if f.path not in replace_block), *git_findings, *never_kept]

    # 4 Record kept and dropped changes.
    findings += [stripped_privileges(c.path) for c in kept if not c.only_time and has_privilege_bits(upper, c)]
    record_generated(command, [c for c in counted if c.path not in failed], generated, sizes)
    done = {path: replace(change, from_git=path in verdict.brought) for path, change in done.items()}
    named = tuple(c.path for c in kept if c.path not in failed and c.path not in silent and c.kind != "folder")
    return record_result(command, ended, done, findings, named)


# -- judging ------------------------------------------------------------------------------------------------


def split_changes(
    command: ContainedCommand, changes: Sequence[StagedChange], upper: Path
) -> tuple[list[StagedChange], list[Finding]]:
    """Return the changes outside git's folder that may come over, and findings for those that never may."""
    root, common = command.context.workspace.root, command.context.workspace.common_dir
    git = str(common.relative_to(root)) if common is not None and common.is_relative_to(root) else None
    own = [c for c in changes if git is None or not is_inside(c.path, git)]
    worktrees = find_new_worktrees(own, upper)
    own = [c for c in own if not any(is_inside(c.path, folder) for folder in worktrees)]
    never_kept = [
        *map(new_worktree, worktrees),
        *(special_file(c.path, c.kind) for c in own if c.kind in SPECIAL_KINDS),
    ]
    return [c for c in own if c.kind not in SPECIAL_KINDS], never_kept


def find_new_worktrees(changes: Sequence[StagedChange], upper: Path) -> list[str]:
    """Return the folders made by `git worktree add`. Raises OSError."""
    links = [c.path for c in changes if c.kind == "file" and not c.only_time and c.path.endswith("/.git")]
    return [path.removesuffix("/.git") for path in links if (upper / path).read_bytes()[:8] == b"gitdir: "]


def find_generated(command: ContainedCommand, own: Sequence[StagedChange]) -> dict[str, str]:
    """Return the changes to generated files, by the rules before the command."""
    root = command.context.workspace.root
    # A folder replaced by a file or a link is judged as its new kind: an ignored folder's exemption is gone.
    plain = {c.path for c in own if c.kind not in ("folder", "gone")}
    were_folders = (c.path for c in own if c.kind == "folder" or (c.kind == "gone" and is_folder(root / c.path)))
    folders = dict.fromkeys(path for path in were_folders if path not in plain)
    return judge.find_generated(command, [c.path for c in own if c.path not in folders], list(folders))


def find_objections(
    command: ContainedCommand,
    own: Sequence[StagedChange],
    staging: Staging,
    generated: Mapping[str, str],
    excused: Container[str],
) -> tuple[dict[str, Finding], set[str]]:
    """Return the refused changes by path, and the paths among them whose loss needs no message.

    `excused` are files brought by git in their committed version: no violation of the agent's.
    """
    root, upper = command.context.workspace.root, staging.root.upper
    state = command.context.state

    # 1 The checks, then the intent's constraints.
    exempt = {path for path, top in generated.items() if is_exempt_from_scope(top)}
    found = judge.find_objections(command, [c.path for c in own], exempt)
    unjudged = [c for c in own if c.path not in found and c.path not in generated and not c.only_time]
    found |= judge.find_broken_constraints(command, unjudged, upper)
    found = {path: f for path, f in found.items() if path not in excused or f.code in INEXCUSABLE_CODES}
    made = {c.path for c in own if c.kind != "gone"}
    emptied = {c.path for c in own if c.kind == "gone" and c.path not in made and (root / c.path).is_dir()}
    silent = {
        path
        for path, f in found.items()
        if f.code == "SCOPE_VIOLATION" and (path in emptied or not CACHE_FOLDERS.isdisjoint(PurePosixPath(path).parts))
    }

    # 2 Races with other calls and people.
    others = [c for c in own if c.path not in found]
    found |= find_concurrent_changes(command.context, upper, others, staging.began_ns)
    awaited = awaited_paths(command.call, state.list_open_calls())
    is_alone = not awaited and not has_uncontained_call(command.call, state)
    links = [c.path for c in others if c.kind == "link" and is_on_awaited_path(root / c.path, awaited)]
    for change in others:
        link = next((path for path in links if is_inside(change.path, path)), None)
        if link is not None:
            found[change.path] = link_in_use(change.path, link)
        if change.kind == "file" and (upper / change.path).lstat().st_size > MAX_FILE_BYTES:
            found.setdefault(change.path, oversized_file(change.path))
        elif not is_alone and change.kind == "link" and is_escaping_link(upper, root, change.path):
            found.setdefault(change.path, escaping_link(change.path))
    return found, silent


def find_concurrent_changes(
    context: WorkspaceContext, upper: Path, changes: Sequence[StagedChange], began_ns: int
) -> dict[str, Finding]:
    """Return findings for files changed or deleted by others meanwhile. Raises OSError, GitError, StateError."""
    root = context.workspace.root
    found = {c.path: concurrent_change(c.path) for c in changes if is_changed_since(root, c, began_ns)}
    missing = [c for c in changes if could_be_removed_meanwhile(root, c, began_ns)]
    if not missing:
        return found
    # A copied-up file existed below; after a rename by the command a copy may stand at a new name.
    known, has_moves = list_known_files(context), any(c.kind == "gone" for c in changes)
    lost = [c.path for c in missing if c.path in known or (not has_moves and has_origin_mark(upper / c.path))]
    return found | {path: concurrent_deletion(path) for path in lost}


def list_known_files(context: WorkspaceContext) -> set[str]:
    """Return the files of the last observation and of git's index and commits."""
    observed = {version.path for version in read_baseline(context.state) if version.version is not None}
    if context.workspace.common_dir is None:
        return observed
    git = Git(context.workspace.root)
    listed = [git.run("ls-files", "-z")]
    for commit in {"HEAD", baseline_head(context.state) or "HEAD"}:
        listed.append(git.run("ls-tree", "-r", "-z", "--name-only", commit, ok=(0, 128)))
    return observed.union(b"".join(listed).decode("utf-8", "surrogateescape").split("\0"))


def join_verdicts(verdict: GitVerdict, objections: Mapping[str, Finding]) -> tuple[GitVerdict, dict[str, Finding]]:
    """Join the verdict on git's part with those on the files: both stay or neither does.

    If a file in git's part may not stay, git's part is dropped with every file it brought.
    """
    half_brought = (path for path in verdict.halves if path not in verdict.brought)
    joined = {**objections, **{path: half_brought_file(path) for path in half_brought}}
    refused = sorted(verdict.paths & joined.keys())
    if verdict.stays and not refused:
        return verdict, joined
    if verdict.stays:
        names = ", ".join(sanitise_line(path, 80) for path in refused[:3]) + (", …" if len(refused) > 3 else "")
        dropped = git_part_dropped(GIT_FOLDER, f"it contains {names}, which may not change in this way")
        verdict = replace(verdict, stays=False, findings=(*verdict.findings, dropped))
    return verdict, {**{path: reverted_with_git(path) for path in verdict.brought}, **joined}


def describe_git_findings(git: GitPart, verdict: GitVerdict) -> list[Finding]:
    """Return the findings about git's part, with the commits kept without a name."""
    findings = list(verdict.findings)
    commits = git.keep_unnamed_commits(verdict) if findings else ()
    at = next((i for i, f in enumerate(findings) if commits and f.path == GIT_FOLDER), None)
    if at is not None:
        message = f"{findings[at].message}{describe_unnamed_commits(commits)}"
        findings[at] = replace(findings[at], message=message)
    return findings


# -- properties of a path -----------------------------------------------------------------------------------


def is_inside(path: str, folder: str) -> bool:
    return path == folder or path.startswith(f"{folder}/")


def is_escaping_link(upper: Path, root: Path, path: str) -> bool:
    """Return True for a link that leads out of the workspace or to governing files. Raises OSError."""
    resolve_target = os.path.realpath((root / path).parent / (upper / path).readlink())
    inside = Path(os.path.relpath(resolve_target, os.path.realpath(root))).parts
    return not {os.pardir, ".git", ORCHESTRATION_FOLDER}.isdisjoint(inside)


def is_on_awaited_path(place: Path, awaited: Collection[str]) -> bool:
    """Return True if a place is one of these absolute paths, or one of their parent folders."""
    return any(is_inside(path, os.fspath(place)) for path in awaited)


def find_silent_changes(changes: Sequence[StagedChange]) -> set[str]:
    """Return the changes whose loss needs no message: folders with content, another name for a file, times."""
    parents = {str(place) for c in changes for place in PurePosixPath(c.path).parents}
    return {c.path for c in changes if c.same_content or c.only_time or (c.kind == "folder" and c.path in parents)}


# -- bringing over ------------------------------------------------------------------------------------------


def bring_over(
    command: ContainedCommand, upper: Path, kept: Sequence[StagedChange], generated: Container[str]
) -> tuple[dict[str, Change], dict[str, str]]:
    """Bring over these changes; return the individually recorded changes, and the failures."""
    context, root = command.context, command.context.workspace.root
    files = [c.path for c in kept if c.kind != "folder" and not c.only_time and c.path not in generated]
    before = {path: try_observe_file(root / path) for path in files}
    context.keep_contents(contents_to_keep(before.items()))
    ChangesBetweenCalls(context).record_changed_files("after a contained command", before, command.call.session)
    refusal = take_snapshot(command) if any(before.values()) else ""
    if refusal:
        return {}, {c.path: refusal for c in kept}
    failed = ChangeApplier(upper, root).apply_changes(kept)
    done = (Change(path, before[path], try_observe_file(root / path)) for path in files if path not in failed)
    return {c.path: c for c in done if c.before is not None or c.after is not None}, failed


def take_snapshot(command: ContainedCommand) -> str:
    """Take a snapshot before an agent's own call changes existing files; return the reason if the call must stop.

    No snapshot was taken before the call: most commands change no file.
    """
    if command.ticket is None:
        return ""
    context, facts = command.context, command.gather_facts()
    decision = Decision("contain", "contain", "destructive", facts.mode, intent_id=facts.session.intent_id)
    outcome = SnapshotTaker(context).take_before_call(command.call, facts, decision, context.observe())
    if outcome.refusal is not None:
        return outcome.refusal.message
    context.recorder.append_or_spool(outcome.records)
    return ""


def record_generated(
    command: ContainedCommand,
    counted: Sequence[StagedChange],
    generated: Mapping[str, str],
    sizes: Mapping[str, tuple[str, int] | None],
) -> None:
    """Record the kept generated files as one number. Raises OSError, StateError."""
    if not counted:
        return
    found = [GeneratedChange(c.path, generated[c.path], *(sizes[c.path] or (None, 0))) for c in counted]
    record_left_files(command.context.state, found)
    context, listing = command.context, format_listing(found)
    if len(listing) <= MAX_LISTING_BYTES:
        context.keep_contents([("generated", listing)])
    record = generated_record(context.recorder, command.call, command.intent_id or None, found, listing)
    context.recorder.append_or_spool([record])

"""Judgement of a contained command's layers, transfer of approved changes into the real tree, and the result."""

import json
import os
import re
import shutil
from collections.abc import Collection, Container, Mapping, Sequence
from contextlib import suppress
from pathlib import Path, PurePosixPath

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from remit.core.bounds import FILE_BYTES
from remit.core.call import Outcome
from remit.core.decision import Decision, ErrorType, Finding
from remit.core.diff.contents import ContentVersion, sha256
from remit.core.python_runtime import prepare_type
from remit.core.record import Record, Vcs
from remit.core.scope.path_patterns import ODD
from remit.core.shell_commands import UnreadableShell
from remit.core.untrusted_input import sanitise_line
from remit.gate.containment import bound_data, git_judgement
from remit.gate.containment.contained_command import (
    ContainedCommand,
    find_broken_constraints,
    find_generated_files,
    find_write_objections,
)
from remit.gate.containment.messages import (
    describe_ended_background,
    describe_hidden_secrets,
    describe_kept_work,
    describe_lost_submodules,
    describe_missing_signature,
    describe_missing_ssh_agent,
    describe_protected_places,
    describe_result,
    describe_unreachable_processes,
    describe_unseen_things,
    git_part_dropped,
    make_finding,
    path_finding,
    repository_dropped,
)
from remit.gate.context import Attempts, WorkspaceContext, contents_to_keep, join_lines
from remit.gate.effects.changes import CompletedCall, Effects, make_call_records, update_state
from remit.gate.effects.existing_lines import MAX_CONTENT_BYTES, ExistingText, read_existing_text
from remit.gate.effects.other_writers import ChangesBetweenCalls, ConcurrentCalls
from remit.gate.effects.unfinished_calls import temporary_token
from remit.gate.facts import scope_exempt_files
from remit.gate.facts.runtime_data import find_data, is_plain_data
from remit.gate.people.messages import PendingMessages
from remit.gate.records.call_records import record_denial
from remit.gate.records.recorder import find_recorded_events
from remit.gate.state import workspace_state
from remit.gate.state.staged_entries import note_staged
from remit.gate.state.tickets import has_uncontained_call
from remit.gate.undo.snapshots import SnapshotTaker
from remit.policy.commands import analyse
from remit.policy.commands.dangers import find_program_calls
from remit.workspace.git.command import Git, GitError, list_settings
from remit.workspace.git.repository import head_commit
from remit.workspace.observe.observation import Change, Observation, try_observe_file
from remit.workspace.place.workspace import (
    ORCHESTRATION_FOLDER,
    Workspace,
    find_git_root,
    is_folder,
    resolve_git_folder,
)
from remit.workspace.safe_files import hash_file, open_parent_folder, write_atomically
from remit.workspace.sandbox import nested_repositories, staging
from remit.workspace.sandbox.containment import CommandEnd
from remit.workspace.sandbox.git_folder_checks import (
    REMOTES,
    SETTINGS_FILE,
    GitChanges,
    check_object_folder,
    write_tracking_settings,
)
from remit.workspace.sandbox.jail import may_be_ssh_socket
from remit.workspace.sandbox.new_commits import TooManyCommits
from remit.workspace.sandbox.staged_changes import (
    SPECIAL_KINDS,
    ChangeApplier,
    StagedChange,
    could_be_removed_meanwhile,
    find_staged_changes,
    has_origin_mark,
    has_privilege_bits,
    is_changed_since,
    save_aside,
)
from remit.workspace.sandbox.staging import Staging

INEXCUSABLE_CODES: frozenset[ErrorType] = frozenset({"PROTECTED_PATH", "OUTSIDE_WORKSPACE", "INVALID_ARGUMENTS"})
"""Findings that hold even for a file in its committed version."""

CACHE_FOLDERS = frozenset({"__pycache__", ".pytest_cache", ".mypy_cache", ".ruff_cache"})
"""Folders that interpreters and checkers keep beside the sources."""

ASIDE_FOLDER = "aside"
"""Folder below Remit's own with a command's versions of files that someone else changed meanwhile."""

MAX_RECORDED_PATHS = 100
"""Dropped paths in one record."""

ENTERED_FOLDER = re.compile(r"(?:\bcd|-C)\s+([\w./@%+:-]+)")

PLAIN_CALL_ID = re.compile(r"\w[\w-]{0,99}", re.ASCII)
"""Call ids usable as a folder name."""


BROUGHT_FILE = "brought"
"""List of what comes over, in the staging area: written before the first file, so that a crash can be finished."""


class BroughtPath(Struct, frozen=True):
    """A path that comes over: its version before, and whether git brought it. `generated` files are only counted, and
    of runtime `data` the record holds no lines.
    """

    before: ContentVersion | None = None
    from_git: bool = False
    generated: scope_exempt_files.GeneratedChange | None = None
    data: bool = False

    @property
    def has_lines(self) -> bool:
        return self.generated is None and not self.data


class BroughtList(Struct, frozen=True):
    """What comes over, by path."""

    paths: dict[str, BroughtPath] = {}


class ContainedResult(Struct, frozen=True):
    """Result of a contained command. `dropped` maps paths to reasons; `said` is the full message for a model."""

    code: int
    kept: tuple[str, ...] = ()
    dropped: dict[str, str] = {}
    said: str = ""


def take_over(
    command: ContainedCommand, ended: CommandEnd, staging: Staging, bound: bound_data.DataOutcome = bound_data.NO_DATA
) -> ContainedResult:
    """Judge the layers, bring over approved changes, and record the result. `bound` is the data changed already."""
    upper, root = staging.root.upper, command.context.workspace.root
    earlier = load_brought(staging.folder)
    every = find_staged_changes(upper, root, with_times=True)
    is_empty = not every and not earlier and staging.common is None
    if command.ticket is not None and is_empty and not ended.stop_text:
        bound_data.record_data(command, bound)
        said = join_lines(bound_data.describe_data(bound, has_dropped=False), describe_sandbox_limits(command, ended))
        return ContainedResult(ended.code, said=said)

    # 1 Judge git's part and the files. Both stay or neither does; changed times are no part of git's.
    own, never_kept = split_changes(command, every, upper)
    parts = open_git_parts(command, staging, every, own)
    verdicts = [part.judge() for part in parts]
    # A folder replaced by a file or a link is judged as its new kind: an ignored folder's exemption is gone.
    plain = {c.path for c in own if c.kind not in ("folder", "gone")}
    were_folders = (c.path for c in own if c.kind == "folder" or (c.kind == "gone" and is_folder(root / c.path)))
    folders = dict.fromkeys(path for path in were_folders if path not in plain)
    data = find_staged_data(command, own, upper)
    others = [c.path for c in own if c.path not in folders and c.path not in data]
    generated = find_generated_files(command, others, list(folders))
    excused = {path for verdict in verdicts if verdict.stays for path in verdict.excused}
    objections, silent = find_objections(command, own, staging, generated, excused, data)
    times = {c.path: objections[c.path] for c in own if c.only_time and c.path in objections}
    objections = {p: f for p, f in objections.items() if p not in times}
    staying = -1
    while staying != (staying := sum(verdict.stays for verdict in verdicts)):  # of two, one may hold the other
        for at, verdict in enumerate(verdicts):
            verdicts[at], objections = join_verdicts(verdict, objections)
    dropped = [verdict for verdict in verdicts if verdict.unit and not verdict.stays]
    silent |= {path for verdict in dropped for path in verdict.whole}
    objections |= times

    # 2 Bring the files over: those of the list that a process which died had made, and the rest. A generated file is
    # counted, not recorded by itself; its size is read before the move.
    kept = [c for c in own if c.path not in objections]
    from_git = {path for verdict in verdicts for path in verdict.brought}
    unread = {*generated, *data, *from_git}
    own_files = [c for c in kept if c.path not in unread]
    existing = read_text_before(command, own_files, upper)
    brought = {path: entry for path, entry in earlier.items() if path not in objections}
    for c in kept:
        if c.kind != "folder" and not c.only_time:
            found = (hash_file(upper / c.path) if c.kind != "gone" else None) or (None, 0)
            counted = (
                scope_exempt_files.GeneratedChange(c.path, generated[c.path], *found) if c.path in generated else None
            )
            is_data = c.path in data
            before = None if counted or is_data else try_observe_file(root / c.path)
            brought[c.path] = BroughtPath(before and before.version, c.path in from_git, counted, is_data)
    for part, verdict in zip(parts, verdicts, strict=True):
        part.take_away(verdict)
    moved_data = [c for c in kept if c.path in data and not c.only_time]
    bound = bound_data.keep_staged_data(command, bound, moved_data, upper) if moved_data else bound
    done, failed, snapshot = bring_over(command, staging, kept, brought)
    # No message needs the loss of a folder with content, of another name for a file, of times.
    parents = {str(place) for c in own for place in PurePosixPath(c.path).parents}
    silent |= {c.path for c in own if c.same_content or c.only_time or (c.kind == "folder" and c.path in parents)}
    stale = [path for path, f in objections.items() if f.code == "STALE_FILE" and path not in silent]
    save_aside(upper, [*stale, *failed], aside_folder(command))
    findings = [f for path, f in objections.items() if path not in silent]
    findings += [path_finding("not written", path, why=why) for path, why in failed.items()]

    # 3 Bring git's part over, unless a file of it could not be written.
    notes: list[str] = [describe_kept_work(snapshot)] if snapshot and parts[-1].has_discarded_work(done) else []
    for part, verdict in zip(parts, verdicts, strict=True):
        lost = [path for path in failed if not part.nested or is_inside(path, part.nested.tree)]
        if lost and verdict.stays:
            part.take_away(verdict, back=True)
            verdict = drop_git_part(verdict, f"{sanitise_line(lost[0], 80)} could not be written")
        if any(is_inside(verdict.unit, other.unit) and other.unit != verdict.unit for other in dropped):
            continue  # told with the repository around it
        findings += part.bring_over(verdict)
        notes.append(part.describe_whole(verdict))
        git_findings = part.describe_findings(verdict)
        told = {f.path for f in git_findings}
        findings = [*(f for f in findings if f.path not in told), *git_findings]
    findings += never_kept

    # 4 Record kept and dropped changes.
    findings += [
        path_finding("stripped privileges", c.path) for c in kept if not c.only_time and has_privilege_bits(upper, c)
    ]
    record_generated(command, [b.generated for path, b in brought.items() if b.generated and path not in failed])
    named = tuple(c.path for c in kept if c.path not in failed and c.path not in silent and c.kind != "folder")
    changed = tuple(c for c in bound.changes if c.path not in failed)
    bound = replace(bound, changes=changed, dropped=bound_data.find_dropped_databases(command, findings, upper))
    return record_result(command, ended, done, findings, named, existing=existing, notes=notes, data=bound)


# -- judging ------------------------------------------------------------------------------------------------


def split_changes(
    command: ContainedCommand, changes: Sequence[StagedChange], upper: Path
) -> tuple[list[StagedChange], list[Finding]]:
    """Return the changes outside git's folder that may come over, and findings for those that never may."""
    root = command.context.workspace.root
    git = find_inner_git_folder(command.context.workspace)
    own = [c for c in changes if (git is None or not is_inside(c.path, git)) and "/.git/" not in f"{c.path}/"]
    refused: list[Finding] = []
    special = [c for c in own if c.kind in SPECIAL_KINDS]
    refused += [path_finding("too deep" if c.kind == "deep" else "special file", c.path, kind=c.kind) for c in special]
    odd = {c.path for c in own if c.kind != "gone" and ODD.search(c.path) and not os.path.lexists(root / c.path)}
    refused += [path_finding("odd name", path) for path in sorted(odd)]
    return [c for c in own if c.kind not in SPECIAL_KINDS and c.path not in odd], refused


def find_inner_git_folder(workspace: Workspace) -> str | None:
    """Return git's folder relative to the workspace's root; None if it lies elsewhere."""
    root, common = workspace.root, workspace.common_dir
    return str(common.relative_to(root)) if common is not None and common.is_relative_to(root) else None


def find_staged_data(command: ContainedCommand, own: Sequence[StagedChange], upper: Path) -> frozenset[str]:
    """Return the changed files that are runtime data: no link, no program. Raises OSError, GitError."""
    plain = [c.path for c in own if c.kind == "gone" or (c.kind == "file" and is_plain_data(upper, c.path))]
    return find_data(command.context, plain) if command.settings.data else frozenset()


def find_objections(
    command: ContainedCommand,
    own: Sequence[StagedChange],
    staging: Staging,
    generated: Mapping[str, str],
    excused: Container[str],
    data: Collection[str] = (),
) -> tuple[dict[str, Finding], set[str]]:
    """Return the refused changes by path, and the paths among them whose loss needs no message.

    `excused` are files brought by git in their committed version: no violation of the agent's. `data` may lie outside
    the scope.
    """
    context, root, upper = command.context, command.context.workspace.root, staging.root.upper

    # 1 The checks, then the intent's constraints.
    exempt = {*data, *(path for path, top in generated.items() if scope_exempt_files.is_exempt_from_scope(top))}
    found = find_write_objections(command, [c.path for c in own], exempt)
    unjudged = [c for c in own if c.path not in found and c.path not in generated and not c.only_time]
    found |= find_broken_constraints(command, unjudged, upper)
    found = {path: f for path, f in found.items() if path not in excused or f.code in INEXCUSABLE_CODES}
    made = {c.path for c in own if c.kind != "gone"}
    emptied = {c.path for c in own if c.kind == "gone" and c.path not in made and (root / c.path).is_dir()}
    silent = {
        path
        for path, f in found.items()
        if f.code == "SCOPE_VIOLATION" and (path in emptied or not CACHE_FOLDERS.isdisjoint(PurePosixPath(path).parts))
    }

    # 2 Races with people and other calls. A link on the way to a file that a file tool is about to write, as absolute
    # paths, would redirect the write.
    others = [c for c in own if c.path not in found]
    found |= find_concurrent_changes(context, upper, others, staging.began_ns)
    own_call = (command.call.session, command.call.call_id)
    calls = [c.pending for c in context.state.list_open_calls() if (c.session, c.call_id) != own_call]
    writing = [pending for pending in calls if pending is not None and pending.effect in ("write", "delete")]
    awaited = {place for pending in writing for place in (*pending.places, *pending.spelled)}
    is_alone = not awaited and not has_uncontained_call(command.call, context.state)
    links = [c.path for c in others if c.kind == "link" and any(is_inside(p, str(root / c.path)) for p in awaited)]
    for change in others:
        path, place = change.path, upper / change.path
        link = next((one for one in links if is_inside(path, one)), None)
        if link is not None:
            found[path] = path_finding("link in use", path, link=sanitise_line(link))
        if change.kind == "file" and place.lstat().st_size > FILE_BYTES.value:
            found.setdefault(path, path_finding("too large", path))
        elif not is_alone and change.kind == "link":
            # No link may lead out of the workspace or to governing files while another call runs.
            target = os.path.realpath((root / path).parent / place.readlink())
            parts = Path(os.path.relpath(target, os.path.realpath(root))).parts
            if not {os.pardir, ".git", ORCHESTRATION_FOLDER}.isdisjoint(parts):
                found.setdefault(path, path_finding("escaping link", path))
    return found, silent


def find_concurrent_changes(
    context: WorkspaceContext, upper: Path, changes: Sequence[StagedChange], began_ns: int
) -> dict[str, Finding]:
    """Return findings for files changed or deleted by others meanwhile. Raises OSError, GitError, StateError."""
    root = context.workspace.root
    found = {c.path: path_finding("changed meanwhile", c.path) for c in changes if is_changed_since(root, c, began_ns)}
    missing = [c for c in changes if could_be_removed_meanwhile(root, c, began_ns)]
    if not missing:
        return found
    # The files of the last observation, and of git's index and commits.
    known = {version.path for version in workspace_state.read_baseline(context.state) if version.version is not None}
    if context.workspace.common_dir is not None:
        git = Git(context.workspace.root)
        listed = [git.run("ls-files", "-z")]
        for commit in {"HEAD", workspace_state.baseline_head(context.state) or "HEAD"}:
            listed.append(git.run("ls-tree", "-r", "-z", "--name-only", commit, ok=(0, 128)))
        known.update(b"".join(listed).decode("utf-8", "surrogateescape").split("\0"))
    # A copied-up file existed below; after a rename by the command a copy may stand at a new name.
    has_moves = any(c.kind == "gone" for c in changes)
    lost = [c.path for c in missing if c.path in known or (not has_moves and has_origin_mark(upper / c.path))]
    return found | {path: path_finding("deleted meanwhile", path) for path in lost}


def join_verdicts(
    verdict: git_judgement.GitVerdict, objections: Mapping[str, Finding]
) -> tuple[git_judgement.GitVerdict, dict[str, Finding]]:
    joined = {**objections, **{path: path_finding("half brought", path) for path in verdict.halves - verdict.brought}}
    refused = sorted((verdict.paths | verdict.whole) & joined.keys())
    if verdict.stays and not refused:
        return verdict, joined
    if verdict.unit:
        # In the place of all its files one finding stands, with the reason of the first.
        first = joined[refused[0]] if verdict.stays else verdict.findings[0]
        told = first if first.path == verdict.unit and not verdict.stays else repository_dropped(first, verdict.unit)
        others = {path: path_finding("dropped with git", path) for path in verdict.whole}
        return replace(verdict, stays=False, findings=(told,)), {**others, **joined, verdict.unit: told}
    if verdict.stays:
        names = ", ".join(sanitise_line(path, 80) for path in refused[:3]) + (", …" if len(refused) > 3 else "")
        verdict = drop_git_part(verdict, f"it contains {names}, which may not change in this way")
    return verdict, {**{path: path_finding("dropped with git", path) for path in verdict.brought}, **joined}


def drop_git_part(verdict: git_judgement.GitVerdict, why: str) -> git_judgement.GitVerdict:
    return replace(verdict, stays=False, findings=(*verdict.findings, git_part_dropped(git_judgement.GIT_FOLDER, why)))


def is_inside(path: str, folder: str) -> bool:
    return path == folder or path.startswith(f"{folder}/")


# -- bringing over ------------------------------------------------------------------------------------------


def bring_over(
    command: ContainedCommand, staging: Staging, kept: Sequence[StagedChange], brought: Mapping[str, BroughtPath]
) -> tuple[dict[str, Change], dict[str, str], str]:
    point = ""
    context, root = command.context, command.context.workspace.root
    files = [c.path for c in kept if c.path in brought and brought[c.path].has_lines]
    before = {path: try_observe_file(root / path) for path in files}
    context.keep_contents(contents_to_keep(before.items()))
    ChangesBetweenCalls(context).record_changed_files("after a contained command", before, command.call.session)
    if command.ticket is not None and any(before.values()):
        # Before an agent's own call changes existing files: most commands change none, so none was taken before.
        facts = command.gather_facts()
        decision = Decision("contain", "contain", "destructive", facts.mode, intent_id=facts.session.intent_id)
        snapshot = SnapshotTaker(context).take_before_call(command.call, facts, decision, context.observe())
        if snapshot.refusal is not None:
            return {}, {c.path: snapshot.refusal.message for c in kept}, ""
        context.recorder.append_or_spool(snapshot.records)
        point = snapshot.snapshot
    if brought:
        write_atomically(
            staging.folder / BROUGHT_FILE, workspace_state.encode_ascii(BroughtList(dict(brought))), durable=False
        )
    failed = ChangeApplier(
        staging.root.upper, root, temporary_token(command.call.session, command.call.call_id)
    ).apply_changes(kept)
    done = (
        Change(
            path,
            before[path] if path in before else context.load_version(entry.before),
            try_observe_file(root / path),
            from_git=entry.from_git,
        )
        for path, entry in brought.items()
        if path not in failed and entry.has_lines
    )
    return {c.path: c for c in done if c.before is not None or c.after is not None}, failed, point


def load_brought(folder: Path) -> dict[str, BroughtPath]:
    """Return the list of a process that died while it brought files over; empty for none. Raises OSError."""
    try:
        return msgspec.convert(json.loads((folder / BROUGHT_FILE).read_bytes()), prepare_type(BroughtList)).paths
    except FileNotFoundError:
        return {}


def read_text_before(command: ContainedCommand, kept: Sequence[StagedChange], upper: Path) -> ExistingText:
    files = [c.path for c in kept if c.kind == "file" and not c.only_time and not c.same_content]
    small = [path for path in files if (upper / path).lstat().st_size <= MAX_CONTENT_BYTES]
    contents = {path: (upper / path).read_bytes() for path in small}
    return read_existing_text(command.context.workspace, command.call, contents)


def record_generated(command: ContainedCommand, found: Sequence[scope_exempt_files.GeneratedChange]) -> None:
    if not found or "generated" in find_recorded_events(command.context.recorder, command.call, resumed=True):
        return
    scope_exempt_files.record_left_files(command.context.state, found)
    context, listing = command.context, scope_exempt_files.format_listing(found)
    if len(listing) <= scope_exempt_files.MAX_LISTING_BYTES:
        context.keep_contents([("generated", listing)])
    record = scope_exempt_files.generated_record(
        context.recorder, command.call, command.intent_id or None, found, listing
    )
    context.recorder.append_or_spool([record])


# -- git's part ---------------------------------------------------------------------------------------------


def open_git_parts(
    command: ContainedCommand, staging: Staging, every: Sequence[StagedChange], own: Sequence[StagedChange]
) -> list["GitPart"]:
    """Return the repositories that the command changed: those nested in the workspace's own, then that one.

    `own` are the changes outside of their git folders. Raises OSError.
    """
    workspace, upper = command.context.workspace, staging.root.upper
    root, common, git_dir = workspace.root, workspace.common_dir, workspace.git_dir
    changes = [c for c in own if not c.only_time]
    found: list[StagedChange] = []
    layer: nested_repositories.GitLayer | None = None
    linked = ""
    inner = find_inner_git_folder(workspace)
    if common is not None:
        if staging.common is not None:
            taken, found = staging.common.upper, find_staged_changes(staging.common.upper, common)
        else:
            taken, start = upper / str(inner), f"{inner}/"
            found = [
                replace(c, path=c.path[len(start) :]) for c in every if c.path.startswith(start) and not c.only_time
            ]
        # A linked worktree's git folder, relative to the repository's.
        is_linked = git_dir is not None and git_dir != common and git_dir.is_relative_to(common)
        linked = str(git_dir.relative_to(common)) if git_dir and is_linked else ""
        layer = nested_repositories.GitLayer(
            taken, common, found, f"{linked}/{nested_repositories.MODULES_FOLDER}".lstrip("/")
        )
    nested: list[nested_repositories.NestedRepository] = []
    outside = [c for c in every if inner is None or not is_inside(c.path, inner)]
    if nested_repositories.has_nested_changes(outside, layer):
        nested, found = nested_repositories.find_nested_repositories(
            root, upper, [c for c in outside if not c.only_time], layer
        )
    parts: list[GitPart] = []
    trees = [one.tree for one in nested]
    for at, one in enumerate(nested):
        inside = [c for c in own if is_inside(c.path, one.tree)]
        below = [tree for tree in trees if tree != one.tree and is_inside(tree, one.tree)]
        files = [c for c in changes if is_inside(c.path, one.tree) and not any(is_inside(c.path, t) for t in below)]
        # A submodule comes and goes together with its lines in `.gitmodules`.
        named = (git_judgement.GIT_MODULES,) if one.is_submodule and one.state != "changed" else ()
        whole = frozenset({*(c.path for c in inside), *(f"{tree}/.git" for tree in (one.tree, *below)), *named})
        parts.append(GitPart(command, staging, files, nested=one, whole=whole, number=at))
    files = [c for c in changes if not any(is_inside(c.path, tree) for tree in trees)]
    own_changes = GitChanges(layer.upper, layer.common, found, linked) if layer is not None else None
    return [*parts, GitPart(command, staging, files, own_changes)]


class GitPart:
    """One command's changes to a repository; `changes` are those of its work tree that may come over.

    `git_changes` is None without a repository. `nested` is one other than the workspace's own, and `whole` all that
    comes over with it.
    """

    def __init__(
        self,
        command: ContainedCommand,
        staging: Staging,
        changes: Sequence[StagedChange],
        git_changes: GitChanges | None = None,
        *,
        nested: nested_repositories.NestedRepository | None = None,
        whole: frozenset[str] = frozenset(),
        number: int = 0,
    ) -> None:
        self.command = command
        self.workspace = command.context.workspace
        self.staging = staging
        self.changes = changes
        self.git_changes = git_changes
        self.nested = nested
        self.whole = whole
        self.number = number
        self.new_folder: nested_repositories.NewGitFolder | None = None
        tree = nested.tree if nested is not None else ""
        self.trees = git_judgement.WorkingTrees(command.context.workspace, staging.root.upper, changes, tree)

    def object_to_whole(self, why: str) -> Finding:
        return git_part_dropped(f"{self.trees.nested}/{git_judgement.GIT_FOLDER}", why)

    def judge_nested(self, one: nested_repositories.NestedRepository) -> git_judgement.GitVerdict:
        """Judge a nested repository, of which all that the command changed stays, or nothing. Raises OSError."""
        verdict = git_judgement.GitVerdict(stays=True, unit=one.tree, whole=self.whole)
        if one.objection or one.state == "removed":
            is_work_tree = one.objection == nested_repositories.NEW_WORK_TREE
            first = (
                path_finding(nested_repositories.NEW_WORK_TREE, one.tree)
                if is_work_tree
                else self.object_to_whole(one.objection)
            )
            found = (first,) if one.objection else ()
            return replace(verdict, stays=not one.objection, findings=found)
        check_object_folder(one.upper, one.common)
        self.git_changes = GitChanges(one.upper, one.common, one.changes)
        if one.state == "made":
            new = self.new_folder = nested_repositories.inspect_new_folder(one, self.trees.top)
            if new.objection:
                return replace(verdict, stays=False, findings=(self.object_to_whole(new.objection),))
            place = self.staging.folder / f"new-{self.number}"
            common = nested_repositories.make_skeleton(place, list_settings(one.upper / SETTINGS_FILE))
            self.git_changes = GitChanges(one.upper, common, new.checked)
        found = self.git_changes
        try:
            judgement = git_judgement.GitJudgement(self.command, self.staging, self.changes, found, self.trees, one)
            is_changed = found.changes or found.has_settings_change or one.state == "made"
            judged = judgement.judge() if is_changed else verdict
        except (GitError, TooManyCommits, UnicodeDecodeError) as error:
            judged = git_judgement.GitVerdict(findings=(self.object_to_whole(str(error)),))
        return replace(judged, unit=one.tree, whole=self.whole)

    def judge(self) -> git_judgement.GitVerdict:
        """Judge the changes as a whole. Raises OSError, StateError."""
        if self.nested is not None:
            return self.judge_nested(self.nested)
        found = self.git_changes
        if found is None:
            return git_judgement.NO_GIT_CHANGES
        refs = [f"{git_judgement.GIT_FOLDER}/{c.path}" for c in found.remit_changes if c.path.startswith("refs/")]
        why = "only Remit writes this ref: it is as it was before."
        refused = tuple(make_finding("PROTECTED_PATH", ref, why) for ref in refs)
        why = "only a person lets git read the objects of another repository: it is as it was before."
        refused += tuple(
            make_finding("PROTECTED_PATH", f"{git_judgement.GIT_FOLDER}/{path}", why) for path in found.alternates
        )
        try:
            judgement = git_judgement.GitJudgement(self.command, self.staging, self.changes, found, self.trees)
            verdict = judgement.judge() if found.changes or found.has_settings_change else git_judgement.NO_GIT_CHANGES
            verdict = replace(verdict, halves=judgement.find_half_brought())
        except (GitError, TooManyCommits, UnicodeDecodeError) as error:
            # Files brought by git cannot be told from the command's own: every change is dropped.
            dropped = (git_part_dropped(git_judgement.GIT_FOLDER, str(error)),)
            verdict = git_judgement.GitVerdict(
                findings=dropped, brought=frozenset(change.path for change in self.changes)
            )
        return replace(verdict, findings=(*refused, *verdict.findings))

    def bring_over(self, verdict: git_judgement.GitVerdict) -> list[Finding]:
        """Bring over approved changes and return the failures. Raises GitError, StateError."""
        found, one, new = self.git_changes, self.nested, self.new_folder
        if found is None or not verdict.stays:
            return []
        workspace = self.command.context.workspace
        applier = ChangeApplier(found.upper, found.common if one is None else one.common)
        failed: dict[str, str] = {}
        if one is not None and new is not None:
            common = workspace.common_dir
            above = common if common is not None and one.common.is_relative_to(common) else workspace.root
            with suppress(OSError), open_parent_folder(above, f"{one.common.relative_to(above)}/HEAD", create=True):
                pass  # what cannot be made is told of each file below
            failed = applier.apply_changes([*new.folders, *new.extra])
        failed = failed or applier.apply_in_order(found.order_changes())
        # Last: a folder that somebody else has put a file into stays.
        applier.apply_changes(found.emptied)
        if one is not None and one.pointer and not failed:
            pointer = [StagedChange(one.pointer, "file")]
            failed = ChangeApplier(self.staging.root.upper, workspace.root).apply_changes(pointer)
        if failed:
            place = git_judgement.GIT_FOLDER if one is None else f"{one.tree}/{git_judgement.GIT_FOLDER}"
            return [path_finding("not written", f"{place}/{path}", why=why) for path, why in failed.items()]
        if new is None:
            write_tracking_settings(found.common, verdict.settings)
        if found.index is not None and self.changes:
            # The index identifies a file by inode and times, different now from those in the sandbox: without a
            # refresh `git merge --abort` and the like would take the file for changed.
            Git(self.trees.top).run("update-index", "-q", "--refresh", ok=(0, 1, 128))
        if one is None and (found.index is not None or verdict.paths):
            note_staged(workspace, self.command.context.state, "judged")
        # The session and intent that made these commits and names may rewrite them later.
        command = self.command
        workspace_state.put_maker(
            command.context.state, verdict.new_names, command.call.session.session_id, command.intent_id
        )
        return []

    def has_discarded_work(self, done: Mapping[str, Change]) -> bool:
        if analyse(self.command.call.command or "").is_restorable:
            return bool(done)
        changed = {path: c.after for path, c in done.items() if c.before is not None and c.after is not None}
        names = {path: self.trees.to_commit_path(path) for path in changed}
        if not names or self.git_changes is None:
            return False
        blobs = self.git_changes.layered.read_blob_names("HEAD", names.values()) if head_commit(self.workspace) else {}
        return any(blobs.get(names[path]) == after.version.git_blob for path, after in changed.items())

    def take_away(self, verdict: git_judgement.GitVerdict, *, back: bool = False) -> None:
        """Move the git folder of a removed repository to where a person finds it, or `back`. Raises OSError."""
        if self.nested is None or self.nested.state != "removed" or not (verdict.stays or back):
            return
        place, aside = self.nested.common, aside_folder(self.command) / self.nested.tree / "git-folder"
        source, target = (aside, place) if back else (place, aside)
        if not back and place.is_file():  # it names the folder, which stays
            place.unlink()
        elif source.exists():
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.move(source, target)

    def describe_whole(self, verdict: git_judgement.GitVerdict) -> str:
        one, new = self.nested, self.new_folder
        if one is None or not verdict.stays:
            return ""
        if one.state == "removed" and not one.is_submodule:
            kept = aside_folder(self.command) / one.tree
            return f"Remit: {sanitise_line(one.tree)}/ was a repository of its own; its git folder is kept in {kept}."
        if new is not None and new.hooks:
            few = ", ".join(sanitise_line(path, 80) for path in new.hooks[:3])
            return f"Remit: {sanitise_line(one.tree)}/ came without its {few}: only a person gives a repository hooks."
        return ""

    def describe_findings(self, verdict: git_judgement.GitVerdict) -> list[Finding]:
        found, findings = self.git_changes, list(verdict.findings)
        at = next((i for i, f in enumerate(findings) if f.path == git_judgement.GIT_FOLDER), None)
        if found is None or not findings or verdict.stays or self.nested is not None:
            return findings
        # None after a fetch: objects of a later fetch must not exist beforehand.
        if found.worktree_path("FETCH_HEAD") in found.paths or any(m.name.startswith(REMOTES) for m in found.ref_moves):
            return findings
        tips = [tip for tip in dict.fromkeys(found.list_tips().values()) if not found.is_real_object(tip)]
        objects = found.valid_objects() if tips else []
        failed = ChangeApplier(found.upper, found.common).apply_in_order(objects)
        if objects and not failed and at is not None:
            few = ", ".join(tips[:3]) + (", …" if len(tips) > 3 else "")
            kept = f" Its commits are kept without a name until git prunes them: {few}. Only a person can name them."
            findings[at] = replace(findings[at], message=f"{findings[at].message}{kept}")
        return findings


# -- the result ---------------------------------------------------------------------------------------------


def aside_folder(command: ContainedCommand) -> Path:
    name = command.call.call_id or "call"
    name = name if PLAIN_CALL_ID.fullmatch(name) else sha256(name.encode("utf-8", "surrogateescape"))[:16]
    return command.context.workspace.state / ASIDE_FOLDER / name


def record_result(
    command: ContainedCommand,
    ended: CommandEnd,
    done: Mapping[str, Change],
    findings: Sequence[Finding],
    kept: tuple[str, ...],
    observation: Observation | None = None,
    existing: ExistingText | None = None,
    notes: Sequence[str] = (),
    data: bound_data.DataOutcome = bound_data.NO_DATA,
) -> ContainedResult:
    """Record kept and dropped changes, and return the result with its message.

    `observation` is that of a command without an overlay, after it ended; `existing` the text from before one with an
    overlay.
    """
    context, call, ticket = command.context, command.call, command.ticket
    state, attempts = context.state, Attempts()
    row: int | None = None
    found: workspace_state.PendingCall | None = None
    with attempts:
        row, found = state.find_pending_call(call.session, call.call_id, call.tool, call.arguments_sha256)
    if found is None:
        # No hook decided the command: the pending call is made of the current state.
        facts = command.gather_facts()
        found = workspace_state.PendingCall(
            intent_id=facts.session.intent_id,
            verdict="allow" if ticket is None else "contain",
            mode=facts.mode,
            rules=(),
            judged=(),
            whole=False,
            head=None,
            before={},
            agent=call.agent,
            owned_scope=facts.active.owned_scope if facts.active else (),
        )
    pending = replace(found, judged=tuple(done), whole=not command.is_staged)
    outcome = Outcome(ok=ended.code == 0, exit_code=ended.code, summary=ended.stop_text)
    changes = tuple(c for c in done.values() if c.before is None or c.after is None or c.before != c.after)

    vcs: Vcs | None = None
    with attempts:
        vcs = context.recorder.vcs
    completed = CompletedCall(context, call, outcome, row, pending, vcs, attempts, existing)

    # 1 The records; the end of an agent's own call is recorded by its hook.
    records: list[Record] = []
    waiting: str | None = None
    with attempts:
        bound_data.record_data(command, data)
    known: dict[str, str] = {}
    with attempts:
        known = find_recorded_events(context.recorder, call, resumed=True) if ticket is not None else known
    with attempts:
        records = make_call_records(completed, Effects(changes, observation))
    with attempts:
        left = records if ticket is None else records[:-1]
        waiting = context.recorder.append_or_spool([record for record in left if record.body.event not in known])
    with attempts:
        if findings and "denied" not in known:
            # A denial, which does not count against the session.
            facts, (first, *others) = command.gather_facts(), findings
            dropped = [sanitise_line(f.path or "", 200) for f in findings[:MAX_RECORDED_PATHS]]
            first = replace(first, context={**first.context, "dropped": dropped, "dropped_count": len(findings)})
            told, intent_id = (first, *others), facts.session.intent_id
            denial = Decision("deny", "deny", "destructive", facts.mode, told, intent_id)
            record_denial(context.recorder, call, facts, denial)

    # 2 The state: the next comparison does not report these changes again.
    is_recorded, now = not attempts.failures, context.environment.clock.now()
    with attempts:
        if ticket is None:
            update_state(completed, changes, recorded=is_recorded)
        else:
            with state.transaction():
                workspace_state.mark_recorded(state, changes)
                ConcurrentCalls(state, now).record_changes(call.session, changes)
                if row is not None and not command.is_staged:
                    # The hook that follows compares from here on.
                    state.delete_call(row)
                    left = replace(pending, whole=False, judged=(), before={})
                    state.put_pending_call(call.session, call.call_id, call.tool, call.arguments_sha256, left, now)

    # 3 The message.
    message = join_lines(
        bound_data.describe_data(data, has_dropped=bool(findings or ended.stop_text)),
        describe_result(ended, kept, findings, aside_folder(command)),
        *notes,
        describe_sandbox_limits(command, ended),
        waiting or "",
        attempts.failure_notice,
    )
    if ticket is not None:
        with Attempts():
            PendingMessages(state).add_contained_result(call, ticket.token, message)
    return ContainedResult(ended.code, kept, {str(f.path): f.message for f in findings}, message)


def find_lost_submodules(command: ContainedCommand) -> list[str]:
    root, cwd = command.context.workspace.root, command.call.cwd
    folders = ("", *ENTERED_FOLDER.findall(command.call.command or ""))
    places = {find_git_root(Path(cwd, folder).resolve()) for folder in folders}
    inside = [place for place in places if place is not None and place != root and place.is_relative_to(root)]
    return [str(place.relative_to(root)) for place in inside if resolve_git_folder(str(place)) is None]


def describe_sandbox_limits(command: ContainedCommand, ended: CommandEnd) -> str:
    workspace, settings = command.context.workspace, command.context.environment.settings
    root, text, programs = workspace.root, command.call.command or "", set[str]()
    with suppress(UnreadableShell):
        programs = {one.name for one in find_program_calls(text)}
    messages = [
        describe_unseen_things(programs),
        describe_unreachable_processes(text, programs),
        describe_ended_background(text),
    ]
    if ended.code:
        places = staging.read_only_paths(workspace, settings)
        inside = [str(place.relative_to(root)) for place in places if root in place.parents]
        has_no_agent = any(may_be_ssh_socket(door) for door in command.find_hidden_sockets())
        signs = False
        if "git" in text and workspace.common_dir is not None:
            words = ("config", "--type=bool", "--get-regexp", r"^(commit|tag)\.gpgsign$")
            signs = " true" in Git(root).text(*words, ok=(0, 1, 128))
        submodules = find_lost_submodules(command) if "git" in text else []
        messages = [
            describe_lost_submodules(submodules),
            describe_protected_places(text, dict.fromkeys((*inside, *settings))),
            describe_missing_ssh_agent(text) if has_no_agent else "",
            describe_hidden_secrets(text, programs, command.context.environment.home, command.find_secrets()),
            describe_missing_signature(text, signs=signs),
            *messages,
        ]
    return join_lines(*messages)

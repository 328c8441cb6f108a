"""Changes of a call: observed by comparing, attributed line by line, recorded, and taken into the state."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec import Struct
from msgspec.structs import replace

from remit.core.call import Outcome, ToolCall
from remit.core.diff.contents import Difference, Span, merge_spans
from remit.core.diff.edits import WholeFile, predict_contents
from remit.core.record import Record, Vcs
from remit.core.scope.path_patterns import InvalidPath, Scope
from remit.core.untrusted_input import sanitise_line
from remit.gate.context import Attempts, WorkspaceContext, contents_of_changes
from remit.gate.effects.other_writers import ConcurrentCalls, find_solely_written, is_in_paths
from remit.gate.effects.own_lines import (
    find_conflict_lines,
    find_differences,
    find_stated_difference,
    find_unproved_lines,
    find_unproved_tool_lines,
    whole_file,
)
from remit.gate.gather import resolve_targets
from remit.gate.records.call_records import ChangeEvidence, edit_record, git_record, mutation_record, result_record
from remit.gate.state.workspace_state import (
    PendingCall,
    SessionState,
    Setbacks,
    State,
    find_known_versions,
    mark_recorded,
)
from remit.policy.commands import analyse
from remit.policy.decide import classify
from remit.workspace.agents.transcripts import find_last_model
from remit.workspace.git.command import Git
from remit.workspace.observe.observation import (
    Change,
    Observation,
    content_identity,
    find_changes,
    find_git_arrivals,
    is_governing_path,
    list_fetched_tips,
    observe_paths,
    read_at_commit,
)
from remit.workspace.place.workspace import ORCHESTRATION_FOLDER, Workspace
from remit.workspace.safe_files import ObservedFile

if TYPE_CHECKING:
    from remit.gate.effects.existing_lines import ExistingText

MAX_REMARKS = 20
"""Remarks on an observation that one record holds."""

MAX_COMMITS = 200
RAW_DIFF_OPTIONS = ("-r", "--raw", "-z", "--root", "--no-renames", "--no-abbrev", "--relative")


class CompletedCall(Struct, frozen=True):
    """A call that ran, with its row and content in the state, if it was allowed there, and HEAD after it.

    `outcome` is None for a call of which no result was ever reported. `attempts` notes the steps that failed.
    `existing` is the text from before a command that ran in a layer of its own.
    """

    context: WorkspaceContext
    call: ToolCall
    outcome: Outcome | None
    row: int | None
    pending: PendingCall | None
    vcs: Vcs | None
    attempts: Attempts
    existing: "ExistingText | None" = None


class RedirectedPaths(Struct, frozen=True):
    """Paths that a call leads to now and did not lead to at the decision.

    `inside` maps paths of the workspace to their spelling in the call; `outside` are absolute paths.
    """

    inside: dict[str, str] = {}
    outside: tuple[str, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.inside or self.outside)


class Effects(Struct, frozen=True):
    """Changes of a call, and the observation after the call; None without a pending call."""

    changes: tuple[Change, ...] = ()
    observation: Observation | None = None
    redirected: RedirectedPaths = RedirectedPaths()


def observe_effects(context: WorkspaceContext, call: ToolCall, pending: PendingCall | None, vcs: Vcs | None) -> Effects:
    """Compare the workspace with its state before the call. Raises RECORDING_ERRORS."""
    workspace = context.workspace
    head = vcs.revision if vcs and isinstance(vcs.revision, str) else None
    if pending is None:
        # No hook came before the call: its own paths are compared with HEAD.
        paths = context.paths_of_call(call)
        committed = read_at_commit(workspace, head, paths) if head else dict.fromkeys(paths)
        return Effects(find_changes(workspace, Observation(None, committed), observe_paths(workspace, paths)))

    # 1. Compare; a file tool is compared at the paths that it was judged for.
    after = context.observe() if pending.whole else observe_paths(workspace, pending.judged)
    before = Observation(pending.head, {path: context.load_version(v) for path, v in pending.before.items()})
    found = find_changes(workspace, before, after)

    # 2. The changes of a file tool start from what was recorded while it was running, and its path may lead to another
    # place than the one that was judged.
    redirected = RedirectedPaths()
    if not pending.whole:
        unexpected = [c.path for c in found if c.after and c.after.version.git_blob != pending.announced.get(c.path)]
        recorded = find_known_versions(context.state, unexpected) if unexpected else {}
        found = tuple(
            replace(c, before=context.load_version(v))
            if (v := recorded.get(c.path)) and content_identity(c.after) != (v.sha256, v.mode)
            else c
            for c in found
        )
        redirected = find_redirected(context, call, pending)
    if redirected:
        after = context.observe()
        folders = {c.path: (workspace.root / c.path).parent for c in found}
        in_place = (c for c in found if folders[c.path].resolve() == folders[c.path])
        found = (*in_place, *find_redirected_changes(context, call, redirected, head))

    # 3. Remit's own bookkeeping is no effect of the call.
    if call.remit_tool is not None:
        found = tuple(change for change in found if not change.path.startswith(f"{ORCHESTRATION_FOLDER}/"))
    if any(is_governing_path(change.path) for change in found):
        # Imported here: few calls change what governs.
        from remit.gate.undo.governing_files import is_bookkeeping

        found = tuple(change for change in found if not is_bookkeeping(change))

    # 4. Whose the changes are: git's, another session's, or the call's. Where the command's text says that it writes
    # only other files, the origin of a change is unclear.
    paths = {change.path for change in found} if pending.whole else set[str]()
    arrivals = find_git_arrivals(workspace, before, after, paths, pending.known_commits)
    found = tuple(replace(change, from_git=change.path in arrivals) for change in found)
    concurrent = ConcurrentCalls(context.state, context.environment.clock.now())
    found = concurrent.exclude_other_sessions(call, pending, found)
    if pending.writes is not None:
        writes = pending.writes
        found = tuple(
            c if c.from_git or c.possible_sessions or is_in_paths(c.path, writes) else mark_unclear(c, call)
            for c in found
        )
    return Effects(found, after, redirected)


def find_redirected(context: WorkspaceContext, call: ToolCall, pending: PendingCall) -> RedirectedPaths:
    """Resolve the paths of a file tool again, and return the unjudged ones. Raises OSError.

    A tool opens its path after the hook has resolved the path: in between, another process can put a link in the place
    of a folder.
    """
    if pending.whole or not pending.places or call.command is not None or classify(call) != "destructive":
        return RedirectedPaths()
    try:
        targets = resolve_targets(call, context.workspace, context.environment)
    except InvalidPath:
        return RedirectedPaths()
    found = [target for target in targets if target.resolved not in pending.places]
    inside = {str(target.path): target.raw for target in found if target.path is not None}
    outside = tuple(target.resolved for target in found if target.path is None and not target.tolerated)
    return RedirectedPaths(inside, outside)


def find_redirected_changes(
    context: WorkspaceContext, call: ToolCall, redirected: RedirectedPaths, head: str | None
) -> tuple[Change, ...]:
    """Return the changes at redirected paths, compared with the baseline or the commit `head`.

    A content not predicted by the call's arguments may be a second process's: the change gets possible sessions.
    Raises RECORDING_ERRORS.
    """
    paths, workspace = redirected.inside, context.workspace
    known = find_known_versions(context.state, paths)
    committed = [path for path in paths if path not in known]
    before = read_at_commit(workspace, head, committed) if head else dict.fromkeys(committed)
    before |= {path: context.load_version(version) for path, version in known.items()}
    content_of = {raw: seen.content for path, raw in paths.items() if (seen := before[path]) is not None}
    expected = predict_contents(call.edit, call.paths, content_of.get)
    return tuple(
        c if c.after and c.after.content == expected.get(paths[c.path]) else mark_unclear(c, call)
        for c in find_changes(workspace, Observation(None, before), observe_paths(workspace, paths))
    )


def mark_unclear(change: Change, call: ToolCall) -> Change:
    return replace(change, possible_sessions=(call.session.session_id,))


# Records and attribution


def find_line_differences(
    context: WorkspaceContext, call: ToolCall, outcome: Outcome, changes: Sequence[Change]
) -> dict[str, Difference]:
    """Return the added lines of each change, preferably from the tool's answer and arguments. Of a file written as a
    whole, the answer's positions are those of a diff: no line of the call says which lines it kept.
    """
    answered = {} if isinstance(call.edit, WholeFile) else outcome.positions
    positions = {path: lines for raw, lines in answered.items() for path in context.workspace_paths(call, (raw,))}
    found = find_differences(changes, positions, context.contents)
    names = {path: raw for raw in call.paths for path in context.workspace_paths(call, (raw,))}
    for change in changes:
        path = change.path
        if path in names and (stated := find_stated_difference(call, names[path], change, found.get(path))):
            found[path] = stated
    return found


def make_call_records(done: CompletedCall, effects: Effects) -> list[Record]:
    """Return the records of a call's changes (its own, git's, those of unclear origin), then that of the result."""
    context, call, pending, attempts = done.context, done.call, done.pending, done.attempts
    changes, recorder, session = effects.changes, context.recorder, SessionState()
    with attempts:
        session = context.state.active_session(call.session)
    intent_id = pending.intent_id if pending else session.intent_id
    remarks = effects.observation.remarks[:MAX_REMARKS] if effects.observation and done.outcome else ()
    shown = [sanitise_line(remark, 200) for remark in remarks]
    result = result_record(recorder, call, done.outcome, intent_id, done.vcs, shown)
    if not changes:
        return [result]

    # 1. Keep the contents, and find the lines.
    outcome = done.outcome or Outcome()
    differences: dict[str, Difference] = {}
    with attempts:
        context.keep_contents(contents_of_changes(changes))
    with attempts:
        differences = find_line_differences(context, call, outcome, changes)
    own = tuple(change for change in changes if not change.from_git and not change.possible_sessions)
    from_git = tuple(change for change in changes if change.from_git)
    unclear = tuple(change for change in changes if change.possible_sessions)
    records: list[Record] = []

    # 2. The call's own changes. Where the evidence cannot be looked at, no line is proved; of unproved lines, those are
    # likely the call's where there are no signs of a second writer.
    if own:
        unproved = {change.path: whole_file(change) for change in own if change.after}
        likely: frozenset[str] = frozenset()
        doubtful: list[Change] = []
        with attempts:
            unproved = find_unproved(done, own, differences)
        with attempts:
            doubtful = [change for change in own if unproved.get(change.path)]
            if pending is not None and pending.whole and doubtful:
                likely = find_solely_written(context, call, done.row, doubtful)
        layouts = frozenset(c.path for c in own if c.before is not None and is_proved_layout(done))
        evidence = ChangeEvidence(differences, unproved, likely, layouts, find_model(call) or session.model)
        records.append(mutation_record(recorder, call, outcome, pending, own, evidence, done.vcs))
        if doubtful and pending is not None and pending.whole:
            with Attempts():
                prepare_replay(done, records[-1], changes, {c.path: unproved[c.path] for c in doubtful})

    # 3. Git's changes, and those that commands of several sessions may have made.
    if from_git:
        records.append(git_record(recorder, call, pending, from_git, done.vcs))
    if unclear:
        sessions = dict.fromkeys(session for change in unclear for session in change.possible_sessions)
        candidates = ConcurrentCalls(context.state, context.environment.clock.now()).describe_candidates(sessions, call)
        detail = {"origin": "unknown", "candidates": candidates, "noticed_in": call.session.session_id}
        records.append(edit_record(recorder, unclear, detail))
    return [*records, result]


def find_model(call: ToolCall) -> str | None:
    own = call.transcript or ""
    parent = own.rpartition("/subagents/")[0]
    places = [own, f"{parent}.jsonl" if parent and call.session.parent is not None else ""]
    return next((found for place in places if place and (found := find_last_model(Path(place)))), None)


def find_unproved(
    done: CompletedCall, changes: Sequence[Change], differences: Mapping[str, Difference]
) -> dict[str, tuple[Span, ...]]:
    """Return the unproved lines by path.

    All changes of a contained command are proved, except for lines that existed before and conflict lines.
    """
    context, call, pending = done.context, done.call, done.pending
    unproved: dict[str, tuple[Span, ...]] = {}
    if pending is None or pending.whole:
        unproved = find_unproved_lines(call, pending, changes, differences, context.workspace, context.environment)
    elif pending.effect != "execute":
        paths = {raw: path for raw in call.paths for path in context.workspace_paths(call, (raw,))}
        places, outcome = (paths, context.contents, context.workspace), done.outcome or Outcome()
        unproved = find_unproved_tool_lines(call, outcome, pending, changes, differences, *places)
    elif done.existing is not None:
        # Imported here: only a contained command that changed something needs the module.
        from remit.gate.effects.existing_lines import find_existing_lines

        places = (done.existing, context.workspace, call.session.session_id)
        unproved = find_existing_lines(changes, differences, *places, only_layout=is_proved_layout(done))
    for path, spans in find_conflict_lines(changes, differences).items():
        unproved[path] = merge_spans((*unproved.get(path, ()), *spans))
    return unproved


def prepare_replay(
    done: CompletedCall, record: Record, changes: Sequence[Change], unproved: Mapping[str, tuple[Span, ...]]
) -> None:
    if done.call.command is not None and analyse(done.call.command).is_repeatable:
        # Imported here: few commands are filters.
        from remit.gate.effects.replays import leave_replay

        leave_replay(
            done.context, done.call, record.id, done.pending.intent_id if done.pending else None, changes, unproved
        )


def is_proved_layout(done: CompletedCall) -> bool:
    return done.existing is not None and done.call.command is not None and analyse(done.call.command).only_lays_out


# State


def update_state(done: CompletedCall, changes: Sequence[Change], *, recorded: bool) -> None:
    """Bring the state up to date, as one transaction; the call stays open unless its records were `recorded`."""
    context, call, pending, outcome = done.context, done.call, done.pending, done.outcome or Outcome()
    state, now = context.state, context.environment.clock.now()
    with state.transaction():
        if recorded and done.row is not None:
            state.delete_call(done.row)
        elif done.row is not None and pending is not None:
            state.replace_pending_call(done.row, replace(pending, has_failed=True))
        if changes:
            mark_recorded(state, changes)
            ConcurrentCalls(state, now).record_changes(call.session, changes)
        Setbacks(state, now).count_outcome(call, outcome, classify(call))
        # The content that a command left was not seen: a person may have written there at the same time.
        if recorded and not call.whole_workspace and (outcome.ok or call.effect != "read"):
            versions = {change.path: change.after.version if change.after else None for change in changes}
            paths = context.paths_of_call(call) if pending is None else pending.judged
            state.put_seen_files(call.session, {path: versions[path] for path in paths if path in versions})
            context.mark_files_seen(call.session, [path for path in paths if path not in versions])


# Stray commits


def find_stray_changes(
    workspace: Workspace, state: State, call: ToolCall, pending: PendingCall, after: Mapping[str, ObservedFile | None]
) -> tuple[Change, ...]:
    """Return the changes of new commits outside the scope whose content is in no file, before the call or `after`, and
    the paths that they take away and no person did.

    In a sandbox with an overlay such commits get no branch or tag. Raises GitError.
    """
    if not pending.whole or not pending.known_commits or call.command is None:
        return ()
    if "git" not in call.command and analyse(call.command).outcome != "unknown":
        return ()
    git = Git(workspace.root)
    known = (*pending.known_commits, *list_fetched_tips(workspace, pending.known_commits))
    query = "".join(f"^{name}\n" for name in known).encode()
    words = ("rev-list", f"--max-count={MAX_COMMITS}", "--no-merges", "--ignore-missing", "--branches", "--tags")
    commits = git.run(*words, "HEAD", "--stdin", stdin=query, ok=(0, 128))
    if not commits:
        return ()
    # Imported here: few commands make commits.
    from remit.workspace.sandbox.new_commits import parse_raw_diff

    scope, found = Scope(pending.owned_scope), dict[str, str]()
    raw = git.run("diff-tree", "--stdin", *RAW_DIFF_OPTIONS, stdin=commits)
    changed = [entry for entry in parse_raw_diff(raw) if not scope.matches(entry.path)]
    outside = [entry for entry in changed if entry.new]
    # An observation leaves out files that are as HEAD has them: for those HEAD is asked.
    there = {**read_at_commit(workspace, "HEAD", [e.path for e in outside if e.path not in after]), **after}
    for entry in outside:
        versions = (pending.before.get(entry.path), seen.version if (seen := there.get(entry.path)) else None)
        if not any(version is not None and version.git_blob == entry.new for version in versions):
            found.setdefault(entry.path, entry.commit)
    taken = {entry.path: entry.commit for entry in changed if not entry.new}
    if taken:
        # A person may have taken the file away, or its entry out of the index.
        from remit.gate.state.staged_entries import load_staged

        staged = load_staged(state).entries
        gone = {path for path, entry in staged.items() if not entry.blob and entry.stager != "unknown"}
        gone |= {path for path, version in pending.before.items() if version is None}
        found |= {path: commit for path, commit in taken.items() if path not in gone}
    changes: list[Change] = []
    for path, commit in found.items():
        parent = git.text("rev-parse", "--verify", "--quiet", f"{commit}^", ok=(0, 1, 128))
        before = read_at_commit(workspace, parent, [path])[path] if parent else None
        changes.append(Change(path, before, read_at_commit(workspace, commit, [path])[path]))
    return tuple(changes)

"""Changes of a call: observed by comparing, attributed line by line, and taken into the state."""

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from msgspec import Struct
from msgspec.structs import replace

from remit.core.call import Outcome, ToolCall
from remit.core.diff.contents import LineRange
from remit.core.display_text import sanitise_line
from remit.core.record import Record, Vcs
from remit.gate.answer import Attempts
from remit.gate.context import WorkspaceContext, contents_of_changes
from remit.gate.effects.concurrent_calls import ConcurrentCalls, candidate_sessions, is_in_paths
from remit.gate.effects.writes_through_links import (
    RedirectedPaths,
    find_redirected,
    find_redirected_changes,
    is_link_free,
)
from remit.gate.evidence.differences import Difference, find_differences, whole_file
from remit.gate.evidence.file_tool_lines import FileToolLines, find_stated_differences
from remit.gate.records.call_records import (
    ChangeEvidence,
    git_record,
    mutation_record,
    result_record,
    unattributed_record,
)
from remit.gate.state.baseline import find_known_versions, mark_recorded
from remit.gate.state.pending_calls import PendingCall
from remit.gate.state.sessions import SessionState
from remit.gate.state.setbacks import Setbacks
from remit.gate.undo.governing_files import is_bookkeeping
from remit.policy.classify import classify
from remit.workspace.agents.transcripts import find_last_model
from remit.workspace.observe.git_arrivals import find_git_arrivals
from remit.workspace.observe.observation import (
    Change,
    Observation,
    content_identity,
    find_changes,
    observe_paths,
    read_at_commit,
)
from remit.workspace.place.workspace import ORCHESTRATION_FOLDER

MAX_REMARKS = 20
"""Remarks on an observation that one record holds."""

CONFLICT_START = b"<<<<<<< "
"""First marker of a merge conflict. Source: git-merge(1), read 2026-11."""


class Effects(Struct, frozen=True):
    """Changes of a call, and the observation after the call; None without a pending call."""

    changes: tuple[Change, ...] = ()
    observation: Observation | None = None
    redirected: RedirectedPaths = RedirectedPaths()

    @property
    def paths(self) -> tuple[str, ...]:
        return tuple(change.path for change in self.changes)

    @property
    def own_paths(self) -> tuple[str, ...]:
        return tuple(change.path for change in self.changes if not change.from_git and not change.possible_sessions)

    @property
    def remarks(self) -> tuple[str, ...]:
        remarks = self.observation.remarks if self.observation else ()
        return tuple(sanitise_line(remark, 200) for remark in remarks[:MAX_REMARKS])


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

    # 2. A file tool's path may lead to another place than the one that was judged.
    redirected = RedirectedPaths()
    if not pending.whole:
        found = start_from_recorded(context, found, pending)
        redirected = find_redirected(context, call, pending)
    if redirected:
        after = context.observe()
        in_place = (change for change in found if is_link_free(workspace.root, change.path))
        found = (*in_place, *find_redirected_changes(context, call, redirected, head))

    # 3. Remit's own bookkeeping is no effect of the call.
    if call.remit_tool is not None:
        found = tuple(change for change in found if not change.path.startswith(f"{ORCHESTRATION_FOLDER}/"))
    found = tuple(change for change in found if not is_bookkeeping(change))

    # 4. Whose the changes are: git's, another session's, or the call's.
    paths = {change.path for change in found} if pending.whole else set[str]()
    arrivals = find_git_arrivals(workspace, before, after, paths, pending.known_commits)
    found = tuple(replace(change, from_git=change.path in arrivals) for change in found)
    concurrent = ConcurrentCalls(context.state, context.environment.clock())
    found = concurrent.exclude_other_sessions(call, pending, found)
    return Effects(tuple(mark_undeclared(change, call, pending) for change in found), after, redirected)


def start_from_recorded(
    context: WorkspaceContext, found: tuple[Change, ...], pending: PendingCall
) -> tuple[Change, ...]:
    """Let the changes of a file tool start from what was recorded while the tool was running."""
    unexpected = [c.path for c in found if c.after and c.after.version.git_blob != pending.announced.get(c.path)]
    recorded = find_known_versions(context.state, unexpected) if unexpected else {}
    return tuple(
        replace(change, before=context.load_version(version))
        if (version := recorded.get(change.path)) and content_identity(change.after) != (version.sha256, version.mode)
        else change
        for change in found
    )


def mark_undeclared(change: Change, call: ToolCall, pending: PendingCall) -> Change:
    """Mark a change as of unclear origin if the command's text says that the command writes only other files."""
    if (
        pending.writes is None
        or change.from_git
        or change.possible_sessions
        or is_in_paths(change.path, pending.writes)
    ):
        return change
    return replace(change, possible_sessions=(call.session.session_id,))


# Records and attribution


def find_line_differences(
    context: WorkspaceContext, call: ToolCall, outcome: Outcome, changes: Sequence[Change]
) -> dict[str, Difference]:
    """Return the added lines of each change, preferably from the tool's answer and arguments."""
    positions = {
        path: lines for raw, lines in outcome.positions.items() for path in context.workspace_paths(call, (raw,))
    }
    found = find_differences(changes, positions, context.contents)
    stated = find_stated_differences(call, changes, found, context.workspace, context.environment)
    return {**found, **dict(stated)}


def make_call_records(
    context: WorkspaceContext,
    call: ToolCall,
    outcome: Outcome,
    pending: PendingCall | None,
    row: int | None,
    effects: Effects,
    vcs: Vcs | None,
    attempts: Attempts,
) -> list[Record]:
    """Return the records of a call's changes, followed by the record of the result."""
    session = SessionState()
    with attempts.step():
        session = context.state.active_session(call.session)
    intent_id = pending.intent_id if pending else session.intent_id
    result = result_record(context.recorder, call, outcome, intent_id, effects.remarks, vcs)
    if not effects.changes:
        return [result]
    with attempts.step():
        context.keep_contents(contents_of_changes(effects.changes))
    differences: dict[str, Difference] = {}
    with attempts.step():
        differences = find_line_differences(context, call, outcome, effects.changes)
    model = find_model(call) or session.model
    records = make_change_records(
        context, call, outcome, pending, effects.changes, differences, model, row, vcs, attempts
    )
    return [*records, result]


def find_model(call: ToolCall) -> str | None:
    """Return the model named in the call's transcript.

    A sub-agent has no transcript at its first call: the parent's model is the default.
    """
    own = call.transcript or ""
    parent = own.rpartition("/subagents/")[0]
    places = [own, f"{parent}.jsonl" if parent and call.session.parent is not None else ""]
    return next((found for place in places if place and (found := find_last_model(Path(place)))), None)


def make_change_records(
    context: WorkspaceContext,
    call: ToolCall,
    outcome: Outcome,
    pending: PendingCall | None,
    changes: Sequence[Change],
    differences: Mapping[str, Difference],
    model: str | None,
    row: int | None,
    vcs: Vcs | None,
    attempts: Attempts,
) -> list[Record]:
    """Return the records of changes: the call's own, git's, and those of unclear origin."""
    own = tuple(change for change in changes if not change.from_git and not change.possible_sessions)
    from_git = tuple(change for change in changes if change.from_git)
    unclear = tuple(change for change in changes if change.possible_sessions)
    records: list[Record] = []
    if own:
        # Where the evidence cannot be looked at, no line is proved.
        unproved = {change.path: whole_file(change) for change in own if change.after}
        likely: frozenset[str] = frozenset()
        with attempts.step():
            unproved = find_unproved(context, call, outcome, pending, own, differences)
        with attempts.step():
            doubtful = [change for change in own if unproved.get(change.path)]
            likely = find_likely_paths(context, call, pending, row, doubtful)
        evidence = ChangeEvidence(differences, unproved, likely, model)
        records.append(mutation_record(context.recorder, call, outcome, pending, own, evidence, vcs))
    if from_git:
        records.append(git_record(context.recorder, call, pending, from_git, vcs))
    if unclear:
        concurrent = ConcurrentCalls(context.state, context.environment.clock())
        candidates = concurrent.describe_candidates(candidate_sessions(unclear), call)
        records.append(unattributed_record(context.recorder, call, unclear, candidates))
    return records


def find_unproved(
    context: WorkspaceContext,
    call: ToolCall,
    outcome: Outcome,
    pending: PendingCall | None,
    changes: Sequence[Change],
    differences: Mapping[str, Difference],
) -> dict[str, tuple[LineRange, ...]]:
    """Return the unproved lines by path.

    All changes of a contained command are proved, except for conflict lines.
    """
    unproved: dict[str, tuple[LineRange, ...]] = {}
    if pending is None or pending.whole:
        # Imported here: only commands need the module.
        from remit.gate.evidence.command_lines import find_unproved_lines

        unproved = find_unproved_lines(call, pending, changes, differences, context.workspace, context.environment)
    elif pending.effect != "execute":
        tool = FileToolLines(call, outcome, pending, context.contents)
        unproved = tool.find_unproved_lines(changes, differences, context.workspace, context.environment)
    if any(change.before and CONFLICT_START in (change.before.content or b"") for change in changes):
        from remit.gate.evidence.command_lines import add_conflict_lines

        unproved = add_conflict_lines(unproved, changes, differences)
    return unproved


def find_likely_paths(
    context: WorkspaceContext,
    call: ToolCall,
    pending: PendingCall | None,
    row: int | None,
    changes: Sequence[Change],
) -> frozenset[str]:
    """Return the paths without signs of a second writer."""
    if pending is None or not pending.whole or not changes:
        return frozenset()
    # Imported here: only commands with unproved lines need the module.
    from remit.gate.effects.likely_writers import find_solely_written

    return find_solely_written(context, call, pending, row, changes)


# State


def update_state(
    context: WorkspaceContext,
    call: ToolCall,
    outcome: Outcome,
    pending: PendingCall | None,
    row: int | None,
    changes: Iterable[Change],
    *,
    recorded: bool,
) -> None:
    """Bring the state up to date, as one transaction; the call stays open unless its records were `recorded`."""
    state, now, changes = context.state, context.environment.clock(), tuple(changes)
    with state.group_changes():
        if recorded and row is not None:
            state.delete_call(row)
        mark_recorded(state, changes)
        ConcurrentCalls(state, now).record_changes(call.session, changes)
        Setbacks(state, now).count_outcome(call, outcome, classify(call))
        # The content that a command left was not seen: a person may have written there at the same time.
        if recorded and not call.whole_workspace and (outcome.ok or call.effect != "read"):
            versions = {change.path: change.after.version if change.after else None for change in changes}
            paths = context.paths_of_call(call) if pending is None else pending.judged
            state.put_seen_files(call.session, {path: versions[path] for path in paths if path in versions})
            context.mark_files_seen(call.session, [path for path in paths if path not in versions])

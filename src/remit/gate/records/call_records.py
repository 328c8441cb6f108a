"""The records of a call that came back: what it changed, what git brought with it, and how it ended."""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from pathlib import Path

from msgspec import UNSET

from remit.core.call import Outcome, ToolCall
from remit.core.diff.contents import LineRange
from remit.core.display_text import sanitise_line
from remit.core.intent import Intent
from remit.core.lazy_property import LazyProperty
from remit.core.record import Body, Record, Vcs
from remit.gate.answer import Attempts
from remit.gate.context import WorkspaceContext
from remit.gate.effects.concurrent_calls import ConcurrentCalls, candidate_sessions
from remit.gate.effects.likely_writers import find_solely_written
from remit.gate.evidence.command_lines import add_conflict_lines, exclude_lines, find_unproved_lines, whole_file
from remit.gate.evidence.file_tool_lines import FileToolLines, find_stated_differences
from remit.gate.records import record_parts
from remit.gate.state.workspace_state import PendingCall, SessionState
from remit.workspace.agents.transcripts import find_last_model
from remit.workspace.observe.observation import Change


class CallRecords:
    """Makes the records of one call."""

    def __init__(self, context: WorkspaceContext) -> None:
        self.context = context
        self.remarks: tuple[str, ...] = ()
        """What the comparison could not see."""
        self.call_row: int | None = None
        """Where the state has the call."""

    @LazyProperty
    def vcs(self) -> Vcs | None:
        """HEAD when the call came back: its records agree on it."""
        return self.context.recorder.vcs

    def make_records(
        self, call: ToolCall, outcome: Outcome, pending: PendingCall | None, done: tuple[Change, ...], tries: Attempts
    ) -> tuple[Record, ...]:
        """The records of a call that came back: its effects first."""
        session = tries.attempt(lambda: self.context.state.active_session(call.session), SessionState())
        result = self.result_record(call, outcome, pending.intent_id if pending else session.intent_id)
        if not done:
            return (result,)
        tries.attempt(lambda: self.context.keep_contents(contents_of_changes(done)), None)
        known = tries.attempt(lambda: self.find_differences(call, outcome, done), {})
        model = find_model(call) or session.model
        return (*self.make_change_records(call, outcome, pending, done, known, model, tries), result)

    def make_change_records(
        self,
        call: ToolCall,
        outcome: Outcome,
        pending: PendingCall | None,
        done: tuple[Change, ...],
        known: Mapping[str, record_parts.Difference],
        model: str | None,
        tries: Attempts,
    ) -> list[Record]:
        """What the call changed, and what git brought with it, each in a record of its own."""
        own, old = (
            tuple(c for c in done if not c.from_git and not c.possible_sessions),
            tuple(c for c in done if c.from_git),
        )
        unclear = tuple(c for c in done if c.possible_sessions)
        nobodys = {c.path: whole_file(c) for c in own if c.after}
        left = tries.attempt(lambda: self.find_unproved_lines(call, outcome, pending, own, known), nobodys)
        likely = tries.attempt(
            lambda: self.find_likely_paths(call, pending, [c for c in own if left.get(c.path)]), frozenset[str]()
        )
        return [
            *([self.mutation_record(call, outcome, pending, own, known, left, likely, model)] if own else []),
            *([self.git_record(call, pending, old)] if old else []),
            *([self.unclear_record(call, unclear)] if unclear else []),
        ]

    def find_differences(
        self, call: ToolCall, outcome: Outcome, done: tuple[Change, ...]
    ) -> dict[str, record_parts.Difference]:
        """What the call put into each file."""
        positions = {
            path: r for raw, r in outcome.positions.items() for path in self.context.workspace_paths(call, (raw,))
        }
        known = record_parts.find_differences(done, positions, self.context.contents)
        return {
            **known,
            **dict(find_stated_differences(call, done, known, self.context.workspace, self.context.environment)),
        }

    def mutation_record(
        self,
        call: ToolCall,
        outcome: Outcome,
        pending: PendingCall | None,
        done: tuple[Change, ...],
        known: Mapping[str, record_parts.Difference],
        left: Mapping[str, tuple[LineRange, ...]],
        likely: Collection[str],
        model: str | None,
    ) -> Record:
        """The record of what changed. `left` are the lines that nothing proves to be the call's, and `likely` the paths
        where they are likely its own.
        """
        intent, session = intent_at_decision(pending), call.session.session_id
        added = {c.path: d.added_ranges if (d := known.get(c.path)) else () for c in done}
        all_ = {c.path: record_parts.traced_ranges(c.after, added[c.path]) for c in done}
        own = {
            c.path: record_parts.traced_ranges(c.after, exclude_lines(added[c.path], left[c.path]))
            if left.get(c.path)
            else all_[c.path]
            for c in done
        }
        open_ = {c.path: record_parts.traced_ranges(c.after, left.get(c.path, ())) for c in done}
        changed = tuple(
            record_parts.mutated_file(
                c, intent, all_[c.path], known.get(c.path), left.get(c.path, ()), likely=c.path in likely
            )
            for c in done
        )
        body = record_parts.mutation_body(call, outcome, pending, intent, changed)
        files = tuple(
            record_parts.traced_file(c.path, own[c.path], session, body_intent(body), model, open_[c.path])
            for c in done
        )
        return self.context.recorder.make_record(body, call.agent, files, vcs=self.vcs)

    def find_likely_paths(self, call: ToolCall, pending: PendingCall | None, done: Sequence[Change]) -> frozenset[str]:
        """The paths of these changes that nothing but this command can be seen to have written."""
        if pending is None or not pending.whole or not done:
            return frozenset()
        return find_solely_written(self.context, call, pending, self.call_row, done)

    def stray_commit_record(
        self, call: ToolCall, outcome: Outcome, pending: PendingCall | None, done: tuple[Change, ...]
    ) -> Record:
        """The record of what commits of the call hold beside its files. Raises OSError."""
        self.context.keep_contents(contents_of_changes(done))
        known = record_parts.find_differences(done, {}, self.context.contents)
        model = self.context.state.active_session(call.session).model
        return self.mutation_record(call, outcome, pending, done, known, {}, (), model)

    def find_unproved_lines(
        self,
        call: ToolCall,
        outcome: Outcome,
        pending: PendingCall | None,
        done: tuple[Change, ...],
        known: Mapping[str, record_parts.Difference],
    ) -> dict[str, tuple[LineRange, ...]]:
        """By path, the new lines that nothing proves to be the call's. What a contained command left is its own, but
        for what it only carried.
        """
        workspace, around = self.context.workspace, self.context.environment
        left: dict[str, tuple[LineRange, ...]] = {}
        if pending is None or pending.whole:
            left = find_unproved_lines(call, pending, done, known, workspace, around)
        elif pending.effect != "execute":
            left = FileToolLines(call, outcome, pending, self.context.contents).find_unproved_lines(
                done, known, workspace, around
            )
        return add_conflict_lines(left, done, known)

    def git_record(self, call: ToolCall, pending: PendingCall | None, done: tuple[Change, ...]) -> Record:
        """Return the record of contents that git brought from older commits in this call.

        The call wrote none of their lines, and nobody undoes them. But it was the call that ran git: the record names
        it, its session and intent, and the decision with the yes that let it through.
        """
        body = Body(
            event="human_edit",
            intent_id=pending.intent_id if pending else None,
            session_id=call.session.session_id,
            agent_id=call.session.agent_id or UNSET,
            call=record_parts.call_part(call),
            files=tuple(record_parts.mutated_file(c, None, ()) for c in done),
            decision=record_parts.decision_part(pending) if pending else UNSET,
            covered=True,
            detail={"origin": "git", "noticed_in": call.session.session_id},
        )
        return self.context.recorder.make_record(body, call.agent, vcs=self.vcs)

    def unclear_record(self, call: ToolCall, done: tuple[Change, ...]) -> Record:
        """The record of changes that commands of several sessions may have made: no one of them is named alone."""
        windows = ConcurrentCalls(self.context.state, self.context.environment.clock())
        body = Body(
            event="human_edit",
            intent_id=None,
            session_id=None,
            files=tuple(record_parts.mutated_file(c, None, ()) for c in done),
            covered=False,
            detail={
                "origin": "unknown",
                "candidates": windows.describe_candidates(candidate_sessions(done), call),
                "noticed_in": call.session.session_id,
            },
        )
        return self.context.recorder.make_record(body)

    def result_record(self, call: ToolCall, outcome: Outcome, intent_id: str | None) -> Record:
        """The record that the call came back."""
        result = {
            "ok": outcome.ok,
            "exit_code": outcome.exit_code,
            "summary": sanitise_line(record_parts.redact_command(outcome.summary)),
        }
        body = Body(
            event="tool_result",
            intent_id=intent_id,
            session_id=call.session.session_id,
            agent_id=call.session.agent_id or UNSET,
            call=record_parts.call_part(call),
            result=result,
            detail={"observation": list(self.remarks)} if self.remarks else UNSET,
            duration_ms=UNSET if outcome.duration_ms is None else outcome.duration_ms,
        )
        return self.context.recorder.make_record(body, call.agent, vcs=self.vcs)


def intent_at_decision(pending: PendingCall | None) -> Intent | None:
    """The intent as it was when the call was let through."""
    if pending is None or pending.intent_id is None:
        return None
    return Intent(pending.intent_id, pending.owned_scope)


def contents_of_changes(done: Iterable[Change]) -> Iterator[tuple[str, bytes]]:
    """Both sides of each change, where they are at hand."""
    return record_parts.contents_to_keep((c.path, side) for c in done for side in (c.before, c.after))


def body_intent(body: Body) -> str | None:
    """The intent of a record's body."""
    return body.intent_id if isinstance(body.intent_id, str) else None


def find_model(call: ToolCall) -> str | None:
    """Return the model that the call's transcript tells. A sub-agent's own is not written yet at its first call: then
    its parent's, whose model it takes over unless it was given another.
    """
    own = call.transcript or ""
    parent = own.rpartition("/subagents/")[0]
    places = [own, f"{parent}.jsonl" if parent and call.session.parent is not None else ""]
    return next((found for place in places if place and (found := find_last_model(Path(place)))), None)

"""The records of a call that came back: what it changed, what git brought with it, and how it ended."""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from pathlib import Path

from msgspec import UNSET

from remit.core.call import Outcome, ToolCall
from remit.core.contents import LineRange
from remit.core.intent import Intent
from remit.core.once import Once
from remit.core.record import Body, Record, Vcs
from remit.core.text import shown
from remit.gate import effects
from remit.gate.announced import FileTool
from remit.gate.answer import Attempts
from remit.gate.conflicts import less_settled
from remit.gate.placed import placed
from remit.gate.proved import unproved, whole_of, without
from remit.gate.site import Site
from remit.gate.sole_writer import solely_written
from remit.gate.state import PendingCall, Session
from remit.gate.windows import Windows, sessions_of
from remit.workspace.observe import Change
from remit.workspace.transcripts import last_model


class CallRecords:
    """Makes the records of one call."""

    def __init__(self, site: Site) -> None:
        self.site = site
        self.remarks: tuple[str, ...] = ()
        """What the comparison could not see."""
        self.row: int | None = None
        """Where the state has the call."""

    @Once
    def vcs(self) -> Vcs | None:
        """HEAD when the call came back: its records agree on it."""
        return self.site.recorder.vcs

    def of(
        self, call: ToolCall, outcome: Outcome, pending: PendingCall | None, done: tuple[Change, ...], tries: Attempts
    ) -> tuple[Record, ...]:
        """The records of a call that came back: its effects first."""
        session = tries.made(lambda: self.site.state.active(call.session), Session())
        result = self.result_record(call, outcome, pending.intent_id if pending else session.intent_id)
        if not done:
            return (result,)
        tries.made(lambda: self.site.keep(contents_of(done)), None)
        known = tries.made(lambda: self.differences(call, outcome, done), {})
        model = model_of(call) or session.model
        return (*self.of_changes(call, outcome, pending, done, known, model, tries), result)

    def of_changes(
        self,
        call: ToolCall,
        outcome: Outcome,
        pending: PendingCall | None,
        done: tuple[Change, ...],
        known: Mapping[str, effects.Difference],
        model: str | None,
        tries: Attempts,
    ) -> list[Record]:
        """What the call changed, and what git brought with it, each in a record of its own."""
        own, old = tuple(c for c in done if not c.brought and not c.shared), tuple(c for c in done if c.brought)
        unclear = tuple(c for c in done if c.shared)
        nobodys = {c.path: whole_of(c) for c in own if c.after}
        left = tries.made(lambda: self.left_open(call, outcome, pending, own, known), nobodys)
        likely = tries.made(lambda: self.likely(call, pending, [c for c in own if left.get(c.path)]), frozenset[str]())
        return [
            *([self.mutation_record(call, outcome, pending, own, known, left, likely, model)] if own else []),
            *([self.brought_record(call, pending, old)] if old else []),
            *([self.unclear_record(call, unclear)] if unclear else []),
        ]

    def differences(self, call: ToolCall, outcome: Outcome, done: tuple[Change, ...]) -> dict[str, effects.Difference]:
        """What the call put into each file."""
        positions = {path: r for raw, r in outcome.positions.items() for path in self.site.inside_paths(call, (raw,))}
        known = effects.differences(done, positions, self.site.store)
        return {**known, **dict(placed(call, done, known, self.site.workspace, self.site.environment))}

    def mutation_record(
        self,
        call: ToolCall,
        outcome: Outcome,
        pending: PendingCall | None,
        done: tuple[Change, ...],
        known: Mapping[str, effects.Difference],
        left: Mapping[str, tuple[LineRange, ...]],
        likely: Collection[str],
        model: str | None,
    ) -> Record:
        """The record of what changed. `left` are the lines that nothing proves to be the call's, and `likely` the paths
        where they are likely its own.
        """
        intent, session = intent_then(pending), call.session.session_id
        added = {c.path: d.added if (d := known.get(c.path)) else () for c in done}
        all_ = {c.path: effects.traced_ranges(c.after, added[c.path]) for c in done}
        own = {
            c.path: effects.traced_ranges(c.after, without(added[c.path], left[c.path]))
            if left.get(c.path)
            else all_[c.path]
            for c in done
        }
        open_ = {c.path: effects.traced_ranges(c.after, left.get(c.path, ())) for c in done}
        changed = tuple(
            effects.mutated_file(
                c, intent, all_[c.path], known.get(c.path), left.get(c.path, ()), likely=c.path in likely
            )
            for c in done
        )
        body = effects.mutation_body(call, outcome, pending, intent, changed)
        files = tuple(
            effects.traced_file(c.path, own[c.path], session, body_intent(body), model, open_[c.path]) for c in done
        )
        return self.site.recorder.record(body, call.agent, files, vcs=self.vcs)

    def likely(self, call: ToolCall, pending: PendingCall | None, done: Sequence[Change]) -> frozenset[str]:
        """The paths of these changes that nothing but this command can be seen to have written."""
        if pending is None or not pending.whole or not done:
            return frozenset()
        return solely_written(self.site, call, pending, self.row, done)

    def committed_record(
        self, call: ToolCall, outcome: Outcome, pending: PendingCall | None, done: tuple[Change, ...]
    ) -> Record:
        """The record of what commits of the call hold beside its files. Raises OSError."""
        self.site.keep(contents_of(done))
        known = effects.differences(done, {}, self.site.store)
        model = self.site.state.active(call.session).model
        return self.mutation_record(call, outcome, pending, done, known, {}, (), model)

    def left_open(
        self,
        call: ToolCall,
        outcome: Outcome,
        pending: PendingCall | None,
        done: tuple[Change, ...],
        known: Mapping[str, effects.Difference],
    ) -> dict[str, tuple[LineRange, ...]]:
        """By path, the new lines that nothing proves to be the call's. What a contained command left is its own, but
        for what it only carried.
        """
        workspace, around = self.site.workspace, self.site.environment
        left: dict[str, tuple[LineRange, ...]] = {}
        if pending is None or pending.whole:
            left = unproved(call, pending, done, known, workspace, around)
        elif pending.effect != "execute":
            left = FileTool(call, outcome, pending, self.site.store).left_open(done, known, workspace, around)
        return less_settled(left, done, known)

    def brought_record(self, call: ToolCall, pending: PendingCall | None, done: tuple[Change, ...]) -> Record:
        """Return the record of contents that git brought from older commits in this call.

        The call wrote none of their lines, and nobody undoes them. But it was the call that ran git: the record names
        it, its session and intent, and the decision with the yes that let it through.
        """
        body = Body(
            event="human_edit",
            intent_id=pending.intent_id if pending else None,
            session_id=call.session.session_id,
            agent_id=call.session.agent_id or UNSET,
            call=effects.call_part(call),
            files=tuple(effects.mutated_file(c, None, ()) for c in done),
            decision=effects.decision_part(pending) if pending else UNSET,
            covered=True,
            detail={"origin": "git", "noticed_in": call.session.session_id},
        )
        return self.site.recorder.record(body, call.agent, vcs=self.vcs)

    def unclear_record(self, call: ToolCall, done: tuple[Change, ...]) -> Record:
        """The record of changes that commands of several sessions may have made: no one of them is named alone."""
        windows = Windows(self.site.state, self.site.environment.clock())
        body = Body(
            event="human_edit",
            intent_id=None,
            session_id=None,
            files=tuple(effects.mutated_file(c, None, ()) for c in done),
            covered=False,
            detail={
                "origin": "unknown",
                "candidates": windows.described(sessions_of(done), call),
                "noticed_in": call.session.session_id,
            },
        )
        return self.site.recorder.record(body)

    def result_record(self, call: ToolCall, outcome: Outcome, intent_id: str | None) -> Record:
        """The record that the call came back."""
        result = {"ok": outcome.ok, "exit_code": outcome.exit_code, "summary": shown(effects.redacted(outcome.summary))}
        body = Body(
            event="tool_result",
            intent_id=intent_id,
            session_id=call.session.session_id,
            agent_id=call.session.agent_id or UNSET,
            call=effects.call_part(call),
            result=result,
            detail={"observation": list(self.remarks)} if self.remarks else UNSET,
            duration_ms=UNSET if outcome.duration_ms is None else outcome.duration_ms,
        )
        return self.site.recorder.record(body, call.agent, vcs=self.vcs)


def intent_then(pending: PendingCall | None) -> Intent | None:
    """The intent as it was when the call was let through."""
    if pending is None or pending.intent_id is None:
        return None
    return Intent(pending.intent_id, pending.owned_scope)


def contents_of(done: Iterable[Change]) -> Iterator[tuple[str, bytes]]:
    """Both sides of each change, where they are at hand."""
    return effects.keepable((c.path, side) for c in done for side in (c.before, c.after))


def body_intent(body: Body) -> str | None:
    """The intent of a record's body."""
    return body.intent_id if isinstance(body.intent_id, str) else None


def model_of(call: ToolCall) -> str | None:
    """Return the model that the call's transcript tells. A sub-agent's own is not written yet at its first call: then
    its parent's, whose model it takes over unless it was given another.
    """
    own = call.transcript or ""
    parent = own.rpartition("/subagents/")[0]
    places = [own, f"{parent}.jsonl" if parent and call.session.parent is not None else ""]
    return next((found for place in places if place and (found := last_model(Path(place)))), None)

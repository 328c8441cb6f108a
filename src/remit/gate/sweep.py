"""What no hook told: calls that never came back, and changes that no record explains."""

from collections.abc import Callable, Iterator

from msgspec import UNSET

from remit.core.call import Outcome, SessionKey, ToolCall
from remit.core.contents import Version
from remit.core.record import Body, Record
from remit.gate import effects
from remit.gate.answer import Attempts
from remit.gate.observed import explain, last_observed, observed_head, remember
from remit.gate.remembering import Remembering, contents_of
from remit.gate.site import Site
from remit.gate.state import OpenCall, PendingCall
from remit.workspace.git import GitError
from remit.workspace.observe import Change, Observation, changes, identity, observe
from remit.workspace.place import FOLDER
from remit.workspace.versions import Seen

RECORDED_OTHERWISE = f"{FOLDER}/active_intents.yaml"
"""Each of its contents has a record of its own, whoever changed it."""

FILES_PER_RECORD = 200


class Sweep:
    """Settles what is open in one workspace. Each step is tried; what failed is in `tries`."""

    def __init__(self, site: Site) -> None:
        self.site = site
        self.state = site.state
        self.tries = Attempts()

    def swept(self, when: str, mine: Callable[[SessionKey], bool], session: SessionKey | None = None) -> str:
        """Settle the calls of the sessions that `mine` names, and those idle too long; then look for other changes.

        What could not be done, in words. `when` and `session` say on what occasion this looked.
        """
        idle = self.site.environment.clock() - self.site.governing.config.session.idle_minutes * 60
        for call in self.tries.made(self.state.open_calls, []):
            if mine(call.session) or call.at < idle:
                self.tries.made(lambda call=call: self.settle(call), None)
        self.tries.made(lambda: self.unexplained(when, session), None)
        return self.tries.said

    def settle(self, open_call: OpenCall) -> None:
        """Record what became of a call that never came back."""
        pending = open_call.pending
        if not self.state.drop_call(open_call.row) or pending is None:
            return
        call, remembering = called(open_call, pending, str(self.site.workspace.root)), Remembering(self.site)
        explained = {o.path: o.version for o in last_observed(self.state)}
        done = tuple(
            c for c in remembering.effects_of(call, pending) if c.path not in explained or not same(c, explained)
        )
        records: list[Record] = [self.missing(call, pending)]
        if done:
            self.site.keep(contents_of(done))
            ranges = remembering.ranges_of(call, Outcome(), done)
            model = self.state.active(call.session).model
            records = [*remembering.change_records(call, Outcome(), pending, done, ranges, model), *records]
        self.site.recorder.append_or_spool(records, sync=bool(done))
        explain(self.state, done)

    def missing(self, call: ToolCall, pending: PendingCall) -> Record:
        """The record that no result was ever told."""
        body = Body(
            event="tool_result",
            intent_id=pending.intent_id,
            session_id=call.session.session_id,
            agent_id=call.session.agent_id or UNSET,
            call=effects.call_part(call),
            result={"ok": None, "missing": True},
        )
        return self.site.recorder.record(body, call.agent)

    def unexplained(self, when: str, session: SessionKey | None) -> None:
        """Record the changes since the last observation that no record explains, and observe anew.

        While any call is under way nobody can tell whose a change is: then this waits for the next occasion.
        """
        if self.state.open_calls():
            return
        after = observe(self.site.workspace)
        before = self.before()
        if before is not None:
            self.record(self.differences(before, after), when, session)
        remember(self.state, after)

    def before(self) -> Observation | None:
        """The last observation with what was recorded since; None before the first."""
        head = observed_head(self.state)
        if head is None:
            return None
        found = {o.path: Seen(o.version, None) if o.version else None for o in last_observed(self.state)}
        return Observation(head or None, found)

    def differences(self, before: Observation, after: Observation) -> tuple[Change, ...]:
        """What changed; nothing can be told where the commit that it stood on is gone."""
        try:
            found = changes(self.site.workspace, before, after)
        except GitError:
            return ()
        return tuple(c for c in found if c.path != RECORDED_OTHERWISE)

    def record(self, found: tuple[Change, ...], when: str, session: SessionKey | None) -> None:
        """Write down changes of unknown origin. No session is named as theirs, only which one's end showed them."""
        if not found:
            return
        self.site.keep(contents_of(found))
        records = [self.edit(part, when, session) for part in parts(found)]
        self.site.recorder.append_or_spool(records)

    def edit(self, found: tuple[Change, ...], when: str, session: SessionKey | None) -> Record:
        """One record of changed files."""
        detail: dict[str, object] = {"origin": "unknown", "noticed_at": when}
        if session is not None:
            detail["noticed_in"] = session.session_id
        body = Body(
            event="human_edit",
            intent_id=None,
            session_id=None,
            files=tuple(effects.mutated_file(c, None, ()) for c in found),
            covered=False,
            detail=detail,
        )
        return self.site.recorder.record(body)


def parts(found: tuple[Change, ...]) -> Iterator[tuple[Change, ...]]:
    """The changes, as many at a time as one record holds."""
    return (found[at : at + FILES_PER_RECORD] for at in range(0, len(found), FILES_PER_RECORD))


def called(open_call: OpenCall, pending: PendingCall, root: str) -> ToolCall:
    """The call as far as it was kept."""
    return ToolCall(
        agent=pending.agent,
        session=open_call.session,
        tool=open_call.tool,
        effect=pending.effect,
        cwd=root,
        call_id=open_call.call_id,
        arguments_sha256=open_call.arguments_sha256,
        whole_workspace=pending.whole,
        transcript=pending.transcript,
    )


def same(change: Change, explained: dict[str, Version | None]) -> bool:
    """Whether the content that is there now is one that a record explains already."""
    version = explained[change.path]
    return identity(change.after) == (None if version is None else (version.sha256, version.mode))

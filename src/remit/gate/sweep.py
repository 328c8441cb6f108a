"""What no hook told: calls that never came back, and changes that no record explains."""

from collections.abc import Callable

from msgspec import UNSET

from remit.core.call import Outcome, SessionKey, ToolCall
from remit.core.contents import Version
from remit.core.record import Body, Record
from remit.gate import effects
from remit.gate.answer import Attempts
from remit.gate.between import Between
from remit.gate.observed import explain, last_observed
from remit.gate.remembering import Remembering, contents_of
from remit.gate.site import Site
from remit.gate.state import OpenCall, PendingCall
from remit.workspace.observe import Change, identity


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
        for call in self.tries.made(self.state.open_calls, []):
            if mine(call.session) or call.at < self.idle_since:
                self.tries.made(lambda call=call: self.settle(call), None)
        self.tries.made(lambda: self.unexplained(when, session), None)
        return self.tries.said

    def settled_idle(self) -> str:
        """The same where nothing happened but that time went by; nothing is looked at where no call is that old."""
        if any(call.at < self.idle_since for call in self.tries.made(self.state.open_calls, [])):
            return self.swept("idle", lambda _: False)
        return self.tries.said

    @property
    def idle_since(self) -> float:
        """When a call that is still under way was let through too long ago."""
        return self.site.environment.clock() - self.site.governing.config.session.idle_minutes * 60

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
            known = remembering.differences(call, Outcome(), done)
            model = self.state.active(call.session).model
            records = [*remembering.change_records(call, Outcome(), pending, done, known, model), *records]
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
        """Record the changes since the last observation that no record explains, and observe anew."""
        Between(self.site).noticed_everywhere(when, self.site.observe(fully=True), session)


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

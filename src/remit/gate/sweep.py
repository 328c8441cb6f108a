"""What no hook told: calls that never came back, and changes that no record explains.

A call that never came back has no end: what changed since it began may be a person's. So in enforce only that is undone
which is the call's for certain: what its own text says word by word, and what a process of it is seen to write.
"""

import sqlite3
from collections.abc import Callable, Mapping
from typing import Any

from msgspec import UNSET

from remit.core.call import Outcome, SessionKey, ToolCall
from remit.core.contents import Version
from remit.core.record import KEY, Body, Record
from remit.gate import effects
from remit.gate.answer import Attempts
from remit.gate.between import Between
from remit.gate.call_records import contents_of
from remit.gate.lingering import Lingering
from remit.gate.observed import explain, last_observed
from remit.gate.proved import all_said
from remit.gate.remembering import Remembering
from remit.gate.site import Site
from remit.gate.state import OpenCall, PendingCall
from remit.gate.undoing import NOTHING, Undoing, Undone
from remit.gate.undone_words import in_words
from remit.gate.untold import Untold
from remit.ledger.index import Index
from remit.ledger.segments import LedgerError
from remit.workspace.observe import Change, Observation, identity

LOOKED_BACK = 1000
"""The newest calls of a session among whose records the one that never came back is looked for."""


class Sweep:
    """Settles what is open in one workspace. Each step is tried; what failed is in `tries`."""

    def __init__(self, site: Site) -> None:
        self.site = site
        self.state = site.state
        self.tries = Attempts()
        self.seen: Observation | None = None
        """The workspace as it was found, where nothing was undone since."""

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
            known = remembering.records.differences(call, Outcome(), done)
            model = self.state.active(call.session).model
            changed = remembering.records.of_changes(call, Outcome(), pending, done, known, model, self.tries)
            records = [*changed, *records]
            self.site.recorder.append_or_spool(records, sync=True)
            after = remembering.after
            undone = self.tries.made(lambda: self.undone(call, pending, done, known, after), NOTHING)
            explain(self.state, undone.as_left(done))
        else:
            self.site.recorder.append_or_spool(records)

    def undone(
        self,
        call: ToolCall,
        pending: PendingCall,
        done: tuple[Change, ...],
        known: Mapping[str, effects.Difference],
        after: Observation | None,
    ) -> Undone:
        """In enforce, undo what the call had no right to, where it is the call's for certain; told when it is heard."""
        if after is None or pending.mode != "enforce" or not pending.whole:
            return NOTHING
        words, made = self.words_of(call), Lingering(self.site).made(done, loose=True)
        certain = tuple(
            c
            for c in done
            if all_said(c, known.get(c.path), words)
            or (c.path in made and made[c.path].session == call.session.session_id)
        )
        found = Undoing(self.site).undone(call, pending, certain, after)
        Untold(self.state).also(call.session, in_words(call, pending, found))
        return found

    def words_of(self, call: ToolCall) -> str:
        """The command of a call, as its record holds it; empty where no record does. Raises OSError, LedgerError."""
        workspace = self.site.workspace
        try:
            with Index.open(workspace.state / "index.db", workspace.log_folder) as index:
                found = index.find(event="tool_use", session_id=call.session.session_id, limit=LOOKED_BACK)
        except sqlite3.Error as error:
            raise LedgerError(f"the index of the ledger cannot be asked: {error}") from error
        parts = (record["metadata"][KEY].get("call", {}) for record in found)
        return next((str(part.get("command", "")) for part in parts if is_of(part, call)), "")

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
        seen = self.site.observe(fully=True)
        undone = Between(self.site).noticed_everywhere(when, seen, session)
        self.seen = None if undone else seen


def is_of(part: Mapping[str, Any], call: ToolCall) -> bool:
    """Whether a record's `call` is of this one."""
    if call.call_id:
        return part.get("id") == call.call_id
    return (part.get("name"), part.get("arguments_sha256")) == (call.tool, call.arguments_sha256)


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

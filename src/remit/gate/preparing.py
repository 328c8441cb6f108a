"""Before a call that may go on: what it may change is looked at and kept, and the call is remembered."""

import os
from pathlib import Path

from remit.core.call import ToolCall
from remit.core.decision import Decision
from remit.core.facts import Facts
from remit.gate import effects
from remit.gate.announced import announced
from remit.gate.between import Between, put_loose
from remit.gate.companions import scope_then
from remit.gate.governing import Governing
from remit.gate.guarded import Guarded
from remit.gate.site import Site
from remit.gate.snapshots import Kept, Snapshots
from remit.gate.state import PendingCall
from remit.policy.commands import analyse
from remit.workspace.history import known_commits
from remit.workspace.observe import Observation, observe_paths, versions


class Preparing:
    """Prepares one workspace for a call."""

    def __init__(self, site: Site) -> None:
        self.site = site

    def prepared(self, call: ToolCall, facts: Facts, decision: Decision, rules: Governing) -> Kept:
        """Look at what the call may change, keep it, and remember that the call is under way, unless it may not be."""
        now = self.site.environment.clock()
        judged = tuple(str(t.path) for t in facts.targets if t.path is not None)
        whole = call.whole_workspace or call.remit_tool is not None
        before = self.site.observe() if whole else observe_paths(self.site.workspace, judged)
        if self.between(call, before):
            before = self.site.observe()
        self.site.keep(effects.keepable(before.files.items()))
        if whole:
            Guarded(self.site.workspace).keep(before.files)
        kept = Snapshots(self.site).before(call, facts, decision, before)
        if kept.refusal is not None:
            return kept
        pending = PendingCall(
            intent_id=facts.session.intent_id,
            verdict=decision.verdict,
            mode=decision.mode,
            rules=tuple(f.rule for f in decision.findings),
            judged=judged,
            whole=whole,
            head=before.head,
            before=versions(before),
            intent_sha256=rules.document.sha256 if rules.document else "",
            agent=call.agent,
            effect=call.effect,
            transcript=call.transcript,
            owned_scope=scope_then(facts, decision),
            known_commits=known_commits(self.site.workspace, before.head) if whole else (),
            writes=writes_of(call, facts),
            announced={} if whole else announced(call, facts.targets, before),
            grants=decision.grants,
            snapshot=kept.snapshot,
            places=() if whole else tuple(t.resolved for t in facts.targets),
            spelled=() if whole else tuple(os.path.normpath(Path(call.cwd, t.raw)) for t in facts.targets),
        )
        self.site.state.put_call(call.session, call.call_id, call.tool, call.arguments_sha256, pending, now)
        if call.transcript:
            self.site.state.put_transcript(call.session, call.agent, call.transcript)
        return kept

    def between(self, call: ToolCall, before: Observation) -> bool:
        """What changed since the last call, before this one can have done it; whether anything of that was undone."""
        between, undone = Between(self.site), False
        if call.whole_workspace:
            undone = between.noticed_everywhere("before a command", before, call.session)
            put_loose(self.site.state, call.session.session_id)
        elif call.remit_tool is None:
            between.noticed("before an edit", before.files, call.session)
        return undone


def writes_of(call: ToolCall, facts: Facts) -> tuple[str, ...] | None:
    """All that a command writes in the workspace, where its text tells; None where it does not, or is no command."""
    if call.command is None or call.unproved or analyse(call.command).outcome != "literal_writes":
        return None
    return tuple(str(t.path) for t in (*facts.targets, *facts.perhaps) if t.path is not None)

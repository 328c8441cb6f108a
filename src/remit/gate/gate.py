"""The gate: what every door calls before a tool runs, and after.

The eight steps of a call, as `docs/explanation/one-tool-call.md` tells them, meet here: gather (4), decide (5),
enforce (6), remember (8).
"""

from collections.abc import Iterable
from functools import cached_property
from pathlib import Path

from msgspec import UNSET, Struct

from remit.core.call import Outcome, SessionKey, ToolCall, hash_arguments
from remit.core.contents import git_blob
from remit.core.decision import UNGOVERNED, Decision, Finding, Mode
from remit.core.events import SessionEnded, SessionStarted
from remit.core.facts import Facts
from remit.core.record import Body, DecisionPart, Record
from remit.core.text import shown
from remit.gate import effects
from remit.gate.environment import Environment
from remit.gate.gather import gather
from remit.gate.governing import Governing, governing, mark
from remit.gate.intents import Intents
from remit.gate.protocol import protocol
from remit.gate.recorder import Recorder
from remit.gate.state import PendingCall, RemitCall, Session, State, StateError
from remit.ledger.segments import LedgerError
from remit.policy.classify import classify
from remit.policy.engine import decide
from remit.policy.violations import explain, violation_of
from remit.workspace.contents import ContentStore
from remit.workspace.git import GitError
from remit.workspace.observe import Change, Observation, at_commit, changes, glance, observe, observe_paths, versions
from remit.workspace.place import Workspace, locate
from remit.workspace.transcripts import last_model

CannotRecord = (StateError, LedgerError, GitError, OSError)
"""What can keep a record from being written: disk, database, git."""


class Answer(Struct, frozen=True):
    """What a door passes on: the decision, the denial in words, and context for the model."""

    decision: Decision
    reason: str = ""
    context: str = ""


class Gate:
    """The gate of one workspace. Where nothing is governed, it allows all and records nothing."""

    def __init__(self, workspace: Workspace | None, environment: Environment) -> None:
        self.found = workspace
        self.environment = environment

    @classmethod
    def open(cls, path: Path | str, environment: Environment | None = None) -> "Gate":
        """The gate of the workspace that holds `path`, which need not exist."""
        return cls(locate(Path(path)), environment or Environment.here())

    @property
    def governed(self) -> bool:
        """Whether there is anything to enforce or to record here."""
        return self.found is not None and self.found.governed

    @property
    def workspace(self) -> Workspace:
        """The workspace; only for a gate that has one."""
        if self.found is None:
            raise LookupError(
                "there is no workspace here: run this inside a git repository, or `remit intent new` first"
            )
        return self.found

    @cached_property
    def state(self) -> State:
        """The state database. Raises StateError."""
        return State(self.workspace.state / "state.db", self.workspace.root)

    @cached_property
    def recorder(self) -> Recorder:
        """Who writes the records."""
        return Recorder(self.workspace, self.environment)

    @cached_property
    def store(self) -> ContentStore:
        """Where contents are kept. Raises OSError where this machine has no name."""
        return ContentStore(self.workspace, self.recorder.machine)

    @property
    def governing(self) -> Governing:
        """What governs at this moment."""
        return governing(self.workspace)

    @property
    def intents(self) -> Intents:
        """Intents: list, select, clear, complete, make, edit."""
        return Intents(self.workspace, self.state, self.recorder)

    # -- before ---------------------------------------------------------------------------------------------

    def before(self, call: ToolCall) -> Answer:
        """Steps 4 to 6. The decision is recorded before it is returned."""
        if not self.governed:
            return Answer(UNGOVERNED)
        try:
            return self.judged(call)
        except CannotRecord as error:
            return self.unrecordable(call, error)

    def judged(self, call: ToolCall) -> Answer:
        """The answer, recorded. Raises what CannotRecord names."""
        rules = self.governing
        self.notice(rules)
        gathered = gather(call, self.workspace, rules, self.state, self.store, self.environment)
        call, facts = gathered.call, gathered.facts
        decision = decide(call, facts)
        if call.remit_tool is not None:
            self.announce(call)
        if decision.effect != "allow":
            return self.refused(call, facts, decision)
        if decision.call_class == "destructive":
            self.prepare(call, facts, decision, rules)
        self.recorder.append([self.use_record(call, facts, decision, rules), *self.broken(call, decision)])
        return Answer(decision, context=self.remark(call, decision))

    def announce(self, call: ToolCall) -> None:
        """Tell the MCP server whose call it is about to get: the hook knows, the server does not."""
        digest = hash_arguments([call.remit_tool, call.arguments_sha256])
        self.state.put_remit_call(RemitCall(call.session, call.agent), call.call_id, digest, self.environment.clock())

    def refused(self, call: ToolCall, facts: Facts, decision: Decision) -> Answer:
        """A denial, recorded, in words. One that delivers the difference counts as a read."""
        violation = violation_of(call, decision)
        if violation is None:
            raise AssertionError("a refusal has a finding")
        body = Body(
            event="denied",
            intent_id=facts.session.intent_id,
            session_id=call.session.session_id,
            agent_id=call.session.agent_id or UNSET,
            call=effects.call_part(call, named(facts)),
            decision=self.decision_part(decision),
            violation=effects.as_document(violation),
        )
        self.recorder.append([self.recorder.record(body, call.agent), *self.broken(call, decision)])
        if violation.error_type == "STALE_FILE" and violation.context.get("diff"):
            self.saw(call.session, [str(t.path) for t in facts.targets if t.path is not None])
        return Answer(decision, reason=explain(violation))

    def prepare(self, call: ToolCall, facts: Facts, decision: Decision, rules: Governing) -> None:
        """Look at what the call may change, keep it, and remember that the call is under way."""
        judged = tuple(str(t.path) for t in facts.targets if t.path is not None)
        before = observe(self.workspace) if call.whole_workspace else observe_paths(self.workspace, judged)
        self.keep(found.content for found in before.files.values() if found and found.content is not None)
        pending = PendingCall(
            intent_id=facts.session.intent_id,
            verdict=decision.verdict,
            mode=decision.mode,
            rules=tuple(f.rule for f in decision.findings),
            judged=judged,
            whole=call.whole_workspace,
            head=before.head,
            before=versions(before),
            intent_sha256=rules.document.sha256 if rules.document else "",
        )
        now = self.environment.clock()
        self.state.put_call(call.session, call.call_id, call.tool, call.arguments_sha256, pending, now)

    def use_record(self, call: ToolCall, facts: Facts, decision: Decision, rules: Governing) -> Record:
        """The record of a call that may go on."""
        body = Body(
            event="tool_use",
            intent_id=facts.session.intent_id,
            session_id=call.session.session_id,
            agent_id=call.session.agent_id or UNSET,
            call=effects.call_part(call, named(facts)),
            decision=self.decision_part(decision, rules),
        )
        return self.recorder.record(body, call.agent)

    def decision_part(self, decision: Decision, rules: Governing | None = None) -> DecisionPart:
        """The decision as records hold it."""
        document = rules.document if rules else None
        return DecisionPart(
            effect=decision.effect,
            verdict=decision.verdict,
            mode=decision.mode,
            rules=tuple(f.rule for f in decision.findings),
            intent_sha256=document.sha256 if document and document.sha256 else UNSET,
        )

    def broken(self, call: ToolCall, decision: Decision) -> list[Record]:
        """A record for each of Remit's own checks that broke."""
        return [
            self.recorder.record(
                Body(
                    event="check_failed",
                    intent_id=decision.intent_id,
                    session_id=call.session.session_id,
                    detail=dict(finding.context),
                )
            )
            for finding in decision.findings
            if "exception" in finding.context
        ]

    def remark(self, call: ToolCall, decision: Decision) -> str:
        """In warn: what enforce would have said, for the model."""
        violation = violation_of(call, decision)
        if violation is None or decision.mode != "warn":
            return ""
        return f"Remit (warn): this went through, but in enforce it would be refused. {explain(violation)}"

    def unrecordable(self, call: ToolCall, error: Exception) -> Answer:
        """A decision that cannot be written down: enforce refuses what may change something; the rest passes."""
        mode = self.mode_now()
        call_class = classify(call)
        trouble = f"Remit cannot keep its records: {error}".strip()
        if mode == "enforce" and call_class == "destructive":
            finding = Finding(
                rule="recording",
                code="HOOK_BLOCKED",
                message=f"{trouble}. Until that is mended, changes are refused: tell the person.",
            )
            decision = Decision("deny", "deny", call_class, mode, (finding,))
            violation = violation_of(call, decision)
            return Answer(decision, reason=explain(violation) if violation else trouble)
        return Answer(Decision("allow", "allow", call_class, mode), context=f"{trouble}. This call was not recorded.")

    def mode_now(self) -> Mode:
        """The mode, from the files alone."""
        try:
            return self.governing.mode
        except CannotRecord:
            return "enforce"

    # -- after ----------------------------------------------------------------------------------------------

    def after(self, call: ToolCall, outcome: Outcome) -> Answer:
        """Step 8. Never turns a success into a failure; what could not be recorded waits, and is said."""
        if not self.governed:
            return Answer(UNGOVERNED)
        passed = Decision("allow", "allow", classify(call), "observe")
        try:
            return Answer(passed, context=self.remembered(call, outcome))
        except CannotRecord as error:
            return Answer(passed, context=f"Remit could not record what this call did: {error}. Tell the person.")

    def remembered(self, call: ToolCall, outcome: Outcome) -> str:
        """Record what came of the call; what the model should know about it."""
        pending = self.state.take_call(call.session, call.call_id, call.tool, call.arguments_sha256)
        destructive = classify(call) == "destructive"
        done = self.effects_of(call, pending) if pending or destructive else ()
        records = [self.result_record(call, outcome, pending)]
        if done:
            records.insert(0, self.mutation_record(call, outcome, pending, done))
        waiting = self.recorder.append_or_spool(records, sync=bool(done))
        self.saw(call.session, self.seen_by(call, done))
        return "\n".join(filter(None, (self.warning(call, pending, done), waiting and said_waiting(waiting))))

    def effects_of(self, call: ToolCall, pending: PendingCall | None) -> tuple[Change, ...]:
        """What the call changed, by comparing; where it was never seen before, against HEAD, its own paths only."""
        if pending is None:
            paths = self.inside(call)
            now = observe_paths(self.workspace, paths)
            head = self.recorder.vcs.revision if self.recorder.vcs else None
            old = at_commit(self.workspace, head, paths) if isinstance(head, str) else dict.fromkeys(paths)
            return changes(self.workspace, Observation(None, old), now)
        after = observe(self.workspace) if pending.whole else observe_paths(self.workspace, pending.judged)
        return changes(self.workspace, self.restored(pending), after)

    def restored(self, pending: PendingCall) -> Observation:
        """The observation from before the call, its contents from the store."""
        return Observation(pending.head, {p: effects.reseen(v, self.store) for p, v in pending.before.items()})

    def mutation_record(
        self, call: ToolCall, outcome: Outcome, pending: PendingCall | None, done: tuple[Change, ...]
    ) -> Record:
        """The record of what changed; both contents are kept first."""
        self.keep(s.content for change in done for s in (change.before, change.after) if s and s.content is not None)
        positions = {path: r for raw, r in outcome.positions.items() for path in self.inside_paths(call, (raw,))}
        ranges = effects.added_ranges(done, positions, self.store)
        intent = self.intents.known(pending.intent_id if pending else None)
        model = self.model_of(call)
        traced = {c.path: effects.traced_ranges(c.after, ranges.get(c.path, ())) for c in done}
        body = effects.mutation_body(
            call, outcome, pending, intent, tuple(effects.mutated_file(c, intent, traced[c.path]) for c in done)
        )
        files = tuple(
            effects.traced_file(c.path, traced[c.path], call.session.session_id, body_intent(body), model) for c in done
        )
        return self.recorder.record(body, call.agent, files)

    def model_of(self, call: ToolCall) -> str | None:
        """The model behind the call, as `vendor/model` where the agent's row names a vendor."""
        session = self.state.active(call.session)
        told = last_model(Path(call.transcript)) if call.transcript else None
        return told or session.model

    def result_record(self, call: ToolCall, outcome: Outcome, pending: PendingCall | None) -> Record:
        """The record that the call came back."""
        result = {"ok": outcome.ok, "exit_code": outcome.exit_code, "summary": shown(effects.redacted(outcome.summary))}
        body = Body(
            event="tool_result",
            intent_id=pending.intent_id if pending else self.state.active(call.session).intent_id,
            session_id=call.session.session_id,
            agent_id=call.session.agent_id or UNSET,
            call=effects.call_part(call),
            result=result,
            duration_ms=UNSET if outcome.duration_ms is None else outcome.duration_ms,
        )
        return self.recorder.record(body, call.agent)

    def warning(self, call: ToolCall, pending: PendingCall | None, done: tuple[Change, ...]) -> str:
        """What the model is told about effects that its intent does not own."""
        if pending is None or not pending.intent_id or not pending.whole:
            return ""
        intent = self.intents.known(pending.intent_id)
        stray = [c.path for c in done if not effects.in_scope(c.path, intent)]
        if not stray:
            return ""
        names = ", ".join(shown(path, 120) for path in stray[:10]) + (" …" if len(stray) > 10 else "")
        return (
            f"Remit: this {call.tool} call changed {names}, outside the scope of {pending.intent_id}. It is "
            "recorded as out of scope. Undo those changes, and do such work with your file tools inside the scope."
        )

    # -- what both sides use --------------------------------------------------------------------------------

    def keep(self, contents: Iterable[bytes]) -> None:
        """Keep contents that were not kept before."""
        named_contents = {git_blob(content): content for content in contents}
        fresh = self.state.unkept(set(named_contents))
        self.store.keep([named_contents[name] for name in fresh])
        if fresh:
            self.state.put_kept(fresh)

    def saw(self, session: SessionKey, paths: Iterable[str]) -> None:
        """This session knows what is in these files now."""
        now = {path: glance(self.workspace.root / path) for path in paths}
        if not now:
            return
        self.keep(found.content for found in now.values() if found and found.content is not None)
        self.state.put_seen(session, {path: found.version if found else None for path, found in now.items()})

    def seen_by(self, call: ToolCall, done: tuple[Change, ...]) -> list[str]:
        """The files whose content the session knows after this call: what it read, and what it wrote."""
        if call.whole_workspace:
            return [c.path for c in done if self.state.seen(call.session, c.path) is not None]
        return self.inside(call)

    def inside(self, call: ToolCall) -> list[str]:
        """The call's paths that lie in the workspace."""
        return self.inside_paths(call, call.paths)

    def inside_paths(self, call: ToolCall, raws: Iterable[str]) -> list[str]:
        """These paths, as far as they lie in the workspace."""
        return effects.inside(self.workspace, call, raws, self.environment)

    def notice(self, rules: Governing) -> None:
        """Record that the intents file changed, whoever changed it, and keep the marker for the client true."""
        self.intents.notice(rules, by="unknown")
        mark(self.workspace, rules.mode)

    # -- sessions -------------------------------------------------------------------------------------------

    def started(self, event: SessionStarted, agent: str) -> str:
        """A session began, or lost its context: the protocol, and its intent where it has one."""
        if not self.governed:
            return ""
        rules = self.governing
        self.notice(rules)
        known = self.state.session(event.session)
        session = Session(
            agent=agent,
            model=event.model or (known.model if known else None),
            intent_id=known.intent_id if known else None,
            source=known.source if known else "",
        )
        self.state.put_session(event.session, session, self.environment.clock())
        detail = {"agent": agent, "model": session.model, "cwd": event.cwd, "source": event.source}
        body = Body(
            event="session_start",
            intent_id=session.intent_id,
            session_id=event.session.session_id,
            detail={key: value for key, value in detail.items() if value is not None},
        )
        self.recorder.append_or_spool([self.recorder.record(body, agent)])
        return "\n\n".join(
            filter(None, (protocol(rules.mode, rules.document), self.intents.block_to_tell(event.session)))
        )

    def prompted(self, session: SessionKey, agent: str) -> str:
        """A person wrote: the intent's block where it changed since the session was told."""
        if not self.governed:
            return ""
        self.notice(self.governing)
        if self.state.session(session) is None:
            self.state.put_session(session, Session(agent=agent), self.environment.clock())
        return self.intents.block_to_tell(session, only_changed=True)

    def ended(self, event: SessionEnded, agent: str) -> None:
        """The conversation is over; the intent stays, for a resume."""
        if not self.governed:
            return
        body = Body(
            event="session_end",
            intent_id=self.state.active(event.session).intent_id,
            session_id=event.session.session_id,
            detail={"reason": shown(event.reason, 100)},
        )
        self.recorder.append_or_spool([self.recorder.record(body, agent)])


def named(facts: Facts) -> list[str]:
    """The paths of a call as records name them."""
    return [str(t.path) if t.path is not None else shown(t.resolved) for t in facts.targets]


def body_intent(body: Body) -> str | None:
    """The intent of a record's body."""
    return body.intent_id if isinstance(body.intent_id, str) else None


def said_waiting(why: str) -> str:
    """What the model is told when a record had to wait."""
    return f"Remit could not write its log ({why.splitlines()[0]}); the record waits in the spool. Tell the person."

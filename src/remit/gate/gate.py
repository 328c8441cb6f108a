"""The gate: what every door calls before a tool runs, and after.

The eight steps of a call, as `docs/explanation/one-tool-call.md` tells them, meet here: gather (4), decide (5),
enforce (6), remember (8).
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import cached_property
from pathlib import Path
from typing import TypeVar

from msgspec import UNSET, Struct
from msgspec.structs import replace

from remit.core.call import Outcome, SessionKey, ToolCall, hash_arguments
from remit.core.contents import LineRange, git_blob
from remit.core.decision import UNGOVERNED, Decision, ErrorType, Finding, Mode
from remit.core.events import SessionEnded, SessionStarted
from remit.core.facts import Facts
from remit.core.intent import INTENT_ID
from remit.core.record import Body, DecisionPart, Record
from remit.core.text import shown
from remit.gate import effects
from remit.gate.approvals import Approvals
from remit.gate.asking import Asking, with_words
from remit.gate.environment import Environment
from remit.gate.gather import gather
from remit.gate.governing import Governing, governing, mark
from remit.gate.intents import Binding, Intents
from remit.gate.protocol import protocol
from remit.gate.recorder import Recorder
from remit.gate.state import PendingCall, RemitCall, Session, State, StateError
from remit.ledger.segments import LedgerError
from remit.policy.classify import classify
from remit.policy.engine import decide
from remit.policy.violations import explain, violation_of
from remit.workspace.contents import ContentStore
from remit.workspace.git import GitError
from remit.workspace.head import branch_name
from remit.workspace.observe import Change, Observation, at_commit, changes, glance, observe, observe_paths, versions
from remit.workspace.place import Workspace, locate
from remit.workspace.transcripts import last_model

T = TypeVar("T")

CannotRecord = (StateError, LedgerError, GitError, OSError)
"""What can keep a record from being written: disk, database, git."""


class Answer(Struct, frozen=True):
    """What a door passes on: the decision, the denial in words, and context for the model."""

    decision: Decision
    reason: str = ""
    context: str = ""


class Attempts:
    """Steps of which each is tried, and what kept some from being done."""

    def __init__(self) -> None:
        self.failed: list[str] = []

    def made(self, step: Callable[[], T], otherwise: T) -> T:
        """What `step` gives; `otherwise` where it cannot be done."""
        try:
            return step()
        except CannotRecord as error:
            self.failed.append(str(error).partition("\n")[0])
            return otherwise

    @property
    def said(self) -> str:
        """What failed, each once, for the model."""
        if not self.failed:
            return ""
        return f"Remit could not do all of its work ({'; '.join(dict.fromkeys(self.failed))}). Tell the person."


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

    def current(self) -> bool:
        """Whether a gate that was kept open still holds what is on disk: its state may have been replaced."""
        try:
            return self.state.current()
        except StateError:
            return False

    @cached_property
    def state(self) -> State:
        """The state database. Raises StateError; also what keeps a repair from being recorded."""
        state = State(self.workspace.state / "state.db", self.workspace.root)
        if state.aside is not None:
            repair = {"reason": "state_damaged", "moved_to": state.aside.name}
            self.recorder.append_or_spool([self.recorder.recovery(repair)])
        return state

    @property
    def news(self) -> str:
        """What has to be said about the state, once it was opened."""
        state = self.__dict__.get("state")
        if not isinstance(state, State) or state.aside is None:
            return ""
        return (
            f"Remit's state was damaged and begins anew; the old file is {state.aside.name}. "
            "No record is lost, but select your intent again."
        )

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
            return self.with_news(self.judged(call))
        except CannotRecord as error:
            return self.unrecordable(call, error)

    def with_news(self, answer: Answer) -> Answer:
        """The answer with what has to be said beside it."""
        if not self.news:
            return answer
        reason = joined(answer.reason, self.news) if answer.reason else ""
        return Answer(answer.decision, reason, joined(answer.context, self.news))

    def judged(self, call: ToolCall, waived: frozenset[ErrorType] = frozenset()) -> Answer:
        """The answer, recorded. Raises what CannotRecord names.

        `waived` are the rules that a person has just waived for this call: all else is judged anew, since the world
        went on while they thought.
        """
        rules = self.governing
        self.notice(rules)
        gathered = gather(call, self.workspace, rules, self.state, self.store, self.environment)
        call, facts = gathered.call, replace(gathered.facts, grants=self.approvals.grants(), waived=waived)
        decision = decide(call, facts)
        reply = None if waived else self.asking.ask(call, facts, decision, rules)
        if reply is not None and reply.allow:
            return self.judged(call, frozenset(f.code for f in decision.findings))
        if reply is not None:
            decision = with_words(decision, reply)
        if call.remit_tool is not None:
            self.announce(call)
        if decision.effect != "allow":
            return self.refused(call, facts, decision)
        if decision.call_class == "destructive":
            self.prepare(call, facts, decision, rules)
        self.recorder.append([self.use_record(call, facts, decision, rules), *self.broken(call, decision)])
        return Answer(decision, context=self.remark(call, decision))

    @cached_property
    def approvals(self) -> Approvals:
        """Questions to a person, and the yeses given so far."""
        return Approvals(self.state, self.environment.clock)

    @property
    def asking(self) -> Asking:
        """Who puts a denial to a person."""
        return Asking(self.approvals, self.recorder, self.environment)

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
            approved_by="person" if decision.grants else None,
            grant=", ".join(decision.grants) or None,
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
        return self.with_news(Answer(passed, context=self.remembered(call, outcome)))

    def remembered(self, call: ToolCall, outcome: Outcome) -> str:
        """Record what came of the call; what the model should know about it.

        A step that fails does not stop the next: the tool has run, and what is known of it must not get lost.
        """
        tries = Attempts()
        pending = self.came_back(call, tries)
        done = tries.made(lambda: self.effects_of(call, pending), ()) if pending or is_destructive(call) else ()
        records = tries.made(lambda: self.records_of(call, outcome, pending, done, tries), ())
        waiting = tries.made(lambda: self.recorder.append_or_spool(records, sync=bool(done)), None)
        if not tries.failed and (outcome.ok or call.effect != "read"):
            tries.made(lambda: self.saw(call.session, self.seen_by(call, done)), None)
        return joined(self.warning(call, pending, done), said_waiting(waiting) if waiting else "", tries.said)

    def came_back(self, call: ToolCall, tries: "Attempts") -> PendingCall | None:
        """The call as it was when it was let through. On a full disk it can be read, though not forgotten."""
        asked = (call.session, call.call_id, call.tool, call.arguments_sha256)
        found = tries.made(lambda: self.state.take_call(*asked), None)
        return tries.made(lambda: self.state.peek_call(*asked), None) if tries.failed else found

    def records_of(
        self, call: ToolCall, outcome: Outcome, pending: PendingCall | None, done: tuple[Change, ...], tries: "Attempts"
    ) -> tuple[Record, ...]:
        """The records of a call that came back: its effects first."""
        session = tries.made(lambda: self.state.active(call.session), Session())
        result = self.result_record(call, outcome, pending.intent_id if pending else session.intent_id)
        if not done:
            return (result,)
        tries.made(lambda: self.keep(contents_of(done)), None)
        ranges = tries.made(lambda: self.ranges_of(call, outcome, done), {})
        model = (last_model(Path(call.transcript)) if call.transcript else None) or session.model
        return (self.mutation_record(call, outcome, pending, done, ranges, model), result)

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

    def ranges_of(self, call: ToolCall, outcome: Outcome, done: tuple[Change, ...]) -> dict[str, tuple[LineRange, ...]]:
        """The lines that the call put into each file."""
        positions = {path: r for raw, r in outcome.positions.items() for path in self.inside_paths(call, (raw,))}
        return effects.added_ranges(done, positions, self.store)

    def mutation_record(
        self,
        call: ToolCall,
        outcome: Outcome,
        pending: PendingCall | None,
        done: tuple[Change, ...],
        ranges: Mapping[str, tuple[LineRange, ...]],
        model: str | None,
    ) -> Record:
        """The record of what changed."""
        intent = self.governing.intents.get(pending.intent_id if pending else None)
        traced = {c.path: effects.traced_ranges(c.after, ranges.get(c.path, ())) for c in done}
        body = effects.mutation_body(
            call, outcome, pending, intent, tuple(effects.mutated_file(c, intent, traced[c.path]) for c in done)
        )
        files = tuple(
            effects.traced_file(c.path, traced[c.path], call.session.session_id, body_intent(body), model) for c in done
        )
        return self.recorder.record(body, call.agent, files)

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
            duration_ms=UNSET if outcome.duration_ms is None else outcome.duration_ms,
        )
        return self.recorder.record(body, call.agent)

    def warning(self, call: ToolCall, pending: PendingCall | None, done: tuple[Change, ...]) -> str:
        """What the model is told about effects that its intent does not own."""
        if pending is None or not pending.intent_id or not pending.whole:
            return ""
        intent = self.governing.intents.get(pending.intent_id)
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
        rules, tries = self.governing, Attempts()
        tries.made(lambda: self.begun(event, agent, rules), None)
        block = tries.made(lambda: self.block_at_start(event.session, agent), "")
        return "\n\n".join(filter(None, (protocol(rules.mode, rules.document), block, self.news, tries.said)))

    def block_at_start(self, session: SessionKey, agent: str) -> str:
        """The block of the intent that the session works under, or is now bound to."""
        return self.intents.bind_unselected(session, agent, self.binding()) or self.intents.block_to_tell(session)

    def begun(self, event: SessionStarted, agent: str, rules: Governing) -> None:
        """Remember the session, and record that it began."""
        self.notice(rules)
        known = self.state.session(event.session)
        session = Session(
            agent=agent,
            model=event.model or (known.model if known else None),
            intent_id=known.intent_id if known else None,
            source=known.source if known else "",
            told=known.told if known else "",
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

    def binding(self) -> Binding | None:
        """What a session works under where nothing was selected: `REMIT_INTENT`, else the branch's name."""
        if self.environment.bound_intent:
            return Binding(self.environment.bound_intent, "environment")
        named = INTENT_ID.search(branch_name(self.workspace) or "")
        return Binding(named[0], "branch") if named else None

    def prompted(self, session: SessionKey, agent: str) -> str:
        """A person wrote: the intent's block where it changed since the session was told."""
        if not self.governed:
            return ""
        tries = Attempts()
        tries.made(lambda: self.notice(self.governing), None)
        block = tries.made(lambda: self.block_at_prompt(session, agent), "")
        return joined(block, self.news, tries.said)

    def block_at_prompt(self, session: SessionKey, agent: str) -> str:
        """The block of the session's intent, where it was not told exactly this."""
        if self.state.session(session) is None:
            self.state.put_session(session, Session(agent=agent), self.environment.clock())
        bound = self.intents.bind_unselected(session, agent, self.binding())
        return bound or self.intents.block_to_tell(session, only_changed=True)

    def ended(self, event: SessionEnded, agent: str) -> str:
        """The conversation is over; the intent stays, for a resume. What could not be done, in words."""
        if not self.governed:
            return ""
        tries = Attempts()
        session = tries.made(lambda: self.state.active(event.session), Session())
        body = Body(
            event="session_end",
            intent_id=session.intent_id,
            session_id=event.session.session_id,
            detail={"reason": shown(event.reason, 100)},
        )
        tries.made(lambda: self.recorder.append_or_spool([self.recorder.record(body, agent)]), None)
        return tries.said


def named(facts: Facts) -> list[str]:
    """The paths of a call as records name them."""
    return [str(t.path) if t.path is not None else shown(t.resolved) for t in facts.targets]


def is_destructive(call: ToolCall) -> bool:
    """Whether the call may have changed something."""
    return classify(call) == "destructive"


def contents_of(done: Iterable[Change]) -> Iterator[bytes]:
    """Both sides of each change, where they are at hand."""
    return (s.content for c in done for s in (c.before, c.after) if s is not None and s.content is not None)


def joined(*parts: str) -> str:
    """The parts that say something, a line each."""
    return "\n".join(filter(None, parts))


def body_intent(body: Body) -> str | None:
    """The intent of a record's body."""
    return body.intent_id if isinstance(body.intent_id, str) else None


def said_waiting(why: str) -> str:
    """What the model is told when a record had to wait."""
    return f"Remit could not write its log ({why.splitlines()[0]}); the record waits in the spool. Tell the person."

"""After a call: what really changed, into the ledger; what could not be written, into the spool."""

from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

from msgspec import UNSET
from msgspec.structs import replace

from remit.core.call import Outcome, ToolCall
from remit.core.contents import LineRange
from remit.core.intent import Intent
from remit.core.record import Body, Record
from remit.core.text import shown
from remit.gate import effects
from remit.gate.answer import Attempts, joined
from remit.gate.observed import explain
from remit.gate.pressure import Pressure
from remit.gate.site import Site
from remit.gate.state import PendingCall, Session
from remit.gate.tampering import is_way_out
from remit.policy.classify import classify
from remit.workspace.history import brought
from remit.workspace.intents_file import write_atomically
from remit.workspace.observe import Change, Observation, at_commit, changes, observe, observe_paths
from remit.workspace.place import FOLDER
from remit.workspace.transcripts import last_model
from remit.workspace.versions import Seen


class Remembering:
    """Step 8 of a call, in one workspace."""

    def __init__(self, site: Site) -> None:
        self.site = site

    def remembered(self, call: ToolCall, outcome: Outcome) -> str:
        """Record what came of the call; what the model should know about it.

        A step that fails does not stop the next: the tool has run, and what is known of it must not get lost.
        """
        tries = Attempts()
        pending = self.came_back(call, tries)
        done = tries.made(lambda: self.effects_of(call, pending), ()) if pending or is_destructive(call) else ()
        records = tries.made(lambda: self.records_of(call, outcome, pending, done, tries), ())
        waiting = tries.made(lambda: self.site.recorder.append_or_spool(records, sync=bool(done)), None)
        if not tries.failed:
            tries.made(lambda: self.forgotten(call), None)
        put_back = tries.made(lambda: self.put_back(pending, done), ())
        tries.made(lambda: explain(self.site.state, done), None)
        tries.made(lambda: self.pressed(call, outcome), None)
        if not tries.failed and (outcome.ok or call.effect != "read"):
            tries.made(lambda: self.site.saw(call.session, self.seen_by(call, done)), None)
        return joined(
            said_put_back(put_back),
            self.warning(call, pending, tuple(c for c in done if c.path not in put_back)),
            said_waiting(waiting) if waiting else "",
            tries.said,
        )

    def put_back(self, pending: PendingCall | None, done: tuple[Change, ...]) -> tuple[str, ...]:
        """In enforce, undo what a call did to the files that govern it; which those were. Its version stays kept.

        A person changes them with an editor or `remit`, not in the middle of an agent's call.
        """
        if pending is None or pending.mode != "enforce":
            return ()
        governing = [c for c in done if is_way_out(c)]
        for change in governing:
            restore(self.site.workspace.root / change.path, change.before)
        if governing:
            detail: dict[str, object] = {"paths": [c.path for c in governing], "why": "it governs the agent"}
            body = Body(event="restore", intent_id=pending.intent_id, session_id=None, detail=detail)
            self.site.recorder.append_or_spool([self.site.recorder.record(body)])
        return tuple(c.path for c in governing)

    def pressed(self, call: ToolCall, outcome: Outcome) -> None:
        """Count what went wrong in a row."""
        Pressure(self.site.state, self.site.environment.clock()).came_back(call, outcome, classify(call))

    def came_back(self, call: ToolCall, tries: "Attempts") -> PendingCall | None:
        """The call as it was when it was let through. It is forgotten only when its effects are recorded."""
        asked = (call.session, call.call_id, call.tool, call.arguments_sha256)
        return tries.made(lambda: self.site.state.peek_call(*asked), None)

    def forgotten(self, call: ToolCall) -> None:
        """The call is settled: nothing is left for the sweep."""
        self.site.state.take_call(call.session, call.call_id, call.tool, call.arguments_sha256)

    def records_of(
        self, call: ToolCall, outcome: Outcome, pending: PendingCall | None, done: tuple[Change, ...], tries: "Attempts"
    ) -> tuple[Record, ...]:
        """The records of a call that came back: its effects first."""
        session = tries.made(lambda: self.site.state.active(call.session), Session())
        result = self.result_record(call, outcome, pending.intent_id if pending else session.intent_id)
        if not done:
            return (result,)
        tries.made(lambda: self.site.keep(contents_of(done)), None)
        ranges = tries.made(lambda: self.ranges_of(call, outcome, done), {})
        model = (last_model(Path(call.transcript)) if call.transcript else None) or session.model
        return (*self.change_records(call, outcome, pending, done, ranges, model), result)

    def change_records(
        self,
        call: ToolCall,
        outcome: Outcome,
        pending: PendingCall | None,
        done: tuple[Change, ...],
        ranges: Mapping[str, tuple[LineRange, ...]],
        model: str | None,
    ) -> list[Record]:
        """What the call changed, and what git brought with it, each in a record of its own."""
        own, old = tuple(c for c in done if not c.brought), tuple(c for c in done if c.brought)
        records = [self.mutation_record(call, outcome, pending, own, ranges, model)] if own else []
        return [*records, self.brought_record(call, old)] if old else records

    def effects_of(self, call: ToolCall, pending: PendingCall | None) -> tuple[Change, ...]:
        """What the call changed, by comparing; where it was never seen before, against HEAD, its own paths only."""
        if pending is None:
            paths = self.site.inside(call)
            now = observe_paths(self.site.workspace, paths)
            head = self.site.recorder.vcs.revision if self.site.recorder.vcs else None
            old = at_commit(self.site.workspace, head, paths) if isinstance(head, str) else dict.fromkeys(paths)
            return changes(self.site.workspace, Observation(None, old), now)
        after = observe(self.site.workspace) if pending.whole else observe_paths(self.site.workspace, pending.judged)
        before = self.restored(pending)
        found = changes(self.site.workspace, before, after)
        if call.remit_tool is not None:
            found = tuple(c for c in found if not c.path.startswith(f"{FOLDER}/"))
        paths = {c.path for c in found} if pending.whole else set[str]()
        old = brought(self.site.workspace, before, after, paths, pending.known_commits)
        return tuple(replace(c, brought=c.path in old) for c in found)

    def restored(self, pending: PendingCall) -> Observation:
        """The observation from before the call, its contents from the store."""
        return Observation(pending.head, {p: effects.reseen(v, self.site.store) for p, v in pending.before.items()})

    def ranges_of(self, call: ToolCall, outcome: Outcome, done: tuple[Change, ...]) -> dict[str, tuple[LineRange, ...]]:
        """The lines that the call put into each file."""
        positions = {path: r for raw, r in outcome.positions.items() for path in self.site.inside_paths(call, (raw,))}
        return effects.added_ranges(done, positions, self.site.store)

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
        intent = self.intent_then(pending)
        traced = {c.path: effects.traced_ranges(c.after, ranges.get(c.path, ())) for c in done}
        body = effects.mutation_body(
            call, outcome, pending, intent, tuple(effects.mutated_file(c, intent, traced[c.path]) for c in done)
        )
        files = tuple(
            effects.traced_file(c.path, traced[c.path], call.session.session_id, body_intent(body), model) for c in done
        )
        return self.site.recorder.record(body, call.agent, files)

    def intent_then(self, pending: PendingCall | None) -> Intent | None:
        """The intent as it was when the call was let through."""
        if pending is None or pending.intent_id is None:
            return None
        return Intent(pending.intent_id, pending.owned_scope)

    def brought_record(self, call: ToolCall, done: tuple[Change, ...]) -> Record:
        """The record of contents that git brought from older commits: not this call's, and nobody's to undo."""
        body = Body(
            event="human_edit",
            intent_id=None,
            session_id=None,
            files=tuple(effects.mutated_file(c, None, ()) for c in done),
            covered=True,
            detail={"origin": "git", "noticed_in": call.session.session_id},
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
            duration_ms=UNSET if outcome.duration_ms is None else outcome.duration_ms,
        )
        return self.site.recorder.record(body, call.agent)

    def warning(self, call: ToolCall, pending: PendingCall | None, done: tuple[Change, ...]) -> str:
        """What the model is told about effects that its intent does not own."""
        if pending is None and is_destructive(call):
            return f"Remit: this {call.tool} call ran without a verdict: its hook did not ask before. Tell the person."
        if pending is None or not pending.intent_id or not pending.whole:
            return ""
        intent = self.intent_then(pending)
        stray = [c.path for c in done if not c.brought and not effects.in_scope(c.path, intent)]
        if not stray:
            return ""
        names = ", ".join(shown(path, 120) for path in stray[:10]) + (" …" if len(stray) > 10 else "")
        return (
            f"Remit: this {call.tool} call changed {names}, outside the scope of {pending.intent_id}. It is "
            "recorded as out of scope. Undo those changes, and do such work with your file tools inside the scope."
        )

    def seen_by(self, call: ToolCall, done: tuple[Change, ...]) -> list[str]:
        """The files whose content the session knows after this call: what it read, and what it wrote itself.

        What a command changed it has not seen; a person may have written there at the same time.
        """
        return [] if call.whole_workspace else self.site.inside(call)


def is_destructive(call: ToolCall) -> bool:
    """Whether the call may have changed something."""
    return classify(call) == "destructive"


def contents_of(done: Iterable[Change]) -> Iterator[bytes]:
    """Both sides of each change, where they are at hand."""
    return effects.keepable({f"{c.path}\0{n}": s for c in done for n, s in enumerate((c.before, c.after))})


def body_intent(body: Body) -> str | None:
    """The intent of a record's body."""
    return body.intent_id if isinstance(body.intent_id, str) else None


def restore(path: Path, before: Seen | None) -> None:
    """Make the file what it was. Raises OSError."""
    if before is None:
        path.unlink(missing_ok=True)
    elif before.content is not None:
        path.parent.mkdir(parents=True, exist_ok=True)
        write_atomically(path, before.content)


def said_put_back(paths: tuple[str, ...]) -> str:
    """What the model is told when rules were put back."""
    if not paths:
        return ""
    return (
        f"Remit: this call changed {', '.join(paths)}, which governs you; it was put back as it was, and recorded. "
        "Say in your answer which rule should change, and why."
    )


def said_waiting(why: str) -> str:
    """What the model is told when a record had to wait."""
    return f"Remit could not write its log ({why.splitlines()[0]}); the record waits in the spool. Tell the person."

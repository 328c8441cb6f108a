"""After a call: what really changed, into the ledger; what could not be written, into the spool."""

from collections.abc import Sequence
from pathlib import Path

from msgspec.structs import replace

from remit.core.call import Outcome, ToolCall
from remit.core.record import Body
from remit.core.text import shown
from remit.gate import effects
from remit.gate.answer import Attempts, joined
from remit.gate.call_records import CallRecords, intent_then
from remit.gate.observed import explain, last_known
from remit.gate.pressure import Pressure
from remit.gate.redirected import (
    Redirected,
    find_redirected,
    is_in_place,
    outside_record,
    redirected_changes,
    said_outside,
)
from remit.gate.site import Site
from remit.gate.state import PendingCall
from remit.gate.stray_commits import find_stray_changes, say_strays
from remit.gate.tampering import is_bookkeeping, is_way_out
from remit.gate.undoing import NOTHING, Undoing, Undone
from remit.gate.undone_words import in_words
from remit.gate.windows import Windows, within
from remit.policy.classify import classify
from remit.workspace.beneath import remove_below, write_below
from remit.workspace.history import brought
from remit.workspace.observe import Change, Observation, at_commit, changes, identity, observe_paths
from remit.workspace.place import FOLDER
from remit.workspace.versions import Seen

REMARKS = 20
"""Remarks on a comparison that one record holds."""


class Remembering:
    """Step 8 of a call, in one workspace."""

    def __init__(self, site: Site) -> None:
        self.site = site
        self.records = CallRecords(site)
        """Who writes down what it comes to."""
        self.changed: tuple[str, ...] = ()
        """The paths that the call turned out to have changed."""
        self.own: tuple[str, ...] = ()
        """Those of them that it wrote itself: not what git brought, and not what others may have written."""
        self.news = ""
        """What the model must hear of effects that were undone, now or with the next answer that it hears."""
        self.after: Observation | None = None
        """What was found when the call came back."""
        self.redirected = Redirected()
        """Where a file tool wrote that was judged for another place."""
        self.row: int | None = None
        """Where the state has the call that came back."""

    def remembered(self, call: ToolCall, outcome: Outcome) -> str:
        """Record what came of the call; what the model should know about it.

        A step that fails does not stop the next: the tool has run, and what is known of it must not get lost.
        """
        tries = Attempts()
        pending = self.came_back(call, tries)
        done = tries.made(lambda: self.effects_of(call, pending), ()) if pending or is_destructive(call) else ()
        self.changed = tuple(c.path for c in done)
        self.own = tuple(c.path for c in done if not c.brought and not c.shared)
        records = tries.made(lambda: self.records.of(call, outcome, pending, done, tries), ())
        committed = tries.made(lambda: self.stray_changes(call, pending), ())
        if committed:
            records = [*records, self.records.committed_record(call, outcome, pending, committed)]
        outside = self.redirected.outside
        if pending is not None and outside:
            records = [*records, outside_record(self.site, call, pending, outside)]
        waiting = tries.made(lambda: self.site.recorder.append_or_spool(records, sync=bool(done)), None)
        put_back = tries.made(lambda: self.put_back(pending, done), ())
        stray = tuple(c for c in done if c.path not in put_back)
        undone = tries.made(lambda: self.taken_back(call, pending, stray), NOTHING)
        left = undone.as_left(tuple(replace(c, after=c.before) if c.path in put_back else c for c in done))
        tries.made(lambda: self.settled(call, outcome, pending, left, tries), None)
        self.news = in_words(call, pending, undone) if pending else ""
        return joined(
            said_outside(call, outside) if pending is not None and pending.mode != "observe" else "",
            said_put_back(put_back),
            self.news,
            say_strays(committed),
            self.warning(call, pending, tuple(c for c in stray if c.path not in {**undone.paths, **undone.left})),
            said_waiting(waiting) if waiting else "",
            tries.said,
        )

    def stray_changes(self, call: ToolCall, pending: PendingCall | None) -> tuple[Change, ...]:
        """What commits of the call hold out of the scope that no file held. Raises GitError."""
        if pending is None or self.after is None:
            return ()
        return find_stray_changes(self.site.workspace, call, pending, self.after.files)

    def settled(
        self, call: ToolCall, outcome: Outcome, pending: PendingCall | None, done: tuple[Change, ...], tries: Attempts
    ) -> None:
        """Bring the state up to date, as one change of it; the call stays open where its records could not be made."""
        with self.site.state.together():
            if not tries.failed:
                self.forgotten()
            explain(self.site.state, done)
            self.windows.tell(call.session, done)
            self.pressed(call, outcome)
            if not tries.failed and (outcome.ok or call.effect != "read"):
                self.saw(call, pending, done)

    def saw(self, call: ToolCall, pending: PendingCall | None, done: tuple[Change, ...]) -> None:
        """The session knows what it read, and what it wrote: that was looked at, and is not looked at again."""
        written = {c.path: c.after.version if c.after else None for c in done}
        paths = self.seen_by(call, pending)
        self.site.state.put_seen(call.session, {path: written[path] for path in paths if path in written})
        self.site.saw(call.session, [path for path in paths if path not in written])

    def put_back(self, pending: PendingCall | None, done: tuple[Change, ...]) -> tuple[str, ...]:
        """In enforce, undo what a call did to the files that govern it; which those were. Its version stays kept.

        A person changes them with an editor or `remit`, not in the middle of an agent's call.
        """
        if pending is None or pending.mode != "enforce":
            return ()
        return self.undone(done, pending.intent_id)

    def undone(self, done: tuple[Change, ...], intent_id: str | None) -> tuple[str, ...]:
        """Put back what governs and was changed; which that was."""
        governing = [c for c in done if is_way_out(c)]
        for change in governing:
            restore(self.site.workspace.root, change.path, change.before)
        if governing:
            detail: dict[str, object] = {"paths": [c.path for c in governing], "why": "it governs the agent"}
            body = Body(event="restore", intent_id=intent_id, session_id=None, detail=detail)
            self.site.recorder.append_or_spool([self.site.recorder.record(body)])
        return tuple(c.path for c in governing)

    def taken_back(self, call: ToolCall, pending: PendingCall | None, done: tuple[Change, ...]) -> Undone:
        """In enforce, what the call had no right to change is undone, where nobody else may have written it."""
        if pending is None or self.after is None or not done:
            return NOTHING
        if self.redirected:
            pending = replace(pending, whole=True, head=self.after.head)
            done = tuple(c for c in done if c.path in self.redirected.inside)
        return Undoing(self.site).undone(call, pending, done, self.after)

    def pressed(self, call: ToolCall, outcome: Outcome) -> None:
        """Count what went wrong in a row."""
        Pressure(self.site.state, self.site.environment.clock()).came_back(call, outcome, classify(call))

    def came_back(self, call: ToolCall, tries: "Attempts") -> PendingCall | None:
        """The call as it was when it was let through. It is forgotten only when its effects are recorded."""
        asked = (call.session, call.call_id, call.tool, call.arguments_sha256)
        self.row, pending = tries.made(lambda: self.site.state.peek_call(*asked), (None, None))
        self.records.row = self.row
        return pending

    def forgotten(self) -> None:
        """The call is settled: nothing is left for the sweep."""
        if self.row is not None:
            self.site.state.drop_call(self.row)

    def effects_of(self, call: ToolCall, pending: PendingCall | None) -> tuple[Change, ...]:
        """What the call changed, by comparing; where it was never seen before, against HEAD, its own paths only."""
        if pending is None:
            paths = self.site.inside(call)
            now = observe_paths(self.site.workspace, paths)
            head = self.records.vcs.revision if self.records.vcs else None
            old = at_commit(self.site.workspace, head, paths) if isinstance(head, str) else dict.fromkeys(paths)
            return changes(self.site.workspace, Observation(None, old), now)
        after = self.site.observe() if pending.whole else observe_paths(self.site.workspace, pending.judged)
        self.after = after
        self.records.remarks = tuple(shown(remark, 200) for remark in after.remarks[:REMARKS])
        before = self.restored(pending)
        found = changes(self.site.workspace, before, after)
        if not pending.whole:
            found = self.since_others(found, pending)
            self.redirected = find_redirected(self.site, call, pending)
        if self.redirected:
            found = self.as_redirected(call, found)
        if call.remit_tool is not None:
            found = tuple(c for c in found if not c.path.startswith(f"{FOLDER}/"))
        found = tuple(c for c in found if not is_bookkeeping(c))
        paths = {c.path for c in found} if pending.whole else set[str]()
        old = brought(self.site.workspace, before, after, paths, pending.known_commits)
        apart = self.windows.apart(call, pending, tuple(replace(c, brought=c.path in old) for c in found))
        return tuple(unclaimed(c, call, pending) for c in apart)

    def as_redirected(self, call: ToolCall, found: tuple[Change, ...]) -> tuple[Change, ...]:
        """Return the changes at the places that the call really wrote to, and those where it was judged and wrote."""
        head, root = self.records.vcs.revision if self.records.vcs else None, self.site.workspace.root
        self.after = self.site.observe()
        elsewhere = redirected_changes(self.site, call, self.redirected, head if isinstance(head, str) else None)
        return (*(c for c in found if is_in_place(root, c.path)), *elsewhere)

    def since_others(self, found: tuple[Change, ...], pending: PendingCall) -> tuple[Change, ...]:
        """A file tool's changes; what was recorded while it was under way is what it changed, not what was before."""
        doubtful = [c.path for c in found if c.after and c.after.version.git_blob != pending.announced.get(c.path)]
        known = last_known(self.site.state, doubtful) if doubtful else {}
        return tuple(
            replace(c, before=effects.reseen(version, self.site.store))
            if (version := known.get(c.path)) and identity(c.after) != (version.sha256, version.mode)
            else c
            for c in found
        )

    @property
    def windows(self) -> Windows:
        """The calls of other sessions at the same time."""
        return Windows(self.site.state, self.site.environment.clock())

    def restored(self, pending: PendingCall) -> Observation:
        """The observation from before the call, its contents from the store."""
        return Observation(pending.head, {p: effects.reseen(v, self.site.store) for p, v in pending.before.items()})

    def warning(self, call: ToolCall, pending: PendingCall | None, done: tuple[Change, ...]) -> str:
        """What the model is told about effects that its intent does not own."""
        if pending is None and is_destructive(call):
            return f"Remit: this {call.tool} call ran without a verdict: its hook did not ask before. Tell the person."
        if pending is None or not pending.intent_id or not pending.whole:
            return ""
        intent = intent_then(pending)
        stray = [c.path for c in done if not c.brought and not c.shared and not effects.in_scope(c.path, intent)]
        if not stray:
            return ""
        names = ", ".join(shown(path, 120) for path in stray[:10]) + (" …" if len(stray) > 10 else "")
        return (
            f"Remit: this {call.tool} call changed {names}, outside the scope of {pending.intent_id}. It is "
            "recorded as out of scope. Undo those changes, and do such work with your file tools inside the scope."
        )

    def seen_by(self, call: ToolCall, pending: PendingCall | None) -> Sequence[str]:
        """The files whose content the session knows after this call: what it read, and what it wrote itself.

        What a command changed it has not seen; a person may have written there at the same time.
        """
        if call.whole_workspace:
            return []
        return self.site.inside(call) if pending is None else pending.judged


def unclaimed(change: Change, call: ToolCall, pending: PendingCall) -> Change:
    """The change; of unclear origin where the command's own text says that it writes other files only."""
    if pending.writes is None or change.brought or change.shared or within(change.path, pending.writes):
        return change
    return replace(change, shared=(call.session.session_id,))


def is_destructive(call: ToolCall) -> bool:
    """Whether the call may have changed something."""
    return classify(call) == "destructive"


def restore(root: Path, path: str, before: Seen | None) -> None:
    """Make the file what it was, or leave none. Raises OSError."""
    if before is None:
        remove_below(root, root / path)
    elif before.content is not None:
        write_below(root, root / path, before.content)


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

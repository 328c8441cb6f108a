"""Snapshots before what may destroy: taken before a call that is not proved harmless, and at a session's start."""

import time

from msgspec import Struct
from msgspec.structs import replace

from remit.core.call import SessionKey, ToolCall
from remit.core.decision import Decision, Finding
from remit.core.facts import Facts
from remit.core.record import Body, Record
from remit.core.redaction import compile_pattern, redact_struct
from remit.core.text import quoted_path
from remit.gate.answer import CannotRecord
from remit.gate.site import Site
from remit.policy.lasting import destroys
from remit.workspace.hidden import index_flags
from remit.workspace.observe import Observation
from remit.workspace.snapshots import Occasion, Snapshot, is_private, take, unspelled
from remit.workspace.snapshots_pins import Pins

DAY_S = 86400
NEWEST = 25
"""These are never pruned: a process that still runs could write their refs anew. Nor is the last one to undo a
restore with."""

FILES_NAMED = 50


class Kept(Struct, frozen=True):
    """What came of it: the record, or why there is no snapshot; `refusal` is that where the call must not go on."""

    records: tuple[Record, ...] = ()
    snapshot: str = ""
    trouble: str = ""
    refusal: Finding | None = None


NOTHING = Kept()


class Snapshots:
    """Takes the snapshots of one workspace, and drops the old ones."""

    def __init__(self, site: Site) -> None:
        self.site = site

    def before(self, call: ToolCall, facts: Facts, decision: Decision, seen: Observation) -> Kept:
        """Keep the state before a call whose effects its arguments do not tell, or that deletes.

        A file tool needs none: what it overwrites is kept already.
        """
        if decision.call_class != "destructive" or not (call.whole_workspace or call.effect == "delete"):
            return NOTHING
        occasion = Occasion(
            kind="call",
            intent=facts.session.intent_id or "",
            session=call.session.session_id,
            agent=call.agent,
            call=call.call_id,
            tool=call.tool,
            command=call.command or "",
        )
        try:
            whole = seen if call.whole_workspace else self.site.observe()
            snapshot, record = self.taken(occasion, whole, facts.session.intent_id)
            return Kept((record,), snapshot.id)
        except CannotRecord as error:
            return untaken(decision, str(error).partition("\n")[0])

    def at_start(self, session: SessionKey, agent: str, seen: Observation | None = None) -> None:
        """Keep the state that a session finds, which is `seen` where it was just looked at.

        Raises what CannotRecord names.
        """
        known = self.site.state.session(session)
        intent_id = known.intent_id if known else None
        occasion = Occasion(kind="session", intent=intent_id or "", session=session.session_id, agent=agent)
        _, record = self.taken(occasion, seen or self.site.observe(), intent_id)
        self.site.recorder.append_or_spool([record])

    def taken(self, occasion: Occasion, seen: Observation, intent_id: str | None) -> tuple[Snapshot, Record]:
        """Keep the state, and the record of it. Raises what CannotRecord names."""
        began = time.perf_counter()
        extra = tuple(map(compile_pattern, self.site.recorder.patterns or ()))
        config = (self.site.rules or self.site.governing).config
        snapshot = take(
            self.site.snapshots,
            self.site.workspace,
            redact_struct(occasion, extra),
            seen.files,
            at=self.site.environment.clock(),
            most_mib=config.snapshots.max_file_mib,
            secrets=config.snapshots.secret_days > 0,
            overlooked=index_flags(self.site.workspace).overlooked,
            remarks=tuple(r for r in seen.remarks if r.startswith("not observed")),
        )
        spent_ms = round((time.perf_counter() - began) * 1000, 1)
        return snapshot, self.record(snapshot, occasion, intent_id, spent_ms)

    def record(self, snapshot: Snapshot, occasion: Occasion, intent_id: str | None, spent_ms: float) -> Record:
        """The record: what precedes what, and what the snapshot does not hold."""
        detail: dict[str, object] = {
            "id": snapshot.id,
            "commit": snapshot.commit,
            "file_count": snapshot.files,
            "ms": spent_ms,
        }
        detail |= {"precedes": occasion.kind, "reason": f"before {occasion.tool or 'a ' + occasion.kind}"}
        detail |= {"call_id": occasion.call, "tool": occasion.tool} if occasion.kind == "call" else {}
        if snapshot.left:
            detail["left"] = {quoted_path(unspelled(p)): why for p, why in list(snapshot.left.items())[:FILES_NAMED]}
        if snapshot.remarks:
            detail["remarks"] = list(snapshot.remarks[:FILES_NAMED])
        body = Body(event="snapshot", intent_id=intent_id, session_id=occasion.session or None, detail=detail)
        return self.site.recorder.record(body, occasion.agent or None)

    def tidy(self) -> int:
        """End the process that writes them, fold its packs, drop what is too old or too much; how many are dropped.

        Raises what CannotRecord names. Where nothing was taken since, there is nothing to do.
        """
        if "snapshots" not in self.site.__dict__:
            return 0
        self.site.snapshots.tidy()
        return self.prune()

    def prune(self) -> int:
        """Drop snapshots that are too old, then the oldest while all take too much; how many. Raises CannotRecord's."""
        config, now = self.site.governing.config, self.site.environment.clock()
        found, pinned = self.site.snapshots.listed(), Pins(self.site.workspace).ids()
        spared, rest = found[:NEWEST], found[NEWEST:]
        spared += [s for s in rest if s.occasion.kind == "restore"][:1]
        spared += [s for s in rest if s.id in pinned and s not in spared]
        kept = [s for s in rest if s.at >= now - config.snapshots.keep_days * DAY_S and s not in spared]
        while kept and self.site.snapshots.size([*spared, *kept]) > config.snapshots.max_mib * (1 << 20):
            kept = kept[: len(kept) * 3 // 4]
        gone = [s for s in rest if s not in kept and s not in spared]
        self.site.snapshots.forget(gone)
        stale = [
            s
            for s in found
            if s.at < now - config.snapshots.secret_days * DAY_S and s.id not in pinned and holds_secrets(s)
        ]
        if stale:
            self.site.snapshots.drop_secrets(stale)
        return len(gone)


def holds_secrets(snapshot: Snapshot) -> bool:
    """Whether a snapshot still has the content of a file whose name speaks of secrets."""
    held = (path for path, (mode, _) in snapshot.private.items() if mode and path not in snapshot.left)
    return any(is_private(unspelled(path)) for path in held)


def untaken(decision: Decision, why: str) -> Kept:
    """There is no snapshot: in enforce, and before what destroys, the call must not go on, else that is said."""
    trouble = f"Remit could not keep a snapshot of the working tree: {why}"
    if decision.mode != "enforce" and not destroys(decision):
        return Kept(trouble=f"{trouble}. What this call destroys may not come back; tell the person.")
    return Kept(
        refusal=Finding(
            rule="snapshot",
            code="HOOK_BLOCKED",
            message=f"{trouble}. Until that is mended, commands that may change files are refused: tell the person.",
        )
    )


def way_back(decision: Decision, kept: Kept) -> str:
    """Before a command that destroys, where nothing is enforced: how a person gets back what was there."""
    detail = kept.records[0].body.detail if kept.records else None
    passes = decision.effect == "allow" and decision.mode != "enforce"
    if not passes or not destroys(decision) or not isinstance(detail, dict):
        return ""
    name = detail["id"]
    return f"Remit kept the working tree as it was before this command. A person gets it back: `remit restore {name}`."


def refused_by(decision: Decision, refusal: Finding) -> Decision:
    """The decision with this refusal leading."""
    return replace(decision, effect="deny", verdict="deny", findings=(refusal, *decision.findings))

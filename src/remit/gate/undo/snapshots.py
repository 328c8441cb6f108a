"""Snapshots of the working tree: taken at session start and before calls that may destroy files."""

import time
from typing import Literal

from msgspec import Struct

from remit.core.call import SessionKey, ToolCall
from remit.core.decision import Decision, Facts, Finding
from remit.core.record import Body, Record
from remit.core.redaction import compile_team_pattern, redact_struct
from remit.core.untrusted_input import quote_path
from remit.gate.context import RECORDING_ERRORS, WorkspaceContext
from remit.policy.decide import is_destructive_command
from remit.workspace.git.ignored_files import read_index_flags
from remit.workspace.observe.observation import Observation
from remit.workspace.snapshots.snapshot import (
    Occasion,
    PinnedSnapshots,
    Snapshot,
    decode_path,
    is_secret_path,
    take_snapshot,
)

DAY_S = 86400
MIN_KEPT_SNAPSHOTS = 25
"""Newest snapshots that are never pruned: a running process could write their refs again.

The newest snapshot for undoing a restore is kept too.
"""

MAX_NAMED_FILES = 50


class SnapshotOutcome(Struct, frozen=True):
    """Outcome of a snapshot: the records, or the failure; `refusal` is set if the call must not proceed."""

    records: tuple[Record, ...] = ()
    snapshot: str = ""
    trouble: str = ""
    refusal: Finding | None = None


NO_SNAPSHOT = SnapshotOutcome()


class SnapshotTaker:
    """Snapshots of one workspace: taking, and pruning old ones."""

    def __init__(self, context: WorkspaceContext) -> None:
        self.context = context

    def take_before_call(self, call: ToolCall, facts: Facts, decision: Decision, seen: Observation) -> SnapshotOutcome:
        """Take a snapshot before a deletion or a call with unknown effects. A file tool needs none: overwritten
        contents are stored already. A failure refuses the call in enforce, and before a destructive command.
        """
        if decision.call_class != "destructive" or not (call.whole_workspace or call.effect == "delete"):
            return NO_SNAPSHOT
        occasion = occasion_of_call("call", call, facts.session.intent_id)
        try:
            whole = seen if call.whole_workspace else self.context.observe()
            snapshot, record = self.take_snapshot(occasion, whole, facts.session.intent_id)
            return SnapshotOutcome((record,), snapshot.id)
        except RECORDING_ERRORS as error:
            first = str(error).partition("\n")[0]
            trouble = f"Remit could not keep a snapshot of the working tree: {first}"
        if facts.has_floor and decision.mode != "enforce" and decision.effect == "allow":
            message = f"{trouble}. What this call destroys may not come back: it needs a person's yes."
            return SnapshotOutcome(refusal=Finding("snapshot", "HOOK_BLOCKED", message, verdict="ask"))
        if decision.mode != "enforce" and not is_destructive_command(decision):
            return SnapshotOutcome(trouble=f"{trouble}. What this call destroys may not come back; tell the person.")
        message = f"{trouble}. Until that is mended, commands that may change files are refused: tell the person."
        return SnapshotOutcome(refusal=Finding(rule="snapshot", code="HOOK_BLOCKED", message=message))

    def take_at_session_start(self, session: SessionKey, agent: str, seen: Observation | None = None) -> None:
        """Take a snapshot at a session's start; `seen` is a fresh observation, if available. Raises the errors in
        RECORDING_ERRORS.
        """
        known = self.context.state.find_session(session)
        intent_id = known.intent_id if known else None
        occasion = Occasion(kind="session", intent=intent_id or "", session=session.session_id, agent=agent)
        _, record = self.take_snapshot(occasion, seen or self.context.observe(), intent_id)
        self.context.recorder.append_or_spool([record])

    def take_snapshot(self, occasion: Occasion, seen: Observation, intent_id: str | None) -> tuple[Snapshot, Record]:
        """Take a snapshot and return it with its record. Raises the errors in RECORDING_ERRORS."""
        began = time.perf_counter()
        context = self.context
        config = (context.last_rules or context.rules).config
        snapshot = take_snapshot(
            context.snapshots,
            context.workspace,
            redact_struct(occasion, tuple(map(compile_team_pattern, config.redact.patterns))),
            seen.files,
            at=context.environment.clock.now(),
            max_mib=config.snapshots.max_file_mib,
            secrets=config.snapshots.secret_days > 0,
            overlooked=read_index_flags(context.workspace).overlooked,
            remarks=tuple(r for r in seen.remarks if r.startswith("not observed")),
        )
        spent_ms = round((time.perf_counter() - began) * 1000, 1)
        return snapshot, self.make_record(snapshot, occasion, intent_id, spent_ms)

    def make_record(self, snapshot: Snapshot, occasion: Occasion, intent_id: str | None, spent_ms: float) -> Record:
        """Return the record: the occasion, and the files that the snapshot does not hold."""
        detail: dict[str, object] = {
            "id": snapshot.id,
            "commit": snapshot.commit,
            "file_count": snapshot.files,
            "ms": spent_ms,
            "precedes": occasion.kind,
            "reason": f"before {occasion.tool or 'a ' + occasion.kind}",
        }
        detail |= {"call_id": occasion.call, "tool": occasion.tool} if occasion.kind == "call" else {}
        left = [(quote_path(decode_path(path)), why) for path, why in list(snapshot.left.items())[:MAX_NAMED_FILES]]
        detail |= {"left": dict(left)} if left else {}
        detail |= {"remarks": list(snapshot.remarks[:MAX_NAMED_FILES])} if snapshot.remarks else {}
        body = Body(event="snapshot", intent_id=intent_id, session_id=occasion.session or None, detail=detail)
        return self.context.recorder.make_record(body, occasion.agent or None)

    def tidy_store(self) -> int:
        """End the writer process, fold packs, and prune; return the number of pruned snapshots. Raises the errors in
        RECORDING_ERRORS. Does no work if no snapshot was taken.
        """
        if "snapshots" not in self.context.__dict__:
            return 0
        self.context.snapshots.tidy()
        return self.prune_old()

    def prune_old(self) -> int:
        """Delete snapshots that are too old, and the oldest while the size limit is exceeded; return their number.
        Raises the errors in RECORDING_ERRORS.
        """
        store, now = self.context.snapshots, self.context.environment.clock.now()
        config = self.context.rules.config
        found, pinned = store.list_snapshots(), PinnedSnapshots(self.context.workspace).pinned_ids()
        spared, rest = found[:MIN_KEPT_SNAPSHOTS], found[MIN_KEPT_SNAPSHOTS:]  # newest first
        spared += [s for s in rest if s.occasion.kind == "restore"][:1]
        spared += [s for s in rest if s.id in pinned and s not in spared]
        kept = [s for s in rest if s.at >= now - config.snapshots.keep_days * DAY_S and s not in spared]
        while kept and store.disk_usage([*spared, *kept]) > config.snapshots.max_mib * (1 << 20):
            kept = kept[: len(kept) * 3 // 4]
        gone = [s for s in rest if s not in kept and s not in spared]
        store.forget(gone)
        old = (s for s in found if s.at < now - config.snapshots.secret_days * DAY_S and s.id not in pinned)
        held = ((s, (p for p, (mode, _) in s.private.items() if mode and p not in s.left)) for s in old)
        if stale := [s for s, paths in held if any(is_secret_path(decode_path(path)) for path in paths)]:
            store.drop_secrets(stale)
        return len(gone)


def occasion_of_call(
    kind: Literal["call", "undone"], call: ToolCall, intent_id: str | None, point: str = ""
) -> Occasion:
    return Occasion(
        kind=kind,
        intent=intent_id or "",
        session=call.session.session_id,
        agent=call.agent,
        call=call.call_id,
        tool=call.tool,
        command=call.command or "",
        point=point,
    )


def describe_way_back(decision: Decision, kept: SnapshotOutcome) -> str:
    """Return the restore command for a person before a destructive command that is not enforced."""
    passes = decision.effect == "allow" and decision.mode != "enforce"
    if not passes or not is_destructive_command(decision):
        return ""
    command = f"remit restore {kept.snapshot}"
    return f"Remit kept the working tree as it was before this command. A person gets it back: `{command}`."

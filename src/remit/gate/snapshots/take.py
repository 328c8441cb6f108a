"""Snapshots of the working tree: taken at session start and before calls that may destroy files."""

import time

from msgspec import Struct
from msgspec.structs import replace

from remit.core.call import SessionKey, ToolCall
from remit.core.decision import Decision, Finding
from remit.core.display_text import quote_path
from remit.core.facts import Facts
from remit.core.record import Body, Record
from remit.core.secrets.bounded_regex import compile_team_pattern
from remit.core.secrets.redaction import redact_struct
from remit.gate.answer import RECORDING_ERRORS
from remit.gate.context import WorkspaceContext
from remit.policy.decide import is_destructive_command
from remit.workspace.git.hidden_files import read_index_flags
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
        """Take a snapshot before a deletion or a call with unknown effects.

        A file tool needs none: overwritten contents are stored already.
        """
        if decision.call_class != "destructive" or not (call.whole_workspace or call.effect == "delete"):
            return NO_SNAPSHOT
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
            whole = seen if call.whole_workspace else self.context.observe()
            snapshot, record = self.take_snapshot(occasion, whole, facts.session.intent_id)
            return SnapshotOutcome((record,), snapshot.id)
        except RECORDING_ERRORS as error:
            return snapshot_failed(decision, str(error).partition("\n")[0])

    def take_at_session_start(self, session: SessionKey, agent: str, seen: Observation | None = None) -> None:
        """Take a snapshot at a session's start; `seen` is a fresh observation, if available.

        Raises the errors in RECORDING_ERRORS.
        """
        known = self.context.state.find_session(session)
        intent_id = known.intent_id if known else None
        occasion = Occasion(kind="session", intent=intent_id or "", session=session.session_id, agent=agent)
        _, record = self.take_snapshot(occasion, seen or self.context.observe(), intent_id)
        self.context.recorder.append_or_spool([record])

    def take_snapshot(self, occasion: Occasion, seen: Observation, intent_id: str | None) -> tuple[Snapshot, Record]:
        """Take a snapshot and return it with its record. Raises the errors in RECORDING_ERRORS."""
        began = time.perf_counter()
        extra = tuple(map(compile_team_pattern, self.context.recorder.patterns or ()))
        config = (self.context.last_rules or self.context.rules).config
        snapshot = take_snapshot(
            self.context.snapshots,
            self.context.workspace,
            redact_struct(occasion, extra),
            seen.files,
            at=self.context.environment.clock(),
            max_mib=config.snapshots.max_file_mib,
            secrets=config.snapshots.secret_days > 0,
            overlooked=read_index_flags(self.context.workspace).overlooked,
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
        }
        detail |= {"precedes": occasion.kind, "reason": f"before {occasion.tool or 'a ' + occasion.kind}"}
        detail |= {"call_id": occasion.call, "tool": occasion.tool} if occasion.kind == "call" else {}
        if snapshot.left:
            detail["left"] = {
                quote_path(decode_path(p)): why for p, why in list(snapshot.left.items())[:MAX_NAMED_FILES]
            }
        if snapshot.remarks:
            detail["remarks"] = list(snapshot.remarks[:MAX_NAMED_FILES])
        body = Body(event="snapshot", intent_id=intent_id, session_id=occasion.session or None, detail=detail)
        return self.context.recorder.make_record(body, occasion.agent or None)

    def tidy_store(self) -> int:
        """End the writer process, fold packs, and prune; return the number of pruned snapshots.

        Raises the errors in RECORDING_ERRORS. Does no work if no snapshot was taken.
        """
        if "snapshots" not in self.context.__dict__:
            return 0
        self.context.snapshots.tidy()
        return self.prune_old()

    def prune_old(self) -> int:
        """Delete snapshots that are too old, and the oldest while the size limit is exceeded; return their number.

        Raises the errors in RECORDING_ERRORS.
        """
        config, now = self.context.rules.config, self.context.environment.clock()
        found, pinned = self.context.snapshots.list_snapshots(), PinnedSnapshots(self.context.workspace).pinned_ids()
        spared, rest = found[:MIN_KEPT_SNAPSHOTS], found[MIN_KEPT_SNAPSHOTS:]  # newest first
        spared += [s for s in rest if s.occasion.kind == "restore"][:1]
        spared += [s for s in rest if s.id in pinned and s not in spared]
        kept = [s for s in rest if s.at >= now - config.snapshots.keep_days * DAY_S and s not in spared]
        while kept and self.context.snapshots.disk_usage([*spared, *kept]) > config.snapshots.max_mib * (1 << 20):
            kept = kept[: len(kept) * 3 // 4]
        gone = [s for s in rest if s not in kept and s not in spared]
        self.context.snapshots.forget(gone)
        stale = [
            s
            for s in found
            if s.at < now - config.snapshots.secret_days * DAY_S and s.id not in pinned and has_secrets(s)
        ]
        if stale:
            self.context.snapshots.drop_secrets(stale)
        return len(gone)


def has_secrets(snapshot: Snapshot) -> bool:
    """Return True if a snapshot still holds a file with a secret's name."""
    held = (path for path, (mode, _) in snapshot.private.items() if mode and path not in snapshot.left)
    return any(is_secret_path(decode_path(path)) for path in held)


def snapshot_failed(decision: Decision, why: str) -> SnapshotOutcome:
    """Deny in enforce mode or before a destructive command; otherwise only warn."""
    trouble = f"Remit could not keep a snapshot of the working tree: {why}"
    if decision.mode != "enforce" and not is_destructive_command(decision):
        return SnapshotOutcome(trouble=f"{trouble}. What this call destroys may not come back; tell the person.")
    return SnapshotOutcome(
        refusal=Finding(
            rule="snapshot",
            code="HOOK_BLOCKED",
            message=f"{trouble}. Until that is mended, commands that may change files are refused: tell the person.",
        )
    )


def describe_way_back(decision: Decision, kept: SnapshotOutcome) -> str:
    """Return the restore command for a person before a destructive command that is not enforced."""
    detail = kept.records[0].body.detail if kept.records else None
    passes = decision.effect == "allow" and decision.mode != "enforce"
    if not passes or not is_destructive_command(decision) or not isinstance(detail, dict):
        return ""
    name = detail["id"]
    return f"Remit kept the working tree as it was before this command. A person gets it back: `remit restore {name}`."


def add_refusal(decision: Decision, refusal: Finding) -> Decision:
    return replace(decision, effect="deny", verdict="deny", findings=(refusal, *decision.findings))

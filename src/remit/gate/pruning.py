"""Dropping old records: what may go, and the record that says so before anything does."""

from msgspec import Struct

from remit.core.record import Body
from remit.gate.gate import Gate
from remit.gate.ledger_check import check_ledger
from remit.ledger.index import forget
from remit.ledger.prune import Plan, detail_of, keeping, plan_pruning, prune, pruned_before
from remit.workspace.standing import standing_paths


class Pruning(Struct, frozen=True):
    """What would go of the records older than `before`; `newest` is the tree head that covers it."""

    before: str
    plan: Plan
    newest: str
    all_records: bool


def prunable(gate: Gate, before: str, *, all_records: bool) -> Pruning:
    """What may be dropped of the records older than `before`, as records write times.

    Raises OSError, LedgerError, GitError, InvalidKey.
    """
    folder = gate.recorder.log.folder
    report = check_ledger(gate.recorder, gate.governing.config)
    heads = report.heads
    standing = None if all_records else standing_paths(gate.workspace)
    plan = plan_pruning(
        folder, before, heads.witnessed, [f for f in report.findings if not f.log], keeping(folder, standing)
    )
    return Pruning(before, plan, heads.newest, all_records)


def pruned(gate: Gate, found: Pruning) -> int:
    """Say so in the log, drop the records, and let the index be made again; how many bytes that freed.

    Raises OSError, LedgerError.
    """
    folder, recorder = gate.recorder.log.folder, gate.recorder
    told = {"before": found.before, "all": found.all_records, "head": found.newest}
    detail = detail_of(found.plan, pruned_before(folder), **told)
    recorder.append([recorder.record(Body(event="pruned", intent_id=None, session_id=None, detail=detail))])
    freed = prune(folder, found.plan)
    forget(gate.workspace.state / "index.db")
    return freed

"""Pruning of old records: a plan, and a record that announces the pruning beforehand."""

from msgspec import Struct

from remit.core.record import Body
from remit.gate.context import WorkspaceContext
from remit.gate.log_sharing.check_logs import check_ledger
from remit.ledger.index.index import remove_index
from remit.ledger.prune import (
    PruningPlan,
    build_keep_rule,
    build_pruning_detail,
    plan_pruning,
    prune,
    read_pruned_ranges,
)
from remit.workspace.git.tree_files import list_existing_paths


class LedgerPruning(Struct, frozen=True):
    """Prunable records older than `before`; `newest` is the tree head that covers them."""

    before: str
    plan: PruningPlan
    newest: str
    all_records: bool


def plan_log_pruning(context: WorkspaceContext, before: str, *, all_records: bool) -> LedgerPruning:
    """Return the prunable records older than `before`, in the time format of records.

    Raises OSError, LedgerError, GitError, InvalidKey.
    """
    folder = context.recorder.log.folder
    report = check_ledger(context.recorder, context.rules.config)
    heads = report.heads
    standing = None if all_records else list_existing_paths(context.workspace)
    plan = plan_pruning(
        folder, before, heads.witnessed, [f for f in report.findings if not f.log], build_keep_rule(folder, standing)
    )
    return LedgerPruning(before, plan, heads.newest, all_records)


def prune_log(context: WorkspaceContext, found: LedgerPruning) -> int:
    """Record the pruning, delete the records, drop the index for a rebuild, and return the freed bytes.

    Raises OSError, LedgerError.
    """
    folder, recorder = context.recorder.log.folder, context.recorder
    told = {"before": found.before, "all": found.all_records, "head": found.newest}
    detail = build_pruning_detail(found.plan, read_pruned_ranges(folder), **told)
    recorder.append([recorder.make_record(Body(event="pruned", intent_id=None, session_id=None, detail=detail))])
    freed = prune(folder, found.plan)
    remove_index(context.workspace.state / "index.db")
    return freed

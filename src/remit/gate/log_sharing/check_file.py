"""Checks of tracked logs in the worktree: a damaged log is read up to the damage."""

from collections.abc import Iterator, Sequence
from itertools import pairwise

from msgspec import Struct

from remit.core.formats.merkle import hash_leaf
from remit.gate.context import WorkspaceContext
from remit.gate.records.tree_head_report import tracked_log_name
from remit.ledger.integrity.findings import LedgerFinding
from remit.ledger.integrity.tree_heads import read_leaves
from remit.ledger.record_views import ChainView, decode_header
from remit.workspace.place.workspace import TRACKED_LOGS_FOLDER
from remit.workspace.sharing.tracked_logs import (
    MAX_LOG_FILES,
    MAX_TOTAL_LOG_BYTES,
    TrackedLogs,
    folder_unreadable_reason,
    list_log_names,
    list_readable_logs,
    unreadable_reason,
)

MAX_NAMED_LINES = 5
OWN_LOG_STEP = "`remit ledger push` writes it anew from the ledger"
ALTERED_LOG_STEP = (
    "where `remit ledger verify` finds the ledger whole, delete the file, and `remit ledger push` writes it anew"
)
MERGE_STEP = "`remit ledger push --stage` settles it, then go on with the merge or rebase"
OTHER_LOG_STEP = (
    "its own machine writes it anew with `remit ledger push`, "
    f"and `git log -- {TRACKED_LOGS_FOLDER}` has earlier versions"
)


class _NumberedLine(Struct, frozen=True):
    """Line of a tracked log with its number; `chain` is None for junk."""

    number: int
    raw: bytes
    chain: ChainView | None


def find_tracked_log_faults(context: WorkspaceContext) -> list[LedgerFinding]:
    """Return warnings about each tracked log; the machine's ledger does not depend on them. Raises GitError."""
    workspace = context.workspace
    here = list_log_names(workspace.tracked_logs)
    if workspace.common_dir is None:
        return []
    if why := folder_unreadable_reason(workspace.tracked_logs):
        return [
            LedgerFinding(
                "tracked_damaged",
                "warning",
                f"{TRACKED_LOGS_FOLDER}: nothing there is read: {why}; a folder belongs there",
            )
        ]
    logs = TrackedLogs(workspace)
    names = sorted({*here, *logs.list_committed_names()})
    own, sides = tracked_log_name(context.recorder.log) if names else None, logs.read_merge_sides() if names else {}
    readable = {path.name for path in list_readable_logs(workspace.tracked_logs)}
    unread = [name for name in here if name not in readable and unreadable_reason(logs.log_path(name)) is None]
    return [*map(unread_logs_finding, unread[:1])] + [
        LedgerFinding("tracked_damaged", "warning", f"{TRACKED_LOGS_FOLDER}/{name}: {what}; {step}")
        for name in names
        for what, step in check_tracked_log(context, logs, name, own=name == own, unsettled=name in sides)
    ]


def unread_logs_finding(first: str) -> LedgerFinding:
    why = f"it and what follows is not read: logs are more than {MAX_LOG_FILES}, or {MAX_TOTAL_LOG_BYTES >> 20} MiB together"  # noqa: E501
    return LedgerFinding(
        "tracked_damaged", "warning", f"{TRACKED_LOGS_FOLDER}/{first}: {why}; take out those that nobody needs"
    )


def check_tracked_log(
    context: WorkspaceContext, logs: TrackedLogs, name: str, *, own: bool, unsettled: bool
) -> Iterator[tuple[str, str]]:
    """Yield each fault of a tracked log with its next step. Raises GitError, OSError."""
    step = MERGE_STEP if unsettled else OWN_LOG_STEP if own else OTHER_LOG_STEP
    content, committed = logs.read_present(name), logs.read_head_version(name)
    back = (
        step
        if own
        else f"`git checkout HEAD -- {TRACKED_LOGS_FOLDER}/{name}`"
        if committed is not None
        else "delete it"
    )
    if content is None:
        yield f"it is not read: {unreadable_reason(logs.log_path(name))}", back
        return
    if own and (odd := find_foreign_lines(context, content)):
        yield f"{format_line_numbers(odd)} not in this machine's ledger", ALTERED_LOG_STEP
        return
    if unsettled:
        yield "a merge left two versions of it", step
    elif committed is not None and not content.startswith(committed):
        yield "it does not continue what HEAD has", back
    yield from ((what, step) for what in check_content(content))


def check_content(content: bytes) -> Iterator[str]:
    """Yield the faults visible in a log by itself."""
    found = list(read_lines(content))
    if junk := [one.number for one in found if one.chain is None]:
        yield f"{format_line_numbers(junk)} no record of a log"
    records = [one for one in found if one.chain is not None]
    if altered := [one.number for one, after in pairwise(records) if not is_next_in_chain(one, after)]:
        yield f"{format_line_numbers(altered)} not what the line after it continues"


def read_lines(content: bytes) -> Iterator[_NumberedLine]:
    """Yield each line once: a merge may have doubled lines."""
    seen: set[bytes] = set()
    for number, line in enumerate(content.split(b"\n"), 1):
        raw = line.removesuffix(b"\r")
        if raw and raw not in seen:
            seen.add(raw)
            header = decode_header(raw)
            yield _NumberedLine(number, raw, header.chain if header else None)


def is_next_in_chain(one: _NumberedLine, after: _NumberedLine) -> bool:
    """Return True if the chain continues; records pruned before sharing may be missing between the two."""
    if one.chain is None or after.chain is None or after.chain.seq <= one.chain.seq:
        return False
    return after.chain.seq > one.chain.seq + 1 or after.chain.prev == f"sha256:{hash_leaf(one.raw).hex()}"


def find_foreign_lines(context: WorkspaceContext, content: bytes) -> list[int]:
    """Return the numbers of records in the machine's own file that are missing in the ledger."""
    known = set(read_leaves(context.recorder.log.folder))
    return [one.number for one in read_lines(content) if one.chain is not None and hash_leaf(one.raw) not in known]


def format_line_numbers(numbers: Sequence[int]) -> str:
    """Return line numbers followed by a verb: `line 3 is`, `lines 3, 4 are`."""
    few = ", ".join(map(str, numbers[:MAX_NAMED_LINES]))
    more = f" and {len(numbers) - MAX_NAMED_LINES} more" if len(numbers) > MAX_NAMED_LINES else ""
    return f"line {few} is" if len(numbers) == 1 else f"lines {few}{more} are"

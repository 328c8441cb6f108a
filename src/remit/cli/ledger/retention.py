"""`remit ledger compact` and `prune`: compress old records, or drop them."""

from datetime import UTC, datetime
from pathlib import Path

import click

from remit.cli.output import USAGE, Failure, command_options, emit, governed_gate
from remit.cli.person_only import require_confirmation, require_person
from remit.gate.log_sharing.prune import LedgerPruning, plan_log_pruning, prune_log
from remit.ledger.compact import compact as archive_sealed
from remit.ledger.parse_time import NotATime, parse_time


@click.command()
@command_options
def compact(repo: Path, as_json: bool) -> None:
    """Compress the segments that are full. Every record stays readable, and any gzip reads the archives.

    The daemon does the same when nobody works.
    """
    done = archive_sealed(governed_gate(repo).recorder.log.folder)
    share = 100 * done.bytes_after // max(1, done.bytes_before)
    sizes = f"{format_mib(done.bytes_before)} are {format_mib(done.bytes_after)} now, {share} %"
    text = f"{done.records} records in {done.segments} segments: {sizes}"
    emit(done, as_json, text if done.segments else "no segment is full that is not archived yet")


def format_mib(size: int) -> str:
    return f"{size / 1024 / 1024:.1f} MiB"


@click.command()
@click.option("--before", metavar="DATE", help="Records older than this: a date in UTC, 90d, '6 months ago'.")
@click.option("--keep-days", type=click.IntRange(0), metavar="N", help="Records older than N days.")
@click.option("--all", "all_records", is_flag=True, help="Also what tells who wrote lines that stand today.")
@click.option("--dry-run", is_flag=True, help="Only say what would go.")
@click.option("--yes", "-y", is_flag=True, help="Do not ask.")
@command_options
def prune(
    before: str | None, keep_days: int | None, all_records: bool, dry_run: bool, yes: bool, repo: Path, as_json: bool
) -> None:
    """Drop old records for good. Their hashes stay, so the chain and its tree heads go on holding.

    Whole segments that are full, and that a tree head covers. What was done to files that exist today stays,
    unless --all; tree heads, repairs and the history of intents always stay. Only a person may do this.
    """
    if not dry_run:
        require_person("`remit ledger prune`")
    gate = governed_gate(repo)
    archive_sealed(gate.recorder.log.folder)
    pruning = plan_log_pruning(gate, cutoff_time(before, keep_days), all_records=all_records)
    plan = pruning.plan
    lines = describe_pruning(pruning, all_records)
    if not dry_run and plan.segments:
        click.echo("\n".join(lines), err=True)
        count = plan.dropped_counts.total()
        require_confirmation(yes, f"{count} records would be dropped for good", "add --yes")
        freed = prune_log(gate, pruning)
        lines = [f"{count} records dropped; the archives are {format_mib(freed)} smaller"]
    data = {
        "before": pruning.before,
        "dry_run": dry_run,
        "dropped": dict(plan.dropped_counts),
        "kept": plan.kept_records,
        "bytes": plan.bytes,
        "parts": [[segment.first, segment.last] for segment in plan.segments],
        "left": list(plan.skipped),
    }
    emit(data, as_json, "\n".join(lines))


def cutoff_time(before: str | None, keep_days: int | None) -> str:
    """Return the time before which records are dropped. Raises Failure."""
    now = datetime.now(UTC)
    if (before is None) == (keep_days is None):
        raise Failure("USAGE", "give one of --before and --keep-days", fix="remit ledger prune --keep-days 365")
    try:
        return parse_time(before if before is not None else f"{keep_days} days ago", now)
    except NotATime:
        if before is None:
            raise Failure("USAGE", f"{keep_days} days are too many", fix="at most 99999", exit_code=USAGE) from None
        raise


def describe_pruning(pruning: LedgerPruning, all_records: bool) -> list[str]:
    """Return the lines on dropped records, kept records, and lost information."""
    plan = pruning.plan
    if not plan.segments:
        return [f"nothing to drop: no full segment is older than {pruning.before}", *plan.skipped]
    events = ", ".join(f"{count} {event}" for event, count in plan.dropped_counts.most_common())
    first, last = plan.segments[0].first, plan.segments[-1].last
    edits = "" if all_records else ", and edits of files that exist"
    lines = [
        f"of records {first} to {last}, {plan.dropped_counts.total()} would go ({format_mib(plan.bytes)}): {events}",
        f"{plan.kept_records} of them stay: heads, repairs, intents{edits}",
        "lost: what was called, refused, asked and answered then; `remit log`, `search` and `show` no longer find it",
    ]
    if all_records:
        lines.append("lost: who wrote the lines of that time; `remit blame` and `why` will say unknown")
    lines.append("copies elsewhere stay: agent_trace.jsonl, what was pushed, what was exported")
    return [*lines, *plan.skipped]

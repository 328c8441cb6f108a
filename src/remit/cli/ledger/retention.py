"""`remit ledger compact` and `prune`: old records take less room, or go."""

from datetime import UTC, datetime
from pathlib import Path

import click
import msgspec

from remit.cli.agents.uninstall import require_confirmation
from remit.cli.output import USAGE, Failure, emit, governed_gate, json_option, repo_option, reports_failures
from remit.cli.person_only import require_person
from remit.gate.log_sharing.prune import LedgerPruning, plan_log_pruning, prune_log
from remit.ledger.compact import CompactionResult
from remit.ledger.compact import compact as archive_sealed
from remit.ledger.parse_time import NotATime, parse_time


@click.command()
@repo_option
@json_option
@reports_failures
def compact(repo: Path, as_json: bool) -> None:
    """Compress the segments that are full. Every record stays readable, and any gzip reads the archives.

    The daemon does the same when nobody works.
    """
    done = archive_sealed(governed_gate(repo).recorder.log.folder)
    emit(msgspec.to_builtins(done), as_json, describe_compaction(done))


def describe_compaction(done: CompactionResult) -> str:
    """What was archived, for people."""
    if not done.segments:
        return "no segment is full that is not archived yet"
    share = 100 * done.bytes_after // max(1, done.bytes_before)
    sizes = f"{format_mib(done.bytes_before)} are {format_mib(done.bytes_after)} now, {share} %"
    return f"{done.records} records in {done.segments} segments: {sizes}"


def format_mib(size: int) -> str:
    """A size for people."""
    return f"{size / 1024 / 1024:.1f} MiB"


@click.command()
@click.option("--before", metavar="DATE", help="Records older than this: a date in UTC, 90d, '6 months ago'.")
@click.option("--keep-days", type=click.IntRange(0), metavar="N", help="Records older than N days.")
@click.option("--all", "all_records", is_flag=True, help="Also what tells who wrote lines that stand today.")
@click.option("--dry-run", is_flag=True, help="Only say what would go.")
@click.option("--yes", "-y", is_flag=True, help="Do not ask.")
@repo_option
@json_option
@reports_failures
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
    found = plan_log_pruning(gate, cutoff_time(before, keep_days), all_records=all_records)
    lines = describe_pruning(found, all_records)
    if not dry_run and found.plan.segments:
        click.echo("\n".join(lines), err=True)
        require_confirmation(yes, f"{found.plan.dropped_counts.total()} records would be dropped for good", "add --yes")
        freed = prune_log(gate, found)
        lines = [f"{found.plan.dropped_counts.total()} records dropped; the archives are {format_mib(freed)} smaller"]
    data = {
        "before": found.before,
        "dry_run": dry_run,
        "dropped": dict(found.plan.dropped_counts),
        "kept": found.plan.kept_records,
        "bytes": found.plan.bytes,
        "parts": [[one.first, one.last] for one in found.plan.segments],
        "left": list(found.plan.skipped),
    }
    emit(data, as_json, "\n".join(lines))


def cutoff_time(before: str | None, keep_days: int | None) -> str:
    """The time before which records go. Raises Failure."""
    now = datetime.now(UTC)
    if (before is None) == (keep_days is None):
        raise Failure("USAGE", "give one of --before and --keep-days", fix="remit ledger prune --keep-days 365")
    try:
        return parse_time(before if before is not None else f"{keep_days} days ago", now)
    except NotATime:
        if before is None:
            raise Failure("USAGE", f"{keep_days} days are too many", fix="at most 99999", exit_code=USAGE) from None
        raise


def describe_pruning(found: LedgerPruning, all_records: bool) -> list[str]:
    """What would go, what stays, and what is lost by it."""
    plan = found.plan
    if not plan.segments:
        return [f"nothing to drop: no full segment is older than {found.before}", *plan.skipped]
    events = ", ".join(f"{count} {event}" for event, count in plan.dropped_counts.most_common())
    first, last = plan.segments[0].first, plan.segments[-1].last
    lines = [
        f"of records {first} to {last}, {plan.dropped_counts.total()} would go ({format_mib(plan.bytes)}): {events}",
        f"{plan.kept_records} of them stay: heads, repairs, intents{'' if all_records else ', and edits of files that exist'}",  # noqa: E501
        "lost: what was called, refused, asked and answered then; `remit log`, `search` and `show` no longer find it",
    ]
    if all_records:
        lines.append("lost: who wrote the lines of that time; `remit blame` and `why` will say unknown")
    lines.append("copies elsewhere stay: agent_trace.jsonl, what was pushed, what was exported")
    return [*lines, *plan.skipped]

"""`remit ledger`: verify, repair, sign, share, compact and prune the ledger; `remit import`: take in other logs."""

import os
from datetime import UTC, datetime
from pathlib import Path
from tempfile import TemporaryDirectory

import click
import msgspec

from remit.cli import output
from remit.cli.person_only import require_confirmation, require_person
from remit.core import tree_head
from remit.core.acts import Act
from remit.core.formats.foreign_records import convert_foreign_file
from remit.core.untrusted_input import sanitise_line
from remit.gate.gate import Gate
from remit.gate.records import check_logs, share_logs
from remit.gate.records.tree_heads import make_head, newest_head, read_private_key
from remit.gate.records.tree_heads import write_head_note as write_witness
from remit.ledger.findings import ACKNOWLEDGEABLE_CODES, LedgerFinding
from remit.ledger.foreign_logs import MAX_IMPORT_BYTES, NothingToImport, import_file
from remit.ledger.log_files import list_local_names
from remit.ledger.parse_time import NotATime, parse_time
from remit.ledger.retention import compact as archive_sealed
from remit.ledger.retention import list_pruned_parts
from remit.ledger.tree_heads import read_leaves
from remit.workspace.sharing.shared_refs import LogRefs, SharedLogDiffers
from remit.workspace.sharing.tracked_logs import IndexLocked

LARGE_FILE_BYTES = 25 * 1024 * 1024  # above this size hosting sites are slow with a file, and soon warn

HISTORY_COST = (
    'each commit of it keeps a piece of the log in the history for good; `log = "ref"` keeps it out of commits'
)
CONFLICT_FIX = "take one by `git checkout --ours` or `--theirs`"


@click.group()
def ledger() -> None:
    """The append-only log of what agents did."""


# --- verifying and signing ---------------------------------------------------------------------------------


@ledger.command("verify")
@click.option("--heads", "show_heads", is_flag=True, help="Also say how far a signature reaches.")
@output.command_options
def verify(show_heads: bool, repo: Path, as_json: bool) -> None:
    """Check that no record was altered, removed, doubled or moved; exit 5 where one was.

    Every tree head that is found is held against the log: beside it, in its records, in commits' notes,
    and in logs shared under refs/remit/log/ or as tracked files. What is wrong with such files is a warning.
    """
    gate = output.governed_gate(repo)
    folder = gate.recorder.log.folder
    report = check_logs.check_ledger(gate.recorder, gate.rules.config)
    heads = report.heads
    findings = [*report.findings, *check_logs.find_tracked_log_faults(gate.recorder)]
    count = sum(1 for _ in read_leaves(folder))
    # The first record after the last error: 0 without errors, None if the end is broken.
    broken = [finding for finding in report.chain_findings if finding.severity == "error"]
    whole_from = max((finding.last_seq or 0 for finding in broken), default=-1) + 1
    if any(finding.last_seq is None or finding.code == "truncated" for finding in broken):
        whole_from = None
    pruned_parts = list_pruned_parts(folder)
    data = {
        "records": count,
        "findings": findings,
        "heads": heads.heads,
        "witnessed": heads.witnessed,
        "newest_head": heads.newest,
        "unwitnessed": max(0, count - heads.witnessed),
        "whole_from": whole_from,
        "pruned": list(pruned_parts),
    }
    failed = any(finding.severity == "error" for finding in findings)
    lines = [*map(finding_line, findings)]
    lines += [] if failed else [f"{count} records, the chain is whole"]
    lines += [f"from record {whole_from} on the chain is whole"] if whole_from else []
    for part in pruned_parts:
        state = "no tree head bears their hashes out"
        if part.end <= heads.witnessed:
            state = f"their hashes verify against the tree head of {heads.witnessed} records ({heads.newest})"
        lines.append(f"records {part.first} to {part.last}: {part.gone} of them pruned, {state}")
    if (failed or show_heads) and heads.witnessed:
        tail = count - heads.witnessed
        rest = f"; the {tail} after it are unwitnessed" if tail > 0 else ""
        lines.append(f"the first {heads.witnessed} records are those of the newest tree head ({heads.newest}){rest}")
    elif failed or show_heads:
        lines.append(f"no tree head bears the log out: its {count} records are unwitnessed")
    output.emit(data, as_json, lines, output.INTEGRITY if failed else 0)


@ledger.command("repair")
@output.yes_option
@output.command_options
def repair(yes: bool, repo: Path, as_json: bool) -> None:
    """Acknowledge what `remit ledger verify` finds in a whole chain: another machine's records, a lost head.

    No record is changed. A signed `recovery` record names each finding, which is a warning from then on. Records
    that were altered, removed or moved stay errors. Only a person may do this.
    """
    require_person(Act.REPAIR_LEDGER)
    gate = output.governed_gate(repo)
    # Appending records any damage found, and the new head signs the record.
    make_head(gate.recorder, whole=True)
    errors = check_logs.check_ledger(gate.recorder, gate.rules.config).errors
    repairable = [finding for finding in errors if finding.code in ACKNOWLEDGEABLE_CODES]
    if repairable:
        output.say("\n".join(map(finding_line, repairable)), err=True)
        question = f"{len(repairable)} findings would be acknowledged in the log, for good"
        require_confirmation(yes, question, "add --yes")
        check_logs.acknowledge_findings(gate.recorder, repairable)
    left = check_logs.check_ledger(gate.recorder, gate.rules.config).errors
    lines = [finding_line(finding) for finding in left]
    lines.append(f"{len(repairable)} findings acknowledged" if repairable else "there is nothing to acknowledge")
    lines += ["the rest shows that records were altered or removed, which nothing mends"] if left else []
    output.emit({"acknowledged": repairable, "left": list(left)}, as_json, lines, output.INTEGRITY if left else 0)


def finding_line(finding: LedgerFinding) -> str:
    place = f"{finding.segment}:{finding.line}: " if finding.segment else ""
    return f"{place}{finding.severity}: {finding.code}: {finding.message.removeprefix(place)}"


@ledger.command("head")
@output.command_options
def head(repo: Path, as_json: bool) -> None:
    """Sign the log as it is now, and show the signed note."""
    signed = make_head(output.governed_gate(repo).recorder, whole=True)
    if signed is None:
        raise output.Failure("NOT_FOUND", "the log is empty, so there is nothing to sign")
    output.emit({"note": signed.note}, as_json, signed.note.rstrip("\n"))


@ledger.command("witness")
@click.argument("commit", default="HEAD")
@output.command_options
def witness(commit: str, repo: Path, as_json: bool) -> None:
    """Write the newest tree head into the note of COMMIT, under refs/notes/remit; the work tree stays as it is."""
    recorder = output.governed_gate(repo).recorder
    note = newest_head(recorder.log.folder)
    if note is None:
        signed = make_head(recorder, whole=True)
        note = signed.note if signed else ""
    if not note:
        raise output.Failure("NOT_FOUND", "the log is empty, so there is nothing to witness")
    name = write_witness(recorder, commit, note, shown=True)
    if name is None:
        raise output.Failure(
            "NOT_FOUND", f"{commit!r} is no commit here", fix="name one that `git log` shows", target=commit
        )
    output.emit(
        {"commit": name, "note": note}, as_json, f"the newest tree head stands in the note of commit {name[:12]}"
    )


@ledger.command("key")
@output.command_options
def key(repo: Path, as_json: bool) -> None:
    """Show this machine's public key, for `trusted_keys` in a teammate's remit.toml."""
    recorder = output.governed_gate(repo).recorder
    public = tree_head.derive_public_key(read_private_key(recorder.environment.home))
    text = tree_head.format_verifier_key(recorder.log.name, public)
    output.emit({"key": text, "public": public.hex(), "log": recorder.log.name}, as_json, text)


# --- other logs --------------------------------------------------------------------------------------------


@click.command("import")
@click.argument("file", type=click.Path(path_type=Path, exists=True, dir_okay=False))
@output.command_options
def import_(file: Path, repo: Path, as_json: bool) -> None:
    """Take in Agent Trace files (JSON or JSON Lines), other machines' logs, and the ledgers of older tools.

    They are read beside our records, marked as imported and unproved. `remit blame` takes a line from them only where
    the file's hash, or that of the lines, is the one that they name.
    """
    gate = output.governed_gate(repo)
    if file.stat().st_size > MAX_IMPORT_BYTES:
        raise NothingToImport(file, f"it is larger than {MAX_IMPORT_BYTES >> 20} MiB")
    converted = convert_foreign_file(file.read_bytes())
    if not converted.lines:
        raise NothingToImport(file, "nothing in it is a record")
    root = gate.workspace.log_folder
    with TemporaryDirectory(prefix="remit.") as folder:
        lines = Path(folder) / file.name
        lines.write_bytes(b"".join(line + b"\n" for line in converted.lines))
        try:
            imported = import_file(lines, root, list_local_names(root, gate.recorder.log.name))
        except NothingToImport as error:
            raise NothingToImport(file, error.why) from None  # name the person's file, not the temporary copy
    traces, unread = converted.traces, converted.unread
    text = f"{imported.records} records, {traces} of them from other tools, and {imported.older} lines of older tools"
    text += f"; {unread} lines are none that Remit knows" if unread else ""
    output.emit({**msgspec.to_builtins(imported), "traces": traces, "unread": unread}, as_json, text)


# --- sharing with teammates ---------------------------------------------------------------------------------


@ledger.command("push")
@click.argument("remote", required=False)
@click.option("--local", is_flag=True, help="Only write the ref here; push nothing. A tracked log is never pushed.")
@click.option("--stage", is_flag=True, help="Where the log is a tracked file: only stage it, for your own commit.")
@output.command_options
def push(remote: str | None, local: bool, stage: bool, repo: Path, as_json: bool) -> None:
    """Share this machine's log, as [share] log in remit.toml says; a push is never forced.

    "ref": write the log to refs/remit/log/, and push the ref to REMOTE (default: origin). "tree": write the log to a
    tracked file under .orchestration/log/ and commit only the file, or with --stage leave the file to your next commit;
    the log travels with the branch, and every commit keeps a piece of the log for good.

    Works only if a person has set "ref" or "tree": the log names paths, commands and intents, and a push cannot be
    taken back.
    """
    index = os.environ.get("GIT_INDEX_FILE", "")
    gate = output.governed_gate(repo)
    if gate.workspace.common_dir is None:
        raise output.Failure(
            "NO_GIT", "a log is shared by way of git, and this folder is no git repository", fix="git init"
        )
    setting = gate.rules.config.share.log
    if setting == "off":
        fix = 'set `log = "ref"`, or "tree", under [share] in .orchestration/remit.toml'
        raise output.Failure("NOT_SHARED", f"this repository shares no log: [share] log is {setting!r}", fix=fix)
    if setting == "tree":
        push_tracked(gate, remote, stage, index, as_json)
        return
    if stage:
        fix = 'set `log = "tree"` under [share], or leave --stage out'
        raise output.Failure("USAGE", "a log that is shared as a ref is not staged", fix=fix)
    try:
        shared = share_logs.write_log_ref(gate.recorder)
    except SharedLogDiffers as error:
        raise output.Failure.from_error(error, "INTEGRITY", exit_code=output.INTEGRITY) from error
    target = remote or "origin"
    if not local:
        LogRefs(gate.workspace).push_log(target, shared.ref, shared.tip)
    lines = [f"{shared.ref} has {shared.files} segments, {shared.fresh} of them new or longer"]
    lines += [f"left out: {name} was pruned before it was shared" for name in shared.absent]
    lines.append("pushed nowhere" if local else f"pushed to {sanitise_line(target)}")
    output.emit({**msgspec.to_builtins(shared), "pushed": not local}, as_json, lines)


def push_tracked(gate: Gate, remote: str | None, stage: bool, index: str, as_json: bool) -> None:
    """Write the tracked log, and commit or stage it. `index` is the index named by a git hook. Raises Failure."""
    if remote is not None:
        message = 'with `log = "tree"` the log goes where its branch goes, and Remit pushes no branch'
        raise output.Failure("USAGE", message, fix=f"remit ledger push, then git push {sanitise_line(remote)}")
    # `git commit --all` passes its index to hooks; the index of a commit of named paths git discards: nothing is added.
    named, lock = Path(index).absolute(), Path(f"{gate.workspace.git_dir}/index.lock")
    is_of_commit = bool(index) and lock.exists() and named.exists() and named.samefile(lock)
    if is_of_commit:
        os.environ["GIT_INDEX_FILE"] = str(lock)
    try:
        report = share_logs.write_tracked_log(
            gate.recorder, commit=not stage and not index, index=lock if is_of_commit else None
        )
    except share_logs.TrackedLogDiffers as error:
        raise output.Failure.from_error(error, "INTEGRITY", exit_code=output.INTEGRITY) from error
    except share_logs.LogNotTrackable as error:
        raise output.Failure.from_error(error, "INVALID") from error
    except IndexLocked as error:
        raise output.Failure.from_error(error, "UNAVAILABLE", exit_code=output.UNAVAILABLE) from error
    output.emit(report, as_json, describe_tracked_log(report))


def describe_tracked_log(report: share_logs.TrackedLogReport) -> list[str]:
    size = f"{report.bytes / 1024 / 1024:.1f} MiB"
    lines = [f"{report.path} has {report.records} records, {report.fresh} of them new, {size}"]
    lines += [f"left out: {report.absent} records were pruned before they were shared"] if report.absent else []
    lines += [f"gone from it: {report.junk} lines that were no records of this log"] if report.junk else []
    lines += [f"settled: both sides of {name} are in it now" for name in report.settled]
    lines += [f"not settled: neither side of {name} continues the other; {CONFLICT_FIX}" for name in report.unsettled]
    if report.commit is not None:
        commit = f"committed alone as {report.commit[:12]}"
        lines.append(f"{commit}: it goes out when you push this branch, and cannot be taken back")
    elif report.staged:
        why = "git is in the midst of a merge or rebase, so it is only staged" if report.stopped else "staged"
        lines.append(f"{why}: commit it before you switch branches")
    else:
        lines.append("HEAD has all of it" if report.settled else "HEAD has all of it: nothing to commit")
    lines += [HISTORY_COST] if report.staged else []
    is_large = report.bytes > LARGE_FILE_BYTES
    return [*lines, "it is large for a tracked file: hosting sites warn above 50 MiB"] if is_large else lines


@ledger.command("fetch")
@click.argument("remote", required=False)
@output.command_options
def fetch(remote: str | None, repo: Path, as_json: bool) -> None:
    """Take in the logs that other machines pushed to REMOTE: read beside our own, never part of our log.

    Logs are `unproved` unless signed by a key in `trusted_keys`. Exit 5 if a log on the remote no longer continues the
    log fetched earlier; the log fetched earlier stays unchanged.

    With `log = "tree"`, logs lie in the work tree and are read without this command; without REMOTE, the command then
    takes in logs found only in the history: of local branches, and logs dropped by a merge.
    """
    gate = output.governed_gate(repo)
    if gate.workspace.common_dir is None:
        raise output.Failure(
            "NO_GIT", "logs are shared by way of git, and this folder is no git repository", fix="git init"
        )
    if remote is None and gate.rules.config.share.log == "tree":
        imported = share_logs.import_tracked_logs(gate.recorder)
        lines = [f"{records} records of {name}" for name, records in imported.items()]
        lines = lines or ["no branch that is here has a log of another machine"]
        output.emit({"records": imported, "refused": []}, as_json, lines)
        return
    source = remote or "origin"
    fetched = share_logs.fetch_logs(gate.recorder, source)
    name = sanitise_line(source)
    lines = [f"{records} records of machine {machine}" for machine, records in fetched.records.items()]
    lines += [f"not taken: the log of {other} on {name} does not continue what is here" for other in fetched.refused]
    lines = lines or [f"{name} has no log of another machine"]
    output.emit(fetched, as_json, lines, output.INTEGRITY if fetched.refused else 0)


# --- old records -------------------------------------------------------------------------------------------


@ledger.command("compact")
@output.command_options
def compact(repo: Path, as_json: bool) -> None:
    """Compress the segments that are full. Every record stays readable, and any gzip reads the archives.

    The daemon does the same when nobody works.
    """
    done = archive_sealed(output.governed_gate(repo).recorder.log.folder)
    share = 100 * done.bytes_after // max(1, done.bytes_before)
    sizes = f"{format_mib(done.bytes_before)} are {format_mib(done.bytes_after)} now, {share} %"
    text = f"{done.records} records in {done.segments} segments: {sizes}"
    output.emit(done, as_json, text if done.segments else "no segment is full that is not archived yet")


def format_mib(size: int) -> str:
    return f"{size / 1024 / 1024:.1f} MiB"


@ledger.command("prune")
@click.option("--before", metavar="DATE", help="Records older than this: a date in UTC, 90d, '6 months ago'.")
@click.option("--keep-days", type=click.IntRange(0), metavar="N", help="Records older than N days.")
@click.option("--all", "all_records", is_flag=True, help="Also what tells who wrote lines that stand today.")
@click.option("--dry-run", is_flag=True, help="Only say what would go.")
@output.yes_option
@output.command_options
def prune(
    before: str | None, keep_days: int | None, all_records: bool, dry_run: bool, yes: bool, repo: Path, as_json: bool
) -> None:
    """Drop old records for good. Their hashes stay, so the chain and its tree heads go on holding.

    Drops whole segments that are full and covered by a tree head. Records about files that exist today stay, unless
    --all; tree heads, repairs and the history of intents always stay. Only a person may prune.
    """
    if not dry_run:
        require_person(Act.PRUNE_LEDGER)
    gate = output.governed_gate(repo)
    if (before is None) == (keep_days is None):
        raise output.Failure("USAGE", "give one of --before and --keep-days", fix="remit ledger prune --keep-days 365")
    archive_sealed(gate.recorder.log.folder)
    try:
        cutoff = parse_time(before if before is not None else f"{keep_days} days ago", datetime.now(UTC))
    except NotATime:
        if before is None:
            raise output.Failure("USAGE", f"{keep_days} days are too many", fix="at most 99999") from None
        raise
    pruning = check_logs.plan_log_pruning(gate.recorder, gate.rules.config, cutoff, all_records=all_records)
    plan = pruning.plan
    lines = describe_pruning(pruning, all_records)
    if not dry_run and plan.segments:
        output.say("\n".join(lines), err=True)
        count = plan.dropped_counts.total()
        require_confirmation(yes, f"{count} records would be dropped for good", "add --yes")
        freed = check_logs.prune_log(gate.recorder, pruning)
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
    output.emit(data, as_json, lines)


def describe_pruning(pruning: check_logs.LedgerPruning, all_records: bool) -> list[str]:
    plan = pruning.plan
    if not plan.segments:
        return [f"nothing to drop: no full segment is older than {pruning.before}", *plan.skipped]
    events = ", ".join(f"{count} {event}" for event, count in plan.dropped_counts.most_common())
    first, last = plan.segments[0].first, plan.segments[-1].last
    edits = "" if all_records else ", and edits of files that exist"
    blame = ["lost: who wrote the lines of that time; `remit blame` and `why` will say unknown"] if all_records else []
    return [
        f"of records {first} to {last}, {plan.dropped_counts.total()} would go ({format_mib(plan.bytes)}): {events}",
        f"{plan.kept_records} of them stay: heads, repairs, intents{edits}",
        "lost: what was called, refused, asked and answered then; `remit log`, `search` and `show` no longer find it",
        *blame,
        "copies elsewhere stay: agent_trace.jsonl, what was pushed, what was exported",
        *plan.skipped,
    ]

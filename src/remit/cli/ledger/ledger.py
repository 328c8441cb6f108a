"""`remit ledger`: verify, repair, sign, prove, compact and prune the ledger, and take in other logs."""

from collections.abc import Sequence
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, BinaryIO

import click
import msgspec

from remit.cli.completion import complete_records
from remit.cli.ledger.sharing import fetch, push
from remit.cli.output import (
    FINDINGS,
    INTEGRITY,
    Failure,
    command_options,
    emit,
    encode_json,
    governed_gate,
    say,
    yes_option,
)
from remit.cli.person_only import require_confirmation, require_person
from remit.cli.records.query import choose_id, find_by_id
from remit.core import tree_head
from remit.core.acts import Act
from remit.core.formats.foreign_records import convert_foreign_file
from remit.core.formats.proofs import ConsistencyProof, InvalidProof, Proof, check_proof, read_proof
from remit.core.record import KEY
from remit.core.untrusted_input import sanitise_line
from remit.gate.records.check_logs import (
    LedgerPruning,
    acknowledge_findings,
    check_ledger,
    find_tracked_log_faults,
    plan_log_pruning,
    prune_log,
)
from remit.gate.records.tree_heads import make_head, newest_head, read_private_key, trusted_keys
from remit.gate.records.tree_heads import write_head_note as write_witness
from remit.ledger.findings import ACKNOWLEDGEABLE_CODES, LedgerFinding
from remit.ledger.foreign_logs import MAX_IMPORT_BYTES, NothingToImport, import_file
from remit.ledger.log_files import list_local_names
from remit.ledger.parse_time import NotATime, parse_time
from remit.ledger.proofs import NoSuchRecord, find_tree_place, prove_consistency, prove_inclusion
from remit.ledger.retention import compact as archive_sealed
from remit.ledger.retention import list_pruned_parts
from remit.ledger.tree_heads import read_leaves, read_stored_heads

MAX_PROOF_BYTES = 16 * 1024 * 1024


@click.group()
def ledger() -> None:
    """The append-only log of what agents did."""


ledger.add_command(push)
ledger.add_command(fetch)


# --- verifying and signing ---------------------------------------------------------------------------------


@ledger.command("verify")
@click.option("--heads", "show_heads", is_flag=True, help="Also say how far a signature reaches.")
@command_options
def verify(show_heads: bool, repo: Path, as_json: bool) -> None:
    """Check that no record was altered, removed, doubled or moved; exit 5 where one was.

    Every tree head that is found is held against the log: beside it, in its records, in commits' notes,
    and in logs shared under refs/remit/log/ or as tracked files. What is wrong with such files is a warning.
    """
    gate = governed_gate(repo)
    folder = gate.recorder.log.folder
    report = check_ledger(gate.recorder, gate.rules.config)
    heads = report.heads
    findings = [*report.findings, *find_tracked_log_faults(gate.recorder)]
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
    emit(data, as_json, lines, INTEGRITY if failed else 0)


@ledger.command("repair")
@yes_option
@command_options
def repair(yes: bool, repo: Path, as_json: bool) -> None:
    """Acknowledge what `remit ledger verify` finds in a whole chain: another machine's records, a lost head.

    No record is changed. A signed `recovery` record names each finding, which is a warning from then on. Records
    that were altered, removed or moved stay errors. Only a person may do this.
    """
    require_person(Act.REPAIR_LEDGER)
    gate = governed_gate(repo)
    # Appending records any damage found, and the new head signs the record.
    make_head(gate.recorder, whole=True)
    errors = check_ledger(gate.recorder, gate.rules.config).errors
    repairable = [finding for finding in errors if finding.code in ACKNOWLEDGEABLE_CODES]
    if repairable:
        say("\n".join(map(finding_line, repairable)), err=True)
        question = f"{len(repairable)} findings would be acknowledged in the log, for good"
        require_confirmation(yes, question, "add --yes")
        acknowledge_findings(gate.recorder, repairable)
    left = check_ledger(gate.recorder, gate.rules.config).errors
    lines = [finding_line(finding) for finding in left]
    lines.append(f"{len(repairable)} findings acknowledged" if repairable else "there is nothing to acknowledge")
    lines += ["the rest shows that records were altered or removed, which nothing mends"] if left else []
    emit({"acknowledged": repairable, "left": list(left)}, as_json, lines, INTEGRITY if left else 0)


def finding_line(finding: LedgerFinding) -> str:
    place = f"{finding.segment}:{finding.line}: " if finding.segment else ""
    return f"{place}{finding.severity}: {finding.code}: {finding.message.removeprefix(place)}"


@ledger.command("head")
@command_options
def head(repo: Path, as_json: bool) -> None:
    """Sign the log as it is now, and show the signed note."""
    signed = make_head(governed_gate(repo).recorder, whole=True)
    if signed is None:
        raise Failure("NOT_FOUND", "the log is empty, so there is nothing to sign")
    emit({"note": signed.note}, as_json, signed.note.rstrip("\n"))


@ledger.command("witness")
@click.argument("commit", default="HEAD")
@command_options
def witness(commit: str, repo: Path, as_json: bool) -> None:
    """Write the newest tree head into the note of COMMIT, under refs/notes/remit; the work tree stays as it is."""
    recorder = governed_gate(repo).recorder
    note = newest_head(recorder.log.folder)
    if note is None:
        signed = make_head(recorder, whole=True)
        note = signed.note if signed else ""
    if not note:
        raise Failure("NOT_FOUND", "the log is empty, so there is nothing to witness")
    name = write_witness(recorder, commit, note, shown=True)
    if name is None:
        raise Failure("NOT_FOUND", f"{commit!r} is no commit here", fix="name one that `git log` shows", target=commit)
    emit({"commit": name, "note": note}, as_json, f"the newest tree head stands in the note of commit {name[:12]}")


@ledger.command("key")
@command_options
def key(repo: Path, as_json: bool) -> None:
    """Show this machine's public key, for `trusted_keys` in a teammate's remit.toml."""
    recorder = governed_gate(repo).recorder
    public = tree_head.derive_public_key(read_private_key(recorder.environment.home))
    text = tree_head.format_verifier_key(recorder.log.name, public)
    emit({"key": text, "public": public.hex(), "log": recorder.log.name}, as_json, text)


# --- other logs --------------------------------------------------------------------------------------------


@click.command("import")
@click.argument("file", type=click.Path(path_type=Path, exists=True, dir_okay=False))
@command_options
def import_(file: Path, repo: Path, as_json: bool) -> None:
    """Take in Agent Trace files (JSON or JSON Lines), other machines' logs, and the ledgers of older tools.

    They are read beside our records, marked as imported and unproved. `remit blame` takes a line from them only where
    the file's hash, or that of the lines, is the one that they name.
    """
    gate = governed_gate(repo)
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
    emit({**msgspec.to_builtins(imported), "traces": traces, "unread": unread}, as_json, text)


ledger.add_command(import_)


# --- proofs for readers without the log --------------------------------------------------------------------


@ledger.command("proof")
@click.argument("record", shell_complete=complete_records)
@command_options
def proof(record: str, repo: Path, as_json: bool) -> None:
    """Prove that RECORD, an id or a number in the log, is under a signed tree head. Prints one JSON document.

    The proof holds the record and can be read anywhere, by `remit ledger check-proof` alone. Of a pruned record only
    the hash is proved.
    """
    gate = governed_gate(repo)
    folder = gate.recorder.log.folder
    if record.isdecimal() and len(record) < 12:
        seq = int(record)
    else:
        chains = {str(item["id"]): item["metadata"].get(KEY, {}).get("chain", {}) for item in find_by_id(gate, record)}
        own = {name: chain for name, chain in chains.items() if chain.get("log") == gate.recorder.log.name}
        seq = int(own[choose_id("record of this machine's log", record, own, "`remit log`")]["seq"])
    try:
        place = find_tree_place(folder, seq)
    except NoSuchRecord as error:
        raise Failure.from_error(error, "NOT_FOUND", target=str(seq)) from error
    note = newest_head(folder)
    if note is None or tree_head.parse_signed_head(note).head.size <= place.index:
        signed = make_head(gate.recorder, whole=True)
        note = signed.note if signed else ""
    emit_proof(prove_inclusion(folder, place, tree_head.parse_signed_head(note).head, note), as_json)


@ledger.command("consistency")
@click.argument("old", type=click.IntRange(0))
@click.argument("new", type=click.IntRange(0), required=False)
@command_options
def print_consistency_proof(old: int, new: int | None, repo: Path, as_json: bool) -> None:
    """Prove that the log under the tree head of NEW records, by default the newest, begins with that of OLD."""
    folder = governed_gate(repo).recorder.log.folder
    heads: dict[int, tuple[tree_head.TreeHead, str]] = {}
    for stored in read_stored_heads(folder):
        with suppress(tree_head.InvalidTreeHead):
            head = tree_head.parse_signed_head(stored.note).head
            heads[head.size] = (head, stored.note)
    newest = new if new is not None else max(heads, default=0)
    missing = [size for size in (old, newest) if size not in heads]
    if missing or old > newest:
        sizes = ", ".join(map(str, sorted(heads)[-12:])) or "none yet: run `remit ledger head`"
        message = f"no tree head has {missing[0]} records" if missing else f"{old} is more than {newest}"
        raise Failure("NOT_FOUND", message, fix=f"heads are kept of {sizes}")
    emit_proof(prove_consistency(folder, heads[old], heads[newest]), as_json)


def emit_proof(made: Proof, as_json: bool) -> None:
    if why := check_proof(made).why:
        message = f"the log bears no proof: {why}"
        raise Failure("INTEGRITY", message, fix="see `remit ledger verify`", exit_code=INTEGRITY)
    emit(made, as_json, encode_json(made))


@ledger.command("check-proof")
@click.argument("file", type=click.File("rb"))
@click.option("--key", "keys", multiple=True, help="A key to trust, as `remit ledger key` prints it.")
@command_options
def check(file: BinaryIO, keys: Sequence[str], repo: Path, as_json: bool) -> None:
    """Check a proof in FILE (- for standard input), without a log or a network. Exit 5 if the proof is false.

    Exit 1 if the hashes hold but the key of the signature is not trusted here. Trusted keys are the keys of --key, or
    this machine's key and `trusted_keys`.
    """
    raw = file.read(MAX_PROOF_BYTES + 1)
    if len(raw) > MAX_PROOF_BYTES:
        raise InvalidProof(f"it is longer than {MAX_PROOF_BYTES} bytes")
    try:
        document = msgspec.json.decode(raw, type=dict[str, Any])
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise InvalidProof(f"it is no JSON: {error}") from error
    made = read_proof(document.get("data", document))  # bare, or as printed by `--json`
    checked = check_proof(made)
    known = [tree_head.parse_public_key(key) for key in keys]
    if not known:
        with suppress(Failure):  # an ungoverned folder trusts no keys
            gate = governed_gate(repo)
            known = list(trusted_keys(gate.environment.home, gate.rules.config))
    # Of each head: True if a known key signed it, False for a false signature, none if no key is named.
    verdicts = [{tree_head.verify_signature(head, key) for key in known} for head in checked.heads]
    why = checked.why
    if not why and any(False in verdict for verdict in verdicts):
        why = "a head bears a trusted key's name, and its signature is false"
    trusted = not why and all(True in verdict for verdict in verdicts)
    data = {"kind": checked.kind, "holds": not why, "trusted": trusted, "why": why, "log": made.log, "size": made.size}
    log = sanitise_line(made.log)
    if isinstance(made, ConsistencyProof):
        text = f"the {made.size} records of {log} begin with the {made.old_size} that were signed before"
    else:
        subject = "this record" if made.record is not None else "a pruned record with this hash"
        text = f"{subject} is number {made.index} of the {made.size} records of {log}"
    signer = "a trusted key" if trusted else "a key that is not trusted here"
    code = 0 if trusted else INTEGRITY if why else FINDINGS
    emit(data, as_json, why or f"{text}\nsigned by {signer}", code)


# --- old records -------------------------------------------------------------------------------------------


@ledger.command("compact")
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


@ledger.command("prune")
@click.option("--before", metavar="DATE", help="Records older than this: a date in UTC, 90d, '6 months ago'.")
@click.option("--keep-days", type=click.IntRange(0), metavar="N", help="Records older than N days.")
@click.option("--all", "all_records", is_flag=True, help="Also what tells who wrote lines that stand today.")
@click.option("--dry-run", is_flag=True, help="Only say what would go.")
@yes_option
@command_options
def prune(
    before: str | None, keep_days: int | None, all_records: bool, dry_run: bool, yes: bool, repo: Path, as_json: bool
) -> None:
    """Drop old records for good. Their hashes stay, so the chain and its tree heads go on holding.

    Drops whole segments that are full and covered by a tree head. Records about files that exist today stay, unless
    --all; tree heads, repairs and the history of intents always stay. Only a person may prune.
    """
    if not dry_run:
        require_person(Act.PRUNE_LEDGER)
    gate = governed_gate(repo)
    if (before is None) == (keep_days is None):
        raise Failure("USAGE", "give one of --before and --keep-days", fix="remit ledger prune --keep-days 365")
    archive_sealed(gate.recorder.log.folder)
    try:
        cutoff = parse_time(before if before is not None else f"{keep_days} days ago", datetime.now(UTC))
    except NotATime:
        if before is None:
            raise Failure("USAGE", f"{keep_days} days are too many", fix="at most 99999") from None
        raise
    pruning = plan_log_pruning(gate.recorder, gate.rules.config, cutoff, all_records=all_records)
    plan = pruning.plan
    lines = describe_pruning(pruning, all_records)
    if not dry_run and plan.segments:
        say("\n".join(lines), err=True)
        count = plan.dropped_counts.total()
        require_confirmation(yes, f"{count} records would be dropped for good", "add --yes")
        freed = prune_log(gate.recorder, pruning)
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
    emit(data, as_json, lines)


def describe_pruning(pruning: LedgerPruning, all_records: bool) -> list[str]:
    """Return the lines on dropped records, kept records, and lost information."""
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

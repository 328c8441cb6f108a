"""`remit ledger`: check, repair and sign the ledger, and import other logs."""

from collections.abc import Sequence
from pathlib import Path

import click

from remit.cli.ledger.proofs import check, print_consistency_proof, proof
from remit.cli.ledger.retention import compact, prune
from remit.cli.ledger.sharing import fetch, push
from remit.cli.output import INTEGRITY, Failure, command_options, emit, governed_gate
from remit.cli.person_only import require_confirmation, require_person
from remit.core.tree_head import derive_public_key, format_verifier_key
from remit.gate.log_sharing.check_file import find_tracked_log_faults
from remit.gate.log_sharing.check_logs import acknowledge_findings, check_ledger
from remit.gate.records.tree_heads import make_head, newest_head, read_private_key
from remit.gate.records.tree_heads import write_head_note as write_witness
from remit.ledger.foreign_logs import import_file
from remit.ledger.integrity.findings import ACKNOWLEDGEABLE_CODES, LedgerFinding
from remit.ledger.integrity.tree_heads import HeadsReport, read_leaves
from remit.ledger.machine_logs import list_local_names
from remit.ledger.prune import PrunedPart, list_pruned_parts


@click.group()
def ledger() -> None:
    """The append-only log of what agents did."""


for command in (compact, prune, proof, print_consistency_proof, check, push, fetch):
    ledger.add_command(command)


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
    findings = [*report.findings, *find_tracked_log_faults(gate)]
    count = sum(1 for _ in read_leaves(folder))
    whole_from = first_intact_record(report.chain_findings)
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
    lines = [finding_line(finding) for finding in findings]
    lines += [] if failed else [f"{count} records, the chain is whole"]
    lines += [f"from record {whole_from} on the chain is whole"] if whole_from else []
    lines += [pruned_line(part, heads) for part in pruned_parts]
    lines += [witnessed_line(heads, count)] if failed or show_heads else []
    emit(data, as_json, "\n".join(lines))
    if failed:
        raise SystemExit(INTEGRITY)


@ledger.command("repair")
@click.option("--yes", "-y", is_flag=True, help="Do not ask.")
@command_options
def repair(yes: bool, repo: Path, as_json: bool) -> None:
    """Acknowledge what `remit ledger verify` finds in a whole chain: another machine's records, a lost head.

    No record is changed. A signed `recovery` record names each finding, which is a warning from then on. Records
    that were altered, removed or moved stay errors. Only a person may do this.
    """
    require_person("`remit ledger repair`")
    gate = governed_gate(repo)
    # Appending records any damage found, and the new head signs the record.
    make_head(gate.recorder, whole=True)
    errors = check_ledger(gate.recorder, gate.rules.config).errors
    repairable = [finding for finding in errors if finding.code in ACKNOWLEDGEABLE_CODES]
    if repairable:
        click.echo("\n".join(map(finding_line, repairable)), err=True)
        question = f"{len(repairable)} findings would be acknowledged in the log, for good"
        require_confirmation(yes, question, "add --yes")
        acknowledge_findings(gate.recorder, repairable)
    left = check_ledger(gate.recorder, gate.rules.config).errors
    lines = [finding_line(finding) for finding in left]
    lines.append(f"{len(repairable)} findings acknowledged" if repairable else "there is nothing to acknowledge")
    lines += ["the rest shows that records were altered or removed, which nothing mends"] if left else []
    emit({"acknowledged": repairable, "left": list(left)}, as_json, "\n".join(lines))
    if left:
        raise SystemExit(INTEGRITY)


def pruned_line(part: PrunedPart, heads: HeadsReport) -> str:
    state = "no tree head bears their hashes out"
    if part.end <= heads.witnessed:
        state = f"their hashes verify against the tree head of {heads.witnessed} records ({heads.newest})"
    return f"records {part.first} to {part.last}: {part.gone} of them pruned, {state}"


def first_intact_record(broken: Sequence[LedgerFinding]) -> int | None:
    """Return the number of the first record after the last error: 0 without errors, None if the end is broken."""
    last = -1
    for finding in broken:
        if finding.severity != "error":
            continue
        if finding.last_seq is None or finding.code == "truncated":
            return None
        last = max(last, finding.last_seq)
    return last + 1


def witnessed_line(heads: HeadsReport, count: int) -> str:
    if not heads.witnessed:
        return f"no tree head bears the log out: its {count} records are unwitnessed"
    tail = count - heads.witnessed
    rest = f"; the {tail} after it are unwitnessed" if tail > 0 else ""
    return f"the first {heads.witnessed} records are those of the newest tree head ({heads.newest}){rest}"


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
    public = derive_public_key(read_private_key(recorder.environment.home))
    text = format_verifier_key(recorder.log.name, public)
    emit({"key": text, "public": public.hex(), "log": recorder.log.name}, as_json, text)


@ledger.command("import")
@click.argument("file", type=click.Path(path_type=Path, exists=True, dir_okay=False))
@command_options
def import_log(file: Path, repo: Path, as_json: bool) -> None:
    """Take in another machine's log, or an older tool's: read beside our own, never part of it."""
    gate = governed_gate(repo)
    root = gate.workspace.log_folder
    done = import_file(file, root, list_local_names(root, gate.recorder.log.name))
    logs = f" of {len(done.logs)} other logs" if done.logs else ""
    text = f"{done.records} records{logs}, and {done.older} lines of older tools, are read from now on"
    emit(done, as_json, text)

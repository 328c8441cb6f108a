"""`remit ledger`: check the ledger, sign it, give its head to a commit, take in another's."""

from collections.abc import Sequence
from pathlib import Path

import click
import msgspec

from remit.cli.ledger_life import compact, prune
from remit.cli.ledger_proofs import check, proof, prove_consistency
from remit.cli.ledger_share import fetch, push
from remit.cli.output import (
    INTEGRITY,
    Failure,
    emit,
    governed_gate,
    json_option,
    repo_option,
    reports_failures,
)
from remit.cli.people import only_people
from remit.cli.uninstall import agree
from remit.core.treehead import public_of, verifier_key
from remit.gate.ledger_check import acknowledge, check_ledger
from remit.gate.tracked_check import tracked_findings
from remit.gate.witness import make_head, newest_head, own_seed
from remit.gate.witness import witness as write_witness
from remit.ledger.acknowledgements import ACKNOWLEDGEABLE
from remit.ledger.findings import LedgerFinding
from remit.ledger.foreign import import_file
from remit.ledger.heads import leaves
from remit.ledger.heads_check import HeadsReport
from remit.ledger.machine_logs import local_names
from remit.ledger.prune import Pruned, pruned_parts


@click.group()
def ledger() -> None:
    """The append-only log of what agents did."""


for command in (compact, prune, proof, prove_consistency, check, push, fetch):
    ledger.add_command(command)


@ledger.command("verify")
@click.option("--heads", "show_heads", is_flag=True, help="Also say how far a signature reaches.")
@repo_option
@json_option
@reports_failures
def verify(show_heads: bool, repo: Path, as_json: bool) -> None:
    """Check that no record was altered, removed, doubled or moved; exit 5 where one was.

    Every tree head that is found is held against the log: beside it, in its records, in commits' notes,
    and in logs shared under refs/remit/log/ or as tracked files. What is wrong with such files is a warning.
    """
    gate = governed_gate(repo)
    folder = gate.recorder.log.folder
    report = check_ledger(gate.recorder, gate.governing.config)
    heads, broken = report.heads, report.broken
    findings = (*report.findings, *tracked_findings(gate))
    count = sum(1 for _ in leaves(folder))
    whole_from = first_whole(broken)
    gaps = pruned_parts(folder)
    data = {
        "records": count,
        "findings": [msgspec.to_builtins(f) for f in findings],
        "heads": heads.heads,
        "witnessed": heads.witnessed,
        "newest_head": heads.newest,
        "unwitnessed": max(0, count - heads.witnessed),
        "whole_from": whole_from,
        "pruned": [msgspec.to_builtins(part) for part in gaps],
    }
    failed = any(f.severity == "error" for f in findings)
    state = () if failed else (f"{count} records, the chain is whole",)
    after = (f"from record {whole_from} on the chain is whole",) if whole_from else ()
    gone = [pruned_line(part, heads) for part in gaps]
    reach = (witnessed_line(heads, count),) if failed or show_heads else ()
    emit(data, as_json, "\n".join((*map(finding_line, findings), *state, *after, *gone, *reach)))
    if failed:
        raise SystemExit(INTEGRITY)


@ledger.command("repair")
@click.option("--yes", "-y", is_flag=True, help="Do not ask.")
@repo_option
@json_option
@reports_failures
def repair(yes: bool, repo: Path, as_json: bool) -> None:
    """Acknowledge what `remit ledger verify` finds in a whole chain: another machine's records, a lost head.

    No record is changed. A signed `recovery` record names each finding, which is a warning from then on. Records
    that were altered, removed or moved stay errors. Only a person may do this.
    """
    only_people("`remit ledger repair`")
    gate = governed_gate(repo)
    # What the log can say of itself, it says first: an append notes what it finds, and the head signs that.
    make_head(gate.recorder, whole=True)
    errors = check_ledger(gate.recorder, gate.governing.config).errors
    found = [finding for finding in errors if finding.code in ACKNOWLEDGEABLE]
    if found:
        click.echo("\n".join(map(finding_line, found)), err=True)
        agree(yes, f"{len(found)} findings would be acknowledged in the log, for good", "add --yes")
        acknowledge(gate.recorder, found)
    left = check_ledger(gate.recorder, gate.governing.config).errors
    said = f"{len(found)} findings acknowledged" if found else "there is nothing to acknowledge"
    rest = "the rest shows that records were altered or removed, which nothing mends" if left else ""
    data = {name: [msgspec.to_builtins(f) for f in of] for name, of in (("acknowledged", found), ("left", left))}
    emit(data, as_json, "\n".join(filter(None, (*map(finding_line, left), said, rest))))
    if left:
        raise SystemExit(INTEGRITY)


def pruned_line(part: Pruned, heads: HeadsReport) -> str:
    """What was dropped on purpose, and whether a signature covers the hashes that are left."""
    borne = part.end <= heads.witnessed
    proved = f"their hashes verify against the tree head of {heads.witnessed} records ({heads.newest})"
    state = proved if borne else "no tree head bears their hashes out"
    return f"records {part.first} to {part.last}: {part.gone} of them pruned, {state}"


def first_whole(broken: Sequence[LedgerFinding]) -> int | None:
    """The first record after everything that is wrong with the chain: 0 where nothing is, None where the end is."""
    last = -1
    for finding in broken:
        if finding.severity != "error":
            continue
        if finding.last_seq is None or finding.code == "truncated":
            return None
        last = max(last, finding.last_seq)
    return last + 1


def witnessed_line(heads: HeadsReport, count: int) -> str:
    """How far somebody's signature reaches."""
    if not heads.witnessed:
        return f"no tree head bears the log out: its {count} records are unwitnessed"
    tail = count - heads.witnessed
    rest = f"; the {tail} after it are unwitnessed" if tail > 0 else ""
    return f"the first {heads.witnessed} records are those of the newest tree head ({heads.newest}){rest}"


def finding_line(finding: LedgerFinding) -> str:
    """One finding for people."""
    place = f"{finding.segment}:{finding.line}: " if finding.segment else ""
    return f"{place}{finding.severity}: {finding.code}: {finding.message.removeprefix(place)}"


@ledger.command("head")
@repo_option
@json_option
@reports_failures
def head(repo: Path, as_json: bool) -> None:
    """Sign the log as it is now, and show the signed note."""
    made = make_head(governed_gate(repo).recorder, whole=True)
    if made is None:
        raise Failure("NOT_FOUND", "the log is empty, so there is nothing to sign")
    emit({"note": made.note}, as_json, made.note.rstrip("\n"))


@ledger.command("witness")
@click.argument("commit", default="HEAD")
@repo_option
@json_option
@reports_failures
def witness(commit: str, repo: Path, as_json: bool) -> None:
    """Write the newest tree head into the note of COMMIT, under refs/notes/remit; the work tree stays as it is."""
    recorder = governed_gate(repo).recorder
    note = newest_head(recorder.log.folder)
    if note is None:
        made = make_head(recorder, whole=True)
        note = made.note if made else ""
    if not note:
        raise Failure("NOT_FOUND", "the log is empty, so there is nothing to witness")
    found = write_witness(recorder, commit, note, shown=True)
    if found is None:
        raise Failure("NOT_FOUND", f"{commit!r} is no commit here", fix="name one that `git log` shows", target=commit)
    emit({"commit": found, "note": note}, as_json, f"the newest tree head stands in the note of commit {found[:12]}")


@ledger.command("key")
@repo_option
@json_option
@reports_failures
def key(repo: Path, as_json: bool) -> None:
    """Show this machine's public key, for `trusted_keys` in a teammate's remit.toml."""
    recorder = governed_gate(repo).recorder
    public = public_of(own_seed(recorder.environment.home))
    text = verifier_key(recorder.log.name, public)
    emit({"key": text, "public": public.hex(), "log": recorder.log.name}, as_json, text)


@ledger.command("import")
@click.argument("file", type=click.Path(path_type=Path, exists=True, dir_okay=False))
@repo_option
@json_option
@reports_failures
def take_in(file: Path, repo: Path, as_json: bool) -> None:
    """Take in another machine's log, or an older tool's: read beside our own, never part of it."""
    gate = governed_gate(repo)
    root = gate.workspace.log_folder
    done = import_file(file, root, local_names(root, gate.recorder.log.name))
    logs = f" of {len(done.logs)} other logs" if done.logs else ""
    text = f"{done.records} records{logs}, and {done.older} lines of older tools, are read from now on"
    emit(msgspec.to_builtins(done), as_json, text)

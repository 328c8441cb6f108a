"""`remit ledger`: check the ledger."""

from pathlib import Path

import click
import msgspec

from remit.cli.output import INTEGRITY, emit, governed_gate, json_option, repo_option, reports_failures
from remit.ledger.reader import lines
from remit.ledger.verify import LedgerFinding, verify_log


@click.group()
def ledger() -> None:
    """The append-only log of what agents did."""


@ledger.command("verify")
@repo_option
@json_option
@reports_failures
def verify(repo: Path, as_json: bool) -> None:
    """Check that no record was altered, removed, doubled or moved; exit 5 where one was."""
    gate = governed_gate(repo)
    folder = gate.workspace.log_folder
    findings = verify_log(folder, gate.recorder.log.name)
    count = sum(1 for _ in lines(folder))
    data = {"records": count, "findings": [msgspec.to_builtins(f) for f in findings]}
    text = "\n".join(map(finding_line, findings)) or f"{count} records, the chain is whole"
    emit(data, as_json, text)
    if any(f.severity == "error" for f in findings):
        raise SystemExit(INTEGRITY)


def finding_line(finding: LedgerFinding) -> str:
    """One finding for people."""
    place = f"{finding.segment}:{finding.line}: " if finding.segment else ""
    return f"{place}{finding.severity}: {finding.code}: {finding.message}"

"""Verification of every log in a repository: the machine's own log, and imported logs."""

from collections.abc import Iterator, Sequence

from msgspec import Struct
from msgspec.structs import replace

from remit.core.config import Config
from remit.gate.records.tree_head_report import heads_report
from remit.gate.records.tree_heads import LogWriter, make_head, trusted_keys
from remit.ledger.integrity.findings import (
    LedgerFinding,
    build_acknowledgement,
    read_acknowledgements,
    soften_acknowledged,
)
from remit.ledger.integrity.tree_heads import (
    HeadsReport,
    check_heads,
    find_confirmed_heads,
    read_leaves,
    read_recorded_heads,
    read_stored_heads,
)
from remit.ledger.integrity.verify_log import verify_log
from remit.ledger.machine_logs import LocalLog, is_readable, list_local_logs
from remit.ledger.reader import read_lines


class LedgerReport(Struct, frozen=True):
    """Findings about the logs. `chain_findings` concern the chain of the machine's own log."""

    findings: tuple[LedgerFinding, ...]
    chain_findings: tuple[LedgerFinding, ...]
    heads: HeadsReport

    @property
    def errors(self) -> list[LedgerFinding]:
        return [finding for finding in self.findings if finding.severity == "error"]


def check_ledger(recorder: LogWriter, config: Config) -> LedgerReport:
    """Verify every local log. Raises OSError, LedgerError, GitError, InvalidKey."""
    own = recorder.log
    heads = heads_report(recorder, config)
    known = {**read_acknowledgements(own.folder, heads.witnessed)}
    others: list[LedgerFinding] = []
    mistaken: set[str] = set()
    keys = trusted_keys(recorder.environment.home, config)
    for log in list_local_logs(own.root):
        if log.folder != own.folder:
            # Acknowledgements of another log about itself are evidence like its records, proved or not.
            known |= {key: at for key, at in _read_acknowledgements(log).items() if key[0] == log.name}
            mistaken |= _find_misnamed_heads(log, heads)
            others += (replace(finding, log=log.name) for finding in _check_other_log(log, keys))
    broken = soften_acknowledged(verify_log(own.folder, own.name), own.name, known)
    signed = (finding for finding in heads.findings if finding.about not in mistaken)
    findings = soften_acknowledged([*signed, *others], own.name, known)
    return LedgerReport((*broken, *findings), tuple(broken), heads)


def count_proved_records(recorder: LogWriter, config: Config) -> dict[str, int]:
    """Return, by imported log, the number of records vouched for by a trusted key.

    Raises OSError, LedgerError, InvalidKey.
    """
    keys = trusted_keys(recorder.environment.home, config) if config.ledger.trusted_keys else ()
    own = recorder.log
    others = [log for log in list_local_logs(own.root) if log.folder != own.folder and is_readable(log.folder)]
    return {log.name: _check_log_heads(log, keys).witnessed if keys else 0 for log in others}


def _check_log_heads(log: LocalLog, keys: Sequence[bytes]) -> HeadsReport:
    found = [*read_stored_heads(log.folder), *read_recorded_heads(read_lines(log.folder))]
    return check_heads(read_leaves(log.folder), found, log.name, keys)


def _find_misnamed_heads(log: LocalLog, heads: HeadsReport) -> frozenset[str]:
    """Return heads signed in the machine's own name over an imported log, as older versions did."""
    asked = [finding.about for finding in heads.findings if finding.about]
    return find_confirmed_heads(read_leaves(log.folder), asked) if asked and is_readable(log.folder) else frozenset()


def _read_acknowledgements(log: LocalLog) -> dict[tuple[str, str], str]:
    return {**read_acknowledgements(log.folder)} if is_readable(log.folder) else {}


def _check_other_log(log: LocalLog, keys: Sequence[bytes]) -> Iterator[LedgerFinding]:
    """Yield findings about an imported log, proved only by a trusted key."""
    if not is_readable(log.folder):
        text = f"the log {log.name!r} in {log.place!r} cannot be read by this user: its records are not shown"
        yield LedgerFinding("unreadable", "warning", text)
        return
    for finding in verify_log(log.folder, log.name):
        yield replace(finding, message=f"the log {log.name!r}: {finding.message}")
    heads = _check_log_heads(log, keys)
    count = sum(1 for _ in read_leaves(log.folder))
    # The newest head does not cover its own record.
    yield from (f for f in heads.findings if f.code not in ("unproved", "head_unreadable"))
    if heads.witnessed < count - 1 or not heads.witnessed:
        proved = f"only its first {heads.witnessed} records are" if heads.witnessed else "none of its records is"
        text = (
            f"the log {log.name!r} is another machine's, and {proved} signed by a key that is trusted here: the rest "
            "are evidence, `unproved`. `remit ledger key` there prints the key for `[ledger] trusted_keys`"
        )
        yield LedgerFinding("unproved", "warning", text)


def acknowledge_findings(recorder: LogWriter, findings: Sequence[LedgerFinding]) -> None:
    """Record that a person has seen the findings, and sign the record. Raises OSError, LedgerError."""
    recorder.log.append(
        [recorder.recovery_record(build_acknowledgement(recorder.log.name, findings))], views=recorder.views
    )
    make_head(recorder, whole=True)

"""Whether the logs of a repository are what was appended: this machine's own, and those of others that lie here."""

from collections.abc import Iterator, Sequence

from msgspec import Struct
from msgspec.structs import replace

from remit.core.config import Config
from remit.gate.heads_found import heads_report
from remit.gate.witness import Writer, make_head, trusted_keys
from remit.ledger.acknowledgements import acknowledged_in, acknowledgement, weighed
from remit.ledger.findings import LedgerFinding
from remit.ledger.heads import kept_heads, leaves, recorded_heads
from remit.ledger.heads_check import HeadsReport, check_heads, heads_borne_out
from remit.ledger.machine_logs import LocalLog, is_readable, local_logs
from remit.ledger.reader import lines
from remit.ledger.verify import verify_log


class LedgerReport(Struct, frozen=True):
    """What is wrong with the logs. `broken` are the findings on the chain of this machine's own."""

    findings: tuple[LedgerFinding, ...]
    broken: tuple[LedgerFinding, ...]
    heads: HeadsReport

    @property
    def errors(self) -> list[LedgerFinding]:
        """What fails verification."""
        return [finding for finding in self.findings if finding.severity == "error"]


def check_ledger(recorder: Writer, config: Config) -> LedgerReport:
    """Verify every log that lies here. Raises OSError, LedgerError, GitError, InvalidKey."""
    own = recorder.log
    heads = heads_report(recorder, config)
    known = {**acknowledged_in(own.folder, heads.witnessed)}
    others: list[LedgerFinding] = []
    mistaken: set[str] = set()
    keys = trusted_keys(recorder.environment.home, config)
    for log in local_logs(own.root):
        if log.folder != own.folder:
            # Its own word on itself counts as much as all that it says: it is evidence, proved or not.
            known |= {key: at for key, at in _acknowledged(log).items() if key[0] == log.name}
            mistaken |= _misnamed_heads(log, heads)
            others += (replace(finding, log=log.name) for finding in _check_other(log, keys))
    broken = weighed(verify_log(own.folder, own.name), own.name, known)
    signed = (finding for finding in heads.findings if finding.about not in mistaken)
    findings = weighed([*signed, *others], own.name, known)
    return LedgerReport((*broken, *findings), tuple(broken), heads)


def proved_records(recorder: Writer, config: Config) -> dict[str, int]:
    """By name of another machine's log that lies here: how many of its records a trusted key vouches for.

    Raises OSError, LedgerError, InvalidKey.
    """
    keys = trusted_keys(recorder.environment.home, config) if config.ledger.trusted_keys else ()
    own = recorder.log
    others = [log for log in local_logs(own.root) if log.folder != own.folder and is_readable(log.folder)]
    return {log.name: _heads_of(log, keys).witnessed if keys else 0 for log in others}


def _heads_of(log: LocalLog, keys: Sequence[bytes]) -> HeadsReport:
    found = [*kept_heads(log.folder), *recorded_heads(lines(log.folder))]
    return check_heads(leaves(log.folder), found, log.name, keys)


def _misnamed_heads(log: LocalLog, heads: HeadsReport) -> frozenset[str]:
    """Heads that this machine signed in its own name over another machine's log, as older versions did."""
    asked = [finding.about for finding in heads.findings if finding.about]
    return heads_borne_out(leaves(log.folder), asked) if asked and is_readable(log.folder) else frozenset()


def _acknowledged(log: LocalLog) -> dict[tuple[str, str], str]:
    return {**acknowledged_in(log.folder)} if is_readable(log.folder) else {}


def _check_other(log: LocalLog, keys: Sequence[bytes]) -> Iterator[LedgerFinding]:
    """What is wrong with the log of another machine that lies here; without its key it proves nothing."""
    if not is_readable(log.folder):
        text = f"the log {log.name!r} in {log.place!r} cannot be read by this user: its records are not shown"
        yield LedgerFinding("unreadable", "warning", text)
        return
    for finding in verify_log(log.folder, log.name):
        yield replace(finding, message=f"the log {log.name!r}: {finding.message}")
    heads = _heads_of(log, keys)
    count = sum(1 for _ in leaves(log.folder))
    # The record of the newest head comes after what that covers.
    yield from (f for f in heads.findings if f.code not in ("unproved", "head_unreadable"))
    if heads.witnessed < count - 1 or not heads.witnessed:
        proved = f"only its first {heads.witnessed} records are" if heads.witnessed else "none of its records is"
        text = (
            f"the log {log.name!r} is another machine's, and {proved} signed by a key that is trusted here: the rest "
            "are evidence, `unproved`. `remit ledger key` there prints the key for `[ledger] trusted_keys`"
        )
        yield LedgerFinding("unproved", "warning", text)


def acknowledge(recorder: Writer, findings: Sequence[LedgerFinding]) -> None:
    """Record that a person has seen these findings, and sign that. Raises OSError, LedgerError."""
    recorder.log.append([recorder.recovery(acknowledgement(recorder.log.name, findings))], views=recorder.views)
    make_head(recorder, whole=True)

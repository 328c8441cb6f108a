"""What this machine's log is called where it is a tracked file."""

from remit.ledger.heads import leaves
from remit.ledger.log import MachineLog

FIRST_DIGITS = 8


def own_file(log: MachineLog) -> str | None:
    """The name of the log's tracked file; None where the log is empty. It stays when the first record is pruned."""
    first = next(iter(leaves(log.folder)), None)
    return f"{log.name.rpartition('/')[2]}-{first.hex()[:FIRST_DIGITS]}.jsonl" if first else None

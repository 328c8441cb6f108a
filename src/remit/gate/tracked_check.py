"""What is wrong with tracked logs as they lie in the work tree: they are read as far as they are true."""

from collections.abc import Iterator, Sequence
from itertools import pairwise

from msgspec import Struct, json

from remit.core.merkle import leaf_hash
from remit.gate.gate import Gate
from remit.gate.own_log import own_file
from remit.ledger.bodies import Line
from remit.ledger.findings import LedgerFinding
from remit.ledger.heads import leaves
from remit.ledger.segments import UNREADABLE
from remit.workspace.place import LOGS
from remit.workspace.tracked import MOST_FILES, TOGETHER_BYTES, folder_trouble, names_in, readable, trouble
from remit.workspace.tracked_logs import TrackedLogs

NAMED = 5
"""So many lines are named."""

OURS = "`remit ledger push` writes it anew from the ledger"
OURS_ALTERED = (
    "where `remit ledger verify` finds the ledger whole, delete the file, and `remit ledger push` writes it anew"
)
SETTLED = "`remit ledger push --stage` settles it, then go on with the merge or rebase"
THEIRS = f"its own machine writes it anew with `remit ledger push`, and `git log -- {LOGS}` has earlier versions"


class _Chain(Struct):
    seq: int
    prev: str


class _Body(Struct):
    chain: _Chain


_LINE = json.Decoder(Line[_Body])


class _Read(Struct, frozen=True):
    """A line of a tracked log, by its number; no chain where it is no record."""

    number: int
    raw: bytes
    chain: _Chain | None


def tracked_findings(gate: Gate) -> list[LedgerFinding]:
    """What is wrong with each tracked log, all of it warnings: our ledger is not what they are. Raises GitError."""
    workspace = gate.workspace
    here = names_in(workspace.tracked_logs)
    if workspace.common_dir is None:
        return []
    if why := folder_trouble(workspace.tracked_logs):
        return [
            LedgerFinding("tracked_damaged", "warning", f"{LOGS}: nothing there is read: {why}; a folder belongs there")
        ]
    logs = TrackedLogs(workspace)
    names = sorted({*here, *logs.names()})
    own, sides = own_file(gate.recorder.log) if names else None, logs.sides() if names else {}
    few = {path.name for path in readable(workspace.tracked_logs)}
    left = [name for name in here if name not in few and trouble(logs.path(name)) is None]
    return [*map(too_many, left[:1])] + [
        LedgerFinding("tracked_damaged", "warning", f"{LOGS}/{name}: {what}; {step}")
        for name in names
        for what, step in looked_at(gate, logs, name, own=name == own, unsettled=name in sides)
    ]


def too_many(first: str) -> LedgerFinding:
    """What is said where not all logs are read."""
    why = f"it and what follows is not read: logs are more than {MOST_FILES}, or {TOGETHER_BYTES >> 20} MiB together"
    return LedgerFinding("tracked_damaged", "warning", f"{LOGS}/{first}: {why}; take out those that nobody needs")


def looked_at(gate: Gate, logs: TrackedLogs, name: str, *, own: bool, unsettled: bool) -> Iterator[tuple[str, str]]:
    """What is wrong with one tracked log, and the next step. Raises GitError, OSError."""
    step = SETTLED if unsettled else OURS if own else THEIRS
    content, committed = logs.present(name), logs.committed(name)
    back = step if own else f"`git checkout HEAD -- {LOGS}/{name}`" if committed is not None else "delete it"
    if content is None:
        yield f"it is not read: {trouble(logs.path(name))}", back
        return
    if own and (odd := strangers(gate, content)):
        yield f"{named(odd)} not in this machine's ledger", OURS_ALTERED
        return
    if unsettled:
        yield "a merge left two versions of it", step
    elif committed is not None and not content.startswith(committed):
        yield "it does not continue what HEAD has", back
    yield from ((what, step) for what in wrongs(content))


def wrongs(content: bytes) -> Iterator[str]:
    """What shows in a log by itself."""
    found = list(read(content))
    if junk := [one.number for one in found if one.chain is None]:
        yield f"{named(junk)} no record of a log"
    records = [one for one in found if one.chain is not None]
    if altered := [one.number for one, after in pairwise(records) if not continues(one, after)]:
        yield f"{named(altered)} not what the line after it continues"


def read(content: bytes) -> Iterator[_Read]:
    """The lines, each once: a merge may have doubled some."""
    seen: set[bytes] = set()
    for number, line in enumerate(content.split(b"\n"), 1):
        raw = line.removesuffix(b"\r")
        if raw and raw not in seen:
            seen.add(raw)
            yield _Read(number, raw, chain_of(raw))


def chain_of(raw: bytes) -> _Chain | None:
    """The place in its log that a line claims."""
    try:
        raw.decode()
        return _LINE.decode(raw).metadata.body.chain
    except UNREADABLE:
        return None


def continues(one: _Read, after: _Read) -> bool:
    """Whether the chain goes on; between them records may be missing, which were pruned before they were shared."""
    if one.chain is None or after.chain is None or after.chain.seq <= one.chain.seq:
        return False
    return after.chain.seq > one.chain.seq + 1 or after.chain.prev == f"sha256:{leaf_hash(one.raw).hex()}"


def strangers(gate: Gate, content: bytes) -> list[int]:
    """The numbers of lines in our own file that are records, and not of our ledger."""
    known = set(leaves(gate.recorder.log.folder))
    return [one.number for one in read(content) if one.chain is not None and leaf_hash(one.raw) not in known]


def named(numbers: Sequence[int]) -> str:
    """Some line numbers, and the verb after them."""
    few = ", ".join(map(str, numbers[:NAMED]))
    more = f" and {len(numbers) - NAMED} more" if len(numbers) > NAMED else ""
    return f"line {few} is" if len(numbers) == 1 else f"lines {few}{more} are"

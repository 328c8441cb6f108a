"""Whether a log looks whole, without reading all of it."""

from pathlib import Path

from msgspec import Struct, json

from remit.core.merkle import leaf_hash
from remit.ledger.acknowledgements import ACKNOWLEDGED
from remit.ledger.bodies import Line
from remit.ledger.heads import INSIDE_ALTERED, read_frontier, stands
from remit.ledger.log import HEAD_LOST, TAIL_LOST
from remit.ledger.reader import read_at, segment_size
from remit.ledger.segments import UNREADABLE, segments

HEALTH_BYTES = 1024 * 1024


class LogHealth(Struct, frozen=True):
    """Whether the log looks whole without reading all of it: its last lines, its head, and the newest tree head."""

    ok: bool
    why: str = ""
    records_checked: int = 0


class _Chain(Struct):
    prev: str


class _Body(Struct):
    chain: _Chain
    event: str = ""
    reason: str = ""


_LINE = json.Decoder(Line[_Body])


def log_health(folder: Path) -> LogHealth:
    """A cheap look for `doctor`: the newest megabyte's chain, and the last line under the newest tree head.

    `remit ledger verify` reads everything; this only notices damage that is recent, or that cut the log. Raises
    OSError.
    """
    names = segments(folder)
    frontier = read_frontier(folder)
    if frontier is not None and not stands(folder, frontier):
        return LogHealth(False, f"the newest tree head covers {frontier.size} records, and its last one is not there")
    if not names:
        return LogHealth(True)
    return _chain_health(_newest_lines(folder, names[-1]))


def _newest_lines(folder: Path, segment: str) -> list[bytes]:
    size = segment_size(folder, segment)
    start = max(0, size - HEALTH_BYTES)
    found = read_at(folder, segment, start, size - start).split(b"\n")
    return found[1 if start else 0 : -1]


def _chain_health(found: list[bytes]) -> LogHealth:
    leaf = why = ""
    for number, raw in enumerate(found):
        try:
            body = _LINE.decode(raw).metadata.body
        except UNREADABLE:
            return LogHealth(False, f"a line near the end is no record: {raw[:60]!r}", number)
        if body.event == "recovery" and body.reason in (INSIDE_ALTERED, TAIL_LOST, HEAD_LOST):
            why = f"a recovery record says {body.reason!r}: see `remit ledger verify`"
        elif body.event == "recovery" and body.reason == ACKNOWLEDGED:
            why = ""
        if leaf and body.chain.prev.removeprefix("sha256:") != leaf:
            return LogHealth(False, "a line near the end was altered, removed or moved", number)
        leaf = leaf_hash(raw).hex()
    return LogHealth(not why, why, len(found))

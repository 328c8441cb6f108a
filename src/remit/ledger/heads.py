"""Tree heads of a log: how they are made, where they are kept, and whether the log still bears them out.

The tree's leaves are the lines of the log in the order in which they stand. A head that somebody kept vouches for
every line under it: a line that was altered, taken out or cut off since makes another root.
"""

import os
from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any

from msgspec import Struct, json

from remit.core.merkle import Peaks, grow, leaf_hash, summit
from remit.core.record import KEY
from remit.core.treehead import NotATreeHead, SignedHead, TreeHead, is_signed_by, read_note
from remit.ledger.reader import LineNotThere, LogLine, Place, positions, read_at, segment_size
from remit.ledger.segments import UNREADABLE, ZEROS, LedgerError, archive_path, segments
from remit.ledger.tiles import tile_row
from remit.ledger.verify import LedgerFinding

FOLDER = "heads"
EVERY = 1024
"""Records after which a head is made, though no session ended."""

WHOLE_BYTES = 64 * 1024 * 1024
"""A log up to this size is hashed as a whole for each head, so that a change inside is noticed then."""

INSIDE_ALTERED = "inside_altered"
"""The reason in the detail of a `recovery` record: an earlier head's lines are not what they were."""


class Frontier(Struct, frozen=True):
    """Where the newest head of this machine stands, and what the next one goes on from. A cache.

    `peaks` are heights and hashes; `segment`, `offset` and `length` lead to the last line under the head, `leaf` is
    its hash. `commit` is what HEAD named.
    """

    size: int
    root: str
    peaks: tuple[tuple[int, str], ...]
    segment: str
    offset: int
    length: int
    leaf: str
    seq: int
    commit: str | None = None


class Measured(Struct, frozen=True):
    """A log as one tree. `earlier` is the root at the size that was asked for, None where the log is shorter."""

    frontier: Frontier | None
    earlier: str | None = None


class FoundHead(Struct, frozen=True):
    """A signed note, and where it was found: `heads/…`, `record …`, `note of commit …` or a ref's name."""

    note: str
    where: str


class HeadsReport(Struct, frozen=True):
    """What the heads say about a log. Its first `witnessed` lines are as they were when `newest` was signed."""

    findings: tuple[LedgerFinding, ...]
    heads: int
    witnessed: int
    newest: str = ""


def read_frontier(folder: Path) -> Frontier | None:
    """What is remembered of the newest head; None where nothing readable is."""
    at = f"{folder}/{FOLDER}/frontier.json"
    try:
        status = os.stat(at)  # noqa: PTH116  after every call
    except FileNotFoundError:
        return None
    return frontier_in(at, (status.st_ino, status.st_size, status.st_mtime_ns))


@lru_cache(32)
def frontier_in(at: str, state: tuple[int, ...]) -> Frontier | None:
    """The frontier that this file holds in this state; it is replaced as a whole, never written into."""
    try:
        return json.decode(Path(at).read_bytes(), type=Frontier)
    except (FileNotFoundError, *UNREADABLE):
        return None


def log_bytes(folder: Path) -> int:
    """How large a log is, or was before parts of it were archived."""
    return sum(segment_size(folder, name) for name in segments(folder))


def measure(folder: Path, known: Frontier | None, *, whole: bool) -> Measured:
    """The log's tree as it is now. Unless `whole`, it goes on from `known`, where that still fits."""
    if known is not None and not whole and _stands(folder, known):
        peaks = [(height, bytes.fromhex(digest)) for height, digest in known.peaks]
        after = Place(known.segment, known.offset + known.length + 1, known.seq + 1)
        grown = _measured(_ended(folder, after), peaks, known.size, None)
        return Measured(grown.frontier if grown else known, known.root)
    return _measured(_ended(folder), [], 0, known.size if known else None) or Measured(None)


def _ended(folder: Path, start: Place | None = None) -> Iterator[LogLine]:
    return (line for line in positions(folder, start) if line.ended)


def leaves(folder: Path) -> Iterator[bytes]:
    """The leaf hashes of a log, those of pruned records included: what tree heads are made of."""
    return (line.hashed for line in _ended(folder))


def _measured(found: Iterable[LogLine], peaks: Peaks, size: int, asked: int | None) -> Measured | None:
    earlier: str | None = None
    line: LogLine | None = None
    leaf = b""
    for line in found:
        leaf = line.hashed
        grow(peaks, leaf)
        size += 1
        if size == asked:
            earlier = summit(peaks).hex()
    if line is None:
        return None
    kept = tuple((height, digest.hex()) for height, digest in peaks)
    place = (line.segment, line.offset, len(line.raw), leaf.hex(), line.seq)
    return Measured(Frontier(size, summit(peaks).hex(), kept, *place), earlier)


def _stands(folder: Path, known: Frontier) -> bool:
    """Whether the last line under a head is still where it was, or its hash is where it was pruned."""
    try:
        line = read_at(folder, known.segment, known.offset, known.length)
    except LineNotThere:
        pruned = archive_path(folder, known.segment).exists()
        return pruned and tile_row(folder, 0, known.size - 1, 1).hex() == known.leaf
    return leaf_hash(line).hex() == known.leaf


def keep_head(folder: Path, note: str, frontier: Frontier) -> None:
    """Keep a head beside the log. Raises OSError."""
    kept = folder / FOLDER
    kept.mkdir(mode=0o700, exist_ok=True)
    _put(kept / f"{frontier.size:012d}-{frontier.root[:12]}.note", note.encode())
    _put(kept / "frontier.json", json.encode(frontier))


def _put(path: Path, content: bytes) -> None:
    fresh = path.with_name(f"{path.name}.{os.getpid()}")
    fresh.write_bytes(content)
    fresh.replace(path)


def kept_heads(folder: Path) -> Iterator[FoundHead]:
    """The heads beside the log, oldest first."""
    for path in sorted((folder / FOLDER).glob("*.note")):
        yield FoundHead(path.read_text("utf-8", "replace"), f"{FOLDER}/{path.name}")


class _Noted(Struct):
    note: str = ""


class _Metadata(Struct, rename={"body": KEY}):
    body: _Noted


class _Line(Struct):
    metadata: _Metadata


_LINE = json.Decoder(_Line)


def recorded_heads(found: Iterable[LogLine]) -> Iterator[FoundHead]:
    """The heads that `tree_head` records of a log hold."""
    for line in found:
        if b'"event":"tree_head"' in line.raw and (note := note_in(line.raw)):
            yield FoundHead(note, f"record {line.seq}")


def note_in(raw: bytes) -> str:
    """The signed note in a record; empty where there is none."""
    try:
        return _LINE.decode(raw).metadata.body.note
    except UNREADABLE:
        return ""


def check_heads(leaves: Iterable[bytes], found: Iterable[FoundHead], origin: str, keys: Sequence[bytes]) -> HeadsReport:
    """Hold a log's leaf hashes against every head that was found of it; heads of other logs are passed over.

    A head signed by none of `keys` is a warning and decides nothing: anybody could have put it there.
    """
    findings: list[LedgerFinding] = []
    trusted: dict[int, list[tuple[TreeHead, str]]] = {}
    heads = 0
    for one in _distinct(found):
        signed = _read(one, findings)
        if signed is None or signed.head.origin != origin:
            continue
        heads += 1
        trouble = _signature_trouble(signed, one.where, keys)
        if trouble is not None:
            findings.append(trouble)
        else:
            trusted.setdefault(signed.head.size, []).append((signed.head, one.where))
    roots, count = _roots(leaves, trusted)
    findings += _contradicted(trusted, roots, count)
    borne = [
        (head.size, where) for kept in trusted.values() for head, where in kept if roots.get(head.size) == head.root
    ]
    witnessed, newest = max(borne, default=(0, ""))
    return HeadsReport(tuple(findings), heads, witnessed, newest)


def _distinct(found: Iterable[FoundHead]) -> list[FoundHead]:
    """Each note once: a head is kept in several places on purpose."""
    first: dict[str, FoundHead] = {}
    for one in found:
        first.setdefault(one.note, one)
    return list(first.values())


def _read(one: FoundHead, findings: list[LedgerFinding]) -> SignedHead | None:
    try:
        return read_note(one.note)
    except NotATreeHead as error:
        findings.append(LedgerFinding("head_unreadable", "warning", f"{one.where}: {error}"))
        return None


def _signature_trouble(signed: SignedHead, where: str, keys: Sequence[bytes]) -> LedgerFinding | None:
    verdicts = [is_signed_by(signed, key) for key in keys]
    size = signed.head.size
    if False in verdicts:
        text = f"{where}: a head of {size} records bears this log's key, and its signature is false"
        return LedgerFinding("head_forged", "error", text)
    if True not in verdicts:
        text = f"{where}: a head of {size} records is signed by a key that is not trusted here, so it proves nothing"
        return LedgerFinding("unproved", "warning", text)
    return None


def _roots(leaves: Iterable[bytes], sizes: Iterable[int]) -> tuple[dict[int, bytes], int]:
    wanted = set(sizes)
    peaks: Peaks = []
    count = 0
    found = {0: summit([])}
    for count, leaf in enumerate(leaves, 1):
        grow(peaks, leaf)
        if count in wanted:
            found[count] = summit(peaks)
    return found, count


def _contradicted(
    trusted: dict[int, list[tuple[TreeHead, str]]], roots: dict[int, bytes], count: int
) -> Iterator[LedgerFinding]:
    for size, kept in sorted(trusted.items()):
        for head, where in kept:
            if size > count:
                text = f"{where}: a head vouches for {size} records, and the log has {count}: the rest was cut off"
                yield LedgerFinding("truncated", "error", text, count, size - 1)
            elif roots[size] != head.root:
                text = f"{where}: the first {size} records are not those that were signed: altered, removed or moved"
                yield LedgerFinding("rewritten", "error", text, 0, size - 1)


class LogHealth(Struct, frozen=True):
    """Whether the log looks whole without reading all of it: its last lines, its head, and the newest tree head."""

    ok: bool
    why: str = ""
    records_checked: int = 0


HEALTH_BYTES = 1024 * 1024


class _Chain(Struct):
    prev: str


class _ChainBody(Struct):
    chain: _Chain
    event: str = ""
    reason: str = ""


class _ChainMetadata(Struct, rename={"body": KEY}):
    body: _ChainBody


class _ChainLine(Struct):
    metadata: _ChainMetadata


_CHAIN = json.Decoder(_ChainLine)


def log_health(folder: Path) -> LogHealth:
    """A cheap look for `doctor`: the newest megabyte's chain, and the last line under the newest tree head.

    `remit ledger verify` reads everything; this only notices damage that is recent, or that cut the log. Raises
    OSError.
    """
    names = segments(folder)
    frontier = read_frontier(folder)
    if frontier is not None and not _stands(folder, frontier):
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
    leaf = ""
    for number, raw in enumerate(found):
        try:
            body = _CHAIN.decode(raw).metadata.body
        except UNREADABLE:
            return LogHealth(False, f"a line near the end is no record: {raw[:60]!r}", number)
        if body.event == "recovery" and body.reason in (INSIDE_ALTERED, "tail_lost"):
            return LogHealth(False, f"a recovery record says {body.reason!r}: see `remit ledger verify`", number)
        if leaf and body.chain.prev.removeprefix("sha256:") != leaf:
            return LogHealth(False, "a line near the end was altered, removed or moved", number)
        leaf = leaf_hash(raw).hex()
    return LogHealth(True, "", len(found))


def altered_inside(known: Frontier, measured: Measured) -> dict[str, Any]:
    """The detail of the record that says so, naming both roots."""
    found = measured.earlier or ZEROS
    return {"reason": INSIDE_ALTERED, "size": known.size, "expected_root": known.root, "found_root": found}


class KeyUnusable(LedgerError):
    """This machine's key cannot sign."""

    def __init__(self, path: Path, why: str) -> None:
        super().__init__(
            f"the key {str(path)!r} cannot sign: {why}\n"
            "hint: move it and the file `machine` beside it away; a new key is made, and older heads become unproved"
        )

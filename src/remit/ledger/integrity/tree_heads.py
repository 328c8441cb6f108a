"""Tree heads of a log: what they are made of, where they are kept, and whether their lines are still there.

The tree's leaves are the lines of the log in the order in which they stand. A head that somebody kept vouches for
every line under it: a line that was altered, taken out or cut off since makes another root.

Whether a log bears out the tree heads that were found of it, wherever those were kept.
"""

import os
from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any

from msgspec import Struct, json

from remit.core.formats.merkle import Peaks, add_leaf, compute_peaks_root, hash_leaf
from remit.core.tree_head import InvalidTreeHead, SignedHead, TreeHead, parse_signed_head, verify_signature
from remit.ledger.integrity.findings import LedgerFinding
from remit.ledger.reader import LineNotThere, LogLine, LogPosition, measure_segment, read_bytes, read_positions
from remit.ledger.record_views import RecordLine
from remit.ledger.segments import DECODE_ERRORS, ZERO_HASH, archive_path, list_segments
from remit.ledger.tiles import read_tile_row

FOLDER = "heads"
HEAD_INTERVAL_RECORDS = 1024
"""Records after which a head is made, though no session ended."""

MAX_WHOLE_BYTES = 64 * 1024 * 1024
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


class MeasuredTree(Struct, frozen=True):
    """A log as one tree. `earlier` is the root at the size that was asked for, None where the log is shorter."""

    frontier: Frontier | None
    earlier_root: str | None = None


class FoundHead(Struct, frozen=True):
    """A signed note, and where it was found: `heads/…`, `record …`, `note of commit …` or a ref's name."""

    note: str
    where: str


def read_frontier(folder: Path) -> Frontier | None:
    """What is remembered of the newest head; None where nothing readable is."""
    at = f"{folder}/{FOLDER}/frontier.json"
    try:
        status = os.stat(at)  # noqa: PTH116  after every call
    except FileNotFoundError:
        return None
    return load_frontier(at, (status.st_ino, status.st_size, status.st_mtime_ns))


@lru_cache(32)
def load_frontier(at: str, state: tuple[int, ...]) -> Frontier | None:
    """The frontier that this file holds in this state; it is replaced as a whole, never written into."""
    try:
        return json.decode(Path(at).read_bytes(), type=Frontier)
    except (FileNotFoundError, *DECODE_ERRORS):
        return None


def measure_log_bytes(folder: Path) -> int:
    """How large a log is, or was before parts of it were archived."""
    return sum(measure_segment(folder, name) for name in list_segments(folder))


def measure_tree(folder: Path, known: Frontier | None, *, whole: bool) -> MeasuredTree:
    """The log's tree as it is now. Unless `whole`, it goes on from `known`, where that still fits."""
    if known is not None and not whole and has_frontier_line(folder, known):
        peaks = [(height, bytes.fromhex(digest)) for height, digest in known.peaks]
        after = LogPosition(known.segment, known.offset + known.length + 1, known.seq + 1)
        grown = _grow_tree(_read_ended_lines(folder, after), peaks, known.size, None)
        return MeasuredTree(grown.frontier if grown else known, known.root)
    return _grow_tree(_read_ended_lines(folder), [], 0, known.size if known else None) or MeasuredTree(None)


def _read_ended_lines(folder: Path, start: LogPosition | None = None) -> Iterator[LogLine]:
    return (line for line in read_positions(folder, start) if line.ended)


def read_leaves(folder: Path) -> Iterator[bytes]:
    """The leaf hashes of a log, those of pruned records included: what tree heads are made of."""
    return (line.leaf_digest for line in _read_ended_lines(folder))


def _grow_tree(found: Iterable[LogLine], peaks: Peaks, size: int, asked: int | None) -> MeasuredTree | None:
    earlier: str | None = None
    line: LogLine | None = None
    leaf = b""
    for line in found:
        leaf = line.leaf_digest
        add_leaf(peaks, leaf)
        size += 1
        if size == asked:
            earlier = compute_peaks_root(peaks).hex()
    if line is None:
        return None
    kept = tuple((height, digest.hex()) for height, digest in peaks)
    place = (line.segment, line.offset, len(line.raw), leaf.hex(), line.seq)
    return MeasuredTree(Frontier(size, compute_peaks_root(peaks).hex(), kept, *place), earlier)


def has_frontier_line(folder: Path, known: Frontier) -> bool:
    """Whether the last line under a head is still where it was, or its hash is where it was pruned."""
    try:
        line = read_bytes(folder, known.segment, known.offset, known.length)
    except LineNotThere:
        pruned = archive_path(folder, known.segment).exists()
        return pruned and read_tile_row(folder, 0, known.size - 1, 1).hex() == known.leaf
    return hash_leaf(line).hex() == known.leaf


def store_head(folder: Path, note: str, frontier: Frontier) -> None:
    """Keep a head beside the log. Raises OSError."""
    kept = folder / FOLDER
    kept.mkdir(mode=0o700, exist_ok=True)
    _replace_file(kept / f"{frontier.size:012d}-{frontier.root[:12]}.note", note.encode())
    _replace_file(kept / "frontier.json", json.encode(frontier))


def _replace_file(path: Path, content: bytes) -> None:
    fresh = path.with_name(f"{path.name}.{os.getpid()}")
    fresh.write_bytes(content)
    fresh.replace(path)


def read_stored_heads(folder: Path) -> Iterator[FoundHead]:
    """The heads beside the log, oldest first."""
    for path in sorted((folder / FOLDER).glob("*.note")):
        yield FoundHead(path.read_text("utf-8", "replace"), f"{FOLDER}/{path.name}")


class _TreeHeadView(Struct):
    note: str = ""


_TREE_HEAD_RECORD = json.Decoder(RecordLine[_TreeHeadView])


def read_recorded_heads(found: Iterable[LogLine]) -> Iterator[FoundHead]:
    """The heads that `tree_head` records of a log hold."""
    for line in found:
        if b'"event":"tree_head"' in line.raw and (note := read_note_of_record(line.raw)):
            yield FoundHead(note, f"record {line.seq}")


def read_note_of_record(raw: bytes) -> str:
    """The signed note in a record; empty where there is none."""
    try:
        return _TREE_HEAD_RECORD.decode(raw).metadata.body.note
    except DECODE_ERRORS:
        return ""


def build_altered_detail(known: Frontier, measured: MeasuredTree) -> dict[str, Any]:
    """The detail of the record that says so, naming both roots."""
    found = measured.earlier_root or ZERO_HASH
    return {"reason": INSIDE_ALTERED, "size": known.size, "expected_root": known.root, "found_root": found}


class HeadsReport(Struct, frozen=True):
    """What the heads say about a log. Its first `witnessed` lines are as they were when `newest` was signed."""

    findings: tuple[LedgerFinding, ...]
    heads: int
    witnessed: int
    newest: str = ""


def check_heads(leaves: Iterable[bytes], found: Iterable[FoundHead], origin: str, keys: Sequence[bytes]) -> HeadsReport:
    """Hold a log's leaf hashes against every head that was found of it; heads of other logs are passed over.

    A head signed by none of `keys` is a warning and decides nothing: anybody could have put it there.
    """
    findings: list[LedgerFinding] = []
    trusted: dict[int, list[tuple[TreeHead, str]]] = {}
    heads = 0
    for one in _drop_duplicate_heads(found):
        signed = _read_signed_head(one, findings)
        if signed is None or signed.head.origin != origin:
            continue
        heads += 1
        trouble = _find_signature_fault(signed, one.where, keys)
        if trouble is not None:
            findings.append(trouble)
        else:
            trusted.setdefault(signed.head.size, []).append((signed.head, one.where))
    roots, count = _compute_roots(leaves, trusted)
    findings += _find_contradictions(trusted, roots, count)
    borne = [
        (head.size, where) for kept in trusted.values() for head, where in kept if roots.get(head.size) == head.root
    ]
    witnessed, newest = max(borne, default=(0, ""))
    return HeadsReport(tuple(findings), heads, witnessed, newest)


def _drop_duplicate_heads(found: Iterable[FoundHead]) -> list[FoundHead]:
    """Each note once: a head is kept in several places on purpose."""
    first: dict[str, FoundHead] = {}
    for one in found:
        first.setdefault(one.note, one)
    return list(first.values())


def _read_signed_head(one: FoundHead, findings: list[LedgerFinding]) -> SignedHead | None:
    try:
        return parse_signed_head(one.note)
    except InvalidTreeHead as error:
        findings.append(LedgerFinding("head_unreadable", "warning", f"{one.where}: {error}"))
        return None


def _find_signature_fault(signed: SignedHead, where: str, keys: Sequence[bytes]) -> LedgerFinding | None:
    verdicts = [verify_signature(signed, key) for key in keys]
    size = signed.head.size
    if False in verdicts:
        text = f"{where}: a head of {size} records bears this log's key, and its signature is false"
        return LedgerFinding("head_forged", "error", text)
    if True not in verdicts:
        text = f"{where}: a head of {size} records is signed by a key that is not trusted here, so it proves nothing"
        return LedgerFinding("unproved", "warning", text)
    return None


def _compute_roots(leaves: Iterable[bytes], sizes: Iterable[int]) -> tuple[dict[int, bytes], int]:
    wanted = set(sizes)
    peaks: Peaks = []
    count = 0
    found = {0: compute_peaks_root([])}
    for count, leaf in enumerate(leaves, 1):
        add_leaf(peaks, leaf)
        if count in wanted:
            found[count] = compute_peaks_root(peaks)
    return found, count


def _find_contradictions(
    trusted: dict[int, list[tuple[TreeHead, str]]], roots: dict[int, bytes], count: int
) -> Iterator[LedgerFinding]:
    for size, kept in sorted(trusted.items()):
        for head, where in kept:
            if size > count:
                text = f"{where}: a head vouches for {size} records, and the log has {count}: the rest was cut off"
                yield LedgerFinding("truncated", "error", text, count, size - 1, about=_head_subject(head))
            elif roots[size] != head.root:
                text = f"{where}: the first {size} records are not those that were signed: altered, removed or moved"
                yield LedgerFinding("rewritten", "error", text, 0, size - 1, about=_head_subject(head))


def find_confirmed_heads(leaves: Iterable[bytes], subjects: Iterable[str]) -> frozenset[str]:
    """Those heads, by the subject of their finding, that a log bears out whatever name they were signed for."""
    wanted = {subject: subject.split(" ") for subject in subjects}
    roots, _ = _compute_roots(leaves, (int(size) for _, size, _ in wanted.values()))
    return frozenset(s for s, (_, size, root) in wanted.items() if roots.get(int(size), b"").hex() == root)


def _head_subject(head: TreeHead) -> str:
    return f"head {head.size} {head.root.hex()}"

"""Tree heads of a log: how they are computed and stored, and whether the log confirms them.

The leaves of the tree are the lines of the log in order. A tree head covers all lines before it: an altered, removed or
cut line changes the root.
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
from remit.ledger.reader import LineNotThere, LogLine, LogPosition, read_bytes, read_positions
from remit.ledger.record_views import decode_note
from remit.ledger.segments import DECODE_ERRORS, ZERO_HASH, archive_path
from remit.ledger.tiles import read_tile_row

FOLDER = "heads"
HEAD_INTERVAL_RECORDS = 1024
"""Number of records after which a tree head is made even without a session end."""

MAX_WHOLE_BYTES = 64 * 1024 * 1024
"""Logs up to this size are hashed completely for each head, so that an altered line is noticed then."""

INSIDE_ALTERED = "inside_altered"
"""Reason in a `recovery` record: lines under an earlier head were altered."""


class Frontier(Struct, frozen=True):
    """The place of this machine's newest head, as the starting point of the next head. A cache.

    `peaks` are heights and hashes; `segment`, `offset` and `length` locate the last line under the head, and `leaf` is
    the line's hash. `commit` is the commit of HEAD.
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
    """The tree of a log. `earlier_root` is the root at the requested size, None if the log is shorter."""

    frontier: Frontier | None
    earlier_root: str | None = None


class FoundHead(Struct, frozen=True):
    """A signed note and its origin: `heads/…`, `record …`, `note of commit …` or the name of a ref."""

    note: str
    where: str


def read_frontier(folder: Path) -> Frontier | None:
    """Return the stored frontier; None if it is missing or unreadable."""
    at = f"{folder}/{FOLDER}/frontier.json"
    try:
        status = os.stat(at)  # noqa: PTH116  after every call
    except FileNotFoundError:
        return None
    return load_frontier(at, (status.st_ino, status.st_size, status.st_mtime_ns))


@lru_cache(32)
def load_frontier(at: str, state: tuple[int, ...]) -> Frontier | None:
    """Load the frontier file. `state` keys the cache: the file is replaced as a whole, never modified."""
    try:
        return json.decode(Path(at).read_bytes(), type=Frontier)
    except (FileNotFoundError, *DECODE_ERRORS):
        return None


def measure_tree(folder: Path, known: Frontier | None, *, whole: bool) -> MeasuredTree:
    """Compute the log's tree. Unless `whole`, continue from the frontier `known` if its line is still in place."""
    if known is not None and not whole and has_frontier_line(folder, known):
        peaks = [(height, bytes.fromhex(digest)) for height, digest in known.peaks]
        after = LogPosition(known.segment, known.offset + known.length + 1, known.seq + 1)
        grown = _grow_tree(_read_ended_lines(folder, after), peaks, known.size, None)
        return MeasuredTree(grown.frontier if grown else known, known.root)
    return _grow_tree(_read_ended_lines(folder), [], 0, known.size if known else None) or MeasuredTree(None)


def _read_ended_lines(folder: Path, start: LogPosition | None = None) -> Iterator[LogLine]:
    return (line for line in read_positions(folder, start) if line.ended)


def read_leaves(folder: Path) -> Iterator[bytes]:
    """Yield the leaf hashes of a log, including those of pruned records."""
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
    """Return True if the last line under a head is unchanged; for a pruned line its stored hash counts."""
    try:
        line = read_bytes(folder, known.segment, known.offset, known.length)
    except LineNotThere:
        pruned = archive_path(folder, known.segment).exists()
        return pruned and read_tile_row(folder, 0, known.size - 1, 1).hex() == known.leaf
    return hash_leaf(line).hex() == known.leaf


def store_head(folder: Path, note: str, frontier: Frontier) -> None:
    """Store a head beside the log. Raises OSError."""
    kept = folder / FOLDER
    kept.mkdir(mode=0o700, exist_ok=True)
    _replace_file(kept / f"{frontier.size:012d}-{frontier.root[:12]}.note", note.encode())
    _replace_file(kept / "frontier.json", json.encode(frontier))


def _replace_file(path: Path, content: bytes) -> None:
    fresh = path.with_name(f"{path.name}.{os.getpid()}")
    fresh.write_bytes(content)
    fresh.replace(path)


def read_stored_heads(folder: Path) -> Iterator[FoundHead]:
    """Yield the heads stored beside the log, oldest first."""
    for path in sorted((folder / FOLDER).glob("*.note")):
        yield FoundHead(path.read_text("utf-8", "replace"), f"{FOLDER}/{path.name}")


def read_recorded_heads(found: Iterable[LogLine]) -> Iterator[FoundHead]:
    """Yield the heads in the `tree_head` records of a log."""
    for line in found:
        if b'"event":"tree_head"' in line.raw and (note := decode_note(line.raw)):
            yield FoundHead(note, f"record {line.seq}")


def build_altered_detail(known: Frontier, measured: MeasuredTree) -> dict[str, Any]:
    """Return the detail of a `recovery` record about altered lines, with both roots."""
    found = measured.earlier_root or ZERO_HASH
    return {"reason": INSIDE_ALTERED, "size": known.size, "expected_root": known.root, "found_root": found}


class HeadsReport(Struct, frozen=True):
    """Result of comparing a log with its tree heads. The first `witnessed` lines are confirmed by the head `newest`."""

    findings: tuple[LedgerFinding, ...]
    heads: int
    witnessed: int
    newest: str = ""


def check_heads(leaves: Iterable[bytes], found: Iterable[FoundHead], origin: str, keys: Sequence[bytes]) -> HeadsReport:
    """Compare a log's leaf hashes with every tree head found. Heads of foreign logs are ignored.

    A head without a signature by one of `keys` yields a warning and proves nothing: the author is unknown.
    """
    findings: list[LedgerFinding] = []
    trusted: list[tuple[TreeHead, str]] = []
    heads = 0
    seen: set[str] = set()
    for candidate in found:
        if candidate.note in seen:  # each head is stored in several places on purpose
            continue
        seen.add(candidate.note)
        try:
            signed = parse_signed_head(candidate.note)
        except InvalidTreeHead as error:
            findings.append(LedgerFinding("head_unreadable", "warning", f"{candidate.where}: {error}"))
            continue
        if signed.head.origin != origin:
            continue
        heads += 1
        fault = _find_signature_fault(signed, candidate.where, keys)
        if fault is None:
            trusted.append((signed.head, candidate.where))
        else:
            findings.append(fault)
    trusted.sort(key=lambda item: item[0].size)
    roots, count = _compute_roots(leaves, (head.size for head, _ in trusted))
    findings += _find_contradictions(trusted, roots, count)
    confirmed = [(head.size, where) for head, where in trusted if roots.get(head.size) == head.root]
    witnessed, newest = max(confirmed, default=(0, ""))
    return HeadsReport(tuple(findings), heads, witnessed, newest)


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
    trusted: Iterable[tuple[TreeHead, str]], roots: dict[int, bytes], count: int
) -> Iterator[LedgerFinding]:
    for head, where in trusted:
        size = head.size
        if size > count:
            text = f"{where}: a head covers {size} records, and the log has {count}: the rest was cut off"
            yield LedgerFinding("truncated", "error", text, count, size - 1, about=_head_subject(head))
        elif roots[size] != head.root:
            text = f"{where}: the first {size} records differ from the signed ones: altered, removed or moved"
            yield LedgerFinding("rewritten", "error", text, 0, size - 1, about=_head_subject(head))


def find_confirmed_heads(leaves: Iterable[bytes], subjects: Iterable[str]) -> frozenset[str]:
    """Return the subjects of heads that a log confirms, whatever log name they were signed for."""
    wanted = {subject: subject.split(" ") for subject in subjects}
    roots, _ = _compute_roots(leaves, (int(size) for _, size, _ in wanted.values()))
    return frozenset(s for s, (_, size, root) in wanted.items() if roots.get(int(size), b"").hex() == root)


def _head_subject(head: TreeHead) -> str:
    return f"head {head.size} {head.root.hex()}"

"""Tree heads of a log: how they are computed and stored, and whether the log confirms them.

The leaves of the tree are the lines of the log in order. A tree head covers all lines before it: an altered, removed or
cut line changes the root.
"""

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

from msgspec import Struct, json

from remit.core.python_runtime import prepare_type
from remit.core.record import Peaks, add_leaf, compute_peaks_root, hash_leaf
from remit.core.tree_head import InvalidTreeHead, TreeHead, parse_signed_head, verify_signature
from remit.ledger.findings import LedgerFinding
from remit.ledger.log_files import DECODE_ERRORS, ZERO_HASH, archive_path, decode_detail, replace_file
from remit.ledger.reader import LineNotThere, LogLine, LogPosition, read_bytes, read_positions

FOLDER = "heads"
HEAD_INTERVAL_RECORDS = 1024  # number of records after which a tree head is made even without a session end
MAX_WHOLE_BYTES = 64 * 1024 * 1024
"""Logs up to this size are hashed completely for each head, so that an altered line is noticed then."""

INSIDE_ALTERED = "inside_altered"  # reason in a `recovery` record: lines under an earlier head were altered


class Frontier(Struct, frozen=True):
    """The place of this machine's newest head, as the starting point of the next head. A cache. `peaks` are heights and
    hashes; `segment`, `offset` and `length` locate the last line under the head, and `leaf` is the line's hash.
    `commit` is the commit of HEAD.
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
    try:
        return json.decode((folder / FOLDER / "frontier.json").read_bytes(), type=prepare_type(Frontier))
    except (FileNotFoundError, *DECODE_ERRORS):
        return None


def measure_tree(folder: Path, known: Frontier | None, *, whole: bool) -> MeasuredTree:
    """Compute the log's tree. Unless `whole`, continue from the frontier `known` if its line is still in place."""
    start, size, earlier, line, leaf = None, 0, None, None, b""
    peaks: Peaks = []
    if known is not None and not whole and has_frontier_line(folder, known):
        peaks = [(height, bytes.fromhex(digest)) for height, digest in known.peaks]
        start = LogPosition(known.segment, known.offset + known.length + 1, known.seq + 1)
        size, earlier = known.size, known.root
    for line in (line for line in read_positions(folder, start) if line.ended):
        leaf = line.leaf_digest
        add_leaf(peaks, leaf)
        size += 1
        if known is not None and size == known.size:
            earlier = compute_peaks_root(peaks).hex()
    if line is None:
        return MeasuredTree(known if start else None, earlier)
    kept = tuple((height, digest.hex()) for height, digest in peaks)
    place = (line.segment, line.offset, len(line.raw), leaf.hex(), line.seq)
    return MeasuredTree(Frontier(size, compute_peaks_root(peaks).hex(), kept, *place), earlier)


def read_leaves(folder: Path) -> Iterator[bytes]:
    return (line.leaf_digest for line in read_positions(folder) if line.ended)


def has_frontier_line(folder: Path, known: Frontier) -> bool:
    """Return True if the last line under a head is unchanged; for a pruned line its stored hash counts."""
    try:
        line = read_bytes(folder, known.segment, known.offset, known.length)
    except LineNotThere:
        from remit.ledger.archive import read_tile_row  # the hook path reads no archives

        pruned = archive_path(folder, known.segment).exists()
        return pruned and read_tile_row(folder, 0, known.size - 1, 1).hex() == known.leaf
    return hash_leaf(line).hex() == known.leaf


def store_head(folder: Path, note: str, frontier: Frontier) -> None:
    kept = folder / FOLDER
    kept.mkdir(mode=0o700, exist_ok=True)
    replace_file(kept / f"{frontier.size:012d}-{frontier.root[:12]}.note", note.encode())
    replace_file(kept / "frontier.json", json.encode(frontier))


def read_stored_heads(folder: Path) -> Iterator[FoundHead]:
    for path in sorted((folder / FOLDER).glob("*.note")):
        yield FoundHead(path.read_text("utf-8", "replace"), f"{FOLDER}/{path.name}")


def read_recorded_heads(found: Iterable[LogLine]) -> Iterator[FoundHead]:
    for line in found:
        if b'"event":"tree_head"' in line.raw and (note := decode_detail(line.raw).note):
            yield FoundHead(note, f"record {line.seq}")


def build_altered_detail(known: Frontier, measured: MeasuredTree) -> dict[str, Any]:
    found = measured.earlier_root or ZERO_HASH
    return {"reason": INSIDE_ALTERED, "size": known.size, "expected_root": known.root, "found_root": found}


class HeadsReport(Struct, frozen=True):
    """Result of comparing a log with its tree heads. The first `witnessed` lines are confirmed by the head `newest`.
    `signers` are the ids of the keys that signed heads, as in verifier keys, trusted or not.
    """

    findings: tuple[LedgerFinding, ...]
    heads: int
    witnessed: int
    newest: str = ""
    signers: tuple[str, ...] = ()


def check_heads(leaves: Iterable[bytes], found: Iterable[FoundHead], origin: str, keys: Sequence[bytes]) -> HeadsReport:
    """Compare a log's leaf hashes with every tree head found. Heads of foreign logs are ignored. A head without a
    signature by one of `keys` yields a warning and proves nothing: the author is unknown.
    """
    findings: list[LedgerFinding] = []
    trusted: list[tuple[TreeHead, str]] = []
    heads = 0
    signers: dict[str, None] = {}
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
        signers |= dict.fromkeys(one.key_id.hex() for one in signed.signatures)
        verdicts, size = [verify_signature(signed, key) for key in keys], signed.head.size
        if False in verdicts:
            text = f"{candidate.where}: a head of {size} records bears this log's key, and its signature is false"
            findings.append(LedgerFinding("head_forged", "error", text))
        elif True not in verdicts:
            text = f"{candidate.where}: a head of {size} records is signed by a key that is not trusted here"
            findings.append(LedgerFinding("unproved", "warning", f"{text}, so it proves nothing"))
        else:
            trusted.append((signed.head, candidate.where))
    trusted.sort(key=lambda item: item[0].size)
    roots, count = _compute_roots(leaves, (head.size for head, _ in trusted))
    witnessed, newest = 0, ""
    for head, where in trusted:
        size, about = head.size, f"head {head.size} {head.root.hex()}"
        if size > count:
            text = f"{where}: a head covers {size} records, and the log has {count}: the rest was cut off"
            findings.append(LedgerFinding("truncated", "error", text, count, size - 1, about=about))
        elif roots[size] != head.root:
            text = f"{where}: the first {size} records differ from the signed ones: altered, removed or moved"
            findings.append(LedgerFinding("rewritten", "error", text, 0, size - 1, about=about))
        else:
            witnessed, newest = max((witnessed, newest), (size, where))
    return HeadsReport(tuple(findings), heads, witnessed, newest, tuple(signers))


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


def find_confirmed_heads(leaves: Iterable[bytes], subjects: Iterable[str]) -> frozenset[str]:
    """Return the subjects of heads that a log confirms, whatever log name they were signed for."""
    wanted = {subject: subject.split(" ") for subject in subjects}
    roots, _ = _compute_roots(leaves, (int(size) for _, size, _ in wanted.values()))
    return frozenset(s for s, (_, size, root) in wanted.items() if roots.get(int(size), b"").hex() == root)

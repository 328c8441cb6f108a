"""Proofs over the log's hash tree: inclusion of a record, and consistency of a later log with an earlier log.

Source of both algorithms: RFC 6962 section 2.1 and RFC 9162 section 2.1, read 2026-11.
"""

from collections.abc import Callable, Iterator, Sequence
from typing import Literal, TypeAlias

from msgspec import Struct, ValidationError, convert

from remit.core.python_runtime import prepare_type
from remit.core.record import compute_root, hash_leaf, hash_node
from remit.core.tree_head import InvalidTreeHead, SignedHead, parse_signed_head

SubtreeRoot: TypeAlias = Callable[[int, int], bytes]
"""Function that returns the root over leaves `low` to `high` - 1."""
HASH_BYTES = 32
MAX_PATH_HASHES = 128


class InvalidProof(ValueError):
    """Error for a document that is not a proof."""

    def __init__(self, why: str) -> None:
        super().__init__(f"this is not a proof: {why}; expected what `remit ledger proof` writes")


class InclusionProof(Struct, frozen=True, tag_field="schema", tag="remit.inclusion/1"):
    """Proof that a record is number `index` of `size` records under a signed head; hashes in hex.

    `record` is the line without its newline, or None after pruning, with only the hash left.
    """

    log: str
    index: int
    size: int
    leaf: str
    path: tuple[str, ...]
    note: str
    record: str | None = None


class ConsistencyProof(Struct, frozen=True, tag_field="schema", tag="remit.consistency/1"):
    """Proof that the records under a signed head begin with those under an older head."""

    log: str
    old_size: int
    size: int
    path: tuple[str, ...]
    old_note: str
    note: str


Proof: TypeAlias = InclusionProof | ConsistencyProof


class ProofCheck(Struct, frozen=True):
    """Result of checking a proof. `why` is empty for a valid proof; `heads` still need their signatures verified."""

    kind: Literal["inclusion", "consistency"]
    why: str
    heads: tuple[SignedHead, ...]


def build_inclusion_path(index: int, size: int, subtree: SubtreeRoot) -> list[bytes]:
    """Return the hashes from leaf `index` to the root over `size` leaves, nearest first."""
    low, high = 0, size
    path: list[bytes] = []
    while high - low > 1:
        middle = low + _split_size(high - low)
        is_left = index < middle
        path.append(subtree(middle, high) if is_left else subtree(low, middle))
        low, high = (low, middle) if is_left else (middle, high)
    return path[::-1]


def build_consistency_path(old: int, size: int, subtree: SubtreeRoot) -> list[bytes]:
    """Return the hashes that prove the tree over `size` leaves to begin with the tree over `old` leaves."""
    if not 0 < old < size:
        return []
    low, high = 0, size
    path: list[bytes] = []
    while old < high:
        middle = low + _split_size(high - low)
        is_left = old <= middle
        path.append(subtree(middle, high) if is_left else subtree(low, middle))
        low, high = (low, middle) if is_left else (middle, high)
    if low:
        path.append(subtree(low, high))
    return path[::-1]


def _split_size(count: int) -> int:
    return 1 << (count - 1).bit_length() - 1


def fold_inclusion_path(leaf: bytes, index: int, size: int, path: Sequence[bytes]) -> bytes | None:
    """Return the root that an inclusion path leads to; None for a path of the wrong length."""
    if not 0 <= index < size:
        return None
    digest = leaf
    for sibling, is_left in zip(path, sides := list(_list_sides(index, size - 1)), strict=False):
        digest = hash_node(sibling, digest) if is_left else hash_node(digest, sibling)
    return digest if len(path) == len(sides) else None


def fold_consistency_path(old: int, size: int, old_root: bytes, path: Sequence[bytes]) -> tuple[bytes, bytes] | None:
    """Return the two roots that a consistency path leads to; None for a path of the wrong length."""
    if not 0 < old < size:
        return None
    hashes = [old_root, *path] if old & (old - 1) == 0 else list(path)
    if not hashes:
        return None
    place, last = old - 1, size - 1
    while place & 1:
        place, last = place >> 1, last >> 1
    first = second = hashes[0]
    for sibling, is_left in zip(hashes[1:], sides := list(_list_sides(place, last)), strict=False):
        if is_left:
            first, second = hash_node(sibling, first), hash_node(sibling, second)
        else:
            second = hash_node(second, sibling)
    return (first, second) if len(hashes) - 1 == len(sides) else None


def _list_sides(place: int, last: int) -> Iterator[bool]:
    """Yield, for each sibling on the way from a node to the root, whether it stands on the left."""
    while last:
        is_left = bool(place & 1) or place == last
        yield is_left
        while is_left and not place & 1 and place:
            place, last = place >> 1, last >> 1
        place, last = place >> 1, last >> 1


def read_proof(document: object) -> Proof:
    try:
        proof = convert(document, type=prepare_type(Proof))
    except ValidationError as error:
        raise InvalidProof(str(error)) from error
    if len(proof.path) > MAX_PATH_HASHES:
        raise InvalidProof(f"its path has {len(proof.path)} hashes; at most {MAX_PATH_HASHES} are allowed")
    return proof


def check_proof(proof: Proof) -> ProofCheck:
    """Check a proof's hashes against its heads; signatures are left to `verify_signature`. Raises InvalidProof."""
    path = [_parse_hash(text) for text in proof.path]
    head = _read_head(proof.note, proof.log, proof.size)
    root, why = head.head.root, ""
    if isinstance(proof, InclusionProof):
        leaf = _parse_hash(proof.leaf)
        if proof.record is not None and hash_leaf(proof.record.encode("utf-8", "surrogateescape")) != leaf:
            why = "the record does not match the hash in the proof"
        elif fold_inclusion_path(leaf, proof.index, proof.size, path) != root:
            why = f"the record is not number {proof.index} of those under the head"
        return ProofCheck("inclusion", why, (head,))
    old = _read_head(proof.old_note, proof.log, proof.old_size)
    old_root = old.head.root
    if proof.old_size == proof.size:
        why = "" if not path and old_root == root else "two heads of the same size have different roots"
    elif proof.old_size == 0:
        why = "" if not path and old_root == compute_root(()) else "the root of the empty tree is wrong"
    elif fold_consistency_path(proof.old_size, proof.size, old_root, path) != (old_root, root):
        why = f"the {proof.size} records do not begin with the {proof.old_size}"
    return ProofCheck("consistency", why, (old, head))


def _read_head(note: str, log: str, size: int) -> SignedHead:
    try:
        head = parse_signed_head(note)
    except InvalidTreeHead as error:
        raise InvalidProof(str(error)) from error
    if (head.head.origin, head.head.size) != (log, size):
        described = f"{head.head.size} records of {head.head.origin!r}"
        raise InvalidProof(f"its head is of {described}, and it speaks of {size} of {log!r}")
    return head


def _parse_hash(text: str) -> bytes:
    try:
        digest = bytes.fromhex(text)
    except ValueError:
        digest = b""
    if len(digest) != HASH_BYTES:
        raise InvalidProof(f"{text[:80]!r} is not a SHA-256 in hex")
    return digest

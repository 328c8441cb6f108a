"""The hash tree over a log. Source: RFC 6962 section 2.1, read 2026-11."""

import hashlib
from collections.abc import Iterable


def leaf_hash(line: bytes) -> bytes:
    """The hash of one line, given without its newline."""
    return hashlib.sha256(b"\x00" + line).digest()


def node_hash(left: bytes, right: bytes) -> bytes:
    """The hash of two subtrees."""
    return hashlib.sha256(b"\x01" + left + right).digest()


def root(leaves: Iterable[bytes]) -> bytes:
    """The root over leaf hashes, in order; of none, the SHA-256 of nothing.

    Memory grows with the logarithm of the number of leaves.
    """
    peaks: list[tuple[int, bytes]] = []
    """Roots of full subtrees with their heights, tallest first."""
    for leaf in leaves:
        height, digest = 0, leaf
        while peaks and peaks[-1][0] == height:
            digest = node_hash(peaks.pop()[1], digest)
            height += 1
        peaks.append((height, digest))
    if not peaks:
        return hashlib.sha256().digest()
    digest = peaks.pop()[1]
    while peaks:
        digest = node_hash(peaks.pop()[1], digest)
    return digest

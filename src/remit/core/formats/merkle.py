"""The hash tree over a log. Source: RFC 6962 section 2.1, read 2026-11."""

import hashlib
from collections.abc import Iterable
from typing import TypeAlias

Peaks: TypeAlias = list[tuple[int, bytes]]
"""Roots of full subtrees with their heights, tallest first: enough state to append leaves."""


def hash_leaf(line: bytes) -> bytes:
    """Hash a line, given without its newline."""
    return hashlib.sha256(b"\x00" + line).digest()


def hash_node(left: bytes, right: bytes) -> bytes:
    return hashlib.sha256(b"\x01" + left + right).digest()


def add_leaf(peaks: Peaks, leaf: bytes) -> None:
    """Add a leaf hash in place. The number of peaks equals the number of 1 bits in the size."""
    height, digest = 0, leaf
    while peaks and peaks[-1][0] == height:
        digest = hash_node(peaks.pop()[1], digest)
        height += 1
    peaks.append((height, digest))


def compute_peaks_root(peaks: Peaks) -> bytes:
    """Return the root over the leaves behind the peaks; the SHA-256 of nothing for an empty tree."""
    if not peaks:
        return hashlib.sha256().digest()
    digest = peaks[-1][1]
    for _, left in reversed(peaks[:-1]):
        digest = hash_node(left, digest)
    return digest


def compute_root(leaves: Iterable[bytes]) -> bytes:
    """Return the root over leaf hashes in order, with logarithmic memory."""
    peaks: Peaks = []
    for leaf in leaves:
        add_leaf(peaks, leaf)
    return compute_peaks_root(peaks)

"""The hash tree over a log. Source: RFC 6962 section 2.1, read 2026-11."""

import hashlib
from collections.abc import Iterable
from typing import TypeAlias

Peaks: TypeAlias = list[tuple[int, bytes]]
"""Roots of full subtrees with their heights, tallest first: all that later leaves need to know of earlier ones."""


def hash_leaf(line: bytes) -> bytes:
    """The hash of one line, given without its newline."""
    return hashlib.sha256(b"\x00" + line).digest()


def hash_node(left: bytes, right: bytes) -> bytes:
    """The hash of two subtrees."""
    return hashlib.sha256(b"\x01" + left + right).digest()


def add_leaf(peaks: Peaks, leaf: bytes) -> None:
    """Add one leaf hash, in place: the peaks are as many as the size has bits."""
    height, digest = 0, leaf
    while peaks and peaks[-1][0] == height:
        digest = hash_node(peaks.pop()[1], digest)
        height += 1
    peaks.append((height, digest))


def compute_peaks_root(peaks: Peaks) -> bytes:
    """The root over the leaves that these peaks stand for; of none, the SHA-256 of nothing."""
    if not peaks:
        return hashlib.sha256().digest()
    digest = peaks[-1][1]
    for _, left in reversed(peaks[:-1]):
        digest = hash_node(left, digest)
    return digest


def compute_root(leaves: Iterable[bytes]) -> bytes:
    """The root over leaf hashes, in order. Memory grows with the logarithm of their number."""
    peaks: Peaks = []
    for leaf in leaves:
        add_leaf(peaks, leaf)
    return compute_peaks_root(peaks)

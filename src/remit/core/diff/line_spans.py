"""Line numbers as spans: first and last line, inclusive, from 1."""

from collections.abc import Iterable
from itertools import groupby
from typing import TypeAlias

Span: TypeAlias = tuple[int, int]


def make_spans(numbers: Iterable[int]) -> tuple[Span, ...]:
    runs = groupby(enumerate(sorted(set(numbers))), key=lambda pair: pair[1] - pair[0])
    spans = [[number for _, number in run] for _, run in runs]
    return tuple((span[0], span[-1]) for span in spans)


def merge_spans(spans: Iterable[Span]) -> tuple[Span, ...]:
    """Merge spans into the fewest sorted spans, dropping reversed spans."""
    merged: list[Span] = []
    for start, end in sorted(span for span in spans if span[0] <= span[1]):
        if merged and start <= merged[-1][1] + 1:
            merged[-1] = (merged[-1][0], max(merged[-1][1], end))
        else:
            merged.append((start, end))
    return tuple(merged)


def subtract_spans(spans: Iterable[Span], allowed: Iterable[Span]) -> tuple[Span, ...]:
    """Return the parts of `spans` outside `allowed`."""
    remaining: list[Span] = []
    bounds = merge_spans(allowed)
    for start, end in merge_spans(spans):
        for low, high in bounds:
            if high < start:
                continue
            if low > end:
                break
            if start < low:
                remaining.append((start, low - 1))
            start = high + 1
        if start <= end:
            remaining.append((start, end))
    return tuple(remaining)


def expand_spans(spans: Iterable[Span]) -> list[int]:
    """Return the line numbers of spans; only for spans of trusted size."""
    return [number for start, end in spans for number in range(start, end + 1)]

"""Line numbers as spans: first and last line, both included, from 1."""

from collections.abc import Iterable
from itertools import groupby
from typing import TypeAlias

Span: TypeAlias = tuple[int, int]


def make_spans(numbers: Iterable[int]) -> tuple[Span, ...]:
    """Line numbers as spans, in order."""
    runs = groupby(enumerate(sorted(set(numbers))), key=lambda pair: pair[1] - pair[0])
    spans = [[number for _, number in run] for _, run in runs]
    return tuple((span[0], span[-1]) for span in spans)


def merge_spans(spans: Iterable[Span]) -> tuple[Span, ...]:
    """The same lines in as few spans as can be, in order. Ends before beginnings are dropped."""
    found: list[Span] = []
    for start, end in sorted(span for span in spans if span[0] <= span[1]):
        if found and start <= found[-1][1] + 1:
            found[-1] = (found[-1][0], max(found[-1][1], end))
        else:
            found.append((start, end))
    return tuple(found)


def subtract_spans(spans: Iterable[Span], allowed: Iterable[Span]) -> tuple[Span, ...]:
    """The parts of `spans` that lie in none of `allowed`."""
    found: list[Span] = []
    bounds = merge_spans(allowed)
    for start, end in merge_spans(spans):
        for low, high in bounds:
            if high < start:
                continue
            if low > end:
                break
            if start < low:
                found.append((start, low - 1))
            start = high + 1
        if start <= end:
            found.append((start, end))
    return tuple(found)


def expand_spans(spans: Iterable[Span]) -> list[int]:
    """The line numbers of spans that are known to be small."""
    return [number for start, end in spans for number in range(start, end + 1)]

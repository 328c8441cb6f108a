"""Equal blocks agree with `difflib`, and are searched for only where needed."""

from difflib import SequenceMatcher

from hypothesis import given
from hypothesis import strategies as st

from remit.core.diff.contents import Hunk
from remit.provenance.origins.line_matches import (
    find_equal_blocks,
    find_moved_blocks,
    find_reformatted_lines,
    may_be_moved_lines,
)

texts = st.lists(st.sampled_from("abcde"), max_size=16)
LINES = [b"alpha_first(one)", b"  alpha_first( one )", b"}", b"  }", b"", b"beta_second", b"alpha_first(", b"one)"]
contents = st.lists(st.sampled_from(LINES), max_size=9)


def pairs(blocks: list[tuple[int, int, int]]) -> set[tuple[int, int]]:
    return {(i + offset, j + offset) for i, j, size in blocks for offset in range(size)}


@given(texts, texts)
def test_equal_blocks_are_those_of_difflib(a: list[str], b: list[str]) -> None:
    matches = SequenceMatcher(None, a, b, autojunk=False).get_matching_blocks()
    told = [(match.a, match.b, match.size) for match in matches if match.size]
    assert pairs(find_equal_blocks(a, b)) == pairs(told)
    assert len(find_equal_blocks(a, b)) == len(told)


def hunks_between(old: list[bytes], new: list[bytes]) -> tuple[Hunk, ...]:
    opcodes = SequenceMatcher(None, old, new, autojunk=False).get_opcodes()
    return tuple(Hunk(a + (b > a), b - a, c + (d > c), d - c) for tag, a, b, c, d in opcodes if tag != "equal")


@given(contents, contents, st.sets(st.integers(0, 8)))
def test_a_ruled_out_line_neither_moved_nor_was_reformatted(old: list[bytes], new: list[bytes], own: set[int]) -> None:
    hunks = hunks_between(old, new)
    own = {i for i in own if i < len(old)}
    moves = {**find_moved_blocks(old, new, hunks), **find_reformatted_lines(old, new, hunks)}
    if not may_be_moved_lines(own, old, new, hunks):
        assert own.isdisjoint(moves.values())

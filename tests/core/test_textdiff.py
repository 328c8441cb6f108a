"""Hunks tell how one content became the other, however they were found."""

from hypothesis import given
from hypothesis import strategies as st

from remit.core.contents import Hunk, LineRange, count_lines
from remit.core.textdiff import hunks_at, lines_of, small_hunks

contents = st.lists(st.sampled_from([b"a", b"b", b"", b"c\r"]), max_size=9).map(b"\n".join)


def applied(old: bytes, new: bytes, hunks: tuple[Hunk, ...]) -> list[bytes]:
    """`old` with the hunks applied, the lines that are put there taken from `new`."""
    a, b = lines_of(old), lines_of(new)
    out: list[bytes] = []
    at = 0
    for h in hunks:
        start = h.old - 1 if h.old_lines else h.old
        out += a[at:start]
        out += b[h.new - 1 : h.new - 1 + h.new_lines] if h.new_lines else []
        at = start + h.old_lines
    return out + a[at:]


@given(contents, contents)
def test_small_hunks_turn_one_into_the_other(old: bytes, new: bytes) -> None:
    found = small_hunks(old, new)
    assert found is not None
    assert applied(old, new, found) == lines_of(new)
    assert len(lines_of(new)) == count_lines(new)


@given(contents, st.data())
def test_told_lines_are_the_added_ones(old: bytes, data: st.DataObject) -> None:
    lines = old.split(b"\n")
    at = data.draw(st.integers(0, len(lines) - 1))
    put = data.draw(st.lists(st.sampled_from([b"a", b"b", b"x"]), min_size=1, max_size=4))
    gone = data.draw(st.integers(0, len(lines) - at - 1))
    new = b"\n".join([*lines[:at], *put, *lines[at + gone :]])
    told = LineRange(at + 1, at + len(put))
    found = hunks_at(old, new, [told])
    if found is None:
        assert count_lines(new) < told.end, "an empty last line is none"
        return
    assert applied(old, new, found) == lines_of(new)
    assert told in {h.added for h in found} or any(h.added and h.added.start <= at + 1 <= h.added.end for h in found)


def test_a_copy_above_the_original_is_the_new_one() -> None:
    old, new = b"one\ntwo\nend\n", b"one\ntwo\none\ntwo\nend\n"
    assert hunks_at(old, new, [LineRange(1, 2)]) == (Hunk(0, 0, 1, 2),)
    assert hunks_at(old, new, [LineRange(3, 4)]) == (Hunk(2, 0, 3, 2),)


def test_lines_that_cannot_have_been_put_there_are_refused() -> None:
    assert hunks_at(b"a\nb\n", b"c\nd\ne\n", [LineRange(3, 3)]) is None
    assert hunks_at(b"a\n", b"a\n", [LineRange(2, 2)]) is None


def test_a_last_line_that_gets_its_newline_is_the_same_line() -> None:
    assert small_hunks(b"a\nb", b"a\nb\n") == ()
    assert [h.added for h in small_hunks(b"a\nb", b"a\nb\nc") or ()] == [LineRange(3, 3)]

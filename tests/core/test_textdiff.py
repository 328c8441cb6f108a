"""Hunks tell how one content became the other, however they were found."""

from hypothesis import given
from hypothesis import strategies as st

from remit.core.diff.contents import Hunk, LineRange, count_lines
from remit.core.diff.edit_script import diff_at_lines, diff_small, split_lines

contents = st.lists(st.sampled_from([b"a", b"b", b"", b"c\r"]), max_size=9).map(b"\n".join)


def applied(old: bytes, new: bytes, hunks: tuple[Hunk, ...]) -> list[bytes]:
    """`old` with the hunks applied, the lines that are put there taken from `new`."""
    a, b = split_lines(old), split_lines(new)
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
    found = diff_small(old, new)
    assert found is not None
    assert applied(old, new, found) == split_lines(new)
    assert len(split_lines(new)) == count_lines(new)


@given(contents, st.data())
def test_told_lines_are_the_added_ones(old: bytes, data: st.DataObject) -> None:
    lines = old.split(b"\n")
    at = data.draw(st.integers(0, len(lines) - 1))
    put = data.draw(st.lists(st.sampled_from([b"a", b"b", b"x"]), min_size=1, max_size=4))
    gone = data.draw(st.integers(0, len(lines) - at - 1))
    new = b"\n".join([*lines[:at], *put, *lines[at + gone :]])
    told = LineRange(at + 1, at + len(put))
    found = diff_at_lines(old, new, [told])
    if found is None:
        assert count_lines(new) < told.end, "an empty last line is none"
        return
    assert applied(old, new, found) == split_lines(new)
    assert told in {h.added_lines for h in found} or any(
        h.added_lines and h.added_lines.start <= at + 1 <= h.added_lines.end for h in found
    )


def test_a_copy_above_the_original_is_the_new_one() -> None:
    old, new = b"one\ntwo\nend\n", b"one\ntwo\none\ntwo\nend\n"
    assert diff_at_lines(old, new, [LineRange(1, 2)]) == (Hunk(0, 0, 1, 2),)
    assert diff_at_lines(old, new, [LineRange(3, 4)]) == (Hunk(2, 0, 3, 2),)


def test_lines_that_cannot_have_been_put_there_are_refused() -> None:
    assert diff_at_lines(b"a\nb\n", b"c\nd\ne\n", [LineRange(3, 3)]) is None
    assert diff_at_lines(b"a\n", b"a\n", [LineRange(2, 2)]) is None


def test_a_last_line_that_gets_its_newline_is_the_same_line() -> None:
    assert diff_small(b"a\nb", b"a\nb\n") == ()
    assert [h.added_lines for h in diff_small(b"a\nb", b"a\nb\nc") or ()] == [LineRange(3, 3)]

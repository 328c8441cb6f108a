"""Edit scripts are shortest, natural, and turn one content into the other."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from remit.core.diff.contents import (
    Hunk,
    LineRange,
    count_lines,
    diff_at_lines,
    diff_small,
    find_edit_script,
    split_lines,
)

lines = st.lists(st.sampled_from([b"a", b"b", b"", b" c", b"}"]), max_size=12)


def longest_common_subsequence(old: list[bytes], new: list[bytes]) -> int:
    """The length of the longest common subsequence, as the textbook has it."""
    row = [0] * (len(new) + 1)
    for line in old:
        above = row[:]
        for j, other in enumerate(new):
            row[j + 1] = above[j] + 1 if line == other else max(above[j + 1], row[j])
    return row[-1]


@given(lines, lines)
def test_the_parts_turn_one_into_the_other_and_none_is_shorter(old: list[bytes], new: list[bytes]) -> None:
    found = find_edit_script(old, new)
    assert found is not None
    out: list[bytes] = []
    at = 0
    for i, i_end, j, j_end in found:
        out += [*old[at:i], *new[j:j_end]]
        at = i_end
    assert [*out, *old[at:]] == new
    assert len(new) - sum(j_end - j for _, _, j, j_end in found) == longest_common_subsequence(old, new)


@given(lines, st.data())
def test_an_insertion_is_found_where_it_can_slide_to(old: list[bytes], data: st.DataObject) -> None:
    at = data.draw(st.integers(0, len(old)))
    put = data.draw(lines.filter(bool))
    [(i, i_end, j, j_end)] = find_edit_script(old, [*old[:at], *put, *old[at:]]) or []
    assert i == i_end
    assert j_end - j == len(put)


TEXTS = {
    "a function below one that ends alike": (
        "def a():\n    one()\n    return None\n",
        "def a():\n    one()\n    return None\n+\n+def b():\n+    two()\n+    return None\n",
    ),
    "the same, with an empty line at the end": (
        "def a():\n    }\n    return None\n\n",
        "def a():\n    }\n    return None\n\n+def b():\n+    two()\n+    }\n+    return None\n+\n",
    ),
    "a function above one, both with a decorator": (
        "import x\n\n@fixture\ndef a():\n    one()\n",
        "import x\n\n+@fixture\n+def b():\n+    two()\n+\n@fixture\ndef a():\n    one()\n",
    ),
    "the same on top of a file": ("@fixture\ndef a():\n", "+@fixture\n+def b():\n+\n@fixture\ndef a():\n"),
    "braces": (
        "func a() {\n    one()\n}\n\nfunc c() {\n}\n",
        "func a() {\n    one()\n}\n\n+func b() {\n+    two()\n+}\n+\nfunc c() {\n}\n",
    ),
    "a paragraph of a page": (
        "<p>\n one\n</p>\n<p>\n two\n</p>\n",
        "<p>\n one\n</p>\n+<p>\n+ new\n+</p>\n<p>\n two\n</p>\n",
    ),
    "a case of a shell": ("case $1 in\na) one ;;\nesac\n", "case $1 in\na) one ;;\n+b) two ;;\nesac\n"),
    "an end of Ruby's": (
        "if a\n  one\nend\nif b\n  two\nend\n",
        "if a\n  one\nend\n+if c\n+  new\n+end\nif b\n  two\nend\n",
    ),
    "one more of many that are the same": ("a\na\na\n", "a\na\na\n+a\n"),
}


@pytest.mark.parametrize("name", TEXTS)
def test_a_run_begins_where_people_begin_one(name: str) -> None:
    old, told = (text.encode().split(b"\n")[:-1] for text in TEXTS[name])
    new = [line.removeprefix(b"+") for line in told]
    for before, after, i, j in ((old, new, 2, 3), (new, old, 0, 1)):
        [part] = find_edit_script(before, after) or []
        assert [n for n, line in enumerate(told) if line.startswith(b"+")] == [*range(part[i], part[j])]


def test_replacing_lines_stand_beside_the_replaced() -> None:
    old, new = [b"", b"one", b"two", b"x"], [b"", b"new", b"lines", b"", b"x"]
    assert find_edit_script(old, new) == [(1, 3, 1, 4)]


def test_a_large_difference_is_left_to_git() -> None:
    assert find_edit_script([b"a", b"b", b"c"], [b"x", b"y", b"c"], 1) is None
    assert find_edit_script([b"a", b"b", b"c"], [b"a", b"x", b"c"], 1) == [(1, 2, 1, 2)]
    assert find_edit_script([], [b"a"] * 50, 1) == [(0, 0, 0, 50)], "nothing is to be compared"


@pytest.mark.parametrize("line", [b"", b"a", b"    }"])
def test_a_repeated_line_is_compared_quickly(line: bytes) -> None:
    assert find_edit_script([line] * 50_000, [line] * 100_000) == [(50_000, 50_000, 50_000, 100_000)]


contents = st.lists(st.sampled_from([b"a", b"b", b"", b"c\r"]), max_size=9).map(b"\n".join)


def apply_hunks(old: bytes, new: bytes, hunks: tuple[Hunk, ...]) -> list[bytes]:
    """`old` with the hunks apply_hunks, the lines that are put there taken from `new`."""
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
    assert apply_hunks(old, new, found) == split_lines(new)
    assert len(split_lines(new)) == count_lines(new)


@given(contents, st.data())
def test_known_lines_are_the_added_ones(old: bytes, data: st.DataObject) -> None:
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
    assert apply_hunks(old, new, found) == split_lines(new)
    assert told in {h.added_lines for h in found} or any(
        h.added_lines and h.added_lines.start <= at + 1 <= h.added_lines.end for h in found
    )


def test_a_copy_above_the_original_is_the_new_one() -> None:
    old, new = b"one\ntwo\nend\n", b"one\ntwo\none\ntwo\nend\n"
    assert diff_at_lines(old, new, [LineRange(1, 2)]) == (Hunk(0, 0, 1, 2),)
    assert diff_at_lines(old, new, [LineRange(3, 4)]) == (Hunk(2, 0, 3, 2),)


def test_impossible_added_lines_are_refused() -> None:
    assert diff_at_lines(b"a\nb\n", b"c\nd\ne\n", [LineRange(3, 3)]) is None
    assert diff_at_lines(b"a\n", b"a\n", [LineRange(2, 2)]) is None


def test_a_last_line_that_gets_its_newline_is_the_same_line() -> None:
    assert diff_small(b"a\nb", b"a\nb\n") == ()
    assert [h.added_lines for h in diff_small(b"a\nb", b"a\nb\nc") or ()] == [LineRange(3, 3)]

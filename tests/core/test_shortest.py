"""The fewest lines that turn one text into another, where people would say they are."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from remit.core.diff.edit_script import find_edit_script

lines = st.lists(st.sampled_from([b"a", b"b", b"", b" c", b"}"]), max_size=12)


def in_common(old: list[bytes], new: list[bytes]) -> int:
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
    assert len(new) - sum(j_end - j for _, _, j, j_end in found) == in_common(old, new)


@given(lines, st.data())
def test_what_is_put_in_is_found_where_it_can_be_slid_to(old: list[bytes], data: st.DataObject) -> None:
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


def test_lines_that_are_put_for_others_stand_beside_them() -> None:
    old, new = [b"", b"one", b"two", b"x"], [b"", b"new", b"lines", b"", b"x"]
    assert find_edit_script(old, new) == [(1, 3, 1, 4)]


def test_what_is_too_large_is_left_to_others() -> None:
    assert find_edit_script([b"a", b"b", b"c"], [b"x", b"y", b"c"], 1) is None
    assert find_edit_script([b"a", b"b", b"c"], [b"a", b"x", b"c"], 1) == [(1, 2, 1, 2)]
    assert find_edit_script([], [b"a"] * 50, 1) == [(0, 0, 0, 50)], "nothing is to be compared"


@pytest.mark.parametrize("line", [b"", b"a", b"    }"])
def test_a_text_of_one_line_over_and_over_is_soon_told(line: bytes) -> None:
    assert find_edit_script([line] * 50_000, [line] * 100_000) == [(50_000, 50_000, 50_000, 100_000)]

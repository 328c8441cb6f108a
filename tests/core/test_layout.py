"""Which old line each line of a newly laid out text continues."""

import pytest

from remit.core.diff.contents import Hunk, diff_small, split_lines
from remit.core.diff.layout import find_layout_origins

CASES: dict[str, tuple[str, str, dict[int, int]]] = {
    "joined": ("a = f(one,\n  two)\nb\n", "a = f(one, two)\nb\n", {0: 0}),
    "wrapped": ("call(first, second)\n", "call(\n    first,\n    second,\n)\n", {0: 0, 1: 0, 2: 0, 3: 0}),
    "indented again": ("if x:\n  go(x)\n", "if x:\n    go(x)\n", {1: 1}),
    "other quotes and an end": ("say('it')\n", 'say("it");\n', {0: 0}),
    "empty lines put in": ("one = 1\ndef two(): pass\n", "one = 1\n\n\ndef two(): pass\n", {1: 0, 2: 0}),
    "opened before its first word": ('{"a":1}\n', '{\n  "a": 1\n}\n', {0: 0, 1: 0, 2: 0}),
    "in another order": ("import b\nimport a\nuse(a, b)\n", "import a\nimport b\nuse(a, b)\n", {1: 0}),
    "letters in another case": ("x = 0XFF\n", "x = 0xff\n", {0: 0}),
    "in other alphabets": ("# größer   als\n", "# größer als\n", {0: 0}),
    "a new word": ("go(a)\nstay(a,b)\n", "go(a)\nstay(evil, b)\n", {}),
    "a new word beside a laid out line": ("go( a )\nstay(b)\n", "go(a)\nleave(b)\n", {0: 0}),
    "another operator": ("go(a)\nif a<b: c()\n", "go(a)\nif a > b:\n    c()\n", {2: 1}),
    "a new line": ("one\n", "one\nsomething(new)\n)\n", {}),
    "a file that was empty": ("", "one\n", {}),
}


@pytest.mark.parametrize("name", CASES)
def test_a_line_continues_the_line_of_its_first_word_and_new_words_continue_none(name: str) -> None:
    before, after, expected = CASES[name]
    hunks = diff_small(before.encode(), after.encode())
    assert hunks is not None
    assert find_layout_origins(split_lines(before.encode()), split_lines(after.encode()), hunks) == expected


def test_a_long_text_in_which_words_differ_everywhere_is_compared_change_by_change() -> None:
    old = "".join(f"call_{n}( a{n} )\nkept_{n}\n" for n in range(2000))
    new = "".join(f"call_{n}(a{n})\nkept_{n}\n" if n % 2 else f"other_{n}(b{n})\nkept_{n}\n" for n in range(2000))
    changed = zip(old.split("\n"), new.split("\n"), strict=True)
    hunks = [Hunk(number, 1, number, 1) for number, (was, now) in enumerate(changed, 1) if was != now]
    found = find_layout_origins(split_lines(old.encode()), split_lines(new.encode()), hunks)
    assert found == {2 * n: 2 * n for n in range(2000) if n % 2}

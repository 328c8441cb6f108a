"""What an edit does not touch stays, whatever a diff of the contents would say."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from remit.core.diff.contents import Hunk
from remit.core.diff.edit_script import MAX_DIFF_LINES, diff_by_origins, split_lines
from remit.core.diff.edits import Edit, Patching, Replacement, Replacements, WholeFile, apply_edit, find_kept_lines
from remit.core.diff.patch import parse_patch

BLOCK = "def one(rows):\n    return sum(rows)\n\n"
NEXT = "def two(rows):\n    return len(rows)\n"
FILE = (f"import sys\n\n{BLOCK}{NEXT}").encode()

texts = st.lists(st.sampled_from(["a", "b", "", "    c"]), max_size=8)


def patching(body: str) -> Patching:
    return Patching(parse_patch(f"*** Begin Patch\n*** Update File: f\n{body}*** End Patch"))


def replacing(old: str, new: str) -> Replacements:
    return Replacements((Replacement(old, new),))


def put(edit: Edit, before: bytes = FILE) -> tuple[Hunk, ...] | None:
    """How the edit changes the file, by its arguments."""
    stay, after = find_kept_lines(edit, "f", before), apply_edit(edit, "f", {"f": before}.get)["f"]
    assert stay is not None
    assert after is not None
    return diff_by_origins(before, after, stay)


ABOVE = (Hunk(2, 0, 3, 3),)
"""The copy came above the block that was there."""

COPIES = {
    "a patch": (
        patching("@@\n \n" + "".join(f"+{line}\n" for line in BLOCK.splitlines()) + " def one(rows):\n"),
        ABOVE,
    ),
    "before a head": (replacing("def one(rows):", f"{BLOCK}def one(rows):"), ABOVE),
    "from the line before": (replacing("import sys\n\ndef one", f"import sys\n\n{BLOCK}def one"), ABOVE),
    "below": (replacing("\n\ndef two", f"\n\n{BLOCK}def two"), (Hunk(5, 0, 6, 3),)),
    "two steps": (Replacements((Replacement("len", "max"), Replacement("sys\n\n", f"sys\n\n{BLOCK}"))), None),
}


@pytest.mark.parametrize("name", COPIES)
def test_a_copy_is_not_taken_for_the_original(name: str) -> None:
    edit, expected = COPIES[name]
    assert put(edit) == (expected or (*ABOVE, Hunk(7, 1, 10, 1)))


def test_who_puts_a_function_below_another_keeps_the_line_that_both_end_with() -> None:
    new = "    return sum(rows)\n\n\ndef mean(rows):\n    return sum(rows)\n"
    assert put(replacing("    return sum(rows)\n", new)) == (Hunk(4, 0, 5, 4),)


def test_a_line_that_a_patch_takes_out_and_puts_in_again_stays() -> None:
    edit = patching("@@\n-def two(rows):\n-    return len(rows)\n+def two(rows):\n+    return max(rows)\n")
    assert put(edit) == (Hunk(7, 1, 7, 1),)


def test_what_both_texts_begin_or_end_with_as_often_is_no_guess() -> None:
    before = b"if skip:\n    # stop\n    end()\n"
    edit = replacing("if skip:\n    # stop", "if skip:\n    log = {\n    }\n    # stop")
    assert find_kept_lines(edit, "f", before, guess=False) == {0: 0, 3: 1, 4: 2}
    doubled = replacing("if skip:\n    # stop", "if skip:\n    # stop\n    log()\n    # stop")
    assert find_kept_lines(doubled, "f", before, guess=False) == {0: 0, 4: 2}


UNTOLD: list[tuple[Edit, bytes]] = [
    (WholeFile("x\n"), FILE),
    (Replacements((Replacement("rows", "lines", every=True),)), FILE),
    (replacing("nowhere", "x"), FILE),
    (replacing("", "x"), b""),
    (patching("@@\n-nowhere\n+x\n"), FILE),
    (Patching(parse_patch("*** Begin Patch\n*** Add File: f\n+x\n*** End Patch")), FILE),
    (Patching(parse_patch("*** Begin Patch\n*** Update File: f\n*** Move to: g\n@@\n-a\n+b\n*** End Patch")), b"a\n"),
]


@pytest.mark.parametrize(("edit", "before"), UNTOLD)
def test_where_the_arguments_do_not_tell_nothing_is_said(edit: Edit, before: bytes) -> None:
    assert find_kept_lines(edit, "f", before) is None


def test_what_is_too_large_to_compare_is_left_to_others() -> None:
    many = [f"line {n}" for n in range(MAX_DIFF_LINES + 1)]
    edit = patching("@@\n" + "".join(f"-{line}\n" for line in many) + "".join(f"+{line}\n" for line in reversed(many)))
    assert put(edit, "".join(f"{line}\n" for line in many).encode()) is None


@given(texts, texts, texts, texts)
def test_only_lines_that_read_alike_stay_and_in_their_order(
    head: list[str], old: list[str], new: list[str], tail: list[str]
) -> None:
    lines = [*head, "<", *old, ">", *tail]
    before = "".join(f"{line}\n" for line in lines).encode()
    edits: list[Edit] = [
        replacing("\n".join(["<", *old, ">"]), "\n".join(["<", *new, ">"])),
        patching("@@\n <\n" + "".join(f"-{line}\n" for line in old) + "".join(f"+{line}\n" for line in new) + " >\n"),
    ]
    for edit in edits:
        stay, after = find_kept_lines(edit, "f", before), apply_edit(edit, "f", {"f": before}.get)["f"]
        assert stay is not None
        assert after is not None
        a, b = split_lines(before), split_lines(after)
        hunks = diff_by_origins(before, after, stay) or ()
        put_in = {n - 1 for hunk in hunks for n in hunk.new_range}
        assert len(head) + 1 <= min(put_in, default=len(b)), edit
        assert max(put_in, default=0) < len(b) - len(tail), edit
        left = [line for n, line in enumerate(b) if n not in put_in]
        gone = {n - 1 for hunk in hunks for n in hunk.old_range}
        assert left == [line for n, line in enumerate(a) if n not in gone]

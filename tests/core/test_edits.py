"""What a file tool would leave is what it leaves: held against captured payloads, and against its own laws."""

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from remit.adapters import parse
from remit.core.call import BeforeCall
from remit.core.diff.contents import MAX_DIFF_LINES, Hunk, diff_by_origins, split_lines
from remit.core.diff.edits import Edit, Patching, Replacement, Replacements, WholeFile, apply_edit
from remit.core.diff.formats import parse_patch
from remit.core.diff.notebooks import CellEdit, UnclearEdit
from remit.core.diff.trace import find_kept_lines

PAYLOADS = Path(__file__).parent.parent / "compat" / "payloads"
PAIRS = [
    ("claude-code", "Edit"),
    ("claude-code", "Edit-replace_all"),
    ("claude-code", "Write"),
    ("claude-code", "Write-update"),
    ("claude-code", "NotebookEdit"),
    ("claude-code", "NotebookEdit-insert"),
    ("gemini", "replace"),
    ("gemini", "write_file"),
    ("qwen", "edit"),
    ("qwen", "write_file"),
]


def captured(agent: str, name: str) -> tuple[bytes, dict[str, Any]]:
    """The payload before a call, and the document after it."""
    before, after = ("BeforeTool", "AfterTool") if agent == "gemini" else ("PreToolUse", "PostToolUse")
    folder = PAYLOADS / agent
    return (folder / f"{before}-{name}.json").read_bytes(), json.loads((folder / f"{after}-{name}.json").read_bytes())


def sides(response: dict[str, Any]) -> tuple[str | None, str]:
    """The file before and after, as the tool's own answer has it."""
    shown = response.get("returnDisplay", {})
    if "newContent" in shown:
        return shown["originalContent"] or None, shown["newContent"]
    if "updated_file" in response:
        return response["original_file"], response["updated_file"]
    if "content" in response:
        return response.get("originalFile"), response["content"]
    old, new = response["oldString"], response["newString"]
    every = response["replaceAll"]
    return response["originalFile"], response["originalFile"].replace(old, new, -1 if every else 1)


@pytest.mark.parametrize(("agent", "name"), PAIRS)
def test_what_is_proposed_is_what_the_real_tool_left(agent: str, name: str) -> None:
    payload, after = captured(agent, name)
    event = parse(agent, payload)
    assert isinstance(event, BeforeCall)
    edit = event.call.edit
    assert edit is not None
    old, new = sides(after["tool_response"])
    path = event.call.paths[0]
    found = apply_edit(edit, path, lambda _: None if old is None else old.encode())[path]
    assert found is not None
    if "insert" in name:  # the tool draws the new cell's id
        assert [c["source"] for c in json.loads(found)["cells"]] == [c["source"] for c in json.loads(new)["cells"]]
    else:
        assert found.decode() == new


def test_a_patch_of_codex_is_proposed_as_it_was_applied() -> None:
    event = parse("codex", (PAYLOADS / "codex" / "PreToolUse-apply_patch.json").read_bytes())
    assert isinstance(event, BeforeCall)
    assert event.call.edit is not None
    [content] = apply_edit(event.call.edit, "", lambda _: None).values()
    assert content == b"one\ntwo\n"


PATCH = """*** Begin Patch
*** Update File: a.py
@@ def two
 def two():
-    return 2
+    return 3
*** Update File: b.py
*** Move to: c.py
@@
-old
+new
*** Add File: d.py
+first
*** Delete File: e.py
*** End Patch"""


def test_a_patch_of_several_files_moves_adds_and_deletes() -> None:
    files = {"a.py": b"def one():\n    return 2\n\ndef two\ndef two():\n    return 2\n", "b.py": b"old\n", "e.py": b"x"}
    assert apply_edit(Patching(parse_patch(PATCH)), "", files.get) == {
        "a.py": b"def one():\n    return 2\n\ndef two\ndef two():\n    return 3\n",
        "b.py": None,
        "c.py": b"new\n",
        "d.py": b"first\n",
        "e.py": None,
    }


def test_lines_of_a_patch_are_found_in_a_file_with_other_white_space() -> None:
    patch = "*** Begin Patch\n*** Update File: a\n@@\n one\n-two\n+TWO\n*** End Patch"
    assert apply_edit(Patching(parse_patch(patch)), "", lambda _: b"one  \r\ntwo\r\n") == {"a": b"one\nTWO\n"}


UNCLEAR = [
    (Replacement("x", "y"), b"nothing"),
    (Replacement("x", "y"), b"x and x"),
    (Replacement("x", "y", every=True), b""),
    (Replacement("x", "y"), None),
    (Replacement("", "y"), b"there is something"),
]


@pytest.mark.parametrize(("step", "content"), UNCLEAR)
def test_what_the_arguments_do_not_tell_is_said_and_not_guessed(step: Replacement, content: bytes | None) -> None:
    with pytest.raises(UnclearEdit):
        apply_edit(Replacements((step,)), "a", lambda _: content)


@pytest.mark.parametrize("content", [None, b"", b"{}", b"[]", b'{"cells": 3}', b"\xff", b'{"cells": [1]}', b"[" * 5000])
def test_a_notebook_that_is_none_is_said(content: bytes | None) -> None:
    with pytest.raises(UnclearEdit):
        apply_edit(CellEdit("x", "c1"), "n.ipynb", lambda _: content)


def test_an_edit_of_a_file_with_crlf_keeps_its_line_ends() -> None:
    edit = Replacements((Replacement("one\ntwo", "1\n2"),))
    assert apply_edit(edit, "a", lambda _: b"one\r\ntwo\r\n")["a"] == b"1\r\n2\r\n"


@given(st.lists(st.text(alphabet="ab\n", min_size=1, max_size=6), min_size=1, max_size=4), st.text(max_size=40))
def test_edits_one_after_the_other_are_what_each_would_leave_alone(news: list[str], start: str) -> None:
    content: bytes | None = f"<0>{start}".encode()
    steps = tuple(Replacement(f"<{n}>", f"{new}<{n + 1}>") for n, new in enumerate(news))
    at_once = apply_edit(Replacements(steps), "a", lambda _: content)["a"]
    for step in steps:
        content = apply_edit(Replacements((step,)), "a", lambda _, now=content: now)["a"]
    assert at_once == content


@given(st.text())
def test_a_whole_file_is_its_text(text: str) -> None:
    assert apply_edit(WholeFile(text), "a", lambda _: b"old")["a"] == text.encode("utf-8", "replace")


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

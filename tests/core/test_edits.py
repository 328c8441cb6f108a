"""What a file tool would leave is what it leaves: held against captured payloads, and against its own laws."""

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from remit.adapters import parse
from remit.core.diff.edits import CellEdit, Patching, Replacement, Replacements, UnclearEdit, WholeFile, apply_edit
from remit.core.diff.patch import parse_patch
from remit.core.events import BeforeCall

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

"""The tools that change files: what they find, what they leave alone, and how they refuse."""

import time
from pathlib import Path
from typing import Any

import pytest

from agent.tool_driving import ToolDriver
from gate.driving import body, records
from remit.core.diff.contents import sha256
from remit.core.diff.edits import Patching, apply_edit
from remit_agent.tools.patching import PATCHING_TOOLS
from remit_agent.tools.replacing import REPLACING_TOOLS
from remit_agent.tools.tool import ToolFailure
from remit_agent.tools.writing import WRITING_TOOLS

TOOLS = {tool.name: tool for tool in (*REPLACING_TOOLS, *PATCHING_TOOLS, *WRITING_TOOLS)}
FILE = "def one():\n    return 1\n\n\ndef two():\n    value = 1\n    return value\n"


@pytest.fixture
def driver(repository: Path, home: Path) -> ToolDriver:
    return ToolDriver(repository, home)


def put(driver: ToolDriver, content: str | bytes, name: str = "src/a.py") -> Path:
    path = driver.root / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return path


def exchange(tool: str, path: str, old: str, new: str) -> dict[str, Any]:
    """The arguments with which a tool replaces one text."""
    if tool == "apply_diff":
        return {"path": path, "diff": f"<<<<<<< SEARCH\n{old}\n=======\n{new}\n>>>>>>> REPLACE"}
    if tool == "apply_patch":
        lines = [f"-{line}" for line in old.split("\n")] + [f"+{line}" for line in new.split("\n")]
        return {"patch": "\n".join(["*** Begin Patch", f"*** Update File: {path}", "@@", *lines, "*** End Patch"])}
    return {"file_path": path, "old_string": old, "new_string": new}


EDITORS = ("edit", "edit_file", "search_replace", "apply_diff", "apply_patch")

REPLACED = {
    "exact": (FILE, "    return 1", "    return 2", FILE.replace("return 1", "return 2")),
    "CRLF in the file": ("a\r\nb\r\nc\r\n", "a\nb", "a\nB\nx", "a\r\nB\r\nx\r\nc\r\n"),
    "CRLF in the call": ("a\nb\nc\n", "a\r\nb", "a\r\nB", "a\nB\nc\n"),
    "mixed line ends stay": ("a\r\nb\nc\r\nd\n", "a\nb\nc", "a\nB\nc", "a\r\nB\nc\r\nd\n"),
    "trailing blanks": ("a  \nb\t\nc\n", "a\nb", "a\nx", "a  \nx\nc\n"),
    "lost indentation": (
        FILE,
        "value = 1\nreturn value",
        "value = 2\nreturn value",
        FILE.replace("value = 1", "value = 2"),
    ),
    "indented too far": ("a:\n  b\n  c\n", "    b\n    c", "    b\n    x\n    c", "a:\n  b\n  x\n  c\n"),
    "byte order mark": ("\ufeffa\nb\n", "a\nb", "x\nb", "\ufeffx\nb\n"),
    "no line end at the end": ("a\nb", "a\nb", "a\nc", "a\nc"),
}


@pytest.mark.parametrize("tool", EDITORS)
@pytest.mark.parametrize("case", REPLACED)
def test_a_text_is_replaced_and_all_else_keeps_its_bytes(driver: ToolDriver, tool: str, case: str) -> None:
    before, old, new, after = REPLACED[case]
    path = put(driver, before)
    text = driver.run(TOOLS[tool], **exchange(tool, "src/a.py", old, new))
    assert path.read_bytes() == after.encode()
    assert "content_hash: sha256:" in text


@pytest.mark.parametrize("tool", EDITORS)
def test_bytes_outside_utf8_survive_an_edit(driver: ToolDriver, tool: str) -> None:
    path = put(driver, b"caf\xe9\nold\nend\n")
    driver.run(TOOLS[tool], **exchange(tool, "src/a.py", "old", "new"))
    assert path.read_bytes() == b"caf\xe9\nnew\nend\n"


NOT_REPLACED = {
    "one wrong line": (
        FILE,
        "def two():\n    value = 2\n    return value",
        "EDIT_NOT_FOUND",
        "    value = 1\n    return value",
    ),
    "numbers left in": (FILE, "1 | def one():\n2 |     return 1", "EDIT_NOT_FOUND", "line numbers"),
    "twice": ("a\nx\nb\nx\n", "x", "EDIT_AMBIGUOUS", "lines 2, 4"),
    "two shifts": ("a:\n  b\n      c\n", "b\nc", "EDIT_NOT_FOUND", "nearest text is lines 2-3"),
    "nothing alike": (FILE, "zebra crossing(", "EDIT_NOT_FOUND", "read the file again"),
}


@pytest.mark.parametrize("tool", EDITORS)
@pytest.mark.parametrize("case", NOT_REPLACED)
def test_a_text_that_is_not_there_once_is_refused_with_the_way_out(driver: ToolDriver, tool: str, case: str) -> None:
    before, old, kind, hint = NOT_REPLACED[case]
    put(driver, before)
    failure = driver.fail(TOOLS[tool], **exchange(tool, "src/a.py", old, "changed"))
    assert failure.error_type == kind
    assert hint in str(failure)


def test_a_whole_line_without_its_indentation_does_not_become_lines_with_less(driver: ToolDriver) -> None:
    put(driver, FILE)
    failure = driver.fail(TOOLS["edit"], **exchange("edit", "src/a.py", "return 1", "x = 1\nreturn x"))
    assert "whole lines with their indentation" in str(failure)


def test_a_block_names_whole_lines_first(driver: ToolDriver) -> None:
    path = put(driver, "max = 1\nx = 1\n")
    driver.run(TOOLS["apply_diff"], **exchange("apply_diff", "src/a.py", "x = 1", "x = 2"))
    assert path.read_text() == "max = 1\nx = 2\n"


def test_every_occurrence_is_exchanged_on_request(driver: ToolDriver) -> None:
    path = put(driver, "a a\na\n")
    driver.run(TOOLS["edit"], file_path="src/a.py", old_string="a", new_string="bb", replace_all=True)
    assert path.read_text() == "bb bb\nbb\n"
    driver.run(TOOLS["edit_file"], file_path="src/a.py", old_string="bb", new_string="c", expected_replacements=3)
    assert path.read_text() == "c c\nc\n"
    failure = driver.fail(
        TOOLS["edit_file"], file_path="src/a.py", old_string="c", new_string="d", expected_replacements=2
    )
    assert failure.error_type == "EDIT_AMBIGUOUS"


def test_a_start_line_tells_equal_places_apart(driver: ToolDriver) -> None:
    path = put(driver, "x\na\nx\n")
    diff = "<<<<<<< SEARCH\n:start_line:3\n-------\nx\n=======\ny\n>>>>>>> REPLACE"
    driver.run(TOOLS["apply_diff"], path="src/a.py", diff=diff)
    assert path.read_text() == "x\na\ny\n"


def test_blocks_are_applied_all_or_none(driver: ToolDriver) -> None:
    path = put(driver, FILE)
    first = "<<<<<<< SEARCH\ndef one():\n=======\ndef first():\n>>>>>>> REPLACE\n"
    failure = driver.fail(TOOLS["apply_diff"], path="src/a.py", diff=first + first.replace("one", "none"))
    assert "block 2 of 2" in str(failure)
    driver.run(TOOLS["apply_diff"], path="src/a.py", diff=first + first.replace("one", "two").replace("first", "last"))
    assert path.read_text() == FILE.replace("one", "first").replace("two", "last")


def test_lines_that_look_like_marks_are_written_with_a_backslash(driver: ToolDriver) -> None:
    path = put(driver, "Title\n=======\n")
    failure = driver.fail(TOOLS["apply_diff"], **exchange("apply_diff", "src/a.py", "Title\n=======", "Name\n======="))
    assert failure.error_type == "PATCH_INVALID"
    assert "backslash" in str(failure)
    driver.run(TOOLS["apply_diff"], **exchange("apply_diff", "src/a.py", "Title\n\\=======", "Name\n\\======="))
    assert path.read_text() == "Name\n=======\n"


MALFORMED = (
    "",
    "text",
    "<<<<<<< SEARCH\na\n>>>>>>> REPLACE",
    "<<<<<<< SEARCH\na\n=======\nb",
    "<<<<<<< SEARCH\na\n<<<<<<< SEARCH\n",
)


@pytest.mark.parametrize("diff", MALFORMED)
def test_a_malformed_block_is_refused_with_its_line(driver: ToolDriver, diff: str) -> None:
    put(driver, "a\n")
    failure = driver.fail(TOOLS["apply_diff"], path="src/a.py", diff=diff)
    assert failure.error_type == "PATCH_INVALID"
    assert "line " in str(failure)


# --- patches ----------------------------------------------------------------------------------------------

V4A = """\
*** Begin Patch
*** Add File: src/new.py
+x = 1
*** Update File: src/a.py
*** Move to: src/b.py
@@ def two():
-    value = 1
+    value = 2
     return value
*** Delete File: README.md
*** End Patch"""

UNIFIED = """\
diff --git a/README.md b/README.md
deleted file mode 100644
--- a/README.md
+++ /dev/null
@@ -1 +0,0 @@
-# Example
diff --git a/src/a.py b/src/b.py
similarity index 80%
rename from src/a.py
rename to src/b.py
--- a/src/a.py
+++ b/src/b.py
@@ -5,3 +5,3 @@ def two():
 def two():
-    value = 1
+    value = 2
     return value
diff --git a/src/new.py b/src/new.py
new file mode 100755
--- /dev/null
+++ b/src/new.py
@@ -0,0 +1 @@
+x = 1
"""


@pytest.mark.parametrize("patch", [V4A, UNIFIED])
def test_a_patch_adds_updates_moves_and_deletes(driver: ToolDriver, patch: str) -> None:
    put(driver, FILE)
    driver.run(TOOLS["apply_patch"], patch=patch)
    after = driver.contents()
    assert after["src/b.py"].decode() == FILE.replace("value = 1", "value = 2")
    assert after["src/new.py"] == b"x = 1\n"
    assert not {"src/a.py", "README.md"} & after.keys()
    assert bool((driver.root / "src/new.py").stat().st_mode & 0o100) == (patch == UNIFIED)


def test_a_patch_is_applied_all_or_none(driver: ToolDriver) -> None:
    put(driver, FILE)
    failure = driver.fail(TOOLS["apply_patch"], patch=V4A.replace("value = 1", "valve = 7"))
    assert failure.error_type == "EDIT_NOT_FOUND"
    assert "value = 1" in str(failure)


def test_a_line_end_at_the_end_comes_and_goes_as_a_unified_diff_says(driver: ToolDriver) -> None:
    path = put(driver, "a\nb\n")
    diff = "--- a/src/a.py\n+++ b/src/a.py\n@@ -1,2 +1,2 @@\n a\n-b\n+c\n\\ No newline at end of file\n"
    driver.run(TOOLS["apply_patch"], patch=diff)
    assert path.read_text() == "a\nc"
    back = "--- a/src/a.py\n+++ b/src/a.py\n@@ -1,2 +1,2 @@\n a\n-c\n\\ No newline at end of file\n+b\n"
    driver.run(TOOLS["apply_patch"], patch=back)
    assert path.read_text() == "a\nb\n"


AMBIGUOUS = "x\n1\nx\n2\nx\n"


def test_a_hunk_that_fits_twice_is_refused_unless_the_patch_says_where(driver: ToolDriver) -> None:
    path = put(driver, AMBIGUOUS)
    v4a = "*** Begin Patch\n*** Update File: src/a.py\n@@{}\n-x\n+y\n*** End Patch"
    assert driver.fail(TOOLS["apply_patch"], patch=v4a.format("")).error_type == "EDIT_AMBIGUOUS"
    driver.run(TOOLS["apply_patch"], patch=v4a.format(" 2"))
    assert path.read_text() == "x\n1\nx\n2\ny\n"
    driver.run(TOOLS["apply_patch"], patch="--- a/src/a.py\n+++ b/src/a.py\n@@ -3,1 +3,1 @@\n-x\n+z\n")
    assert path.read_text() == "x\n1\nz\n2\ny\n"


INVALID_PATCHES = {
    "nothing": ("", "expected"),
    "no end": ("*** Begin Patch\n*** Delete File: src/a.py", "End Patch"),
    "no hunk": ("--- a/src/a.py\n+++ b/src/a.py\n-a\n", "stands in no hunk"),
    "existing": ("*** Begin Patch\n*** Add File: src/a.py\n+x\n*** End Patch", "exists already"),
    "only new": ("--- a/src/a.py\n+++ b/src/a.py\n@@ -1,0 +2 @@\n+x\n", "at least one line"),
    "binary": ("diff --git a/x b/x\nGIT binary patch\n", "binary"),
}


@pytest.mark.parametrize("case", INVALID_PATCHES)
def test_an_invalid_patch_is_refused(driver: ToolDriver, case: str) -> None:
    put(driver, FILE)
    patch, hint = INVALID_PATCHES[case]
    failure = driver.fail(TOOLS["apply_patch"], patch=patch)
    assert failure.error_type == "PATCH_INVALID"
    assert hint in str(failure)


# --- whole files, and what all share ----------------------------------------------------------------------


def test_a_whole_file_keeps_mark_line_ends_and_permissions(driver: ToolDriver) -> None:
    path = put(driver, "\ufeffa\r\nb\r\n")
    path.chmod(0o755)
    driver.run(TOOLS["write_to_file"], path="src/a.py", content="a\nc\n")
    assert path.read_bytes() == "\ufeffa\r\nc\r\n".encode()
    assert path.stat().st_mode & 0o777 == 0o755
    assert driver.fail(TOOLS["write_to_file"], path="src/a.py", content="a\nc\n").error_type == "EDIT_WITHOUT_CHANGE"


@pytest.mark.parametrize("tool", ["write_to_file", "edit_file", "apply_patch"])
def test_a_file_is_created_with_its_folders(driver: ToolDriver, tool: str) -> None:
    arguments = {
        "write_to_file": {"path": "src/x/y.py", "content": "x = 1\n"},
        "edit_file": {"file_path": "src/x/y.py", "old_string": "", "new_string": "x = 1\n"},
        "apply_patch": {"patch": "*** Begin Patch\n*** Add File: src/x/y.py\n+x = 1\n*** End Patch"},
    }[tool]
    assert "created" in driver.run(TOOLS[tool], **arguments)
    assert (driver.root / "src/x/y.py").read_text() == "x = 1\n"


@pytest.mark.parametrize("tool", EDITORS)
def test_the_gate_hears_exactly_what_is_written_and_which_lines(driver: ToolDriver, tool: str) -> None:
    path = put(driver, FILE)
    done = driver.perform(TOOLS[tool], **exchange(tool, "src/a.py", "    return 1", "    x = 1\n    return x"))
    assert done.output is not None
    (span,) = done.output.positions["src/a.py"]
    assert (span.start, span.end) == (2, 3)
    mutation = body(records(driver.root, "mutation")[-1])
    assert mutation["files"][0]["path"] == "src/a.py"
    assert mutation["mutation_class"]["declared"] == "INTENT_EVOLUTION"
    assert "    x = 1\n    return x\n" in path.read_text()


def test_the_announced_edit_makes_the_content_and_names_the_lines_that_stay(driver: ToolDriver) -> None:
    put(driver, FILE)
    seen: list[Any] = []
    driver.gate.add_hook("look", lambda call, facts: seen.append(call))
    driver.run(TOOLS["edit"], **exchange("edit", "src/a.py", "value = 1\nreturn value", "value = 2\nreturn value"))
    (call,) = seen
    assert isinstance(call.edit, Patching)
    assert call.checks_itself
    made = apply_edit(call.edit, "src/a.py", {"src/a.py": FILE.encode()}.get)
    assert made == {"src/a.py": (driver.root / "src/a.py").read_bytes()}
    put(driver, "a\nb")
    driver.run(TOOLS["edit"], **exchange("edit", "src/a.py", "b", "c"))
    assert apply_edit(seen[-1].edit, "src/a.py", {"src/a.py": b"a\nb"}.get) == {"src/a.py": b"a\nc"}


@pytest.mark.parametrize("tool", EDITORS)
def test_an_edit_that_cites_another_content_is_stale(driver: ToolDriver, tool: str) -> None:
    put(driver, FILE)
    arguments = (
        exchange(tool, "src/a.py", "return 1", "return 2")
        if tool != "apply_patch"
        else exchange(tool, "src/a.py", "    return 1", "    return 2")
    )
    done = driver.perform(TOOLS[tool], expected_content_hash=f"sha256:{'0' * 64}", **arguments)
    assert done.violation is not None
    assert done.violation.error_type == "STALE_FILE"
    right = sha256(FILE.encode())
    assert driver.perform(TOOLS[tool], expected_content_hash=f"sha256:{right}", **arguments).output is not None


def test_a_link_to_a_file_stays_a_link(driver: ToolDriver) -> None:
    put(driver, FILE)
    (driver.root / "link.py").symlink_to("src/a.py")
    driver.run(TOOLS["edit"], **exchange("edit", "link.py", "return 1", "return 2"))
    assert (driver.root / "link.py").is_symlink()
    assert "return 2" in (driver.root / "src/a.py").read_text()


def test_a_file_that_changes_while_the_call_is_decided_is_not_written(driver: ToolDriver) -> None:
    path = put(driver, FILE)
    with pytest.raises(ToolFailure, match="changed while"):
        driver.perform(
            TOOLS["edit"],
            lambda: put(driver, FILE + "#\n") and None,
            **exchange("edit", "src/a.py", "return 1", "return 2"),
        )
    assert path.read_text() == FILE + "#\n"


@pytest.mark.parametrize("tool", EDITORS)
def test_nothing_outside_the_workspace_is_shown_before_the_gate_decides(
    driver: ToolDriver, tmp_path: Path, tool: str
) -> None:
    secret = tmp_path / "secret.txt"
    secret.write_text("the secret line\n")
    done = driver.perform(TOOLS[tool], **exchange(tool, str(secret), "the secret lines", "x"))
    assert done.violation is not None
    assert done.violation.error_type == "OUTSIDE_WORKSPACE"
    assert "secret line\n" not in "\n".join(done.messages)
    assert secret.read_text() == "the secret line\n"


def test_a_very_long_file_is_replaced_without_comparing_each_line_with_each(driver: ToolDriver) -> None:
    put(driver, "head\n" + "".join(f"a{n}\n" for n in range(60_000)) + "tail\n")
    began = time.process_time()
    done = driver.perform(
        TOOLS["write_to_file"],
        path="src/a.py",
        content="head\n" + "".join(f"b{n}\n" for n in range(60_000)) + "tail\n",
    )
    assert time.process_time() - began < 20
    assert done.output is not None
    assert [(span.start, span.end) for span in done.output.positions["src/a.py"]] == [(2, 60_001)]


def test_images_are_made_only_where_the_provider_can(driver: ToolDriver) -> None:
    assert driver.fail(TOOLS["generate_image"], prompt="a key", path="a.png").error_type == "UNAVAILABLE"

"""Unified diffs in git's form: what git prints is read, written back, and applied to the same contents."""

import subprocess
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from conftest import run_git
from remit.core.diff.unified import (
    MAX_DIFF_BYTES,
    DiffHunk,
    HunkMismatch,
    UnifiedDiffError,
    UnifiedFile,
    apply_hunks_exactly,
    parse_name,
    parse_unified,
    quote_name,
    write_unified,
)

WORDS = ("--no-color", "--full-index", "--find-renames", "--no-ext-diff")
pieces = st.lists(st.sampled_from(["", "a", "b b", "}", "\r", "x\r", "é", "-- a", "@@ -1 +1 @@", "\\ No"]), max_size=12)
texts = st.tuples(pieces, st.booleans()).map(lambda it: "\n".join(it[0]) + ("\n" if it[1] and it[0] else ""))


def diff(root: Path, *arguments: str) -> bytes:
    words = ["git", "-C", str(root), "-c", "core.quotePath=false", "diff", *WORDS, *arguments]
    return subprocess.run(words, check=True, capture_output=True).stdout


def fill(root: Path, files: dict[str, bytes | None]) -> None:
    for path, content in files.items():
        place = root / path
        place.parent.mkdir(parents=True, exist_ok=True)
        if content is None:
            place.unlink()
        else:
            place.write_bytes(content)
    run_git(root, "add", "-A")


BEFORE: dict[str, bytes | None] = {
    "plain.py": b"".join(b"line %d\n" % n for n in range(40)),
    "crlf.txt": b"one\r\ntwo\r\nthree\r\n",
    "open.txt": b"one\ntwo",
    "closed.txt": b"one\ntwo\n",
    "old name.txt": b"".join(b"kept %d\n" % n for n in range(20)),
    "gone.txt": b"gone\n",
    "run.sh": b"#!/bin/sh\n",
    'u\u00fc "q"\t.txt': b"x\n",
}
AFTER: dict[str, bytes | None] = {
    "plain.py": b"first\n" + b"".join(b"line %d\n" % n for n in range(40) if n not in (7, 30)) + b"last\n",
    "crlf.txt": b"one\r\n2\r\nthree\r\n",
    "open.txt": b"one\ntwo\n",
    "closed.txt": b"one\ntwo",
    "old name.txt": None,
    "new/name.txt": b"".join(b"kept %d\n" % n for n in range(20)) + b"more\n",
    "gone.txt": None,
    "made.txt": b"made\n",
    "empty.txt": b"",
    'u\u00fc "q"\t.txt': b"y\n",
}


@pytest.fixture
def changed(tmp_path: Path) -> Path:
    run_git(tmp_path, "init", "-q")
    fill(tmp_path, BEFORE)
    run_git(tmp_path, "commit", "-qm", "before")
    fill(tmp_path, AFTER)
    (tmp_path / "run.sh").chmod(0o755)
    run_git(tmp_path, "add", "-A")
    return tmp_path


def test_each_file_is_applied_to_what_git_has(changed: Path) -> None:
    found = {file.path: file for file in parse_unified(diff(changed, "--cached"))}
    assert found["new/name.txt"].operation == "rename"
    assert found["new/name.txt"].old_path == "old name.txt"
    assert (found["run.sh"].old_mode, found["run.sh"].new_mode) == ("100644", "100755")
    assert {path: file.operation for path, file in found.items() if file.operation in ("create", "delete")} == {
        "made.txt": "create", "empty.txt": "create", "gone.txt": "delete",
    }  # fmt: skip
    for path, file in found.items():
        before = BEFORE.get(file.old_path) or b""
        wanted = b"" if file.operation == "delete" else AFTER.get(path, b"#!/bin/sh\n")
        assert apply_hunks_exactly(before, file.hunks) == wanted


def test_what_is_written_is_what_git_reads(changed: Path) -> None:
    written = write_unified(parse_unified(diff(changed, "--cached")))
    assert parse_unified(written) == parse_unified(diff(changed, "--cached"))
    tree = run_git(changed, "write-tree")
    run_git(changed, "reset", "-q", "--hard")
    (changed / "the.patch").write_bytes(written)
    run_git(changed, "apply", "--index", "the.patch")
    assert run_git(changed, "write-tree") == tree


@given(texts, texts)
def test_random_texts_come_out_as_git_says(tmp_path_factory: pytest.TempPathFactory, old: str, new: str) -> None:
    root = tmp_path_factory.mktemp("pair")
    (root / "a").write_bytes(old.encode())
    (root / "b").write_bytes(new.encode())
    words = ["git", "-C", str(root), "-c", "core.autocrlf=false", "diff", "--no-index", *WORDS, "a", "b"]
    out = subprocess.run(words, check=False, capture_output=True).stdout
    if old == new:
        return
    text = out.replace(b"a/a b/b", b"a/f b/f").replace(b"--- a/a", b"--- a/f").replace(b"+++ b/b", b"+++ b/f")
    (file,) = parse_unified(text)
    assert apply_hunks_exactly(old.encode(), file.hunks) == new.encode()
    assert parse_unified(write_unified([file])) == (file,)


HEAD = b"diff --git a/f b/f\nindex " + b"1" * 40 + b".." + b"2" * 40 + b" 100644\n"


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (b"", "malformed"),
        (b"hello\n", "malformed"),
        (HEAD, "malformed"),
        (HEAD + b"--- a/f\n+++ b/f\n@@ -1 +1 @@\n-a\n", "malformed"),
        (HEAD + b"--- a/f\n+++ b/f\n@@ -1 +1 @@\n-a\n+b\n+c\n", "malformed"),
        (HEAD + b"--- a/f\n+++ b/g\n@@ -1 +1 @@\n-a\n+b\n", "malformed"),
        (HEAD + b"--- a/f\n+++ b/f\n@@ nonsense @@\n-a\n+b\n", "malformed"),
        (HEAD + b"Binary files a/f and b/f differ\n", "binary"),
        (HEAD + b"GIT binary patch\nliteral 4\n", "binary"),
        (HEAD + b"--- a/f\n+++ b/f\n@@ -1 +1 @@\n-\xff\n+b\n", "binary"),
        (b"diff --git a/f b/f\nnew file mode 120000\nindex " + b"0" * 40 + b".." + b"2" * 40 + b"\n", "malformed"),
        (b"diff --git a/f b/g\nsimilarity index 100%\ncopy from f\ncopy to g\n", "malformed"),
        (b'diff --git "a/f b/f\nold mode 100644\nnew mode 100755\n', "malformed"),
        (2 * (b"diff --git a/f b/f\nold mode 100644\nnew mode 100755\n"), "malformed"),
        (b"x" * (MAX_DIFF_BYTES + 1), "too_large"),
        (HEAD + b"--- a/f\n+++ b/f\n" + b"@@ -1 +1 @@\n-a\n+b\n" * 10_001, "too_large"),
    ],
)
def test_what_git_would_not_print_is_refused(text: bytes, reason: str) -> None:
    with pytest.raises(UnifiedDiffError) as raised:
        parse_unified(text)
    assert raised.value.reason == reason


@given(st.binary(max_size=300) | st.binary(max_size=300).map(lambda tail: HEAD + tail))
def test_junk_raises_only_its_own_error(text: bytes) -> None:
    try:
        parse_unified(text)
    except UnifiedDiffError:
        return


def test_a_hunk_fits_only_where_it_says() -> None:
    hunk = DiffHunk(2, 1, 2, 1, ("-b", "+c"))
    assert apply_hunks_exactly(b"a\nb\n", [hunk]) == b"a\nc\n"
    for content in (b"b\n", b"a\nb", b"a\r\nb\r\n", b"", b"a\na\nb\n"):
        with pytest.raises(HunkMismatch):
            apply_hunks_exactly(content, [hunk])
    with pytest.raises(HunkMismatch):
        apply_hunks_exactly(b"a\nb\n", [hunk, hunk])


@given(st.text(st.characters(codec="utf-8", exclude_characters="\0"), min_size=1, max_size=20))
def test_names_are_quoted_and_back(name: str) -> None:
    assert parse_name(quote_name(name)) == name


def test_the_written_form_names_both_sides_of_a_new_file() -> None:
    file = UnifiedFile("a b", "create", "a b", "", "100644", hunks=(DiffHunk(0, 0, 1, 1, ("+x",)),))
    assert write_unified([file]) == (
        b"diff --git a/a b b/a b\nnew file mode 100644\n--- /dev/null\n+++ b/a b\t\n@@ -0,0 +1,1 @@\n+x\n"
    )

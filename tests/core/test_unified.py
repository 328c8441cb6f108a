"""Unified diffs in git's form: what git prints is read, and applied as git applies it."""

import subprocess
from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from conftest import run_git
from remit.core.diff.contents import encode_content
from remit.core.diff.edits import PatchMismatch, apply_hunks
from remit.core.diff.formats import (
    MAX_DIFF_BYTES,
    FileOperation,
    PatchError,
    PatchHunk,
    parse_git_diff,
    parse_name,
    parse_unified,
)

WORDS = ("--no-color", "--full-index", "--find-renames", "--no-ext-diff")
pieces = st.lists(st.sampled_from(["", "a", "b b", "}", "\r", "x\r", "é", "-- a", "@@ -1 +1 @@", "\\ No"]), max_size=12)
texts = st.tuples(pieces, st.booleans()).map(lambda it: "\n".join(it[0]) + ("\n" if it[1] and it[0] else ""))


def diff(root: Path, *arguments: str) -> bytes:
    words = ["git", "-C", str(root), "-c", "core.quotePath=false", "diff", *WORDS, *arguments]
    return subprocess.run(words, check=True, capture_output=True).stdout


def apply(before: bytes, file: FileOperation) -> bytes:
    return encode_content(apply_hunks(before, file.hunks).content)


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
    found = {file.moved_to or file.path: file for file in parse_git_diff(diff(changed, "--cached"))}
    assert found["new/name.txt"].kind == "update"
    assert found["new/name.txt"].path == "old name.txt"
    assert (found["run.sh"].old_mode, found["run.sh"].new_mode) == ("100644", "100755")
    assert {path: file.kind for path, file in found.items() if file.kind != "update"} == {
        "made.txt": "add", "empty.txt": "add", "gone.txt": "delete",
    }  # fmt: skip
    for path, file in found.items():
        before = b"" if file.kind == "add" else BEFORE[file.path]
        assert before is not None
        wanted = b"" if file.kind == "delete" else AFTER.get(path, b"#!/bin/sh\n")
        assert apply(before, file) == wanted


def run_in(root: Path, *arguments: str, stdin: bytes = b"") -> tuple[int, bytes]:
    words = ["git", "-C", str(root), "-c", "core.autocrlf=false", *arguments]
    done = subprocess.run(words, check=False, capture_output=True, input=stdin)
    return done.returncode, done.stdout


@settings(max_examples=50)
@given(texts, texts, pieces)
def test_random_texts_come_out_as_git_says(
    tmp_path_factory: pytest.TempPathFactory, old: str, new: str, tail: list[str]
) -> None:
    root = tmp_path_factory.mktemp("pair")
    (root / "a").write_bytes(old.encode())
    (root / "b").write_bytes(new.encode())
    _, out = run_in(root, "diff", "--no-index", *WORDS, "a", "b")
    if old == new:
        return
    text = out.replace(b"a/a b/b", b"a/f b/f").replace(b"--- a/a", b"--- a/f").replace(b"+++ b/b", b"+++ b/f")
    (file,) = parse_git_diff(text)
    assert apply(old.encode(), file) == new.encode()
    assert [hunk.lines for hunk in parse_unified(text.decode())[0].hunks] == [hunk.lines for hunk in file.hunks]
    for found in {old, old + "\n".join(tail)}:
        (root / "f").write_bytes(found.encode())
        code, _ = run_in(root, "apply", "--whitespace=nowarn", "-", stdin=text)
        with suppress(PatchMismatch):
            ours = apply(found.encode(), file)
            assert code or ours == (root / "f").read_bytes()
        assert found != old or not code


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
    with pytest.raises(PatchError) as raised:
        parse_git_diff(text)
    assert raised.value.fault == reason


@given(st.binary(max_size=300) | st.binary(max_size=300).map(lambda tail: HEAD + tail))
def test_junk_raises_only_its_own_error(text: bytes) -> None:
    try:
        parse_git_diff(text)
    except PatchError:
        return


def test_a_hunk_fits_only_where_it_says() -> None:
    hunk = PatchHunk(("-b", "+c"), line=2, new_line=2)
    assert apply_hunks(b"a\nb\n", [hunk]).content == "a\nc\n"
    for content in (b"b\n", b"a\nb", b"a\r\nb\r\n", b"", b"a\na\nb\n"):
        with pytest.raises(PatchMismatch):
            apply_hunks(content, [hunk])
    with pytest.raises(PatchMismatch):
        apply_hunks(b"a\nb\n", [hunk, hunk])


@given(st.text(st.characters(codec="utf-8", exclude_characters="\0"), min_size=1, max_size=20))
def test_a_name_is_read_as_git_quotes_it(name: str) -> None:
    quoted = "".join(f"\\{byte:03o}" for byte in name.encode())
    assert parse_name(f'"{quoted}"') == name

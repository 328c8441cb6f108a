"""What is kept can be had again."""

import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from conftest import run_git
from remit.core.diff.contents import hash_git_blob
from remit.workspace.contents.content_store import ContentStore, parse_hunks
from remit.workspace.contents.fold import fold_into_git
from remit.workspace.git.repository import parse_batch_output
from remit.workspace.place.workspace import Workspace, locate_workspace

CONTENTS = [b"", b"a", b"a\n", b"a\r\n", b"\0\xff", b"data 3\nabc\ndone\n", b"x" * 300_000, "é\n".encode()]


def store(root: Path) -> ContentStore:
    found = locate_workspace(root)
    assert found is not None
    return ContentStore(found, "0123456789ab")


def entries(*contents: bytes) -> list[tuple[str, str, bytes]]:
    return [(hash_git_blob(content), "", content) for content in contents]


@pytest.mark.parametrize("folded", [False, True])
def test_what_was_kept_is_loaded_again_also_after_gc(repository: Path, folded: bool) -> None:
    kept = store(repository)
    kept.keep_contents(entries(*CONTENTS))
    if folded:
        assert fold_into_git(kept) == set(map(hash_git_blob, CONTENTS))
        assert fold_into_git(kept) == set()
        kept.keep_contents(entries(b"more"))
        fold_into_git(kept)
        run_git(repository, "gc", "-q", "--prune=now")
    assert [kept.load(hash_git_blob(c)) for c in CONTENTS] == CONTENTS
    assert kept.load_many(map(hash_git_blob, CONTENTS)) == {hash_git_blob(c): c for c in CONTENTS}
    assert kept.content_sizes([*map(hash_git_blob, CONTENTS), "0" * 40]) == {hash_git_blob(c): len(c) for c in CONTENTS}
    assert kept.load("0" * 40) is None
    assert run_git(repository, "status", "--porcelain") == ""


def test_without_git_contents_are_files(tmp_path: Path) -> None:
    kept = ContentStore(Workspace(tmp_path, None, None), "m")
    kept.keep_contents(entries(*CONTENTS))
    for _ in range(2):
        assert kept.load_many(map(hash_git_blob, CONTENTS)) == {hash_git_blob(c): c for c in CONTENTS}
        fold_into_git(kept)
    assert kept.pending.list_entries() == []


def test_where_git_names_contents_by_sha256_they_are_files(tmp_path: Path) -> None:
    run_git(tmp_path, "init", "-q", "--object-format=sha256")
    kept = store(tmp_path)
    kept.keep_contents(entries(*CONTENTS))
    assert fold_into_git(kept) == set(map(hash_git_blob, CONTENTS))
    assert store(tmp_path).load_many(map(hash_git_blob, CONTENTS)) == {hash_git_blob(c): c for c in CONTENTS}


def test_folding_runs_no_hook_and_moves_no_branch(repository: Path) -> None:
    hook = repository / ".git" / "hooks" / "reference-transaction"
    hook.parent.mkdir(exist_ok=True)
    hook.write_text(f"#!/bin/sh\ntouch {repository}/hook-ran\n")
    hook.chmod(0o755)
    head = run_git(repository, "rev-parse", "HEAD")
    kept = store(repository)
    kept.keep_contents(entries(b"x"))
    fold_into_git(kept)
    assert run_git(repository, "rev-parse", "HEAD") == head
    assert not (repository / "hook-ran").exists()


PIECES = [b"a\n", b"b\n", b"\n", b"@@ -1 +1 @@\n", b"--- x\n", b"c\r\n"]
lines = st.lists(st.sampled_from(PIECES), max_size=8).map(b"".join)


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> ContentStore:
    return ContentStore(Workspace(tmp_path_factory.mktemp("store"), None, None), "m")


@given(old=lines, new=lines)
@pytest.mark.system
def test_applying_the_hunks_gives_the_new_content(shared: ContentStore, old: bytes, new: bytes) -> None:
    before, after = old.splitlines(keepends=True), new.splitlines(keepends=True)
    built: list[bytes] = []
    at = 0
    for hunk in shared.compute_hunks({"f": (old, new)})["f"]:
        start = hunk.old - 1 if hunk.old_lines else hunk.old
        first = hunk.new - 1 if hunk.new_lines else hunk.new
        built += before[at:start]
        assert len(built) == first
        built += after[first : first + hunk.new_lines]
        at = start + hunk.old_lines
    assert [*built, *before[at:]] == after


@pytest.mark.system
def test_many_pairs_of_any_name_take_one_git(shared: ContentStore) -> None:
    pairs = {f"a\n{n}/../{n}": (b"x\n", b"x\ny\n" * (n % 2)) for n in range(30)}
    found = shared.compute_hunks(pairs)
    assert set(found) == set(pairs)
    assert all(found.values())
    assert not list((shared.workspace.state).glob("scratch*"))


@pytest.mark.system
def test_a_diff_shows_what_changed_and_leaves_nothing_behind(shared: ContentStore) -> None:
    text = shared.unified_diff(b"a\nb\n", b"a\nc\n")
    assert "-b" in text
    assert "+c" in text
    assert shared.unified_diff(b"a", b"a") == ""
    assert not [name for name in os.listdir(shared.workspace.state) if name.startswith("scratch")]  # noqa: PTH208


def test_a_batch_tells_missing_objects_from_empty_ones() -> None:
    out = b"aa blob 0\n\n" + b"bb missing\n" + b"cc blob 3\na\nb\n"
    assert list(parse_batch_output(out)) == [b"", None, b"a\nb"]


def test_only_headers_are_hunks() -> None:
    diff = b"diff --git a/old/7 b/new/7\n@@ -1 +1,2 @@\n-@@ -9 +9 @@\n+x\n+diff --git a/1 b/2\n"
    assert {n: len(h) for n, h in parse_hunks(diff).items()} == {"7": 1}


@pytest.mark.system
def test_a_pair_differs_as_it_does_alone_whatever_is_asked_with_it(shared: ContentStore) -> None:
    one, other, third = b"a\nb\nc\n", b"a\nc\n", b"a\nb\n@@ -1 +1 @@\nc"
    pairs = {"x": (one, other), "y": (other, one), "z": (one, third), "w": (one, one), "v": (b"", one)}
    assert shared.compute_hunks(pairs) == {
        name: shared.compute_hunks({name: pair})[name] for name, pair in pairs.items()
    }
    assert shared.compute_hunks(pairs)["w"] == ()

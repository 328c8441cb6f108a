"""What the workspace is, and what became of it."""

import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from conftest import run_git
from remit.core.untrusted_input import escape_surrogates, quote_path
from remit.workspace.observe.observation import find_changes, observe_paths, observe_workspace
from remit.workspace.place.workspace import Workspace, locate_workspace
from remit.workspace.safe_files import MAX_KEPT_BYTES, compute_version, observe_file, read_tail


def place(root: Path) -> Workspace:
    found = locate_workspace(root)
    assert found is not None
    return found


def test_two_looks_at_the_same_workspace_show_no_change(repository: Path) -> None:
    (repository / "new").write_text("x")
    seen = observe_workspace(place(repository))
    assert find_changes(place(repository), seen, observe_workspace(place(repository))) == ()


def test_a_commit_without_an_edit_changes_nothing(repository: Path) -> None:
    (repository / "new").write_text("x")
    (repository / "src" / "app.py").write_text("changed\n")
    before = observe_workspace(place(repository))
    run_git(repository, "add", "-A")
    run_git(repository, "commit", "-qm", "two")
    assert find_changes(place(repository), before, observe_workspace(place(repository))) == ()


def test_line_endings_that_git_converts_are_no_change(repository: Path) -> None:
    run_git(repository, "config", "core.autocrlf", "true")
    (repository / "crlf.txt").write_bytes(b"a\r\nb\r\n")
    before = observe_workspace(place(repository))
    run_git(repository, "add", "-A")
    run_git(repository, "commit", "-qm", "crlf")
    assert find_changes(place(repository), before, observe_workspace(place(repository))) == ()


def test_a_change_of_gits_configuration_or_hooks_is_seen(repository: Path) -> None:
    before = observe_workspace(place(repository))
    run_git(repository, "config", "core.fsmonitor", "evil")
    (repository / ".git" / "hooks").mkdir(exist_ok=True)
    (repository / ".git" / "hooks" / "pre-commit").write_text("#!/bin/sh\n")
    found = [c.path for c in find_changes(place(repository), before, observe_workspace(place(repository)))]
    assert found == [".git/config", ".git/hooks/pre-commit"]


def test_what_governs_is_watched_even_where_git_ignores_it(repository: Path) -> None:
    (repository / ".gitignore").write_text(".orchestration/\n")
    before = observe_workspace(place(repository))
    (repository / ".orchestration").mkdir()
    (repository / ".orchestration" / "remit.toml").write_text("mode = 'observe'\n")
    found = [c.path for c in find_changes(place(repository), before, observe_workspace(place(repository)))]
    assert ".orchestration/remit.toml" in found


def test_remits_own_view_is_no_effect(repository: Path) -> None:
    (repository / ".orchestration").mkdir()
    before = observe_workspace(place(repository))
    (repository / ".orchestration" / "agent_trace.jsonl").write_text("{}\n")
    assert find_changes(place(repository), before, observe_workspace(place(repository))) == ()


def test_a_hostile_configuration_runs_nothing(repository: Path) -> None:
    run_git(repository, "config", "core.fsmonitor", f"touch {repository}/fsmonitor-ran; false")
    run_git(repository, "config", "diff.external", f"touch {repository}/diff-ran; false")
    observe_workspace(place(repository))
    assert not list(repository.glob("*-ran"))


@pytest.mark.parametrize("kind", ["fifo", "folder", "missing", "long"])
def test_what_is_no_file_is_not_read(tmp_path: Path, kind: str) -> None:
    path = tmp_path / ("x" * 300 if kind == "long" else "f")
    if kind == "fifo":
        os.mkfifo(path)
    elif kind == "folder":
        path.mkdir()
    workspace = Workspace(tmp_path, None, None)
    assert observe_paths(workspace, [path.name]).files == {path.name: None}


def test_a_link_is_its_target_and_a_file_its_bytes(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to("nowhere")
    (tmp_path / "run").write_bytes(b"a\nb")
    (tmp_path / "run").chmod(0o755)
    link, run = observe_file(tmp_path / "link"), observe_file(tmp_path / "run")
    assert link is not None
    assert run is not None
    assert (link.content, link.version.mode) == (b"nowhere", "120000")
    assert (run.version.mode, run.version.lines, run.version.size) == ("100755", 2, 3)


def test_a_file_too_large_to_keep_has_the_same_version(tmp_path: Path) -> None:
    content = b"line\n" * (MAX_KEPT_BYTES // 5 + 1) + b"end"
    (tmp_path / "big").write_bytes(content)
    found = observe_file(tmp_path / "big")
    assert found is not None
    assert found.content is None
    assert found.version == compute_version(content)


def test_a_tail_is_read_of_files_alone(tmp_path: Path) -> None:
    (tmp_path / "f").write_bytes(b"0123456789")
    os.mkfifo(tmp_path / "fifo")
    assert read_tail(tmp_path / "f", 4) == b"6789"
    assert [read_tail(tmp_path / name, 4) for name in ("fifo", "gone", ".")] == [b"", b"", b""]


@given(st.binary(max_size=30))
def test_a_quoted_path_can_be_encoded_and_plain_ones_stay(raw: bytes) -> None:
    path = os.fsdecode(raw)
    found = quote_path(path)
    found.encode()
    assert (found == path) == (escape_surrogates(path) == path)
    if found != path:
        assert found == run_quoted(raw)


def run_quoted(raw: bytes) -> str:
    """What git would print: octal escapes in double quotes."""
    return '"' + "".join(chr(b) if 32 <= b < 127 and chr(b) not in '"\\' else f"\\{b:03o}" for b in raw) + '"'

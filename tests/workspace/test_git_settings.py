"""Programs that a repository's settings name: none of them runs when Remit looks."""

import re
from pathlib import Path

import pytest

from conftest import run_git
from remit.core.diff.contents import hash_git_blob
from remit.workspace.contents.content_store import ContentStore
from remit.workspace.contents.fold import fold_into_git
from remit.workspace.git.command import Git, GitError, find_programs
from remit.workspace.observe.observation import find_changes, observe_workspace
from remit.workspace.place.workspace import Workspace, locate_workspace


def place(root: Path) -> Workspace:
    found = locate_workspace(root)
    assert found is not None
    return found


@pytest.fixture
def hostile(repository: Path) -> Path:
    """A repository whose settings, attributes and hooks run a program wherever git lets them."""
    program = repository.parent / "evil"
    program.write_text(f"#!/bin/sh\ntouch {repository.parent}/ran.$$\ncat\n")
    program.chmod(0o755)
    (repository / ".gitattributes").write_text("* filter=x diff=x\n")
    run_git(repository, "add", "-A")
    run_git(repository, "commit", "-qm", "attributes")
    for key in (
        *("core.fsmonitor", "core.pager", "pager.status", "diff.external", "diff.x.command", "diff.x.textconv"),
        *("filter.x.clean", "filter.x.smudge", "filter.x.process", "core.sshCommand", "gpg.program", "core.editor"),
        *("credential.helper", "core.askPass", "core.gitProxy"),
    ):
        run_git(repository, "config", key, str(program))
    run_git(repository, "config", "filter.x.required", "true")
    run_git(repository, "config", "log.showSignature", "true")
    for name in ("post-index-change", "reference-transaction", "pre-auto-gc", "post-checkout"):
        hook = repository / ".git" / "hooks" / name
        hook.parent.mkdir(exist_ok=True)
        hook.write_text(program.read_text())
        hook.chmod(0o755)
    return repository


def test_looking_runs_nothing(hostile: Path) -> None:
    before = observe_workspace(place(hostile))
    (hostile / "README.md").write_text("changed\n")
    after = observe_workspace(place(hostile))
    assert [c.path for c in find_changes(place(hostile), before, after)] == ["README.md"]
    kept = ContentStore(place(hostile), "m")
    kept.keep_contents([(hash_git_blob(b"x\n"), "", b"x\n")])
    fold_into_git(kept)
    kept.unified_diff(b"a\n", b"b\n")
    Git(hostile).run("blame", "--porcelain", "README.md")
    assert sorted(p.name for p in hostile.parent.iterdir()) == ["evil", "repo"]


def test_the_users_own_filters_go_on_to_run(repository: Path, home: Path) -> None:
    run_git(repository, "config", "--global", "filter.up.smudge", "tr a-z A-Z")
    (repository / ".gitattributes").write_text("*.up filter=up\n")
    (repository / "a.up").write_text("word\n")
    run_git(repository, "add", "-A")
    assert Git(repository).run("cat-file", "--filters", ":a.up") == b"WORD\n"


def test_a_partial_clone_fetches_nothing_and_says_how_to_get_what_it_lacks(repository: Path, tmp_path: Path) -> None:
    run_git(repository, "config", "uploadpack.allowFilter", "true")
    run_git(tmp_path, "clone", "-q", "--no-checkout", "--filter=blob:none", f"file://{repository}", "partial")
    blob = run_git(repository, "rev-parse", "HEAD:README.md").strip()
    with pytest.raises(GitError, match="partial clone") as told:
        Git(tmp_path / "partial").run("cat-file", "blob", blob)
    (way,) = re.findall("`(git fetch [^`]*)`", str(told.value))
    run_git(tmp_path / "partial", *way.split()[1:])
    assert Git(tmp_path / "partial").run("cat-file", "blob", blob) == (repository / "README.md").read_bytes()


def test_a_filter_that_cannot_be_switched_off_is_an_error(repository: Path) -> None:
    with (repository / ".git" / "config").open("a") as file:
        file.write('[filter "a=b"]\n\tclean = ./evil\n')
    with pytest.raises(GitError, match="cannot be switched off"):
        observe_workspace(place(repository))


def test_each_program_is_named_by_its_setting(hostile: Path) -> None:
    found = find_programs(hostile / "src")
    assert {"core.fsmonitor", "diff.x.textconv", "filter.x.clean", "the hook post-index-change"} <= set(found)


def test_settings_that_change_are_read_again(repository: Path) -> None:
    assert find_programs(repository) == ()
    run_git(repository, "config", "core.fsmonitor", "./evil")
    assert find_programs(repository) == ("core.fsmonitor",)
    run_git(repository, "config", "--unset", "core.fsmonitor")
    assert find_programs(repository) == ()


def test_what_git_lfs_writes_is_the_users(repository: Path) -> None:
    run_git(repository, "config", "filter.lfs.process", "git-lfs filter-process")
    run_git(repository, "config", "filter.lfs.clean", "git-lfs clean -- %f")
    assert find_programs(repository) == ()

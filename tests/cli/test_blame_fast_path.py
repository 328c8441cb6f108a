"""`remit blame FILE` begins before the command line is loaded, and answers as the command line would."""

import subprocess
import sys
from pathlib import Path

import pytest

from cli.running import MAIN
from conftest import run_git
from gate.driving import Agent, governed
from remit.cli.blame.answer_cache import CACHE_FOLDER
from remit.cli.blame.arguments import parse_arguments
from remit.cli.blame.fast_path import parse_plain_arguments

PARSER = "remit.cli.blame.fast_path.parse_plain_arguments"
BODY = "def main():\n    x = 2\n    return x\n"


@pytest.fixture
def root(repository: Path, home: Path) -> Path:
    agent = Agent(governed(repository), home)
    agent.select()
    agent.write("src/app.py", BODY)
    run_git(repository, "add", "-A")
    run_git(repository, "commit", "-qm", "one")
    agent.read("src/app.py")
    agent.write("src/app.py", BODY.replace("2", "3"))
    run_git(repository, "commit", "-qam", "two")
    return repository


def said(folder: Path, *words: str, before: str = "") -> tuple[int, bytes, str]:
    """Exit code, output and complaints of a process of its own, without a kept answer."""
    for kept in (folder / ".git" / "remit" / CACHE_FOLDER).glob("*"):
        kept.unlink()
    done = subprocess.run(
        [sys.executable, "-c", before + MAIN, "blame", *words], cwd=folder, capture_output=True, check=False
    )
    return done.returncode, done.stdout, done.stderr.decode()


@pytest.mark.parametrize(
    "words",
    [
        ("src/app.py",),
        ("--json", "src/app.py"),
        ("--porcelain", "-w", "-L", "2,3", "src/app.py"),
        ("-L1,1", "HEAD~1", "src/app.py"),
        ("--intent", "INT-001", "src/app.py"),
        ("--class=BUG_FIX", "--json", "src/app.py"),
        ("--min-grade", "exact", "src/app.py"),
        ("--min-grade", "nonsense", "src/app.py"),
        ("src/none.py",),
        ("nonsense", "src/app.py"),
    ],
    ids=" ".join,
)
def test_both_ways_answer_alike(root: Path, words: tuple[str, ...]) -> None:
    by_command_line = f"from unittest import mock; mock.patch({PARSER!r}, return_value=None).start(); "
    assert said(root, *words) == said(root, *words, before=by_command_line)


def test_a_plain_answer_loads_no_command_line(root: Path) -> None:
    loaded = (
        "import atexit, os, sys; os._exit = sys.exit; atexit.register(lambda: print(*sys.modules, file=sys.stderr)); "
    )
    code, out, modules = said(root, "src/app.py", before=loaded)
    assert (code, "✦ claude-code".encode() in out) == (0, True)
    assert not {"click", "remit.gate.gate", "concurrent.futures"} & set(modules.split())


def test_no_program_that_a_repository_names_is_run(root: Path, tmp_path: Path) -> None:
    evil = tmp_path / "evil"
    evil.write_text(f"#!/bin/sh\ntouch {tmp_path}/ran\ncat\n")
    evil.chmod(0o755)
    (root / ".gitattributes").write_text("* filter=x diff=x\n")
    for key in ("filter.x.clean", "filter.x.smudge", "diff.x.textconv", "core.fsmonitor"):
        run_git(root, "config", key, str(evil))
    assert said(root, "src/app.py")[0] == 0
    assert not (tmp_path / "ran").exists()


def test_where_nothing_governs_git_tells_and_remit_init_is_named(repository: Path) -> None:
    (repository / "a.txt").write_text("one\n")
    run_git(repository, "add", "-A")
    run_git(repository, "commit", "-qm", "one")
    code, out, complaint = said(repository, "a.txt")
    assert (code, out.endswith(b"1) one\n"), complaint.count("\n")) == (0, True, 1)
    assert "`remit init`" in complaint
    why = subprocess.run(
        [sys.executable, "-c", MAIN, "why", "a.txt:1"], cwd=repository, capture_output=True, check=False
    )
    assert (why.returncode, b"unknown" in why.stdout, b"`remit init`" in why.stderr) == (0, True, True)
    assert not (repository / ".git" / "remit").exists()


def test_a_line_break_in_a_name_splits_no_line(repository: Path) -> None:
    (repository / "new\nline").write_text("one\ntwo\n")
    run_git(repository, "add", "-A")
    run_git(repository, "commit", "-qm", "one")
    code, out, _ = said(repository, "-f", "new\nline")
    assert (code, out.count(b" new?line ")) == (0, 2)


def test_a_name_that_is_not_utf8_is_blamed(root: Path) -> None:
    name = b"caf\xe9.txt".decode("utf-8", "surrogateescape")
    (root / name).write_text("one\n")
    run_git(root, "add", "-A")
    run_git(root, "commit", "-qm", "odd")
    assert [said(root, *form, name)[0] for form in ((), ("--json",), ("--porcelain",))] == [0, 0, 0]
    why = subprocess.run([sys.executable, "-c", MAIN, "why", f"{name}:1"], cwd=root, capture_output=True, check=False)
    assert (why.returncode, why.stderr) == (0, b"")


@pytest.mark.parametrize(
    "words", [["a.txt"], ["-w", "-L2,3", "a.txt"], ["-L", "2,3", "HEAD", "a.txt"], ["--porcelain", "HEAD~1", "a.txt"]]
)
def test_plain_words_are_sorted_as_the_command_line_sorts_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, words: list[str]
) -> None:
    (tmp_path / "a.txt").touch()
    monkeypatch.chdir(tmp_path)
    whole = parse_arguments(words, tmp_path)
    found = parse_plain_arguments(words)
    assert found is not None
    assert found.git_arguments == [*whole.tracing_options, *whole.revisions, "--", whole.file]


@pytest.mark.parametrize(
    "words",
    [
        [],
        ["-"],
        ["--", "a.txt"],
        ["-e", "a.txt"],
        ["none.txt"],
        ["a.txt", "HEAD"],
        ["--intent", "X", "--porcelain", "a.txt"],
    ],
)
def test_other_words_are_left_to_the_command_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, words: list[str]
) -> None:
    (tmp_path / "a.txt").touch()
    monkeypatch.chdir(tmp_path)
    assert parse_plain_arguments(words) is None


def test_what_is_loaded_meanwhile_is_no_more_than_it_takes() -> None:
    loaded = "from remit.cli.blame.fast_path import load_msgspec; load_msgspec(); import remit.cli.blame.answer, sys; "
    asked = "print(*sorted({'inspect', 'typing_extensions', 'remit.ledger.integrity.tree_heads', 'click'} & set(sys.modules))); "  # noqa: E501
    usable = "import typing_extensions; print(typing_extensions.Required.__name__)"
    done = subprocess.run([sys.executable, "-c", loaded + asked + usable], capture_output=True, check=True)
    assert done.stdout.split() == [b"Required"]

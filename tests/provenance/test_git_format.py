"""git blame's default format, rendered from the porcelain, beside git's own output."""

import os
import re
import subprocess
from pathlib import Path

import pytest

from conftest import run_git
from remit.provenance.blame.git_format import commit_digits, display_width, render_as_git
from remit.provenance.origins.blame_porcelain import parse_porcelain, unquote_path

AUTHORS = ("A", "Renée Ö. Łukasz Nguyễn", "Дмитрий", "山田太郎", "x y z" * 8)
ZONES = ("+0000", "-0000", "+0530", "-1145", "+1300")


def commit(root: Path, author: str, at: str) -> None:
    run_git(root, "add", "-A")
    dates = {"GIT_AUTHOR_DATE": at, "GIT_AUTHOR_NAME": author, "GIT_AUTHOR_EMAIL": "a@example.org"}
    subprocess.run(["git", "-C", str(root), "commit", "-qm", "work"], check=True, env={**os.environ, **dates})


def make_history(root: Path, authors: tuple[str, ...]) -> Path:
    lines = ["first"]
    for number, (author, zone) in enumerate(zip(authors, ZONES, strict=False)):
        lines = [f"line {number}", *lines, f"\tend {number}\r"]
        (root / "a.txt").write_bytes("\n".join(lines).encode())
        commit(root, author, f"@{number * 400_000_000 + 90_000} {zone}")
    return root


def git(root: Path, *words: str, stdin: bytes = b"") -> bytes:
    return subprocess.run(["git", "-C", str(root), *words], check=True, capture_output=True, input=stdin).stdout


def render(root: Path, path: str, *options: str) -> bytes | None:
    found = parse_porcelain(git(root, "blame", "--porcelain", *options, "--", path))
    names = "".join(f"{name}\n" for name in found.commits if name.strip("0")).encode()
    short = git(root, "rev-list", "--no-walk=unsorted", "--abbrev-commit", "--stdin", stdin=names).split()
    lines = render_as_git(found, path, commit_digits(short))
    return None if lines is None else b"".join(line + b"\n" for line in lines)


@pytest.mark.parametrize("options", [(), ("-w", "-M"), ("-L2,5",)], ids=" ".join)
def test_lines_are_gits_byte_for_byte(repository: Path, options: tuple[str, ...]) -> None:
    root = make_history(repository, AUTHORS)
    assert render(root, "a.txt", *options) == git(root, "blame", *options, "--", "a.txt")


def test_a_moved_file_and_an_uncommitted_line_are_shown_as_git_shows_them(repository: Path) -> None:
    root = make_history(repository, AUTHORS[:2])
    run_git(root, "mv", "a.txt", 'née "b".txt')
    commit(root, "B", "1700000000 +0000")
    assert render(root, 'née "b".txt') == git(root, "blame", "--", 'née "b".txt')
    (root / 'née "b".txt').write_text("new\nfirst\n")
    ours, theirs = render(root, 'née "b".txt'), git(root, "blame", "--", 'née "b".txt')
    assert ours is not None
    clock = re.compile(rb"\d\d:\d\d:\d\d")  # an uncommitted line has the time of the call
    assert clock.sub(b"", ours) == clock.sub(b"", theirs)


def test_a_name_of_unsure_width_is_left_to_git(repository: Path) -> None:
    assert render(make_history(repository, ("A", "combining e\u0301")), "a.txt") is None
    assert display_width("\U0001f600") is None


@pytest.mark.parametrize(
    "name",
    [
        "plain.txt",
        "new\nline",
        'quo"te',
        "back\\slash",
        "tab\tbell\a",
        "née",
        b"caf\xe9\x01".decode("utf-8", "surrogateescape"),
    ],
)
@pytest.mark.parametrize("quoting", ["true", "false"])
def test_any_file_name_is_read_back(repository: Path, name: str, quoting: str) -> None:
    (repository / name).write_text("one\n")
    commit(repository, "A", "1700000000 +0000")
    (repository / name).write_text("one\ntwo\n")
    commit(repository, "A", "1700000001 +0000")
    out = git(repository, "-c", f"core.quotePath={quoting}", "blame", "--porcelain", "--", name)
    places = [line.version for line in parse_porcelain(out).lines]
    assert [place.path for place in places] == [name, name]
    assert places[1].parent == f"{places[0].commit}:{name}"


def test_a_name_that_only_looks_quoted_is_what_it_is() -> None:
    assert (unquote_path(b'"'), unquote_path(b'a"b"'), unquote_path(rb'"\303\251\n"')) == ('"', 'a"b"', "é\n")

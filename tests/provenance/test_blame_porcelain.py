"""git blame's porcelain, as git writes it for any file name."""

import subprocess
from pathlib import Path

import pytest

from conftest import run_git
from remit.core.untrusted_input import unquote_path
from remit.provenance.origins.blame_porcelain import parse_porcelain


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
    run_git(repository, "add", "-A")
    run_git(repository, "commit", "-qm", "one")
    (repository / name).write_text("one\ntwo\n")
    run_git(repository, "commit", "-qam", "two")
    command = ["git", "-C", str(repository), "-c", f"core.quotePath={quoting}", "blame", "--porcelain", "--", name]
    out = subprocess.run(command, check=True, capture_output=True).stdout
    places = [line.version for line in parse_porcelain(out).lines]
    assert [place.path for place in places] == [name, name]
    assert places[1].parent == f"{places[0].commit}:{name}"


def test_a_name_that_only_looks_quoted_is_what_it_is() -> None:
    assert (unquote_path(b'"'), unquote_path(b'a"b"'), unquote_path(rb'"\303\251\n"')) == ('"', 'a"b"', "é\n")

"""The pager is the user's own, found where git looks for it; a repository's word on it is not heard."""

from pathlib import Path

import pytest

from conftest import run_git
from remit.cli.blame.blame import read_git_settings
from remit.cli.screen import choose_pager
from remit.workspace.git.command import Git

XTERM = {"TERM": "xterm"}


@pytest.mark.parametrize(
    ("own", "around", "pager"),
    [
        ({}, {}, "less"),
        ({}, {"PAGER": "most"}, "most"),
        ({"core.pager": "delta"}, {"PAGER": "most"}, "delta"),
        ({"core.pager": "delta"}, {"GIT_PAGER": "bat"}, "bat"),
        ({"core.pager": ""}, {"PAGER": "most"}, ""),
        ({"core.pager": "cat"}, {}, ""),
        ({}, {"GIT_PAGER": ""}, ""),
        ({"pager.blame": "tig", "core.pager": "delta"}, {}, "tig"),
        ({"pager.blame": "tig"}, {"GIT_PAGER": "bat"}, "bat"),
        ({"pager.blame": "true", "core.pager": "delta"}, {}, "delta"),
        ({"pager.blame": "On"}, {}, "less"),
        ({"pager.blame": "false"}, {"GIT_PAGER": "bat"}, ""),
        ({"pager.blame": "0", "core.pager": "delta"}, {}, ""),
        ({}, {"TERM": "dumb"}, ""),
        ({"core.pager": "delta"}, {"TERM": "dumb"}, "delta"),
    ],
)
def test_the_pager_is_the_one_that_git_takes(own: dict[str, str], around: dict[str, str], pager: str) -> None:
    assert choose_pager(own, {**XTERM, **around}) == pager


def test_a_repository_names_no_pager(repository: Path, home: Path) -> None:
    with (home / ".gitconfig").open("a") as file:
        file.write("[pager]\n\tblame = mine\n")
    run_git(repository, "config", "core.pager", "theirs")
    run_git(repository, "config", "pager.blame", "theirs")
    assert choose_pager(read_git_settings(Git(repository)).user_values, XTERM) == "mine"

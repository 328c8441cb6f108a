"""The words of a command that a wider grant may cover."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from laws.enemies import texts
from remit.policy.grants import UNSPECIFIC_PROGRAMS, covers_command, propose_prefix

PROPOSED_PREFIXES = [
    ("git log -3", "git log"),
    ("cd src && git log", "git log"),
    ("cd /elsewhere && git log", "git log"),
    ("FOO=1 BAR=2 pytest -q", "pytest"),
    ("pytest tests/auth -q", "pytest"),
    ("cargo test --all", "cargo test"),
    ("npm run test -- --watch", "npm run test"),
    ("npm test", "npm test"),
    ("npx jest", "npx jest"),
    ("uv run pytest tests", "uv run pytest"),
    ("make test", "make test"),
    ("python -m pytest -x", "python -m pytest"),
    ("docker compose up", "docker compose up"),
    ("git commit -m 'a; b (c) | d'", "git commit"),
    *((f"{name} x", "") for name in ("sh", "bash", "python", "node", "sudo", "env", "xargs", "find", "rm")),
    *((name, "") for name in ("npx", "npm", "yarn", "make", "docker", "git", "npm run", "python -m")),
    ("bash -c 'git log'", ""),
    ("sudo git log", ""),
    ("env git log", ""),
    ("git log | cat", ""),
    ("git log > x", ""),
    ("git log < x", ""),
    ("git log $(x)", ""),
    ("git log `x`", ""),
    ("git log $x", ""),
    ("git log && git push", ""),
    ("cd a && cd b && git log", ""),
    ("cd a; git log", ""),
    ("git log &", ""),
    ("git log\ngit push", ""),
    ("! git log", ""),
    ("(git log)", ""),
    ("git -C x log", ""),
    ("git -c alias.log=!x log", ""),
    ("uv run python x.py", ""),
    ("npm exec -- sh", ""),
    ("docker run -v /:/host x", ""),
    ("make SHELL=/x test", ""),
    ("./tool x", ""),
    ("/usr/bin/git log", ""),
    ("npm run $x", ""),
    ("x=1", ""),
    ("", ""),
]


@pytest.mark.parametrize(("command", "words"), PROPOSED_PREFIXES)
def test_the_words_that_are_offered(command: str, words: str) -> None:
    assert " ".join(propose_prefix(command)) == words


@pytest.mark.parametrize(
    ("command", "covered"),
    [
        ("git log", True),
        ("git log -3 --stat", True),
        ("cd src && git log", True),
        ("git push", False),
        ("git logs", False),
        ("PAGER='sh -c x' git log", False),
        ("cd .. && git log", False),
        ("cd /x && git log", False),
        ("cd ~ && git log", False),
        ("cd a/../.. && git log", False),
        ("git log | sh", False),
        ("git log > .git/hooks/pre-commit", False),
        ("git log $(rm x)", False),
        ("git log; rm x", False),
        ("git log\nrm x", False),
        ("sudo git log", False),
        ("git 'log", False),
    ],
)
def test_what_a_yes_to_git_log_covers(command: str, covered: bool) -> None:
    assert covers_command(("git", "log"), command) is covered


def test_no_words_cover_nothing() -> None:
    assert not covers_command((), "git log")


@given(st.lists(st.sampled_from(["git", "log", "&&", "cd", "sudo", "sh", "-c", "x=1", "|", ">", "a b", "npm", "run"])))
def test_what_is_offered_never_begins_with_a_program_that_runs_anything(words: list[str]) -> None:
    offered = propose_prefix(" ".join(words))
    assert not offered or offered[0] not in UNSPECIFIC_PROGRAMS or offered[:2] == ("python", "-m")
    assert len(offered) <= 3


@given(texts)
def test_junk_is_offered_nothing_that_breaks(command: str) -> None:
    assert all(propose_prefix(command))

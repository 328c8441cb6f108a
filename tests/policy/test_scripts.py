"""Scripts of sed: the work grows in proportion to the length."""

import pytest

from policy.measures import calls_made
from remit.policy.commands.programs.text import MAX_SCRIPT, is_plain_sed


@pytest.mark.parametrize(
    "piece", ["s/[a/]/b/", "s/a/b/;", "/a/,/b/p;", "p ", "[", "s/", "\\", "1", "{", "s/[[:x:]", "$!"]
)
def test_no_script_of_sed_takes_long(piece: str) -> None:
    is_plain_sed("2,/[a]/s/x/y/;q")  # the patterns are compiled once
    short, long = (piece * (size // len(piece)) for size in (MAX_SCRIPT // 4, MAX_SCRIPT))
    assert calls_made(lambda: is_plain_sed(long)) <= 4.5 * calls_made(lambda: is_plain_sed(short)) + 50


def test_a_longer_script_is_not_read() -> None:
    assert is_plain_sed("p;" * (MAX_SCRIPT // 2))
    assert not is_plain_sed("p;" * (MAX_SCRIPT // 2) + "p")

"""Whether a command's text leaves something running."""

import pytest

from remit.policy.commands.background import leaves_running

LEAVES = (
    "python3 -m http.server &",
    "(sleep 1; touch x) > /dev/null 2>&1 &",
    "npm run dev & sleep 2; curl localhost",
    "nohup ./server &",
    "f() { ./server & }; f",
    "echo 日本 &",
)
LEAVES_NOTHING = (
    "ls && echo 2>&1",
    "make &> log",
    "make |& tee log",
    "curl 'http://x/?a=1&b=2'",
    'curl "http://x/?a=1&b=2"',
    "python3 - <<EOF\na & b\nEOF",
    "./server & p=$!; curl localhost; kill $p",
    "a & b & wait",
    "echo ((",
    "",
)


@pytest.mark.parametrize("command", LEAVES)
def test_an_ampersand_that_nobody_waits_for_leaves_something(command: str) -> None:
    assert leaves_running(command)


@pytest.mark.parametrize("command", LEAVES_NOTHING)
def test_other_ampersands_leave_nothing(command: str) -> None:
    assert not leaves_running(command)

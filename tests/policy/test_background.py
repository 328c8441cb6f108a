"""Commands that leave a process running, by their text."""

import pytest

from remit.policy.commands.background_and_input import find_background_word, leaves_process_running

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
    assert leaves_process_running(command)


@pytest.mark.parametrize("command", LEAVES_NOTHING)
def test_other_ampersands_leave_nothing(command: str) -> None:
    assert not leaves_process_running(command)


OUTLIVES = {
    "nohup make": "nohup",
    "/usr/bin/nohup make": "nohup",
    "env A=1 timeout 5 setsid make": "setsid",
    "tmux new -d make": "tmux",
    "screen -dmS x make": "screen",
    "bash -c 'make &'": "&",
    "bash -c \"sh -c 'make &'\"": "&",
    "bash <<EOF\nmake &\nEOF": "&",
    "eval 'make &'": "&",
    "no''hup make": "nohup",
    '"set"sid make': "setsid",
    "n\\\\ohup make": "nohup",
    "echo $(make &)": "&",
    "make & echo ((": "&",
}
WAITS = (
    "setsid -w make",
    "make & wait",
    "tmux ls",
    "python3 -c 'a & b'",
    "echo $(( 3 & 1 ))",
    "make 2>&1 | tee log",
    "bash -c 'make && make'",
    "echo ((",
)


@pytest.mark.parametrize("command", [*OUTLIVES, *LEAVES])
def test_the_word_is_named_by_which_a_command_leaves_something(command: str) -> None:
    assert find_background_word(command, {}) == OUTLIVES.get(command, "&")


@pytest.mark.parametrize("command", [*WAITS, *LEAVES_NOTHING])
def test_what_waits_leaves_nothing(command: str) -> None:
    assert find_background_word(command, {}) == ""


def test_the_agents_own_way_is_a_word_too() -> None:
    assert find_background_word("make", {"is_background": True}) == "is_background"
    assert find_background_word("make", {"is_background": False}) == ""

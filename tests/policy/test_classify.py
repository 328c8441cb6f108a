"""The class of a call: safe, meta or destructive."""

import pytest
from msgspec.structs import replace

from remit.core.call import CallClass, Effect, SessionKey, ToolCall
from remit.policy.decide import classify


def call(effect: Effect, command: str | None = None) -> ToolCall:
    return ToolCall(agent="a", session=SessionKey("s"), tool="T", effect=effect, cwd="/w", command=command)


EFFECTS: list[tuple[Effect, CallClass]] = [
    ("read", "safe"),
    ("none", "safe"),
    ("network", "safe"),
    ("meta", "meta"),
    ("write", "destructive"),
    ("delete", "destructive"),
    ("execute", "destructive"),
]


@pytest.mark.parametrize(("effect", "expected"), EFFECTS)
def test_an_effect_has_its_class(effect: Effect, expected: CallClass) -> None:
    assert classify(call(effect)) == expected


COMMANDS: list[tuple[str, CallClass]] = [
    ("ls -l", "safe"),
    ("cat a | grep b", "safe"),
    ("ls > out", "destructive"),
    ("rm x", "destructive"),
    ("python x.py", "destructive"),
    ("remit intent select INT-001", "meta"),
    ("remit status", "meta"),
    ("remit mode observe", "destructive"),
    ("remit intent set-status INT-001 DONE", "destructive"),
    ("remit status; rm x", "destructive"),
    ("remit status > .orchestration/remit.toml", "destructive"),
    ("remit log $(rm x)", "destructive"),
    ("./remit intent select INT-001", "destructive"),
    ("/tmp/remit status", "destructive"),
    ("PATH=. remit status", "destructive"),
]


@pytest.mark.parametrize(("command", "expected"), COMMANDS)
def test_a_command_has_its_class(command: str, expected: CallClass) -> None:
    assert classify(call("execute", command)) == expected


@pytest.mark.parametrize(
    ("command", "unwatched", "expected"),
    [("cat", False, "safe"), ("cat", True, "destructive"), ("cat a", True, "safe"), ("ls | cat", True, "safe")],
)
def test_a_reading_command_that_may_get_typed_input_is_destructive(
    command: str, unwatched: bool, expected: CallClass
) -> None:
    asked = replace(call("execute", command), has_unwatched_stdin=unwatched)
    assert classify(asked) == expected


def test_a_reading_command_whose_effects_are_not_proved_here_is_destructive() -> None:
    assert classify(replace(call("execute", "git log"), unproved="a setting of git starts a program")) == "destructive"

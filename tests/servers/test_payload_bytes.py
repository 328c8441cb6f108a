"""Payloads whose bytes are no proper text: what can be read is read."""

from pathlib import Path
from typing import Any

import pytest

from gate.driving import Agent, allowed, body, governed, records
from remit.adapters.payload import decode_payload
from remit.servers.hook import EventClass, HookFrame, answer

READABLE: list[tuple[bytes, Any]] = [
    (b'{"a": "cut \\ud83d"}', {"a": "cut \ufffd"}),
    (b'{"a": "\\ude00 cut"}', {"a": "\ufffd cut"}),
    (b'{"\\ud83d": 1}', {"\ufffd": 1}),
    (b'{"a": "\\ud83d\\ude00"}', {"a": "\U0001f600"}),
    (b'{"a": "\\\\ud83d \\ud83d"}', {"a": "\\ud83d \ufffd"}),
    (b'{"a": "\xff\xfe"}', {"a": "\ufffd\ufffd"}),
    (b'{"a": "\xed\xa0\xbd"}', {"a": "\ufffd\ufffd\ufffd"}),
    (b'\xef\xbb\xbf{"a": 1}', {"a": 1}),
    ('{"a": "\u00e4"}'.encode("utf-16"), {"a": "\u00e4"}),
]

UNREADABLE = [
    b"",
    b"{",
    b"[1",
    b'{"a": NaN, "b": "\\ud83d"}',
    b"\xef\xbb\xbf",
    b'{"b": "\\ud83d", "a":' + b"[" * 100_000,
]


@pytest.mark.parametrize(("payload", "document"), READABLE)
def test_characters_that_are_none_are_replaced(payload: bytes, document: object) -> None:
    assert decode_payload(payload) == document


@pytest.mark.parametrize("payload", UNREADABLE)
def test_what_is_no_json_is_an_error(payload: bytes) -> None:
    with pytest.raises((ValueError, RecursionError)):
        decode_payload(payload)


@pytest.mark.parametrize("odd", [b"cut \\ud83d", b"\xff", b"\xed\xa0\xbd"])
@pytest.mark.parametrize("mark", [b"", b"\xef\xbb\xbf"])
def test_a_call_with_such_characters_is_judged_done_and_recorded(
    repository: Path, home: Path, odd: bytes, mark: bytes
) -> None:
    agent = Agent(governed(repository), home)
    agent.select()

    def send(event: str, kind: EventClass, **fields: Any) -> bytes:
        arguments = {"file_path": "src/odd.py", "content": "@@"}
        payload = agent.payload(event, tool_name="Write", tool_input=arguments, tool_use_id="c1", **fields)
        frame = HookFrame("claude-code", str(agent.cwd), kind)
        reply = answer(mark + payload.replace(b"@@", odd), frame, agent.environment)
        assert (reply.exit_code, reply.stderr) == (0, b"")
        return reply.stdout

    assert b"deny" not in send("PreToolUse", "pre")
    (repository / "src").mkdir(exist_ok=True)
    (repository / "src" / "odd.py").write_text("x = 1\n")
    send("PostToolUse", "post", tool_response={"out": "@@"})
    [mutation] = records(repository, "mutation")
    assert (body(mutation)["intent_id"], body(mutation)["files"][0]["path"]) == ("INT-001", "src/odd.py")


@pytest.mark.parametrize("payload", UNREADABLE[:3])
def test_what_cannot_be_read_is_refused_before_a_call_and_recorded_after_it(
    repository: Path, home: Path, payload: bytes
) -> None:
    agent = Agent(governed(repository), home)
    replies = [
        answer(payload, HookFrame("claude-code", str(agent.cwd), kind), agent.environment) for kind in ("pre", "post")
    ]
    assert [reply.exit_code for reply in replies] == [2, 0]
    assert len(records(repository, "check_failed")) == 2
    assert allowed(agent.read("README.md"))

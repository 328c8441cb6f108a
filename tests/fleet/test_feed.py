"""The feed of an agent: usage of the known forms, refusals of the provider, and output that means harm."""

import json
from io import BytesIO
from pathlib import Path
from typing import Any

import pytest

from remit_fleet.workers.feed import MAX_LINE_BYTES, MAX_OUTPUT_BYTES, AgentFeed, is_refusal


@pytest.fixture
def feed(tmp_path: Path) -> AgentFeed:
    return AgentFeed(tmp_path / "agent.log")


def take(feed: AgentFeed, *events: dict[str, Any]) -> AgentFeed:
    for event in events:
        feed.take_line(json.dumps(event).encode() + b"\n")
    return feed


def test_a_sum_at_the_end_replaces_what_was_counted(feed: AgentFeed) -> None:
    take(feed, {"type": "assistant"}, {"type": "assistant"})
    assert (feed.usage.turns, feed.usage.usd) == (2, None)
    used = {"input_tokens": 10, "cache_read_input_tokens": 90, "output_tokens": 7}
    take(feed, {"type": "result", "usage": used, "num_turns": 3, "total_cost_usd": 0.5})
    assert (feed.usage.turns, feed.usage.tokens_in, feed.usage.tokens_out, feed.usage.usd) == (3, 100, 7, 0.5)


def test_each_turns_use_is_added(feed: AgentFeed) -> None:
    own = {"event": "turn", "data": {"usage": {"input": 5, "output": 2}, "cost": 0.25}}
    take(feed, own, own, {"type": "turn.completed", "usage": {"input_tokens": 1, "output_tokens": 1}})
    assert (feed.usage.turns, feed.usage.tokens_in, feed.usage.tokens_out, feed.usage.usd) == (3, 11, 5, 0.5)


def test_an_agent_that_tells_no_cost_has_none(feed: AgentFeed) -> None:
    take(feed, {"type": "turn.completed", "usage": {"input_tokens": 1}})
    assert feed.usage.usd is None


@pytest.mark.parametrize("value", [-5, True, "7", 1.5, None, [1], {"a": 1}])
def test_a_number_that_is_none_counts_nothing(feed: AgentFeed, value: object) -> None:
    take(feed, {"type": "turn.completed", "usage": {"input_tokens": value, "output_tokens": value}})
    assert (feed.usage.tokens_in, feed.usage.tokens_out) == (0, 0)


@pytest.mark.parametrize("cost", [-1, True, "free", 1e300, None])
def test_a_cost_that_is_none_takes_nothing_off(feed: AgentFeed, cost: object) -> None:
    take(feed, {"event": "turn", "data": {"cost": 1.0}}, {"event": "turn", "data": {"cost": cost}})
    assert feed.usage.usd == 1.0


@pytest.mark.parametrize(
    ("event", "is_one"),
    [
        ({"type": "error", "message": "429 Too Many Requests"}, True),
        ({"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}}, True),
        ({"type": "system", "subtype": "api_retry", "error_status": 529}, True),
        ({"type": "turn.failed", "error": {"message": "stream error: 503"}}, True),
        ({"type": "error", "message": "no such file 500.py"}, True),
        ({"type": "error", "message": "the file is missing"}, False),
        ({"type": "assistant", "message": "429"}, False),
        ({"type": "error", "error_status": 401}, False),
        ({"type": "error", "message": "x" * 600 + "429"}, False),
    ],
)
def test_a_refusal_of_the_provider_is_known(event: dict[str, Any], is_one: bool) -> None:
    assert is_refusal(event) is is_one


def test_refusals_are_counted_beside_the_turns(feed: AgentFeed) -> None:
    take(feed, {"type": "assistant"}, {"type": "error", "message": "rate limit"})
    assert (feed.usage.turns, feed.usage.refusals) == (1, 1)


def test_output_is_kept_to_a_limit_and_read_to_its_end(feed: AgentFeed) -> None:
    line = b"x" * (MAX_LINE_BYTES // 2) + b"\n"
    lines = MAX_OUTPUT_BYTES // len(line) + 3
    last = json.dumps({"type": "result", "total_cost_usd": 1.0}).encode() + b"\n"
    feed.read_output(BytesIO(line * lines + last))
    assert feed.log.stat().st_size == MAX_OUTPUT_BYTES
    assert feed.usage.usd == 1.0


@pytest.mark.parametrize(
    "line",
    [b"\xff\xfe\x00", b"[" * 5000, b"{}", b"null", b'{"type": 5, "event": []}', b'{"type": "result", "usage": 7}'],
)
def test_junk_counts_nothing_and_breaks_nothing(feed: AgentFeed, line: bytes) -> None:
    feed.take_line(line + b"\n")
    assert (feed.usage.turns, feed.usage.tokens_in, feed.usage.usd) == (0, 0, None)


def test_what_is_shown_holds_no_control_characters(feed: AgentFeed) -> None:
    feed.take_line(b"\x1b[2J\x1b]0;title\x07 done\n")
    assert feed.progress.isprintable()
    assert feed.tail == feed.progress
    take(feed, {"event": "call_begun", "data": {"tool": "a\x1b[31m\nb" * 200}})
    assert feed.progress.isprintable()
    assert len(feed.progress) < 250


@pytest.mark.parametrize(
    ("lines", "tail"),
    [
        (
            [b"one\n", b"error: no such model\n", b"\n", b"hint: name another\n"],
            "error: no such model / hint: name another",
        ),
        (
            [
                b'{"type": "error", "message": "no credit"}\n',
                b'{"type": "turn.failed", "error": {"message": "no credit"}}\n',
            ],
            "no credit",
        ),
        ([b'{"type": "result", "is_error": true, "result": "Invalid API key"}\n'], "Invalid API key"),
        ([b'{"event": "ended", "data": {"state": "stuck", "reason": "3 mistakes in a row"}}\n'], "3 mistakes in a row"),
        ([b'{"event": "ended", "data": {"state": "completed", "reason": "done"}}\n'], ""),
    ],
)
def test_the_end_of_the_output_tells_the_cause(feed: AgentFeed, lines: list[bytes], tail: str) -> None:
    for line in lines:
        feed.take_line(line)
    assert feed.tail == tail

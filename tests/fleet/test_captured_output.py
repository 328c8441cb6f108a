"""What the feed makes of agents' output: sessions, use and progress, as captured; and nothing of what is no number."""

from io import BytesIO
from pathlib import Path

import pytest

from remit_fleet.workers.feed import MAX_COUNT, AgentFeed, AgentUsage

CAPTURED = Path(__file__).with_name("headless")


def read(output: bytes, folder: Path) -> AgentFeed:
    feed = AgentFeed(folder / "log")
    feed.read_output(BytesIO(output))
    return feed


@pytest.mark.parametrize(
    ("agent", "usage"),
    [
        ("claude-code", AgentUsage(3, 71_992, 96, 0.144944)),
        ("codex", AgentUsage(1, 31_967, 175)),
        ("gemini", AgentUsage(0, 44_551, 96)),
        ("qwen", AgentUsage(3, 64_357, 134)),
    ],
)
def test_every_agent_tells_its_session_and_its_use(agent: str, usage: AgentUsage, tmp_path: Path) -> None:
    feed = read((CAPTURED / f"{agent}.jsonl").read_bytes(), tmp_path)
    assert len(feed.session) == 36
    assert feed.usage == usage


@pytest.mark.parametrize(
    "line",
    [
        b'{"type": "result", "usage": {"input_tokens": -1, "output_tokens": 1.5}, "total_cost_usd": -1e300}',
        b'{"type": "result", "usage": [], "num_turns": true, "total_cost_usd": "1"}',
        b'{"type": "result", "session_id": ["x"], "total_cost_usd": 1e307}',
        b'{"type": ["result"], "event": {}}',
        b"[1, 2]",
        b"\xff\xfe\x00",
        b"{",
        b"[" * 200_000,
    ],
)
def test_output_that_means_nothing_counts_as_nothing(line: bytes, tmp_path: Path) -> None:
    feed = read(line + b"\n", tmp_path)
    assert (feed.usage, feed.session) == (AgentUsage(), "")


def test_a_count_is_one_that_a_database_can_hold(tmp_path: Path) -> None:
    feed = read(b'{"type": "result", "usage": {"output_tokens": 1' + b"0" * 17 + b"}}\n" + b"x" * (3 << 20), tmp_path)
    assert feed.usage.tokens_out == MAX_COUNT
    assert len(feed.progress) <= 201

"""Feed of one agent: the lines of its output become usage, short progress and the time of its last word.

Output is hostile text: a line is cut, cleaned, and interpreted only for its numbers. The whole output is kept up to a
limit in a file beside the worktree.
"""

import re
import time
from collections import deque
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, BinaryIO

from msgspec import DecodeError, Struct, json

from remit.core.untrusted_input import as_object, sanitise_line
from remit_fleet.workers.network import MASK

MAX_LINE_BYTES = 1 << 20
MAX_OUTPUT_BYTES = 4 << 20
MAX_PROGRESS_CHARS = 200
SHOWN_LINES = 2


class AgentUsage(Struct):
    """Usage reported by an agent. `usd` is None for an agent that reports no cost: unknown is not zero."""

    turns: int = 0
    tokens_in: int = 0
    tokens_out: int = 0
    usd: float | None = None
    refusals: int = 0
    """Answers of the model's provider that say it is overloaded, or that too much was asked of it."""


class AgentFeed:
    """Reader of one agent's output, line by line."""

    def __init__(self, log: Path, masked: Sequence[str] = ()) -> None:
        self.log = log
        self.masked = tuple((word.encode(), MASK.encode()) for word in masked)
        """Words that are shown and kept masked, such as the password of a proxy."""
        self.usage = AgentUsage()
        self.session = ""
        self.progress = ""
        self.last_word_s: float = time.monotonic()
        self.last_lines: deque[str] = deque(maxlen=SHOWN_LINES)
        """The last lines of plain text, and the errors among JSON lines."""

    def read_output(self, stream: BinaryIO) -> None:
        """Read to the end of the stream; an overlong line is cut, and read on."""
        written = 0
        with self.log.open("wb") as kept:
            while line := stream.readline(MAX_LINE_BYTES):
                self.last_word_s = time.monotonic()
                for word, mask in self.masked:
                    line = line.replace(word, mask)
                if written < MAX_OUTPUT_BYTES:
                    written += kept.write(line[: MAX_OUTPUT_BYTES - written])
                    kept.flush()
                self.take_line(line)

    def take_line(self, line: bytes) -> None:
        try:
            event = as_object(json.decode(line))
        except (DecodeError, UnicodeDecodeError, RecursionError):
            event = {}
        if not event:
            text = sanitise_line(line.decode("utf-8", "replace").strip(), MAX_PROGRESS_CHARS)
            self.keep_line(text)
            self.progress = text or self.progress
            return
        self.count(event)
        self.keep_line(read_error(event))
        self.progress = describe_event(event) or self.progress

    @property
    def tail(self) -> str:
        """The end of the output on one line: what failed often stands before a hint."""
        return " / ".join(self.last_lines)

    def keep_line(self, text: str) -> None:
        if text and text not in self.last_lines:
            self.last_lines.append(text)

    def count(self, event: Mapping[str, Any]) -> None:
        """Add the usage of an event of a known form: JSON lines of Claude Code, Qwen Code, Gemini CLI, Codex and Remit.

        The forms are captured in `tests/fleet/headless`. An agent may report sums at its end, or each turn's
        use.
        """
        kind, data = read_word(event, "type", "event"), as_object(event.get("data"))
        self.session = self.session or sanitise_line(read_word(event, "session_id", "thread_id"), MAX_SESSION_CHARS)
        if kind == "result":
            used = as_object(event.get("usage") or event.get("stats"))
            self.usage.tokens_in = as_count(sum(as_count(used.get(name)) for name in INPUT_NAMES))
            self.usage.tokens_out = as_count(used.get("output_tokens"))
            self.usage.turns = as_count(event.get("num_turns")) or self.usage.turns
            self.add_cost(event.get("total_cost_usd"), 0.0)
        elif kind in ("turn", "turn.completed"):
            used = as_object(data.get("usage") or event.get("usage"))
            self.usage.turns += 1
            self.usage.tokens_in += as_count(used.get("input_tokens") or used.get("input"))
            self.usage.tokens_out += as_count(used.get("output_tokens") or used.get("output"))
            self.add_cost(data.get("cost"), self.usage.usd or 0.0)
        elif kind == "assistant":
            self.usage.turns += 1
        if is_refusal(event):
            self.usage.refusals += 1

    def add_cost(self, cost: object, before: float) -> None:
        if isinstance(cost, int | float) and not isinstance(cost, bool) and 0 <= cost < MAX_USD:
            self.usage.usd = before + float(cost)


INPUT_NAMES = ("input_tokens", "cache_creation_input_tokens", "cache_read_input_tokens")
MAX_SESSION_CHARS = 100
MAX_COUNT = 10**12
MAX_USD = 10**6


REFUSAL = re.compile(r"\b(?:429|5\d\d)\b|overloaded|rate.?limit", re.IGNORECASE)
ERROR_KINDS = frozenset({"error", "turn.failed", "api_retry", "failed"})
STATUS_NAMES = ("status", "status_code", "error_status")
MAX_ERROR_CHARS = 500


def is_refusal(event: Mapping[str, Any]) -> bool:
    """Return whether an event reports the provider's refusal: an error with status 429 or 5xx, or refusing words."""
    if not ERROR_KINDS & {str(event.get(name)) for name in ("type", "event", "subtype")}:
        return False
    places = [event, *(as_object(event.get(name)) for name in ("error", "data"))]
    statuses = [as_count(place.get(name)) for place in places for name in STATUS_NAMES]
    words = [place.get(name) for place in places for name in ("message", "error", "text")]
    said = any(REFUSAL.search(word[:MAX_ERROR_CHARS]) for word in words if isinstance(word, str))
    return said or any(status == 429 or 500 <= status < 600 for status in statuses)


def read_error(event: Mapping[str, Any]) -> str:
    data = as_object(event.get("data"))
    kinds = {str(event.get(name)) for name in ("type", "event", "subtype")}
    is_bad_end = "ended" in kinds and data.get("state") not in ("completed", "answered")
    if not (ERROR_KINDS & kinds or event.get("is_error") is True or is_bad_end):
        return ""
    places = (event, as_object(event.get("error")), data)
    words = (read_word(place, "message", "error", "reason", "result", "text") for place in places)
    return sanitise_line(next(filter(None, words), "").strip(), MAX_PROGRESS_CHARS)


def read_word(event: Mapping[str, Any], *names: str) -> str:
    """Return the first named field with a text value; an agent may use a name for a different type."""
    return next((word for name in names if isinstance(word := event.get(name), str)), "")


def as_count(value: object) -> int:
    """Return a count that fits into a database; 0 for any invalid value."""
    return min(value, MAX_COUNT) if isinstance(value, int) and not isinstance(value, bool) and value > 0 else 0


def describe_event(event: Mapping[str, Any]) -> str:
    """Return a line about an event: its kind, and its tool."""
    data = as_object(event.get("data"))
    kind = read_word(event, "event", "type")
    tool = (
        read_word(data, "tool")
        or read_word(event, "tool", "tool_name")
        or read_word(as_object(event.get("item")), "type")
    )
    return sanitise_line(f"{kind} {tool}".strip(), MAX_PROGRESS_CHARS) if kind in SHOWN_KINDS else ""


SHOWN_KINDS = frozenset({"call_begun", "question", "item.started", "tool_use", "ended"})

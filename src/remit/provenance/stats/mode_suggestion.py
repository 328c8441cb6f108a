"""Suggestions for `remit mode suggest`: refusable calls of the observed time, and a scope for touched files."""

from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct

from remit.core.record import KEY
from remit.ledger.log_files import list_readable_places
from remit.ledger.reader import read_lines


class RefusableCalls(Struct, frozen=True):
    """Calls allowed in `observe` and `warn` that enforce would have refused or asked about. `by_rule` counts each
    objecting rule; `examples` are the newest calls.
    """

    calls: int
    refused: int
    asked: int
    by_rule: dict[str, int]
    sessions: dict[str, int]
    examples: tuple[str, ...]
    loose: tuple[tuple[str, ...], ...] = ()
    """Paths of each call whose only objection was a missing intent or the scope."""


def find_refusable_calls(log: Path, max_examples: int = 5) -> RefusableCalls:
    """Return the refusable calls in the logs of folder `log`, for `mode suggest`."""
    log_lines = (line for place in list_readable_places(log) for line in read_lines(log / place))
    bodies = [body for line in log_lines if (body := decode_body(line.raw)).get("event") == "tool_use"]
    passed = [b for b in bodies if b.get("decision", {}).get("mode") in ("observe", "warn")]
    strict = [b for b in passed if b["decision"].get("verdict") in ("deny", "ask")]
    # An intent with the right scope would allow these.
    scoped = (b for b in strict if set(map(str, b["decision"].get("rules", []))) <= {"active_intent", "scope"})
    loose = (tuple(map(str, b.get("call", {}).get("paths", []))) for b in scoped)
    return RefusableCalls(
        calls=len(passed),
        refused=sum(b["decision"]["verdict"] == "deny" for b in strict),
        asked=sum(b["decision"]["verdict"] == "ask" for b in strict),
        by_rule=dict(Counter(str(rule) for b in strict for rule in b["decision"].get("rules", [])).most_common()),
        sessions=dict(Counter(str(b.get("session_id")) for b in strict).most_common(5)),
        examples=tuple(map(describe_call, reversed(strict[-max_examples:]))),
        loose=tuple(filter(None, loose)),
    )


def decode_body(raw: bytes) -> dict[str, Any]:
    """Return Remit's part of a log line; empty if unreadable, which `verify` reports."""
    try:
        return msgspec.json.decode(raw, type=dict[str, Any])["metadata"][KEY]
    except (msgspec.DecodeError, UnicodeDecodeError, KeyError, TypeError):
        return {}


def describe_call(body: dict[str, Any]) -> str:
    call: dict[str, Any] = body.get("call", {})
    target = call.get("command") or " ".join(call.get("paths", []))
    return f"{', '.join(body['decision'].get('rules', []))}: {call.get('name')} {target}"[:160]


def propose_scope(paths: Sequence[str]) -> tuple[str, ...]:
    """Return patterns for the files: the folder of several files, otherwise the file."""
    folders = Counter(path.rpartition("/")[0] for path in paths)
    wide = {folder for folder, number in folders.items() if folder and number > 1}
    top = {f for f in wide if not any(f.startswith(f"{other}/") for other in wide)}
    alone = [p for p in paths if not any(p.startswith(f"{folder}/") for folder in top)]
    return (*(f"{escape_pattern(folder)}/**" for folder in sorted(top)), *map(escape_pattern, alone))


def escape_pattern(path: str) -> str:
    return "".join(f"\\{c}" if c in "\\*?[]{},!" else c for c in path)

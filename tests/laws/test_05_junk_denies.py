"""Law 5: junk bytes to an adapter raise only its own error, and that denies, where a denial can be."""

import json
import sys
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from conftest import run_git
from gate.driving import governed, machine
from laws.enemies import texts
from remit.adapters import AdapterError, parse
from remit.core.agents import ROWS
from remit.core.record import Body, Chain, Record, encode_record
from remit.gate.records.call_records import call_part
from remit.servers.hook import EventClass, HookFrame, answer

KEYS = [
    "hook_event_name",
    "session_id",
    "cwd",
    "agent_id",
    "tool_name",
    "tool_input",
    "tool_use_id",
    "tool_response",
    "transcript_path",
    "duration_ms",
    "source",
    "file_path",
    "command",
    "structuredPatch",
    "newStart",
    "lines",
    "filePath",
]
NAMES = sorted({name for row in ROWS.values() for name in (*row.events, *row.tools)})
numbers = st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.sampled_from([2**63, -(2**200), 1e308])
words = texts.map(lambda t: t.encode("utf-8", "replace").decode()) | st.sampled_from(NAMES)
values = st.recursive(
    st.none() | st.booleans() | numbers | words,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.sampled_from(KEYS) | words, inner, max_size=6),
    max_leaves=25,
)
JUNK = [
    b"",
    b"null",
    b"[]",
    b"{}",
    b"{",
    b'"',
    b"\xff\xfe",
    b'{"hook_event_name": "\xed\xa0\x80"}',
    b'{"hook_event_name": "\\ud800"}',
    b'{"hook_event_name": "PreToolUse", "session_id": "s", "cwd": "/a\\u0000b", "tool_name": "Write"}',
    b"[" * 100_000,
    b'{"a":' * 100_000,
    b"1e999",
    b"9" * 10_000,
    b"\0" * 100,
    b"\xef\xbb\xbf{}",
]


@st.composite
def payloads(draw: st.DrawFn, row: Any) -> bytes:
    """Something that looks like a payload of that agent, with one or more values of another kind."""
    document: dict[str, Any] = {
        "hook_event_name": draw(st.sampled_from(sorted(row.events))),
        "session_id": "s",
        "cwd": "/w",
        "tool_name": draw(st.sampled_from(sorted(row.tools))),
        "tool_input": {},
    }
    document |= draw(st.dictionaries(st.sampled_from(KEYS), values, max_size=4))
    return json.dumps(document).encode()


@pytest.mark.parametrize("agent", sorted(ROWS))
@given(st.data())
@settings(max_examples=300)
def test_a_payload_is_an_event_or_an_adapter_error(agent: str, data: st.DataObject) -> None:
    payload = data.draw(st.binary() | values.map(lambda v: json.dumps(v).encode()) | payloads(ROWS[agent]))
    try:
        event = parse(agent, payload)
    except AdapterError:
        return
    call = getattr(event, "call", None)
    if call is not None:
        assert all(isinstance(path, str) for path in call.paths)
        part = call_part(call, call.paths)
        encode_record(Record("i", "t", Body(event="tool_use", call=part)), Chain())


@pytest.mark.parametrize("agent", sorted(ROWS))
@pytest.mark.parametrize("junk", JUNK, ids=lambda j: repr(j[:20]))
def test_known_junk_is_an_adapter_error(agent: str, junk: bytes) -> None:
    with pytest.raises(AdapterError):
        parse(agent, junk)


@pytest.fixture(scope="module")
def enforcing(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("enforcing")
    run_git(root, "init", "-q")
    return governed(root)


CASES: list[tuple[EventClass | None, int]] = [("pre", 2), ("post", 0), ("note", 0), (None, 2)]


@pytest.mark.parametrize("agent", sorted(ROWS))
@pytest.mark.parametrize(("event_class", "code"), CASES)
@given(junk=st.sampled_from(JUNK) | st.binary(max_size=200))
@settings(max_examples=40)
def test_junk_is_refused_only_where_something_can_be(
    enforcing: Path, agent: str, event_class: EventClass | None, code: int, junk: bytes
) -> None:
    reply = answer(junk, HookFrame(agent, str(enforcing), event_class), machine(enforcing))
    assert reply.exit_code == code
    assert reply.stdout == b""
    assert agent.encode() in reply.stderr
    assert b"remit doctor" in reply.stderr


@pytest.mark.parametrize("agent", sorted(ROWS))
def test_without_a_class_the_event_that_junk_names_decides(enforcing: Path, agent: str) -> None:
    for name, kind in ROWS[agent].events.items():
        junk = b'{"hook_event_name":"%s", "cwd":' % name.encode()
        reply = answer(junk, HookFrame(agent, str(enforcing)), machine(enforcing))
        assert reply.exit_code == (2 if kind == "before" else 0), name


@pytest.mark.parametrize("event_class", ["pre", None])
def test_junk_is_refused_nowhere_but_where_remit_enforces(tmp_path: Path, event_class: EventClass | None) -> None:
    for folder, setup in ((tmp_path / "bare", None), (tmp_path / "watching", "observe")):
        folder.mkdir()
        run_git(folder, "init", "-q")
        if setup:
            governed(folder, setup)
        reply = answer(b"junk", HookFrame("claude-code", str(folder), event_class), machine(tmp_path))
        assert reply.exit_code == 0


def test_a_payload_over_the_limit_is_refused(enforcing: Path) -> None:
    huge = b'{"hook_event_name":"PreToolUse","x":"' + b"a" * (65 * 1024 * 1024) + b'"}'
    reply = answer(huge, HookFrame("claude-code", str(enforcing), "pre"), machine(enforcing))
    assert (reply.exit_code, b"64 MiB" in reply.stderr) == (2, True)
    assert sys.getsizeof(reply.stderr) < 2000

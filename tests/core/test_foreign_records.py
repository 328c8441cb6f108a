"""Older ledgers: read, written, and read again the same."""

import json
from typing import Any
from uuid import UUID

import pytest

from remit.core.formats.foreign_records import (
    Format,
    convert_older_record,
    detect_shape,
    export_record,
    format_csv_header,
)
from remit.core.record import KEY

OLDER: dict[str, dict[str, Any]] = {
    "s1": {
        "id": "6f1c2d3e-0000-4000-8000-000000000001",
        "timestamp": "2026-02-21T12:00:00.000Z",
        "vcs": {"revision_id": "abc123"},
        "files": [
            {
                "relative_path": "src/api/weather.ts",
                "conversations": [
                    {
                        "url": "task-id",
                        "contributor": {"entity_type": "AI", "model_identifier": "some-model"},
                        "ranges": [{"start_line": 1, "end_line": 50, "content_hash": "sha256:aa"}],
                        "related": [{"type": "specification", "value": "INT-001"}],
                    }
                ],
            }
        ],
    },
    "s2": {
        "timestamp": "2026-02-18T10:28:03.890Z",
        "eventType": "tool_result",
        "toolName": "execute_command",
        "params": {"command": "npm install"},
        "result": "added 1 package",
        "duration": 1323,
        "taskId": "task-abc123",
        "intentId": "INT-001",
    },
    "s3": {
        "id": "6f1c2d3e-0000-4000-8000-000000000003",
        "timestamp": "2026-02-16T12:00:00Z",
        "vcs": {"revision_id": "abc123", "branch": "feature/x", "dirty": True},
        "intent_id": "INT-001",
        "mutation_class": "intent_evolution",
        "files": [
            {
                "relative_path": "src/auth/middleware.ts",
                "operation": "modify",
                "before_hash": "sha256:aa",
                "after_hash": "sha256:bb",
                "line_ranges": [
                    {
                        "start_line": 15,
                        "end_line": 45,
                        "content_hash": "sha256:cc",
                        "ast_node_type": "FunctionDeclaration",
                    }
                ],
            }
        ],
        "conversation": {"session_id": "s", "message_index": 42, "model": "m", "contributor_type": "AI"},
        "metadata": {"tool_used": "write_file", "execution_time_ms": 150, "approved_by": "user-id"},
    },
    "s4": {
        "req_id": "task-7",
        "intent_id": "INT-001",
        "file": "src/a.ts",
        "timestamp": "2026-02-16T12:00:00Z",
        "mutation_class": "AST_REFACTOR",
        "content_hash": "bb",
        "model_identifier": "m",
        "related": ["task-7"],
        "ranges": {"content_hash": "sha256:cc"},
    },
}


def read(document: dict[str, Any]) -> dict[str, Any]:
    found = convert_older_record(json.dumps(document).encode())
    assert found is not None
    return found


@pytest.mark.parametrize("shape", OLDER)
def test_an_older_line_says_what_a_record_says(shape: str) -> None:
    found = read(OLDER[shape])
    body = found["metadata"][KEY]
    assert (body["shape"], body["unproved"], body["intent_id"]) == (shape, True, "INT-001")
    assert body["session_id"] in ("task-id", "task-abc123", "s", "task-7")
    assert body["event"] == ("tool_result" if shape == "s2" else "mutation")


@pytest.mark.parametrize("shape", ["s1", "s2", "s3", "s4"])
def test_what_is_exported_is_read_back_the_same(shape: Format) -> None:
    first = read(OLDER[shape])
    (line,) = export_record(first, shape)
    again = convert_older_record(line.encode())
    assert again is not None
    for made in (first, again):
        if shape in ("s2", "s4"):
            del made["id"]
        if shape == "s4":
            del made["metadata"][KEY]["files"][0]["ranges"], made["files"]
    assert again == first


def test_a_line_without_an_id_gets_the_same_one_each_time() -> None:
    assert read(OLDER["s2"])["id"] == read(OLDER["s2"])["id"] != read(OLDER["s4"])["id"]


@pytest.mark.parametrize(
    "raw", [b"", b"{", b"[]", b"null", b"{}", b'{"files": 1}', b"\xff", b'{"files": [1]}', b"[" * 5000]
)
def test_what_is_no_older_line_is_left_alone(raw: bytes) -> None:
    assert convert_older_record(raw) is None


JUNK: list[dict[str, Any]] = [
    {"eventType": 1, "toolName": None, "params": 3, "approved": []},
    {"file": None, "req_id": 1, "ranges": [1], "content_hash": 3},
    {"mutation_class": 4, "files": 1, "vcs": [], "conversation": 2, "metadata": "x"},
    {"files": [{"relative_path": 4, "conversations": [1, {"related": 2, "ranges": [3]}]}]},
]


@pytest.mark.parametrize("document", JUNK)
def test_junk_in_an_older_shape_is_read_without_an_error(document: dict[str, Any]) -> None:
    assert read(document)["metadata"][KEY]["unproved"] is True


def test_our_own_record_is_no_older_one() -> None:
    assert detect_shape({"metadata": {KEY: {}}, "files": [{"relative_path": "a"}]}) is None


def test_a_cell_is_no_formula() -> None:
    record = {"id": "i", "timestamp": "t", "metadata": {KEY: {"event": "tool_use", "call": {"command": '=1+"2",x'}}}}
    (row,) = export_record(record, "csv")
    assert row.endswith(',"\'=1+""2"",x"')
    assert row.count(",") - 1 == format_csv_header().count(",")


def test_agent_trace_is_the_record_itself() -> None:
    record = {"id": "i", "timestamp": "t", "metadata": {KEY: {"event": "tool_use"}}}
    assert [json.loads(line) for line in export_record(record, "agent-trace")] == [record]
    assert export_record(record, "s1") == []


@pytest.mark.parametrize("shape", list(OLDER))
def test_an_older_record_goes_out_as_the_published_schema_has_it(shape: str) -> None:
    found = convert_older_record(json.dumps(OLDER[shape]).encode())
    assert found
    (line,) = export_record(found, "agent-trace")
    told = json.loads(line)
    assert str(UUID(told["id"])) == told["id"]
    assert told["metadata"][KEY]["named"] == found["id"]
    ranges = [r for file in told["files"] for c in file["conversations"] for r in c["ranges"]]
    assert all(r["start_line"] <= r["end_line"] for r in ranges)
    assert told["timestamp"].endswith("Z")

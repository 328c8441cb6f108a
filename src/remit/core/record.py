"""Ledger records: Agent Trace records with Remit's own part under `dev.remit`.

Source of the outer shape: the Agent Trace schema 0.1.0, read 2026-11.
"""

from typing import Any, Literal, TypeAlias

from msgspec import UNSET, Struct, UnsetType, json, to_builtins

TRACE_VERSION = "0.1.0"
SCHEMA = "remit.trace/1"
KEY = "dev.remit"

EventName: TypeAlias = Literal[
    "mutation",
    "generated",
    "tool_use",
    "tool_result",
    "denied",
    "approval_requested",
    "approval_answered",
    "intent_selected",
    "intent_cleared",
    "intent_transition",
    "intent_changed",
    "session_start",
    "session_end",
    "verification",
    "lesson",
    "snapshot",
    "restore",
    "human_edit",
    "check_failed",
    "recovery",
    "tree_head",
    "pruned",
]


class RecordPart(Struct, frozen=True, omit_defaults=True):
    """Base of a record's parts: absent parts are left out of the line."""


class Vcs(RecordPart, frozen=True):
    """HEAD at the time of the record; absent before the first commit."""

    type: Literal["git"] | UnsetType = UNSET
    revision: str | UnsetType = UNSET
    revision_id: str | UnsetType = UNSET


class Tool(RecordPart, frozen=True):
    """The agent, in the field names of the Agent Trace schema."""

    name: str | UnsetType = UNSET
    version: str | UnsetType = UNSET


class Contributor(RecordPart, frozen=True):
    """The author of lines, in the field names of the published schema and its predecessor."""

    type: Literal["human", "ai", "mixed", "unknown"] | UnsetType = UNSET
    entity_type: str | UnsetType = UNSET
    model_id: str | UnsetType = UNSET
    model_identifier: str | UnsetType = UNSET


class Range(RecordPart, frozen=True):
    """Lines written by the call, and their hash."""

    start_line: int | UnsetType = UNSET
    end_line: int | UnsetType = UNSET
    content_hash: str | UnsetType = UNSET


class Related(RecordPart, frozen=True):
    """A link from a conversation to its purpose."""

    type: str | UnsetType = UNSET
    url: str | UnsetType = UNSET
    value: str | UnsetType = UNSET


class Conversation(RecordPart, frozen=True):
    """The part of a file written in a session. The schema requires `ranges`."""

    ranges: tuple[Range, ...] | UnsetType = UNSET
    url: str | UnsetType = UNSET
    contributor: Contributor | UnsetType = UNSET
    related: tuple[Related, ...] | UnsetType = UNSET


class TracedFile(RecordPart, frozen=True):
    """A changed file in the published shape."""

    path: str | UnsetType = UNSET
    relative_path: str | UnsetType = UNSET
    conversations: tuple[Conversation, ...] | UnsetType = UNSET


class Content(RecordPart, frozen=True):
    """A side of a change: hashes, never contents."""

    sha256: str | UnsetType = UNSET
    git_blob: str | UnsetType = UNSET
    lines: int | UnsetType = UNSET
    mode: str | UnsetType = UNSET


class MutatedFile(RecordPart, frozen=True):
    """A change of a file. `before` is absent for a created, `after` for a deleted file."""

    path: str | UnsetType = UNSET
    operation: Literal["create", "modify", "delete", "rename"] | UnsetType = UNSET
    before: Content | UnsetType = UNSET
    after: Content | UnsetType = UNSET
    in_scope: bool | UnsetType = UNSET
    ranges: tuple[Range, ...] | UnsetType = UNSET
    hunks: tuple[tuple[int, int, int, int], ...] | UnsetType = UNSET
    """Differences as `@@ -old,lines +new,lines @@` without context, to attribute lines without contents."""
    told: bool | UnsetType = UNSET
    """The tool's own answer gave the positions, instead of a comparison."""
    unproved: tuple[tuple[int, int], ...] | UnsetType = UNSET
    """First and last of new lines without proof that the call wrote them: the call is a candidate."""
    likely: bool | UnsetType = UNSET
    """No different writer is known for the unproved lines: they are likely the call's own."""


class CallPart(RecordPart, frozen=True):
    """The recorded call."""

    id: str | UnsetType = UNSET
    name: str | UnsetType = UNSET
    effect: str | UnsetType = UNSET
    paths: tuple[str, ...] | UnsetType = UNSET
    command: str | UnsetType = UNSET
    arguments_sha256: str | UnsetType = UNSET


class DecisionPart(RecordPart, frozen=True):
    """The decision: effect, rules, and version of the intents file."""

    effect: str | UnsetType = UNSET
    verdict: str | UnsetType = UNSET
    mode: str | UnsetType = UNSET
    rules: tuple[str, ...] | UnsetType = UNSET
    approved_by: str | None | UnsetType = UNSET
    grant: str | None | UnsetType = UNSET
    intent_sha256: str | UnsetType = UNSET


class MutationClass(RecordPart, frozen=True):
    """The class declared by the agent, and the class computed from syntax trees. None means unknown."""

    declared: str | None | UnsetType = UNSET
    computed: str | None | UnsetType = UNSET


class Chain(RecordPart, frozen=True):
    """Position of the record: log `<repository>/<machine>`, 0-based `seq`, leaf hash of the previous line."""

    log: str | UnsetType = UNSET
    seq: int | UnsetType = UNSET
    prev: str | UnsetType = UNSET


class Body(RecordPart, frozen=True):
    """Remit's own part of a record. `intent_id` and `session_id` are always written, possibly as null."""

    event: EventName | UnsetType = UNSET
    schema: str | UnsetType = UNSET
    intent_id: str | None | UnsetType = UNSET
    session_id: str | None | UnsetType = UNSET
    agent_id: str | UnsetType = UNSET
    trace_id: str | UnsetType = UNSET
    call: CallPart | UnsetType = UNSET
    decision: DecisionPart | UnsetType = UNSET
    violation: dict[str, Any] | UnsetType = UNSET
    mutation_class: MutationClass | UnsetType = UNSET
    files: tuple[MutatedFile, ...] | UnsetType = UNSET
    in_scope: bool | UnsetType = UNSET
    covered: bool | UnsetType = UNSET
    result: dict[str, Any] | UnsetType = UNSET
    detail: dict[str, Any] | UnsetType = UNSET
    """Keys of the event itself, written beside the fixed keys."""
    branch: str | UnsetType = UNSET
    dirty: bool | UnsetType = UNSET
    duration_ms: int | UnsetType = UNSET
    chain: Chain | UnsetType = UNSET


class Record(Struct, frozen=True):
    """An event. `id` is a UUID v7, `timestamp` is UTC with microseconds and `Z`."""

    id: str
    timestamp: str
    body: Body
    vcs: Vcs | None = None
    tool: Tool | None = None
    files: tuple[TracedFile, ...] = ()


def encode_record(record: Record, chain: Chain) -> bytes:
    """Return the record's line without newline: sorted keys, UTF-8, control characters escaped."""
    body: dict[str, Any] = to_builtins(record.body)
    detail = body.pop("detail", {})
    document: dict[str, Any] = {
        "version": TRACE_VERSION,
        "id": record.id,
        "timestamp": record.timestamp,
        "files": record.files,
        "metadata": {KEY: {**detail, **body, "schema": SCHEMA, "chain": chain}},
    }
    if record.vcs is not None:
        document["vcs"] = record.vcs
    if record.tool is not None:
        document["tool"] = record.tool
    return json.encode(document, order="sorted")

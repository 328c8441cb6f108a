"""Ledger records: Agent Trace records with Remit's own part under `dev.remit`; their ids, times, and hash tree.

Source of the outer shape: the Agent Trace schema 0.1.0, read 2026-11.
"""

import hashlib
from collections.abc import Iterable
from contextlib import suppress
from datetime import UTC, datetime
from functools import reduce
from typing import Any, Literal, TypeAlias

from msgspec import UNSET, Struct, UnsetType, json, to_builtins

from remit.core.diff.contents import sha256
from remit.core.untrusted_input import as_object

TRACE_VERSION = "0.1.0"
SCHEMA = "remit.trace/1"
KEY = "dev.remit"
EventName: TypeAlias = Literal[
    "mutation", "generated", "tool_use", "tool_result", "denied", "approval_requested", "approval_answered",
    "intent_selected", "intent_cleared", "intent_transition", "intent_reopened", "intent_renumbered", "intent_changed",
    "session_start", "session_end", "verification", "lesson", "snapshot", "restore", "human_edit", "replay",
    "check_failed", "recovery", "tree_head", "pruned", "console_paired", "review_sent", "setting_changed",
    "task_handed_in", "task_landed", "work_requested", "data_snapshot", "data_changed",
]  # fmt: skip


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
    layout: bool | UnsetType = UNSET
    """The unproved lines are proved to be a new layout of lines of `before`, which keep their authors."""


class Person(Struct, frozen=True):
    """A person who logged in: an account at an OpenID Connect provider; or, with the issuer `git` or `system`, the
    system's user `subject` who answered here. `name` is an address or a name to show.
    """

    issuer: str
    subject: str
    name: str


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
    intent_uid: str | UnsetType = UNSET
    """The hidden name of the intent, which tells two of one label apart."""


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
    document |= {} if record.vcs is None else {"vcs": record.vcs}
    document |= {} if record.tool is None else {"tool": record.tool}
    return json.encode(document, order="sorted")


# --- ids and times ----------------------------------------------------------------------------------------


def make_uuid7(milliseconds: int, random_bytes: bytes) -> str:
    """Return a UUID version 7 of a Unix time and 10 random bytes. Source: RFC 9562 §5.7, read 2026-11."""
    value = (milliseconds & (1 << 48) - 1) << 80 | int.from_bytes(random_bytes[:10])
    value = value & ~(0xF << 76) | 0x7 << 76
    value = value & ~(0x3 << 62) | 0x2 << 62
    digits = f"{value:032x}"
    return "-".join((digits[:8], digits[8:12], digits[12:16], digits[16:20], digits[20:]))


def match_ids(given: str, known: Iterable[str]) -> tuple[str, ...]:
    """Return ids a person may mean: an exact match, otherwise ids beginning with, otherwise containing `given`.

    Ids that sort by time are displayed by their end, names by their beginning.
    """
    ids = tuple(dict.fromkeys(known))
    if given in ids or not given:
        return (given,) if given in ids else ()
    return tuple(i for i in ids if i.startswith(given)) or tuple(i for i in ids if given in i)


def derive_part_id(first: str, number: int) -> str:
    if number == 1:
        return first
    milliseconds = int(first.replace("-", "")[:12], 16)
    return make_uuid7(milliseconds, bytes.fromhex(sha256(f"{first} {number}".encode()))[:10])


def list_part_ids(part: object, max_count: int) -> list[str]:
    """Return the ids of at most `max_count` parts of a record's `part` field; empty for a malformed field."""
    first, count = as_object(part).get("first"), as_object(part).get("of")
    if isinstance(first, str) and isinstance(count, int):
        with suppress(ValueError):
            return [derive_part_id(first, number) for number in range(1, min(count, max_count) + 1)]
    return []


def format_utc(moment: datetime, timespec: str = "microseconds") -> str:
    """Return a moment with time zone as ISO 8601 in UTC with a final `Z`, comparable as text.

    `timespec` as in `datetime.isoformat`.
    """
    return moment.astimezone(UTC).isoformat(timespec=timespec).replace("+00:00", "Z")


def parse_time(timestamp: str) -> float | None:
    """Return a record's time in seconds since the epoch; None for text that is no time."""
    try:
        return datetime.fromisoformat(timestamp).timestamp()
    except ValueError:
        return None


def normalise_timestamp(timestamp: object) -> str:
    """Return a foreign timestamp in the format of records; text that is no timestamp stays unchanged."""
    try:
        moment = datetime.fromisoformat(str(timestamp).strip())
        return format_utc(moment.replace(tzinfo=UTC) if moment.tzinfo is None else moment)
    except (ValueError, OverflowError):
        return "" if timestamp is None else str(timestamp)


# --- the hash tree over a log. Source: RFC 6962 section 2.1, read 2026-11 ---------------------------------

Peaks: TypeAlias = list[tuple[int, bytes]]
"""Roots of full subtrees with their heights, tallest first: enough state to append leaves."""


def hash_leaf(line: bytes) -> bytes:
    return hashlib.sha256(b"\x00" + line).digest()


def hash_node(left: bytes, right: bytes) -> bytes:
    return hashlib.sha256(b"\x01" + left + right).digest()


def add_leaf(peaks: Peaks, leaf: bytes) -> None:
    """Add a leaf hash in place. The number of peaks equals the number of 1 bits in the size."""
    height, digest = 0, leaf
    while peaks and peaks[-1][0] == height:
        digest = hash_node(peaks.pop()[1], digest)
        height += 1
    peaks.append((height, digest))


def compute_peaks_root(peaks: Peaks) -> bytes:
    """Return the root over the leaves behind the peaks; the SHA-256 of nothing for an empty tree."""
    digests = [digest for _, digest in reversed(peaks)]
    return reduce(lambda right, left: hash_node(left, right), digests) if digests else hashlib.sha256().digest()


def compute_root(leaves: Iterable[bytes]) -> bytes:
    """Return the root over leaf hashes in order, with logarithmic memory."""
    peaks: Peaks = []
    for leaf in leaves:
        add_leaf(peaks, leaf)
    return compute_peaks_root(peaks)

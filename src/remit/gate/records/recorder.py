"""The recorder: makes records and appends them to the log, durably before an answer; no record of an effect is lost.

No line of the log is longer than MAX_LINE_BYTES. A record of many files becomes several parts, which are appended
together: each part describes its own files, and its `part` names the others. A record that is still too long is cut: a
list keeps its first entries, with its count and digest.
"""

import os
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, cast

import msgspec
from msgspec import UNSET, Struct, UnsetType
from msgspec.structs import replace

from remit.core.call import ToolCall
from remit.core.diff.contents import sha256
from remit.core.intent import identify, split_id
from remit.core.machine_paths import STATE_FOLDER
from remit.core.python_runtime import LazyProperty, prepare_type
from remit.core.record import Body, MutatedFile, Record, Tool, TracedFile, Vcs, derive_part_id, format_utc, make_uuid7
from remit.core.redaction import compile_team_pattern, redact_struct, redact_value
from remit.gate.governing.rules import Rules, load_rules
from remit.gate.machine import DOOR_EVIDENCE, Environment
from remit.ledger.log import AppendedRecord, MachineLog, Spool
from remit.ledger.log_files import DECODE_ERRORS, LedgerError, RecordLine
from remit.ledger.tree_heads import HEAD_INTERVAL_RECORDS, read_frontier
from remit.workspace.git.command import GitError
from remit.workspace.git.repository import head_commit, machine_id, repository_id
from remit.workspace.place.workspace import Workspace, is_folder

MAX_LINE_BYTES = 64 * 1024
CHAIN_BYTES = 1024
"""Bytes that the chain and the outer names add to a record."""

MAX_RECORD_BYTES = MAX_LINE_BYTES - CHAIN_BYTES
MAX_ENTRIES = 50
"""Entries of a list or table that a record keeps if it is too long."""

MAX_CHARS = 2048
"""Characters of a text that a record keeps if it is too long."""

MAX_UNPROVED = 200

FINISHED_EVENTS = frozenset({"mutation", "tool_result"})
"""Events that are recorded when no decision waits."""

TAIL_BYTES = 16 * 1024
RESUMED_TAIL_BYTES = 1024 * 1024
"""Bytes at the end of the log in which a repeated step looks for its records: of a hook, which is answered again at
once, and of a program that resumes, while other sessions went on.
"""


class Recorder:
    """Writer of the records of a workspace."""

    def __init__(self, workspace: Workspace, environment: Environment) -> None:
        self.workspace = workspace
        self.environment = environment
        self.rules: Rules | None = None
        """Rules as they were asked for last: they name intents, and secrets of the team."""

    @LazyProperty
    def machine(self) -> str:
        """The machine's name. Raises OSError."""
        return machine_id(self.environment.home)

    @LazyProperty
    def repository(self) -> str:
        """The repository's name. Raises OSError, GitError."""
        return repository_id(self.workspace)

    @property
    def log(self) -> MachineLog:
        """The machine's log. Raises OSError if machine or repository have no name, and none can be written."""
        return self._open_log

    @LazyProperty
    def _open_log(self) -> MachineLog:
        name = f"{self.repository}/{self.machine}"
        return MachineLog(self.workspace.log_folder, name, make_recovery=self.recovery_record)

    def close(self) -> None:
        if "_open_log" in vars(self):
            self.log.close()

    @LazyProperty
    def spool(self) -> Spool:
        root = self.workspace.root
        number = int(sha256(str(root).encode("utf-8", "surrogateescape"))[:12], 16)
        return Spool(self.environment.home / STATE_FOLDER / "spool" / f"{root.name}-{number}.jsonl")

    @property
    def vcs(self) -> Vcs | None:
        """HEAD now; None before the first commit, or if git cannot tell."""
        head = head_commit(self.workspace)
        return Vcs(type="git", revision=head, revision_id=head) if head else None

    def make_record(
        self,
        body: Body,
        agent: str | None = None,
        files: tuple[TracedFile, ...] = (),
        *,
        vcs: Vcs | UnsetType | None = UNSET,
    ) -> Record:
        """Return a record with the present time. Secrets are taken out here, from every field, and only here.

        `vcs` is HEAD, if known to the caller.
        """
        now = self.environment.clock.now()
        if self.rules is None:
            self.rules = load_rules(self.workspace)
        extra = tuple(map(compile_team_pattern, self.rules.config.redact.patterns))
        if body.intent_id and (apart := split_id(body.intent_id))[1]:
            body = replace(body, intent_id=apart[0], intent_uid=apart[1])
        if body.intent_uid is UNSET and body.intent_id and (intent := self.rules.intents.get(body.intent_id)):
            body = replace(body, intent_uid=identify(intent))
        if person := self.environment.person:
            body = replace(body, detail={**(body.detail or {}), "who": msgspec.to_builtins(person)})
        if agent is None and (evidence := DOOR_EVIDENCE.get()):
            body = replace(body, detail={"door": evidence, **(body.detail or {})})
        return Record(
            id=make_uuid7(int(now * 1000), os.urandom(10)),
            timestamp=format_utc(datetime.fromtimestamp(now, UTC)),
            body=redact_struct(body, extra),
            vcs=self.vcs if vcs is UNSET else vcs,
            tool=Tool(name=redact_value(agent, extra)) if agent else None,
            files=redact_value(files, extra),
        )

    def recovery_record(self, detail: dict[str, Any]) -> Record:
        return self.make_record(Body(event="recovery", intent_id=None, session_id=None, detail=detail))

    def append(self, records: Sequence[Record], *, sync: bool = True) -> tuple[AppendedRecord, ...]:
        """Append records, after the spooled ones; `sync` makes them durable.

        Raises OSError, LedgerError: then no record is in the log.
        """
        self.take_spooled()
        return self.log.append(split_records(records), sync=sync, views=self.views)

    @property
    def views(self) -> tuple[Path, ...]:
        return (self.workspace.view_path,) if is_folder(self.workspace.folder) else ()

    def append_or_spool(self, records: Sequence[Record], *, sync: bool = True) -> str | None:
        """Append records of past events, or spool them.

        Returns the reason for spooling; raises OSError if spooling fails too. No decision waits for these records: the
        log is signed here when due.
        """
        try:
            appended = self.append(records, sync=sync)
        except (OSError, LedgerError, GitError) as error:
            self.spool_records(records)
            return str(error)
        with suppress(OSError, LedgerError, GitError):
            if appended:
                self.sign_if_due(records, appended[-1].seq)
        return None

    def sign_if_due(self, records: Sequence[Record], newest_seq: int) -> None:
        """Make a tree head if one is due after an append, and at the end of a session also a commit's note.

        Raises OSError, LedgerError, GitError; the records themselves are safe.
        """
        events = {record.body.event for record in records}
        has_ended = "session_end" in events
        if not has_ended and events.isdisjoint(FINISHED_EVENTS):
            return
        known = read_frontier(self.log.folder)
        if has_ended or newest_seq + 1 - (known.size if known else 0) >= HEAD_INTERVAL_RECORDS:
            # Imported here: one call in a thousand makes a head.
            from remit.gate.records.tree_heads import make_head, sign_ended_session

            if has_ended:
                sign_ended_session(self, known)
            else:
                make_head(self)

    def spool_records(self, records: Sequence[Record]) -> None:
        """Put records into the spool without a try at the log, which just did not take a record. Raises OSError."""
        self.spool.store(split_records(records))

    def take_spooled(self) -> int:
        """Append the spooled records; return their number. Raises OSError, LedgerError, GitError."""
        return self.spool.drain(self.log, views=self.views) if self.spool.count_pending() else 0


# Records of one call that the log holds already. A record and the state that names it cannot be written as one, so the
# record comes first, and whoever repeats the step looks at the end of the log. A step is repeated at once, by the
# process that answers in place of the one that died.


class RecordedCall(Struct, frozen=True):
    """The call of a record."""

    id: str = ""
    name: str = ""
    arguments_sha256: str = ""


class RecordedResult(Struct, frozen=True):
    """The result of a record; `missing` where the end of the call was never reported."""

    ok: bool | None = None
    exit_code: int | None = None
    missing: bool = False


class CallRecordView(Struct, frozen=True):
    """The part of a record that tells which call it is about."""

    event: str = ""
    session_id: str | None = None
    agent_id: str = ""
    call: RecordedCall = RecordedCall()
    result: RecordedResult = RecordedResult()

    @property
    def event_name(self) -> str:
        return "no_result" if self.result.missing else self.event

    def is_about(self, call: ToolCall) -> bool:
        key = (self.session_id, self.agent_id, self.call.id, self.call.name, self.call.arguments_sha256)
        return key == (call.session.session_id, call.session.agent_id, call.call_id, call.tool, call.arguments_sha256)


class CallRecordLine(RecordLine[CallRecordView]):
    """The same, with the record's time."""

    timestamp: str = ""


CALL_DECODER = msgspec.json.Decoder(prepare_type(CallRecordLine))


def decode_call_records(lines: Iterable[bytes]) -> list[CallRecordLine]:
    found: list[CallRecordLine] = []
    for line in lines:
        try:
            found.append(CALL_DECODER.decode(line))
        except DECODE_ERRORS:
            continue
    return found


RESULT_EVENTS = frozenset({"tool_result", "no_result"})
"""Events that end a call: with a result, or with the record that none was ever reported."""


def find_recorded_events(
    recorder: Recorder, call: ToolCall, since: tuple[str, int] = ("", 0), *, resumed: bool = False
) -> dict[str, str]:
    """Return the events at the end of the log about this call, from its last `tool_use` on, with their times; `since`
    is a place in the log that comes after that. Raises OSError.

    Some agents use an id again: a call with other arguments, or one that was used anew, is another call.
    """
    if not call.call_id:
        return {}
    name = msgspec.json.encode(call.call_id)
    tail = recorder.log.read_end(RESUMED_TAIL_BYTES if resumed else TAIL_BYTES, since)
    if tail.rfind(name) < 0:
        return {}
    events: dict[str, str] = {}
    first = tail.find(name)
    lines = tail[tail.rfind(b"\n", 0, first) + 1 :].split(b"\n")
    for found in decode_call_records(line for line in lines if name in line):
        view = found.metadata.body
        if view.is_about(call):
            events = {} if view.event == "tool_use" else events
            events[view.event_name] = found.timestamp
    return events


# Long records


def split_records(records: Iterable[Record]) -> list[Record]:
    found: list[Record] = []
    for record in records:
        if encoded_size(record) <= MAX_RECORD_BYTES:
            found.append(record)
            continue
        files = record.body.files
        if isinstance(files, UnsetType) or not files:
            found.append(cut_record(record))
            continue
        room = MAX_RECORD_BYTES - encoded_size(cut_record(make_part(record, (), (), 1, 1)))
        published = {one.path: one for one in record.files}
        groups = list(group_files([shrink_file((file, published.get(file.path)), room) for file in files], room))
        for number, group in enumerate(groups, 1):
            mutated, traced = zip(*group, strict=True)
            part = make_part(record, mutated, tuple(one for one in traced if one is not None), number, len(groups))
            found.append(part if encoded_size(part) <= MAX_RECORD_BYTES else cut_record(part))
    return found


def encoded_size(part: object) -> int:
    return len(msgspec.json.encode(part))


FilePair = tuple[MutatedFile, TracedFile | None]


def group_files(found: Sequence[FilePair], room: int) -> Iterator[list[FilePair]]:
    """Yield groups of files that have room on a line; each path is counted twice, since the call names it too."""
    group: list[FilePair] = []
    left = room
    for pair in found:
        needs = encoded_size(pair) + encoded_size(pair[0].path) + 2
        if group and needs > left:
            yield group
            group, left = [], room
        group.append(pair)
        left -= needs
    yield group


def make_part(
    record: Record, files: tuple[MutatedFile, ...], traced: tuple[TracedFile, ...], number: int, count: int
) -> Record:
    body, call = record.body, record.body.call
    every, names = body.files or (), {file.path for file in files}
    detail = dict(body.detail or {})
    if count > 1 or not files:
        detail["part"] = {"first": record.id, "number": number, "of": count}
        if any(map(is_deletion, every)) and not any(map(is_deletion, files)):
            detail["took_away"] = True
    if call and call.paths:
        own = {file.path for file in every}
        call = replace(call, paths=tuple(path for path in call.paths if path in names or path not in own))
    in_scope = body.in_scope
    if isinstance(in_scope, bool) and files:
        in_scope = all(file.in_scope is not False for file in files)
    body = replace(body, files=files, call=call, detail=detail or UNSET, in_scope=in_scope)
    return replace(record, id=derive_part_id(record.id, number), body=body, files=traced)


def is_deletion(file: MutatedFile) -> bool:
    return file.after is UNSET and file.before is not UNSET


def shrink_file(pair: FilePair, room: int) -> FilePair:
    """Return a file cut to the length of a line; readers find the rest through the blobs.

    Unproved lines never become the call's own: too many unproved ranges make the whole file unproved.
    """
    file, traced = pair
    if encoded_size(pair) <= room // 2:
        return pair
    if traced is not None:
        file = replace(file, ranges=UNSET)
    if file.unproved and len(file.unproved) > MAX_UNPROVED:
        file = replace(file, unproved=((1, max(end for _, end in file.unproved)),))
    if encoded_size((file, traced)) <= room // 2:
        return file, traced
    file = replace(file, hunks=UNSET, ranges=file.ranges and file.ranges[:MAX_UNPROVED])
    if traced is not None and traced.conversations:
        spoken = (replace(one, ranges=one.ranges and one.ranges[:MAX_UNPROVED]) for one in traced.conversations)
        traced = replace(traced, conversations=tuple(spoken))
    return file, traced


def cut_record(record: Record) -> Record:
    body, entries, chars = record.body, MAX_ENTRIES, MAX_CHARS
    while True:
        call, detail = body.call, body.detail or {}
        if call and call.paths and len(call.paths) > entries:
            detail = {**detail, **count_entries("call_paths", call.paths)}
            call = replace(call, paths=call.paths[:entries])
        shorter = replace(
            body,
            call=call,
            detail=shorten_value(detail, entries, chars) if detail else UNSET,
            violation=body.violation and shorten_value(body.violation, entries, chars),
            result=body.result and shorten_value(body.result, entries, chars),
        )
        part = replace(record, body=shorter)
        if encoded_size(part) <= MAX_RECORD_BYTES or entries <= 1:
            return part
        entries, chars = entries // 2, chars // 2


def shorten_value(value: Any, entries: int, chars: int) -> Any:
    match value:
        case str():
            return value if len(value) <= chars else f"{value[:chars]}…"
        case list() | tuple():
            return [shorten_value(one, entries, chars) for one in cast("list[Any]", value)[:entries]]
        case dict():
            table = cast("dict[str, Any]", value)
            short = {key: shorten_value(table[key], entries, chars) for key in list(table)[:entries]}
            for key in list(short):
                if isinstance(table[key], list | tuple | dict) and len(table[key]) > entries:
                    short |= count_entries(key, table[key])
            return short
        case _:
            return value


def count_entries(name: str, entries: Any) -> dict[str, Any]:
    digest = sha256(msgspec.json.encode(entries, order="sorted"))
    return {f"{name}_count": len(entries), f"{name}_digest": f"sha256:{digest}"}

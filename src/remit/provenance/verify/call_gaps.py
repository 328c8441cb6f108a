"""Gaps in the records of calls: results without a decision, calls only in a transcript, and doubled records.

A record names its call by the id from the agent's hooks. Sessions of agents without ids in hooks, or with ids different
from the transcript's, are left out, and a transcript's calls before the session's first call here too. A transcript may
also name calls recorded in a different repository.
"""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from msgspec import Struct

from remit.adapters.transcripts import TranscriptEntry, read_entries
from remit.ledger.index.index import Index
from remit.provenance.blame.blamed_line import body_of
from remit.workspace.agents.transcripts import ReadPosition, find_transcript, read_lines_after

MAX_RECORDS = 5000  # records of each kind that are read, newest first
DECISIONS = ("tool_use", "denied")
RESULT = "tool_result"
CALL_EVENTS = (*DECISIONS, RESULT)


class RecordedCalls(Struct):
    """The calls that records name, since `since`, by (session, call id)."""

    since: str
    times: dict[str, Counter[tuple[str, str]]]
    """How often an event names a call, by event."""
    sessions: dict[tuple[str, str], str]
    """When a session (agent, id) has its first call with an id."""

    def has_call(self, session_id: str, call_id: str) -> bool:
        return any((session_id, call_id) in found for found in self.times.values())


class CallGaps(Struct, frozen=True):
    """The gaps, each call as `tool id`, or its id. `call_count` is the number of calls in the transcripts."""

    undecided: tuple[str, ...] = ()
    unrecorded: tuple[str, ...] = ()
    doubled: tuple[str, ...] = ()
    call_count: int = 0
    is_cut: bool = False
    """Whether time was up before each transcript was read."""


def find_call_gaps(
    index: Index,
    reported: Mapping[str, Sequence[Path]],
    home: Path,
    since: str,
    until: str,
    is_time_up: Callable[[], bool],
) -> CallGaps:
    """Return the gaps between two times. `reported` are the transcripts of a session named by the agent; `home` is
    searched for the rest. The index has to be current.
    """
    recorded, undecided = read_recorded_calls(index, since)
    unrecorded: list[str] = []
    count = 0
    for (agent, session_id), first in recorded.sessions.items():
        usual = find_transcript(home, agent, session_id)
        paths = {*reported.get(session_id, ()), *((usual,) if usual else ())}
        read = (entry for path in sorted(paths) for entry in read_tool_calls(agent, path, is_time_up))
        calls = [entry for entry in read if entry.call_id and first <= entry.at < until]
        missing = [call for call in calls if not recorded.has_call(session_id, call.call_id)]
        # Where none is recorded, the agent's hooks name calls by other ids than its transcript.
        if len(missing) < len(calls):
            count += len(calls)
            unrecorded += [f"{call.tool} {call.call_id}" for call in missing]
    doubled = {id: None for found in recorded.times.values() for (_, id), number in found.items() if number > 1}
    return CallGaps(undecided, tuple(unrecorded), tuple(doubled), count, is_time_up())


def read_tool_calls(agent: str, path: Path, is_time_up: Callable[[], bool]) -> Iterator[TranscriptEntry]:
    for read in read_lines_after(path, ReadPosition())[1]:
        if is_time_up():
            return
        yield from (entry for entry in read_entries(agent, read.line) if entry.role == "tool_call")


def read_recorded_calls(index: Index, since: str) -> tuple[RecordedCalls, tuple[str, ...]]:
    found = {event: index.find(event=event, since=since, limit=MAX_RECORDS) for event in CALL_EVENTS}
    # Of a kind with too many records, the oldest are unknown: nothing before them is judged.
    cut = [str(documents[-1]["timestamp"]) for documents in found.values() if len(documents) == MAX_RECORDS]
    recorded = RecordedCalls(max([since, *cut]), {event: Counter() for event in CALL_EVENTS}, {})
    tools: dict[tuple[str, str], str] = {}
    for event, documents in found.items():
        for document in documents:
            at, body = str(document["timestamp"]), body_of(document)
            call: Mapping[str, Any] = body.get("call", {})
            session_id = str(body.get("session_id"))
            if "id" not in call or at < recorded.since:
                continue
            recorded.times[event][session_id, str(call["id"])] += 1
            tools[session_id, str(call["id"])] = str(call.get("name", ""))
            session = str(document.get("tool", {}).get("name", "")), session_id
            recorded.sessions[session] = min(at, recorded.sessions.get(session, at))
    # A call that began before `since` has its decision there.
    began = {key for event in DECISIONS for key in recorded.times[event]}
    suspects = [key for key in recorded.times[RESULT] if key not in began]
    decided = {session_id: find_decided_calls(index, session_id) for session_id in {key[0] for key in suspects}}
    undecided = (key for key in suspects if key[1] not in decided[key[0]])
    return recorded, tuple(f"{tools[key]} {key[1]}" for key in undecided)


def find_decided_calls(index: Index, session_id: str) -> set[str]:
    documents = (d for event in DECISIONS for d in index.find(event=event, session_id=session_id, limit=MAX_RECORDS))
    return {str(body_of(document).get("call", {}).get("id")) for document in documents}

"""A governed repository with one long session, of real records in a real log."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from gate.driving import governed, machine
from remit.core.record import Body, CallPart, Content, DecisionPart, MutatedFile, Record
from remit.gate.gate import Gate
from remit.gate.records.recorder import Recorder
from remit.workspace.place.workspace import locate_workspace, register_repository, workspace_at

SESSION = "long-session"
BATCH = 250


def make_long_session(root: Path, home: Path, events: int, session: str = SESSION) -> None:
    """Govern the repository and append that many records of a session."""
    governed(root)
    register_repository(home, workspace_at(root, root))
    append_events(root, home, events, session)


def append_events(root: Path, home: Path, events: int, session: str = SESSION, start: int = 0) -> None:
    gate = Gate(locate_workspace(root), machine(home))
    records = make_records(gate.recorder, events, session, start)
    batch: list[Record] = []
    for record in records:
        batch.append(record)
        if len(batch) == BATCH:
            gate.recorder.append_or_spool(batch)
            batch = []
    if batch:
        gate.recorder.append_or_spool(batch)
    gate.close()


def make_records(recorder: Recorder, events: int, session: str, start: int) -> Iterator[Record]:
    for number in range(start, start + events):
        yield recorder.make_record(make_body(number, session), "claude-code")


def make_body(number: int, session: str) -> Body:
    common: dict[str, Any] = {"intent_id": "INT-001", "session_id": session}
    call_id = f"toolu_{number // 3}"
    write = CallPart(id=call_id, name="Edit", effect="write", paths=(f"src/module_{number % 40}.py",))
    match number % 12:
        case 0 | 3 | 6:
            return Body(event="tool_use", call=write, decision=DecisionPart(effect="allow"), **common)
        case 1 | 4 | 7:
            side = Content(sha256="0" * 64, git_blob="0" * 40, lines=40)
            hunks = ((3, number % 5, 3, number % 7),)
            file = MutatedFile(path=f"src/module_{number % 40}.py", operation="modify", after=side, hunks=hunks)
            return Body(event="mutation", call=write, files=(file,), **common)
        case 9:
            command = CallPart(id=call_id, name="Bash", effect="execute", command=f"git push --force # {number}")
            violation = {"error_type": "COMMAND_BLOCKED", "message": "not allowed"}
            return Body(event="denied", call=command, violation=violation, **common)
        case 10:
            command = CallPart(id=call_id, name="Bash", effect="execute", command=f"pytest -q tests/{number}")
            return Body(event="tool_use", call=command, decision=DecisionPart(effect="contain"), **common)
        case _:
            detail: dict[str, Any] = {"ok": True}
            return Body(event="tool_result", call=write, result=detail, duration_ms=number % 900, **common)

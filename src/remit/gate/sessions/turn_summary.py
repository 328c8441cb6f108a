"""One-line summary for a person at the end of a turn: changed files, their scope, and a proposed intent."""

import json
import sqlite3
from collections.abc import Sequence
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from posixpath import dirname
from typing import Any

import msgspec
from msgspec import Struct

from remit.core.call import SessionKey
from remit.core.display_text import sanitise_line
from remit.core.record import KEY
from remit.core.secrets.redaction import redact
from remit.gate.answer import RECORDING_ERRORS, join_lines
from remit.gate.context import WorkspaceContext
from remit.gate.rules.trust import describe_untrusted, find_untrusted, untrusted_notice_once
from remit.ledger.index.index import open_index
from remit.workspace.agents.transcripts import ReadPosition, find_transcript, read_lines_after

TURNS_FACT = "turns_told"
MAX_SESSIONS = 64
"""Remembered sessions; an older session is told about every change again."""

MAX_RECORDS = 500
MAX_NAMED_PATHS = 3

MAX_NAME_CHARS = 80
"""Characters of a proposed name."""

MAX_TRANSCRIPT_LINES = 200
"""Transcript lines that are searched: the first prompt stands near the beginning."""


class ChangedFile(Struct, frozen=True):
    """File changed in a turn. `in_scope` is None without an intent."""

    path: str
    in_scope: bool | None = None


def summarize_turn(context: WorkspaceContext, session: SessionKey) -> str:
    """Describe the changes since the last turn; "" for none or for a sub-agent. Never raises."""
    if session.agent_id:
        return ""
    with suppress(*RECORDING_ERRORS, sqlite3.Error):
        return join_lines(summarize_changes(context, session), describe_untrusted_commands(context, session))
    return ""


def summarize_changes(context: WorkspaceContext, session: SessionKey) -> str:
    """Return the summary and remember the time. Raises the errors in RECORDING_ERRORS, sqlite3.Error."""
    text = context.state.read_fact(TURNS_FACT)
    told = msgspec.convert(json.loads(text), dict[str, str]) if text else {}
    since = told.pop(session.session_id, None)

    workspace = context.workspace
    with open_index(workspace.state, workspace.log_folder) as index:
        found = index.find(event="mutation", session_id=session.session_id, since=since, limit=MAX_RECORDS)
    bodies: list[dict[str, Any]] = [document["metadata"][KEY] for document in found]
    files = {file.path: file for body in reversed(bodies) for file in read_changed_files(body)}
    if not files:
        return ""

    now = datetime.fromtimestamp(context.environment.clock(), UTC).isoformat(timespec="microseconds")
    told[session.session_id] = now.replace("+00:00", "Z")
    context.state.put_fact(TURNS_FACT, json.dumps(dict([*told.items()][-MAX_SESSIONS:])))
    intent_id = bodies[0].get("intent_id")
    proposal = "" if since or intent_id else propose_intent(context, session.session_id)
    return describe_changes(list(files.values()), intent_id) + proposal


def read_changed_files(body: dict[str, Any]) -> list[ChangedFile]:
    has_scope = body.get("intent_id") is not None
    return [
        ChangedFile(str(f["path"]), bool(f.get("in_scope", True)) if has_scope else None) for f in body.get("files", [])
    ]


def describe_untrusted_commands(context: WorkspaceContext, session: SessionKey) -> str:
    """Return the notice of untrusted commands once for a session in observe; the model gets none there.

    Raises the errors in RECORDING_ERRORS.
    """
    rules = context.rules
    if rules.mode != "observe":
        return ""
    found = find_untrusted(rules, context.recorder)
    line = describe_untrusted(found)
    if not line or not untrusted_notice_once(found, context.state, session):
        return ""
    return f"Remit: {line}; `remit trust` shows them"


def describe_changes(files: Sequence[ChangedFile], intent_id: str | None) -> str:
    """Return the summary. Without a scope, files outside the folder with the most files count as elsewhere."""
    outside = [f.path for f in files if f.in_scope is False]
    inside = [f.path for f in files if f.in_scope is not False]
    folder = find_main_folder(inside)
    elsewhere = [path for path in inside if not path.startswith(f"{folder}/")]
    counted = f"{len(files)} file{'s' if len(files) > 1 else ''} changed"
    whose = f" for {intent_id}" if intent_id else ""
    near = len(inside) - len(elsewhere)
    parts = [f"{near if elsewhere or outside else 'all'} under {sanitise_line(folder, 120)}"] if folder and near else []
    parts += [f"{len(elsewhere)} elsewhere: {format_paths(elsewhere)}"] if elsewhere and folder else []
    parts += [f"{len(outside)} outside the scope: {format_paths(outside)}"] if outside else []
    return f"Remit: {', '.join([counted + whose, *parts])}"


def find_main_folder(paths: Sequence[str]) -> str:
    """Return the deepest folder with more than half of the paths; "" for the root or a single file."""
    counts: dict[str, int] = {}
    for path in paths:
        folder = dirname(path)
        while folder:
            counts[folder] = counts.get(folder, 0) + 1
            folder = dirname(folder)
    most = [folder for folder, count in counts.items() if count * 2 > len(paths)]
    return max(most, key=lambda folder: folder.count("/"), default="")


def format_paths(paths: Sequence[str]) -> str:
    more = f" and {len(paths) - MAX_NAMED_PATHS} more" if len(paths) > MAX_NAMED_PATHS else ""
    return ", ".join(sanitise_line(path, 120) for path in paths[:MAX_NAMED_PATHS]) + more


# -- proposing an intent ------------------------------------------------------------------------------------


def propose_intent(context: WorkspaceContext, session_id: str) -> str:
    """Return the command that turns this work into an intent, unless enforced already."""
    if context.rules.mode == "enforce":
        return ""
    name = propose_intent_name(context, session_id)
    named, given = (f" as {name!r}", "") if name else ("", "NAME ")
    command = f"remit intent new {given}--from-session {sanitise_line(session_id)}"
    return f". No intent yet; to make one of this work{named}: {command}"


def propose_intent_name(context: WorkspaceContext, session_id: str) -> str:
    """Return a name from a session's first prompt, without secrets; "" without a transcript.

    Raises StateError.
    """
    for key, (agent, path) in context.state.list_transcripts(session_id).items():
        if not key.agent_id:
            return make_intent_name(find_first_prompt(agent, Path(path)))
    session = next((k for k in context.state.list_recent_sessions() if k.session_id == session_id), None)
    known = context.state.find_session(session) if session else None
    place = find_transcript(context.environment.home, known.agent, session_id) if known else None
    return make_intent_name(find_first_prompt(known.agent, place)) if known and place else ""


def find_first_prompt(agent: str, path: Path) -> str:
    """Return the person's first prompt in a transcript, without the client's own preamble."""
    # For start-up speed: only the end of a session's first turn needs one of the six transcript readers.
    from remit.adapters.transcripts import read_entries

    _, chunks = read_lines_after(path, ReadPosition())
    for number, chunk in enumerate(chunks):
        if number >= MAX_TRANSCRIPT_LINES:
            return ""
        for entry in read_entries(agent, chunk.line):
            if entry.role == "user" and make_intent_name(entry.text):
                return entry.text
    return ""


def make_intent_name(prompt: str) -> str:
    """Return the prompt's first meaningful line: no client tag, no heading signs, no secret, bounded."""
    lines = (line.strip().lstrip("#>*- ").strip() for line in redact(prompt[:4096]).splitlines())
    line = next((line for line in lines if line and not line.startswith("<")), "")
    return sanitise_line(line, MAX_NAME_CHARS)

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
from remit.gate.rules.trust import describe_untrusted, untrusted_notice_once
from remit.gate.state.workspace_state import State
from remit.ledger.index.index import Index
from remit.workspace.agents.transcripts import ReadPosition, find_transcript, read_lines_after

MAX_NAME_CHARS = 80
"""Characters of a proposed name."""

MAX_TRANSCRIPT_LINES = 200
"""Transcript lines that are searched: the first prompt stands near the beginning."""


def propose_intent_name(site: WorkspaceContext, session_id: str) -> str:
    """Return a name from a session's first prompt, without secrets; "" without a transcript.

    Raises StateError.
    """
    for key, (agent, path) in site.state.list_transcripts(session_id).items():
        if not key.agent_id:
            return make_intent_name(find_first_prompt(agent, Path(path)))
    session = next((k for k in site.state.list_recent_sessions() if k.session_id == session_id), None)
    known = site.state.find_session(session) if session else None
    place = find_transcript(site.environment.home, known.agent, session_id) if known else None
    return make_intent_name(find_first_prompt(known.agent, place)) if known and place else ""


def find_first_prompt(agent: str, path: Path) -> str:
    """Return the person's first prompt in a transcript, without the client's own preamble."""
    # For start-up speed: six readers of transcripts, and only the end of a session's first turn needs one.
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


TURNS_FACT = "turns_told"
MAX_SESSIONS = 64
"""Remembered sessions; an older session is told about every change again."""

MAX_RECORDS = 500
MAX_NAMED_PATHS = 3


class ChangedFile(Struct, frozen=True):
    """File changed in a turn. `in_scope` is None without an intent."""

    path: str
    in_scope: bool | None = None


class TurnSummaries:
    """Turn summaries of one workspace."""

    def __init__(self, site: WorkspaceContext) -> None:
        self.site = site

    def summarize_turn(self, session: SessionKey) -> str:
        """Describe the changes since the last turn; "" for none or for a sub-agent. Never raises."""
        if session.agent_id:
            return ""
        with suppress(*RECORDING_ERRORS, sqlite3.Error):
            return join_lines(self.summarize_changes(session), self.describe_untrusted(session))
        return ""

    def describe_untrusted(self, session: SessionKey) -> str:
        """Return the notice of untrusted commands once for a session in observe; the model gets none there.

        Raises the errors in RECORDING_ERRORS.
        """
        if self.site.rules.mode != "observe":
            return ""
        found = self.site.untrusted_commands
        line = describe_untrusted(found)
        return (
            f"Remit: {line}; `remit trust` shows them"
            if line and untrusted_notice_once(found, self.site.state, session)
            else ""
        )

    def summarize_changes(self, session: SessionKey) -> str:
        """Return the summary and remember the time. Raises the errors in RECORDING_ERRORS, sqlite3.Error."""
        state, now = self.site.state, format_timestamp(self.site.environment.clock())
        before = read_summary_times(state)
        since = before.get(session.session_id)
        files, intent_id = self.find_changed_files(session.session_id, since)
        if not files:
            return ""
        known = {name: at for name, at in before.items() if name != session.session_id}
        kept = dict([*known.items(), (session.session_id, now)][-MAX_SESSIONS:])
        state.put_fact(TURNS_FACT, json.dumps(kept))
        return describe_changes(files, intent_id) + (
            "" if since or intent_id else self.propose_intent(session.session_id)
        )

    def find_changed_files(self, session_id: str, since: str | None) -> tuple[list[ChangedFile], str | None]:
        """Return the files changed by the session since then, and the newest record's intent."""
        workspace = self.site.workspace
        with Index.open(workspace.state / "index.db", workspace.log_folder) as index:
            found = index.find(event="mutation", session_id=session_id, since=since, limit=MAX_RECORDS)
        bodies: list[dict[str, Any]] = [document["metadata"][KEY] for document in found]
        files = {file.path: file for body in reversed(bodies) for file in read_changed_files(body)}
        return list(files.values()), bodies[0].get("intent_id") if bodies else None

    def propose_intent(self, session_id: str) -> str:
        """Return the command that turns this work into an intent, unless enforced already."""
        if self.site.rules.mode == "enforce":
            return ""
        name = propose_intent_name(self.site, session_id)
        named, given = (f" as {name!r}", "") if name else ("", "NAME ")
        command = f"remit intent new {given}--from-session {sanitise_line(session_id)}"
        return f". No intent yet; to make one of this work{named}: {command}"


def format_timestamp(now: float) -> str:
    return datetime.fromtimestamp(now, UTC).isoformat(timespec="microseconds").replace("+00:00", "Z")


def read_summary_times(state: State) -> dict[str, str]:
    text = state.read_fact(TURNS_FACT)
    return msgspec.convert(json.loads(text), dict[str, str]) if text else {}


def read_changed_files(body: dict[str, Any]) -> list[ChangedFile]:
    known = body.get("intent_id") is not None
    return [
        ChangedFile(str(f["path"]), bool(f.get("in_scope", True)) if known else None) for f in body.get("files", [])
    ]


def describe_changes(files: Sequence[ChangedFile], intent_id: str | None) -> str:
    """Return the summary. Without a scope, files outside the folder with the most files count as elsewhere."""
    outside = [f.path for f in files if f.in_scope is False]
    inside = [f.path for f in files if f.in_scope is not False]
    folder = find_main_folder(inside)
    beside = [path for path in inside if not is_inside(path, folder)]
    counted = f"{len(files)} file{'s' if len(files) > 1 else ''} changed"
    whose = f" for {intent_id}" if intent_id else ""
    near = len(inside) - len(beside)
    parts = [f"{near if beside or outside else 'all'} under {sanitise_line(folder, 120)}"] if folder and near else []
    parts += [f"{len(beside)} elsewhere: {format_paths(beside)}"] if beside and folder else []
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


def is_inside(path: str, folder: str) -> bool:
    return path.startswith(f"{folder}/")


def format_paths(paths: Sequence[str]) -> str:
    more = f" and {len(paths) - MAX_NAMED_PATHS} more" if len(paths) > MAX_NAMED_PATHS else ""
    return ", ".join(sanitise_line(path, 120) for path in paths[:MAX_NAMED_PATHS]) + more

"""The one line that a person reads when an agent stops: what changed in this turn, and whether that was in scope."""

import json
import sqlite3
from collections.abc import Sequence
from contextlib import suppress
from datetime import UTC, datetime
from posixpath import dirname
from typing import Any

import msgspec
from msgspec import Struct

from remit.core.call import SessionKey
from remit.core.record import KEY
from remit.core.text import shown
from remit.gate.answer import CannotRecord, joined
from remit.gate.proposing import proposed_name
from remit.gate.site import Site
from remit.gate.state import State
from remit.gate.trusting import notice_once, untrusted_line
from remit.ledger.index import Index

FACT = "turns_told"
SESSIONS = 64
"""So many sessions are remembered by when they were told last; an older one is told of all its changes again."""

RECORDS = 500
NAMED = 3


class Changed(Struct, frozen=True):
    """A file that a turn changed. `in_scope` is None where no intent says what the scope is."""

    path: str
    in_scope: bool | None = None


class Turns:
    """The turns of the sessions of one workspace."""

    def __init__(self, site: Site) -> None:
        self.site = site

    def line(self, session: SessionKey) -> str:
        """What changed since the last turn's end; empty where nothing did, or for a sub-agent. Never raises."""
        if session.agent_id:
            return ""
        with suppress(*CannotRecord, sqlite3.Error):
            return joined(self.told(session), self.notice_untrusted(session))
        return ""

    def notice_untrusted(self, session: SessionKey) -> str:
        """The notice of untrusted commands, once for a session, in observe: there the model is told nothing of it.

        Raises what CannotRecord names.
        """
        if self.site.governing.mode != "observe":
            return ""
        found = self.site.untrusted
        line = untrusted_line(found)
        return (
            f"Remit: {line}; `remit trust` shows them" if line and notice_once(found, self.site.state, session) else ""
        )

    def told(self, session: SessionKey) -> str:
        """The line, remembered as told. Raises what CannotRecord names, sqlite3.Error."""
        state, now = self.site.state, moment(self.site.environment.clock())
        before = told_at(state)
        since = before.get(session.session_id)
        files, intent_id = self.changed(session.session_id, since)
        if not files:
            return ""
        known = {name: at for name, at in before.items() if name != session.session_id}
        kept = dict([*known.items(), (session.session_id, now)][-SESSIONS:])
        state.put_fact(FACT, json.dumps(kept))
        return in_words(files, intent_id) + ("" if since or intent_id else self.proposal(session.session_id))

    def changed(self, session_id: str, since: str | None) -> tuple[list[Changed], str | None]:
        """The files that the session's records since then name, each once, and the intent of the newest."""
        workspace = self.site.workspace
        with Index.open(workspace.state / "index.db", workspace.log_folder) as index:
            found = index.find(event="mutation", session_id=session_id, since=since, limit=RECORDS)
        bodies: list[dict[str, Any]] = [document["metadata"][KEY] for document in found]
        files = {file.path: file for body in reversed(bodies) for file in files_of(body)}
        return list(files.values()), bodies[0].get("intent_id") if bodies else None

    def proposal(self, session_id: str) -> str:
        """How this work becomes an intent, where nothing enforces one yet."""
        if self.site.governing.mode == "enforce":
            return ""
        name = proposed_name(self.site, session_id)
        named, given = (f" as {name!r}", "") if name else ("", "NAME ")
        command = f"remit intent new {given}--from-session {shown(session_id)}"
        return f". No intent yet; to make one of this work{named}: {command}"


def moment(now: float) -> str:
    """A time as records have it."""
    return datetime.fromtimestamp(now, UTC).isoformat(timespec="microseconds").replace("+00:00", "Z")


def told_at(state: State) -> dict[str, str]:
    """When each session was told last."""
    text = state.fact(FACT)
    return msgspec.convert(json.loads(text), dict[str, str]) if text else {}


def files_of(body: dict[str, Any]) -> list[Changed]:
    """The files of one record."""
    known = body.get("intent_id") is not None
    return [Changed(str(f["path"]), bool(f.get("in_scope", True)) if known else None) for f in body.get("files", [])]


def in_words(files: Sequence[Changed], intent_id: str | None) -> str:
    """The line. Without a scope, what does not lie in the folder that holds most of the files is elsewhere."""
    outside = [f.path for f in files if f.in_scope is False]
    inside = [f.path for f in files if f.in_scope is not False]
    folder = main_folder(inside)
    beside = [path for path in inside if not below(path, folder)]
    counted = f"{len(files)} file{'s' if len(files) > 1 else ''} changed"
    whose = f" for {intent_id}" if intent_id else ""
    near = len(inside) - len(beside)
    parts = [f"{near if beside or outside else 'all'} under {shown(folder, 120)}"] if folder and near else []
    parts += [f"{len(beside)} elsewhere: {listed(beside)}"] if beside and folder else []
    parts += [f"{len(outside)} outside the scope: {listed(outside)}"] if outside else []
    return f"Remit: {', '.join([counted + whose, *parts])}"


def main_folder(paths: Sequence[str]) -> str:
    """The deepest folder that holds more than half of these; empty where that is the root, or there is one file."""
    counts: dict[str, int] = {}
    for path in paths:
        folder = dirname(path)
        while folder:
            counts[folder] = counts.get(folder, 0) + 1
            folder = dirname(folder)
    most = [folder for folder, count in counts.items() if count * 2 > len(paths)]
    return max(most, key=lambda folder: folder.count("/"), default="")


def below(path: str, folder: str) -> bool:
    """Whether the path lies in the folder."""
    return path.startswith(f"{folder}/")


def listed(paths: Sequence[str]) -> str:
    """The first of these, for people."""
    more = f" and {len(paths) - NAMED} more" if len(paths) > NAMED else ""
    return ", ".join(shown(path, 120) for path in paths[:NAMED]) + more

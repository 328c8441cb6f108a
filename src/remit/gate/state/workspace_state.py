"""What must outlive a process but is no record: sessions, what they have read, calls under way.

One SQLite file for each repository, shared by all its worktrees; rows name the workspace they belong to.
"""

import json

import msgspec
from msgspec import Struct

from remit.core.call import Effect, SessionKey
from remit.core.diff.contents import ContentVersion
from remit.core.display_text import escape_surrogates, quote_path
from remit.gate.state.database import StateDatabase

FIND_BY_ID = (
    "SELECT id, before FROM calls WHERE call_id=? AND workspace=? AND session_id=? AND agent_id=? ORDER BY id LIMIT 1"
)
"""The call that came back, where its agent gave it an id."""

FIND_BY_ARGUMENTS = (
    "SELECT id, before FROM calls WHERE workspace=? AND session_id=? AND agent_id=? AND tool=? AND arguments_sha256=?"
    " ORDER BY CASE WHEN call_id='' THEN -id ELSE id END LIMIT 1"
)


class SessionState(Struct, frozen=True):
    """One session as it is known. `told` is the hash of the last context block that reached it."""

    agent: str = ""
    model: str | None = None
    intent_id: str | None = None
    source: str = ""
    told: str = ""


class PendingCall(Struct, frozen=True):
    """A call that was let through and has not come back. `head` and `before` are the observation before it.

    `owned_scope` is what its intent owned then: a call that widens the scope does not judge itself by it.
    """

    intent_id: str | None
    verdict: str
    mode: str
    rules: tuple[str, ...]
    judged: tuple[str, ...]
    whole: bool
    head: str | None
    before: dict[str, ContentVersion | None]
    intent_sha256: str = ""
    agent: str = ""
    effect: Effect = "execute"
    transcript: str | None = None
    owned_scope: tuple[str, ...] = ()
    known_commits: tuple[str, ...] = ()
    writes: tuple[str, ...] | None = None
    """All that a command writes, where its text tells; None where it does not."""
    announced: dict[str, str] = {}
    """By path, the git name of what a file tool is going to leave there, as far as its arguments tell."""
    grants: tuple[str, ...] = ()
    """The yeses that it was let through by."""
    snapshot: str = ""
    """The state of the files before it, where one was kept."""
    places: tuple[str, ...] = ()
    """The absolute paths that a file tool was judged for, links followed."""
    spelled: tuple[str, ...] = ()
    """The same paths as the call spells them, absolute, links not followed."""


class OpenCall(Struct, frozen=True):
    """A pending call with what it is known by. `at` is when it was let through."""

    row: int
    session: SessionKey
    call_id: str
    tool: str
    arguments_sha256: str
    at: float
    pending: PendingCall | None


class RemitCall(Struct, frozen=True):
    """A call to one of Remit's own tools, as the agent's hook announced it."""

    session: SessionKey
    agent: str


class State(StateDatabase):
    """The state of one workspace."""

    def find_session(self, key: SessionKey) -> SessionState | None:
        """What is known of this session; None where it was never heard of."""
        row = self.fetch_row(
            "SELECT agent, model, intent_id, source, told FROM sessions"
            " WHERE workspace=? AND session_id=? AND agent_id=?",
            *(self.workspace, key.session_id, key.agent_id),
        )
        return None if row is None else SessionState(*row)

    def active_session(self, key: SessionKey) -> SessionState:
        """The session with the intent it works under: a sub-agent inherits until it selects its own."""
        own = self.find_session(key)
        if key.parent is None or (own is not None and own.source not in ("", "parent")):
            return own or SessionState()
        own, parent = own or SessionState(), self.find_session(key.parent) or SessionState()
        return SessionState(
            agent=own.agent or parent.agent,
            model=own.model or parent.model,
            intent_id=parent.intent_id,
            source="parent",
            told=own.told,
        )

    def put_session(self, key: SessionKey, session: SessionState, at: float) -> None:
        """Remember this session as it now is."""
        with self.transaction() as connection:
            connection.execute(
                "INSERT OR REPLACE INTO sessions VALUES(?,?,?,?,?,?,?,?,?)",
                (
                    *(self.workspace, key.session_id, key.agent_id),
                    *(session.agent, session.model, session.intent_id, session.source, session.told, at),
                ),
            )

    def put_transcript(self, key: SessionKey, agent: str, path: str) -> None:
        """Where this session's conversation is written down, as its agent says; written where that is news."""
        here, said = (self.workspace, key.session_id, key.agent_id), (agent, escape_surrogates(path))
        known = self.fetch_row(
            "SELECT agent, path FROM transcripts WHERE workspace=? AND session_id=? AND agent_id=?", *here
        )
        if known == said:
            return
        with self.transaction() as connection:
            connection.execute("INSERT OR REPLACE INTO transcripts VALUES(?,?,?,?,?)", (*here, *said))

    def list_transcripts(self, session_id: str | None = None) -> dict[SessionKey, tuple[str, str]]:
        """(agent, path) of the transcripts of a session and its sub-agents; of every session where none is named."""
        rows = self.fetch_rows(
            "SELECT session_id, agent_id, agent, path FROM transcripts WHERE workspace=? AND ifnull(session_id=?, 1)",
            *(self.workspace, session_id),
        )
        return {SessionKey(row[0], row[1]): (row[2], row[3]) for row in rows}

    def list_recent_sessions(self, limit: int = 20) -> list[SessionKey]:
        """The sessions heard of here, the newest first; sub-agents left out."""
        rows = self.fetch_rows(
            "SELECT session_id FROM sessions WHERE workspace=? AND agent_id='' ORDER BY seen_at DESC LIMIT ?",
            *(self.workspace, limit),
        )
        return [SessionKey(row[0]) for row in rows]

    def find_seen(self, key: SessionKey, path: str) -> tuple[str, str] | None:
        """(SHA-256, git blob) of what this session last read or wrote at `path`; a sub-agent's reads are its own."""
        row = self.fetch_row(
            "SELECT sha256, git_blob FROM reads WHERE workspace=? AND session_id=? AND agent_id=? AND path=?",
            *(self.workspace, key.session_id, key.agent_id, quote_path(path)),
        )
        return None if row is None else (row[0], row[1])

    def put_seen_files(self, key: SessionKey, versions: dict[str, ContentVersion | None]) -> None:
        """This session has now seen these contents; None forgets the path."""
        named = [((self.workspace, key.session_id, key.agent_id, quote_path(path)), v) for path, v in versions.items()]
        gone = [name for name, version in named if version is None]
        rows = [(*name, version.sha256, version.git_blob) for name, version in named if version is not None]
        if not named:
            return
        with self.transaction() as connection:
            connection.executemany("INSERT OR REPLACE INTO reads VALUES(?,?,?,?,?,?)", rows)
            connection.executemany(
                "DELETE FROM reads WHERE workspace=? AND session_id=? AND agent_id=? AND path=?", gone
            )

    def put_pending_call(
        self, key: SessionKey, call_id: str, tool: str, digest: str, call: PendingCall, at: float
    ) -> None:
        """A call is under way."""
        blob = encode_call(call)
        with self.transaction() as connection:
            connection.execute(
                "INSERT INTO calls(workspace, session_id, agent_id, call_id, tool, arguments_sha256, at, before)"
                " VALUES(?,?,?,?,?,?,?,?)",
                (self.workspace, key.session_id, key.agent_id, call_id, tool, digest, at, blob),
            )

    def find_pending_call(
        self, key: SessionKey, call_id: str, tool: str, digest: str
    ) -> tuple[int | None, PendingCall | None]:
        """The call that came back, with its row: by its id, else the oldest with the same tool and arguments.

        It is not forgotten here: `delete_call` does that, once its effects are recorded.
        """
        here = (self.workspace, key.session_id, key.agent_id)
        row = (
            self.fetch_row(FIND_BY_ID, call_id, *here)
            if call_id
            else self.fetch_row(FIND_BY_ARGUMENTS, *here, tool, digest)
        )
        return (None, None) if row is None else (row[0], decode_call(row[1]))

    def list_open_calls(self) -> list[OpenCall]:
        """Every call under way in this workspace, the oldest first."""
        rows = self.fetch_rows(
            "SELECT id, session_id, agent_id, call_id, tool, arguments_sha256, at, before FROM calls"
            " WHERE workspace=? ORDER BY id",
            self.workspace,
        )
        return [OpenCall(r[0], SessionKey(r[1], r[2]), r[3], r[4], r[5], r[6], decode_call(r[7])) for r in rows]

    def replace_pending_call(self, row: int, call: PendingCall) -> None:
        """What is known of a call under way is this from now on."""
        with self.transaction() as connection:
            connection.execute("UPDATE calls SET before=? WHERE id=?", (encode_call(call), row))

    def delete_call(self, row: int) -> bool:
        """Forget a call under way; False where somebody else did."""
        with self.transaction() as connection:
            return connection.execute("DELETE FROM calls WHERE id=?", (row,)).rowcount > 0

    def find_lease_holder(self, key: SessionKey, path: str, since: float) -> str | None:
        """The other session whose call, let through after `since`, may change `path`."""
        spelled = json.dumps(path).encode("ascii")
        rows = self.fetch_rows(
            "SELECT session_id, before FROM calls WHERE workspace=? AND at>? AND NOT (session_id=? AND agent_id=?)"
            " AND instr(before, ?) > 0 ORDER BY id",
            *(self.workspace, since, key.session_id, key.agent_id, spelled),
        )
        calls = ((row[0], decode_call(row[1])) for row in rows)
        return next((session for session, call in calls if call is not None and path in call.judged), None)

    def put_remit_call(self, call: RemitCall, call_id: str, digest: str, at: float) -> None:
        """A call to Remit's own tools was announced by the agent's hook."""
        key = call.session
        with self.transaction() as connection:
            connection.execute("DELETE FROM remit_calls WHERE at < ?", (at - 3600,))
            connection.execute(
                "INSERT INTO remit_calls(session_id, agent_id, agent, call_id, digest, at) VALUES(?,?,?,?,?,?)",
                (key.session_id, key.agent_id, call.agent, call_id, digest, at),
            )

    def take_remit_call(self, call_id: str, digest: str, since: float) -> RemitCall | None:
        """Whose call this is: by its id (and the same arguments), else by the arguments alone, oldest first."""
        with self.transaction() as connection:
            row = connection.execute(
                "SELECT id, session_id, agent_id, agent FROM remit_calls WHERE digest=? AND at>=?"
                " AND (?='' OR call_id=?) ORDER BY id LIMIT 1",
                (digest, since, call_id, call_id),
            ).fetchone()
            if row is None:
                return None
            connection.execute("DELETE FROM remit_calls WHERE id=?", (row[0],))
        return RemitCall(SessionKey(row[1], row[2]), row[3])

    def find_unkept(self, blobs: set[str]) -> set[str]:
        """Those of these git names whose content was not kept yet."""
        if not blobs:
            return set()
        marks = ",".join("?" * len(blobs))
        return blobs - {
            row[0] for row in self.fetch_rows(f"SELECT git_blob FROM kept WHERE git_blob IN ({marks})", *blobs)
        }

    def mark_kept(self, blobs: set[str]) -> None:
        """These contents are kept."""
        with self.transaction() as connection:
            connection.executemany("INSERT OR IGNORE INTO kept VALUES(?)", [(blob,) for blob in blobs])


PENDING_DECODER = msgspec.json.Decoder(PendingCall)


def encode_call(call: Struct) -> bytes:
    """The call as ASCII: a path in it may not be UTF-8, and has to come back as it was."""
    return json.dumps(msgspec.to_builtins(call)).encode("ascii")


def decode_call(blob: bytes) -> PendingCall | None:
    """The call that `packed` wrote; None where something else stands there."""
    try:
        return PENDING_DECODER.decode(blob)
    except ValueError:
        pass  # a name in it may not be UTF-8: only Python's reader takes such escapes
    try:
        return msgspec.convert(json.loads(blob), PendingCall)
    except (ValueError, TypeError):
        return None

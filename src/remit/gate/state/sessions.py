"""Sessions in the state: their intents, transcripts, and the contents that they have seen."""

from msgspec import Struct

from remit.core.call import SessionKey
from remit.core.diff.contents import ContentVersion
from remit.core.display_text import escape_surrogates, quote_path
from remit.gate.state.database import StateDatabase


class SessionState(Struct, frozen=True):
    """A known session; `told` is the hash of the last delivered context block."""

    agent: str = ""
    model: str | None = None
    intent_id: str | None = None
    source: str = ""
    told: str = ""


class SessionTable(StateDatabase):
    """The tables `sessions`, `transcripts` and `reads`. Methods raise StateError."""

    def find_session(self, key: SessionKey) -> SessionState | None:
        row = self.fetch_row(
            "SELECT agent, model, intent_id, source, told FROM sessions"
            " WHERE workspace=? AND session_id=? AND agent_id=?",
            *(self.workspace, key.session_id, key.agent_id),
        )
        return None if row is None else SessionState(*row)

    def active_session(self, key: SessionKey) -> SessionState:
        """Return the session with the intent in force: a sub-agent without a selection inherits the parent's."""
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
        """Store a session as it is at the time `at`."""
        with self.transaction() as connection:
            connection.execute(
                "INSERT OR REPLACE INTO sessions VALUES(?,?,?,?,?,?,?,?,?)",
                (
                    *(self.workspace, key.session_id, key.agent_id),
                    *(session.agent, session.model, session.intent_id, session.source, session.told, at),
                ),
            )

    def list_session_keys(self, session_id: str) -> list[SessionKey]:
        rows = self.fetch_rows(
            "SELECT agent_id FROM sessions WHERE workspace=? AND session_id=?", self.workspace, session_id
        )
        return [SessionKey(session_id, row[0]) for row in rows]

    def list_recent_sessions(self, limit: int = 20) -> list[SessionKey]:
        """Return the sessions known here, newest first, without sub-agents."""
        rows = self.fetch_rows(
            "SELECT session_id FROM sessions WHERE workspace=? AND agent_id='' ORDER BY seen_at DESC LIMIT ?",
            *(self.workspace, limit),
        )
        return [SessionKey(row[0]) for row in rows]

    # Transcripts

    def put_transcript(self, key: SessionKey, agent: str, path: str) -> None:
        """Store the path of a session's transcript, unless known."""
        where, value = (self.workspace, key.session_id, key.agent_id), (agent, escape_surrogates(path))
        known = self.fetch_row(
            "SELECT agent, path FROM transcripts WHERE workspace=? AND session_id=? AND agent_id=?", *where
        )
        if known == value:
            return
        with self.transaction() as connection:
            connection.execute("INSERT OR REPLACE INTO transcripts VALUES(?,?,?,?,?)", (*where, *value))

    def list_transcripts(self, session_id: str | None = None) -> dict[SessionKey, tuple[str, str]]:
        """Return (agent, path) of the transcripts of a session and its sub-agents; of all sessions without an id."""
        rows = self.fetch_rows(
            "SELECT session_id, agent_id, agent, path FROM transcripts WHERE workspace=? AND ifnull(session_id=?, 1)",
            *(self.workspace, session_id),
        )
        return {SessionKey(row[0], row[1]): (row[2], row[3]) for row in rows}

    # Seen contents

    def find_seen(self, key: SessionKey, path: str) -> tuple[str, str] | None:
        """Return (SHA-256, git blob) of what the session last read or wrote at `path`; a sub-agent has its own."""
        row = self.fetch_row(
            "SELECT sha256, git_blob FROM reads WHERE workspace=? AND session_id=? AND agent_id=? AND path=?",
            *(self.workspace, key.session_id, key.agent_id, quote_path(path)),
        )
        return None if row is None else (row[0], row[1])

    def put_seen_files(self, key: SessionKey, versions: dict[str, ContentVersion | None]) -> None:
        """Store contents as seen by the session; None forgets a path."""
        if not versions:
            return
        named = [((self.workspace, key.session_id, key.agent_id, quote_path(path)), v) for path, v in versions.items()]
        forgotten = [name for name, version in named if version is None]
        rows = [(*name, version.sha256, version.git_blob) for name, version in named if version is not None]
        with self.transaction() as connection:
            connection.executemany("INSERT OR REPLACE INTO reads VALUES(?,?,?,?,?,?)", rows)
            connection.executemany(
                "DELETE FROM reads WHERE workspace=? AND session_id=? AND agent_id=? AND path=?", forgotten
            )

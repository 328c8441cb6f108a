"""Pending calls in the state: calls that were allowed and have not come back, and calls to Remit's own tools."""

import json

import msgspec
from msgspec import Struct

from remit.core.call import Effect, SessionKey
from remit.core.diff.contents import ContentVersion
from remit.gate.state.database import StateDatabase

FIND_BY_ID = (
    "SELECT id, before FROM calls WHERE call_id=? AND workspace=? AND session_id=? AND agent_id=? ORDER BY id LIMIT 1"
)
FIND_BY_ARGUMENTS = (
    "SELECT id, before FROM calls WHERE workspace=? AND session_id=? AND agent_id=? AND tool=? AND arguments_sha256=?"
    " ORDER BY CASE WHEN call_id='' THEN -id ELSE id END LIMIT 1"
)
REMIT_CALL_LIFETIME_S = 3600


class PendingCall(Struct, frozen=True):
    """An allowed call without a result; `head` and `before` are the observation before the call.

    `owned_scope` is the intent's scope at the decision: a call cannot widen the scope of its own judgement.
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
    """All files that a command writes, where its text tells; None if it does not."""
    announced: dict[str, str] = {}
    """Git names of the contents that a file tool is going to leave, by path, as far as its arguments tell."""
    grants: tuple[str, ...] = ()
    """Grants that allowed the call."""
    snapshot: str = ""
    """Snapshot from before the call, where one was taken."""
    places: tuple[str, ...] = ()
    """Absolute paths that a file tool was judged for, with links followed."""
    spelled: tuple[str, ...] = ()
    """The same paths as the call spells them: absolute, with links not followed."""


class OpenCall(Struct, frozen=True):
    """A pending call with its row and key; `at` is when it was allowed, in seconds since the epoch."""

    row: int
    session: SessionKey
    call_id: str
    tool: str
    arguments_sha256: str
    at: float
    pending: PendingCall | None


class RemitCall(Struct, frozen=True):
    """A call to Remit's own tools, as announced by the agent's hook."""

    session: SessionKey
    agent: str


class CallTable(StateDatabase):
    """The tables `calls` and `remit_calls`. Methods raise StateError."""

    def put_pending_call(
        self, key: SessionKey, call_id: str, tool: str, digest: str, call: PendingCall, at: float
    ) -> None:
        """Store a call allowed at the time `at`; `digest` is the hash of the arguments."""
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
        """Return row and content of a returned call: by id, or the oldest with equal tool and arguments.

        The call stays pending until `delete_call`, after the recording of effects.
        """
        where = (self.workspace, key.session_id, key.agent_id)
        if call_id:
            row = self.fetch_row(FIND_BY_ID, call_id, *where)
        else:
            row = self.fetch_row(FIND_BY_ARGUMENTS, *where, tool, digest)
        return (None, None) if row is None else (row[0], decode_call(row[1]))

    def list_open_calls(self) -> list[OpenCall]:
        """Return every pending call of this workspace, oldest first."""
        rows = self.fetch_rows(
            "SELECT id, session_id, agent_id, call_id, tool, arguments_sha256, at, before FROM calls"
            " WHERE workspace=? ORDER BY id",
            self.workspace,
        )
        return [OpenCall(r[0], SessionKey(r[1], r[2]), r[3], r[4], r[5], r[6], decode_call(r[7])) for r in rows]

    def has_other_call(self, key: SessionKey, since: float) -> bool:
        row = self.fetch_row(
            "SELECT 1 FROM calls WHERE workspace=? AND session_id<>? AND at>?", self.workspace, key.session_id, since
        )
        return row is not None

    def replace_pending_call(self, row: int, call: PendingCall) -> None:
        with self.transaction() as connection:
            connection.execute("UPDATE calls SET before=? WHERE id=?", (encode_call(call), row))

    def delete_call(self, row: int) -> bool:
        with self.transaction() as connection:
            return connection.execute("DELETE FROM calls WHERE id=?", (row,)).rowcount > 0

    def find_lease_holder(self, key: SessionKey, path: str, since: float) -> str | None:
        """Return a second session with a pending call on `path`, allowed after `since`."""
        # The query narrows the rows down; the decoded call decides.
        spelled = json.dumps(path).encode("ascii")
        rows = self.fetch_rows(
            "SELECT session_id, before FROM calls WHERE workspace=? AND at>? AND NOT (session_id=? AND agent_id=?)"
            " AND instr(before, ?) > 0 ORDER BY id",
            *(self.workspace, since, key.session_id, key.agent_id, spelled),
        )
        calls = ((row[0], decode_call(row[1])) for row in rows)
        return next((session for session, call in calls if call is not None and path in call.judged), None)

    # Calls to Remit's own tools: the hook knows the session, the MCP server does not

    def put_remit_call(self, call: RemitCall, call_id: str, digest: str, at: float) -> None:
        """Store a call to Remit's own tools, as the agent's hook announced it."""
        key = call.session
        with self.transaction() as connection:
            connection.execute("DELETE FROM remit_calls WHERE at < ?", (at - REMIT_CALL_LIFETIME_S,))
            connection.execute(
                "INSERT INTO remit_calls(session_id, agent_id, agent, call_id, digest, at) VALUES(?,?,?,?,?,?)",
                (key.session_id, key.agent_id, call.agent, call_id, digest, at),
            )

    def take_remit_call(self, call_id: str, digest: str, since: float) -> RemitCall | None:
        """Return and delete an announced call: by id and arguments, or the oldest with equal arguments."""
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


PENDING_DECODER = msgspec.json.Decoder(PendingCall)


def encode_call(call: Struct) -> bytes:
    return json.dumps(msgspec.to_builtins(call)).encode("ascii")


def decode_call(blob: bytes) -> PendingCall | None:
    """Decode a call; None for invalid data."""
    try:
        return PENDING_DECODER.decode(blob)
    except ValueError:
        pass  # only Python's reader takes the escapes of names that are not UTF-8
    try:
        return msgspec.convert(json.loads(blob), PendingCall)
    except (ValueError, TypeError):
        return None

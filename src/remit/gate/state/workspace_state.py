"""The state of a workspace, kept from process to process outside of the ledger. A SQLite file holds the state of a
repository, shared by the worktrees; each row names a workspace. Here are the sessions with what they have seen, pending
calls, grants, the baseline, setbacks, and the status of file watching. Everything raises StateError.
"""

import json
import posixpath
from collections.abc import Iterable, Mapping, Sequence

import msgspec
from msgspec import Struct

from remit.core.call import CallClass, Effect, Outcome, SessionKey, ToolCall
from remit.core.decision import DeniedPath, ErrorType, Finding, Grant, ProjectGrant
from remit.core.diff.contents import ContentVersion
from remit.core.intent import UID_MARK, Intent, is_same_intent, split_id
from remit.core.python_runtime import prepare_type
from remit.core.untrusted_input import escape_surrogates, quote_path
from remit.gate.state.database import StateDatabase
from remit.workspace.observe.observation import Change, Observation, versions_by_path

REMIT_CALL_LIFETIME_S = 3600
TOOLS_FACT = "tools_used"
SESSIONS_WITH_TOOLS = 64  # that are remembered; to an older one a refusal names the shell's way first
OF_SESSION = "workspace=? AND session_id=? AND agent_id=?"


ALONE = "alone"
"""Stands last in a session's narrowings that name its parent's too."""


class SessionState(Struct, frozen=True):
    """A known session; `told` is the hash of the last delivered context block."""

    agent: str = ""
    model: str | None = None
    intent_id: str | None = None
    source: str = ""
    told: str = ""


class PendingCall(Struct, frozen=True):
    """An allowed call without a result; `head` and `before` are the observation before the call. `owned_scope` is the
    intent's scope at the decision: a call cannot widen the scope of its own judgement.
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
    writes: tuple[str, ...] | None = None  # all files that a command writes, where its text tells; None if it does not
    announced: dict[str, str] = {}
    """Git names of the contents that a file tool is going to leave, by path, as far as its arguments tell."""
    grants: tuple[str, ...] = ()  # grants that allowed the call
    snapshot: str = ""  # snapshot from before the call, where one was taken
    places: tuple[str, ...] = ()  # absolute paths that a file tool was judged for, with links followed
    recorded_at: tuple[str, int] = ("", 0)  # end of its record in the log: segment and offset
    spelled: tuple[str, ...] = ()  # the same paths as the call spells them: absolute, with links not followed
    names: dict[str, str] = {}  # HEAD, branches and tags, where nothing stages what a command does to them
    has_failed: bool = False  # the call came back, and a step after it failed: records may be missing


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
    """A call to Remit's own tools, as announced by the agent's hook.

    `asked` is the encoded question that the agent's own dialog puts to a person before the call runs; empty for none.
    """

    session: SessionKey
    agent: str
    asked: bytes = b""


class State(StateDatabase):
    """The state of a workspace: sessions, pending calls and grants."""

    def session_values(self, key: SessionKey) -> tuple[str, str, str]:
        return (self.workspace, key.session_id, key.agent_id)

    # Sessions

    def find_session(self, key: SessionKey) -> SessionState | None:
        query = f"SELECT agent, model, intent_id, source, told FROM sessions WHERE {OF_SESSION}"
        row = self.fetch_row(query, *self.session_values(key))
        return None if row is None else SessionState(*row)

    def active_session(self, key: SessionKey) -> SessionState:
        """Return the session with the intent in force: a sub-agent without a selection inherits the parent's."""
        own = self.find_session(key) or SessionState()
        if key.parent is None or own.source not in ("", "parent"):
            return own
        parent = self.find_session(key.parent) or SessionState()
        return SessionState(own.agent or parent.agent, own.model or parent.model, parent.intent_id, "parent", own.told)

    def find_other_workspace(self, key: SessionKey, source: str) -> str | None:
        """Return another workspace of the repository in which this session's intent has the source; None for none."""
        query = "SELECT workspace FROM sessions WHERE session_id=? AND source=? AND workspace<>? LIMIT 1"
        row = self.fetch_row(query, key.session_id, source, self.workspace)
        return None if row is None else str(row[0])

    def put_session(self, key: SessionKey, session: SessionState, at: float) -> None:
        values = (*self.session_values(key), *msgspec.structs.astuple(session), at)
        self.execute("INSERT OR REPLACE INTO sessions VALUES(?,?,?,?,?,?,?,?,?)", *values)

    def follow_intents(self, old: Mapping[str, Intent], new: Mapping[str, Intent]) -> None:
        """Let each session keep its intent, both by uid, where its label has changed, or is another intent's by now."""
        by_id, uids = {i.id: i for i in new.values()}, {i.id: uid for uid, i in old.items()}
        query = "SELECT DISTINCT intent_id FROM sessions WHERE workspace=? AND intent_id IS NOT NULL"
        for (intent_id,) in self.fetch_rows(query, self.workspace):
            label, uid = split_id(intent_id)
            uid = uid or uids.get(intent_id, "")
            now, before, holder = new.get(uid), old.get(uid), by_id.get(label)
            name = now.id if now else intent_id
            if now is None and before and holder and not is_same_intent(before, holder):
                name = f"{label}{UID_MARK}{uid}"
            if name != intent_id:
                change = "UPDATE sessions SET intent_id=? WHERE workspace=? AND intent_id=?"
                self.execute(change, name, self.workspace, intent_id)

    def list_session_keys(self, session_id: str) -> list[SessionKey]:
        query = "SELECT agent_id FROM sessions WHERE workspace=? AND session_id=?"
        return [SessionKey(session_id, row[0]) for row in self.fetch_rows(query, self.workspace, session_id)]

    def list_recent_sessions(self, limit: int = 20) -> list[SessionKey]:
        query = "SELECT session_id FROM sessions WHERE workspace=? AND agent_id='' ORDER BY seen_at DESC LIMIT ?"
        return [SessionKey(row[0]) for row in self.fetch_rows(query, self.workspace, limit)]

    def put_transcript(self, key: SessionKey, agent: str, path: str) -> None:
        where, value = self.session_values(key), (agent, escape_surrogates(path))
        if self.fetch_row(f"SELECT agent, path FROM transcripts WHERE {OF_SESSION}", *where) != value:
            self.execute("INSERT OR REPLACE INTO transcripts VALUES(?,?,?,?,?)", *where, *value)

    def list_transcripts(self, session_id: str | None = None) -> dict[SessionKey, tuple[str, str]]:
        """Return (agent, path) of the transcripts of a session and its sub-agents; of all sessions without an id."""
        query = (
            "SELECT session_id, agent_id, agent, path FROM transcripts WHERE workspace=? AND ifnull(session_id=?, 1)"
        )
        rows = self.fetch_rows(query, self.workspace, session_id)
        return {SessionKey(row[0], row[1]): (row[2], row[3]) for row in rows}

    def find_seen(self, key: SessionKey, path: str) -> tuple[str, str] | None:
        """Return (SHA-256, git blob) of what the session last read or wrote at `path`; a sub-agent has its own."""
        query = f"SELECT sha256, git_blob FROM reads WHERE {OF_SESSION} AND path=?"
        row = self.fetch_row(query, *self.session_values(key), quote_path(path))
        return None if row is None else (row[0], row[1])

    def list_seen_files(self, key: SessionKey) -> dict[str, tuple[str, str]]:
        """Return (SHA-256, git blob) of all files as the session last saw them; no names outside UTF-8."""
        query = f"SELECT path, sha256, git_blob FROM reads WHERE {OF_SESSION}"
        rows = self.fetch_rows(query, *self.session_values(key))
        return {path: (digest, blob) for path, digest, blob in rows if not path.startswith('"')}

    def put_seen_files(self, key: SessionKey, versions: dict[str, ContentVersion | None]) -> None:
        """Store contents as seen by the session; None forgets a path."""
        if not versions:
            return
        named = [((*self.session_values(key), quote_path(path)), version) for path, version in versions.items()]
        with self.transaction() as connection:
            connection.executemany(
                "INSERT OR REPLACE INTO reads VALUES(?,?,?,?,?,?)",
                [(*name, version.sha256, version.git_blob) for name, version in named if version],
            )
            forgotten = [name for name, version in named if version is None]
            connection.executemany(f"DELETE FROM reads WHERE {OF_SESSION} AND path=?", forgotten)

    # Narrowing

    def put_narrowings(self, key: SessionKey, narrowings: Sequence[Sequence[str]], *, is_alone: bool = False) -> None:
        lists = [list(one) for one in narrowings if one]
        self.put_fact(f"narrow:{key.session_id}:{key.agent_id}", json.dumps([*lists, *([ALONE] if is_alone else [])]))

    def find_narrowing(self, key: SessionKey) -> tuple[tuple[str, ...], ...]:
        """Return the lists of patterns that hold beside the scope: the session's own, and its parent's unless the own
        ones stand alone.
        """
        keys = [key, key.parent] if key.parent is not None else [key]
        texts = [self.read_fact(f"narrow:{one.session_id}:{one.agent_id}") for one in keys]
        found = [json.loads(text) for text in texts if text]
        if found and found[0] and found[0][-1] == ALONE:
            found = [found[0][:-1]]
        return tuple(tuple(patterns) for lists in found for patterns in lists if patterns != ALONE)

    # Pending calls

    def put_pending_call(
        self, key: SessionKey, call_id: str, tool: str, digest: str, call: PendingCall, at: float
    ) -> None:
        self.execute(
            "INSERT INTO calls(workspace, session_id, agent_id, call_id, tool, arguments_sha256, at, before)"
            " VALUES(?,?,?,?,?,?,?,?)",
            *(*self.session_values(key), call_id, tool, digest, at, encode_ascii(call)),
        )

    def find_pending_call(
        self, key: SessionKey, call_id: str, tool: str, digest: str
    ) -> tuple[int | None, PendingCall | None]:
        """Return row and content of a returned call: by id, or the oldest with equal tool and arguments. The call stays
        pending until `delete_call`, after the recording of effects.
        """
        query = f"SELECT id, before FROM calls WHERE {OF_SESSION}"
        if call_id:
            row = self.fetch_row(f"{query} AND call_id=? ORDER BY id LIMIT 1", *self.session_values(key), call_id)
        else:
            query += " AND tool=? AND arguments_sha256=? ORDER BY CASE WHEN call_id='' THEN -id ELSE id END LIMIT 1"
            row = self.fetch_row(query, *self.session_values(key), tool, digest)
        return (None, None) if row is None else (row[0], decode_call(row[1]))

    def find_call_time(self, row: int) -> float | None:
        """Return when a pending call was allowed, in seconds since the epoch; None if it is not pending."""
        found = self.fetch_row("SELECT at FROM calls WHERE id=?", row)
        return None if found is None else float(found[0])

    def find_same_call(self, call: ToolCall) -> tuple[int | None, PendingCall | None]:
        """Return row and content of a call that is pending already, with the same id and arguments."""
        if not call.call_id:
            return None, None
        row = self.fetch_row(
            f"SELECT id, before FROM calls WHERE {OF_SESSION} AND call_id=? AND tool=? AND arguments_sha256=?",
            *(*self.session_values(call.session), call.call_id, call.tool, call.arguments_sha256),
        )
        return (None, None) if row is None else (row[0], decode_call(row[1]))

    def list_open_calls(self) -> list[OpenCall]:
        rows = self.fetch_rows(
            "SELECT id, session_id, agent_id, call_id, tool, arguments_sha256, at, before FROM calls"
            " WHERE workspace=? ORDER BY id",
            self.workspace,
        )
        return [OpenCall(r[0], SessionKey(r[1], r[2]), r[3], r[4], r[5], r[6], decode_call(r[7])) for r in rows]

    def has_other_call(self, key: SessionKey, since: float) -> bool:
        query = "SELECT 1 FROM calls WHERE workspace=? AND session_id<>? AND at>?"
        return self.fetch_row(query, self.workspace, key.session_id, since) is not None

    def replace_pending_call(self, row: int, call: PendingCall) -> None:
        self.execute("UPDATE calls SET before=? WHERE id=?", encode_ascii(call), row)

    def update_running_calls(self, versions: dict[str, ContentVersion | None], session_id: str | None = None) -> None:
        """Make these the versions from before each running command, of one session or of all: not their work."""
        for call in self.list_open_calls() if versions else ():
            if call.pending is not None and call.pending.whole and session_id in (None, call.session.session_id):
                before = {**call.pending.before, **versions}
                self.replace_pending_call(call.row, msgspec.structs.replace(call.pending, before=before))

    def delete_call(self, row: int) -> bool:
        return self.execute("DELETE FROM calls WHERE id=?", row) > 0

    def find_lease_holder(self, key: SessionKey, path: str, since: float) -> str | None:
        # The query narrows the rows down; the decoded call decides.
        rows = self.fetch_rows(
            "SELECT session_id, before FROM calls WHERE workspace=? AND at>? AND NOT (session_id=? AND agent_id=?)"
            " AND instr(before, ?) > 0 ORDER BY id",
            *(self.workspace, since, key.session_id, key.agent_id, json.dumps(path).encode("ascii")),
        )
        calls = ((row[0], decode_call(row[1])) for row in rows)
        return next((session for session, call in calls if call is not None and path in call.judged), None)

    # Calls to Remit's own tools: the hook knows the session, the MCP server does not

    def put_remit_call(self, call: RemitCall, call_id: str, digest: str, at: float) -> None:
        with self.transaction() as connection:
            connection.execute("DELETE FROM remit_calls WHERE at < ?", (at - REMIT_CALL_LIFETIME_S,))
            connection.execute(
                "INSERT INTO remit_calls(session_id, agent_id, agent, asked, call_id, digest, at)"
                " VALUES(?,?,?,?,?,?,?)",
                (call.session.session_id, call.session.agent_id, call.agent, call.asked, call_id, digest, at),
            )

    def note_tools(self, session_id: str) -> None:
        """Note that a session has used Remit's tools."""
        known = self.list_sessions_with_tools()
        if session_id not in known:
            self.put_fact(TOOLS_FACT, json.dumps([*known, session_id][-SESSIONS_WITH_TOOLS:]))

    def list_sessions_with_tools(self) -> list[str]:
        return json.loads(self.read_fact(TOOLS_FACT) or "[]")

    def take_remit_call(self, call_id: str, digest: str, since: float) -> RemitCall | None:
        """Return and delete an announced call: by id and arguments, or the oldest with equal arguments. One that a
        person is asked about in the agent's own dialog may come later than `since`.
        """
        with self.transaction() as connection:
            row = connection.execute(
                "DELETE FROM remit_calls WHERE id=(SELECT id FROM remit_calls WHERE digest=?"
                " AND (at>=? OR length(asked)>0) AND (?='' OR call_id=?) ORDER BY id LIMIT 1)"
                " RETURNING session_id, agent_id, agent, asked",
                (digest, since, call_id, call_id),
            ).fetchone()
        return None if row is None else RemitCall(SessionKey(row[0], row[1]), row[2], row[3] or b"")

    def is_person_asked(self, session: SessionKey, call_id: str) -> bool:
        """Return whether the agent's own dialog was to ask a person about an announced call."""
        found = "SELECT 1 FROM remit_calls WHERE session_id=? AND agent_id=? AND call_id=? AND length(asked)>0"
        return self.fetch_row(found, session.session_id, session.agent_id, call_id) is not None

    # Grants

    def put_grant(self, grant: Grant) -> None:
        values = (grant.id, self.workspace, msgspec.json.encode(grant), grant.until)
        self.execute("INSERT OR REPLACE INTO grants(id, workspace, body, until) VALUES(?,?,?,?)", *values)

    def active_grants(self, now: float, project: Sequence[ProjectGrant] = ()) -> tuple[Grant, ...]:
        query = "SELECT body FROM grants WHERE workspace=? AND (until IS NULL OR until>?)"
        own = (
            msgspec.json.decode(row[0], type=prepare_type(Grant)) for row in self.fetch_rows(query, self.workspace, now)
        )
        return (*own, *(entry.grant for entry in project))

    def revoke_grant(self, grant_id: str) -> bool:
        return self.execute("DELETE FROM grants WHERE id=? AND workspace=?", grant_id, self.workspace) > 0


PENDING_DECODER = msgspec.json.Decoder(prepare_type(PendingCall))


def encode_ascii(value: Struct) -> bytes:
    """Return JSON in ASCII: names that are not UTF-8 become escapes."""
    return json.dumps(msgspec.to_builtins(value)).encode("ascii")


def decode_call(blob: bytes) -> PendingCall | None:
    try:
        return PENDING_DECODER.decode(blob)
    except ValueError:
        pass  # only Python's reader takes the escapes of names that are not UTF-8
    try:
        return msgspec.convert(json.loads(blob), prepare_type(PendingCall))
    except (ValueError, TypeError):
        return None


# The baseline: the last observation of the workspace, brought up to date by what was recorded since

HEAD_FACT = "observed_head"  # fact that holds the commit of the last observation; absent before the first observation


class ObservedPath(Struct, frozen=True):
    """A path of the baseline; `version` is None for a missing file."""

    path: str
    version: ContentVersion | None


def baseline_head(state: State) -> str | None:
    """Return the commit of the last observation, empty for none; None before the first observation."""
    return state.read_fact(HEAD_FACT)


def read_baseline(state: State) -> list[ObservedPath]:
    rows = state.fetch_rows("SELECT version FROM baseline WHERE workspace=?", state.workspace)
    return [msgspec.convert(json.loads(row[0]), prepare_type(ObservedPath)) for row in rows]


def find_known_versions(state: State, paths: Iterable[str]) -> dict[str, ContentVersion | None]:
    """Return the versions of these paths in the baseline; paths without an entry are left out."""
    asked = {quote_path(path): path for path in paths}
    query = f"SELECT version FROM baseline WHERE workspace=? AND path IN ({','.join('?' * len(asked))})"
    rows = state.fetch_rows(query, state.workspace, *asked)
    found = [msgspec.convert(json.loads(row[0]), prepare_type(ObservedPath)) for row in rows]
    return {entry.path: entry.version for entry in found if entry.path in asked.values()}


def replace_baseline(state: State, observation: Observation) -> None:
    with state.transaction() as connection:
        connection.execute("DELETE FROM baseline WHERE workspace=?", (state.workspace,))
        put_versions(state, versions_by_path(observation))
        state.put_fact(HEAD_FACT, observation.head or "")


def mark_recorded(state: State, changes: Iterable[Change]) -> None:
    """Take recorded changes into the baseline: the next comparison leaves them out."""
    versions = {change.path: change.after.version if change.after else None for change in changes}
    if versions and baseline_head(state) is not None:
        put_versions(state, versions)


def put_versions(state: State, versions: dict[str, ContentVersion | None]) -> None:
    entries = (ObservedPath(path, version) for path, version in versions.items())
    rows = [(state.workspace, quote_path(entry.path), encode_ascii(entry)) for entry in entries]
    with state.transaction() as connection:
        connection.executemany("INSERT OR REPLACE INTO baseline VALUES(?,?,?)", rows)


def version_identity(version: ContentVersion | None) -> tuple[str, str] | None:
    return None if version is None else (version.sha256, version.mode)


# Makers of commits, branches and tags

MADE_FACT = "git-made:"
"""Prefix of the facts with the session that made a commit, a branch or a tag, and its intent."""


def put_maker(state: State, names: Iterable[str], session_id: str, intent_id: str) -> None:
    """Keep who made commits, branches and tags: the session may rewrite them later."""
    maker = json.dumps([session_id, intent_id])
    with state.transaction():
        for name in names:
            state.put_fact(f"{MADE_FACT}{name}", maker)


def was_made_by(state: State, name: str, session_id: str, intent_id: str) -> bool:
    """Return True if this session, or another under its intent, made the commit, branch or tag."""
    session, intent = json.loads(state.read_fact(f"{MADE_FACT}{name}") or '["", ""]')
    return session_id == session or (intent != "" and intent == intent_id)


# Kept contents


def find_unkept(state: State, blobs: set[str]) -> set[str]:
    if not blobs:
        return set()
    query = f"SELECT git_blob FROM kept WHERE git_blob IN ({','.join('?' * len(blobs))})"
    return blobs - {row[0] for row in state.fetch_rows(query, *blobs)}


def mark_kept(state: State, blobs: set[str]) -> None:
    with state.transaction() as connection:
        connection.executemany("INSERT OR IGNORE INTO kept VALUES(?)", [(blob,) for blob in blobs])


# Setbacks

QUIET_RESET_S = 60.0  # time without another denial or failure after which the count begins anew
PATH_DENIALS: frozenset[ErrorType] = frozenset(
    {"SCOPE_VIOLATION", "INTENTIGNORE_PATH_BLOCKED", "PROTECTED_PATH", "OUTSIDE_WORKSPACE"}
)
"""Denials that concern the path itself, and not the moment."""


class Setbacks:
    """Setbacks of sessions: denials and failures in a row, and the paths that were lately denied."""

    def __init__(self, state: State, now: float) -> None:
        self.state = state
        self.now = now

    def count_in_a_row(self, key: SessionKey) -> tuple[str, int, int]:
        """Return (last denial, its count in a row, failed tools in a row); all reset after QUIET_RESET_S."""
        query = f"SELECT denial, denials, failures FROM setbacks WHERE {OF_SESSION} AND at>?"
        row = self.state.fetch_row(query, *self.state.session_values(key), self.now - QUIET_RESET_S)
        return ("", 0, 0) if row is None else (row[0], row[1], row[2])

    def put_counts(self, key: SessionKey, denial: str, denials: int, failures: int) -> None:
        values = (*self.state.session_values(key), denial, denials, failures, self.now)
        self.state.execute("INSERT OR REPLACE INTO setbacks VALUES(?,?,?,?,?,?,?)", *values)

    def denied_paths(self, key: SessionKey, root: str, cwd: str, minutes: float) -> tuple[DeniedPath, ...]:
        """Return the paths denied to the session or sub-agents in the last `minutes`, with their spellings in a
        command: from the root, absolute, and relative to `cwd`.
        """
        rows = self.state.fetch_rows(
            "SELECT path, code, tool FROM denied WHERE workspace=? AND session_id=? AND at>? ORDER BY path",
            *(self.state.workspace, key.session_id, self.now - minutes * 60),
        )
        found: list[DeniedPath] = []
        for path, code, tool in rows:
            if code in PATH_DENIALS:
                whole = path if path.startswith("/") else posixpath.join(root, path)
                spellings = dict.fromkeys((path, whole, posixpath.relpath(whole, cwd or root)))
                found.append(DeniedPath(path, code, tool, tuple(spellings)))
        return tuple(found)

    def count_denial(self, call: ToolCall, findings: tuple[Finding, ...]) -> None:
        """Count a denial, whose leading finding comes first, and store the denied paths. An open circuit is not
        counted, or a retry would keep the circuit open forever; nor is a call of a tool that needs no intent.

        Without a path, only the same call is the same denial: three other commands are three attempts.
        """
        leading = next(iter(findings), None)
        if leading is None or leading.code == "CIRCUIT_OPEN" or call.effect in ("meta", "unproved"):
            return
        constraints = {f" {broken['constraint']}" for broken in leading.context.get("broken", ())}
        same = "" if leading.path else f"\t{call.arguments_sha256}"
        denial = f"{leading.code} {quote_path(leading.path or call.tool)}{same}{''.join(sorted(constraints))}"
        last, denials, failures = self.count_in_a_row(call.session)
        paths = {f.path: f.code for f in findings if f.path is not None and f.code in PATH_DENIALS}
        with self.state.transaction() as connection:
            self.put_counts(call.session, denial, denials + 1 if denial == last else 1, failures)
            where = (self.state.workspace, call.session.session_id)
            connection.executemany(
                "INSERT INTO denied VALUES(?,?,?,?,?,?) ON CONFLICT DO UPDATE SET at=excluded.at",
                [(*where, quote_path(path), code, call.tool, self.now) for path, code in paths.items()],
            )

    def count_outcome(self, call: ToolCall, outcome: Outcome, call_class: CallClass) -> None:
        if call_class in ("safe", "unproved") or (call_class == "meta" and not outcome.ok):
            return
        if outcome.ok:
            self.reset(call.session)
        else:
            denial, denials, failures = self.count_in_a_row(call.session)
            self.put_counts(call.session, denial, denials, failures + 1)

    def reset(self, key: SessionKey) -> None:
        where = self.state.session_values(key)
        if self.state.fetch_row(f"SELECT 1 FROM setbacks WHERE {OF_SESSION}", *where) is not None:
            self.state.execute(f"DELETE FROM setbacks WHERE {OF_SESSION}", *where)

    def allow_paths(self, key: SessionKey, paths: tuple[str, ...]) -> None:
        rows = [(self.state.workspace, key.session_id, quote_path(path)) for path in paths]
        with self.state.transaction() as connection:
            connection.executemany("DELETE FROM denied WHERE workspace=? AND session_id=? AND path=?", rows)


# File watching

WATCH_FACT = "watched"


class WatchStatus(Struct, frozen=True):
    """The daemon's status: `why` it does not rely on watching (empty if it does), and the number of watched `folders`.
    `ended` if watching will not begin again by itself.
    """

    why: str
    folders: int = 0
    ended: bool = False


def put_watch_status(state: State, found: WatchStatus) -> None:
    if read_watch_status(state) != found:
        state.put_fact(WATCH_FACT, encode_ascii(found).decode())


def read_watch_status(state: State) -> WatchStatus | None:
    text = state.read_fact(WATCH_FACT)
    return msgspec.convert(json.loads(text), prepare_type(WatchStatus)) if text else None

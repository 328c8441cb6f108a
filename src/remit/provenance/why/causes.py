"""Causes of lines: an edit with its records, contents and conversation, and the intents file of the time.

Records name the intents file by its hash.
"""

import sqlite3
from collections.abc import Collection, Iterator
from typing import Any, Literal

from remit.core.diff.contents import sha256
from remit.core.display_text import sanitise_line
from remit.core.intent import Intent, IntentsDocument
from remit.core.record import KEY
from remit.ledger.index.index import Index
from remit.provenance.blame.blame import Blamer, model_of
from remit.provenance.why.conversations import CallQuery, Conversations, find_talk
from remit.provenance.why.explanation import Approval, Cause, Denial, Talk, VerificationRun
from remit.workspace.contents.content_store import ContentStore
from remit.workspace.git.command import Git, GitError
from remit.workspace.git.tree_files import parse_batch_output
from remit.workspace.intents_file.parse import parse_intents
from remit.workspace.place.workspace import ORCHESTRATION_FOLDER

INTENTS_FILE = f"{ORCHESTRATION_FOLDER}/active_intents.yaml"
MAX_VERSIONS = 300
MAX_DENIALS = 5
MAX_CHECKS = 5
MAX_ANSWERS = 1000
ONCE_GRANT = "once"
"""Grant of a call that a person approved once."""
MAX_DIFFS = 20
MAX_DIFF_CHARS = 256 * 1024


class PastIntents:
    """Available versions of the intents file. `current` is the one in force."""

    def __init__(self, git: Git, index: Index, store: ContentStore, current: IntentsDocument | None) -> None:
        self.git = git
        self.index = index
        self.store = store
        self.current = current
        self.versions: dict[str, IntentsDocument | None] = {current.sha256: current} if current else {}
        self.committed: dict[str, bytes] | None = None

    def find_intent(self, intent_id: str, digest: str) -> Intent | None:
        """Return the intent in the version with that SHA-256; None if unavailable."""
        return find_intent_by_id(self.find_version(digest), intent_id) if digest else None

    def find_current_intent(self, intent_id: str) -> Intent | None:
        return find_intent_by_id(self.current, intent_id)

    def find_version(self, digest: str) -> IntentsDocument | None:
        """Return the file with that SHA-256, from recorded changes or commits."""
        if digest not in self.versions:
            content = self.load_recorded(digest) or self.load_committed().get(digest)
            self.versions[digest] = parse_intents(content) if content is not None else None
        return self.versions[digest]

    def load_recorded(self, digest: str) -> bytes | None:
        blobs = (
            c.after_blob for c in self.index.list_changes_to_content(digest) if c.path == INTENTS_FILE and c.after_blob
        )
        return next((content for blob in blobs if (content := self.store.load(blob)) is not None), None)

    def load_committed(self) -> dict[str, bytes]:
        if self.committed is None:
            self.committed = {sha256(content): content for content in self.read_committed_versions()}
        return self.committed

    def read_committed_versions(self) -> list[bytes]:
        """Return the newest 300 versions of the file in HEAD's history."""
        try:
            names = self.git.text("log", "--format=%H", "-n", str(MAX_VERSIONS), "--", INTENTS_FILE).split()
            stdin = "".join(f"{name}:./{INTENTS_FILE}\n" for name in names)
            output = self.git.run("cat-file", "--batch", stdin=stdin.encode()) if names else b""
        except GitError:
            return []
        return [content for content in parse_batch_output(output) if content is not None]


def find_intent_by_id(document: IntentsDocument | None, intent_id: str) -> Intent | None:
    return next((i for i in document.intents if i.id == intent_id), None) if document else None


class CauseBuilder:
    """Builder of the causes of one file's lines. `remarks` collects failures to report."""

    def __init__(
        self,
        blamer: Blamer,
        store: ContentStore,
        path: str,
        conversations: Conversations | None,
        document: IntentsDocument | None,
    ) -> None:
        self.index = blamer.index
        self.store = store
        self.path = path
        self.conversations = conversations
        self.intents = PastIntents(blamer.git, blamer.index, store, document)
        self.diff_count = 0
        self.remarks: set[str] = set()

    def build_cause(self, document: dict[str, Any], line: str, *, proved: bool = True) -> Cause:
        """Return the cause for one record. `line` is the text asked about; if not `proved`, the call only ran at the
        time.
        """
        body = body_of(document)
        call: dict[str, Any] = body.get("call", {})
        at, session, intent = str(document["timestamp"]), body.get("session_id"), body.get("intent_id")
        intent_then, intent_now = (
            self.intent_when_decided(body),
            self.intents.find_current_intent(intent) if intent else None,
        )
        diff = self.make_diff(body)
        return Cause(
            record=str(document["id"]),
            at=at,
            by=author_kind(body) if proved or body.get("event") == "human_edit" else "unknown",
            tool=str(call.get("name") or ""),
            command=sanitise_line(str(call.get("command") or ""), 500),
            agent=document.get("tool", {}).get("name"),
            model=model_of(document),
            session_id=session,
            agent_id=body.get("agent_id"),
            intent_id=intent,
            intent_name=intent_name_at(self.index, intent, at),
            intent_status=intent_now.status if intent_now else None,
            criteria=criteria_texts(intent_then),
            criteria_now=criteria_texts(intent_now),
            mutation_class=body.get("mutation_class", {}).get("computed"),
            in_scope=body.get("in_scope"),
            reasoning=selection_reasoning(self.index, session, intent, at),
            talk=self.find_talk(body, at),
            diff=diff,
            focus=focused_diff_line(diff or "", line),
            denials=find_denials(self.index, session, recorded_path(body, self.path), at),
            approvals=find_approvals(self.index, session, call.get("id"), at),
            checks=find_verifications(self.index, intent, at),
        )

    def intent_when_decided(self, body: dict[str, Any]) -> Intent | None:
        intent: str | None = body.get("intent_id")
        digest = str(body.get("decision", {}).get("intent_sha256") or "")
        return self.intents.find_intent(intent, digest) if intent else None

    def find_talk(self, body: dict[str, Any], at: str) -> Talk | None:
        session: str | None = body.get("session_id")
        if self.conversations is None or session is None:
            return None
        call: dict[str, Any] = body.get("call", {})
        ids = (str(call.get("id") or ""), str(call.get("arguments_sha256") or ""))
        try:
            return find_talk(self.conversations, CallQuery(session, str(body.get("agent_id") or ""), *ids, at))
        except sqlite3.Error as error:
            self.remarks.add(f"the kept conversations cannot be read: {error}")
            return None

    def make_diff(self, body: dict[str, Any]) -> str | None:
        """Return the diff of the edit; None if its contents are gone or the limit of diffs is reached."""
        file = find_changed_file(body, self.path)
        if file is None or self.diff_count >= MAX_DIFFS:
            return None
        self.diff_count += 1
        before, after = (self.load_side(file.get(side)) for side in ("before", "after"))
        if before is None or after is None:
            return None
        try:
            return self.store.unified_diff(before, after)[:MAX_DIFF_CHARS]
        except (GitError, OSError) as error:
            self.remarks.add(f"a diff could not be made: {error}")
            return None

    def load_side(self, side: dict[str, Any] | None) -> bytes | None:
        """Return one side of a change: empty for no file, None if not kept."""
        if side is None:
            return b""
        blob = side.get("git_blob")
        return self.store.load(blob) if isinstance(blob, str) else None


def find_changed_file(body: dict[str, Any], path: str) -> dict[str, Any] | None:
    """Return the record's entry for a file; its only entry if the file had another name."""
    files: list[dict[str, Any]] = body.get("files", [])
    entry = next((file for file in files if file.get("path") == path), None)
    return entry or (files[0] if len(files) == 1 else None)


def focused_diff_line(diff: str, line: str) -> int:
    """Return the index in the diff of the line asked about, else of the first added line."""
    lines = diff.split("\n")
    position = next((n for n, found in enumerate(lines) if found == f"+{line}"), None)
    return position if position is not None else next((n for n, found in enumerate(lines) if found.startswith("+")), 0)


def author_kind(body: dict[str, Any]) -> Literal["agent", "person", "unknown"]:
    if body.get("event") != "human_edit":
        return "agent"
    return "person" if body.get("origin") == "person" else "unknown"


def criteria_texts(intent: Intent | None) -> tuple[str, ...] | None:
    return None if intent is None else tuple(criterion.text for criterion in intent.acceptance_criteria)


def body_of(document: dict[str, Any]) -> dict[str, Any]:
    return document["metadata"][KEY]


def intent_name_at(index: Index, intent_id: str | None, at: str) -> str | None:
    documents = index.find(event="intent_changed", intent_id=intent_id, until=at, limit=1) if intent_id else []
    return str(body_of(documents[0]).get("name") or "") or None if documents else None


def selection_reasoning(index: Index, session: str | None, intent_id: str | None, at: str) -> str:
    if session is None or intent_id is None:
        return ""
    documents = index.find(event="intent_selected", session_id=session, intent_id=intent_id, until=at, limit=1)
    return str(body_of(documents[0]).get("reasoning") or "") if documents else ""


def recorded_path(body: dict[str, Any], path: str) -> str:
    file = find_changed_file(body, path)
    return str(file["path"]) if file else path


def find_denials(index: Index, session: str | None, path: str, at: str) -> tuple[Denial, ...]:
    """Return the denials in the session before the edit, newest first: on the file, and any since the session's last
    change.
    """
    if session is None:
        return ()
    last_change = index.find(event="mutation", session_id=session, until=at, limit=1)
    since = str(last_change[0]["timestamp"]) if last_change else None
    documents = [
        *index.find(event="denied", session_id=session, path=path, until=at, limit=MAX_DENIALS),
        *index.find(event="denied", session_id=session, since=since, until=at, limit=MAX_DENIALS),
    ]
    newest = sorted({str(document["id"]): document for document in documents}.items(), reverse=True)
    return tuple(make_denial(document) for _, document in newest[:MAX_DENIALS])


def make_denial(document: dict[str, Any]) -> Denial:
    violation: dict[str, Any] = body_of(document).get("violation", {})
    message = sanitise_line(str(violation.get("error", "")), 300)
    return Denial(str(document["timestamp"]), str(violation.get("error_type")), message)


def find_approvals(index: Index, session: str | None, call_id: str | None, at: str) -> tuple[Approval, ...]:
    """Return the approvals of the call."""
    if session is None or not call_id:
        return ()
    uses = index.find(event="tool_use", session_id=session, until=at, limit=50)
    use = next((d for d in uses if body_of(d).get("call", {}).get("id") == call_id), None)
    decision: dict[str, Any] = body_of(use).get("decision", {}) if use else {}
    if use is None or not decision.get("approved_by"):
        return ()
    grants = str(decision.get("grant") or "").split(", ")
    words = approval_words(index, session, grants, str(use["timestamp"]))
    return (Approval(str(decision["approved_by"]), words, decision.get("grant")),)


def approval_words(index: Index, session: str, grants: Collection[str], at: str) -> str:
    """Return the person's words of the newest approval before the call.

    A grant has the id of its question, and may be from another session; a grant for one call is the session's newest.
    """
    own_session = session if ONCE_GRANT in grants else None
    answers = index.find(event="approval_answered", session_id=own_session, until=at, limit=MAX_ANSWERS)
    approvals: Iterator[dict[str, Any]] = (body_of(document).get("approval", {}) for document in answers)
    allowed = (
        approval
        for approval in approvals
        if approval.get("answer") == "allow" and (own_session or approval.get("id") in grants)
    )
    return next((str(approval.get("words") or "") for approval in allowed), "")


def find_verifications(index: Index, intent_id: str | None, at: str) -> tuple[VerificationRun, ...]:
    """Return the first verifications under the intent after the edit, from any session."""
    if intent_id is None:
        return ()
    documents = index.find(event="verification", intent_id=intent_id, since=at, limit=200)
    runs = ((str(document["timestamp"]), body_of(document)) for document in documents[::-1][:MAX_CHECKS])
    return tuple(
        VerificationRun(time, sanitise_line(str(body.get("command") or ""), 200), body.get("exit_code"))
        for time, body in runs
    )

"""One edit with all that is known around it: the ledger's records, the kept contents, the conversation.

The intents file as it was when a call was judged: records name it by its hash.
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
from remit.provenance.why.conversations import CallQuery, Conversations, Talk, find_talk
from remit.provenance.why.explanation import Approval, Cause, Denial, VerificationRun
from remit.workspace.contents.content_store import ContentStore, parse_batch_output
from remit.workspace.git.command import Git, GitError
from remit.workspace.intents_file.parse import parse_intents
from remit.workspace.place.workspace import ORCHESTRATION_FOLDER

INTENTS_FILE = f"{ORCHESTRATION_FOLDER}/active_intents.yaml"
MAX_VERSIONS = 300


class PastIntents:
    """The versions of the intents file that can still be had. `now` is the one in force."""

    def __init__(self, git: Git, index: Index, store: ContentStore, now: IntentsDocument | None) -> None:
        self.git = git
        self.index = index
        self.store = store
        self.current = now
        self.versions: dict[str, IntentsDocument | None] = {now.sha256: now} if now else {}
        self.committed: dict[str, bytes] | None = None

    def find_intent(self, intent_id: str, digest: str) -> Intent | None:
        """The intent in the version with that SHA-256; None where that version is gone, or had no such intent."""
        return find_intent_by_id(self.find_version(digest), intent_id) if digest else None

    def find_current_intent(self, intent_id: str) -> Intent | None:
        """The intent as it is now."""
        return find_intent_by_id(self.current, intent_id)

    def find_version(self, digest: str) -> IntentsDocument | None:
        """The file with that SHA-256: from what was kept of it, else from the commits."""
        if digest not in self.versions:
            content = self.load_recorded(digest) or self.load_committed().get(digest)
            self.versions[digest] = parse_intents(content) if content is not None else None
        return self.versions[digest]

    def load_recorded(self, digest: str) -> bytes | None:
        """The content, where a recorded change left it."""
        blobs = (
            c.after_blob for c in self.index.list_changes_to_content(digest) if c.path == INTENTS_FILE and c.after_blob
        )
        return next((found for blob in blobs if (found := self.store.load(blob)) is not None), None)

    def load_committed(self) -> dict[str, bytes]:
        """The contents that the newest commits gave the file, by SHA-256."""
        if self.committed is None:
            self.committed = {sha256(content): content for content in self.read_committed_versions()}
        return self.committed

    def read_committed_versions(self) -> list[bytes]:
        """Every version of the file that HEAD's history has, the newest 300."""
        try:
            names = self.git.text("log", "--format=%H", "-n", str(MAX_VERSIONS), "--", INTENTS_FILE).split()
            asked = "".join(f"{name}:./{INTENTS_FILE}\n" for name in names)
            out = self.git.run("cat-file", "--batch", stdin=asked.encode()) if names else b""
        except GitError:
            return []
        return [content for content in parse_batch_output(out) if content is not None]


def find_intent_by_id(document: IntentsDocument | None, intent_id: str) -> Intent | None:
    """The intent of that id."""
    return next((i for i in document.intents if i.id == intent_id), None) if document else None


MAX_DENIALS = 5
MAX_CHECKS = 5
MAX_ANSWERS = 1000
ONCE_GRANT = "once"
"""The grant of a call that a person was asked about and let through."""
MAX_DIFFS = 20
MAX_DIFF_CHARS = 256 * 1024


class CauseBuilder:
    """Edits of one file, told one after another. `remarks` is what could not be told, and why."""

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
        """One record, with what is known around it. `line` is what the edit is asked about; where it is not `proved`
        to be the record's, the call only ran when it came.
        """
        body = body_of(document)
        call: dict[str, Any] = body.get("call", {})
        at, session, intent = str(document["timestamp"]), body.get("session_id"), body.get("intent_id")
        then, now = self.intent_when_decided(body), self.intents.find_current_intent(intent) if intent else None
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
            intent_status=now.status if now else None,
            criteria=criteria_texts(then),
            criteria_now=criteria_texts(now),
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
        """The intent as it was when the call was judged."""
        intent: str | None = body.get("intent_id")
        digest = str(body.get("decision", {}).get("intent_sha256") or "")
        return self.intents.find_intent(intent, digest) if intent else None

    def find_talk(self, body: dict[str, Any], at: str) -> Talk | None:
        """The conversation around the call."""
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
        """What the edit did to the file; None where its contents are gone, or there were enough diffs."""
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
        """One side of a change: empty where there was no file, None where the content was not kept."""
        if side is None:
            return b""
        blob = side.get("git_blob")
        return self.store.load(blob) if isinstance(blob, str) else None


def find_changed_file(body: dict[str, Any], path: str) -> dict[str, Any] | None:
    """What a record says of that file; of its only one, where the file had another name then."""
    files: list[dict[str, Any]] = body.get("files", [])
    found = next((file for file in files if file.get("path") == path), None)
    return found or (files[0] if len(files) == 1 else None)


def focused_diff_line(diff: str, line: str) -> int:
    """The index in the diff of the line that was asked about; of the first that was added, where it is not there."""
    lines = diff.split("\n")
    exact = next((n for n, found in enumerate(lines) if found == f"+{line}"), None)
    return exact if exact is not None else next((n for n, found in enumerate(lines) if found.startswith("+")), 0)


def author_kind(body: dict[str, Any]) -> Literal["agent", "person", "unknown"]:
    """Who the record says it was."""
    if body.get("event") != "human_edit":
        return "agent"
    return "person" if body.get("origin") == "person" else "unknown"


def criteria_texts(intent: Intent | None) -> tuple[str, ...] | None:
    """What the intent calls done."""
    return None if intent is None else tuple(criterion.text for criterion in intent.acceptance_criteria)


def body_of(document: dict[str, Any]) -> dict[str, Any]:
    """Remit's part of a record."""
    return document["metadata"][KEY]


def intent_name_at(index: Index, intent_id: str | None, at: str) -> str | None:
    """What the intent was called then."""
    found = index.find(event="intent_changed", intent_id=intent_id, until=at, limit=1) if intent_id else []
    return str(body_of(found[0]).get("name") or "") or None if found else None


def selection_reasoning(index: Index, session: str | None, intent_id: str | None, at: str) -> str:
    """What the agent said when it selected the intent."""
    if session is None or intent_id is None:
        return ""
    found = index.find(event="intent_selected", session_id=session, intent_id=intent_id, until=at, limit=1)
    return str(body_of(found[0]).get("reasoning") or "") if found else ""


def recorded_path(body: dict[str, Any], path: str) -> str:
    """What the file was called when that record was made."""
    file = find_changed_file(body, path)
    return str(file["path"]) if file else path


def find_denials(index: Index, session: str | None, path: str, at: str) -> tuple[Denial, ...]:
    """What was refused to the session before, the newest first: on that file, and whatever it tried since it last
    changed any.
    """
    if session is None:
        return ()
    changed = index.find(event="mutation", session_id=session, until=at, limit=1)
    since = str(changed[0]["timestamp"]) if changed else None
    found = [
        *index.find(event="denied", session_id=session, path=path, until=at, limit=MAX_DENIALS),
        *index.find(event="denied", session_id=session, since=since, until=at, limit=MAX_DENIALS),
    ]
    newest = sorted({str(document["id"]): document for document in found}.items(), reverse=True)
    return tuple(make_denial(document) for _, document in newest[:MAX_DENIALS])


def make_denial(document: dict[str, Any]) -> Denial:
    """A denial in short."""
    violation: dict[str, Any] = body_of(document).get("violation", {})
    message = sanitise_line(str(violation.get("error", "")), 300)
    return Denial(str(document["timestamp"]), str(violation.get("error_type")), message)


def find_approvals(index: Index, session: str | None, call_id: str | None, at: str) -> tuple[Approval, ...]:
    """The yeses that the call was let through by."""
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
    """What the person said with that yes, the newest there is before the call.

    A grant has the name of its question, and may be of another session; a yes for one call is that session's newest.
    """
    own = session if ONCE_GRANT in grants else None
    answers = index.find(event="approval_answered", session_id=own, until=at, limit=MAX_ANSWERS)
    said: Iterator[dict[str, Any]] = (body_of(document).get("approval", {}) for document in answers)
    yes = (one for one in said if one.get("answer") == "allow" and (own or one.get("id") in grants))
    return next((str(one.get("words") or "") for one in yes), "")


def find_verifications(index: Index, intent_id: str | None, at: str) -> tuple[VerificationRun, ...]:
    """What Remit verified under that intent after the edit, the first of it: a person may have asked, in no session."""
    if intent_id is None:
        return ()
    found = index.find(event="verification", intent_id=intent_id, since=at, limit=200)
    return tuple(make_verification(document) for document in found[::-1][:MAX_CHECKS])


def make_verification(document: dict[str, Any]) -> VerificationRun:
    """A verification in short."""
    body = body_of(document)
    return VerificationRun(
        str(document["timestamp"]), sanitise_line(str(body.get("command") or ""), 200), body.get("exit_code")
    )

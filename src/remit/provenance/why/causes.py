"""One edit with all that is known around it: the ledger's records, the kept contents, the conversation."""

import sqlite3
from collections.abc import Collection, Iterator
from typing import Any, Literal

from remit.core.intent import Intent, IntentsDocument
from remit.core.record import KEY
from remit.core.text import shown
from remit.ledger.index import Index
from remit.provenance.blame.blame import Blamer, model_of
from remit.provenance.why.conversations import Conversations
from remit.provenance.why.explanation import Approval, Cause, Check, Denial
from remit.provenance.why.intents_then import IntentsThen
from remit.provenance.why.talk import Asked, Talk, around
from remit.workspace.contents import ContentStore
from remit.workspace.git import GitError

MOST_DENIALS = 5
MOST_CHECKS = 5
MOST_ANSWERS = 1000
ONCE = "once"
"""The grant of a call that a person was asked about and let through."""
MOST_DIFFS = 20
DIFF_CHARS = 256 * 1024


class Causes:
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
        self.intents = IntentsThen(blamer.git, blamer.index, store, document)
        self.diffs = 0
        self.remarks: set[str] = set()

    def cause(self, document: dict[str, Any], line: str, *, proved: bool = True) -> Cause:
        """One record, with what is known around it. `line` is what the edit is asked about; where it is not `proved`
        to be the record's, the call only ran when it came.
        """
        body = body_of(document)
        call: dict[str, Any] = body.get("call", {})
        at, session, intent = str(document["timestamp"]), body.get("session_id"), body.get("intent_id")
        then, now = self.then(body), self.intents.intent_now(intent) if intent else None
        diff = self.diff(body)
        return Cause(
            record=str(document["id"]),
            at=at,
            by=by(body) if proved or body.get("event") == "human_edit" else "unknown",
            tool=str(call.get("name") or ""),
            command=shown(str(call.get("command") or ""), 500),
            agent=document.get("tool", {}).get("name"),
            model=model_of(document),
            session_id=session,
            agent_id=body.get("agent_id"),
            intent_id=intent,
            intent_name=name_of(self.index, intent, at),
            intent_status=now.status if now else None,
            criteria=criteria(then),
            criteria_now=criteria(now),
            mutation_class=body.get("mutation_class", {}).get("computed"),
            in_scope=body.get("in_scope"),
            reasoning=reasoning(self.index, session, intent, at),
            talk=self.talk(body, at),
            diff=diff,
            focus=focus(diff or "", line),
            denials=denials(self.index, session, path_then(body, self.path), at),
            approvals=approvals(self.index, session, call.get("id"), at),
            checks=checks(self.index, intent, at),
        )

    def then(self, body: dict[str, Any]) -> Intent | None:
        """The intent as it was when the call was judged."""
        intent: str | None = body.get("intent_id")
        digest = str(body.get("decision", {}).get("intent_sha256") or "")
        return self.intents.intent(intent, digest) if intent else None

    def talk(self, body: dict[str, Any], at: str) -> Talk | None:
        """The conversation around the call."""
        session: str | None = body.get("session_id")
        if self.conversations is None or session is None:
            return None
        call: dict[str, Any] = body.get("call", {})
        ids = (str(call.get("id") or ""), str(call.get("arguments_sha256") or ""))
        try:
            return around(self.conversations, Asked(session, str(body.get("agent_id") or ""), *ids, at))
        except sqlite3.Error as error:
            self.remarks.add(f"the kept conversations cannot be read: {error}")
            return None

    def diff(self, body: dict[str, Any]) -> str | None:
        """What the edit did to the file; None where its contents are gone, or there were enough diffs."""
        file = changed_file(body, self.path)
        if file is None or self.diffs >= MOST_DIFFS:
            return None
        self.diffs += 1
        before, after = (self.content(file.get(side)) for side in ("before", "after"))
        if before is None or after is None:
            return None
        try:
            return self.store.diff(before, after)[:DIFF_CHARS]
        except (GitError, OSError) as error:
            self.remarks.add(f"a diff could not be made: {error}")
            return None

    def content(self, side: dict[str, Any] | None) -> bytes | None:
        """One side of a change: empty where there was no file, None where the content was not kept."""
        if side is None:
            return b""
        blob = side.get("git_blob")
        return self.store.load(blob) if isinstance(blob, str) else None


def changed_file(body: dict[str, Any], path: str) -> dict[str, Any] | None:
    """What a record says of that file; of its only one, where the file had another name then."""
    files: list[dict[str, Any]] = body.get("files", [])
    found = next((file for file in files if file.get("path") == path), None)
    return found or (files[0] if len(files) == 1 else None)


def focus(diff: str, line: str) -> int:
    """The index in the diff of the line that was asked about; of the first that was added, where it is not there."""
    lines = diff.split("\n")
    exact = next((n for n, found in enumerate(lines) if found == f"+{line}"), None)
    return exact if exact is not None else next((n for n, found in enumerate(lines) if found.startswith("+")), 0)


def by(body: dict[str, Any]) -> Literal["agent", "person", "unknown"]:
    """Who the record says it was."""
    if body.get("event") != "human_edit":
        return "agent"
    return "person" if body.get("origin") == "person" else "unknown"


def criteria(intent: Intent | None) -> tuple[str, ...] | None:
    """What the intent calls done."""
    return None if intent is None else tuple(criterion.text for criterion in intent.acceptance_criteria)


def body_of(document: dict[str, Any]) -> dict[str, Any]:
    """Remit's part of a record."""
    return document["metadata"][KEY]


def name_of(index: Index, intent_id: str | None, at: str) -> str | None:
    """What the intent was called then."""
    found = index.find(event="intent_changed", intent_id=intent_id, until=at, limit=1) if intent_id else []
    return str(body_of(found[0]).get("name") or "") or None if found else None


def reasoning(index: Index, session: str | None, intent_id: str | None, at: str) -> str:
    """What the agent said when it selected the intent."""
    if session is None or intent_id is None:
        return ""
    found = index.find(event="intent_selected", session_id=session, intent_id=intent_id, until=at, limit=1)
    return str(body_of(found[0]).get("reasoning") or "") if found else ""


def path_then(body: dict[str, Any], path: str) -> str:
    """What the file was called when that record was made."""
    file = changed_file(body, path)
    return str(file["path"]) if file else path


def denials(index: Index, session: str | None, path: str, at: str) -> tuple[Denial, ...]:
    """What was refused to the session before, the newest first: on that file, and whatever it tried since it last
    changed any.
    """
    if session is None:
        return ()
    changed = index.find(event="mutation", session_id=session, until=at, limit=1)
    since = str(changed[0]["timestamp"]) if changed else None
    found = [
        *index.find(event="denied", session_id=session, path=path, until=at, limit=MOST_DENIALS),
        *index.find(event="denied", session_id=session, since=since, until=at, limit=MOST_DENIALS),
    ]
    newest = sorted({str(document["id"]): document for document in found}.items(), reverse=True)
    return tuple(denial(document) for _, document in newest[:MOST_DENIALS])


def denial(document: dict[str, Any]) -> Denial:
    """A denial in short."""
    violation: dict[str, Any] = body_of(document).get("violation", {})
    message = shown(str(violation.get("error", "")), 300)
    return Denial(str(document["timestamp"]), str(violation.get("error_type")), message)


def approvals(index: Index, session: str | None, call_id: str | None, at: str) -> tuple[Approval, ...]:
    """The yeses that the call was let through by."""
    if session is None or not call_id:
        return ()
    uses = index.find(event="tool_use", session_id=session, until=at, limit=50)
    use = next((d for d in uses if body_of(d).get("call", {}).get("id") == call_id), None)
    decision: dict[str, Any] = body_of(use).get("decision", {}) if use else {}
    if use is None or not decision.get("approved_by"):
        return ()
    grants = str(decision.get("grant") or "").split(", ")
    words = words_of(index, session, grants, str(use["timestamp"]))
    return (Approval(str(decision["approved_by"]), words, decision.get("grant")),)


def words_of(index: Index, session: str, grants: Collection[str], at: str) -> str:
    """What the person said with that yes, the newest there is before the call.

    A grant has the name of its question, and may be of another session; a yes for one call is that session's newest.
    """
    own = session if ONCE in grants else None
    answers = index.find(event="approval_answered", session_id=own, until=at, limit=MOST_ANSWERS)
    said: Iterator[dict[str, Any]] = (body_of(document).get("approval", {}) for document in answers)
    yes = (one for one in said if one.get("answer") == "allow" and (own or one.get("id") in grants))
    return next((str(one.get("words") or "") for one in yes), "")


def checks(index: Index, intent_id: str | None, at: str) -> tuple[Check, ...]:
    """What Remit verified under that intent after the edit, the first of it: a person may have asked, in no session."""
    if intent_id is None:
        return ()
    found = index.find(event="verification", intent_id=intent_id, since=at, limit=200)
    return tuple(check(document) for document in found[::-1][:MOST_CHECKS])


def check(document: dict[str, Any]) -> Check:
    """A verification in short."""
    body = body_of(document)
    return Check(str(document["timestamp"]), shown(str(body.get("command") or ""), 200), body.get("exit_code"))

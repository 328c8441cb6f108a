"""The intents file of one workspace: what it says, and every change of it. Each change is a record."""

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from msgspec import UNSET, json

from remit.core.call import SessionKey
from remit.core.intent import Intent, IntentsDocument, LintFinding, Status
from remit.core.intent_change import describe_intent_change
from remit.core.lifecycle import transition
from remit.core.record import KEY, Body, EventName, Record
from remit.core.redaction import redact
from remit.core.text import shown
from remit.gate.governing import Governing, governing, keep_copy, stamp
from remit.gate.intent_refusals import IntentError, check_scope
from remit.gate.recorder import Recorder
from remit.gate.state import State
from remit.ledger.index import Index
from remit.workspace.place import Workspace

if TYPE_CHECKING:
    from remit.gate.intents_rewriting import Rewriting


class IntentsFile:
    """The intents of one workspace, as its file has them."""

    def __init__(self, workspace: Workspace, state: State, recorder: Recorder) -> None:
        self.workspace = workspace
        self.state = state
        self.recorder = recorder

    @property
    def rules(self) -> Governing:
        """What governs now."""
        return governing(self.workspace)

    @property
    def document(self) -> IntentsDocument:
        """The intents file; an empty one where there is none."""
        return self.rules.document or IntentsDocument()

    def known(self, intent_id: str | None) -> Intent | None:
        """The intent of that id, if the file has it."""
        return next((i for i in self.document.intents if i.id == intent_id), None)

    def get(self, intent_id: str) -> Intent:
        """The intent of that id. Raises IntentError."""
        found = self.known(intent_id)
        if found is None:
            ids = ", ".join(i.id for i in self.document.intents) or "none"
            raise IntentError(f"there is no intent {intent_id!r} (known: {ids}); see `remit intent list`")
        return found

    def lint(self) -> tuple[LintFinding, ...]:
        """All findings of the file, in its order."""
        return self.document.findings

    def set_status(
        self,
        intent_id: str,
        to: Status,
        *,
        by: str,
        notes: str = "",
        session: SessionKey | None = None,
        reason: str | None = None,
    ) -> Intent:
        """Move an intent along its life, and record it. Raises IllegalTransition, IntentError, EditRefused."""
        intent = self.get(intent_id)
        transition(intent, to)
        changes: dict[str, Any] = {"status": to}
        if to == "BLOCKED":
            changes["blocked_reason"] = reason
        elif intent.blocked_reason is not None:
            changes["blocked_reason"] = None
        self.rewriting.set_fields(intent_id, changes)
        detail = {"from": intent.status, "to": to, "notes": said(notes), "by": by}
        self.recorder.append([self.record("intent_transition", intent_id, session, detail)])
        self.notice(self.rules, by=by)
        return self.get(intent_id)

    def create(self, intent: Intent, *, by: str) -> Intent:
        """Add an intent to the file, which is made where there is none. Raises IntentError, EditRefused.

        Only `remit init` starts governing: where Remit does not govern, that is an IntentError.
        """
        check_scope(intent.owned_scope)
        if not self.workspace.governed:
            raise IntentError("Remit does not govern this repository; start with `remit init`")
        made = self.rewriting.add(intent, self.document)
        self.notice(self.rules, by=by)
        return self.get(made)

    def edit(self, intent_id: str, changes: Mapping[str, Any], *, by: str) -> Intent:
        """Change fields of an intent. Raises IntentError, EditRefused."""
        check_scope(changes.get("owned_scope", ()), required="owned_scope" in changes)
        self.get(intent_id)
        self.rewriting.set_fields(intent_id, changes)
        self.notice(self.rules, by=by)
        return self.get(intent_id)

    def delete(self, intent_id: str, *, by: str) -> None:
        """Take out a DRAFT that nothing was recorded under. Raises IntentError."""
        intent = self.get(intent_id)
        if intent.status != "DRAFT":
            raise IntentError(
                f"{intent_id} is {intent.status}; only a DRAFT can be deleted. "
                f"`remit intent set-status {intent_id} ABORTED` ends it."
            )
        with Index.open(self.workspace.state / "index.db", self.workspace.log_folder) as index:
            used = [d for d in index.find(intent_id=intent_id, limit=50) if body_of(d).get("event") != "intent_changed"]
        if used:
            raise IntentError(f"{intent_id} has records; `remit intent set-status {intent_id} ABORTED` ends it.")
        self.rewriting.remove(intent_id)
        self.notice(self.rules, by=by)

    @property
    def rewriting(self) -> "Rewriting":
        """Who changes the file's text."""
        from remit.gate.intents_rewriting import Rewriting  # a YAML parser: milliseconds, and few calls change the file

        return Rewriting(self.workspace, self.now())

    def notice(self, rules: Governing, *, by: str) -> None:
        """Record what changed in the file since Remit last looked, whoever changed it."""
        now = stamp(self.workspace)
        if now != self.state.fact("kept"):
            keep_copy(self.workspace)
            self.state.put_fact("kept", now)
        document = rules.document
        if document is None or not document.sha256 or document.sha256 == self.state.fact("intents_sha256"):
            return
        before = json.decode(self.state.fact("intents") or "[]", type=tuple[Intent, ...])
        old = {i.id: i for i in before}
        new = {i.id: i for i in document.intents}
        pairs = [(i, old.get(i), new.get(i)) for i in (*new, *(i for i in old if i not in new))]
        pairs = [pair for pair in pairs if pair[1] != pair[2]]
        known = {"content_sha256": document.sha256, "by": by}
        records = [
            self.record("intent_changed", intent_id, None, {**known, **describe_intent_change(then, now)})
            for intent_id, then, now in pairs
        ]
        self.recorder.append(records)
        self.state.put_fact("intents", json.encode(document.intents).decode())
        self.state.put_fact("intents_sha256", document.sha256)

    def now(self) -> str:
        """The time, as the file writes it."""
        moment = datetime.fromtimestamp(self.recorder.environment.clock(), UTC)
        return moment.isoformat(timespec="seconds").replace("+00:00", "Z")

    def record(
        self,
        event: EventName,
        intent_id: str | None,
        session: SessionKey | None,
        detail: dict[str, Any],
        agent: str | None = None,
    ) -> Record:
        """A record about an intent."""
        body = Body(
            event=event,
            intent_id=intent_id,
            session_id=session.session_id if session else None,
            agent_id=(session.agent_id if session else "") or UNSET,
            detail=detail,
        )
        return self.recorder.record(body, agent)


def said(text: str) -> str:
    """What an agent said about its own work, as records may hold it."""
    return shown(redact(text[:8_000]), 2_000)


def body_of(document: dict[str, Any]) -> dict[str, Any]:
    """Remit's own part of a record that was read from the log."""
    return document.get("metadata", {}).get(KEY, {})

"""Intents of one workspace: reading and changing the intents file, and binding sessions to intents.

Each change is recorded.
"""

import sqlite3
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from msgspec import UNSET, Struct, json

from remit.core.call import SessionKey
from remit.core.diff.contents import sha256
from remit.core.display_text import sanitise_line
from remit.core.intent import Intent, IntentsDocument, LintFinding, Status
from remit.core.intents.context_block import RecentChange, render_context_block
from remit.core.intents.lifecycle import check_transition, describe_intent_change
from remit.core.record import KEY, Body, EventName, Record
from remit.core.secrets.redaction import redact
from remit.core.timestamps import format_utc
from remit.gate.context import WorkspaceContext
from remit.gate.intents.lessons import find_relevant_lessons
from remit.gate.intents.refusals import (
    IntentError,
    IntentRefused,
    dependency_warnings,
    require_selectable,
    scope_warnings,
    validate_scope,
)
from remit.gate.records.recorder import Recorder
from remit.gate.rules.governed_workspaces import update_marker
from remit.gate.rules.governing_copies import copies_signature, save_copies
from remit.gate.rules.load import Rules, load_rules
from remit.gate.state.sessions import SessionState
from remit.gate.state.workspace_state import State
from remit.ledger.index.index import open_index
from remit.ledger.segments import LedgerError
from remit.workspace.place.governed_repositories import register_repository
from remit.workspace.place.workspace import Workspace

if TYPE_CHECKING:
    from remit.gate.intents.edit import IntentsFileEditor


class IntentBinding(Struct, frozen=True):
    """Intent named by a session's environment: `REMIT_INTENT` (source `environment`) or the `branch`."""

    intent_id: str
    source: str


class SelectedIntent(Struct, frozen=True):
    """Selected intent with the context block for the agent."""

    intent: Intent
    block: str
    warnings: tuple[str, ...] = ()


class Intents:
    """Intents of one workspace: its intents file, and the sessions that work under them."""

    def __init__(self, workspace: Workspace, state: State, recorder: Recorder) -> None:
        self.workspace = workspace
        self.state = state
        self.recorder = recorder

    @property
    def rules(self) -> Rules:
        return load_rules(self.workspace)

    @property
    def document(self) -> IntentsDocument:
        """Return the parsed intents file; an empty document if the file is missing."""
        return self.rules.document or IntentsDocument()

    def find_intent(self, intent_id: str | None) -> Intent | None:
        return next((i for i in self.document.intents if i.id == intent_id), None)

    def get(self, intent_id: str) -> Intent:
        """Return the intent with this id. Raises IntentError."""
        found = self.find_intent(intent_id)
        if found is None:
            ids = ", ".join(i.id for i in self.document.intents) or "none"
            raise IntentError(f"there is no intent {intent_id!r} (known: {ids}); see `remit intent list`")
        return found

    def lint(self) -> tuple[LintFinding, ...]:
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
        """Move an intent to another status and record the transition.

        Raises IllegalTransition, IntentError, EditRefused.
        """
        intent = self.get(intent_id)
        check_transition(intent, to)
        changes: dict[str, Any] = {"status": to}
        if to == "BLOCKED" or intent.blocked_reason is not None:
            changes["blocked_reason"] = reason if to == "BLOCKED" else None
        self.editor.change_fields(intent_id, changes)
        detail = {"from": intent.status, "to": to, "notes": redact_statement(notes), "by": by}
        self.recorder.append([self.make_record("intent_transition", intent_id, session, detail)])
        self.record_file_changes(self.rules, by=by)
        return self.get(intent_id)

    def create(self, intent: Intent, *, by: str) -> Intent:
        """Add an intent to the file and create the file if missing. Raises IntentError, EditRefused.

        Only `remit init` starts governing: in an ungoverned workspace the call raises IntentError.
        """
        validate_scope(intent.owned_scope)
        if not self.workspace.is_governed:
            raise IntentError("Remit does not govern this repository; start with `remit init`")
        intent_id = self.editor.append_intent(intent, self.document)
        self.record_file_changes(self.rules, by=by)
        return self.get(intent_id)

    def edit(self, intent_id: str, changes: Mapping[str, Any], *, by: str) -> Intent:
        """Change fields of an intent. Raises IntentError, EditRefused."""
        validate_scope(changes.get("owned_scope", ()), required="owned_scope" in changes)
        self.get(intent_id)
        self.editor.change_fields(intent_id, changes)
        self.record_file_changes(self.rules, by=by)
        return self.get(intent_id)

    def delete(self, intent_id: str, *, by: str) -> None:
        """Delete a DRAFT intent without records. Raises IntentError."""
        intent = self.get(intent_id)
        if intent.status != "DRAFT":
            raise IntentError(
                f"{intent_id} is {intent.status}; only a DRAFT can be deleted. "
                f"`remit intent set-status {intent_id} ABORTED` ends it."
            )
        with open_index(self.workspace.state, self.workspace.log_folder) as index:
            documents = index.find(intent_id=intent_id, limit=50)
        if any(record_body(document).get("event") != "intent_changed" for document in documents):
            raise IntentError(f"{intent_id} has records; `remit intent set-status {intent_id} ABORTED` ends it.")
        self.editor.delete_intent(intent_id)
        self.record_file_changes(self.rules, by=by)

    @property
    def editor(self) -> "IntentsFileEditor":
        # A YAML parser takes milliseconds to load, and few calls change the file.
        from remit.gate.intents.edit import IntentsFileEditor

        return IntentsFileEditor(self.workspace, self.format_now())

    def record_file_changes(self, rules: Rules, *, by: str) -> None:
        """Record every difference between the file and its last recorded version, whoever edited the file."""
        signature = copies_signature(self.workspace)
        if signature != self.state.read_fact("kept"):
            save_copies(self.workspace)
            self.state.put_fact("kept", signature)
        document = rules.document
        if document is None or not document.sha256 or document.sha256 == self.state.read_fact("intents_sha256"):
            return
        recorded = json.decode(self.state.read_fact("intents") or "[]", type=tuple[Intent, ...])
        old, new = ({i.id: i for i in intents} for intents in (recorded, document.intents))
        source = {"content_sha256": document.sha256, "by": by}
        self.recorder.append(
            [
                self.make_record("intent_changed", intent_id, None, {**source, **describe_intent_change(before, after)})
                for intent_id in dict.fromkeys((*new, *old))
                if (before := old.get(intent_id)) != (after := new.get(intent_id))
            ]
        )
        self.state.put_fact("intents", json.encode(document.intents).decode())
        self.state.put_fact("intents_sha256", document.sha256)

    # -- sessions -------------------------------------------------------------------------------------------

    def select(
        self,
        session: SessionKey,
        agent: str,
        intent_id: str,
        *,
        reasoning: str = "",
        expected: Sequence[str] = (),
        tool: str = "select_active_intent",
        source: str = "selected",
    ) -> SelectedIntent:
        """Bind the session to an intent. Raises IntentRefused, and the errors in RECORDING_ERRORS."""
        rules = self.rules
        active = self.state.active_session(session)
        intent = require_selectable(intent_id, active, rules, tool)
        intents = self.document.intents
        warnings = [*dependency_warnings(intent, intents), *scope_warnings(intent, expected, intents)]
        if intent.status == "DRAFT":
            intent = self.set_status(intent.id, "IN_PROGRESS", by=agent, session=session)
        by = agent if source == "selected" else source
        detail: dict[str, Any] = {"reasoning": redact_statement(reasoning), "by": by}
        if expected:
            detail["expected_mutations"] = [sanitise_line(path) for path in expected[:100]]
        self.recorder.append([self.make_record("intent_selected", intent.id, session, detail, agent)])
        block = self.format_block(intent)
        self.bind_session(session, agent, intent.id, source, block)
        return SelectedIntent(intent, block, tuple(warnings))

    def bind_session(self, session: SessionKey, agent: str, intent_id: str | None, source: str, block: str) -> None:
        """Store the session's intent and the hash of the delivered `block`.

        A session keeps its first agent: a person who selects for the session is named in the record, but the session's
        processes remain the agent's.
        """
        known = self.state.find_session(session) or SessionState()
        bound = SessionState(
            agent=known.agent or agent,
            model=known.model,
            intent_id=intent_id,
            source=source,
            told=hash_block(block) if block else "",
        )
        self.state.put_session(session, bound, self.recorder.environment.clock())

    def clear(self, session: SessionKey, agent: str) -> str | None:
        """Release the session's intent and return its id. Raises the errors in RECORDING_ERRORS."""
        active = self.state.active_session(session).intent_id
        if active is None:
            return None
        self.recorder.append([self.make_record("intent_cleared", active, session, {"by": agent}, agent)])
        self.bind_session(session, agent, None, "cleared", "")
        return active

    def bind_unselected_session(self, session: SessionKey, agent: str, binding: IntentBinding | None) -> str:
        """Bind a session without a selection to the intent of its environment; return the block to deliver.

        Return "" and bind nothing if no binding exists or the intent cannot be selected.
        """
        active = self.state.active_session(session)
        if binding is None or active.intent_id is not None or active.source == "cleared":
            return ""
        try:
            return self.select(session, agent, binding.intent_id, source=binding.source).block
        except IntentRefused:
            return ""

    def deliver_block(self, session: SessionKey, *, only_changed: bool = False) -> str:
        """Return the active intent's block; with `only_changed`, "" if the session already received the same block."""
        active = self.state.active_session(session)
        intent = self.find_intent(active.intent_id)
        if intent is None:
            return ""
        block = self.format_block(intent)
        if only_changed and hash_block(block) == active.told:
            return ""
        self.bind_session(session, active.agent, active.intent_id, active.source, block)
        return block

    def format_block(self, intent: Intent) -> str:
        """Return an intent's context block: the smallest text that constrains the next step."""
        document = self.document
        others = [i for i in document.intents if i.status == "IN_PROGRESS" and i.id != intent.id]
        return render_context_block(
            intent,
            intents=document.intents,
            recent_changes=self.find_recent_changes(intent.id),
            lessons=find_relevant_lessons(self.workspace, intent),
            other_intents=others,
        )

    def find_recent_changes(self, intent_id: str, limit: int = 10) -> list[RecentChange]:
        """Return the newest changes under an intent; none if the ledger's index is unusable."""
        try:
            with open_index(self.workspace.state, self.workspace.log_folder) as index:
                found = index.find(event="mutation", intent_id=intent_id, limit=limit)
        except (sqlite3.Error, OSError, LedgerError):
            return []
        return [change for document in found for change in changes_in_record(document)][:limit]

    # -- records --------------------------------------------------------------------------------------------

    def format_now(self) -> str:
        moment = datetime.fromtimestamp(self.recorder.environment.clock(), UTC)
        return format_utc(moment, "seconds")

    def make_record(
        self,
        event: EventName,
        intent_id: str | None,
        session: SessionKey | None,
        detail: dict[str, Any],
        agent: str | None = None,
    ) -> Record:
        body = Body(
            event=event,
            intent_id=intent_id,
            session_id=session.session_id if session else None,
            agent_id=(session.agent_id if session else "") or UNSET,
            detail=detail,
        )
        return self.recorder.make_record(body, agent)


def changes_in_record(document: dict[str, Any]) -> list[RecentChange]:
    """Return the files of a mutation record in the form of the context block."""
    body = record_body(document)
    computed: str | None = body.get("mutation_class", {}).get("computed")
    files: list[dict[str, Any]] = body.get("files", [])
    return [
        RecentChange(str(f.get("path")), str(document.get("timestamp")), computed, str(body.get("session_id") or ""))
        for f in files
    ]


def redact_statement(text: str) -> str:
    """Return an agent's statement about its work without secrets, bounded for a record."""
    return sanitise_line(redact(text[:8_000]), 2_000)


def record_body(document: dict[str, Any]) -> dict[str, Any]:
    return document.get("metadata", {}).get(KEY, {})


def hash_block(block: str) -> str:
    return sha256(block.encode("utf-8", "replace"))


def notice_rules(context: WorkspaceContext, rules: Rules) -> None:
    """Record that the intents file changed, whoever changed it, and keep the marker for the hook client true."""
    update_marker(context.workspace, rules.mode)
    if rules is context.noticed_rules:
        return
    intents = Intents(context.workspace, context.state, context.recorder)
    intents.record_file_changes(rules, by="unknown")
    register_repository(context.environment.home, context.workspace)
    context.noticed_rules = rules

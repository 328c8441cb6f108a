"""Intents of one workspace: changing the intents file, binding sessions to intents, and completing intents. Each change
is recorded. Before a completion, constraints and criteria are verified as far as commands can verify them.
"""

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from typing import Any

from msgspec import UNSET, Struct
from msgspec.structs import replace

from remit.core.call import OWN_AGENT, SessionKey
from remit.core.diff.contents import sha256
from remit.core.intent import Intent, IntentsDocument, LintFinding, Status, check_transition, find_completion_obstacles
from remit.core.intents.context_block import RecentChange, render_context_block
from remit.core.record import KEY, Body, EventName, Record, format_utc
from remit.core.redaction import redact
from remit.core.untrusted_input import sanitise_line
from remit.gate.context import WorkspaceContext
from remit.gate.governing import Rules, accept_change, load_rules
from remit.gate.intents.lessons import find_relevant_lessons
from remit.gate.intents.refusals import (
    ASSIGNED,
    IntentError,
    IntentRefused,
    dependency_warnings,
    make_refusal,
    require_selectable,
    scope_warnings,
    selectable_intent_ids,
    validate_scope,
)
from remit.gate.state.workspace_state import SessionState
from remit.gate.team_hooks.verify_commands import describe_completion_breaches, run_trusted_criteria, split_by_trust
from remit.ledger.log_files import LedgerError
from remit.workspace.place.assignment_file import read_assignment
from remit.workspace.place.workspace import put_session_home

COMPLETE_TOOL = "complete_intent"


MAX_RECENT = 10  # changes that a context block lists
MAX_SEARCHED = 200  # changes of an intent that are searched for those of other sessions


class IntentBinding(Struct, frozen=True):
    """Intent named by a session's environment: its worktree's `assignment`, `REMIT_INTENT` (source `environment`) or
    the `branch`.
    """

    intent_id: str
    source: str


class SelectedIntent(Struct, frozen=True):
    """Selected intent with the context block for the agent."""

    intent: Intent
    block: str
    warnings: tuple[str, ...] = ()


class Intents:
    """Intents of one workspace: its intents file, and the sessions that work under them."""

    def __init__(self, context: WorkspaceContext) -> None:
        self.context = context
        self.workspace = context.workspace
        self.state = context.state
        self.recorder = context.recorder

    @property
    def rules(self) -> Rules:
        return load_rules(self.workspace)

    @property
    def document(self) -> IntentsDocument:
        return self.rules.document or IntentsDocument()

    def find_intent(self, intent_id: str | None) -> Intent | None:
        return next((i for i in self.document.intents if i.id == intent_id), None)

    def get(self, intent_id: str) -> Intent:
        found = self.find_intent(intent_id)
        if found is None and (broken := self.describe_broken_file()):
            raise IntentError(f"{intent_id} cannot be read: {broken}")
        if found is None:
            ids = ", ".join(i.id for i in self.document.intents) or "none"
            raise IntentError(f"there is no intent {intent_id!r} (known: {ids}); see `remit intent list`")
        return found

    def describe_broken_file(self) -> str:
        """Return the first error of the intents file with the next step; empty if the file has no error."""
        errors = self.document.errors  # read once: the file may change at any time
        if not errors:
            return ""
        first = errors[0]
        place = f"active_intents.yaml:{first.line}:{first.column}"
        return f"{place}: {first.code}: {first.message}; mend the file, see `remit intent lint`"

    def lint(self) -> tuple[LintFinding, ...]:
        return self.document.findings

    # The intents file: all changes raise IntentError, EditRefused

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
        """Move an intent to another status and record the transition. Raises IllegalTransition too."""
        intent = self.get(intent_id)
        check_transition(intent, to)
        changes: dict[str, Any] = {"status": to}
        if to == "BLOCKED" or intent.blocked_reason is not None:
            changes["blocked_reason"] = reason if to == "BLOCKED" else None
        self.change_fields(intent_id, changes)
        detail = {"from": intent.status, "to": to, "notes": redact_statement(notes), "by": by}
        self.recorder.append([self.make_record("intent_transition", intent_id, session, detail)])
        self.context.record_intent_changes(self.rules, by=by)
        return self.get(intent_id)

    def create(self, intent: Intent, *, by: str) -> Intent:
        """Add an intent to the file, with the next free id if it has none, and create the file if missing. Only `remit
        init` starts governing: in an ungoverned workspace the call raises IntentError.
        """
        validate_scope(intent.owned_scope)
        if not self.workspace.is_governed:
            raise IntentError("Remit does not govern this repository; start with `remit init`")
        from remit.workspace.intents_file.edit import add_intent, next_id

        named = intent if intent.id else replace(intent, id=next_id(self.document))
        self.rewrite_file(lambda text: add_intent(text, named, now=self.format_now()))
        self.context.record_intent_changes(self.rules, by=by)
        return self.get(named.id)

    def edit(self, intent_id: str, changes: Mapping[str, Any], *, by: str) -> Intent:
        validate_scope(changes.get("owned_scope", ()), required="owned_scope" in changes)
        self.get(intent_id)
        self.change_fields(intent_id, changes)
        accept_change(self.workspace, lambda rules, found: rules.take_fields(found, intent_id, changes))
        self.context.record_intent_changes(self.rules, by=by)
        return self.get(intent_id)

    def delete(self, intent_id: str, *, by: str) -> None:
        """Delete a DRAFT intent without records."""
        intent = self.get(intent_id)
        aborting = f"`remit intent set-status {intent_id} ABORTED` ends it."
        if intent.status != "DRAFT":
            raise IntentError(f"{intent_id} is {intent.status}; only a DRAFT can be deleted. {aborting}")
        with self.context.index() as index:
            documents = index.find(intent_id=intent_id, limit=50)
        if any(record_body(document).get("event") != "intent_changed" for document in documents):
            raise IntentError(f"{intent_id} has records; {aborting}")
        from remit.workspace.intents_file.edit import remove_intent

        self.rewrite_file(lambda text: remove_intent(text, intent_id))
        self.context.record_intent_changes(self.rules, by=by)

    def change_fields(self, intent_id: str, changes: Mapping[str, Any]) -> None:
        from remit.workspace.intents_file.edit import set_fields

        self.rewrite_file(lambda text: set_fields(text, intent_id, changes, now=self.format_now()))

    def rewrite_file(self, change: Callable[[str], str]) -> None:
        """Apply `change` to the file's text, one writer at a time. A person has to mend a file with errors first."""
        # Imported here, as above: a YAML parser takes milliseconds to load, and few calls change the file.
        from remit.workspace.intents_file.parse import parse_intents
        from remit.workspace.intents_file.storage import write_intents

        path, lock = self.workspace.intents_path, self.workspace.state / "intents.lock"
        old = path.read_bytes() if path.is_file() else None
        if old is not None and parse_intents(old).errors:
            raise IntentError("active_intents.yaml has errors; mend them first (`remit intent lint` shows them).")
        try:
            text = (old or b"").decode("utf-8")
        except UnicodeDecodeError as error:
            raise IntentError("active_intents.yaml is not UTF-8; save it as UTF-8 first.") from error
        write_intents(path, change(text), expected_sha256=None if old is None else sha256(old), lock=lock)

    # Sessions

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
        """Bind the session to an intent. Raises IntentRefused, and the errors in RECORDING_ERRORS. A session with an
        assigned worktree works there alone.
        """
        active = self.state.active_session(session)
        if (place := self.state.find_other_workspace(session, ASSIGNED)) is not None:
            say = f"This session works under an assignment in {sanitise_line(place)}, and nowhere else."
            raise make_refusal("OUTSIDE_WORKSPACE", say, tool, active.intent_id)
        if read_assignment(self.workspace) is not None:
            source = ASSIGNED
        intent = require_selectable(intent_id, active, self.rules, tool)
        intents = self.document.intents
        warnings = (*dependency_warnings(intent, intents), *scope_warnings(intent, expected, intents))
        if intent.status == "DRAFT":
            intent = self.set_status(intent.id, "IN_PROGRESS", by=agent, session=session)
        by = agent if source == "selected" else source
        detail: dict[str, Any] = {"reasoning": redact_statement(reasoning), "by": by}
        if expected:
            detail["expected_mutations"] = [sanitise_line(path) for path in expected[:100]]
        self.recorder.append([self.make_record("intent_selected", intent.id, session, detail, agent)])
        block = self.format_block(intent, session if agent == OWN_AGENT else None)
        self.bind_session(session, agent, intent.id, source, block)
        return SelectedIntent(intent, block, warnings)

    def bind_session(self, session: SessionKey, agent: str, intent_id: str | None, source: str, block: str) -> None:
        """Store the session's intent and the hash of the delivered `block`. A session keeps its first agent: a person
        who selects for the session is named in the record, but the session's processes remain the agent's.
        """
        known = self.state.find_session(session) or SessionState()
        told = hash_block(block) if block else ""
        bound = SessionState(known.agent or agent, known.model, intent_id, source, told)
        # First the user's list: a session that works under an intent is governed from its first call on.
        root = self.workspace.root
        try:
            put_session_home(self.context.environment.home, session.session_id, root, is_bound=intent_id is not None)
        except OSError:
            if not self.workspace.is_assigned:  # in its jail the list is out of reach, and its assignment governs
                raise
        self.state.put_session(session, bound, self.context.environment.clock.now())

    def clear(self, session: SessionKey, agent: str) -> str | None:
        """Release the session's intent and return its id. Raises IntentRefused for an assigned one, and the errors in
        RECORDING_ERRORS.
        """
        found = self.state.active_session(session)
        active = found.intent_id
        if found.source == ASSIGNED:
            say = f"{active} is assigned to this worktree: it ends with the attempt."
            raise make_refusal("INTENT_ALREADY_ACTIVE", say, "clear_active_intent", active)
        if active is not None:
            self.recorder.append([self.make_record("intent_cleared", active, session, {"by": agent}, agent)])
            self.bind_session(session, agent, None, "cleared", "")
        return active

    def bind_unselected_session(self, session: SessionKey, agent: str, binding: IntentBinding | None) -> str:
        """Bind a session without a selection to the intent of its environment; return the block to deliver. Return ""
        and bind nothing if no binding exists or the intent cannot be selected.
        """
        active = self.state.active_session(session)
        if binding is not None and active.intent_id is None and active.source != "cleared":
            with suppress(IntentRefused):
                return self.select(session, agent, binding.intent_id, source=binding.source).block
        return ""

    def narrow_session(self, session: SessionKey, *narrowings: Sequence[str], is_alone: bool = False) -> None:
        """Store patterns that hold beside the scope, each list by itself. Raises IntentError, StateError."""
        for patterns in narrowings:
            validate_scope(patterns, required=False)
        self.state.put_narrowings(session, narrowings, is_alone=is_alone)

    def deliver_block(self, session: SessionKey, *, only_changed: bool = False) -> str:
        """Return the active intent's block; with `only_changed`, "" if the session already received the same block."""
        active = self.state.active_session(session)
        intent = self.find_intent(active.intent_id)
        block = self.format_block(intent, session if active.agent == OWN_AGENT else None) if intent else ""
        if not block or (only_changed and hash_block(block) == active.told):
            return ""
        self.bind_session(session, active.agent, active.intent_id, active.source, block)
        return block

    def format_block(self, intent: Intent, without: SessionKey | None = None) -> str:
        """Return an intent's context block: the smallest text that constrains the next step. `without` the changes of a
        session that knows its own, the block stays the same while the session writes.
        """
        intents = self.document.intents
        recent: list[RecentChange] = []
        limit, own = (MAX_RECENT, "") if without is None else (MAX_SEARCHED, without.session_id)
        with suppress(OSError, LedgerError), self.context.index() as index:
            found = index.find(event="mutation", intent_id=intent.id, limit=limit)
            changes = (change for document in found for change in changes_in_record(document))
            recent = [change for change in changes if not own or change.session != own][:MAX_RECENT]
        return render_context_block(
            intent,
            intents=intents,
            recent_changes=recent,
            lessons=find_relevant_lessons(self.workspace, intent),
            other_intents=[i for i in intents if i.status == "IN_PROGRESS" and i.id != intent.id],
        )

    # Records

    def format_now(self) -> str:
        return format_utc(datetime.fromtimestamp(self.context.environment.clock.now(), UTC), "seconds")

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
    body = record_body(document)
    computed: str | None = body.get("mutation_class", {}).get("computed")
    files: list[dict[str, Any]] = body.get("files", [])
    at, session_id = str(document.get("timestamp")), str(body.get("session_id") or "")
    return [RecentChange(str(file.get("path")), at, computed, session_id) for file in files]


def redact_statement(text: str) -> str:
    """Return an agent's statement about its work without secrets, bounded for a record."""
    return sanitise_line(redact(text[:8_000]), 2_000)


def record_body(document: dict[str, Any]) -> dict[str, Any]:
    return document.get("metadata", {}).get(KEY, {})


def hash_block(block: str) -> str:
    return sha256(block.encode("utf-8", "replace"))


class IntentCompletion:
    """Completion of intents in one workspace."""

    def __init__(self, context: WorkspaceContext) -> None:
        self.context = context
        self.intents = Intents(context)

    def complete(self, session: SessionKey, agent: str, intent_id: str, notes: str, *, vouched: bool = False) -> Intent:
        """Set an intent to DONE after its trusted criteria commands succeeded, and release the intent; the intent of an
        assigned worktree is handed in, and stays as it is. `vouched`: a
        person confirmed the criteria whose commands may not run. Raises IntentRefused, and the errors in
        RECORDING_ERRORS.
        """
        intent = self.require_completable(session, intent_id, vouched=vouched)
        obstacles = run_trusted_criteria(self.context, intent, session.session_id)
        if not obstacles and self.require_completable(session, intent_id, vouched=vouched) != intent:
            obstacles = ("it was changed while its criteria were verified; complete it again",)
        if obstacles:
            raise completion_refusal(intent_id, obstacles)
        if self.context.state.active_session(session).source == ASSIGNED:
            # The intent of an attempt is DONE once it has landed, in the landing's commit.
            detail = {"notes": redact_statement(notes), "by": agent}
            record = self.intents.make_record("task_handed_in", intent_id, session, detail, agent)
            self.context.recorder.append([record])
            return intent
        done = self.intents.set_status(intent_id, "DONE", by=agent, notes=notes, session=session)
        self.intents.clear(session, agent)
        return done

    def require_completable(self, session: SessionKey, intent_id: str, *, vouched: bool) -> Intent:
        """Return the session's active intent if only its criteria remain to be verified. Raises IntentRefused."""
        active = self.context.state.active_session(session).intent_id
        if active != intent_id:
            name = sanitise_line(intent_id, 60)
            message = f"{name} is not the active intent of this session ({active or 'none is'})."
            ids = selectable_intent_ids(self.context.rules)
            raise make_refusal("INTENT_MISMATCH", message, COMPLETE_TOOL, active, ids)
        intent = self.intents.find_intent(intent_id)
        if intent is None:
            raise completion_refusal(intent_id, (f"{intent_id} is no longer in active_intents.yaml",))
        obstacles = self.find_obstacles(intent, vouched=vouched)
        if obstacles:
            raise completion_refusal(intent_id, obstacles)
        return intent

    def find_unrun_criteria(self, intent: Intent) -> list[str]:
        """Return the criteria with an untrusted command: commands from a repository never run untrusted."""
        _, untrusted = split_by_trust(self.context, intent)
        return [c.text for c in intent.acceptance_criteria if c.verify in untrusted]

    def find_obstacles(self, intent: Intent, *, vouched: bool = False) -> tuple[str, ...]:
        """Return the reasons against completion that are known before any criteria command has run."""
        broken = describe_completion_breaches(self.context, intent)
        obstacles = (*find_completion_obstacles(intent, self.intents.document.intents), *broken)
        unrun = [] if vouched else self.find_unrun_criteria(intent)
        if not unrun:
            return obstacles
        why = (
            "criteria with a `verify` command were not run, because no person has trusted them "
            f"({'; '.join(map(sanitise_line, unrun))}): ask the person to run `remit trust`, or to check them and run "
            f"`remit intent set-status {intent.id} DONE`"
        )
        return (*obstacles, why)

    def verify_for_person(self, intent_id: str) -> tuple[str, ...]:
        """Check constraints and run trusted criteria for a person; return the commands that did not run. Raises
        IntentRefused.
        """
        intent = self.intents.get(intent_id)
        failures = (
            *describe_completion_breaches(self.context, intent),
            *run_trusted_criteria(self.context, intent, None),
        )
        if failures:
            raise completion_refusal(intent_id, failures)
        return split_by_trust(self.context, intent)[1]


def completion_refusal(intent_id: str, obstacles: tuple[str, ...]) -> IntentRefused:
    why = "; ".join(obstacle.rstrip("\n") for obstacle in obstacles)
    return make_refusal("USER_REJECTED", f"{intent_id} cannot be completed: {why}.", COMPLETE_TOOL, intent_id)

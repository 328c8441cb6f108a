"""Intents of one workspace: changing the intents file, binding sessions to intents, and completing intents. Each change
is recorded. Before a completion, constraints and criteria are verified as far as commands can verify them.
"""

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from msgspec import UNSET, Struct, to_builtins
from msgspec.structs import replace

from remit.core.call import OWN_AGENT, SessionKey
from remit.core.diff.contents import sha256
from remit.core.intent import (
    INTENTS_FOLDER,
    REASONED_STATUSES,
    Intent,
    IntentsDocument,
    LintFinding,
    Status,
    check_transition,
    find_completion_obstacles,
    identify,
    split_id,
)
from remit.core.intents.context_block import RecentChange, render_context_block
from remit.core.intents.life import LifeRecord
from remit.core.record import KEY, Body, EventName, Record, format_utc
from remit.core.redaction import redact
from remit.core.untrusted_input import sanitise_line
from remit.gate.context import WorkspaceContext
from remit.gate.governing.lives import PENDING, pending_folder, put_life_record, put_pending, read_life
from remit.gate.governing.rules import Rules, accept_change, load_rules
from remit.gate.hooks.verify_commands import describe_completion_breaches, run_trusted_criteria, split_by_trust
from remit.gate.intents import refusals
from remit.gate.intents.bindings import IntentBinding
from remit.gate.intents.lessons import find_relevant_lessons
from remit.gate.state.workspace_state import SessionState
from remit.ledger.log_files import LedgerError
from remit.workspace.git.command import GitError
from remit.workspace.git.repository import current_branch, head_commit
from remit.workspace.place.assignment_file import read_assignment
from remit.workspace.place.workspace import is_folder, path_exists, put_session_home
from remit.workspace.safe_files import compute_version, remove_below

if TYPE_CHECKING:
    from remit.ledger.index.index import Index

COMPLETE_TOOL = "complete_intent"

CHOSEN_BY_AGENT = ("selected", "branch", "single", "bound worktree", "held worktree", "bound branch", "held branch")
"""Sources of a selection that an agent makes, or can bring about by a branch or a worktree."""


MAX_RECENT = 10  # changes that a context block lists
MAX_SEARCHED = 200  # changes of an intent that are searched for those of other sessions


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
        if found is None and (broken := self.describe_broken_file(intent_id)):
            raise refusals.IntentError(f"{intent_id} cannot be read: {broken}")
        if found is None:
            ids = ", ".join(i.id for i in self.document.intents) or "none"
            raise refusals.IntentError(f"there is no intent {intent_id!r} (known: {ids}); see `remit intent list`")
        return found

    def describe_broken_file(self, intent_id: str) -> str:
        """Return the error that closes an intent, with the next step; empty if its file has none."""
        fault = self.rules.find_fault(intent_id)
        next_step = "mend the file, see `remit intent lint`"
        return f"{fault.place}: {fault.code}: {fault.message}; {next_step}" if fault else ""

    def lint(self) -> tuple[LintFinding, ...]:
        document, path = self.document, self.workspace.intents_path
        if not document.files:
            return document.findings
        from remit.workspace.intents_file.storage import VIEW_MARK
        from remit.workspace.intents_file.view import is_edited

        with suppress(OSError):
            if path.read_bytes().startswith(VIEW_MARK) and is_edited(path, document):
                message = f"this list is a view: change the files in {INTENTS_FOLDER}/, then delete it; it is made anew"
                return (*document.findings, LintFinding("VIEW_EDITED", "warning", message))
        return document.findings

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
        """Move an intent to another status and record the transition. The file says so only of a closed or blocked
        intent, unless `[intents] write_back` says otherwise. Raises IllegalTransition too.
        """
        intent = self.get(intent_id)
        check_transition(intent, to)
        written = self.write_status(intent, to, reason)
        detail = {"from": intent.status, "to": to, "notes": redact_statement(notes), "by": by}
        record = LifeRecord(
            intent_id,
            to,
            self.format_now(),
            sanitise_line(by, 60),
            str(self.workspace.root),
            current_branch(self.workspace) or "",
            head_commit(self.workspace),
            sanitise_line(reason) if reason else None,
            written,
        )
        self.record_life(intent, record, detail, session=session)
        self.context.record_intent_changes(self.rules, by=by)
        return self.get(intent_id)

    def record_life(
        self,
        intent: Intent,
        record: LifeRecord,
        detail: dict[str, Any],
        *,
        event: EventName = "intent_transition",
        session: SessionKey | None = None,
    ) -> None:
        """Record a step of an intent's life in the ledger, whole, and then in the file that calls read."""
        made = self.make_record(event, intent.id, session, {**detail, "life": to_builtins(record)})
        made = replace(made, body=replace(made.body, intent_uid=identify(intent)))
        self.recorder.append([made])
        put_life_record(self.workspace, identify(intent), record)

    def write_status(self, intent: Intent, to: Status, reason: str | None) -> bool:
        """Write a status into the intent's file if it belongs there; return whether the file says it now."""
        rules = self.rules
        mode = rules.config.intents.write_back
        before = next((i for i in (rules.written or IntentsDocument()).intents if i.id == intent.id), intent)
        if mode == "never" or (mode == "closing" and to == "IN_PROGRESS" and before.status != "BLOCKED"):
            return before.status == to
        changes: dict[str, Any] = {}
        if to in REASONED_STATUSES or before.blocked_reason is not None:
            changes["blocked_reason"] = reason if to in REASONED_STATUSES else None
        if mode == "closing" and to == "IN_PROGRESS" and self.find_file(intent.id) != self.workspace.intents_path:
            from remit.workspace.intents_file.edit import drop_fields

            self.rewrite_file(intent.id, lambda text: drop_fields(text, split_id(intent.id)[0], ["status", *changes]))
        else:
            self.change_fields(intent.id, {**changes, "status": to})
        return True

    def create(self, intent: Intent, *, by: str) -> Intent:
        """Add an intent to the file, with the next free id if it has none, and create the file if missing. Only `remit
        init` starts governing: in an ungoverned workspace the call raises IntentError.
        """
        refusals.validate_scope(intent.owned_scope)
        if not self.workspace.is_governed:
            raise refusals.IntentError("Remit does not govern this repository; start with `remit init`")
        from remit.gate.intents.identity import pick_id
        from remit.workspace.intents_file.edit import add_intent, name_intent_file, render_intent_file

        now = self.format_now()
        named = intent if intent.id else replace(intent, id=pick_id(self.context))
        if self.writes_files:
            if named.id in self.document.files or self.find_intent(named.id):
                raise refusals.IntentError(f"{named.id} exists already; without an id it gets a free one")
            named = replace(named, created_at=named.created_at or now, updated_at=None)
            text = render_intent_file(named)
            path = self.workspace.folder / INTENTS_FOLDER / name_intent_file(named)
            self.write_text(path, text, None)
            put_pending(self.workspace, identify(named), path)
        else:
            self.rewrite_file(None, lambda text: add_intent(text, named, now=now))
        self.context.record_intent_changes(self.rules, by=by)
        return self.get(named.id)

    @property
    def writes_files(self) -> bool:
        """Return whether a new intent gets a file of its own: always, unless there is a list already."""
        layout, folder = self.rules.config.intents.layout, self.workspace.folder
        if layout != "auto":
            return layout == "files"
        return is_folder(folder / INTENTS_FOLDER) or not path_exists(self.workspace.intents_path)

    def find_file(self, intent_id: str) -> Path:
        """Return the file that an intent stands in: its own, or the list."""
        name = self.document.files.get(intent_id)
        if name is not None and name.startswith(PENDING):
            return self.take_pending(intent_id, name)
        return self.workspace.folder / name if name else self.workspace.intents_path

    def take_pending(self, intent_id: str, name: str) -> Path:
        from remit.workspace.intents_file.edit import name_intent_file

        path = self.workspace.folder / INTENTS_FOLDER / name_intent_file(self.get(intent_id))
        content = (pending_folder(self.workspace) / name.removeprefix(PENDING)).read_bytes()
        self.write_text(path, content.decode(), None)
        return path

    def edit(self, intent_id: str, changes: Mapping[str, Any], *, by: str) -> Intent:
        refusals.validate_scope(changes.get("owned_scope", ()), required="owned_scope" in changes)
        old = self.get(intent_id)
        self.change_fields(intent_id, changes)
        accept_change(self.workspace, lambda rules, found: rules.take_fields(found, intent_id, changes))
        self.carry_life(old, self.get(intent_id), by)
        self.context.record_intent_changes(self.rules, by=by)
        return self.get(intent_id)

    def carry_life(self, old: Intent, new: Intent, by: str) -> None:
        if identify(old) == identify(new):
            return
        records = read_life(self.workspace)
        known, own = records.get(identify(old)), records.get(identify(new))
        if known is not None and (own is None or own.at < known.at):
            detail = {"from": known.status, "to": known.status, "notes": "created_at was changed", "by": by}
            self.record_life(new, known, detail)

    def delete(self, intent_id: str, *, by: str) -> None:
        """Delete a DRAFT intent without records."""
        intent = self.get(intent_id)
        aborting = f"`remit intent set-status {intent_id} ABORTED` ends it."
        if intent.status != "DRAFT":
            raise refusals.IntentError(f"{intent_id} is {intent.status}; only a DRAFT can be deleted. {aborting}")
        with self.context.index() as index:
            documents = index.find(intent_id=intent_id, limit=50)
        if any(record_body(document).get("event") != "intent_changed" for document in documents):
            raise refusals.IntentError(f"{intent_id} has records; {aborting}")
        from remit.workspace.intents_file.edit import remove_intent

        if (path := self.find_file(intent_id)) != self.workspace.intents_path:
            remove_below(self.workspace.root, path)
            put_pending(self.workspace, identify(intent), None)
        else:
            self.rewrite_file(intent_id, lambda text: remove_intent(text, intent_id))
        put_life_record(self.workspace, identify(intent), None)
        self.context.record_intent_changes(self.rules, by=by)

    def change_fields(self, intent_id: str, changes: Mapping[str, Any]) -> None:
        from remit.workspace.intents_file.edit import set_fields

        now = self.format_now() if self.find_file(intent_id) == self.workspace.intents_path else None
        self.rewrite_file(intent_id, lambda text: set_fields(text, split_id(intent_id)[0], changes, now=now))
        uid = identify(self.get(intent_id))
        if path_exists(pending_folder(self.workspace) / f"{uid}.yaml"):
            put_pending(self.workspace, uid, self.find_file(intent_id))

    def rewrite_file(self, intent_id: str | None, change: Callable[[str], str]) -> None:
        """Apply `change` to the text of an intent's file, or of the list. A person has to mend a file with errors."""
        # Imported here, as above: a YAML parser takes milliseconds to load, and few calls change the file.
        from remit.workspace.intents_file.parse import parse_intents

        path = self.find_file(intent_id) if intent_id else self.workspace.intents_path
        old = path.read_bytes() if path.is_file() else None
        known = frozenset(self.document.files)
        if old is not None and parse_intents(old, known).errors:
            raise refusals.IntentError(f"{path.name} has errors; mend them first (`remit intent lint` shows them).")
        try:
            text = (old or b"").decode("utf-8")
        except UnicodeDecodeError as error:
            raise refusals.IntentError(f"{path.name} is not UTF-8; save it as UTF-8 first.") from error
        self.write_text(path, change(text), None if old is None else sha256(old))

    def write_text(self, path: Path, text: str, old_sha256: str | None) -> None:
        """Write a file of intents, one writer at a time; no command that runs meanwhile has made the change."""
        from remit.workspace.intents_file.storage import write_intents

        lock = self.workspace.state / "intents.lock"
        write_intents(path, text, expected_sha256=old_sha256, lock=lock)
        name = str(path.relative_to(self.workspace.root))
        self.state.update_running_calls({name: compute_version(text.encode())})

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
        said_by: str = "",
    ) -> SelectedIntent:
        """Bind the session to an intent. Raises IntentRefused, and the errors in RECORDING_ERRORS. A session with an
        assigned worktree works there alone. `said_by` names the person whose choice it is: without one, no intent is
        selected that owns what the session was refused.
        """
        active = self.state.active_session(session)
        if (place := self.state.find_other_workspace(session, refusals.ASSIGNED)) is not None:
            say = f"This session works under an assignment in {sanitise_line(place)}, and nowhere else."
            raise refusals.make_refusal("OUTSIDE_WORKSPACE", say, tool, active.intent_id)
        if read_assignment(self.workspace) is not None:
            source = refusals.ASSIGNED
        if not said_by and source == "selected" and intent_id != active.intent_id:
            self.require_free(session, tool)
        if said_by and active.intent_id != intent_id:
            active = SessionState(active.agent, active.model)
        try:
            intent = refusals.require_selectable(intent_id, active, self.rules, tool)
        except refusals.IntentRefused as refused:
            raise self.name_branches(refused, intent_id) from None
        rules, intents, without = self.rules, self.document.intents, session if agent == OWN_AGENT else None
        recent: list[RecentChange] | None = None
        if not said_by and source in CHOSEN_BY_AGENT and intent_id != active.intent_id:
            with self.context.index() as index:
                refused_path = refusals.find_refused_path(index, session, intent, intents)
                recent = list_recent_changes(index, intent_id, without)
            if refused_path is not None:
                raise refusals.SwitchRefused(refused_path, intent_id, session, tool, active.intent_id)
        if not self.workspace.is_assigned:
            self.find_file(intent.id)  # one that only another worktree has gets its file here
        # What is done elsewhere is no ground to build on here.
        here = [other for other in intents if rules.describe_life(other).origin != "elsewhere"]
        warnings = [*refusals.dependency_warnings(intent, here), *refusals.scope_warnings(intent, expected, intents)]
        if source == "selected":
            from remit.gate.intents.owned_files import warn_about_dead_scope  # few calls select

            warnings += warn_about_dead_scope(self.workspace, intent)
        if intent.status == "DRAFT":
            intent = self.set_status(intent.id, "IN_PROGRESS", by=agent, session=session)
        by = agent if source == "selected" else source
        detail: dict[str, Any] = {"reasoning": redact_statement(reasoning), "by": by}
        detail |= {"said_by": said_by} if said_by else {}
        if expected:
            detail["expected_mutations"] = [sanitise_line(path) for path in expected[:100]]
        self.recorder.append([self.make_record("intent_selected", intent.id, session, detail, agent)])
        block = self.format_block(intent, without, recent)
        self.bind_session(session, agent, intent.id, source, block)
        return SelectedIntent(intent, block, tuple(warnings))

    def name_branches(self, refused: refusals.IntentRefused, intent_id: str) -> refusals.IntentRefused:
        from remit.gate.intents.identity import find_declaring_branches

        if refused.violation.error_type != "INTENT_NOT_FOUND" or self.workspace.common_dir is None:
            return refused
        with suppress(GitError, OSError):
            if names := find_declaring_branches(self.workspace.root, intent_id):
                where = f" It is declared on {sanitise_line(', '.join(names[:3]), 200)}."
                said = refused.violation.error + where
                return refusals.IntentRefused(replace(refused.violation, error=said, message=said))
        return refused

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

    def require_free(self, session: SessionKey, tool: str) -> None:
        """Raise IntentRefused if a person holds the session, or its parent, to its intent."""
        for key in (session, session.parent):
            held = self.state.find_session(key) if key is not None else None
            if held is not None and refusals.is_held(held.source):
                raise refusals.refuse_leaving(held, tool)

    def clear(self, session: SessionKey, agent: str, *, said_by: str = "", completed: bool = False) -> str | None:
        """Release the session's intent and return its id. Raises IntentRefused for an assigned one, and for one that a
        person holds the session to, unless they say so or it is completed; and the errors in RECORDING_ERRORS.
        """
        found = self.state.active_session(session)
        active = found.intent_id
        if found.source == refusals.ASSIGNED:
            say = f"{active} is assigned to this worktree: it ends with the attempt."
            raise refusals.make_refusal("INTENT_ALREADY_ACTIVE", say, "clear_active_intent", active)
        if not said_by and not completed:
            self.require_free(session, "clear_active_intent")
        if active is not None:
            self.recorder.append([self.make_record("intent_cleared", active, session, {"by": agent}, agent)])
            left = found.source if completed and refusals.is_held(found.source) else "cleared"
            self.bind_session(session, agent, None, left, "")
        return active

    def bind_unselected_session(self, session: SessionKey, agent: str, binding: IntentBinding | None) -> str:
        """Bind a session without a selection to the intent of its environment; return the block to deliver. Return ""
        and bind nothing if no binding exists or the intent cannot be selected.
        """
        active = self.state.active_session(session)
        if binding is not None and active.intent_id is None and active.source != "cleared":
            said_by = binding.source if binding.is_persons else ""
            with suppress(refusals.IntentRefused):
                return self.select(session, agent, binding.intent_id, source=binding.source, said_by=said_by).block
        return ""

    def narrow_session(self, session: SessionKey, *narrowings: Sequence[str], is_alone: bool = False) -> None:
        """Store patterns that hold beside the scope, each list by itself. Raises IntentError, StateError."""
        for patterns in narrowings:
            refusals.validate_scope(patterns, required=False)
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

    def format_block(
        self, intent: Intent, without: SessionKey | None = None, recent: list[RecentChange] | None = None
    ) -> str:
        """Return an intent's context block: the smallest text that constrains the next step. `without` the changes of a
        session that knows its own, the block stays the same while the session writes. `recent` changes are read from
        the ledger unless they are given.
        """
        intents = self.document.intents
        if recent is None:
            with suppress(OSError, LedgerError), self.context.index() as index:
                recent = list_recent_changes(index, intent.id, without)
        return render_context_block(
            intent,
            intents=intents,
            recent_changes=recent or [],
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


def list_recent_changes(index: "Index", intent_id: str, without: SessionKey | None) -> list[RecentChange]:
    limit, own = (MAX_RECENT, "") if without is None else (MAX_SEARCHED, without.session_id)
    found = index.find(event="mutation", intent_id=intent_id, limit=limit)
    changes = (change for document in found for change in changes_in_record(document))
    return [change for change in changes if not own or change.session != own][:MAX_RECENT]


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
        active = self.context.state.active_session(session).intent_id or ""
        intent_id = active if split_id(active)[0] == intent_id else intent_id
        intent = self.require_completable(session, intent_id, vouched=vouched)
        obstacles = run_trusted_criteria(self.context, intent, session.session_id)
        if not obstacles and self.require_completable(session, intent_id, vouched=vouched) != intent:
            obstacles = ("it was changed while its criteria were verified; complete it again",)
        if obstacles:
            raise completion_refusal(intent_id, obstacles)
        if self.context.state.active_session(session).source == refusals.ASSIGNED:
            # The intent of an attempt is DONE once it has landed, in the landing's commit.
            detail = {"notes": redact_statement(notes), "by": agent}
            record = self.intents.make_record("task_handed_in", intent_id, session, detail, agent)
            self.context.recorder.append([record])
            return intent
        done = self.intents.set_status(intent_id, "DONE", by=agent, notes=notes, session=session)
        self.intents.clear(session, agent, completed=True)
        return done

    def require_completable(self, session: SessionKey, intent_id: str, *, vouched: bool) -> Intent:
        """Return the session's active intent if only its criteria remain to be verified. Raises IntentRefused."""
        active = self.context.state.active_session(session).intent_id
        if active != intent_id:
            name = sanitise_line(intent_id, 60)
            message = f"{name} is not the active intent of this session ({active or 'none is'})."
            ids = refusals.selectable_intent_ids(self.context.rules)
            raise refusals.make_refusal("INTENT_MISMATCH", message, COMPLETE_TOOL, active, ids)
        intent = self.intents.find_intent(intent_id)
        if intent is None:
            raise completion_refusal(intent_id, (f"no file declares {intent_id} any more",))
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
            f"({'; '.join(map(sanitise_line, unrun))}): ask the person to run `remit trust`, or in a terminal `remit "
            f"intent complete {intent.id} --notes TEXT`, which asks them"
        )
        return (*obstacles, why)

    def verify_for_person(self, intent_id: str) -> None:
        """Check constraints and run trusted criteria for a person. Raises IntentRefused."""
        intent = self.intents.get(intent_id)
        failures = (
            *describe_completion_breaches(self.context, intent),
            *run_trusted_criteria(self.context, intent, None),
        )
        if failures:
            raise completion_refusal(intent_id, failures)


def completion_refusal(intent_id: str, obstacles: tuple[str, ...]) -> refusals.IntentRefused:
    why = "; ".join(obstacle.rstrip("\n") for obstacle in obstacles)
    return refusals.make_refusal("USER_REJECTED", f"{intent_id} cannot be completed: {why}.", COMPLETE_TOOL, intent_id)

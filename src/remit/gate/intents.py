"""Intents: who works under which, and every change of what they are. Each change is a record."""

import sqlite3
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from msgspec import UNSET, Struct, json
from msgspec.structs import replace

from remit.core.call import SessionKey, ToolCall
from remit.core.contents import sha256
from remit.core.context_block import RecentChange, context_block
from remit.core.decision import Decision, ErrorType, Finding, Violation
from remit.core.globs import Scope, glob_error, is_absolute_pattern
from remit.core.intent import FINAL, Intent, IntentsDocument, LintFinding, Status, is_intent_id
from remit.core.lifecycle import transition, unfinished_dependencies
from remit.core.record import KEY, Body, EventName, Record
from remit.core.redaction import redact
from remit.core.text import shown
from remit.gate.governing import Governing, govern, governing, keep_copy, stamp
from remit.gate.lessons import touching
from remit.gate.recorder import Recorder
from remit.gate.state import Session, State
from remit.ledger.index import Index
from remit.ledger.segments import LedgerError
from remit.policy.violations import violation
from remit.workspace.intents_edit import add_intent, next_id, remove_intent, set_fields, write_intents
from remit.workspace.intents_file import parse_intents
from remit.workspace.place import Workspace

REPLACEABLE = ("branch", "worktree", "parent", "")
"""Sources of an active intent that a first explicit selection replaces without a clear."""


class Refused(Exception):
    """An intent operation that the rules refuse. The violation says why and what to do."""

    def __init__(self, violation: Violation) -> None:
        super().__init__(violation.error)
        self.violation = violation


class IntentError(ValueError):
    """A person asked for something that cannot be done. The message names the next step."""


class Binding(Struct, frozen=True):
    """An intent that a session's surroundings name: `REMIT_INTENT` (`environment`) or its `branch`."""

    intent_id: str
    source: str


class Selection(Struct, frozen=True):
    """A selected intent and what the agent is told about it."""

    intent: Intent
    block: str
    warnings: tuple[str, ...] = ()


class Intents:
    """The intents of one workspace."""

    def __init__(self, workspace: Workspace, state: State, recorder: Recorder) -> None:
        self.workspace = workspace
        self.state = state
        self.recorder = recorder

    # -- reading --------------------------------------------------------------------------------------------

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

    def block(self, intent: Intent) -> str:
        """The context block of an intent: the smallest that constrains the next step."""
        document = self.document
        others = [i for i in document.intents if i.status == "IN_PROGRESS" and i.id != intent.id]
        return context_block(
            intent,
            intents=document.intents,
            recent_changes=self.recent_changes(intent.id),
            lessons=touching(self.workspace, intent),
            others=others,
        )

    def recent_changes(self, intent_id: str, most: int = 10) -> list[RecentChange]:
        """The newest changes under an intent, from the ledger; none where its index cannot be used."""
        try:
            with Index.open(self.workspace.state / "index.db", self.workspace.log_folder) as index:
                index.catch_up()
                found = index.find(event="mutation", intent_id=intent_id, limit=most)
        except (sqlite3.Error, OSError, LedgerError):
            return []
        return [change for document in found for change in changes_in(document)][:most]

    # -- selecting ------------------------------------------------------------------------------------------

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
    ) -> Selection:
        """Work under an intent from now on. Raises Refused; also what keeps a record from being written."""
        rules = self.rules
        active = self.state.active(session)
        intent = self.selectable(intent_id, active, rules, tool)
        warnings = [*self.dependency_warnings(intent), *scope_warnings(intent, expected, self.document.intents)]
        if intent.status == "DRAFT":
            intent = self.set_status(intent.id, "IN_PROGRESS", by=agent, session=session)
        by = agent if source == "selected" else source
        detail: dict[str, Any] = {"reasoning": said(reasoning), "by": by}
        if expected:
            detail["expected_mutations"] = [shown(path) for path in expected[:100]]
        self.recorder.append([self.record("intent_selected", intent.id, session, detail, agent)])
        block = self.block(intent)
        self.bind(session, agent, intent.id, source, block)
        return Selection(intent, block, tuple(warnings))

    def selectable(self, intent_id: str, active: Session, rules: Governing, tool: str) -> Intent:
        """The intent, where this session may select it. Raises Refused."""

        def refuse(code: ErrorType, message: str) -> Refused:
            return refusal(code, message, tool, active.intent_id, self.selectable_ids(rules))

        if not is_intent_id(intent_id):
            raise refuse("INVALID_INTENT_ID", f"{shown(intent_id, 60)!r} is not an intent id, such as INT-001.")
        if rules.document is None:
            raise refuse("INTENTS_FILE_MISSING", "There is no active_intents.yaml: ask the person for an intent.")
        if rules.document.errors:
            first = rules.document.errors[0]
            raise refuse(
                "INTENTS_FILE_INVALID",
                f"active_intents.yaml:{first.line}:{first.column}: {first.code}: {first.message}",
            )
        intent = next((i for i in rules.document.intents if i.id == intent_id), None)
        if intent is None:
            known = ", ".join(i.id for i in rules.document.intents[:20]) or "none"
            raise refuse("INTENT_NOT_FOUND", f"There is no intent {intent_id} (known: {known}).")
        if intent.status == "BLOCKED":
            why = f": {shown(intent.blocked_reason)}" if intent.blocked_reason else ""
            raise refuse("INTENT_BLOCKED", f"{intent_id} is BLOCKED{why}.")
        if intent.status in FINAL:
            raise refuse("INTENT_CLOSED", f"{intent_id} is {intent.status}; it cannot be worked under again.")
        if intent_id in rules.ignore.intents:
            raise refuse("INTENT_IGNORED", f"{intent_id} is barred by .intentignore.")
        if active.intent_id not in (None, intent_id) and active.source not in REPLACEABLE:
            bound = " (bound by REMIT_INTENT)" if active.source == "environment" else ""
            raise refuse(
                "INTENT_ALREADY_ACTIVE", f"{active.intent_id} is active in this session{bound}. Clear it first."
            )
        return intent

    def selectable_ids(self, rules: Governing) -> list[str]:
        """The ids one may select."""
        intents = rules.document.intents if rules.document else ()
        return [i.id for i in intents if i.status in ("DRAFT", "IN_PROGRESS") and i.id not in rules.ignore.intents]

    def dependency_warnings(self, intent: Intent) -> list[str]:
        """Unfinished dependencies warn, never refuse."""
        waiting = unfinished_dependencies(intent, self.document.intents)
        return [f"{intent.id} depends on {', '.join(waiting)}, which is not DONE."] if waiting else []

    def bind(self, session: SessionKey, agent: str, intent_id: str | None, source: str, block: str) -> None:
        """This session now works under that intent, and has been told `block`. A session stays its first agent's.

        A person who selects for it is in the record; what the session's processes do is the agent's all the same.
        """
        known = self.state.session(session) or Session()
        fresh = Session(
            agent=known.agent or agent,
            model=known.model,
            intent_id=intent_id,
            source=source,
            told=sha256(block.encode("utf-8", "replace")) if block else "",
        )
        self.state.put_session(session, fresh, self.recorder.environment.clock())

    def clear(self, session: SessionKey, agent: str) -> str | None:
        """Work under no intent any more; the id that was released. Raises what keeps a record from being written."""
        active = self.state.active(session).intent_id
        if active is None:
            return None
        self.recorder.append([self.record("intent_cleared", active, session, {"by": agent}, agent)])
        self.bind(session, agent, None, "cleared", "")
        return active

    def bind_unselected(self, session: SessionKey, agent: str, binding: Binding | None) -> str:
        """Bind a session that has selected nothing to what its surroundings name; the block it must be told.

        Nothing where there is no such binding, or where the intent cannot be selected: then nothing is bound.
        """
        active = self.state.active(session)
        if binding is None or active.intent_id is not None or active.source == "cleared":
            return ""
        try:
            return self.select(session, agent, binding.intent_id, source=binding.source).block
        except Refused:
            return ""

    def block_to_tell(self, session: SessionKey, *, only_changed: bool = False) -> str:
        """The active intent's block; with `only_changed`, nothing where the session was told exactly this."""
        active = self.state.active(session)
        intent = self.known(active.intent_id)
        if intent is None:
            return ""
        block = self.block(intent)
        digest = sha256(block.encode("utf-8", "replace"))
        if only_changed and digest == active.told:
            return ""
        self.bind(session, active.agent, active.intent_id, active.source, block)
        return block

    # -- changing -------------------------------------------------------------------------------------------

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
        self.rewrite(lambda text: set_fields(text, intent_id, changes, now=self.now()))
        detail = {"from": intent.status, "to": to, "notes": said(notes), "by": by}
        self.recorder.append([self.record("intent_transition", intent_id, session, detail)])
        self.notice(self.rules, by=by)
        return self.get(intent_id)

    def create(self, intent: Intent, *, by: str) -> Intent:
        """Add an intent to the file, which is made where there is none. Raises IntentError, EditRefused."""
        check_scope(intent.owned_scope)
        govern(self.workspace)
        named = intent if intent.id else replace(intent, id=next_id(self.document))
        self.rewrite(lambda text: add_intent(text, named, now=self.now()))
        self.notice(self.rules, by=by)
        return self.get(named.id)

    def edit(self, intent_id: str, changes: Mapping[str, Any], *, by: str) -> Intent:
        """Change fields of an intent. Raises IntentError, EditRefused."""
        check_scope(changes.get("owned_scope", ()), required="owned_scope" in changes)
        self.get(intent_id)
        self.rewrite(lambda text: set_fields(text, intent_id, changes, now=self.now()))
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
            index.catch_up()
            used = [d for d in index.find(intent_id=intent_id, limit=50) if body_of(d).get("event") != "intent_changed"]
        if used:
            raise IntentError(f"{intent_id} has records; `remit intent set-status {intent_id} ABORTED` ends it.")
        self.rewrite(lambda text: remove_intent(text, intent_id))
        self.notice(self.rules, by=by)

    def lint(self) -> tuple[LintFinding, ...]:
        """All findings of the file, in its order."""
        return self.document.findings

    def rewrite(self, change: Callable[[str], str]) -> None:
        """Change the file's text; a file with errors is left for a person to mend. Raises IntentError, EditRefused."""
        path = self.workspace.intents_path
        old = path.read_bytes() if path.is_file() else None
        if old is not None and parse_intents(old).errors:
            raise IntentError("active_intents.yaml has errors; mend them first (`remit intent lint` shows them).")
        try:
            text = (old or b"").decode("utf-8")
        except UnicodeDecodeError as error:
            raise IntentError("active_intents.yaml is not UTF-8; save it as UTF-8 first.") from error
        write_intents(
            path,
            change(text),
            expected_sha256=None if old is None else sha256(old),
            lock=self.workspace.state / "intents.lock",
        )

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
        changed = [i for i in document.intents if old.get(i.id) != i]
        gone = [i for i in before if i.id not in {n.id for n in document.intents}]
        records = [
            self.record(
                "intent_changed", i.id, None, {"name": i.title, "content_sha256": document.sha256, "by": by, **extra}
            )
            for i, extra in [*((i, {}) for i in changed), *((i, {"removed": True}) for i in gone)]
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


def changes_in(document: dict[str, Any]) -> list[RecentChange]:
    """The files of a mutation record, as the context block tells them."""
    body = body_of(document)
    computed: str | None = body.get("mutation_class", {}).get("computed")
    files: list[dict[str, Any]] = body.get("files", [])
    return [
        RecentChange(str(f.get("path")), str(document.get("timestamp")), computed, str(body.get("session_id") or ""))
        for f in files
    ]


def body_of(document: dict[str, Any]) -> dict[str, Any]:
    """Remit's own part of a record that was read from the log."""
    return document.get("metadata", {}).get(KEY, {})


def check_scope(patterns: Sequence[str], *, required: bool = True) -> None:
    """Raise IntentError for a scope that the file would refuse."""
    if required and not [p for p in patterns if not p.startswith("!")]:
        raise IntentError("an intent needs at least one pattern that it owns, such as --scope 'src/**'")
    for pattern in patterns:
        why = (
            "it is absolute; patterns start at the workspace root"
            if is_absolute_pattern(pattern)
            else glob_error(pattern)
        )
        if why:
            raise IntentError(f"the scope pattern {pattern!r} cannot be used: {why}")


def scope_warnings(intent: Intent, expected: Sequence[str], intents: Sequence[Intent]) -> list[str]:
    """Expected paths that lie outside the scope, with the intents that own them."""
    outside = [path for path in expected[:100] if not Scope(intent.owned_scope).matches(path)]
    found: list[str] = []
    for path in outside:
        owners = [i.id for i in intents if i.id != intent.id and Scope(i.owned_scope).matches(path)]
        owned = f" (owned by {', '.join(owners)})" if owners else ""
        found.append(f"{shown(path, 120)} is outside the scope of {intent.id}{owned}.")
    return found


def refusal(code: ErrorType, message: str, tool: str, active: str | None, available: Sequence[str] = ()) -> Refused:
    """A refusal of one of Remit's own tools."""
    finding = Finding(rule="intents", code=code, message=message, context={"available_intents": list(available)})
    call = ToolCall(agent="", session=SessionKey(""), tool=tool, effect="meta", cwd="")
    return Refused(violation(finding, call, Decision("deny", "deny", "meta", "enforce", (finding,), active)))

"""Writes of the pages Intents and Intent: new, edit, transitions, forks, sessions, grants; and the preview of a scope.

A change names the fields that the person saw. If the intent is another one by now, nothing is changed.
"""

import time
from functools import lru_cache
from typing import Any

from msgspec import Struct, structs

from remit.console.guard import Refused
from remit.console.pages.intents import find_shown, hash_shown, list_touched_files, list_tracked_files
from remit.console.pages.page import PageRequest
from remit.core.call import SessionKey
from remit.core.intent import Intent, Priority, Status
from remit.core.intents.constraints import InvalidConstraint
from remit.gate.gate import Gate
from remit.gate.intents.person_edits import (
    PERSON,
    ChildrenOpen,
    ScopePreview,
    UnprovedCriteria,
    change_status,
    complete_intent,
    draft_fork,
    draft_intent,
    make_criteria,
    parse_constraints,
    preview_scope,
    require_closed_children,
)
from remit.gate.intents.templates import load_template
from remit.gate.people.answer import revoke_grant
from remit.gate.people.grants import GRANT_WRITE_ERRORS

TEMPLATES = ("feature", "bugfix", "refactor", "docs")
FILES_KEPT_S = 3  # the list of files serves the previews of a person who types


class IntentForm(Struct, frozen=True):
    """The form of a new or changed intent, with the preview of its scope. `intent` is None for a new one."""

    fields: Intent
    intent: Intent | None
    shown_sha256: str
    preview: ScopePreview
    templates: list[str] = []
    problem: str = ""


class IntentBody(Struct, frozen=True, forbid_unknown_fields=True):
    """The fields of a new or changed intent. `shown_sha256` names the fields that the person saw."""

    name: str
    scope: list[str]
    description: str = ""
    constraints: list[str] = []
    criteria: list[str] = []
    priority: Priority = "MEDIUM"
    owner: str = ""
    shown_sha256: str = ""
    template: str = ""


class StatusBody(Struct, frozen=True, forbid_unknown_fields=True):
    """A transition; `notes` say why. To DONE, trusted criteria commands run first, unless it is `unverified`."""

    to: Status
    shown_sha256: str
    notes: str = ""
    force: bool = False
    unverified: bool = False


class ForkBody(Struct, frozen=True, forbid_unknown_fields=True):
    """A new DRAFT made from an intent."""

    name: str = ""


class DeleteBody(Struct, frozen=True, forbid_unknown_fields=True):
    """The deletion of a DRAFT without records."""

    shown_sha256: str


class BindBody(Struct, frozen=True, forbid_unknown_fields=True):
    """A session to bind to the intent, or to release from it."""

    session_id: str
    bind: bool = True


class RevokeBody(Struct, frozen=True, forbid_unknown_fields=True):
    """The revocation of a grant has no more fields."""


class ChangedIntent(Struct, frozen=True):
    """The intent as it is now, and what the person should know."""

    id: str
    status: Status
    remarks: list[str]


# Pages


def read_new_intent(request: PageRequest) -> IntentForm:
    template = request.query.get("template", "")
    return request.repositories.run_job(
        request.one_repository, describe_new_intent, template, split_lines(request.query.get("scope", ""))
    )


def read_intent_form(request: PageRequest) -> IntentForm:
    return request.repositories.run_job(request.one_repository, describe_intent_form, request.path["intent"])


def read_scope(request: PageRequest) -> ScopePreview:
    scope, intent_id = split_lines(request.query.get("scope", "")), request.query.get("intent", "")
    return request.repositories.run_job(request.one_repository, describe_scope, scope, intent_id)


def split_lines(text: str) -> list[str]:
    return [line.strip() for line in text.splitlines() if line.strip()]


# Writes


def create_intent(request: PageRequest, body: IntentBody) -> ChangedIntent:
    return request.repositories.run_job(request.one_repository, make_intent, structs.asdict(body))


def edit_intent(request: PageRequest, body: IntentBody) -> ChangedIntent:
    return request.repositories.run_job(
        request.one_repository, change_intent, request.path["intent"], structs.asdict(body)
    )


def move_intent(request: PageRequest, body: StatusBody) -> ChangedIntent:
    return request.repositories.run_job(
        request.one_repository, change_intent_status, request.path["intent"], structs.asdict(body)
    )


def fork_intent(request: PageRequest, body: ForkBody) -> ChangedIntent:
    return request.repositories.run_job(request.one_repository, make_fork, request.path["intent"], body.name)


def delete_intent(request: PageRequest, body: DeleteBody) -> dict[str, str]:
    return request.repositories.run_job(
        request.one_repository, remove_intent, request.path["intent"], body.shown_sha256
    )


def bind_session(request: PageRequest, body: BindBody) -> dict[str, str | None]:
    return request.repositories.run_job(
        request.one_repository, change_session, request.path["intent"], body.session_id, body.bind
    )


def revoke_one_grant(request: PageRequest, body: RevokeBody) -> dict[str, str]:
    return request.repositories.run_job(request.one_repository, end_grant, request.path["grant"])


# In a worker


@lru_cache(4)
def list_files_lately(root: str, _period: int) -> tuple[str, ...]:
    return tuple(list_tracked_files(root))


def describe_scope(gate: Gate, scope: list[str], intent_id: str) -> ScopePreview:
    intent = gate.intents.find_intent(intent_id)
    touched: list[str] = []
    if intent is not None:
        with gate.index() as index:
            touched = sorted(list_touched_files(index, intent_id))
    files = list_files_lately(str(gate.workspace.root), int(time.time() / FILES_KEPT_S))
    return preview_scope(scope, files, intents=gate.intents.document.intents, intent=intent, touched=touched)


def describe_new_intent(gate: Gate, template: str, scope: list[str]) -> IntentForm:
    base = load_template(gate.workspace, template) if template else Intent(id="", owned_scope=())
    fields = structs.replace(base, owned_scope=tuple(scope) or base.owned_scope)
    problem = "the list of intents has errors: mend it first" if gate.rules.find_fault(None) else ""
    preview = describe_scope(gate, list(fields.owned_scope), "")
    return IntentForm(fields, None, "", preview, list(TEMPLATES), problem)


def describe_intent_form(gate: Gate, intent_id: str) -> IntentForm:
    intent = find_shown(gate, intent_id)
    preview = describe_scope(gate, list(intent.owned_scope), intent_id)
    problem = gate.intents.describe_broken_file(intent_id)
    return IntentForm(intent, intent, hash_shown(intent), preview, [], problem)


def make_intent(gate: Gate, body: dict[str, Any]) -> ChangedIntent:
    form = IntentBody(**body)
    require_name(form.name)
    base = load_template(gate.workspace, form.template) if form.template else Intent(id="", owned_scope=())
    try:
        constraints = parse_constraints(form.constraints, base.constraints)
    except InvalidConstraint as error:
        raise Refused(400, str(error), 'for example max_lines: paths="src/**/*.py", max=500') from None
    wanted = draft_intent(
        structs.replace(base, owned_scope=(), constraints=(), acceptance_criteria=()),
        intent_id="",
        name=form.name.strip(),
        scope=form.scope,
        constraints=constraints,
        criteria=make_criteria(form.criteria, base.acceptance_criteria),
        description=form.description,
        priority=form.priority,
        owner=form.owner,
    )
    return describe_changed(gate.intents.create(wanted, by=PERSON))


def change_intent(gate: Gate, intent_id: str, body: dict[str, Any]) -> ChangedIntent:
    """Set the fields that the person changed. Raises Refused if the intent is not the one that was shown."""
    form = IntentBody(**body)
    require_name(form.name)
    old = require_shown(gate, intent_id, form.shown_sha256)
    try:
        constraints = parse_constraints(form.constraints, old.constraints)
    except InvalidConstraint as error:
        raise Refused(400, str(error), 'for example max_lines: paths="src/**/*.py", max=500') from None
    wanted: dict[str, Any] = {
        "name": form.name.strip() if form.name.strip() != old.title else old.name,
        "owned_scope": tuple(form.scope),
        "description": form.description,
        "constraints": constraints,
        "acceptance_criteria": make_criteria(form.criteria, old.acceptance_criteria),
        "priority": form.priority,
        "owner": form.owner,
    }
    changes = {field: value for field, value in wanted.items() if value != getattr(old, field)}
    if not changes:
        raise Refused(400, "nothing was changed", "change a field, or go back")
    return describe_changed(gate.intents.edit(intent_id, changes, by=PERSON))


def change_intent_status(gate: Gate, intent_id: str, body: dict[str, Any]) -> ChangedIntent:
    form = StatusBody(**body)
    require_shown(gate, intent_id, form.shown_sha256)
    remarks: list[str] = []
    if form.to == "DONE":
        try:
            if children := require_closed_children(gate, intent_id, force=form.force):
                remarks.append(f"closed before its children: {children}")
        except ChildrenOpen as error:
            raise Refused(409, str(error), "finish the children first, or say that it is closed all the same") from None
        if not form.notes.strip():
            raise Refused(400, "say how it was verified", "write it into the notes")
        try:
            closed = complete_intent(gate, intent_id, form.notes, without_proof=form.unverified)
        except UnprovedCriteria as error:
            fix = "trust them first, or say that it is closed without running them"
            raise Refused(409, str(error), fix) from None
        return describe_changed(closed, remarks)
    return describe_changed(change_status(gate, intent_id, form.to, form.notes), remarks)


def make_fork(gate: Gate, intent_id: str, name: str) -> ChangedIntent:
    return describe_changed(gate.intents.create(draft_fork(find_shown(gate, intent_id), name.strip()), by=PERSON))


def remove_intent(gate: Gate, intent_id: str, shown_sha256: str) -> dict[str, str]:
    require_shown(gate, intent_id, shown_sha256)
    gate.intents.delete(intent_id, by=PERSON)
    return {"deleted": intent_id}


def change_session(gate: Gate, intent_id: str, session_id: str, bind: bool) -> dict[str, str | None]:
    find_shown(gate, intent_id)
    key = SessionKey(session_id)
    known = gate.state.find_session(key)
    if known is None:
        raise Refused(404, "no session of that name is known", "the page Sessions lists them")
    if bind:
        gate.intents.select(key, PERSON, intent_id, said_by=PERSON)
        return {"session_id": session_id, "intent_id": intent_id}
    if known.intent_id != intent_id:
        raise Refused(409, f"the session works under {known.intent_id or 'no intent'} by now", "load the page again")
    gate.intents.clear(key, PERSON, said_by=PERSON)
    return {"session_id": session_id, "intent_id": None}


def end_grant(gate: Gate, grant_id: str) -> dict[str, str]:
    try:
        is_revoked = revoke_grant(gate, grant_id)
    except GRANT_WRITE_ERRORS as error:
        raise Refused(409, f"remit.toml was not changed: {error}", "take the grant out by hand") from None
    if not is_revoked:
        raise Refused(409, "the grant is gone: somebody revoked it, or its time is over", "load the page again")
    return {"revoked": grant_id}


def require_name(name: str) -> None:
    if not name.strip():
        raise Refused(400, "an intent needs a name", "write what it is about, for example JWT login")


def require_shown(gate: Gate, intent_id: str, shown_sha256: str) -> Intent:
    """Return the intent if its fields are those that the person saw. Raises Refused."""
    intent = find_shown(gate, intent_id)
    if hash_shown(intent) != shown_sha256:
        why = f"{intent_id} was changed meanwhile, and nothing of yours was saved yet"
        raise Refused(409, why, "compare both versions, then save again")
    return intent


def describe_changed(intent: Intent, remarks: list[str] | None = None) -> ChangedIntent:
    return ChangedIntent(intent.id, intent.status, remarks or [])

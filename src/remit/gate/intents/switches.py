"""Switches of intents: a session that was refused a path does not get round that by an intent that owns it.

Refusals are read from the ledger, of the whole session with its sub-agents: no clear, no prompt and no worktree forgets
them. A later word of a person for the session does: a yes, or an intent that they chose for it.
"""

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from msgspec import Struct

from remit.core.call import SessionKey
from remit.core.decision import ErrorType
from remit.core.intent import Intent
from remit.core.record import KEY
from remit.core.scope.path_patterns import Scope
from remit.core.untrusted_input import sanitise_line
from remit.gate.intents.refusals import IntentRefused, make_refusal

if TYPE_CHECKING:
    from remit.ledger.index.index import Index

SWITCH_CODE: ErrorType = "INTENT_SWITCH_NEEDS_PERSON"
SCOPE_CODE = "SCOPE_VIOLATION"
REFUSING_CODES = (SCOPE_CODE, "CONSTRAINT_VIOLATION")
"""Refusals that another intent may lift; the others hold under any."""


class RefusedPath(Struct, frozen=True):
    """A path that was refused to a session, under which intent, and whether by its scope or by a constraint."""

    path: str
    intent_id: str | None
    by_scope: bool


def find_refused_path(
    index: "Index", session: SessionKey, wanted: Intent, intents: Iterable[Intent]
) -> RefusedPath | None:
    """Return a path that was refused to the session under another intent, and that the wanted one owns; None without
    one.
    """
    scope, known, session_id = Scope(wanted.owned_scope), {i.id: i for i in intents}, session.session_id
    events = ("denied", "restore")
    found = [d for event in events for d in index.iterate_records(event=event, session_id=session_id)]
    since = find_persons_word(index, session_id) if found else ""
    for document in found:
        body: dict[str, Any] = document["metadata"][KEY]
        at = str(document["timestamp"])
        for refused in list_refused_paths(body) if at > since and body.get("intent_id") != wanted.id else ():
            earlier = known.get(refused.intent_id or "")
            # A scope that was widened since owns it; a constraint was met once the file was changed after all.
            if refused.by_scope and earlier is not None and owns_path(Scope(earlier.owned_scope), refused.path):
                continue
            if not refused.by_scope and was_changed_since(index, session_id, refused, at):
                continue
            if owns_path(scope, refused.path):
                return refused
    return None


def list_refused_paths(body: dict[str, Any]) -> list[RefusedPath]:
    """Return the paths that a record of a denied call, or of an undone change, refused."""
    intent_id = body.get("intent_id")
    undone: dict[str, str] = body.get("rules") or {}
    if body.get("event") == "restore":
        codes = ((path, code) for path, code in undone.items() if code in REFUSING_CODES)
        return [RefusedPath(path, intent_id, code == SCOPE_CODE) for path, code in codes]
    violation: dict[str, Any] = body.get("violation") or {}
    about: dict[str, Any] = violation.get("context") or {}
    first: dict[str, Any] = about.get("first_denial") or {}
    named = {violation.get("error_type"), first.get("error_type"), *about.get("also", ())}
    if named.isdisjoint(REFUSING_CODES):
        return []
    call: dict[str, Any] = body.get("call") or {}
    paths = (violation.get("path"), first.get("path"), *about.get("dropped", ()), *call.get("paths", ()))
    return [RefusedPath(str(path), intent_id, SCOPE_CODE in named) for path in dict.fromkeys(paths) if path]


def owns_path(scope: Scope, path: str) -> bool:
    """Return whether the scope owns a refused path, or something in what a refused folder or pattern stands for."""
    plain = path.removesuffix("/*").rstrip("/")
    return scope.matches(plain) or scope.matches(f"{plain}/a")


def find_persons_word(index: "Index", session_id: str) -> str:
    """Return when a person last agreed to an intent or a scope of the session, or chose its intent; "" for never. A yes
    to a call is about that call only.
    """
    times = [""]
    for document in index.iterate_records(event="approval_answered", session_id=session_id):
        approval: dict[str, Any] = document["metadata"][KEY].get("approval") or {}
        if approval.get("answer") == "allow" and approval.get("tool") not in (None, "complete_intent"):
            times.append(str(document["timestamp"]))
    for document in index.iterate_records(event="intent_selected", session_id=session_id):
        if document["metadata"][KEY].get("said_by"):
            times.append(str(document["timestamp"]))
    return max(times)


def was_changed_since(index: "Index", session_id: str, refused: RefusedPath, at: str) -> bool:
    newest = index.find(
        event="mutation", session_id=session_id, intent_id=refused.intent_id, path=refused.path, limit=1
    )
    return bool(newest) and str(newest[0]["timestamp"]) > at


class SwitchRefused(IntentRefused):
    """Refused switch; `what` is the sentence that a person is asked about."""

    def __init__(self, refused: RefusedPath, wanted: str, session: SessionKey, tool: str, active: str | None) -> None:
        under = f" under {refused.intent_id}" if refused.intent_id else ""
        self.what = f"{sanitise_line(refused.path, 200)} was refused{under}; {wanted} owns it"
        command = f"remit intent select {wanted} --session {sanitise_line(session.session_id, 80)}"
        step = f"Changing intents for it is a person's step: ask them. They can run `{command}`."
        super().__init__(make_refusal(SWITCH_CODE, f"{self.what}. {step}", tool, active).violation)

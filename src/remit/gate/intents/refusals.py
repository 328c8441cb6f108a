"""Refusals of and warnings about operations on intents. A refusal names the reason and the next step.

A session that was refused a path does not get round that by an intent that owns it. Such refusals are read from the
ledger, of the whole session with its sub-agents: no clear, no prompt and no worktree forgets them. A later word of a
person for the session does: a yes, or an intent that they chose for it.
"""

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

from msgspec import Struct

from remit.core.call import SessionKey, ToolCall
from remit.core.decision import Decision, ErrorType, Finding, Violation, make_violation
from remit.core.intent import (
    FINAL_STATUSES,
    SELECTABLE_STATUSES,
    Intent,
    find_unfinished_dependencies,
    is_intent_id,
    match_intents,
)
from remit.core.record import KEY
from remit.core.scope.path_patterns import Scope, glob_error, is_absolute_pattern
from remit.core.untrusted_input import sanitise_line
from remit.gate.governing.rules import Rules
from remit.gate.state.workspace_state import SessionState

if TYPE_CHECKING:
    from remit.ledger.index.index import Index


BOUND, HELD = "bound", "held"
"""First word of the source of an intent by a person's binding; what is held, agents cannot leave."""

REPLACEABLE_SOURCES = (
    *("branch", "worktree", "parent", "single", ""),
    *(f"{BOUND} {kind}" for kind in ("session", "terminal", "worktree", "branch")),
)
"""Sources of an active intent that a first explicit selection may replace without a clear."""

ASSIGNED = "assignment"
"""Source of the intent of a session in a worktree that a plan has assigned."""

BOUND_BY = {ASSIGNED: " (assigned to this worktree)"}


def is_held(source: str) -> bool:
    """Return whether an agent's session cannot leave its intent: a person bound it so, or by `REMIT_INTENT`."""
    return source == "environment" or source.startswith(f"{HELD} ")


def refuse_leaving(active: SessionState, tool: str) -> "IntentRefused":
    how = "REMIT_INTENT" if active.source == "environment" else f"its {active.source.removeprefix(f'{HELD} ')}"
    under = active.intent_id or "one intent"
    say = f"A person bound this session to {under} (by {how}). Changing it is their step: ask them."
    return make_refusal("INTENT_ALREADY_ACTIVE", say, tool, active.intent_id)


class IntentRefused(Exception):
    """Intent operation refused by the rules. The violation names the reason and the next step."""

    def __init__(self, violation: Violation) -> None:
        super().__init__(violation.error)
        self.violation = violation


class IntentError(ValueError):
    """Impossible request of a person. The message names the next step."""


def require_selectable(intent_id: str, active: SessionState, rules: Rules, tool: str) -> Intent:
    """Return the intent if the session may select it. Raises IntentRefused."""

    def refuse(code: ErrorType, message: str) -> IntentRefused:
        return make_refusal(code, message, tool, active.intent_id, selectable_intent_ids(rules))

    if not is_intent_id(intent_id):
        say = f"{sanitise_line(intent_id, 60)!r} is not an intent id, such as INT-001."
        raise refuse("INVALID_INTENT_ID", say + suggest_ids(intent_id, rules))
    if rules.document is None:
        raise refuse("INTENTS_FILE_MISSING", "No file declares an intent here: ask the person for one.")
    if fault := rules.find_fault(intent_id):
        raise refuse("INTENTS_FILE_INVALID", f"{fault.place}: {fault.code}: {fault.message}")
    intent = next((i for i in rules.document.intents if i.id == intent_id), None)
    if intent is None:
        known = ", ".join(i.id for i in rules.document.intents[:20]) or "none"
        say = f"There is no intent {intent_id} (known: {known})."
        raise refuse("INTENT_NOT_FOUND", say + suggest_ids(intent_id, rules))
    if intent.status == "BLOCKED":
        why = f": {sanitise_line(intent.blocked_reason)}" if intent.blocked_reason else ""
        raise refuse("INTENT_BLOCKED", f"{intent_id} is BLOCKED{why}.")
    if intent.status in FINAL_STATUSES:
        life = rules.life.get(intent_id)
        where = f", {life.said}" if life and life.origin != "file" else ""
        why = f": {sanitise_line(intent.blocked_reason)}" if intent.blocked_reason else ""
        here = " --here" if life and life.origin == "elsewhere" else ""
        cure = f"A person can reopen it: remit intent reopen {intent_id}{here}"
        raise refuse("INTENT_CLOSED", f"{intent_id} is {intent.status}{where}{why}. {cure}")
    if intent_id in rules.ignore.intents:
        raise refuse("INTENT_IGNORED", f"{intent_id} is barred by .intentignore.")
    if active.intent_id not in (None, intent_id) and active.source not in REPLACEABLE_SOURCES:
        bound = BOUND_BY.get(active.source, "")
        raise refuse("INTENT_ALREADY_ACTIVE", f"{active.intent_id} is active in this session{bound}. Clear it first.")
    return intent


def suggest_ids(given: str, rules: Rules) -> str:
    """Return a question for the ids that may be meant: agents give them in full. Empty for none."""
    open_ids = selectable_intent_ids(rules)
    meant = [i.id for i in match_intents(given, rules.document.intents if rules.document else ()) if i.id in open_ids]
    return f" Did you mean {' or '.join(meant[:3])}?" if meant else ""


def selectable_intent_ids(rules: Rules) -> list[str]:
    intents = rules.document.intents if rules.document else ()
    return [
        i.id
        for i in intents
        if i.status in SELECTABLE_STATUSES and is_intent_id(i.id) and i.id not in rules.ignore.intents
    ]


def make_refusal(
    code: ErrorType, message: str, tool: str, active: str | None, available: Sequence[str] = ()
) -> IntentRefused:
    finding = Finding(rule="intents", code=code, message=message, context={"available_intents": list(available)})
    call = ToolCall(agent="", session=SessionKey(""), tool=tool, effect="meta", cwd="")
    return IntentRefused(make_violation(finding, call, Decision("deny", "deny", "meta", "enforce", (finding,), active)))


def dependency_warnings(intent: Intent, intents: Sequence[Intent]) -> list[str]:
    """Return a warning about unfinished dependencies: they never refuse a selection."""
    waiting = find_unfinished_dependencies(intent, intents)
    return [f"{intent.id} depends on {', '.join(waiting)}, which is not DONE."] if waiting else []


def scope_warnings(intent: Intent, expected: Sequence[str], intents: Sequence[Intent]) -> list[str]:
    outside = [path for path in expected[:100] if not Scope(intent.owned_scope).matches(path)]
    found: list[str] = []
    for path in outside:
        owners = [i.id for i in intents if i.id != intent.id and Scope(i.owned_scope).matches(path)]
        owned = f" (owned by {', '.join(owners)})" if owners else ""
        found.append(f"{sanitise_line(path, 120)} is outside the scope of {intent.id}{owned}.")
    return found


def validate_scope(patterns: Sequence[str], *, required: bool = True) -> None:
    """Raise IntentError for a scope that the intents file would refuse."""
    if required and not [p for p in patterns if not p.startswith("!")]:
        raise IntentError("an intent needs at least one pattern that it owns, such as --scope 'src/**'")
    for pattern in patterns:
        if why := describe_pattern_fault(pattern):
            raise IntentError(f"the scope pattern {pattern!r} cannot be used: {why}")


def describe_pattern_fault(pattern: str) -> str:
    """Return why a pattern cannot stand in a scope; empty for a usable one."""
    if is_absolute_pattern(pattern):
        return "it is absolute; patterns start at the workspace root"
    return glob_error(pattern) or ""


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

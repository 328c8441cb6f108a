"""The tables of pages and of signed writes, other packages' included, and the console's API as an OpenAPI document
made from them. A page has HTML, parts of it (`Remit-Part`), and a JSON twin under its address with `.json`.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from importlib.metadata import version
from typing import Any, get_type_hints

from msgspec import Struct
from msgspec.json import schema_components

from remit.console.pages import agents, changes, recovery, settings
from remit.console.pages.approvals import (
    AnswerBody,
    EqualAnswerBody,
    choose_answer,
    read_approvals,
    record_answer,
    record_equal_answers,
)
from remit.console.pages.code import CODE_QUERY, read_code
from remit.console.pages.coverage import ModeBody, change_mode, choose_mode_change, read_coverage, read_simulation
from remit.console.pages.intent_edits import (
    BindBody,
    DeleteBody,
    ForkBody,
    IntentBody,
    RevokeBody,
    StatusBody,
    bind_session,
    create_intent,
    delete_intent,
    edit_intent,
    fork_intent,
    move_intent,
    read_intent_form,
    read_new_intent,
    read_scope,
    revoke_one_grant,
)
from remit.console.pages.intents import read_intent, read_intents
from remit.console.pages.ledger import FIELDS, LEDGER_QUERY, read_ledger, read_record
from remit.console.pages.metrics import METRICS_QUERY, read_metrics
from remit.console.pages.navigation import EXTENSIONS
from remit.console.pages.now import read_now
from remit.console.pages.page import Page, PageWrite
from remit.console.pages.search import SEARCH_QUERY, read_search
from remit.console.pages.sessions import SESSION_QUERY, read_session, read_sessions, read_tail
from remit.core.acts import Act

PAGES: Sequence[Page] = (
    Page("/", "now", "Now", "now.html", read_now),
    Page("/approvals", "approvals", "Approvals", "approvals.html", read_approvals),
    Page("/approvals/{question}", "approvals", "Approvals", "approvals.html", read_approvals),
    Page("/p/{question}", "approvals", "An agent asks", "phone.html", read_approvals),
    Page("/search", "search", "Search", "search.html", read_search, SEARCH_QUERY),
    Page("/settings", "settings", "Settings", "settings.html", settings.read_settings, settings.SETTINGS_QUERY),
    Page("/r/{repository}/intents", "intents", "Intents", "intents.html", read_intents),
    Page("/r/{repository}/new-intent", "intents", "New intent", "intent_form.html", read_new_intent),
    Page("/r/{repository}/scope", "intents", "Scope", "scope.html", read_scope),
    Page("/r/{repository}/intents/{intent}/edit", "intents", "Edit intent", "intent_form.html", read_intent_form),
    Page("/r/{repository}/intents/{intent}", "intents", "Intent", "intent.html", read_intent),
    Page("/r/{repository}/sessions", "sessions", "Sessions", "sessions.html", read_sessions),
    Page("/r/{repository}/sessions/{session:path}/tail", "sessions", "Newest records", "session_tail.html", read_tail),
    Page(
        "/r/{repository}/sessions/{session:path}",
        "sessions",
        "Session",
        "session.html",
        read_session,
        SESSION_QUERY,
    ),
    Page("/r/{repository}/code", "code", "Code", "code.html", read_code),
    Page("/r/{repository}/code/{path:path}", "code", "Code", "code.html", read_code, CODE_QUERY),
    Page("/r/{repository}/agents", "agents", "Agents", "agents.html", agents.read_agents),
    Page(
        "/r/{repository}/changes", "changes", "Changes", "changes.html", changes.read_changes, ("range", "only", "view")
    ),
    Page("/r/{repository}/restore", "recovery", "Recovery", "recovery.html", recovery.read_recovery),
    Page(
        "/r/{repository}/restore/session/{session}",
        "recovery",
        "Undo a session",
        "session_undo.html",
        recovery.read_session_undo,
    ),
    Page("/r/{repository}/restore/{point}", "recovery", "Recovery", "recovery_point.html", recovery.read_point),
    Page("/r/{repository}/governed", "coverage", "Coverage", "coverage.html", read_coverage),
    Page("/r/{repository}/governed/simulate", "coverage", "Try a call", "simulate.html", read_simulation),
    Page("/r/{repository}/metrics", "metrics", "Metrics", "metrics.html", read_metrics, METRICS_QUERY),
    Page("/r/{repository}/ledger", "ledger", "Ledger", "ledger.html", read_ledger, LEDGER_QUERY),
    Page("/r/{repository}/records/{record}", "ledger", "Record", "record.html", read_record, (*FIELDS, "q")),
    *(page for tables in EXTENSIONS for page in tables.PAGES),
)

WRITES: Sequence[PageWrite] = (
    PageWrite("/approvals/{question}/answer", AnswerBody, record_answer, Act.SAY_YES, "approve", choose_answer),
    PageWrite("/approvals/answer-equal", EqualAnswerBody, record_equal_answers, Act.SAY_YES, "approve"),
    PageWrite("/settings", settings.SettingBody, settings.change_setting, Act.CHANGE_SETTINGS),
    PageWrite("/settings/redaction", settings.TriedText, settings.redact_text, Act.TRY_REDACTION, "view"),
    PageWrite("/r/{repository}/changes/reviewed", changes.MarkBody, changes.mark_hunks, Act.REVIEW),
    PageWrite("/r/{repository}/changes/revert", changes.RevertBody, changes.revert_hunk, Act.RESTORE),
    PageWrite("/r/{repository}/changes/comments", changes.CommentsBody, changes.send_message, Act.STEER, "approve"),
    PageWrite("/r/{repository}/mode", ModeBody, change_mode, Act.LOWER_MODE, choose=choose_mode_change),
    PageWrite("/r/{repository}/agents/release", agents.ReleaseBody, agents.release_call, Act.STEER),
    PageWrite("/r/{repository}/agents/intent", agents.ClaimBody, agents.claim_intent, Act.BIND_INTENT),
    PageWrite("/r/{repository}/agents/hand-over", agents.HandOverBody, agents.hand_over_intent, Act.BIND_INTENT),
    PageWrite("/r/{repository}/intents", IntentBody, create_intent, Act.MAKE_INTENT),
    PageWrite("/r/{repository}/intents/{intent}", IntentBody, edit_intent, Act.EDIT_INTENT),
    PageWrite("/r/{repository}/intents/{intent}/status", StatusBody, move_intent, Act.MOVE_INTENT),
    PageWrite("/r/{repository}/intents/{intent}/fork", ForkBody, fork_intent, Act.MAKE_INTENT),
    PageWrite("/r/{repository}/intents/{intent}/delete", DeleteBody, delete_intent, Act.DELETE_INTENT),
    PageWrite("/r/{repository}/intents/{intent}/session", BindBody, bind_session, Act.BIND_INTENT),
    PageWrite("/r/{repository}/grants/{grant}/revoke", RevokeBody, revoke_one_grant, Act.REVOKE_GRANT),
    PageWrite("/r/{repository}/restore/{point}", recovery.RestoreBody, recovery.restore_files, Act.RESTORE),
    PageWrite(
        "/r/{repository}/restore/session/{session}", recovery.UndoBody, recovery.undo_session_changes, Act.RESTORE
    ),
    PageWrite("/r/{repository}/restore/{point}/pin", recovery.PinBody, recovery.pin_point, Act.PIN_POINT),
    *(write for tables in EXTENSIONS for write in tables.WRITES),
)

PARAMETER = re.compile(r"\{(\w+)(?::path)?\}")
REFERENCE = "#/components/schemas/{name}"
REFUSALS = ("400", "401", "403", "404", "408", "409", "413", "414", "421", "429", "500", "503", "504")


class RequestError(Struct, frozen=True):
    """Why a request was refused. `code` is the HTTP status, `fix` the next step."""

    code: int
    message: str
    target: str
    fix: str


def describe_api(pages: Iterable[Page], bodies: Mapping[str, type | None]) -> dict[str, Any]:
    """Return the OpenAPI document. `bodies` has the shape of each body by the address that takes it."""
    answers = {page.url: get_type_hints(page.read)["return"] for page in pages}
    shapes = [*answers.values(), *(body for body in bodies.values() if body), RequestError]
    schemas, components = schema_components(shapes, ref_template=REFERENCE)
    by_shape = dict(zip(shapes, schemas, strict=True))
    paths: dict[str, Any] = {}
    for page in pages:
        operation = describe_operation(page.url, by_shape[answers[page.url]], page.title)
        operation["parameters"] += [
            {"name": name, "in": "query", "schema": {"type": "string"}} for name in page.query_names
        ]
        paths[name_twin(page.url)] = {"get": operation}
    for url, body in bodies.items():
        operation = describe_operation(url, {}, "Write")
        content = {"application/json": {"schema": by_shape[body] if body else {"type": "object"}}}
        operation["requestBody"] = {"required": True, "content": content}
        operation["security"] = [{"cookie": [], "proof": []}]
        paths[PARAMETER.sub(r"{\1}", url)] = {"post": operation}
    return {
        "openapi": "3.1.0",
        "info": {"title": "The console of Remit", "version": version("remit")},
        "paths": paths,
        "components": {"schemas": components, "securitySchemes": SECURITY},
        "security": [{"cookie": []}],
    }


SECURITY = {
    "cookie": {"type": "apiKey", "in": "cookie", "name": "remit_read"},
    "proof": {"type": "apiKey", "in": "header", "name": "Remit-Proof"},
}


def name_twin(url: str) -> str:
    plain = PARAMETER.sub(r"{\1}", url)
    return "/index.json" if url == "/" else f"{plain}.json"


def describe_operation(url: str, data: dict[str, Any], title: str) -> dict[str, Any]:
    names = PARAMETER.findall(url)
    return {
        "summary": title,
        "parameters": [{"name": n, "in": "path", "required": True, "schema": {"type": "string"}} for n in names],
        "responses": {
            "200": describe_response("The answer.", "data", data),
            **{
                status: describe_response("Refused.", "error", {"$ref": REFERENCE.format(name=RequestError.__name__)})
                for status in REFUSALS
            },
        },
    }


def describe_response(words: str, key: str, schema: dict[str, Any]) -> dict[str, Any]:
    properties = {"schema_version": {"const": 1}, key: schema}
    envelope = {"type": "object", "required": list(properties), "properties": properties}
    return {"description": words, "content": {"application/json": {"schema": envelope}}}

"""Intents: the list of a repository, and an intent with scope, criteria and newest changes."""

import subprocess
from typing import Any

from msgspec import Struct

from remit.core.intent import Intent, LintFinding
from remit.core.scope.path_patterns import Scope
from remit.core.untrusted_input import quote_path
from remit.servers.web.guard import Refused
from remit.servers.web.pages.page import PageRequest
from remit.servers.web.pages.sessions import TimelineRow, make_row

MAX_FILES, MAX_CHANGES = 400, 30
GIT_TIMEOUT_S = 10.0


class IntentRow(Struct, frozen=True):
    """An intent in the list; `touched` counts the files changed by agents under the intent."""

    id: str
    name: str
    status: str
    owned_scope: list[str]
    criteria: int
    dependencies: list[str]
    touched: int


class IntentList(Struct, frozen=True):
    """The intents of a repository, and what is wrong with their file."""

    intents: list[IntentRow]
    findings: list[LintFinding]
    mode: str


class ScopedFile(Struct, frozen=True):
    """A file owned by an intent, or changed under the intent."""

    path: str
    is_owned: bool
    is_touched: bool


class IntentPage(Struct, frozen=True):
    """One intent."""

    intent: Intent
    files: list[ScopedFile]
    owned: int
    touched: int
    changes: list[TimelineRow]


def read_intents(request: PageRequest) -> IntentList:
    with request.repositories.open_gate(request.one_repository) as gate, gate.index() as index:
        rules = gate.rules
        document = rules.document
        rows = [
            IntentRow(
                intent.id,
                intent.title,
                intent.status,
                list(intent.owned_scope),
                len(intent.acceptance_criteria),
                list(intent.dependencies),
                len(index.list_files_of_intent(intent.id)),
            )
            for intent in (document.intents if document else ())
        ]
        findings = list(document.findings) if document else []
    return IntentList(rows, findings, rules.mode)


def read_intent(request: PageRequest) -> IntentPage:
    wanted = request.path["intent"]
    with request.repositories.open_gate(request.one_repository) as gate, gate.index() as index:
        document = gate.rules.document
        intent = next((i for i in (document.intents if document else ()) if i.id == wanted), None)
        if intent is None:
            raise Refused(404, f"there is no intent {wanted[:60]!r}", "see the page Intents")
        touched = set(index.list_files_of_intent(wanted))
        documents: list[dict[str, Any]] = index.find(event="mutation", intent_id=wanted, limit=MAX_CHANGES)
        scope = Scope(intent.owned_scope)
        tracked = list_tracked_files(request.one_repository.root)
    owned = {path for path in tracked if scope.matches(path)}
    shown = sorted(touched) + sorted(owned - touched)
    files = [ScopedFile(path, path in owned or scope.matches(path), path in touched) for path in shown[:MAX_FILES]]
    return IntentPage(intent, files, len(owned), len(touched), [make_row(0, d) for d in documents])


def list_tracked_files(root: str) -> list[str]:
    command = ["git", "-C", root, "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    try:
        done = subprocess.run(command, capture_output=True, check=False, timeout=GIT_TIMEOUT_S)
    except (OSError, subprocess.TimeoutExpired):
        return []
    return [quote_path(path) for path in done.stdout.decode("utf-8", "surrogateescape").split("\0") if path]

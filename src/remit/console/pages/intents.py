"""Intents: the list of a repository, and an intent with its scope as a tree, criteria, sessions, grants and history."""

import os
import re
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import Any, Literal, TypeAlias

from msgspec import Struct, json
from msgspec.structs import asdict

from remit.console.guard import Refused
from remit.console.pages.page import PageRequest
from remit.console.pages.sessions import TimelineRow, make_row
from remit.core.decision import Grant
from remit.core.diff.contents import sha256
from remit.core.intent import (
    MAX_FILE_BYTES,
    STATUSES,
    TRANSITIONS,
    Intent,
    LintFinding,
    Status,
    find_completion_obstacles,
    find_unfinished_dependencies,
)
from remit.core.redaction import redact
from remit.core.scope.path_patterns import Scope
from remit.core.untrusted_input import quote_path, unquote_path
from remit.gate.gate import Gate
from remit.gate.governing.rules import ListedIntent
from remit.gate.intents.history import IntentVersion, intent_history
from remit.gate.intents.owned_files import list_present_files, match_files
from remit.ledger.index.index import Index
from remit.provenance.verify.verify import missing_evidence, runs_for_intent
from remit.workspace.git.command import GitError
from remit.workspace.place.workspace import locate_workspace
from remit.workspace.safe_files import read_regular_file

MAX_TREE_FILES, MAX_CHANGES, MAX_VERSIONS, MAX_SESSIONS = 400, 30, 20, 20
EXCERPT_LINES = 2  # before and after a fault
Source: TypeAlias = Literal["spec-kit", "OpenSpec", "issue", "by hand"]
ISSUE = re.compile(r"#\d+|[\w.-]+/[\w.-]+#\d+|https?://\S+/issues/\d+\S*|[A-Z][A-Z0-9]+-\d+")
UNSHOWN_FIELDS = ("created_at", "updated_at")


class IntentRow(Struct, frozen=True):
    """An intent in the list. `touched` counts the files changed by agents under the intent, `outside` those beyond its
    scope; `blocked_by` are unfinished dependencies.
    """

    intent: ListedIntent
    source: Source
    touched: int
    outside: int
    blocked_by: list[str]


class LintPlace(Struct, frozen=True):
    """A fault of the intents file, with the lines around it."""

    finding: LintFinding
    lines: list[tuple[int, str]]


class IntentList(Struct, frozen=True):
    """The intents of a repository that the filter leaves, and what is wrong with their file. The counts are of all."""

    rows: list[IntentRow]
    findings: list[LintPlace]
    mode: str
    has_file: bool
    config_error: str
    statuses: dict[str, int]
    sources: dict[str, int]


class ScopedFile(Struct, frozen=True):
    """A file owned by an intent, or changed under the intent."""

    path: str
    name: str
    is_owned: bool
    is_touched: bool


class ScopeFolder(Struct, frozen=True):
    """A folder of the repository: how many files it holds, and how many of them the intent owns and agents touched."""

    path: str
    name: str
    files: int
    owned: int
    touched: int
    folders: list["ScopeFolder"]
    entries: list[ScopedFile]


class CriterionState(Struct, frozen=True):
    """An acceptance criterion with its evidence; `lack` is the reason why there is none."""

    text: str
    command: str
    is_met: bool
    lack: str


class IntentSession(Struct, frozen=True):
    """A session that worked under an intent; `is_active` if it is bound to the intent now."""

    session_id: str
    agent: str
    last_at: str
    changes: int
    denied: int
    is_active: bool


class IntentPage(Struct, frozen=True):
    """One intent. `shown_sha256` names its fields as shown, and is required in a change."""

    intent: ListedIntent
    shown_sha256: str
    source: Source
    blocked_by: list[str]
    transitions: list[Status]
    open_children: str
    tree: ScopeFolder
    owned: int
    touched: int
    outside: list[str]
    is_cut: bool
    criteria: list[CriterionState]
    sessions: list[IntentSession]
    unbound: list[IntentSession]
    changes: list[TimelineRow]
    grants: list[Grant]
    history: list[IntentVersion]
    findings: list[LintPlace]


def read_intents(request: PageRequest) -> IntentList:
    status, source, words = (request.query.get(name, "") for name in ("status", "source", "q"))
    with request.repositories.open_gate(request.one_repository) as gate, gate.index() as index:
        rules = gate.rules
        document, intents = rules.document, rules.intents.intents
        rows = [make_intent_row(index, rules.describe_intent(intent), intents) for intent in intents]
        findings = place_findings(gate, document.findings if document else ())
    shown = [
        row
        for row in rows
        if (not status or row.intent.status == status)
        and (not source or row.source == source)
        and words.casefold() in f"{row.intent.id} {row.intent.title} {' '.join(row.intent.owned_scope)}".casefold()
    ]
    statuses = Counter(row.intent.status for row in rows)
    return IntentList(
        shown,
        findings,
        rules.mode,
        document is not None,
        rules.config_error or "",
        {name: statuses[name] for name in STATUSES if statuses[name]},
        dict(Counter(row.source for row in rows)),
    )


def make_intent_row(index: Index, intent: ListedIntent, intents: Iterable[Intent]) -> IntentRow:
    scope = Scope(intent.owned_scope)
    touched = list_touched_files(index, intent.id)
    outside = sum(not scope.matches(path) for path in touched)
    waiting = list(find_unfinished_dependencies(intent, intents))
    return IntentRow(intent, name_source(intent), len(touched), outside, waiting)


def list_touched_files(index: Index, intent_id: str) -> set[str]:
    """Return the files that agents changed under an intent, with names as the file system has them."""
    return {unquote_path(os.fsencode(path)) for path in index.list_files_of_intent(intent_id)}


def name_source(intent: Intent) -> Source:
    for reference in intent.references:
        if reference.startswith(("specs/", ".specify/")):
            return "spec-kit"
        if reference.startswith("openspec/"):
            return "OpenSpec"
        if ISSUE.fullmatch(reference) and not reference.startswith("INT-"):
            return "issue"
    return "by hand"


def place_findings(gate: Gate, findings: Iterable[LintFinding]) -> list[LintPlace]:
    """Return each fault with the lines of its file around it."""

    def excerpt(finding: LintFinding) -> list[tuple[int, str]]:
        try:
            content = read_regular_file(gate.workspace.folder / finding.file, MAX_FILE_BYTES)
        except OSError:
            return []
        lines = content.decode("utf-8", "replace").splitlines()
        first = max(0, finding.line - 1 - EXCERPT_LINES)
        last = min(len(lines), finding.line + EXCERPT_LINES)
        return [(n + 1, redact(lines[n])[:400]) for n in range(first, last)]

    return [LintPlace(finding, excerpt(finding)) for finding in findings]


def read_intent(request: PageRequest) -> IntentPage:
    return request.repositories.run_job(request.one_repository, describe_intent, request.path["intent"])


def hash_shown(intent: Intent) -> str:
    """Return the name of an intent's fields as a person saw them."""
    fields = {name: value for name, value in asdict(intent).items() if name not in UNSHOWN_FIELDS}
    return sha256(json.encode(fields, order="sorted"))


def find_shown(gate: Gate, intent_id: str) -> Intent:
    """Return the intent. Raises Refused."""
    found = gate.intents.find_intent(intent_id)
    if found is None:
        raise Refused(404, f"there is no intent {intent_id[:60]!r}", "see the page Intents")
    return found


def list_tracked_files(root: str) -> list[str]:
    """Return the files that git does not ignore; empty where git cannot tell."""
    workspace = locate_workspace(Path(root))
    try:
        return list_present_files(workspace) if workspace is not None else []
    except GitError:
        return []


# In a worker


def describe_intent(gate: Gate, intent_id: str) -> IntentPage:
    intent = find_shown(gate, intent_id)
    document = gate.intents.document
    files = list_tracked_files(str(gate.workspace.root))
    with gate.index() as index:
        touched = list_touched_files(index, intent_id)
        documents: list[dict[str, Any]] = index.find(event="mutation", intent_id=intent_id, limit=MAX_CHANGES)
        runs = runs_for_intent(index, intent_id)
        sessions, unbound = list_sessions(gate, index, intent_id)
    scope = Scope(intent.owned_scope)
    owned = set(match_files(intent.owned_scope, files))
    outside = sorted(path for path in touched if not scope.matches(path))
    criteria = [
        CriterionState(each.text, each.verify or "", each.verify is not None and not lack, lack)
        for each in intent.acceptance_criteria
        for lack in (missing_evidence(each, runs, "person"),)
    ]
    grants = gate.active_grants(gate.rules)
    shown = sorted(touched) + sorted(owned - touched)
    return IntentPage(
        gate.rules.describe_intent(intent),
        hash_shown(intent),
        name_source(intent),
        list(find_unfinished_dependencies(intent, document.intents)),
        [status for status in STATUSES if status in TRANSITIONS[intent.status]],
        "; ".join(find_completion_obstacles(intent, document.intents)),
        build_tree(files, owned, touched, set(shown[:MAX_TREE_FILES]), outside),
        len(owned),
        len(touched),
        list(map(quote_path, outside)),
        len(shown) > MAX_TREE_FILES,
        criteria,
        sessions,
        unbound,
        [make_row(0, document) for document in documents],
        [grant for grant in grants if grant.intent_id == intent_id or grant.extent == "project"],
        intent_history(gate, intent_id, MAX_VERSIONS)[::-1],
        place_findings(gate, [finding for finding in document.findings if finding.intent_id == intent_id]),
    )


def list_sessions(gate: Gate, index: Index, intent_id: str) -> tuple[list[IntentSession], list[IntentSession]]:
    """Return the sessions that worked under the intent, and the other recent ones, the latest used first."""
    active = {key.session_id: gate.state.active_session(key) for key in gate.state.list_recent_sessions(MAX_SESSIONS)}
    own: list[IntentSession] = []
    others: list[IntentSession] = []
    for session in index.list_sessions(200):
        bound = active.get(session.session_id)
        is_active = bound is not None and bound.intent_id == intent_id
        row = IntentSession(
            session.session_id, session.agent or "", session.last_at, session.changes, session.denied, is_active
        )
        if is_active or session.intent_id == intent_id:
            own.append(row)
        elif bound is not None:
            others.append(row)
    return own[:MAX_SESSIONS], others[:MAX_SESSIONS]


def build_tree(
    files: Iterable[str], owned: set[str], touched: set[str], shown: set[str], outside: list[str]
) -> ScopeFolder:
    counts: dict[str, list[int]] = {"": [0, 0, 0]}
    for path in {*files, *touched}:
        numbers = (1, path in owned, path in touched)
        parts = path.split("/")[:-1]
        for folder in ("/".join(parts[:depth]) for depth in range(len(parts) + 1)):
            held = counts.setdefault(folder, [0, 0, 0])
            for place, number in enumerate(numbers):
                held[place] += number
    folders: dict[str, list[ScopeFolder]] = {}
    entries: dict[str, list[ScopedFile]] = {}
    for path in sorted(shown):
        folder, _, name = path.rpartition("/")
        entries.setdefault(folder, []).append(ScopedFile(quote_path(path), name, path not in outside, path in touched))
    for folder in sorted(counts, key=lambda name: -name.count("/") if name else 1):
        total, has, changed = counts[folder]
        if folder.count("/") and not has and not changed:
            continue
        inner = sorted(folders.get(folder, []), key=lambda each: each.name)
        node = ScopeFolder(
            quote_path(folder), folder.rpartition("/")[2], total, has, changed, inner, entries.get(folder, [])
        )
        if folder:
            folders.setdefault(folder.rpartition("/")[0], []).append(node)
        else:
            return node
    return ScopeFolder("", "", 0, 0, 0, [], [])

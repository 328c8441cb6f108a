"""Rules on one change: its author, path, intent and approval."""

import re
from bisect import bisect_right
from collections.abc import Container, Iterator, Mapping
from typing import Any, TypeAlias

from msgspec.structs import replace

from remit.adapters import ROWS
from remit.core.code.manifests import find_reader
from remit.core.display_text import escape_surrogates, sanitise_line
from remit.core.scope.globs import Scope
from remit.ledger.index.index import Index
from remit.provenance.origins.blame_porcelain import unquote_path
from remit.provenance.verify.base_policy import BasePolicy
from remit.provenance.verify.range_evidence import NotedLine
from remit.provenance.verify.rules import Document, RuleFinding, body_of, make_finding
from remit.workspace.place.resolve_paths import STEERS_AGENT, inside_protection_reason

AGENT_SETTINGS = tuple(
    dict.fromkeys(name for row in ROWS.values() for name in (*row.settings_files, row.hooks_file, row.mcp_file) if name)
)
"""Files in a repository where agents keep their settings."""

LOCK_FILES = re.compile(
    r"(?:cargo|composer|flake|gemfile|mix|pdm|pipfile|podfile|poetry|pubspec|uv|yarn|deno|bun)\.lock|go(?:\.work)?\.sum"
    r"|gradle\.lockfile|npm-shrinkwrap\.json|package-lock\.json|packages\.lock\.json|pnpm-lock\.yaml|pylock(?:\.\w+)?\.toml"
    r"|bun\.lockb"
)
OTHER_MANIFESTS = re.compile(
    r"build\.gradle(?:\.kts)?|composer\.json|gemfile|libs\.versions\.toml|mix\.exs|package\.swift|pom\.xml|pubspec\.yaml"
    r"|directory\.packages\.props|\w+\.csproj"
)
"""Manifests from which Remit reads no requirements."""

AnnouncedPaths: TypeAlias = dict[str, tuple[list[str], list[tuple[str, ...]]]]


def read_announcements(index: Index) -> AnnouncedPaths:
    """Return by session the times of selections and the announced paths."""
    announced: AnnouncedPaths = {}
    for document in index.iterate_records(event="intent_selected"):
        body = body_of(document)
        times, expected = announced.setdefault(str(body.get("session_id")), ([], []))
        times.append(str(document["timestamp"]))
        expected.append(tuple(map(str, body.get("expected_mutations", []))))
    return announced


def announced_paths(selections: AnnouncedPaths, session: object, timestamp: str) -> tuple[str, ...]:
    """Return the paths that the session had announced by then."""
    times, expected = selections.get(str(session), ([], []))
    count = bisect_right(times, timestamp)
    return expected[count - 1] if count else ()


def check_change(
    document: Document,
    scope: Scope | None,
    selections: AnnouncedPaths,
    undone: Container[tuple[str, str]],
    base: BasePolicy | None = None,
) -> Iterator[RuleFinding]:
    """Yield the findings on one change. Findings on a file that was undone after the call are notes.

    `scope` was in force at the time; with a `base`, the base's intents have to allow the change as well.
    """
    body = body_of(document)
    about = {"record": str(document["id"]), "intent_id": body.get("intent_id")}
    who = document.get("tool", {}).get("name", "an agent")
    announced = announced_paths(selections, body.get("session_id"), str(document["timestamp"]))
    call = str(body.get("call", {}).get("id", ""))
    for file in body.get("files", []):
        did = f"changed while {who} ran a command" if file.get("unproved") else f"written by {who}"
        if (call, str(file["path"])) not in undone:
            yield from check_file(file, body, scope, announced, did, about, base)
            continue
        findings = check_file(file, body, scope, announced, f"{did}, and undone", about, base)
        # Without a call id, the undone call may be a different one.
        yield from (replace(finding, severity="note") if call else finding for finding in findings)
    yield from check_decision(body.get("decision", {}), body, about)


def check_file(
    file: Document,
    body: Document,
    scope: Scope | None,
    announced: tuple[str, ...],
    did: str,
    about: Mapping[str, Any],
    base: BasePolicy | None = None,
) -> Iterator[RuleFinding]:
    """Yield the findings on one file; `did` describes the change in words."""
    path, intent, is_approved = str(file["path"]), body.get("intent_id"), has_approval(body)
    name = unquote_recorded_path(path)
    if why := inside_protection_reason(name, AGENT_SETTINGS):
        yield make_finding("RMT009" if why == STEERS_AGENT else "RMT004", f"{did}; {why}", path=path, **about)
    elif intent is None and not is_approved:
        yield make_finding("RMT002", f"{did} under no intent", path=path, **about)
    elif intent is not None and not is_approved and not is_in_scope(file, name, body, scope):
        said = ", and recorded as within" if file.get("in_scope", body.get("in_scope")) else ""
        yield make_finding("RMT001", f"{did} outside {intent}{describe_scope(scope)}{said}", path=path, **about)
    elif intent is not None and not is_approved and base is not None:
        yield from check_against_base(path, name, str(intent), did, about, base)
    if announced and not Scope(announced).matches(name):
        yield make_finding(
            "RMT015", f"not among what the session announced: {', '.join(announced[:5])}", path=path, **about
        )
    if is_dependency_file(path):
        yield make_finding("RMT010", f"a file of dependencies, {did}", path=path, **about)
    if body.get("covered") is False:
        yield make_finding("RMT003", f"{did}, and no verdict came before it", path=path, **about)


def check_against_base(
    path: str, name: str, intent: str, did: str, about: Mapping[str, Any], base: BasePolicy
) -> Iterator[RuleFinding]:
    """Yield findings on a change that the range's own intents allow and the base's do not."""
    if base.intents is None:
        return
    known = base.intents.get(intent)
    if known is None:
        yield make_finding("RMT002", f"{did} under {intent}, which {base.title} does not have", path=path, **about)
    elif not (scope := Scope(known.owned_scope)).matches(name):
        message = f"{did} outside {intent}{describe_scope(scope)} of {base.title}; the range itself widens that scope"
        yield make_finding("RMT001", message, path=path, **about)


def check_noted_line(noted: NotedLine, policy: BasePolicy) -> Iterator[RuleFinding]:
    """Yield the findings on a change known only from a note or an imported record."""
    intent = noted.author.attributes.get("remit.intent")
    known = (policy.intents or {}).get(intent or "")
    who = sanitise_line(noted.author.tool or "an agent", 60)
    about = {"line": noted.line, "commit": noted.commit, "intent_id": intent and sanitise_line(intent, 60)}
    scope = Scope(known.owned_scope) if known else None
    body: Document = {"intent_id": about["intent_id"]}
    did = f"written by {who}, as a note says,"
    yield from check_file({"path": noted.path}, body, scope, (), did, about, policy)


def unquote_recorded_path(path: str) -> str:
    """Return the path from its recorded form: quoted as by git if not UTF-8."""
    name = unquote_path(path.encode())
    return path if escape_surrogates(name) == name else name


def is_dependency_file(path: str) -> bool:
    name = path.rpartition("/")[2].casefold()
    is_known = LOCK_FILES.fullmatch(name) or OTHER_MANIFESTS.fullmatch(name)
    return is_known is not None or find_reader(name, path.casefold()) is not None


def has_approval(body: Document) -> bool:
    """Return whether a person approved a change of exactly these files: the call named them, and the approval
    settled every finding.
    """
    decision: Document = body.get("decision", {})
    approval = decision.get("grant") or decision.get("approved_by")
    return bool(approval) and decision.get("verdict") in ("allow", "contain") and body.get("covered") is True


def is_in_scope(file: Document, path: str, body: Document, scope: Scope | None) -> bool:
    if scope is not None:
        return scope.matches(path)
    return bool(file.get("in_scope", body.get("in_scope", True)))


def describe_scope(scope: Scope | None) -> str:
    return f" ({', '.join(scope.patterns[:5])})" if scope else ""


def check_decision(decision: Document, body: Document, about: Mapping[str, Any]) -> Iterator[RuleFinding]:
    """Yield the findings on the whole change: approval and class."""
    if by := decision.get("grant") or decision.get("approved_by"):
        path = next((str(file["path"]) for file in body.get("files", [])), "")
        yield make_finding(
            "RMT012", f"let through by {decision.get('approved_by') or 'person'}: {by}", path=path, **about
        )
    classes: Document = body.get("mutation_class", {})
    declared, computed = classes.get("declared"), classes.get("computed")
    if declared and computed and declared != computed and "AST_REFACTOR" in (declared, computed):
        path = next((str(file["path"]) for file in body.get("files", [])), "")
        yield make_finding("RMT014", f"declared {declared}, computed {computed}", path=path, **about)

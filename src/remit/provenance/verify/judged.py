"""What the rules say of one change: who made it, where, under what, and with whose yes."""

import re
from bisect import bisect_right
from collections.abc import Container, Iterator, Mapping
from typing import Any, TypeAlias

from msgspec.structs import replace

from remit.adapters import ROWS
from remit.core.globs import Scope
from remit.core.manifests import reader_of
from remit.core.text import encodable, shown
from remit.ledger.index import Index
from remit.provenance.origins.porcelain import unquoted
from remit.provenance.verify.base import BasePolicy
from remit.provenance.verify.evidence import NotedLine
from remit.provenance.verify.rules import Document, Finding, body_of, finding
from remit.workspace.paths import STEERS, protected_inside

SETTINGS = tuple(
    dict.fromkeys(name for row in ROWS.values() for name in (*row.settings, row.hooks_file, row.mcp_file) if name)
)
"""Where agents keep what steers them, as far as it lies in a repository."""

LOCK_FILES = re.compile(
    r"(?:cargo|composer|flake|gemfile|mix|pdm|pipfile|podfile|poetry|pubspec|uv|yarn|deno|bun)\.lock|go(?:\.work)?\.sum"
    r"|gradle\.lockfile|npm-shrinkwrap\.json|package-lock\.json|packages\.lock\.json|pnpm-lock\.yaml|pylock(?:\.\w+)?\.toml"
    r"|bun\.lockb"
)
OTHER_MANIFESTS = re.compile(
    r"build\.gradle(?:\.kts)?|composer\.json|gemfile|libs\.versions\.toml|mix\.exs|package\.swift|pom\.xml|pubspec\.yaml"
    r"|directory\.packages\.props|\w+\.csproj"
)
"""Manifests that Remit reads no requirements from."""

Selections: TypeAlias = dict[str, tuple[list[str], list[tuple[str, ...]]]]


def announcements(index: Index) -> Selections:
    """By session, when it selected an intent and what it said it would change."""
    found: Selections = {}
    for document in index.each(event="intent_selected"):
        body = body_of(document)
        times, expected = found.setdefault(str(body.get("session_id")), ([], []))
        times.append(str(document["timestamp"]))
        expected.append(tuple(map(str, body.get("expected_mutations", []))))
    return found


def announced_at(selections: Selections, session: object, timestamp: str) -> tuple[str, ...]:
    """What the session had announced by then; empty for nothing."""
    times, expected = selections.get(str(session), ([], []))
    place = bisect_right(times, timestamp)
    return expected[place - 1] if place else ()


def judged(
    document: Document,
    scope: Scope | None,
    selections: Selections,
    undone: Container[tuple[str, str]],
    base: BasePolicy | None = None,
) -> Iterator[Finding]:
    """What the rules say of one change. What a file that was `undone` after the call had against it is a note.

    `scope` is the one that was in force then; where there is a `base`, its intents have to allow the change as well.
    """
    body = body_of(document)
    about = {"record": str(document["id"]), "intent_id": body.get("intent_id")}
    who = document.get("tool", {}).get("name", "an agent")
    announced = announced_at(selections, body.get("session_id"), str(document["timestamp"]))
    call = str(body.get("call", {}).get("id", ""))
    for file in body.get("files", []):
        did = f"changed while {who} ran a command" if file.get("unproved") else f"written by {who}"
        if (call, str(file["path"])) not in undone:
            yield from of_file(file, body, scope, announced, did, about, base)
            continue
        found = of_file(file, body, scope, announced, f"{did}, and undone", about, base)
        # A call that its agent gave no id may be another one than that which was undone.
        yield from (replace(one, severity="note") if call else one for one in found)
    yield from said_of_decision(body.get("decision", {}), body, about)


def of_file(
    file: Document,
    body: Document,
    scope: Scope | None,
    announced: tuple[str, ...],
    did: str,
    about: Mapping[str, Any],
    base: BasePolicy | None = None,
) -> Iterator[Finding]:
    """What the rules say of one file; `did` is what was done to it, in words."""
    path, intent, let = str(file["path"]), body.get("intent_id"), approved(body)
    name = true_name(path)
    if why := protected_inside(name, SETTINGS):
        yield finding("RMT009" if why == STEERS else "RMT004", f"{did}; {why}", path=path, **about)
    elif intent is None and not let:
        yield finding("RMT002", f"{did} under no intent", path=path, **about)
    elif intent is not None and not let and not in_scope(file, name, body, scope):
        said = ", and recorded as within" if file.get("in_scope", body.get("in_scope")) else ""
        yield finding("RMT001", f"{did} outside {intent}{scope_words(scope)}{said}", path=path, **about)
    elif intent is not None and not let and base is not None:
        yield from against_base(path, name, str(intent), did, about, base)
    if announced and not Scope(announced).matches(name):
        yield finding("RMT015", f"not among what the session announced: {', '.join(announced[:5])}", path=path, **about)
    if depends(path):
        yield finding("RMT010", f"a file of dependencies, {did}", path=path, **about)
    if body.get("covered") is False:
        yield finding("RMT003", f"{did}, and no verdict came before it", path=path, **about)


def against_base(
    path: str, name: str, intent: str, did: str, about: Mapping[str, Any], base: BasePolicy
) -> Iterator[Finding]:
    """What the intents of the base say against a change that the range's own allow."""
    if base.intents is None:
        return
    known = base.intents.get(intent)
    if known is None:
        yield finding("RMT002", f"{did} under {intent}, which {base.name} does not have", path=path, **about)
    elif not (scope := Scope(known.owned_scope)).matches(name):
        said = f"{did} outside {intent}{scope_words(scope)} of {base.name}; the range itself widens that scope"
        yield finding("RMT001", said, path=path, **about)


def judge_noted(noted: NotedLine, policy: BasePolicy) -> Iterator[Finding]:
    """What the rules say of a change that a note, or an imported record, alone tells of."""
    intent = noted.author.attributes.get("remit.intent")
    known = (policy.intents or {}).get(intent or "")
    who = shown(noted.author.tool or "an agent", 60)
    about = {"line": noted.line, "commit": noted.commit, "intent_id": intent and shown(intent, 60)}
    scope = Scope(known.owned_scope) if known else None
    body: Document = {"intent_id": about["intent_id"]}
    did = f"written by {who}, as a note says,"
    yield from of_file({"path": noted.path}, body, scope, (), did, about, policy)


def true_name(path: str) -> str:
    """The path from how a record writes it: as git does, between quotes, where it is not UTF-8."""
    name = unquoted(path.encode())
    return path if encodable(name) == name else name


def depends(path: str) -> bool:
    """Whether a file says what the project needs, or which versions of it."""
    name = path.rpartition("/")[2].casefold()
    named = LOCK_FILES.fullmatch(name) or OTHER_MANIFESTS.fullmatch(name)
    return named is not None or reader_of(name, path.casefold()) is not None


def approved(body: Document) -> bool:
    """Whether a person let exactly these files be changed: the call named them, and the yes left nothing against it."""
    decision: Document = body.get("decision", {})
    yes = decision.get("grant") or decision.get("approved_by")
    return bool(yes) and decision.get("verdict") in ("allow", "contain") and body.get("covered") is True


def in_scope(file: Document, path: str, body: Document, scope: Scope | None) -> bool:
    """Whether the file was in scope: by the scope of then, else by what the record says."""
    if scope is not None:
        return scope.matches(path)
    return bool(file.get("in_scope", body.get("in_scope", True)))


def scope_words(scope: Scope | None) -> str:
    """The scope in words."""
    return f" ({', '.join(scope.patterns[:5])})" if scope else ""


def said_of_decision(decision: Document, body: Document, about: Mapping[str, Any]) -> Iterator[Finding]:
    """What is to be said of the whole change."""
    if by := decision.get("grant") or decision.get("approved_by"):
        path = next((str(file["path"]) for file in body.get("files", [])), "")
        yield finding("RMT012", f"let through by {decision.get('approved_by') or 'person'}: {by}", path=path, **about)
    classes: Document = body.get("mutation_class", {})
    declared, computed = classes.get("declared"), classes.get("computed")
    if declared and computed and declared != computed and "AST_REFACTOR" in (declared, computed):
        path = next((str(file["path"]) for file in body.get("files", [])), "")
        yield finding("RMT014", f"declared {declared}, computed {computed}", path=path, **about)

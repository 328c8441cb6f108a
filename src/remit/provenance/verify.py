"""Whether what agents changed was allowed then, and whether what was recorded of it holds now.

Rules have ids that a build can name. Nothing is decided here anew: the scope is the one that was in force, by the kept
content of the intents file that the record names.
"""

from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from typing import Any, Literal, TypeAlias

from msgspec import Struct
from msgspec.structs import replace

from remit.core.contents import range_hash, sha256
from remit.core.globs import Scope
from remit.core.intent import Intent
from remit.core.record import KEY
from remit.ledger.index import Index
from remit.provenance.additions import Addition, additions
from remit.provenance.attribution import Attribution
from remit.provenance.elsewhere import at
from remit.provenance.held import not_held
from remit.provenance.note_audit import NoteFinding
from remit.provenance.notes import place_of
from remit.provenance.syntax import classed
from remit.workspace.contents import ContentStore
from remit.workspace.git import Git

Severity: TypeAlias = Literal["note", "warning", "error"]
SEVERITIES: tuple[Severity, ...] = ("note", "warning", "error")
Document: TypeAlias = dict[str, Any]
Known: TypeAlias = Callable[[str], bytes | None]
"""The kept content of the intents file of that hash."""

RULES: dict[str, tuple[Severity, str]] = {
    "RMT001": ("error", "a change outside the intent's scope"),
    "RMT002": ("warning", "a change by an agent without an intent"),
    "RMT003": ("warning", "a change that no verdict came before"),
    "RMT004": ("error", "a protected path was changed"),
    "RMT007": ("error", "the ledger is not what was appended"),
    "RMT012": ("note", "a person's yes let a change through"),
    "RMT014": ("warning", "the declared class is not the computed one"),
    "RMT015": ("note", "a change that the selection did not announce"),
    "RMT016": ("error", "a content is not the one that was recorded"),
    "RMT017": ("error", "a note says more than its commit added"),
    "RMT018": ("error", "a constraint of the intent does not hold for what was changed under it"),
}
"""What each rule finds, and how much it weighs."""

INTEGRITY = ("RMT007", "RMT016")
PROTECTED = (".git", ".orchestration")
BATCH = 200


class Finding(Struct, frozen=True):
    """One thing that is wrong. `line` is 1-based in the version of `commit`, 0 where it is about the whole file."""

    rule: str
    severity: Severity
    message: str
    path: str = ""
    line: int = 0
    commit: str | None = None
    record: str | None = None
    intent_id: str | None = None


class Checked(Struct, frozen=True):
    """What was looked at, and what was found.

    `lost` contents are not at hand, so that their hashes could not be compared; `unkept` changes name a content of the
    intents file that is not at hand, so that the record's own word on the scope was taken.
    """

    changes: int = 0
    files: int = 0
    contents: int = 0
    lost: int = 0
    unkept: int = 0
    findings: tuple[Finding, ...] = ()


class Spot(Struct, frozen=True):
    """Where a record's lines stand in a range of commits."""

    commit: str
    path: str
    line: int


def finding(rule: str, message: str, **about: Any) -> Finding:
    """A finding of that rule, as much as the rule weighs."""
    return Finding(rule, RULES[rule][0], message, **about)


def verify_changes(
    index: Index, store: ContentStore, kept: Known, spots: Mapping[str, Sequence[Spot]] | None
) -> Checked:
    """Hold the changes of agents against the rules: those behind `spots`, or all that were recorded."""
    announced = announcements(index)
    found: list[Finding] = []
    changes = contents = lost = unkept = 0
    paths: set[str] = set()
    ruled: dict[str, Intent] = {}
    for documents in batched(recorded(index, spots)):
        compared = compare(documents, store)
        contents, lost = contents + compared.contents, lost + compared.lost
        found += compared.findings
        for document in classed(documents, store):
            scopes = scope_then(body_of(document), kept)
            changes, unkept = changes + 1, unkept + is_unkept(body_of(document), scopes)
            paths.update(str(file["path"]) for file in body_of(document).get("files", []))
            if (intent := intent_then(body_of(document), kept)) is not None and intent.rules:
                ruled[intent.id] = intent
            found += placed(judged(document, scopes, announced), (spots or {}).get(str(document["id"])))
    found += (one for intent in ruled.values() for one in unheld(intent, index, store, spots))
    return Checked(changes, len(paths), contents, lost, unkept, tuple(found))


def unheld(
    intent: Intent, index: Index, store: ContentStore, spots: Mapping[str, Sequence[Spot]] | None
) -> Iterator[Finding]:
    """The constraints that do not hold for all that was changed under an intent, as far as `spots` are about it."""
    for one in not_held(intent, index, store):
        record = max((r for r in one.records if spots is None or r in spots), default=None)
        if record is not None:
            about = finding("RMT018", one.message, path=one.path, record=record, intent_id=intent.id)
            yield from placed([about], None if spots is None else spots[record][:1] if not one.path else spots[record])


def is_unkept(body: Document, scope: Scope | None) -> bool:
    """Whether a change under an intent names no scope that is at hand."""
    return scope is None and body.get("intent_id") is not None


def body_of(document: Document) -> Document:
    """Remit's part of a record."""
    return document["metadata"][KEY]


def recorded(index: Index, spots: Mapping[str, Sequence[Spot]] | None) -> Iterator[Document]:
    """The records of changes that agents made."""
    if spots is None:
        yield from index.each(event="mutation")
        return
    for name in spots:
        yield from (d for d in index.by_id(name)[:1] if body_of(d).get("event") == "mutation")


def batched(documents: Iterable[Document]) -> Iterator[list[Document]]:
    """The records in lots, so that their contents are fetched by one git each."""
    lot: list[Document] = []
    for document in documents:
        lot.append(document)
        if len(lot) == BATCH:
            yield lot
            lot = []
    if lot:
        yield lot


def spots_in(git: Git, attribution: Attribution, commits: Sequence[str]) -> dict[str, list[Spot]]:
    """The records behind lines that those commits added, with the first line of each in each file. Raises GitError."""
    found: dict[str, list[Spot]] = {}
    added = list(additions(git, commits))
    labels = attribution.labels(map(place_of, added))
    for addition in added:
        for record, line in first_lines(addition, labels[place_of(addition)]).items():
            found.setdefault(record, []).append(Spot(addition.commit, addition.path, line))
    return found


def first_lines(addition: Addition, labels: Sequence[Any]) -> dict[str, int]:
    """The first line that each record put there, of those that the commit added."""
    found: dict[str, int] = {}
    for start, end in addition.spans:
        for number in range(start, end + 1):
            label = at(labels, number)
            if label is not None:
                found.setdefault(label.record, number)
    return found


def placed(findings: Iterable[Finding], spots: Sequence[Spot] | None) -> Iterator[Finding]:
    """The findings where their lines stand now; those of files that the range does not touch are not its own."""
    for one in findings:
        if spots is None:
            yield one
            continue
        for spot in spots:
            if spot.path == one.path or not one.path:
                yield replace(one, path=spot.path, line=spot.line, commit=spot.commit)


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


def scope_then(body: Document, kept: Known) -> Scope | None:
    """The scope that the change's intent had when it was decided; None where that is not known any more."""
    intent = intent_then(body, kept)
    return Scope(intent.owned_scope) if intent is not None else None


def intent_then(body: Document, kept: Known) -> Intent | None:
    """The change's intent as it was when it was decided; None where that is not known any more."""
    digest, intent = body.get("decision", {}).get("intent_sha256"), body.get("intent_id")
    return intents_of(kept, str(digest)).get(str(intent)) if digest and intent else None


@lru_cache(256)
def intents_of(kept: Known, digest: str) -> dict[str, Intent]:
    """The intents in the intents file of that hash; empty where it is lost, or is another content."""
    from remit.workspace.intents_file import parse_intents  # a YAML parser, for those who ask for a verification

    content = kept(digest)
    if content is None or sha256(content) != digest:
        return {}
    return {intent.id: intent for intent in parse_intents(content).intents}


def judged(document: Document, scope: Scope | None, selections: Selections) -> Iterator[Finding]:
    """What the rules say of one change."""
    body = body_of(document)
    intent = body.get("intent_id")
    about = {"record": str(document["id"]), "intent_id": intent}
    who = document.get("tool", {}).get("name", "an agent")
    decision: Document = body.get("decision", {})
    announced = announced_at(selections, body.get("session_id"), str(document["timestamp"]))
    let = approved(body)
    for file in body.get("files", []):
        path = str(file["path"])
        did = f"changed while {who} ran a command" if file.get("unproved") else f"written by {who}"
        if path.casefold().split("/")[0] in PROTECTED:
            yield finding("RMT004", did, path=path, **about)
        elif intent is None and not let:
            yield finding("RMT002", f"{did} under no intent", path=path, **about)
        elif intent is not None and not let and not in_scope(file, path, body, scope):
            said = "; recorded as within" if file.get("in_scope", body.get("in_scope")) else ""
            yield finding("RMT001", f"outside {intent}{scope_words(scope)}; {did}{said}", path=path, **about)
        if announced and not Scope(announced).matches(path):
            yield finding(
                "RMT015", f"not among what the session announced: {', '.join(announced[:5])}", path=path, **about
            )
        if body.get("covered") is False:
            yield finding("RMT003", f"{did}, and no verdict came before", path=path, **about)
    yield from said_of_decision(decision, body, about)


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
        whose = decision.get("approved_by") or "person"
        yield finding("RMT012", f"a {whose}'s yes let it through: {by}", **about)
    classes: Document = body.get("mutation_class", {})
    declared, computed = classes.get("declared"), classes.get("computed")
    if declared and computed and declared != computed and "AST_REFACTOR" in (declared, computed):
        path = next((str(file["path"]) for file in body.get("files", [])), "")
        yield finding("RMT014", f"declared {declared}, computed {computed}", path=path, **about)


def compare(documents: Sequence[Document], store: ContentStore) -> Checked:
    """Hold the recorded hashes of files and of lines against the contents that are at hand."""
    sides = [(d, f, s) for d in documents for f in body_of(d).get("files", []) for s in ("before", "after") if f.get(s)]
    named = [(d, f, s, str(f[s]["git_blob"])) for d, f, s in sides if f[s].get("git_blob")]
    at_hand = store.load_many(dict.fromkeys(blob for *_, blob in named))
    found: list[Finding] = []
    for document, file, side, blob in named:
        content = at_hand.get(blob)
        if content is not None:
            found += mismatches(document, file, side, content)
    present = sum(blob in at_hand for *_, blob in named)
    return Checked(contents=present, lost=len(named) - present, findings=tuple(found))


def mismatches(document: Document, file: Document, side: str, content: bytes) -> Iterator[Finding]:
    """What of the record is not so of this content."""
    path, about = str(file["path"]), {"record": str(document["id"]), "path": str(file["path"])}
    told = file[side].get("sha256")
    if told and told != sha256(content):
        yield finding(
            "RMT016", f"the content {side} the change hashes to {sha256(content)[:12]}…, not {told[:12]}…", **about
        )
        return
    if side != "after":
        return
    for start, end, hashed in ranges_of(document, path):
        if hashed != range_hash(content, start, end):
            yield finding("RMT016", f"lines {start}-{end} are not those that were recorded", line=start, **about)


def ranges_of(document: Document, path: str) -> Iterator[tuple[int, int, str]]:
    """The lines that a record says were written to that file, with their hash."""
    for file in document.get("files", []):
        for conversation in file.get("conversations", []) if file.get("path") == path else ():
            for one in conversation.get("ranges", []):
                if one.get("content_hash"):
                    yield int(one["start_line"]), int(one["end_line"]), str(one["content_hash"])


def of_note(found: NoteFinding) -> Finding:
    """What the audit of notes found, as a finding."""
    return finding("RMT017", found.message, path=found.path, commit=found.commit)

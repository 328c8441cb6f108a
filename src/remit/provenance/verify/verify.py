"""Verification of the recorded changes of agents, of a range of commits or of all.

RMT018 (a constraint does not hold) and RMT006 (a closed intent lacks evidence for a criterion) are rules on intents. A
criterion with a command needs a passed run of the command, recorded under the intent after the last change. A criterion
in words needs a record of a person closing the intent.
"""

import re
from collections.abc import Callable, Container, Iterable, Iterator, Sequence
from functools import lru_cache
from itertools import islice
from typing import Any, TypeAlias

from msgspec import Struct

from remit.core.diff.contents import sha256
from remit.core.diff.edits import ProposedFile
from remit.core.intent import Criterion, Intent
from remit.core.redaction import redact
from remit.core.scope.path_patterns import Scope
from remit.core.untrusted_input import sanitise_line
from remit.ledger.index.index import Index
from remit.policy.constraint_kinds import ProposedChange, describe_breach, find_all_breaches
from remit.provenance.blame.blamed_line import body_of
from remit.provenance.map.change_classes import add_computed_classes
from remit.provenance.verify.change_rules import BasePolicy, check_change, read_announcements
from remit.provenance.verify.integrity_rules import compare_contents, find_leaked_records
from remit.provenance.verify.rules import CommitRange, Document, RuleFinding, make_finding, place_findings
from remit.provenance.verify.verdict_coverage import find_undone_paths
from remit.provenance.verify.weakened_tests import find_weakened_tests
from remit.workspace.contents.content_store import ContentStore

BY_PERSON = "person"
LoadIntentsFile: TypeAlias = Callable[
    [str], bytes | None
]  # returns the kept content of the intents file with that hash


class FileOutcome(Struct):
    """First and last blob of a file, None for no file, and the records with changes of the file."""

    first: str | None
    last: str | None
    records: tuple[str, ...]


def find_broken_constraints(
    intent: Intent, index: Index, store: ContentStore, within: CommitRange | None
) -> Iterator[RuleFinding]:
    """Yield RMT018 for every constraint that the changes under the intent break together, if the range includes one of
    the changes. Unavailable contents are not checked.
    """
    undone = find_undone_paths(index.iterate_records(event="restore", intent_id=intent.id))
    outcomes = collect_outcomes(index.iterate_records(event="mutation", intent_id=intent.id), undone)
    changed = {path: outcome for path, outcome in outcomes.items() if outcome.first != outcome.last}
    contents = store.load_many({b for outcome in changed.values() for b in (outcome.first, outcome.last) if b})
    files = tuple(
        ProposedFile(path, contents.get(o.first or ""), contents.get(o.last or ""), not o.last or o.last in contents)
        for path, o in changed.items()
    )
    all_records = tuple(record for outcome in changed.values() for record in outcome.records)
    proposed = ProposedChange(files, tuple(changed), tuple(changed), is_final=True)
    for constraint, breach in find_all_breaches(intent, proposed):
        path = breach.path or ""
        records = changed[path].records if path in changed else all_records
        record = max((r for r in records if within is None or r in within.spots), default=None)
        if record is not None:
            message = describe_breach(intent.id, constraint, breach)
            finding = make_finding("RMT018", message, path=path, record=record, intent_id=intent.id)
            spots = within.spots[record] if within else None
            yield from place_findings([finding], spots if spots is None or path else spots[:1])


def collect_outcomes(documents: Iterable[dict[str, Any]], undone: Container[tuple[str, str]]) -> dict[str, FileOutcome]:
    outcomes: dict[str, FileOutcome] = {}
    for document in documents:
        body: dict[str, Any] = body_of(document)
        call = str(body.get("call", {}).get("id", ""))
        for file in body.get("files", []):
            if (call, str(file["path"])) in undone:
                continue
            before, after = (file.get(side, {}).get("git_blob") for side in ("before", "after"))
            outcome = outcomes.get(str(file["path"]))
            records = (*(outcome.records if outcome else ()), str(document["id"]))
            outcomes[str(file["path"])] = FileOutcome(outcome.first if outcome else before, after, records)
    return outcomes


def find_unmet_criteria(
    index: Index, load_intents_file: LoadIntentsFile, wanted: Container[str] | None
) -> Iterator[RuleFinding]:
    """Yield RMT006 for criteria without evidence in the `wanted` closed intents, or in every closed one."""
    transitions = {str(body_of(d).get("intent_id")): d for d in index.iterate_records(event="intent_transition")}
    for intent_id, closing in transitions.items():
        if body_of(closing).get("to") != "DONE" or (wanted is not None and intent_id not in wanted):
            continue
        # The newest recorded version of the intent; None if the intents file of that time is gone.
        newest = index.find(event="intent_changed", intent_id=intent_id, limit=1)
        digest = str(body_of(newest[0]).get("content_sha256")) if newest else ""
        intent = parse_kept_intents(load_intents_file, digest).get(intent_id) if newest else None
        runs = runs_for_intent(index, intent_id) if intent else {}
        for criterion in intent.acceptance_criteria if intent else ():
            if reason := missing_evidence(criterion, runs, str(body_of(closing).get("by"))):
                text = sanitise_line(criterion.text, 120)
                message = f"{intent_id} was closed without evidence for {text!r}: {reason}"
                yield make_finding("RMT006", message, record=str(closing["id"]), intent_id=intent_id)


def runs_for_intent(index: Index, intent_id: str) -> dict[str, tuple[bool, bool]]:
    """Return for each command run under the intent: whether the last run passed, and whether no change followed."""
    runs: dict[str, tuple[bool, bool]] = {}
    for document in index.iterate_records(intent_id=intent_id):
        body = body_of(document)
        if body.get("event") == "verification":
            runs[str(body.get("command"))] = (body.get("exit_code") == 0, True)
        elif body.get("event") == "mutation":
            runs = {command: (passed, False) for command, (passed, _) in runs.items()}
    return runs


def missing_evidence(criterion: Criterion, runs: dict[str, tuple[bool, bool]], by: str) -> str:
    """Return the reason why a criterion lacks evidence; empty if evidence exists."""
    if criterion.verify is None:
        return "" if by == BY_PERSON else f"it names no command, and {sanitise_line(by, 60)} alone said that it is met"
    command = repr(sanitise_line(criterion.verify, 120))
    run = runs.get(criterion.verify) or runs.get(redact(criterion.verify))
    if run is None:
        return f"{command} was never run"
    passed, is_current = run
    if not passed:
        return f"{command} failed the last time"
    return "" if is_current else f"{command} passed before the last change, and was not run again"


BATCH_RECORDS = 200


class VerificationResult(Struct, frozen=True):
    """Numbers of verified items, and the findings. `lost` contents are unavailable, hence not compared; `unkept`
    changes name an unavailable intents file, hence the recorded scope verdict was taken.
    """

    changes: int = 0
    files: int = 0
    contents: int = 0
    lost: int = 0
    unkept: int = 0
    findings: tuple[RuleFinding, ...] = ()


def verify_changes(
    index: Index,
    store: ContentStore,
    load_intents_file: LoadIntentsFile,
    within: CommitRange | None,
    patterns: Sequence[re.Pattern[str]] = (),
    base: BasePolicy | None = None,
) -> VerificationResult:
    """Verify the agents' changes behind the range, or every recorded change. `patterns` are a team's own secrets;
    `base` judges a range beside the rules in force.
    """
    announced, undone = read_announcements(index), find_undone_paths(index.iterate_records(event="restore"))
    findings: list[RuleFinding] = []
    changes = contents = lost = unkept = 0
    paths: set[str] = set()
    intents: dict[str, Intent | None] = {}
    digests: set[str] = set()
    spots = within.spots if within else None

    # 1. Each change: its contents, and the rules on it. The contents of a batch are fetched with one git process.
    documents = read_agent_changes(index, within)
    while batch := list(islice(documents, BATCH_RECORDS)):
        compared = compare_contents(batch, store)
        contents, lost = contents + compared.contents, lost + compared.lost
        findings += compared.findings
        declared = [d for d in batch if body_of(d).get("mutation_class", {}).get("declared")]
        classed = {str(document["id"]): document for document in add_computed_classes(declared, store)}
        for document in (classed.get(str(unclassed["id"]), unclassed) for unclassed in batch):
            body = body_of(document)
            intent_id, digest = body.get("intent_id"), str(body.get("decision", {}).get("intent_sha256") or "")
            known = parse_kept_intents(load_intents_file, digest) if digest and intent_id else {}
            intent = known.get(str(intent_id))
            digests.add(digest)
            scope = Scope(intent.owned_scope) if intent is not None else None
            changes, unkept = changes + 1, unkept + (scope is None and intent_id is not None)
            paths.update(str(file["path"]) for file in body.get("files", []))
            if intent_id:
                intents[str(intent_id)] = intent or intents.get(str(intent_id))
            found = check_change(document, scope, announced, undone, base)
            findings += place_findings(found, (spots or {}).get(str(document["id"])))

    # 2. The intents that they name.
    for digest in sorted(digests):
        content = load_intents_file(digest)
        if content is not None and sha256(content) != digest:
            message = f"the kept intents file {digest[:12]}… hashes to {sha256(content)[:12]}… now"
            findings.append(make_finding("RMT016", message))
    for intent in intents.values():
        if intent is not None and intent.rules:
            findings += find_broken_constraints(intent, index, store, within)

    # 3. All of them together.
    findings += find_weakened_tests(index, store, within)
    findings += find_unmet_criteria(index, load_intents_file, intents if within else None)
    records = index.iterate_records() if within is None else read_agent_changes(index, within)
    findings += find_leaked_records(records, patterns)
    return VerificationResult(changes, len(paths), contents, lost, unkept, tuple(findings))


def read_agent_changes(index: Index, within: CommitRange | None) -> Iterator[Document]:
    if within is None:
        yield from index.iterate_records(event="mutation")
        return
    for name in within.spots:
        yield from (d for d in index.find_by_id_prefix(name)[:1] if body_of(d).get("event") == "mutation")


@lru_cache(256)
def parse_kept_intents(load_intents_file: LoadIntentsFile, digest: str) -> dict[str, Intent]:
    # Imported here for start-up speed: loads a YAML parser.
    from remit.workspace.intents_file.parse import parse_intents

    content = load_intents_file(digest)
    if content is None or sha256(content) != digest:
        return {}
    return {intent.id: intent for intent in parse_intents(content).intents}

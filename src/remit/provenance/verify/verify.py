"""Verification of recorded changes: allowed when they were made, and unaltered since.

No decision is made anew: the scope is the scope in force at the time, read from the kept intents file that the record
names.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import lru_cache
from typing import TypeAlias

from msgspec import Struct

from remit.core.diff.contents import sha256
from remit.core.intent import Intent
from remit.core.scope.globs import Scope
from remit.ledger.index.index import Index
from remit.provenance.map.change_classes import add_computed_classes
from remit.provenance.verify.base_policy import BasePolicy
from remit.provenance.verify.change_rules import check_change, read_announcements
from remit.provenance.verify.intent_fulfilment import find_broken_constraints, find_unmet_criteria
from remit.provenance.verify.record_contents import compare_contents, find_leaked_records
from remit.provenance.verify.rules import CommitRange, Document, RuleFinding, body_of, make_finding, place_findings
from remit.provenance.verify.verdict_coverage import find_undone_paths
from remit.provenance.verify.weakened_tests import find_weakened_tests
from remit.workspace.contents.content_store import ContentStore

LoadIntentsFile: TypeAlias = Callable[[str], bytes | None]
"""Return the kept content of the intents file with that hash."""

BATCH_RECORDS = 200


class VerificationResult(Struct, frozen=True):
    """Numbers of verified items, and the findings.

    `lost` contents are unavailable, hence not compared; `unkept` changes name an unavailable intents file, hence the
    recorded scope verdict was taken.
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
    """Verify the agents' changes behind the range, or every recorded change.

    `patterns` are a team's own secrets; `base` judges a range beside the rules in force.
    """
    announced, undone = read_announcements(index), find_undone_paths(index.iterate_records(event="restore"))
    findings: list[RuleFinding] = []
    changes = contents = lost = unkept = 0
    paths: set[str] = set()
    intents: dict[str, Intent | None] = {}
    digests: set[str] = set()
    spots = within.spots if within else None
    for documents in batch_documents(read_agent_changes(index, within)):
        compared = compare_contents(documents, store)
        contents, lost = contents + compared.contents, lost + compared.lost
        findings += compared.findings
        for document in add_computed_classes(documents, store):
            body = body_of(document)
            intent = intent_when_decided(body, load_intents_file)
            digests.add(str(body.get("decision", {}).get("intent_sha256") or ""))
            scope = Scope(intent.owned_scope) if intent is not None else None
            changes, unkept = changes + 1, unkept + (scope is None and body.get("intent_id") is not None)
            paths.update(str(file["path"]) for file in body.get("files", []))
            if body.get("intent_id"):
                intents[str(body["intent_id"])] = intent or intents.get(str(body["intent_id"]))
            findings += place_findings(
                check_change(document, scope, announced, undone, base), (spots or {}).get(str(document["id"]))
            )
    findings += find_altered_intents(sorted(digests), load_intents_file)
    known_intents = [intent for intent in intents.values() if intent is not None]
    findings += (
        one for intent in known_intents if intent.rules for one in find_broken_in_range(intent, index, store, within)
    )
    findings += find_weakened_tests(index, store, within)
    findings += find_unmet_criteria(
        index, lambda digest: parse_kept_intents(load_intents_file, digest), intents if within else None
    )
    findings += find_leaked_records(
        index.iterate_records() if within is None else read_agent_changes(index, within), patterns
    )
    return VerificationResult(changes, len(paths), contents, lost, unkept, tuple(findings))


def find_altered_intents(digests: Iterable[str], load_intents_file: LoadIntentsFile) -> Iterator[RuleFinding]:
    """Yield RMT016 for kept intents files that do not match their hash."""
    for digest in digests:
        content = load_intents_file(digest)
        if content is not None and sha256(content) != digest:
            yield make_finding("RMT016", f"the kept intents file {digest[:12]}… hashes to {sha256(content)[:12]}… now")


def find_broken_in_range(
    intent: Intent, index: Index, store: ContentStore, within: CommitRange | None
) -> Iterator[RuleFinding]:
    """Yield RMT018 for constraints broken by the changes under an intent, if the range includes one of the changes."""
    for broken in find_broken_constraints(intent, index, store):
        record = max((r for r in broken.records if within is None or r in within.spots), default=None)
        if record is not None:
            finding = make_finding("RMT018", broken.message, path=broken.path, record=record, intent_id=intent.id)
            spots = within.spots[record] if within else None
            yield from place_findings([finding], spots if spots is None or broken.path else spots[:1])


def read_agent_changes(index: Index, within: CommitRange | None) -> Iterator[Document]:
    if within is None:
        yield from index.iterate_records(event="mutation")
        return
    for name in within.spots:
        yield from (d for d in index.find_by_id_prefix(name)[:1] if body_of(d).get("event") == "mutation")


def batch_documents(documents: Iterable[Document]) -> Iterator[list[Document]]:
    """Yield the records in batches, to fetch their contents with one git process each."""
    batch: list[Document] = []
    for document in documents:
        batch.append(document)
        if len(batch) == BATCH_RECORDS:
            yield batch
            batch = []
    if batch:
        yield batch


def intent_when_decided(body: Document, load_intents_file: LoadIntentsFile) -> Intent | None:
    """Return the change's intent as of the decision; None if unknown."""
    digest, intent = body.get("decision", {}).get("intent_sha256"), body.get("intent_id")
    return parse_kept_intents(load_intents_file, str(digest)).get(str(intent)) if digest and intent else None


@lru_cache(256)
def parse_kept_intents(load_intents_file: LoadIntentsFile, digest: str) -> dict[str, Intent]:
    """Return the intents of the kept intents file; empty if lost or altered."""
    # Imported here for start-up speed: loads a YAML parser.
    from remit.workspace.intents_file.parse import parse_intents

    content = load_intents_file(digest)
    if content is None or sha256(content) != digest:
        return {}
    return {intent.id: intent for intent in parse_intents(content).intents}

"""Whether what agents changed was allowed then, and whether what was recorded of it holds now.

Rules have ids that a build can name. Nothing is decided here anew: the scope is the one that was in force, by the kept
content of the intents file that the record names.
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
from remit.provenance.verify.coverage import find_undone_paths
from remit.provenance.verify.intent_fulfilment import find_broken_constraints, find_unmet_criteria
from remit.provenance.verify.record_integrity import compare_contents, find_leaked_records
from remit.provenance.verify.rules import CommitRange, Document, RuleFinding, body_of, make_finding, place_findings
from remit.provenance.verify.weakened_tests import find_weakened_tests
from remit.workspace.contents.content_store import ContentStore

LoadIntentsFile: TypeAlias = Callable[[str], bytes | None]
"""The kept content of the intents file of that hash."""

BATCH_RECORDS = 200


class VerificationResult(Struct, frozen=True):
    """What was looked at, and what was found.

    `lost` contents are not at hand, so that their hashes could not be compared; `unkept` changes name a content of the
    intents file that is not at hand, so that the record's own word on the scope was taken.
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
    """Hold the changes of agents against the rules: those behind the range, or all that were recorded.

    `patterns` are a team's own secrets; `base` is what judges a range beside the rules that were in force.
    """
    announced, undone = read_announcements(index), find_undone_paths(index.iterate_records(event="restore"))
    found: list[RuleFinding] = []
    changes = contents = lost = unkept = 0
    paths: set[str] = set()
    intents: dict[str, Intent | None] = {}
    judged_by: set[str] = set()
    spots = within.spots if within else None
    for documents in batch_documents(read_agent_changes(index, within)):
        compared = compare_contents(documents, store)
        contents, lost = contents + compared.contents, lost + compared.lost
        found += compared.findings
        for document in add_computed_classes(documents, store):
            body = body_of(document)
            intent = intent_when_decided(body, load_intents_file)
            judged_by.add(str(body.get("decision", {}).get("intent_sha256") or ""))
            scope = Scope(intent.owned_scope) if intent is not None else None
            changes, unkept = changes + 1, unkept + (scope is None and body.get("intent_id") is not None)
            paths.update(str(file["path"]) for file in body.get("files", []))
            if body.get("intent_id"):
                intents[str(body["intent_id"])] = intent or intents.get(str(body["intent_id"]))
            found += place_findings(
                check_change(document, scope, announced, undone, base), (spots or {}).get(str(document["id"]))
            )
    found += find_altered_intents(sorted(judged_by), load_intents_file)
    known = [intent for intent in intents.values() if intent is not None]
    found += (one for intent in known if intent.rules for one in find_broken_in_range(intent, index, store, within))
    found += find_weakened_tests(index, store, within)
    found += find_unmet_criteria(
        index, lambda digest: parse_kept_intents(load_intents_file, digest), intents if within else None
    )
    found += find_leaked_records(
        index.iterate_records() if within is None else read_agent_changes(index, within), patterns
    )
    return VerificationResult(changes, len(paths), contents, lost, unkept, tuple(found))


def find_altered_intents(digests: Iterable[str], load_intents_file: LoadIntentsFile) -> Iterator[RuleFinding]:
    """The kept contents of the intents file that are not those by which changes were judged."""
    for digest in digests:
        content = load_intents_file(digest)
        if content is not None and sha256(content) != digest:
            yield make_finding("RMT016", f"the kept intents file {digest[:12]}… hashes to {sha256(content)[:12]}… now")


def find_broken_in_range(
    intent: Intent, index: Index, store: ContentStore, within: CommitRange | None
) -> Iterator[RuleFinding]:
    """The constraints that do not hold for all that was changed under an intent, as far as the range is about it."""
    for one in find_broken_constraints(intent, index, store):
        record = max((r for r in one.records if within is None or r in within.spots), default=None)
        if record is not None:
            about = make_finding("RMT018", one.message, path=one.path, record=record, intent_id=intent.id)
            spots = within.spots[record] if within else None
            yield from place_findings([about], spots if spots is None or one.path else spots[:1])


def read_agent_changes(index: Index, within: CommitRange | None) -> Iterator[Document]:
    """The records of changes that agents made."""
    if within is None:
        yield from index.iterate_records(event="mutation")
        return
    for name in within.spots:
        yield from (d for d in index.find_by_id_prefix(name)[:1] if body_of(d).get("event") == "mutation")


def batch_documents(documents: Iterable[Document]) -> Iterator[list[Document]]:
    """The records in lots, so that their contents are fetched by one git each."""
    lot: list[Document] = []
    for document in documents:
        lot.append(document)
        if len(lot) == BATCH_RECORDS:
            yield lot
            lot = []
    if lot:
        yield lot


def intent_when_decided(body: Document, load_intents_file: LoadIntentsFile) -> Intent | None:
    """The change's intent as it was when it was decided; None where that is not known any more."""
    digest, intent = body.get("decision", {}).get("intent_sha256"), body.get("intent_id")
    return parse_kept_intents(load_intents_file, str(digest)).get(str(intent)) if digest and intent else None


@lru_cache(256)
def parse_kept_intents(load_intents_file: LoadIntentsFile, digest: str) -> dict[str, Intent]:
    """The intents in the intents file of that hash; empty where it is lost, or is another content."""
    from remit.workspace.intents_file.parse import parse_intents  # a YAML parser, for those who ask for a verification

    content = load_intents_file(digest)
    if content is None or sha256(content) != digest:
        return {}
    return {intent.id: intent for intent in parse_intents(content).intents}

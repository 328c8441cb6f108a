"""Whether what agents changed was allowed then, and whether what was recorded of it holds now.

Rules have ids that a build can name. Nothing is decided here anew: the scope is the one that was in force, by the kept
content of the intents file that the record names.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import lru_cache
from typing import TypeAlias

from msgspec import Struct

from remit.core.contents import sha256
from remit.core.globs import Scope
from remit.core.intent import Intent
from remit.ledger.index import Index
from remit.provenance.map.syntax import classed
from remit.provenance.verify.base import BasePolicy
from remit.provenance.verify.contents import compare
from remit.provenance.verify.coverage import undone_paths
from remit.provenance.verify.criteria import unproved
from remit.provenance.verify.held import not_held
from remit.provenance.verify.judged import announcements, judged
from remit.provenance.verify.rules import Document, Finding, Range, body_of, finding, placed
from remit.provenance.verify.secrets import leaked
from remit.provenance.verify.tests import weakened
from remit.workspace.contents import ContentStore

Known: TypeAlias = Callable[[str], bytes | None]
"""The kept content of the intents file of that hash."""

BATCH = 200


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


def verify_changes(
    index: Index,
    store: ContentStore,
    kept: Known,
    within: Range | None,
    patterns: Sequence[re.Pattern[str]] = (),
    base: BasePolicy | None = None,
) -> Checked:
    """Hold the changes of agents against the rules: those behind the range, or all that were recorded.

    `patterns` are a team's own secrets; `base` is what judges a range beside the rules that were in force.
    """
    announced, undone = announcements(index), undone_paths(index.each(event="restore"))
    found: list[Finding] = []
    changes = contents = lost = unkept = 0
    paths: set[str] = set()
    intents: dict[str, Intent | None] = {}
    judged_by: set[str] = set()
    spots = within.spots if within else None
    for documents in batched(recorded(index, within)):
        compared = compare(documents, store)
        contents, lost = contents + compared.contents, lost + compared.lost
        found += compared.findings
        for document in classed(documents, store):
            body = body_of(document)
            intent = intent_then(body, kept)
            judged_by.add(str(body.get("decision", {}).get("intent_sha256") or ""))
            scope = Scope(intent.owned_scope) if intent is not None else None
            changes, unkept = changes + 1, unkept + (scope is None and body.get("intent_id") is not None)
            paths.update(str(file["path"]) for file in body.get("files", []))
            if body.get("intent_id"):
                intents[str(body["intent_id"])] = intent or intents.get(str(body["intent_id"]))
            found += placed(judged(document, scope, announced, undone, base), (spots or {}).get(str(document["id"])))
    found += altered(sorted(judged_by), kept)
    known = [intent for intent in intents.values() if intent is not None]
    found += (one for intent in known if intent.rules for one in unheld(intent, index, store, within))
    found += weakened(index, store, within)
    found += unproved(index, lambda digest: intents_of(kept, digest), intents if within else None)
    found += leaked(index.each() if within is None else recorded(index, within), patterns)
    return Checked(changes, len(paths), contents, lost, unkept, tuple(found))


def altered(digests: Iterable[str], kept: Known) -> Iterator[Finding]:
    """The kept contents of the intents file that are not those by which changes were judged."""
    for digest in digests:
        content = kept(digest)
        if content is not None and sha256(content) != digest:
            yield finding("RMT016", f"the kept intents file {digest[:12]}… hashes to {sha256(content)[:12]}… now")


def unheld(intent: Intent, index: Index, store: ContentStore, within: Range | None) -> Iterator[Finding]:
    """The constraints that do not hold for all that was changed under an intent, as far as the range is about it."""
    for one in not_held(intent, index, store):
        record = max((r for r in one.records if within is None or r in within.spots), default=None)
        if record is not None:
            about = finding("RMT018", one.message, path=one.path, record=record, intent_id=intent.id)
            spots = within.spots[record] if within else None
            yield from placed([about], spots if spots is None or one.path else spots[:1])


def recorded(index: Index, within: Range | None) -> Iterator[Document]:
    """The records of changes that agents made."""
    if within is None:
        yield from index.each(event="mutation")
        return
    for name in within.spots:
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

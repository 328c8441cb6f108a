"""Names of the intents in records: today's ids, from the ledger's records of renumbered intents and shared labels."""

from collections.abc import Mapping
from typing import Any

from remit.core.diff.contents import sha256
from remit.core.python_runtime import LazyProperty
from remit.core.record import KEY
from remit.ledger.index.index import Index

UNSURE_MARK = "?"
"""Character behind a label that two intents had, where a record does not say which one is meant."""


def make_distinct_id(label: str, uid: str) -> str:
    # Imported here: few labels are shared, and a blame needs no intents.
    from remit.core.intent import UID_MARK

    return f"{label}{UID_MARK}{uid}"


class IntentNames:
    """Names of intents by the records of an index. The ledger keeps the label of the time and the uid."""

    def __init__(self, index: Index) -> None:
        self.index = index

    @LazyProperty
    def renumbered(self) -> dict[str, str]:
        """Return today's ids by uid, of renumbered intents."""
        bodies = (document["metadata"][KEY] for document in self.index.iterate_records(event="intent_renumbered"))
        return {str(body.get("uid")): str(body.get("to")) for body in bodies}

    @LazyProperty
    def uids(self) -> dict[str, set[str]]:
        """Return the uids of intents past and present by label."""
        found: dict[str, set[str]] = {}
        for label, uid in self.index.list_intent_names():
            found.setdefault(label, set()).add(uid)
        return found

    @property
    def digest(self) -> str:
        """Return a digest of the inputs of `find_name`."""
        shared = sorted(label for label, uids in self.uids.items() if len(uids) > 1)
        return sha256(repr((sorted(self.renumbered.items()), shared)).encode()) if self.renumbered or shared else ""

    def find_name(self, body: Mapping[str, Any]) -> str | None:
        """Return today's id of a record's intent; for a label of two intents, ambiguous in the record, the label of the
        time with a mark.
        """
        label, uid = body.get("intent_id"), body.get("intent_uid")
        if uid is not None:
            return self.renumbered.get(str(uid), label)
        return f"{label}{UNSURE_MARK}" if self.list_candidates(body) else label

    def find_distinct_name(self, body: Mapping[str, Any]) -> str | None:
        """Return a name unique among past and present intents, for data leaving this clone."""
        name, uid = self.find_name(body), body.get("intent_uid")
        shared = self.uids.get(name or "", set[str]()) - self.renumbered.keys()
        return make_distinct_id(name or "", str(uid)) if uid is not None and len(shared | {uid}) > 1 else name

    def list_candidates(self, body: Mapping[str, Any]) -> tuple[str, ...]:
        """Return the intents possibly meant by a record without a uid; empty without doubt."""
        label = body.get("intent_id")
        uids = self.uids.get(str(label), set[str]()) if label and body.get("intent_uid") is None else set[str]()
        if len(uids) < 2:
            return ()
        return tuple(self.renumbered.get(uid) or make_distinct_id(str(label), uid) for uid in sorted(uids))

"""The lives of intents as the ledger has them: the newest transition of each by uid."""

import sqlite3
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import msgspec

from remit.core.intents.life import LifeRecord
from remit.core.python_runtime import prepare_type
from remit.core.record import KEY
from remit.ledger.index.index import open_index
from remit.ledger.log_files import LedgerError

LIFE_EVENTS = ("intent_transition", "intent_reopened")
"""Events whose records carry a life, under the key `life`."""


def read_lives(state: Path, log_folder: Path, belongs_here: Callable[[str], bool]) -> dict[str, LifeRecord]:
    """Return the newest record of each intent in the worktrees of this repository. Records of versions with each status
    in the files carry no life: the files have the status. Raises OSError, LedgerError.
    """
    found: dict[str, tuple[str, LifeRecord]] = {}
    try:
        with open_index(state, log_folder) as index:
            documents = [document for event in LIFE_EVENTS for document in index.iterate_records(event=event)]
    except sqlite3.Error as error:
        raise LedgerError(f"the index of the ledger cannot be asked: {error}") from error
    for document in documents:
        body, at = document["metadata"][KEY], f"{document['timestamp']} {document['id']}"
        with suppress(msgspec.ValidationError):
            record, uid = msgspec.convert(body.get("life"), prepare_type(LifeRecord)), str(body.get("intent_uid"))
            if belongs_here(record.worktree) and at > found.get(uid, ("",))[0]:
                found[uid] = at, record
    return {uid: record for uid, (_, record) in found.items()}

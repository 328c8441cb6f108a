"""Intents as people see them in a terminal."""

from collections.abc import Iterable

from rich.text import Text

from remit.cli.view import Meaning, Table, mark, words
from remit.core.intent import Intent, Status

STATES: dict[Status, Meaning] = {
    "DRAFT": "quiet",
    "IN_PROGRESS": "intent",
    "BLOCKED": "warning",
    "DONE": "allowed",
    "ABORTED": "undone",
}


def intent_table(intents: Iterable[Intent]) -> Table:
    """Return intents as rows: id, status, name, scope."""
    return Table([(words(i.id, "bold"), mark(STATES[i.status], i.status), *name_cells(i)) for i in intents])


def name_cells(intent: Intent) -> tuple[Text, Text]:
    """Return an intent's name and scope."""
    return words(intent.title), words(", ".join(intent.owned_scope), "dim")

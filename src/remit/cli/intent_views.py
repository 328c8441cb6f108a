"""Intents as people see them in a terminal."""

from collections.abc import Iterable, Iterator, Sequence

from rich.text import Text

from remit.cli.screen import Screen
from remit.cli.view import GAP, Meaning, Part, Table, facts, line, mark, words
from remit.core.intent import Intent, Status
from remit.gate.intent_history import IntentVersion, lines_of

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


def version_parts(version: IntentVersion, screen: Screen, *, is_full: bool) -> Iterator[Part]:
    """Return one version of an intent: its number, time and author, and what it changed."""
    state = "deleted" if version.is_deleted else version.intent.status if version.intent else "content not kept here"
    yield line(words(f"v{version.version}", "bold"), screen.time(version.at), version.by, state, between="  ")
    if not is_full:
        yield from (line("   ", words(change)) for change in version.changes)
    elif version.intent is not None:
        intent = version.intent
        rows = [(name, value) for name in Intent.__struct_fields__ for value in lines_of(intent, name)]
        named = [("" if n and rows[n - 1][0] == name else name, value) for n, (name, value) in enumerate(rows)]
        yield facts(named, indent=2)


def intent_parts(intent: Intent, sessions: Sequence[str]) -> Iterator[Part]:
    """Return all that an intent says, and the sessions that work under it."""
    state = mark(STATES[intent.status], intent.status)
    rules = (f"{c.text}{f' ({c.kind}, enforced)' if c.kind else ''}" for c in intent.constraints)
    criteria = (f"{c.text}{f' ({c.verify})' if c.verify else ''}" for c in intent.acceptance_criteria)
    yield line(words(intent.id, "bold"), state, words(intent.title, "bold"), between=GAP)
    yield facts(
        [
            ("about", intent.description),
            ("blocked", words(intent.blocked_reason or "", "yellow")),
            *each_line("scope", intent.owned_scope),
            *each_line("keep to", rules),
            *each_line("done when", criteria),
            ("priority", intent.priority),
            ("owner", intent.owner),
            ("parent", intent.parent_intent or ""),
            ("after", ", ".join(intent.dependencies)),
            *each_line("see", intent.references),
            *each_line("sessions", sessions),
            ("created", intent.created_at or ""),
            ("updated", intent.updated_at or ""),
        ],
        indent=2,
    )


def each_line(name: str, values: Iterable[str]) -> Iterator[tuple[str, str]]:
    """Return values below each other, the first beside their name."""
    yield from ((name if number == 0 else "", value) for number, value in enumerate(values))

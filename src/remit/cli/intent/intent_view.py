"""Terminal views of intents."""

from collections.abc import Iterable, Iterator, Sequence

from remit.cli.screen import Screen
from remit.cli.view import GAP, Meaning, TextTable, ViewPart, facts, join_texts, mark, styled_text
from remit.core.intent import Intent, Status
from remit.gate.governing.rules import ListedIntent
from remit.gate.intents.history import IntentVersion, field_lines

STATUS_MARKS: dict[Status, Meaning] = {
    "DRAFT": "quiet",
    "IN_PROGRESS": "intent",
    "BLOCKED": "warning",
    "DONE": "allowed",
    "ABORTED": "undone",
}


def intent_table(intents: Iterable[ListedIntent]) -> TextTable:
    rows = [
        (
            styled_text(intent.id, "bold"),
            mark(STATUS_MARKS[intent.status], intent.status),
            styled_text(intent.title),
            styled_text(join_state(", ".join(intent.owned_scope), intent.state), "dim"),
        )
        for intent in intents
    ]
    return TextTable(rows)


def join_state(scope: str, state: str) -> str:
    return f"{scope}  ({state})" if state else scope


def version_parts(version: IntentVersion, screen: Screen, *, is_full: bool) -> Iterator[ViewPart]:
    """Return one version of an intent: number, time, author, and changes."""
    state = "deleted" if version.is_deleted else version.intent.status if version.intent else "content not kept here"
    yield join_texts(
        styled_text(f"v{version.version}", "bold"), screen.format_time(version.at), version.by, state, between="  "
    )
    if not is_full:
        yield from (join_texts("   ", styled_text(change)) for change in version.changes)
    elif version.intent is not None:
        fields = ((name, field_lines(version.intent, name)) for name in Intent.__struct_fields__)
        yield facts([row for name, lines in fields for row in labelled_rows(name, lines)], indent=2)


def intent_parts(intent: ListedIntent, sessions: Sequence[str]) -> Iterator[ViewPart]:
    """Return the fields of an intent, where its status comes from, and the sessions that work under the intent."""
    word = mark(STATUS_MARKS[intent.status], intent.status)
    rules = (f"{c.text}{f' ({c.kind}, enforced)' if c.kind else ''}" for c in intent.constraints)
    criteria = (f"{c.text}{f' ({c.verify})' if c.verify else ''}" for c in intent.acceptance_criteria)
    yield join_texts(styled_text(intent.id, "bold"), word, styled_text(intent.title, "bold"), between=GAP)
    yield facts(
        [
            ("status", intent.state),
            ("about", intent.description),
            ("because", styled_text(intent.blocked_reason or "", "yellow")),
            *labelled_rows("scope", intent.owned_scope),
            *labelled_rows("keep to", rules),
            *labelled_rows("done when", criteria),
            ("priority", intent.priority),
            ("owner", intent.owner),
            ("parent", intent.parent_intent or ""),
            ("after", ", ".join(intent.dependencies)),
            *labelled_rows("see", intent.references),
            *labelled_rows("sessions", sessions),
            ("created", intent.created_at or ""),
            ("updated", intent.updated_at or ""),
        ],
        indent=2,
    )


def labelled_rows(name: str, values: Iterable[str]) -> Iterator[tuple[str, str]]:
    yield from ((name if number == 0 else "", value) for number, value in enumerate(values))

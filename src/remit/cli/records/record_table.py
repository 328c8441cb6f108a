"""Records as table rows: actor, event, intent, object."""

from collections.abc import Iterable
from typing import Any

from rich.text import Text

from remit.cli.screen import Screen
from remit.cli.view import TextTable, join_texts, mark, styled_text
from remit.core.formats.record_summary import ID_CHARS, name_actor, summarize_record
from remit.core.record import KEY

WHOLE_ID_CHARS = 12  # id length in a file or a pipe, for programs
SHORT_NAME_CHARS = 8  # of an agent, with its mark
MIN_WIDE_COLUMNS = 100  # from this width on, agents' names are shown in full
FEED_COLUMN_WIDTHS = (ID_CHARS, len("59 min ago"), SHORT_NAME_CHARS, len("✓ contained"), len("INT-001"))


def record_table(
    documents: Iterable[dict[str, Any]], screen: Screen, indent: int = 0, *, is_feed: bool = False
) -> TextTable:
    is_short = screen.width is not None and screen.width < MIN_WIDE_COLUMNS
    rows: list[list[Text]] = []
    for document in documents:
        body: dict[str, Any] = document["metadata"][KEY]
        summary = summarize_record(body)
        row = [
            styled_text(str(document["id"])[-(ID_CHARS if screen.width else WHOLE_ID_CHARS) :], "yellow"),
            styled_text(screen.format_time(str(document["timestamp"])), "dim"),
            actor_mark(document, is_short=is_short),
            mark(summary.meaning, summary.verb),
            styled_text(body.get("intent_id") or "-"),
            join_texts(summary.about, styled_text("(unproved)", "yellow") if body.get("unproved") else None),
        ]
        for cell in row[2:] if summary.is_quiet else ():
            cell.stylize("dim")
        rows.append(row)
    return TextTable(rows, indent=indent, min_sizes=FEED_COLUMN_WIDTHS if is_feed else ())


def actor_mark(document: dict[str, Any], *, is_short: bool) -> Text:
    meaning, name = name_actor(document)
    if meaning == "agent" and is_short:
        agent, slash, below = name.partition("/")
        name = f"{agent.partition('-')[0]}{slash}{below}"
    if meaning == "person" and is_short:
        name = name.partition("@")[0]
    return mark(meaning, name)

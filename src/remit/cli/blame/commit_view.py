"""The view of `remit why COMMIT`: who wrote the lines that commits added."""

from collections.abc import Iterator, Mapping

from rich.text import Text

from remit.cli.terminal.screen import Screen
from remit.cli.terminal.view import GAP, Meaning, TextTable, ViewPart, facts, join_texts, mark, styled_text
from remit.provenance.why.commit_summary import CommitSummary

MAX_COMMITS = 10
MAX_FILES = 50

ORIGINS: dict[str, tuple[Meaning, str]] = {
    "ai": ("agent", "by agents"),
    "human": ("person", "by people"),
    "mixed": ("both", "by both"),
    "unknown": ("unknown", "unknown"),
}


def commit_view(summary: CommitSummary, screen: Screen) -> Iterator[ViewPart]:
    """Return the commits, their lines by origin, intents, sessions and files."""
    for one in summary.commits[:MAX_COMMITS]:
        request = f"#{one.pull_request}" if one.pull_request else ""
        about = join_texts(one.author, screen.format_time(one.at), between=", ")
        yield join_texts(
            styled_text("commit", "dim"),
            styled_text(one.sha[:12], "yellow"),
            request,
            styled_text(one.subject, "bold"),
            about,
        )
    if len(summary.commits) > MAX_COMMITS:
        yield f"… and {len(summary.commits) - MAX_COMMITS} more commits"
    total = sum(summary.lines.values())
    yield facts([
        ("added", join_texts(f"{total} line{'s' * (total != 1)}", *origin_marks(summary.lines), between=GAP)),
        ("evidence", ", ".join(f"{count} {grade or 'none'}" for grade, count in sorted(summary.grades.items()))),
    ])  # fmt: skip
    if summary.intents:
        yield ""
        yield TextTable([(mark("intent", one.intent_id), f"{one.lines} lines", one.name) for one in summary.intents])
    for one in summary.sessions:
        asked = next((text for text in one.prompt.splitlines() if text.strip()), "")
        yield join_texts(
            mark("agent", one.agent), styled_text(one.session_id, "dim"), f"{one.lines} lines", between=GAP
        )
        yield facts([("asked", asked)], indent=2)
    if summary.files:
        yield ""
        rows = [(file.path, join_texts(*origin_marks(file.lines), between=GAP)) for file in summary.files[:MAX_FILES]]
        yield TextTable(rows, cut=0)
    left_out = summary.left_out + max(0, len(summary.files) - MAX_FILES)
    if left_out:
        yield f"… and {left_out} more files; --json has those that were counted"


def origin_marks(lines: Mapping[str, int]) -> Iterator[Text]:
    """Return how many lines each origin has, as marks."""
    for origin, (meaning, text) in ORIGINS.items():
        if lines.get(origin):
            yield mark(meaning, f"{lines[origin]} {text}")

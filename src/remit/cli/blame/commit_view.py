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
    for commit in summary.commits[:MAX_COMMITS]:
        yield join_texts(
            styled_text("commit", "dim"),
            styled_text(commit.sha[:12], "yellow"),
            f"#{commit.pull_request}" if commit.pull_request else "",
            styled_text(commit.subject, "bold"),
            join_texts(commit.author, screen.format_time(commit.at), between=", "),
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
        yield TextTable([(mark("intent", i.intent_id), f"{i.lines} lines", i.name) for i in summary.intents])
    for session in summary.sessions:
        session_id = styled_text(session.session_id, "dim")
        yield join_texts(mark("agent", session.agent), session_id, f"{session.lines} lines", between=GAP)
        prompt = next((line for line in session.prompt.splitlines() if line.strip()), "")
        yield facts([("asked", prompt)], indent=2)
    if summary.files:
        yield ""
        rows = [(file.path, join_texts(*origin_marks(file.lines), between=GAP)) for file in summary.files[:MAX_FILES]]
        yield TextTable(rows, cut=0)
    left_out = summary.left_out + max(0, len(summary.files) - MAX_FILES)
    if left_out:
        yield f"… and {left_out} more files; --json has those that were counted"


def origin_marks(lines: Mapping[str, int]) -> Iterator[Text]:
    for origin, (meaning, text) in ORIGINS.items():
        if lines.get(origin):
            yield mark(meaning, f"{lines[origin]} {text}")

"""`remit why`: the reasons behind lines, and who wrote the lines that commits added."""

import os
import re
from collections.abc import Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, cast

import click
from msgspec.structs import replace

from remit.cli import output
from remit.cli.blame.blame import grade_option
from remit.cli.completion import complete_files
from remit.cli.screen import DIFF_COLOURS
from remit.gate.context import WorkspaceContext
from remit.ledger.retention import describe_pruned_part, list_pruned_parts
from remit.provenance.blame.blame import Blamer
from remit.provenance.origins.evidence_grades import GRADES, parse_grades
from remit.provenance.why.commit_summary import CommitSummary, summarize_commits
from remit.provenance.why.explain import Explainer, NoSuchLines
from remit.provenance.why.explanation import LABEL_COLUMNS, render_explanation
from remit.tools.conversations import conversations
from remit.workspace.git.command import Git, GitError

if TYPE_CHECKING:
    from rich.text import Text

    from remit.cli.screen import Screen
    from remit.cli.view import Meaning, ViewPart

SPOT_PATTERN = re.compile(r"(?P<file>.+?)(?::(?P<start>\d{1,9})(?:-(?P<end>\d{1,9}))?)?", re.DOTALL)


@click.command()
@click.argument("spot", metavar="FILE[:LINE[-LINE]] | COMMIT | RANGE", shell_complete=complete_files)
@grade_option
@click.option("--full", is_flag=True, help="All of it: every edit, whole texts, whole diffs.")
@output.view_command_options
def why(spot: str, grade: str | None, full: bool, repo: Path, as_json: bool) -> None:
    """Tell why lines are there: the intent, what was asked and said, the edit, and what surrounded it.

    Of a commit, or of a range such as main..HEAD, tell who wrote the lines that it added: how many by agents, under
    which intents, in which sessions.

    Examples: remit why src/auth.py:42-50, remit why HEAD, remit why main..HEAD
    """
    context = output.reading_context(repo)
    workspace = context.workspace
    folder = output.folder_of_paths(workspace, repo)
    file, lines = parse_spot(spot, folder)
    path = output.path_in_workspace(workspace, repo, file)
    with output.open_index_or_empty(workspace, governed=context.is_governed) as index:
        store = output.open_content_store(workspace)
        blamer = Blamer(workspace, index, store, path)
        if lines is None and names_commits(blamer.git, spot, folder):
            emit_summary(context, blamer, spot, as_json)
            return
        known = (partial(conversations, context), context.rules.document) if context.is_governed else (None, None)
        explainer = Explainer(blamer, store, *known, parse_grades(grade) if grade else GRADES)
        try:
            explanation = explainer.explain(path, lines)
        except NoSuchLines as error:
            fix = "name a file of this repository, and lines that it has, for example: src/app.py:10-20"
            raise output.Failure("NOT_FOUND", str(error), target=path, fix=fix) from error
    if any(passage.record is None for passage in explanation.passages):
        pruned = map(describe_pruned_part, list_pruned_parts(workspace.log_folder))
        explanation = replace(explanation, remarks=(*explanation.remarks, *pruned))
    output.emit(explanation, as_json, "" if as_json else colour_explanation(render_explanation(explanation, full=full)))


def names_commits(git: Git, spot: str, folder: Path) -> bool:
    if is_a_path(folder / spot) or spot.startswith("-"):
        return False
    try:
        git.run("rev-list", "--no-walk", "--max-count=1", "--end-of-options", spot, "--")
    except GitError:
        return False
    return True


def emit_summary(context: WorkspaceContext, blamer: Blamer, commits: str, as_json: bool) -> None:
    known = (context.rules.document, partial(conversations, context)) if context.is_governed else (None, None)
    summary = summarize_commits(blamer, commits, *known)
    output.emit_view(summary, as_json, lambda screen: commit_view(summary, screen))


def colour_explanation(text: str) -> str:
    part, lines = "", list[str]()
    for line in text.split("\n"):
        name, rest = line[:LABEL_COLUMNS], line[LABEL_COLUMNS:]
        if line[:2] != "  ":
            part = ""
            lines.append(click.style(line, bold=True) if line.startswith("edit ") else line)
            continue
        part = name.strip() or part
        colour = DIFF_COLOURS.get(rest[:1]) if part == "edit" else None
        lines.append(click.style(name, dim=True) + (click.style(rest, fg=colour) if colour else rest))
    return "\n".join(lines)


def parse_spot(spot: str, folder: Path) -> tuple[str, tuple[int, int] | None]:
    """Return the file relative to `folder`, and its first and last line if named. Raises Failure."""
    match = SPOT_PATTERN.fullmatch(spot)
    if match is None:
        raise output.Failure("USAGE", "no file was named", fix="for example: remit why src/app.py:10-20")
    # The whole text may be a file's name.
    if match["start"] is None or (is_a_path(folder / spot) and not is_a_path(folder / match["file"])):
        return spot, None
    start, end = int(match["start"]), int(match["end"] or match["start"])
    if not 1 <= start <= end:
        raise output.Failure("USAGE", f"{spot!r} names no lines", fix="the first line is 1, and comes before the last")
    return match["file"], (start, end)


def is_a_path(path: Path) -> bool:
    try:
        return os.path.lexists(path)
    except ValueError:  # the name contains a NUL
        return False


MAX_COMMITS = 10
MAX_FILES = 50


def commit_view(summary: CommitSummary, screen: "Screen") -> "Iterator[ViewPart]":
    # Imports rich, which answers about lines do not need.
    from remit.cli.view import GAP, TextTable, facts, join_texts, mark, styled_text

    origins = (("ai", "agent", "by agents"), ("human", "person", "by people"), ("mixed", "both", "by both"))

    def origin_marks(lines: Mapping[str, int]) -> "Iterator[Text]":
        for origin, meaning, text in (*origins, ("unknown", "unknown", "unknown")):
            if lines.get(origin):
                yield mark(cast("Meaning", meaning), f"{lines[origin]} {text}")

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
    if left_out := summary.left_out + max(0, len(summary.files) - MAX_FILES):
        yield f"… and {left_out} more files; --json has those that were counted"

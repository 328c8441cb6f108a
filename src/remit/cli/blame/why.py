"""`remit why`: the reasons behind lines."""

import os
import re
from functools import partial
from pathlib import Path

import click
from msgspec.structs import replace

from remit.cli.blame.blame import grade_option
from remit.cli.completion import complete_files
from remit.cli.output import Failure, emit, emit_view, reading_context, view_command_options
from remit.cli.repository import open_content_store, open_index_or_empty, path_in_workspace
from remit.cli.terminal.colour import DIFF_COLOURS
from remit.gate.context import WorkspaceContext
from remit.ledger.prune import describe_pruned_part, list_pruned_parts
from remit.provenance.blame.blame import Blamer
from remit.provenance.origins.evidence import GRADES, parse_grades
from remit.provenance.why.commit_summary import summarize_commits
from remit.provenance.why.explain import Explainer, NoSuchLines
from remit.provenance.why.explanation import Explanation
from remit.provenance.why.explanation_text import LABEL_COLUMNS, render_explanation
from remit.tools.conversations import conversations
from remit.workspace.git.command import Git, GitError

SPOT_PATTERN = re.compile(r"(?P<file>.+?)(?::(?P<start>\d{1,9})(?:-(?P<end>\d{1,9}))?)?", re.DOTALL)


@click.command()
@click.argument("spot", metavar="FILE[:LINE[-LINE]] | COMMIT | RANGE", shell_complete=complete_files)
@grade_option
@click.option("--full", is_flag=True, help="All of it: every edit, whole texts, whole diffs.")
@view_command_options
def why(spot: str, grade: str | None, full: bool, repo: Path, as_json: bool) -> None:
    """Tell why lines are there: the intent, what was asked and said, the edit, and what surrounded it.

    Of a commit, or of a range such as main..HEAD, tell who wrote the lines that it added: how many by agents, under
    which intents, in which sessions.

    Examples: remit why src/auth.py:42-50, remit why HEAD, remit why main..HEAD
    """
    context = reading_context(repo)
    workspace = context.workspace
    folder = Path() if repo == Path() else workspace.root
    file, lines = parse_spot(spot, folder)
    with open_index_or_empty(workspace, governed=context.is_governed) as index:
        store = open_content_store(workspace)
        blamer = Blamer(workspace, index, store)
        if lines is None and names_commits(blamer.git, spot, folder):
            emit_summary(context, blamer, spot, as_json)
            return
        known = (partial(conversations, context), context.rules.document) if context.is_governed else (None, None)
        explainer = Explainer(blamer, store, *known, parse_grades(grade) if grade else GRADES)
        explanation = explain_lines(explainer, path_in_workspace(workspace, repo, file), lines)
    if any(passage.record is None for passage in explanation.passages):
        pruned = map(describe_pruned_part, list_pruned_parts(workspace.log_folder))
        explanation = replace(explanation, remarks=(*explanation.remarks, *pruned))
    emit(explanation, as_json, "" if as_json else colour_explanation(render_explanation(explanation, full=full)))


def names_commits(git: Git, spot: str, folder: Path) -> bool:
    """Return whether `spot` names a commit or a range, and no file."""
    if is_a_path(folder / spot) or spot.startswith("-"):
        return False
    try:
        git.run("rev-list", "--no-walk", "--max-count=1", "--end-of-options", spot, "--")
    except GitError:
        return False
    return True


def emit_summary(context: WorkspaceContext, blamer: Blamer, commits: str, as_json: bool) -> None:
    from remit.cli.blame.commit_view import commit_view  # imports rich, which other answers do not need

    known = (context.rules.document, partial(conversations, context)) if context.is_governed else (None, None)
    summary = summarize_commits(blamer, commits, *known)
    emit_view(summary, as_json, lambda screen: commit_view(summary, screen))


def explain_lines(explainer: Explainer, path: str, lines: tuple[int, int] | None) -> Explanation:
    """Return the explanation of the lines. Raises Failure for lines that do not exist."""
    try:
        return explainer.explain(path, lines)
    except NoSuchLines as error:
        fix = "name a file of this repository, and lines that it has, for example: src/app.py:10-20"
        raise Failure("NOT_FOUND", str(error), target=path, fix=fix) from error


def colour_explanation(text: str) -> str:
    """Return the text with diff lines in git's colours and dimmed part names."""
    part, lines = "", list[str]()
    for line in text.split("\n"):
        part = line[:LABEL_COLUMNS].strip() or part if line[:2] == "  " else ""
        lines.append(colour_line(line, in_diff=part == "edit"))
    return "\n".join(lines)


def colour_line(line: str, *, in_diff: bool) -> str:
    """Return one coloured line. Text outside a diff may begin like a diff line."""
    name, rest = line[:LABEL_COLUMNS], line[LABEL_COLUMNS:]
    if line[:2] != "  ":
        return click.style(line, bold=True) if line.startswith("edit ") else line
    colour = DIFF_COLOURS.get(rest[:1]) if in_diff else None
    return click.style(name, dim=True) + (click.style(rest, fg=colour) if colour else rest)


def parse_spot(spot: str, folder: Path) -> tuple[str, tuple[int, int] | None]:
    """Return the file relative to `folder`, and its first and last line if named. Raises Failure."""
    match = SPOT_PATTERN.fullmatch(spot)
    if match is None:
        raise Failure("USAGE", "no file was named", fix="for example: remit why src/app.py:10-20")
    if match["start"] is None or is_whole_name(spot, match["file"], folder):
        return spot, None
    start, end = int(match["start"]), int(match["end"] or match["start"])
    if not 1 <= start <= end:
        raise Failure("USAGE", f"{spot!r} names no lines", fix="the first line is 1, and comes before the last")
    return match["file"], (start, end)


def is_whole_name(spot: str, file: str, folder: Path) -> bool:
    """Return whether the complete spot is a file name, and the part before the colon is none."""
    return is_a_path(folder / spot) and not is_a_path(folder / file)


def is_a_path(path: Path) -> bool:
    try:
        return os.path.lexists(path)
    except ValueError:  # the name contains a NUL
        return False

"""`remit why`: why lines are there."""

import os
import re
from functools import partial
from pathlib import Path

import click
import msgspec
from msgspec.structs import replace

from remit.cli.blame.answer import path_in_workspace
from remit.cli.blame.blame import grade_option
from remit.cli.colour import DIFF_COLOURS
from remit.cli.completion import complete_files
from remit.cli.output import (
    Failure,
    emit,
    emit_view,
    json_option,
    reading_site,
    repo_option,
    reports_failures,
    view_options,
)
from remit.cli.repository import open_content_store, open_repository_index
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
@repo_option
@json_option
@view_options
@reports_failures
def why(spot: str, grade: str | None, full: bool, repo: Path, as_json: bool) -> None:
    """Tell why lines are there: the intent, what was asked and said, the edit, and what surrounded it.

    Of a commit, or of a range such as main..HEAD, tell who wrote the lines that it added: how many by agents, under
    which intents, in which sessions.

    Examples: remit why src/auth.py:42-50, remit why HEAD, remit why main..HEAD
    """
    gate = reading_site(repo)
    workspace = gate.workspace
    folder = Path() if repo == Path() else workspace.root
    file, lines = parse_spot(spot, folder)
    with open_repository_index(workspace, governed=gate.is_governed) as index:
        store = open_content_store(workspace)
        blamer = Blamer(workspace, index, store)
        if lines is None and names_commits(blamer.git, spot, folder):
            emit_summary(gate, blamer, spot, as_json)
            return
        known = (partial(conversations, gate), gate.rules.document) if gate.is_governed else (None, None)
        telling = Explainer(blamer, store, *known, parse_grades(grade) if grade else GRADES)
        found = explain_lines(telling, path_in_workspace(workspace, repo, file), lines)
    if any(passage.record is None for passage in found.passages):
        found = replace(
            found, remarks=(*found.remarks, *map(describe_pruned_part, list_pruned_parts(workspace.log_folder)))
        )
    emit(
        msgspec.to_builtins(found), as_json, "" if as_json else colour_explanation(render_explanation(found, full=full))
    )


def names_commits(git: Git, spot: str, folder: Path) -> bool:
    """Whether `spot` names a commit or a range, and no file."""
    if is_a_path(folder / spot) or spot.startswith("-"):
        return False
    try:
        git.run("rev-list", "--no-walk", "--max-count=1", "--end-of-options", spot, "--")
    except GitError:
        return False
    return True


def emit_summary(gate: WorkspaceContext, blamer: Blamer, wanted: str, as_json: bool) -> None:
    """Print who wrote the lines that a commit or a range added."""
    from remit.cli.blame.commit_view import commit_view  # with the printer of views, which no other answer needs

    known = (gate.rules.document, partial(conversations, gate)) if gate.is_governed else (None, None)
    summary = summarize_commits(blamer, wanted, *known)
    emit_view(msgspec.to_builtins(summary), as_json, lambda screen: commit_view(summary, screen))


def explain_lines(telling: Explainer, path: str, lines: tuple[int, int] | None) -> Explanation:
    """What is behind the lines. Raises Failure where there are none such."""
    try:
        return telling.explain(path, lines)
    except NoSuchLines as error:
        fix = "name a file of this repository, and lines that it has, for example: src/app.py:10-20"
        raise Failure("NOT_FOUND", str(error), target=path, fix=fix) from error


def colour_explanation(text: str) -> str:
    """Return the words with the lines of a diff in git's colours, and names of parts dimmed."""
    part, lines = "", list[str]()
    for line in text.split("\n"):
        part = line[:LABEL_COLUMNS].strip() or part if line[:2] == "  " else ""
        lines.append(colour_line(line, in_diff=part == "edit"))
    return "\n".join(lines)


def colour_line(line: str, *, in_diff: bool) -> str:
    """Return one line, coloured. The text of other parts may begin as a line of a diff does."""
    name, rest = line[:LABEL_COLUMNS], line[LABEL_COLUMNS:]
    if line[:2] != "  ":
        return click.style(line, bold=True) if line.startswith("edit ") else line
    colour = DIFF_COLOURS.get(rest[:1]) if in_diff else None
    return click.style(name, dim=True) + (click.style(rest, fg=colour) if colour else rest)


def parse_spot(spot: str, folder: Path) -> tuple[str, tuple[int, int] | None]:
    """The file, counted from `folder`, and first and last line where they are named. Raises Failure."""
    found = SPOT_PATTERN.fullmatch(spot)
    if found is None:
        raise Failure("USAGE", "no file was named", fix="for example: remit why src/app.py:10-20")
    if found["start"] is None or is_whole_name(spot, found["file"], folder):
        return spot, None
    start, end = int(found["start"]), int(found["end"] or found["start"])
    if not 1 <= start <= end:
        raise Failure("USAGE", f"{spot!r} names no lines", fix="the first line is 1, and comes before the last")
    return found["file"], (start, end)


def is_whole_name(spot: str, file: str, folder: Path) -> bool:
    """Whether all of it is a file's name, and the part before the colon is none."""
    return is_a_path(folder / spot) and not is_a_path(folder / file)


def is_a_path(path: Path) -> bool:
    """Whether something is at that path; never for a name that no file can have."""
    try:
        return os.path.lexists(path)
    except ValueError:  # a NUL
        return False

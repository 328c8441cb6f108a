"""`remit stats`: lines by author, and the counts of the ledger."""

import os
import time
from collections.abc import Iterable, Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from msgspec import to_builtins

from remit.cli.completion import INTENT, complete_files
from remit.cli.output import Failure, emit_view, governed_context, open_index, path_in_workspace, view_command_options
from remit.core.agents import ROWS
from remit.core.untrusted_input import sanitise_line
from remit.ledger.index.index import Filters, Index
from remit.ledger.parse_time import parse_time
from remit.provenance.blame.blame import Blamer
from remit.provenance.stats.figures import Figures, measure_figures
from remit.provenance.verify.verdict_coverage import measure_coverage, measure_range_coverage
from remit.workspace.git.command import GitError
from remit.workspace.place.workspace import Workspace

if TYPE_CHECKING:
    from remit.cli.view import ViewPart


MAX_ROWS = 20
MAX_NAMED_FILES = 5


@click.command()
@click.argument("paths", nargs=-1, metavar="[PATH]...", shell_complete=complete_files)
@click.option("--path", "more", multiple=True, metavar="PATH", help="Only lines of these files; as the argument.")
@click.option("--since", metavar="TIME", help="Only what was recorded since then: a date in UTC, 7d, '2 weeks ago'.")
@click.option("--until", metavar="TIME", help="Only what was recorded before then.")
@click.option("--range", "commits", metavar="RANGE", help="Also the coverage of these commits, such as main..HEAD.")
@click.option("--agent", metavar="NAME", help=f"Only changes of this agent, such as {next(iter(ROWS))}.")
@click.option("--model", metavar="NAME", help="Only changes by this model.")
@click.option("--intent", "intent_id", metavar="ID", help="Only changes under this intent.", type=INTENT)
@view_command_options
def stats(
    paths: tuple[str, ...],
    more: tuple[str, ...],
    since: str | None,
    until: str | None,
    commits: str | None,
    agent: str | None,
    model: str | None,
    intent_id: str | None,
    repo: Path,
    as_json: bool,
) -> None:
    """Show how much agents wrote, what became of it, how long it lasted, and what the ledger counts.

    Each file that an agent changed is blamed once, so a large repository takes a while; PATHs narrow lines down.
    Lines count as accepted once they are in a commit on HEAD's way, and as overridden where something took their place
    that no agent is known to have written.
    """
    context = governed_context(repo)
    workspace = context.workspace
    start, end = (None if text is None else parse_time(text, datetime.now(UTC)) for text in (since, until))
    filters = Filters(agent=agent, intent_id=intent_id, since=start, until=end)
    with open_index(workspace) as index:
        resolved = resolve_paths(workspace, index, repo, (*paths, *more))
        blamer = Blamer(workspace, index, context.contents)
        figures = measure_figures(blamer, resolved, filters, time.time(), model=model)
        data, lines = query_coverage(index, workspace, start, end, commits)
    emit_view({**to_builtins(figures), "coverage": data}, as_json, lambda _: stats_view(figures, lines))


def resolve_paths(workspace: Workspace, index: Index, repo: Path, paths: Sequence[str]) -> tuple[str, ...]:
    """Return the paths relative to the workspace root; git's pathspecs are accepted too. Raises Failure."""
    resolved = tuple(path if path.startswith(":") else path_in_workspace(workspace, repo, path) for path in paths)
    for given, path in zip(paths, resolved, strict=True):
        is_known = os.path.lexists(workspace.root / path) or index.list_changes(path)
        if not any(sign in path for sign in ":*?[") and not is_known:
            raise Failure("NOT_FOUND", f"no file {path!r} is there, and no record has it", target=given)
    return () if "." in resolved else resolved


def stats_view(figures: Figures, coverage: Sequence[str]) -> "Iterator[ViewPart]":
    from remit.cli.view import TextTable, facts, heading, mark, styled_text

    # 1. Lines at HEAD by origin.
    def share_of_lines(count: int, words: str = "") -> str:
        return format_share(count, figures.lines) + words

    yield heading("Lines at HEAD", str(figures.lines))
    rows = [(mark("agent", "agents"), share_of_lines(figures.ai))]
    if figures.likely:
        words = "  they came while one command of an agent ran alone"
        rows.append((styled_text("  of those likely"), share_of_lines(figures.likely, words)))
    rows += [(mark("agent", "other agents"), share_of_lines(figures.others))] if figures.others else []
    rows.append((mark("person", "people"), share_of_lines(figures.human)))
    rows += [(mark("both", "both"), share_of_lines(figures.mixed))] if figures.mixed else []
    words = "  older than the first record: nobody can say"
    rows += [(styled_text("before Remit"), share_of_lines(figures.before, words))] if figures.before else []
    words = "  the rules in .orchestration/"
    rows += [(styled_text("Remit's own files"), share_of_lines(figures.own, words))] if figures.own else []
    rows.append((mark("unknown", "unknown"), share_of_lines(figures.unknown, "  no record explains them")))
    if figures.open:
        words = "  came while a command ran, without proof"
        rows.append((styled_text("  of those"), share_of_lines(figures.open, words)))
    yield TextTable(rows, indent=2)
    yield ""

    # 2. What became of the agents' lines.
    yield heading("Lines that agents wrote", str(figures.generated))
    fates = [("accepted", format_share(figures.accepted, figures.generated) + " into commits")]
    if figures.unproved:
        total = figures.generated + figures.unproved
        share = format_share(figures.unproved, total)
        fates.append(("unproved", f"{share} of {total}, while opaque commands ran; not counted"))
    share = format_share(figures.overridden, figures.accepted)
    fates.append(("replaced", f"{share} by others, {figures.rewritten} by agents"))
    fates.append(("deleted", str(figures.deleted)))
    for age in figures.durability:
        if age.lines:
            fates.append(
                (f"{age.days} days", f"{format_share(age.alive, age.lines)} of {age.lines} old enough still stand")
            )
    yield facts(fates, indent=2)
    groups = (("agent", figures.groups.agents), ("model", figures.groups.models), ("intent", figures.groups.intents))
    for title, by_name in groups:
        cells: list[tuple[str, ...]] = []
        for name, g in sorted(by_name.items(), key=lambda item: -item[1].generated)[:MAX_ROWS]:
            numbers = (g.generated, g.accepted, g.overridden, g.at_head, g.calls, g.denied)
            cells.append((name, *(f"{number:>6}" if number else "     ·" for number in numbers)))
        if cells:
            yield ""
            yield TextTable(cells, (title, "generated", "accepted", "overridden", "at HEAD", "calls", "denied"), cut=0)
    if figures.files:
        yield ""
        shares = [(file.path, format_share(file.ai, file.lines)) for file in figures.files[:MAX_ROWS]]
        yield TextTable(shares, ("file", "by agents"), cut=0)
        if len(figures.files) > MAX_ROWS:
            yield f"… and {len(figures.files) - MAX_ROWS} more files; --json has all"
    yield ""

    # 3. The ledger: records by event, tools, verdicts, refusals, approvals.
    yield heading("Ledger", f"{figures.records} records")
    calls = [(name, tool.calls) for name, tool in list(figures.tools.items())[:MAX_ROWS] if tool.calls]
    mean = "" if figures.mean_ms is None else f"; {figures.mean_ms:.0f} ms on average"
    counts = [
        ("events", format_counts(figures.by_event.items())),
        ("tools", (format_counts(calls) or "none") + mean),
        ("verdicts", format_counts(figures.by_verdict.items())),
        ("refused for", format_counts(figures.by_violation.items())),
    ]
    if (approvals := figures.approvals).rate is not None:
        total = approvals.allowed + approvals.denied
        share = format_share(approvals.allowed, total)
        counts.append(("approvals", f"{approvals.asked} asked, {share} of {total} answers were yes"))
    yield facts(counts, indent=2)
    yield from coverage
    if approvals.too_many:
        yield mark("warning", "you are being asked too much: see `remit mode suggest` and `remit approvals`")


def format_counts(counts: Iterable[tuple[str, int]]) -> str:
    return ", ".join(f"{name} {count}" for name, count in counts)


def format_share(count: int, total: int) -> str:
    return f"{count} ({100 * count / total:.0f} %)" if total else str(count)


def query_coverage(
    index: Index, workspace: Workspace, since: str | None, until: str | None, commits: str | None
) -> tuple[dict[str, Any], list[str]]:
    """Return the coverage of the period, and of a commit range if given: as data, and as lines. Raises Failure."""
    share = measure_coverage(index, since=since, until=until).overall
    data: dict[str, Any] = {"judged": share.covered_files, **to_builtins(share)}
    lines = [
        f"coverage        {share.covered_files} of {share.changed} changed files were judged before they changed",
        f"  others        people alone changed {share.people}, git {share.git}",
    ]
    if commits is None:
        return data, lines
    try:
        coverage = measure_range_coverage(index, workspace, commits)
    except GitError as error:
        message = error.message.strip() or str(error)
        raise Failure("GIT", message, target=commits, fix="for example: remit stats --range main..HEAD") from error
    data["range"] = {"commits": commits, **to_builtins(coverage)}
    judged = f"{coverage.judged} of {coverage.files} files of these commits were judged"
    lines.append(f"  {sanitise_line(commits, 60)}: {judged}")
    for state, paths in (("not judged", coverage.ungoverned), ("nothing recorded", coverage.unrecorded)):
        if paths:
            files = ", ".join(sanitise_line(path, 120) for path in paths[:MAX_NAMED_FILES])
            more = f" and {len(paths) - MAX_NAMED_FILES} more" if len(paths) > MAX_NAMED_FILES else ""
            lines.append(f"    {state}: {files}{more}")
    return data, lines

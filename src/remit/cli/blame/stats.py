"""`remit stats`: figures.

The part of `remit stats` that tells how much was judged before it changed.
"""

import os
import time
from collections.abc import Iterable, Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
import msgspec
from msgspec import to_builtins

from remit.cli.blame.answer import path_in_workspace
from remit.cli.completion import complete_files, complete_intents
from remit.cli.failure import Failure
from remit.cli.output import emit_view, governed_site, json_option, repo_option, reports_failures, view_options
from remit.core.display_text import sanitise_line
from remit.gate.context import WorkspaceContext
from remit.ledger.index.index import Filters, Index, open_index
from remit.ledger.parse_time import parse_time
from remit.provenance.blame.blame import Blamer
from remit.provenance.stats.figures import Figures, measure_figures
from remit.provenance.verify.coverage import RangeCoverage, measure_coverage, measure_range_coverage
from remit.workspace.git.command import GitError
from remit.workspace.place.workspace import Workspace

if TYPE_CHECKING:
    from remit.cli.terminal.view import ViewPart


MAX_NAMED_FILES = 5


def query_coverage(
    index: Index, workspace: Workspace, since: str | None, until: str | None, commits: str | None
) -> tuple[dict[str, Any], list[str]]:
    """The coverage of that time, and of a range of commits where one is asked for: as data, and in lines."""
    share = measure_coverage(index, since=since, until=until).overall
    data: dict[str, Any] = {"judged": share.covered_files, **to_builtins(share)}
    said = f"coverage        {share.covered_files} of {share.changed} changed files were judged before they changed"
    lines = [said, f"  others        people alone changed {share.people}, git {share.git}"]
    if commits is not None:
        found = measure_range(index, workspace, commits)
        data["range"] = {"commits": commits, **to_builtins(found)}
        lines += range_lines(commits, found)
    return data, lines


def measure_range(index: Index, workspace: Workspace, commits: str) -> RangeCoverage:
    """The coverage of those commits. Raises Failure where git knows no such range."""
    try:
        return measure_range_coverage(index, workspace, commits)
    except GitError as error:
        message = error.message.strip() or str(error)
        raise Failure("GIT", message, target=commits, fix="for example: remit stats --range main..HEAD") from error


def range_lines(commits: str, found: RangeCoverage) -> list[str]:
    """The coverage of a range, for people."""
    lines = [f"  {sanitise_line(commits, 60)}: {found.judged} of {found.files} files of these commits were judged"]
    for name, paths in (("not judged", found.ungoverned), ("nothing recorded", found.unrecorded)):
        if paths:
            few = ", ".join(sanitise_line(path, 120) for path in paths[:MAX_NAMED_FILES])
            more = f" and {len(paths) - MAX_NAMED_FILES} more" if len(paths) > MAX_NAMED_FILES else ""
            lines.append(f"    {name}: {few}{more}")
    return lines


MAX_ROWS = 20


@click.command()
@click.argument("paths", nargs=-1, metavar="[PATH]...", shell_complete=complete_files)
@click.option("--path", "more", multiple=True, metavar="PATH", help="Only lines of these files; as the argument.")
@click.option("--since", metavar="TIME", help="Only what was recorded since then: a date in UTC, 7d, '2 weeks ago'.")
@click.option("--until", metavar="TIME", help="Only what was recorded before then.")
@click.option("--range", "commits", metavar="RANGE", help="Also the coverage of these commits, such as main..HEAD.")
@click.option("--agent", metavar="NAME", help="Only changes of this agent, such as claude-code.")
@click.option("--model", metavar="NAME", help="Only changes by this model.")
@click.option(
    "--intent", "intent_id", metavar="ID", help="Only changes under this intent.", shell_complete=complete_intents
)
@repo_option
@json_option
@view_options
@reports_failures
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
    gate = governed_site(repo)
    workspace = gate.workspace
    begun, ended = (None if text is None else parse_time(text, datetime.now(UTC)) for text in (since, until))
    by = Filters(agent=agent, intent_id=intent_id, since=begun, until=ended)
    with open_index(workspace.state, workspace.log_folder) as index:
        within = resolve_paths(gate, index, repo, (*paths, *more))
        found = measure_figures(Blamer(workspace, index, gate.contents), within, by, time.time(), model=model)
        data, lines = query_coverage(index, workspace, begun, ended, commits)
    emit_view({**msgspec.to_builtins(found), "coverage": data}, as_json, lambda _: stats_view(found, lines))


def resolve_paths(site: WorkspaceContext, index: Index, repo: Path, paths: Sequence[str]) -> tuple[str, ...]:
    """Return the paths, which are given from the current folder, from the workspace's root. Raises Failure.

    git's patterns are taken, too: those with its magic words as they are.
    """
    found = tuple(path if path.startswith(":") else path_in_workspace(site.workspace, repo, path) for path in paths)
    for given, path in zip(paths, found, strict=True):
        is_pattern = any(sign in path for sign in ":*?[")
        if not is_pattern and not os.path.lexists(site.workspace.root / path) and not index.list_mutations(path):
            raise Failure("NOT_FOUND", f"no file {path!r} is there, and no record has it", target=given)
    return () if "." in found else found


def stats_view(found: Figures, coverage: Sequence[str]) -> "Iterator[ViewPart]":
    """Return the figures by what they are about: lines, agents, files, the ledger."""
    from remit.cli.terminal.view import TextTable, facts, heading, join_texts, mark, styled_text

    yield heading("Lines at HEAD", str(found.lines))
    rows = [
        (mark("agent", "agents"), format_share(found.ai, found.lines)),
        (mark("agent", "likely agents"), describe_likely(found)),
        (mark("person", "people"), format_share(found.human, found.lines)),
        (mark("both", "both"), format_share(found.mixed, found.lines) if found.mixed else ""),
        (mark("unknown", "unknown"), f"{format_share(found.unknown, found.lines)}  no record explains them"),
    ]
    if found.open:
        rows.append(
            (
                styled_text("  of those"),
                f"{format_share(found.open, found.lines)}  came while a command ran, without proof",
            )
        )
    yield TextTable([row for row in rows if row[1]], indent=2)
    yield ""
    yield heading("Lines that agents wrote", str(found.generated))
    life = [("accepted", format_share(found.accepted, found.generated) + " into commits")]
    if found.unproved:
        total = found.generated + found.unproved
        life.append(
            ("unproved", f"{format_share(found.unproved, total)} of {total}, while opaque commands ran; not counted")
        )
    life.append(
        ("replaced", f"{format_share(found.overridden, found.accepted)} by others, {found.rewritten} by agents")
    )
    life.append(("deleted", str(found.deleted)))
    old = [one for one in found.durability if one.lines]
    life += [
        (f"{one.days} days", f"{format_share(one.alive, one.lines)} of {one.lines} old enough still stand")
        for one in old
    ]
    yield facts(life, indent=2)
    groups = (("agent", found.groups.agents), ("model", found.groups.models), ("intent", found.groups.intents))
    for title, by_name in groups:
        named = sorted(by_name.items(), key=lambda item: -item[1].generated)[:MAX_ROWS]
        if named:
            yield ""
            heads = (title, "generated", "accepted", "overridden", "at HEAD", "calls", "denied")
            numbers = [
                (one.generated, one.accepted, one.overridden, one.at_head, one.calls, one.denied) for _, one in named
            ]
            cells = [tuple(f"{number:>6}" if number else "     ·" for number in row) for row in numbers]
            yield TextTable([(name, *row) for (name, _), row in zip(named, cells, strict=True)], heads, cut=0)
    if found.files:
        yield ""
        rows = [(one.path, format_share(one.ai, one.lines)) for one in found.files[:MAX_ROWS]]
        yield TextTable(rows, ("file", "by agents"), cut=0)
        if len(found.files) > MAX_ROWS:
            yield f"… and {len(found.files) - MAX_ROWS} more files; --json has all"
    yield ""
    yield heading("Ledger", f"{found.records} records")
    yield facts(ledger_facts(found), indent=2)
    yield from coverage
    if found.approvals.too_many:
        yield join_texts(
            mark("warning", "you are being asked too much: see `remit mode suggest` and `remit approvals`")
        )


def describe_likely(found: Figures) -> str:
    """Return how many of the agents' lines are only likely theirs; empty for none."""
    why = "they came while one command of an agent ran alone"
    return f"{format_share(found.likely, found.lines)}  {why}" if found.likely else ""


def ledger_facts(found: Figures) -> "Iterator[tuple[str, str]]":
    """Return the counts of the ledger: records by event, tools, verdicts, refusals, approvals."""
    yield "events", format_counts(found.by_event.items())
    mean = "" if found.mean_ms is None else f"; {found.mean_ms:.0f} ms on average"
    calls = [(name, tool.calls) for name, tool in list(found.tools.items())[:MAX_ROWS] if tool.calls]
    yield "tools", (format_counts(calls) or "none") + mean
    yield "verdicts", format_counts(found.by_verdict.items())
    yield "refused for", format_counts(found.by_violation.items())
    asked = found.approvals
    if asked.rate is not None:
        total = asked.allowed + asked.denied
        yield "approvals", f"{asked.asked} asked, {format_share(asked.allowed, total)} of {total} answers were yes"


def format_counts(named: Iterable[tuple[str, int]]) -> str:
    """Return names with their counts on one line."""
    return ", ".join(f"{name} {count}" for name, count in named)


def format_share(some: int, of: int) -> str:
    """Return a count and its share."""
    return f"{some} ({100 * some / of:.0f} %)" if of else str(some)

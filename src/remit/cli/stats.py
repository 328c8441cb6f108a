"""`remit stats`: figures."""

import time
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from pathlib import Path

import click
import msgspec

from remit.cli.completion import complete_files, complete_intents
from remit.cli.output import emit, governed_site, json_option, repo_option, reports_failures
from remit.cli.stats_coverage import covered
from remit.core.text import shown
from remit.ledger.index import Filters, Index
from remit.ledger.moments import moment
from remit.provenance.blame.blame import Blamer
from remit.provenance.stats.stats import Figures, measure
from remit.provenance.stats.tally import Group

MOST = 20


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
    begun, ended = (None if text is None else moment(text, datetime.now(UTC)) for text in (since, until))
    by = Filters(agent=agent, intent_id=intent_id, since=begun, until=ended)
    with Index.open(workspace.state / "index.db", workspace.log_folder) as index:
        index.catch_up()
        found = measure(Blamer(workspace, index, gate.store), (*paths, *more), by, time.time(), model=model)
        data, lines = covered(index, workspace, begun, ended, commits)
    emit({**msgspec.to_builtins(found), "coverage": data}, as_json, "\n".join([*in_words(found), *lines]))


def in_words(found: Figures) -> Iterator[str]:
    """The figures for people."""
    yield f"lines at HEAD   {found.lines}, of which agents are known to have written {part(found.ai, found.lines)}"
    if found.likely:
        yield f"  likely        {part(found.likely, found.lines)}: came while one command of an agent ran alone"
    yield f"  people        {found.human}, both {found.mixed}"
    yield f"  unknown       {part(found.unknown, found.lines)}: nobody saw them written"
    if found.open:
        yield f"  of those      {part(found.open, found.lines)} came while a command ran; nothing proves who wrote them"
    for one in found.files[:MOST]:
        yield f"  file    {shown(one.path):<40} {part(one.ai, one.lines)}"
    if len(found.files) > MOST:
        yield f"  … and {len(found.files) - MOST} more files; --json has all"
    yield f"agents' lines   {found.generated} generated, {part(found.accepted, found.generated)} accepted into commits"
    if found.unproved:
        total = found.generated + found.unproved
        yield f"  unproved      {part(found.unproved, total)} of {total} came while opaque commands ran; not counted"
    gone = f"{found.rewritten} by agents, {found.deleted} deleted"
    yield f"  replaced      {part(found.overridden, found.accepted)} overridden, {gone}"
    for one in found.durability:
        yield f"  {one.days:>3} days      {part(one.alive, one.lines)} of {one.lines} old enough still stood"
    for title, groups in (
        ("agent", found.groups.agents),
        ("model", found.groups.models),
        ("intent", found.groups.intents),
    ):
        yield from table(title, groups)
    yield from of_ledger(found)


def table(title: str, groups: Mapping[str, Group]) -> Iterator[str]:
    """What each agent, model or intent did."""
    if not groups:
        return
    yield f"{title:<28} generated  accepted  overridden  at HEAD    calls   denied"
    for name, one in sorted(groups.items(), key=lambda item: -item[1].generated)[:MOST]:
        numbers = (one.generated, one.accepted, one.overridden, one.at_head, one.calls, one.denied)
        widths = (9, 9, 11, 8, 8, 8)
        yield f"  {shown(name, 26):<26} " + " ".join(f"{n:>{w}}" for n, w in zip(numbers, widths, strict=True))


def of_ledger(found: Figures) -> Iterator[str]:
    """What the ledger counts."""
    yield f"records         {found.records}"
    yield from (f"  {shown(name):<24} {count}" for name, count in found.by_event.items())
    used = (f"{shown(name, 40)} {tool.calls}" for name, tool in list(found.tools.items())[:MOST] if tool.calls)
    mean = "" if found.mean_ms is None else f"; {found.mean_ms:.0f} ms on average"
    yield f"tools           {', '.join(used) or 'none'}{mean}"
    for title, counts in (("verdicts", found.by_verdict), ("refused for", found.by_violation)):
        if counts:
            yield f"{title:<15} {', '.join(f'{shown(name)} {count}' for name, count in counts.items())}"
    asked = found.approvals
    if asked.rate is not None:
        total = asked.allowed + asked.denied
        yield f"approvals       {asked.asked} asked, {part(asked.allowed, total)} of {total} answers were yes"
    if asked.too_many:
        yield click.style("  you are being asked too much: see `remit mode suggest` and `remit approvals`", fg="yellow")


def part(some: int, of: int) -> str:
    """A count and its share."""
    return f"{some} ({100 * some / of:.0f} %)" if of else str(some)

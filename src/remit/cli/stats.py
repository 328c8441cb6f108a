"""`remit stats`: figures."""

import os
import time
from collections.abc import Iterable, Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

import click
import msgspec

from remit.cli.blame_answer import inside
from remit.cli.completion import complete_files, complete_intents
from remit.cli.failure import Failure
from remit.cli.output import emit_view, governed_site, json_option, repo_option, reports_failures, view_options
from remit.cli.stats_coverage import covered
from remit.gate.site import Site
from remit.ledger.index import Filters, Index
from remit.ledger.moments import moment
from remit.provenance.blame.blame import Blamer
from remit.provenance.stats.stats import Figures, measure

if TYPE_CHECKING:
    from remit.cli.view import Part

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
    begun, ended = (None if text is None else moment(text, datetime.now(UTC)) for text in (since, until))
    by = Filters(agent=agent, intent_id=intent_id, since=begun, until=ended)
    with Index.open(workspace.state / "index.db", workspace.log_folder) as index:
        index.catch_up()
        within = named_paths(gate, index, repo, (*paths, *more))
        found = measure(Blamer(workspace, index, gate.store), within, by, time.time(), model=model)
        data, lines = covered(index, workspace, begun, ended, commits)
    emit_view({**msgspec.to_builtins(found), "coverage": data}, as_json, lambda _: stats_view(found, lines))


def named_paths(site: Site, index: Index, repo: Path, paths: Sequence[str]) -> tuple[str, ...]:
    """Return the paths, which are given from the current folder, from the workspace's root. Raises Failure.

    git's patterns are taken, too: those with its magic words as they are.
    """
    found = tuple(path if path.startswith(":") else inside(site.workspace, repo, path) for path in paths)
    for given, path in zip(paths, found, strict=True):
        is_pattern = any(sign in path for sign in ":*?[")
        if not is_pattern and not os.path.lexists(site.workspace.root / path) and not index.mutations_of(path):
            raise Failure("NOT_FOUND", f"no file {path!r} is there, and no record has it", target=given)
    return () if "." in found else found


def stats_view(found: Figures, coverage: Sequence[str]) -> "Iterator[Part]":
    """Return the figures by what they are about: lines, agents, files, the ledger."""
    from remit.cli.view import Table, facts, heading, line, mark, words

    yield heading("Lines at HEAD", str(found.lines))
    rows = [
        (mark("agent", "agents"), share_of(found.ai, found.lines)),
        (mark("agent", "likely agents"), likely_words(found)),
        (mark("person", "people"), share_of(found.human, found.lines)),
        (mark("both", "both"), share_of(found.mixed, found.lines) if found.mixed else ""),
        (mark("unknown", "unknown"), f"{share_of(found.unknown, found.lines)}  no record explains them"),
    ]
    if found.open:
        rows.append(
            (words("  of those"), f"{share_of(found.open, found.lines)}  came while a command ran, without proof")
        )
    yield Table([row for row in rows if row[1]], indent=2)
    yield ""
    yield heading("Lines that agents wrote", str(found.generated))
    life = [("accepted", share_of(found.accepted, found.generated) + " into commits")]
    if found.unproved:
        total = found.generated + found.unproved
        life.append(
            ("unproved", f"{share_of(found.unproved, total)} of {total}, while opaque commands ran; not counted")
        )
    life.append(("replaced", f"{share_of(found.overridden, found.accepted)} by others, {found.rewritten} by agents"))
    life.append(("deleted", str(found.deleted)))
    old = [one for one in found.durability if one.lines]
    life += [
        (f"{one.days} days", f"{share_of(one.alive, one.lines)} of {one.lines} old enough still stand") for one in old
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
            yield Table([(name, *row) for (name, _), row in zip(named, cells, strict=True)], heads, cut=0)
    if found.files:
        yield ""
        rows = [(one.path, share_of(one.ai, one.lines)) for one in found.files[:MAX_ROWS]]
        yield Table(rows, ("file", "by agents"), cut=0)
        if len(found.files) > MAX_ROWS:
            yield f"… and {len(found.files) - MAX_ROWS} more files; --json has all"
    yield ""
    yield heading("Ledger", f"{found.records} records")
    yield facts(ledger_facts(found), indent=2)
    yield from coverage
    if found.approvals.too_many:
        yield line(mark("warning", "you are being asked too much: see `remit mode suggest` and `remit approvals`"))


def likely_words(found: Figures) -> str:
    """Return how many of the agents' lines are only likely theirs; empty for none."""
    why = "they came while one command of an agent ran alone"
    return f"{share_of(found.likely, found.lines)}  {why}" if found.likely else ""


def ledger_facts(found: Figures) -> "Iterator[tuple[str, str]]":
    """Return the counts of the ledger: records by event, tools, verdicts, refusals, approvals."""
    yield "events", counts_of(found.by_event.items())
    mean = "" if found.mean_ms is None else f"; {found.mean_ms:.0f} ms on average"
    calls = [(name, tool.calls) for name, tool in list(found.tools.items())[:MAX_ROWS] if tool.calls]
    yield "tools", (counts_of(calls) or "none") + mean
    yield "verdicts", counts_of(found.by_verdict.items())
    yield "refused for", counts_of(found.by_violation.items())
    asked = found.approvals
    if asked.rate is not None:
        total = asked.allowed + asked.denied
        yield "approvals", f"{asked.asked} asked, {share_of(asked.allowed, total)} of {total} answers were yes"


def counts_of(named: Iterable[tuple[str, int]]) -> str:
    """Return names with their counts on one line."""
    return ", ".join(f"{name} {count}" for name, count in named)


def share_of(some: int, of: int) -> str:
    """Return a count and its share."""
    return f"{some} ({100 * some / of:.0f} %)" if of else str(some)

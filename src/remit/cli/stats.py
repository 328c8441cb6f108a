"""`remit stats`: figures."""

from pathlib import Path

import click
import msgspec

from remit.cli.output import emit, governed_gate, json_option, repo_option, reports_failures
from remit.core.text import shown
from remit.ledger.index import Index
from remit.provenance.blame import Blamer
from remit.provenance.stats import Figures, measure

MOST_FILES = 20


@click.command()
@click.argument("paths", nargs=-1, metavar="[PATH]...")
@repo_option
@json_option
@reports_failures
def stats(paths: tuple[str, ...], repo: Path, as_json: bool) -> None:
    """Show how much of the code at HEAD agents wrote, by file, agent and intent, and what the ledger counts.

    Each file that an agent changed is blamed once, so a large repository takes a while; PATHs narrow it down.
    """
    gate = governed_gate(repo)
    workspace = gate.workspace
    with Index.open(workspace.state / "index.db", workspace.log_folder) as index:
        index.catch_up()
        found = measure(Blamer(workspace, index, gate.store), workspace.log_folder, paths)
    emit(msgspec.to_builtins(found), as_json, in_words(found))


def in_words(found: Figures) -> str:
    """The figures for people."""
    lines = [f"lines at HEAD   {found.lines}, of which agents are known to have written {part(found.ai, found.lines)}"]
    lines += [f"  agent   {shown(name):<24} {count}" for name, count in found.by_agent.items()]
    lines += [f"  intent  {shown(name):<24} {count}" for name, count in found.by_intent.items()]
    lines += [f"  file    {shown(f.path):<40} {part(f.ai, f.lines)}" for f in found.files[:MOST_FILES]]
    if len(found.files) > MOST_FILES:
        lines.append(f"  … and {len(found.files) - MOST_FILES} more files; --json has all")
    lines.append(f"records         {found.records}")
    lines += [f"  {shown(name):<24} {count}" for name, count in found.by_event.items()]
    for title, counts in (("verdicts", found.by_verdict), ("refused for", found.by_violation)):
        if counts:
            lines.append(f"{title:<15} {', '.join(f'{name} {count}' for name, count in counts.items())}")
    return "\n".join(lines)


def part(some: int, of: int) -> str:
    """A count and its share."""
    return f"{some} ({100 * some / of:.0f} %)" if of else str(some)

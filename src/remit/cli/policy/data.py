"""`remit data`: which runtime data commands may change under any intent."""

from pathlib import Path

import click

from remit.cli.output import Failure, command_options, emit, governed_gate, say
from remit.cli.person_only import require_terminal
from remit.core.acts import Act
from remit.core.untrusted_input import sanitise_line
from remit.gate.facts.runtime_data import find_proposals, format_patterns, list_databases, name_data
from remit.workspace.place.config import ConfigError


@click.group()
def data() -> None:
    """Runtime data: databases and uploads that commands change under any intent, with a copy from before."""


@data.command("list")
@command_options
def list_(repo: Path, as_json: bool) -> None:
    """Show the named patterns, what of them is there, and what looks like runtime data."""
    gate = governed_gate(repo)
    named, trusted = gate.rules.config.containment.data, gate.find_data_patterns()
    found = list_databases(gate, trusted) if trusted else []
    proposed = find_proposals(gate.workspace, named)
    lines = [f"  {sanitise_line(pattern, 200)}" for pattern in named] or ["  nothing is named"]
    if named and trusted is None:
        lines.append("no effect yet: nobody on this machine said yes to exactly these: remit trust")
    lines += [f"changed in place: {sanitise_line(', '.join(found), 400)}"] if found else []
    if proposed:
        lines.append(f"looks like runtime data: {sanitise_line(', '.join(each.text for each in proposed), 400)}")
        lines.append(f"to name it: remit data add {sanitise_line(format_patterns(p.pattern for p in proposed), 400)}")
    document = {"patterns": named, "trusted": trusted is not None, "databases": found}
    emit({**document, "proposed": [each.pattern for each in proposed]}, as_json, lines)


@data.command("add")
@click.argument("patterns", nargs=-1, required=True)
@command_options
def add(patterns: tuple[str, ...], repo: Path, as_json: bool) -> None:
    """Name runtime data by PATTERNS such as db.sqlite3 or 'media/**': commands may change it under any intent.

    Only a person may do this: the yes is for exactly the patterns named then, on this machine.
    """
    gate = governed_gate(repo)
    require_terminal(Act.NAME_DATA)
    if not as_json:
        say(f"Runtime data: {sanitise_line(', '.join(patterns), 1000)}.")
    if not click.confirm("Commands may change it under any intent; a copy is kept before. Yes?", err=True):
        raise Failure("NOT_CONFIRMED", "nothing was changed", fix="`remit data add` asks again")
    try:
        named = name_data(gate, patterns)
    except ConfigError as error:
        raise Failure("CONFIG_INVALID", str(error), fix="name the data alone, as db.sqlite3 or 'media/**'") from error
    emit({"patterns": named}, as_json, [f"named: {sanitise_line(', '.join(named), 1000)}"])

"""`remit rules`: rules that a checkout loosens, and a person's yes to them."""

from pathlib import Path

import click

from remit.cli.output import command_options, emit, governed_gate
from remit.cli.person_only import require_person
from remit.core.acts import Act
from remit.core.untrusted_input import sanitise_full_line
from remit.gate.gate import Gate
from remit.gate.people.trust import accept_found_rules

NO_CHANGES = "git brought no looser rules: the files' rules are in force"


@click.group()
def rules() -> None:
    """Rules that a checkout, a pull, a merge or a stash would loosen: the stricter ones hold until you accept."""


@rules.command()
@command_options
def diff(repo: Path, as_json: bool) -> None:
    """Show what git brought that is looser than the accepted rules, and does not hold."""
    gate = governed_gate(repo)
    emit({"in_force": gate.rules.mode, "loosened": list_changes(gate)}, as_json, list_changes(gate) or NO_CHANGES)


@rules.command()
@command_options
def accept(repo: Path, as_json: bool) -> None:
    """Let the rules hold that the files have now; exactly these, wherever they come again."""
    gate = governed_gate(repo)
    require_person(Act.ACCEPT_RULES)
    found = list_changes(gate)
    if found:
        accept_found_rules(gate)
    emit({"accepted": found}, as_json, ["accepted:", *found] if found else NO_CHANGES)


def list_changes(gate: Gate) -> list[str]:
    return [f"  {sanitise_full_line(change)}" for _, change in gate.rules.loosened]

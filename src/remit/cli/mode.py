"""`remit mode`: observe, warn or enforce."""

from pathlib import Path

import click

from remit.cli.output import emit, governed_gate, json_option, repo_option, reports_failures
from remit.cli.people import only_people
from remit.core.decision import Mode
from remit.gate.governing import set_mode

ABOUT: dict[Mode, str] = {
    "observe": "everything passes and is recorded",
    "warn": "everything passes; the agent is told what enforce would refuse",
    "enforce": "changes need an intent, and stay in its scope",
}


@click.command()
@click.argument("mode", type=click.Choice(list(ABOUT)), required=False)
@repo_option
@json_option
@reports_failures
def mode(mode: Mode | None, repo: Path, as_json: bool) -> None:
    """Show the mode, or set it."""
    gate = governed_gate(repo)
    if mode is not None:
        only_people("setting the mode")
        set_mode(gate.workspace, mode)
    now = gate.governing.mode
    emit({"mode": now}, as_json, f"{now}: {ABOUT[now]}")

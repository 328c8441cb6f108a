"""`remit plan`: check whether several intents can run at once, and cut work into independent parts."""

import os
from collections.abc import Sequence
from pathlib import Path

import click

from remit.cli.completion import complete_intents
from remit.cli.output import FINDINGS, command_options, emit, governed_gate
from remit.cli.person_only import PERSON, is_below_agent, refuse_agent, require_person
from remit.cli.plan.fork import fork
from remit.cli.plan.landing import land, undo
from remit.cli.plan.plan_text import describe_plan
from remit.cli.plan.start import start
from remit.cli.plan.suggest import suggest
from remit.cli.plan.watch import log, pause, resume, status, stop
from remit.gate.gate import Gate
from remit.orchestrator.planning.companions import list_companion_patterns
from remit.orchestrator.planning.plan import make_plan, select_planned
from remit.orchestrator.planning.roles import find_role
from remit.orchestrator.repository import gather_facts, list_tracked_files


@click.group()
def plan() -> None:
    """Run several agents at once: each intent is a task that writes only its own paths."""


@plan.command("check")
@click.argument("intent_ids", nargs=-1, metavar="[ID]...", shell_complete=complete_intents)
@click.option("--fix", is_flag=True, help="Write the patterns of companions into the scopes of these intents.")
@command_options
def check(intent_ids: tuple[str, ...], fix: bool, repo: Path, as_json: bool) -> None:
    """Report findings against running these intents at once; by default every open intent.

    An intent includes its open descendants. Two tasks without a dependency between them have to be proved apart: a path
    in both scopes is named. Exit 1 for a finding that has to be mended first. No task is started.
    """
    if is_below_agent():
        raise refuse_agent("checking a plan")
    gate = governed_gate(repo)
    for name in intent_ids:
        gate.intents.get(name)
    settings = gate.rules.config.orchestrator
    if fix:
        require_person("editing intents")
        write_companions(gate, intent_ids)
    document = gate.intents.document
    intents = tuple(select_planned({intent.id: intent for intent in document.intents}, intent_ids).values())
    facts = gather_facts(gate, intents, settings, os.environ.get("PATH", os.defpath))
    made = make_plan(document, intent_ids, find_role(settings, settings.first_role), settings, facts)
    emit(made, as_json, "\n".join(describe_plan(made)), FINDINGS if made.errors else 0)


def write_companions(gate: Gate, intent_ids: Sequence[str]) -> None:
    """Replace the companions rule of planned intents by the rule's patterns."""
    files = list_tracked_files(gate.workspace)
    intents = {intent.id: intent for intent in gate.intents.document.intents}
    for intent in select_planned(intents, intent_ids).values():
        if intent.companions:
            added = [line for line in list_companion_patterns(intent, files) if line not in intent.owned_scope]
            changes = {"owned_scope": (*intent.owned_scope, *added), "companions": False}
            gate.intents.edit(intent.id, changes, by=PERSON)


for command in (suggest, start, status, log, pause, resume, stop, land, undo, fork):
    plan.add_command(command)

"""`remit plan`: check whether several intents can run at once, and cut work into independent parts."""

import os
from collections.abc import Sequence
from pathlib import Path

import click
from msgspec.structs import asdict, replace

from remit.cli.completion import complete_intents
from remit.cli.output import FINDINGS, command_options, emit, governed_gate
from remit.cli.person_only import PERSON, is_below_agent, refuse_agent, require_person
from remit.cli.plan.forecasting import describe_own_worker, estimate_tasks, find_past, forecast_made
from remit.cli.plan.fork import fork
from remit.cli.plan.landing import land, undo
from remit.cli.plan.opening import database_option
from remit.cli.plan.plan_text import describe_plan
from remit.cli.plan.start import describe_repository, make_limits, make_roles, make_tasks, start
from remit.cli.plan.suggest import suggest
from remit.cli.plan.watch import log, pause, resume, status, stop
from remit.gate.gate import Gate
from remit.orchestrator.board import OpenPlan
from remit.orchestrator.fleet import find_repository_root, name_repository
from remit.orchestrator.forecast import Forecast, describe_forecast, write_forecast
from remit.orchestrator.planning.companions import list_companion_patterns
from remit.orchestrator.planning.plan import Plan, make_plan, select_planned
from remit.orchestrator.planning.roles import find_role, list_roles
from remit.orchestrator.repository import gather_facts, list_tracked_files


@click.group()
def plan() -> None:
    """Run several agents at once: each intent is a task that writes only its own paths."""


@plan.command("check")
@click.argument("intent_ids", nargs=-1, metavar="[ID]...", shell_complete=complete_intents)
@click.option("--fix", is_flag=True, help="Write the patterns of companions into the scopes of these intents.")
@database_option
@command_options
def check(intent_ids: tuple[str, ...], fix: bool, database: str | None, repo: Path, as_json: bool) -> None:
    """Report findings against running these intents at once; by default every open intent.

    An intent includes its open descendants. Two tasks without a dependency between them have to be proved apart: a path
    in both scopes is named. Exit 1 for a finding that has to be mended first. No task is started. The forecast of time
    and cost rests on earlier plans of this repository.
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
    forecast = forecast_check(gate, made, database)
    lines = [*describe_plan(made), *(describe_forecast(forecast) if forecast else ())]
    emit(
        {**asdict(made), "forecast": write_forecast(forecast) if forecast else None},
        as_json,
        lines,
        FINDINGS if made.errors else 0,
    )


def forecast_check(gate: Gate, made: Plan, database: str | None) -> Forecast | None:
    """Return the forecast of a plan as `remit plan start` would start it; None for a plan that cannot start."""
    if not made.tasks or made.obstacles:
        return None
    settings, root = gate.rules.config.orchestrator, find_repository_root(gate.workspace)
    opened = OpenPlan("", name_repository(root), settings.target, limits=make_limits(settings, settings.workers))
    past = find_past(database, opened.repository)
    tasks = estimate_tasks(make_tasks(gate, opened, made, ()), past)
    place, roles = describe_repository(opened.repository, root, settings.target, settings), list_roles(settings)
    worker = describe_own_worker(settings.workers)
    if any(finding.code == "NO_AGENT" for finding in made.findings):
        worker = replace(worker, agents=("any agent",))
    return forecast_made(made, place, opened, tasks, make_roles(roles, ""), [worker], past)


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

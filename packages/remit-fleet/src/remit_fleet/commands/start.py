"""`remit plan start`: agents on several intents at once."""

import getpass
import os
import secrets
import shlex
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click
from msgspec.structs import replace

from remit.cli.completion import INTENT
from remit.cli.output import (
    FINDINGS,
    Failure,
    emit,
    governed_gate,
    json_option,
    repo_option,
    reports_failures,
    say,
    warn,
)
from remit.cli.person_only import require_confirmation, require_person
from remit.core.acts import Act
from remit.core.agents import ROWS
from remit.core.assignment import hash_scope
from remit.core.config import AgentRole, Config, OrchestratorSettings, as_tuple
from remit.core.intent import PRIORITIES, Intent
from remit.core.machine_paths import STATE_FOLDER
from remit.core.plurals import count_things
from remit.workspace.git.command import Git
from remit.workspace.git.repository import BRANCH_PREFIX
from remit.workspace.sandbox.jail import NO_JAIL, find_bubblewrap
from remit_fleet.board import FleetRepository, OpenPlan, PlanLimits, Role, SpendingBound, Task
from remit_fleet.commands.forecasting import describe_own_worker, estimate_tasks, find_past, forecast_made
from remit_fleet.commands.opening import database_option, find_agents, open_engine, pace_option
from remit_fleet.commands.plan_text import describe_plan
from remit_fleet.commands.worker import agent_command_option
from remit_fleet.fleet import find_repository_root, name_repository
from remit_fleet.forecast import describe_forecast, write_forecast
from remit_fleet.planning.plan import Plan, PlannedTask, make_plan, select_planned
from remit_fleet.planning.roles import find_role, list_roles
from remit_fleet.repository import count_commits_apart, gather_facts

if TYPE_CHECKING:
    from remit.gate.gate import Gate
    from remit_fleet.board import Board

LOG_PATH = f"{STATE_FOLDER}/worker.log"
MAX_LOG_BYTES = 4 << 20


@click.command()
@click.argument("ids", nargs=-1, metavar="[ID]...", type=INTENT)
@click.option("--workers", "slots", type=click.IntRange(1, 64), help="Agents at a time; else `[orchestrator] workers`.")
@click.option("--target", metavar="BRANCH", help="Where work lands; else `[orchestrator] target`.")
@click.option("--agent", "agents", multiple=True, metavar="NAME", help="Only these agents, the first one first.")
@click.option(
    "--rivals",
    metavar="NAME,…",
    help="Let each of these agents work on each intent; the best work lands.",
)
@click.option("--model", default="", help="The model of these agents.")
@click.option("--no-land", is_flag=True, help="Land nothing until `remit plan land`.")
@click.option("--max-usd", type=click.FloatRange(min=0, min_open=True), help="What the plan may cost.")
@click.option("--max-tokens", type=click.IntRange(min=1), help="Tokens that the plan may use.")
@click.option("--dry-run", is_flag=True, help="Only say what would run.")
@click.option("--yes", is_flag=True, help="Start without asking.")
@agent_command_option
@database_option
@pace_option
@json_option
@repo_option
@reports_failures
def start(
    ids: tuple[str, ...],
    slots: int | None,
    target: str | None,
    agents: tuple[str, ...],
    rivals: str | None,
    model: str,
    no_land: bool,
    max_usd: float | None,
    max_tokens: int | None,
    dry_run: bool,
    yes: bool,
    agent_commands: tuple[str, ...],
    database: str | None,
    pace: float,
    as_json: bool,
    repo: Path,
) -> None:
    """Start agents on the intents ID; by default on every open intent.

    Intents not proved apart run one after the other. Without `--database`, and while no worker is alive that has the
    agents, a worker is started in the background and ends when no work is left. An intent that was stuck or dropped in
    an earlier plan begins with its last attempt's work. Rivals begin one after the other from the same commit; landing
    verifies all, and takes a green one with the fewest changed lines; the others stay as branches.
    """
    require_person(Act.START_AGENTS)
    engine = open_engine(database, pace)
    gate = governed_gate(repo)
    settings = gate.rules.config.orchestrator
    root = find_repository_root(gate.workspace)
    slots, target = slots or settings.workers, target or settings.target
    repository = name_repository(root)
    board = engine.read_board()
    landed = find_landed_intents(board, repository, target)
    made = plan_intents(gate, ids, settings, has_own_agents=bool(agent_commands), landed=landed, target=target)
    limits = make_limits(settings, slots, max_usd, max_tokens, lands_by_hand=no_land)
    by, at = getpass.getuser(), time.time()
    opened = OpenPlan(name_plan(), repository, target, by=by, made_at=at, limits=limits)
    competing = read_rivals(rivals, agents)
    agents = competing or agents or tuple(text.partition("=")[0] for text in agent_commands)
    past = find_past(database, repository)
    tasks = estimate_tasks(make_tasks(gate, opened, made, competing[:1] or agents), past)
    tasks = [replace(task, rivals=competing[1:]) for task in tasks]
    place = describe_repository(repository, root, target, gate.rules.config)
    roles = make_roles(list_roles(settings), model)
    must_start = must_start_worker(board, repository, agents, agent_commands, database)
    own = [describe_own_worker(slots, agent_commands)]
    workers = [*board.workers.values(), *(own if must_start or not board.workers else [])]
    forecast = forecast_made(made, place, opened, tasks, roles, workers, past)
    answer = {"plan": opened.id, "tasks": made.tasks, "findings": made.findings, "forecast": write_forecast(forecast)}
    lines = [*describe_plan(made), f"up to {count_things(slots, 'agent')} at a time, landing on {target}"]
    lines += describe_forecast(forecast)
    if dry_run:
        emit({**answer, "is_started": False}, as_json, lines)
        return
    say("\n".join(lines), err=as_json)
    require_confirmation(yes, f"agents will work on {count_things(len(made.tasks), 'intent')}", "say --yes")
    move_merged_target(gate, target)
    base = find_base(gate, [task.intent_id for task in made.tasks])
    opened = replace(opened, base=base, forecast=forecast.sum_up())
    publish_plan(gate, opened, tasks)
    engine.add_repository(place)
    engine.open_plan(opened, tasks, roles)
    if must_start or (database is None and not engine.read_board().workers):
        start_worker(slots, agent_commands, pace)
    emit({**answer, "is_started": True}, as_json, f"plan {opened.id} is open: see `remit plan status --watch`")


def read_rivals(rivals: str | None, agents: Sequence[str]) -> tuple[str, ...]:
    """Return the agents that compete, the first one first; none without `rivals`. Raises Failure."""
    names = tuple(dict.fromkeys(name.strip() for name in (rivals or "").split(",") if name.strip()))
    if rivals is not None and (len(names) < 2 or agents):
        message = f"--rivals {rivals!r} names no two agents, or stands beside --agent"
        raise Failure("AGENTS", message, fix=f"remit plan start ID --rivals {','.join(list(ROWS)[:2])}")
    return names


def make_limits(
    settings: OrchestratorSettings,
    slots: int,
    usd: float | None = None,
    tokens: int | None = None,
    *,
    lands_by_hand: bool = False,
) -> PlanLimits:
    """Return the limits of a plan: those of the command line, else of the settings."""
    agents = {agent.name: SpendingBound(agent.max_usd, agent.max_tokens) for agent in settings.agents}
    return PlanLimits(
        slots,
        usd or settings.max_usd,
        tokens or settings.max_tokens,
        lands_by_hand=lands_by_hand,
        task=SpendingBound(settings.task_max_usd, settings.task_max_tokens),
        agents=agents,
    )


def move_merged_target(gate: "Gate", target: str) -> None:
    from remit.workspace.merging import RefCheckedOut, RefMoved, TreeStore

    ahead, behind = count_commits_apart(gate.workspace, target)
    if ahead or not behind or gate.rules.config.orchestrator.remote:
        return
    store, ref = TreeStore(gate.workspace), f"{BRANCH_PREFIX}{target}"
    tip, head = store.find_commit(ref), store.find_commit("HEAD")
    if tip is None or head is None or store.find_merge_base(tip, head) != tip:
        return
    try:
        store.swap_ref(ref, head, tip)
    except (RefCheckedOut, RefMoved) as error:
        warn(f"{target} lacks {count_things(behind, 'commit')} of HEAD, and agents begin without: {error}")
        return
    say(f"{target} moved forward by {count_things(behind, 'commit')} to HEAD, which holds all of it", err=True)


def find_base(gate: "Gate", names: Sequence[str]) -> str:
    """Return the commit that hosts begin a plan at; empty without a remote. Raises Failure if it lacks the intents."""
    if not gate.rules.config.orchestrator.remote:
        return ""
    from remit_fleet.remote import find_uncommitted_intents

    base = Git(gate.workspace.root).read_head() or ""
    if left := find_uncommitted_intents(gate, base, names):
        message = f"other hosts get the intents by git, and these are not committed: {', '.join(left)}"
        raise Failure("NOT_COMMITTED", message, fix="commit what is new below .orchestration/")
    return base


def publish_plan(gate: "Gate", opened: OpenPlan, tasks: Sequence[Task]) -> None:
    """Record the plan in git, and publish it to the hosts if there is a remote. Raises Failure."""
    from remit.workspace.merging import TreeStore
    from remit_fleet.plan_records import write_plan_record
    from remit_fleet.remote import SHARING_ERRORS, FleetRemote

    store, name = TreeStore(gate.workspace), gate.rules.config.orchestrator.remote
    if (commit := opened.base or store.find_commit("HEAD")) is None:
        return  # a plan needs a commit, and says so
    try:
        tag = write_plan_record(store, opened, tasks, commit, opened.made_at)
        if name:
            FleetRemote(gate, name).publish_plan(opened.id, tag)
    except SHARING_ERRORS as error:
        raise Failure("REMOTE", str(error), fix=f"see `git ls-remote {name}`") from error


def name_plan() -> str:
    return f"{time.strftime('%Y%m%d-%H%M%S')}-{secrets.token_hex(2)}"


def find_landed_intents(board: "Board", repository: str, target: str) -> frozenset[str]:
    """Return the intents landed on the target, because the work tree's intents file may lag behind."""
    return frozenset(
        task.intent
        for task in board.tasks.values()
        if task.repository == repository and task.state == "landed" and board.plans[task.plan].target == target
    )


def make_tasks(gate: "Gate", opened: OpenPlan, made: Plan, agents: tuple[str, ...]) -> list[Task]:
    intents = {intent.id: intent for intent in gate.intents.document.intents}
    return [make_task(opened.id, opened.repository, task, intents[task.intent_id], agents) for task in made.tasks]


def plan_intents(
    gate: "Gate",
    ids: tuple[str, ...],
    settings: OrchestratorSettings,
    *,
    has_own_agents: bool,
    landed: frozenset[str] = frozenset(),
    target: str = "",
) -> Plan:
    """Return the plan of these intents; intents in `landed` count as done. Raises Failure for a finding that prevents
    the start.
    """
    for name in ids:
        gate.intents.get(name)
    found = gate.intents.document
    statuses = (replace(intent, status="DONE") if intent.id in landed else intent for intent in found.intents)
    document = replace(found, intents=tuple(statuses))
    settings = replace(settings, target=target or settings.target)
    chosen = tuple(select_planned({intent.id: intent for intent in document.intents}, ids).values())
    facts = gather_facts(gate, chosen, settings, os.environ.get("PATH", os.defpath))
    made = make_plan(document, ids, find_role(settings, settings.first_role), settings, facts)
    if has_own_agents:
        made = replace(made, findings=tuple(finding for finding in made.findings if finding.code != "NO_AGENT"))
    if made.obstacles:
        say("\n".join(describe_plan(made)), err=True)
        first = made.obstacles[0]
        raise Failure(first.code, first.message, fix=first.fix or "see `remit plan check`", exit_code=FINDINGS)
    if not made.tasks:
        fix = "make one with `remit intent new NAME --scope GLOB`"
        raise Failure("NOTHING_TO_DO", "no intent is open", fix=fix)
    return made


def describe_repository(id: str, root: Path, target: str, config: Config) -> FleetRepository:
    settings, model = config.orchestrator, config.run.model or ""
    return FleetRepository(
        *(id, str(root), target),
        train=settings.train,
        attempts=settings.attempts,
        stall_s=settings.stall_s,
        model="" if model.startswith("scripted:") else model,
    )


def make_task(plan_id: str, repository: str, planned: PlannedTask, intent: Intent, agents: tuple[str, ...]) -> Task:
    scope = planned.write_set.scope
    return Task(
        plan_id,
        planned.intent_id,
        repository,
        rank=PRIORITIES.index(intent.priority),
        role=planned.role,
        agents=agents,
        needs=planned.needs,
        scope=scope,
        scope_sha256=hash_scope(scope),
    )


def make_roles(roles: Mapping[str, AgentRole], model: str) -> dict[str, Role]:
    """Return the roles as scheduling knows them."""
    return {
        name: Role(
            name,
            as_tuple(role.agent),
            model or role.model,
            max_usd=role.max_usd,
            max_seconds=role.max_minutes * 60,
            max_tokens=role.max_tokens,
            chain=role.chain,
        )
        for name, role in roles.items()
    }


def must_start_worker(
    board: "Board", repository: str, agents: Sequence[str], agent_commands: tuple[str, ...], database: str | None
) -> bool:
    """Return whether a worker has to be started here, because no living one offers these agents. Raises Failure for
    agents that nobody offers.
    """
    here = find_agents(agent_commands)
    own = {text.partition("=")[0] for text in agent_commands}
    workers = [one for one in board.workers.values() if one.has_repository(repository) and not one.draining]
    offered = {agent for one in workers for agent in one.agents}
    missing = [name for name in dict.fromkeys((*agents, *sorted(own))) if name.partition("@")[0] not in offered]
    for name in sorted(own & offered):
        warn(f"a worker that is alive offers {name!r} already, by a command of its own: see `remit worker list`")
    words = ["remit", "worker", *(f"--agent-command={text}" for text in agent_commands)]
    if database is not None and not workers:
        if agent_commands:
            warn(f"no worker is alive, and none is started for a --database: start one with `{shlex.join(words)}`")
        return False
    unknown = missing if database is not None else [name for name in missing if name not in here]
    if unknown:
        known = ", ".join(sorted(offered if database is not None else {*offered, *here})) or "none"
        fix = f"start one on this database: {shlex.join(words)}" if database is not None else "name its --agent-command"
        raise Failure("UNKNOWN_WORKER", f"no worker offers {unknown[0]!r}; known: {known}", target=unknown[0], fix=fix)
    return bool(missing) or not workers


def start_worker(slots: int, agent_commands: tuple[str, ...], pace: float) -> None:
    """Start a worker in the background that ends when no work is left."""
    log = Path.home() / LOG_PATH
    log.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    words = [sys.executable, "-c", "from remit.cli import main; main()", "worker", "--until-idle", f"--slots={slots}"]
    words += [f"--pace={pace}", *(f"--agent-command={text}" for text in agent_commands)]
    is_long = log.exists() and log.stat().st_size > MAX_LOG_BYTES
    with log.open("wb" if is_long else "ab") as output:
        started = subprocess.Popen(
            words, stdin=subprocess.DEVNULL, stdout=output, stderr=output, start_new_session=True, env=os.environ
        )
    if find_bubblewrap() is None:
        warn(NO_JAIL)
    say(f"worker {started.pid} runs in the background; its log is {log}", err=True)

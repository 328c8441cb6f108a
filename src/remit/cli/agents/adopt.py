"""`remit adopt`: let the rules hold that a clone carries in its commits, or say that they shall not."""

import os
import sys
from pathlib import Path

import click

from remit.cli.agents import init
from remit.cli.output import USAGE, Failure, command_options, emit, say
from remit.cli.person_only import require_person
from remit.core.acts import Act
from remit.core.agents import ROWS
from remit.gate.people.adoption import NoBaseCommit, decline_rules, find_base_commit, find_remote
from remit.servers.environment import read_environment
from remit.wiring.agents import TRUST_OPTIONS, TRUSTING_AGENTS
from remit.wiring.repository_setup import RepositoryStart

NO_RULES_FIX = "`remit init` begins to govern a repository without rules"
DECLINED_NOTICE = "the rules of this repository do not hold in this clone; `remit adopt` ends that"


@click.command()
@click.option("--yes", "-y", is_flag=True, help="Do it without asking.")
@click.option("--always", is_flag=True, help="Adopt further clones of this remote too, at their first call.")
@click.option("--never", is_flag=True, help="The rules shall not hold in this clone; say so no more.")
@click.option("--ci", is_flag=True, help="For a runner: ask nothing, and hold to the rules of the base commit.")
@click.option(
    "--agent", "agents", multiple=True, type=click.Choice(list(ROWS)), help="Wire only this agent; repeatable."
)
@click.option("--no-agents", is_flag=True, help="Wire no agent.")
@click.option(*TRUST_OPTIONS, "trust", default=None, help="Tell the agent to trust these hooks.")
@command_options
def adopt(
    yes: bool,
    always: bool,
    never: bool,
    ci: bool,
    agents: tuple[str, ...],
    no_agents: bool,
    trust: bool | None,
    repo: Path,
    as_json: bool,
) -> None:
    """Let the rules hold here that this repository carries in its commits, and wire the agents that are here.

    As `remit init`, but nothing is written into the tree. The commands that the repository brings do not run before
    `remit trust`.
    """
    if never and (always or ci or yes):
        raise Failure("USAGE", "--never stands alone", exit_code=USAGE)
    environment = read_environment()
    home, workspace = environment.home, init.find_root_to_govern(repo, environment.home)
    require_person(Act.DECLINE if never else Act.ADOPT)
    asks_person = sys.stdin.isatty() and not (yes or ci or as_json)
    trusting = set(TRUSTING_AGENTS) if trust or (trust is None and (asks_person or ci)) else set[str]()
    try:
        base = find_base_commit(workspace, os.environ) if ci else ""
    except NoBaseCommit as error:
        raise Failure("NO_BASE_COMMIT", str(error), fix="check out with the whole history (fetch-depth: 0)") from None
    start = RepositoryStart(govern=not workspace.is_governed, mode=None, starter=False, adopts=True, base=base)
    setup = init.plan_setup(workspace, home, None if no_agents else agents, start, trusting=trusting)
    if setup.carried is None and not workspace.is_governed:
        message = f"{str(workspace.root)!r} carries no rules in the commit that is checked out"
        raise Failure("NOTHING_TO_ADOPT", message, fix=NO_RULES_FIX)
    if never and workspace.is_governed:
        fix = "`remit uninstall --this-repository` ends that"
        raise Failure("ALREADY_GOVERNED", "the rules hold here already", fix=fix)
    if never:
        decline_rules(home, workspace)
        emit({"declined": True}, as_json, DECLINED_NOTICE)
        return
    if always and not find_remote(workspace):
        raise Failure("NO_REMOTE", "--always needs a remote `origin`, and there is none", fix="git remote add origin …")
    has_changes = bool(setup.changed_files or start.govern or init.needs_client(setup))
    if has_changes and not (yes or ci):
        say(init.plan_text(setup, False), err=as_json)
    if has_changes and asks_person:
        init.confirm(setup)
    elif has_changes and not (yes or ci):
        raise Failure("NOT_CONFIRMED", "nothing was changed: nobody is there to ask", fix="add --yes", exit_code=USAGE)
    always = always or (asks_person and init.ask_about_clones(setup))
    init.finish_setup(setup, environment.temporary, always=always)
    emit(
        init.setup_document(setup),
        as_json,
        init.done_text(setup, False) if has_changes else describe_unchanged(setup, always),
    )


def describe_unchanged(setup: init.Setup, always: bool) -> str:
    return f"{setup.headline} Further clones are adopted at once." if always else f"nothing to do: {setup.headline}"

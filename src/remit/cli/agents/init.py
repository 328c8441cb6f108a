"""`remit init`: govern this repository, and wire the agents found on this machine."""

import os
import sys
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import Literal

import click
from msgspec import Struct
from msgspec.structs import replace

from remit.adapters import ROWS
from remit.cli.agents.wiring import find_root_to_govern, reports_wiring
from remit.cli.output import USAGE, Failure, command_options, emit
from remit.cli.person_only import require_person
from remit.cli.terminal.colour import DIFF_COLOURS
from remit.core.config import ShareSettings
from remit.core.decision import Mode
from remit.core.timestamps import format_utc
from remit.gate.rules.load import load_rules
from remit.gate.rules.trust import describe_untrusted
from remit.servers.environment import read_environment
from remit.wiring.agents import (
    TRUST_FUNCTIONS,
    DetectedAgent,
    SettingsPlace,
    build_hook_settings,
    find_agents,
    find_moved_folders,
    list_granted_rights,
)
from remit.wiring.doctor_checks import describe_containment_warning
from remit.wiring.hook_client import (
    client_words,
    hash_client,
    install_client,
    is_client_altered,
    is_client_current,
    server_command,
)
from remit.wiring.manifest import Manifest, read_manifest, write_manifest
from remit.wiring.plan import FilePlan, describe_unread, display_path, find_unread_agents, plan_settings, write_plans
from remit.wiring.repository_setup import RepositoryStart, is_private, plan_start, start_governing
from remit.workspace.git.command import GitError
from remit.workspace.git.machine_identity import repository_id
from remit.workspace.place.trusted_commands import read_trust
from remit.workspace.place.workspace import Workspace

NEXT_STEPS = """\

Next:
  1. Say what an agent may do:        remit intent new "…" --scope 'src/**'
  2. Work as usual, then look:        remit status
  3. {then}
Undo any time: remit uninstall"""

ENFORCE_STEP = "When you have seen what it does: remit mode enforce"
OBSERVE_STEP = "It enforces already. To only watch: remit mode observe"

MODE_NOTES: dict[Mode, str] = {
    "observe": ": calls are recorded, and none is refused",
    "warn": ": calls pass, and the agent hears what enforce would refuse",
    "enforce": ": changes need an intent, and stay in its scope",
}
NO_AGENT_NOTE = (
    "No agent is wired: nobody asks Remit before a call. `remit init` wires the agents that it finds on PATH or by "
    "their folder, `remit init --agent NAME` one by its name."
)
TRACKED_LOG_NOTE = ", in .orchestration/log/: each commit of it keeps a piece for good"


class Setup(Struct, frozen=True):
    """The planned changes of `init`."""

    workspace: Workspace
    home: Path
    agents: tuple[DetectedAgent, ...]
    files: tuple[FilePlan, ...]
    start: RepositoryStart
    manifest: Manifest

    @property
    def changed_files(self) -> list[FilePlan]:
        return [file for file in self.files if file.has_changes]

    @property
    def has_changes(self) -> bool:
        needs_client = not is_client_current(self.home) or is_client_altered(self.home, self.manifest.client)
        return bool(self.changed_files) or self.start.has_changes or (bool(self.agents) and needs_client)


class InitOptions(Struct, frozen=True):
    """The options of the command line."""

    mode: Mode | None
    agents: tuple[str, ...]
    no_agents: bool
    project: bool
    trust: bool | None
    share: ShareSettings | None
    private: bool


@click.command()
@click.option("--mode", type=click.Choice(list(MODE_NOTES)), default=None, help="Default: observe.")
@click.option("--yes", "-y", is_flag=True, help="Do it without asking.")
@click.option("--diff", is_flag=True, help="Show each change of a settings file.")
@click.option(
    "--agent", "agents", multiple=True, type=click.Choice(list(ROWS)), help="Wire only this agent; repeatable."
)
@click.option("--no-agents", is_flag=True, help="Wire no agent: only govern the repository.")
@click.option("--project", is_flag=True, help="Wire the agents in this repository only, not for all of yours.")
@click.option("--trust-codex/--no-trust-codex", "trust", default=None, help="Tell Codex to trust these hooks.")
@click.option("--private", is_flag=True, help="Keep .orchestration/ out of git, by .git/info/exclude.")
@click.option("--share-notes", is_flag=True, help="Share attribution as git notes.")
@click.option(
    "--share-log",
    type=click.Choice(["off", "ref", "tree"]),
    default=None,
    help="Share the log itself: as a git ref, or as a tracked file.",
)
@command_options
@reports_wiring
def init(
    mode: Mode | None,
    yes: bool,
    diff: bool,
    agents: tuple[str, ...],
    no_agents: bool,
    project: bool,
    trust: bool | None,
    private: bool,
    share_notes: bool,
    share_log: Literal["off", "ref", "tree"] | None,
    repo: Path,
    as_json: bool,
) -> None:
    """Start governing this repository, and wire the agents that are here. Shows what would change, and asks."""
    require_person("`remit init`")
    share = ShareSettings(share_notes, share_log or "off") if share_notes or share_log else None
    asks_person = sys.stdin.isatty() and not yes and not as_json
    if trust is None and asks_person:
        trust = True  # at a terminal the single question covers Codex's trust too, as the plan above it states
    options = InitOptions(mode, agents, no_agents, project, trust, share, private)
    environment = read_environment()
    home = environment.home
    setup = plan_setup(repo, home, options)
    if not setup.has_changes:
        emit(setup_document(setup), as_json, "\n".join([f"nothing to do: {headline(setup)}", *unread_lines(setup)]))
        return
    if not yes:
        click.echo(plan_text(setup, diff), err=as_json)
    if asks_person and confirm(setup):
        setup = plan_setup(repo, home, replace(options, private=True))
    if not asks_person and not yes:
        raise Failure("NOT_CONFIRMED", "nothing was changed: nobody is there to ask", fix="add --yes", exit_code=USAGE)
    perform_setup(setup)
    if load_rules(setup.workspace).mode == "enforce":
        warning = describe_containment_warning(home, environment.temporary)
        if warning:
            click.echo(f"warning: {warning}", err=True)
    emit(setup_document(setup), as_json, done_text(setup, diff and yes))


# --- plan, then perform ------------------------------------------------------------------------------------


def plan_setup(repo: Path, home: Path, options: InitOptions) -> Setup:
    """Return the planned changes; write no file."""
    workspace = find_root_to_govern(repo, home)
    manifest = read_manifest(home)
    moved = find_moved_folders(os.environ, home)
    path = os.environ.get("PATH", os.defpath)
    agents = () if options.no_agents else find_agents(home, path, options.agents, moved)
    place = SettingsPlace(home, workspace.root if options.project else None, moved)
    trusting = set(TRUST_FUNCTIONS) if options.trust else set[str]()
    files = plan_settings(agents, place, client_words(home), server_command(), manifest, trusting) if agents else []
    return Setup(
        workspace=workspace,
        home=home,
        agents=tuple(agents),
        files=tuple(files),
        start=plan_start(workspace, options.mode, options.share, options.private),
        manifest=replace(manifest, moved={**manifest.moved, **moved}) if agents else manifest,
    )


def perform_setup(setup: Setup) -> None:
    """Make the changes: the client first, so that every hook finds its program."""
    manifest = setup.manifest.with_repository(setup.workspace.root)
    if setup.agents:
        install_client(setup.home, manifest.client)
        manifest = replace(manifest, client=hash_client(setup.home))
    now = format_utc(datetime.now(UTC), "seconds")
    manifest = write_plans(setup.files, setup.home, manifest, now, version("remit"))
    write_manifest(setup.home, manifest)
    start_governing(setup.workspace, setup.start)


def confirm(setup: Setup) -> bool:
    """Ask whether to proceed; return whether `.orchestration/` is to stay out of git. Raises Failure on a no."""
    hidden = setup.start.private or not setup.start.govern or setup.workspace.common_dir is None
    private = "" if hidden else "; p = yes, and keep .orchestration/ out of git"
    while True:
        question = f"Apply? [Y/n; d = show the changes{private}]"
        answer = click.prompt(question, default="y", show_default=False).strip().lower()
        if answer == "d":
            click.echo(coloured_diffs(setup) or "no settings file changes")
        elif answer in ("y", "yes") or (answer == "p" and private):
            return answer == "p"
        elif answer in ("n", "no"):
            raise Failure("NOT_CONFIRMED", "nothing was changed", exit_code=USAGE)


# --- output ------------------------------------------------------------------------------------------------


def unwired_line(setup: Setup) -> str:
    """Return the line for a run that wired no agent; agents wired earlier for the user still ask Remit."""
    place = SettingsPlace(setup.home, moved_folders=setup.manifest.moved)
    wired = [row.title for row in ROWS.values() if setup.manifest.find_file(place.hooks_file(row))]
    return f"No agent was wired now; wired for you already: {', '.join(wired)}." if wired else NO_AGENT_NOTE


def headline(setup: Setup) -> str:
    return f"{setup.workspace.root} is governed; mode: {load_rules(setup.workspace).mode}."


def file_line(file: FilePlan, home: Path) -> str:
    fresh = "new file" if file.before is None else "changed"
    return f"  {display_path(file.path, home):<32} {fresh}: {file.parts_text}"


def repository_lines(setup: Setup) -> list[str]:
    start, root = setup.start, setup.workspace.root
    lines = [f"  {root}/.orchestration/  what agents may do here, and Remit's state"] if start.govern else []
    lines += ["  .orchestration/active_intents.yaml  with an example to fill in"] if start.starter else []
    lines += ["  .git/info/exclude  /.orchestration/: git does not track it"] if start.private else []
    lines += [f"  mode: {start.mode}{MODE_NOTES[start.mode]}"] if start.mode else kept_mode_lines(setup)
    share = start.share
    tracked = TRACKED_LOG_NOTE if share and share.log == "tree" else ""
    return lines + ([f"  share: notes {'on' if share.notes else 'off'}, log {share.log}{tracked}"] if share else [])


def right_lines(setup: Setup) -> list[str]:
    """Return the rights that agents gain, with the setting that grants each."""
    trusted = {agent for file in setup.changed_files if "trust" in file.parts for agent in file.agents}
    changed = {agent for file in setup.changed_files for agent in file.agents}
    rows = [agent.row for agent in setup.agents if agent.row.agent in changed]
    rights = [(row.title, *right) for row in rows for right in list_granted_rights(row, row.agent in trusted)]
    lines = [f"  {title:<14} {may:<24} ({setting})" for title, may, setting in rights]
    return ["", heading("These agents may then, without asking you"), *lines] if lines else []


def kept_mode_lines(setup: Setup) -> list[str]:
    """Return a line on the mode that the configuration kept from an earlier time."""
    if not setup.start.govern or setup.start.mode:
        return []
    mode = load_rules(setup.workspace).mode
    return [f"  mode: {mode}, as .orchestration/ says from before; another with --mode, or `remit mode` later"]


def plan_text(setup: Setup, with_diff: bool) -> str:
    agents = [
        f"  {agent.row.agent:<14} {agent.binary or f'its folder ~/{agent.row.config_folder}'}" for agent in setup.agents
    ]
    lines = [
        *([heading("Found"), *agents] if agents else [heading("No agent to wire")]),
        "",
        heading("This will change"),
        *(file_line(file, setup.home) for file in setup.changed_files),
        *repository_lines(setup),
        *right_lines(setup),
        *untrusted_lines(setup),
        *unread_lines(setup),
        *brought_lines(setup),
    ]
    return "\n".join([*lines, *(["", coloured_diffs(setup)] if with_diff else [])])


def heading(text: str) -> str:
    return click.style(text, bold=True)


def coloured_diffs(setup: Setup) -> str:
    lines = "".join(file.diff(setup.home) for file in setup.changed_files).splitlines()
    return "\n".join(click.style(line, fg=DIFF_COLOURS.get(line[:1])) for line in lines)


def untrusted_lines(setup: Setup) -> list[str]:
    trusted = {agent for file in setup.files if "trust" in file.parts for agent in file.agents}
    rows = [agent.row for agent in setup.agents if agent.row.agent in TRUST_FUNCTIONS]
    titles = [row.title for row in rows if row.agent not in trusted]
    return [f"  {title} runs these hooks once you trust them: --trust-codex, or /hooks in it" for title in titles]


def brought_lines(setup: Setup) -> list[str]:
    """Return a line on commands that the repository brings and that need a person's trust."""
    rules = load_rules(setup.workspace)
    if not rules.repository_commands:
        return []
    try:
        known = read_trust(setup.home, repository_id(setup.workspace))
    except (GitError, OSError):
        known = None
    untrusted = tuple(item for item in rules.repository_commands if known is None or item.digest not in known.digests)
    return [f"  {describe_untrusted(untrusted)}: see `remit trust`"] if untrusted else []


def unread_lines(setup: Setup) -> list[str]:
    return list(filter(None, (describe_unread(file, setup.home) for file in setup.files)))


def tracking_lines(setup: Setup) -> list[str]:
    if not setup.start.govern or setup.workspace.common_dir is None:
        return []
    if is_private(setup.workspace):
        return ["  .orchestration/ stays out of git: the rules hold on this machine only"]
    return ["  .orchestration/ is new: commit it to share the rules, or keep it out of git: remit init --private"]


def done_text(setup: Setup, with_diff: bool) -> str:
    """Return the report of the changes, and the next steps."""
    lines = [
        headline(setup),
        *kept_mode_lines(setup),
        *tracking_lines(setup),
        *(file_line(file, setup.home) for file in setup.changed_files),
        *untrusted_lines(setup),
        *unread_lines(setup),
        *brought_lines(setup),
        *([] if setup.agents else [unwired_line(setup)]),
    ]
    if with_diff:
        lines += ["", "".join(file.diff(setup.home) for file in setup.changed_files)]
    enforces = load_rules(setup.workspace).mode == "enforce"
    return "\n".join([*lines, NEXT_STEPS.format(then=OBSERVE_STEP if enforces else ENFORCE_STEP)])


def setup_document(setup: Setup) -> dict[str, object]:
    """Return the setup as data. `settings` holds Remit's entries in each agent's hook file."""
    words = client_words(setup.home)
    return {
        "root": str(setup.workspace.root),
        "mode": load_rules(setup.workspace).mode,
        "agents": [agent.row.agent for agent in setup.agents],
        "files": [
            {"path": str(file.path), "created": file.before is None, "parts": file.parts}
            for file in setup.changed_files
        ],
        "unread": [
            {"path": str(file.path), "agent": title, "because": reason}
            for file in setup.files
            for title, reason in find_unread_agents(file)
        ],
        "settings": {agent.row.agent: build_hook_settings(agent.row, words) for agent in setup.agents},
    }

"""`remit init`: govern this repository, and wire the agents that are here."""

import os
import sys
from collections.abc import Sequence
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import Literal

import click
from msgspec import Struct
from msgspec.structs import replace

from remit.adapters import ROWS
from remit.cli.agents.wiring import reports_wiring, root_to_govern
from remit.cli.colour import DIFF_COLOURS
from remit.cli.output import USAGE, Failure, emit, json_option, repo_option, reports_failures
from remit.cli.person_only import require_person
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
from remit.workspace.git.identity import repository_id
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


MODES: tuple[Mode, ...] = ("observe", "warn", "enforce")


class Setup(Struct, frozen=True):
    """Everything that `init` would do."""

    workspace: Workspace
    home: Path
    agents: tuple[DetectedAgent, ...]
    files: tuple[FilePlan, ...]
    start: RepositoryStart
    manifest: Manifest

    @property
    def changed_files(self) -> list[FilePlan]:
        """The settings files that would change."""
        return [file for file in self.files if file.has_changes]

    @property
    def has_changes(self) -> bool:
        """Whether there is anything to do."""
        noted = self.manifest.client
        fresh_client = bool(self.agents) and (not is_client_current(self.home) or is_client_altered(self.home, noted))
        return bool(self.changed_files) or self.start.has_changes or fresh_client


class InitOptions(Struct, frozen=True):
    """What the command line says."""

    mode: Mode | None
    agents: tuple[str, ...]
    no_agents: bool
    project: bool
    trust: bool | None
    share: ShareSettings | None
    private: bool


@click.command()
@click.option("--mode", type=click.Choice(MODES), default=None, help="Default: observe.")
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
@repo_option
@json_option
@reports_failures
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
    share_log: str | None,
    repo: Path,
    as_json: bool,
) -> None:
    """Start governing this repository, and wire the agents that are here. Shows what would change, and asks."""
    require_person("`remit init`")
    share = ShareSettings(share_notes, parse_log_share(share_log)) if share_notes or share_log else None
    asking = sys.stdin.isatty() and not yes and not as_json
    # At a terminal the one question covers Codex's trust, too: the plan above it says so.
    asked = InitOptions(mode, agents, no_agents, project, True if trust is None and asking else trust, share, private)
    around = read_environment()
    home = around.home
    setup = plan_setup(repo, home, asked)
    if not setup.has_changes:
        emit(setup_document(setup), as_json, "\n".join([f"nothing to do: {headline(setup)}", *unread_lines(setup)]))
        return
    if not yes:
        click.echo(plan_text(setup, diff), err=as_json)
    if asking and confirm(setup):
        setup = plan_setup(repo, home, replace(asked, private=True))
    if not asking and not yes:
        raise Failure("NOT_CONFIRMED", "nothing was changed: nobody is there to ask", fix="add --yes", exit_code=USAGE)
    perform_setup(setup)
    if load_rules(setup.workspace).mode == "enforce" and (
        warning := describe_containment_warning(home, around.temporary)
    ):
        click.echo(f"warning: {warning}", err=True)
    emit(setup_document(setup), as_json, done_text(setup, diff and yes))


def parse_log_share(word: str | None) -> Literal["off", "ref", "tree"]:
    """The word as the configuration has it."""
    return "ref" if word == "ref" else "tree" if word == "tree" else "off"


# --- gather, then perform ----------------------------------------------------------------------------------


def plan_setup(repo: Path, home: Path, asked: InitOptions) -> Setup:
    """What would be done. Nothing is written."""
    workspace = root_to_govern(repo, home)
    manifest = read_manifest(home)
    moved = find_moved_folders(os.environ, home)
    path = os.environ.get("PATH", os.defpath)
    agents = () if asked.no_agents else find_agents(home, path, asked.agents, moved)
    place = SettingsPlace(home, workspace.root if asked.project else None, moved)
    trusting = set(TRUST_FUNCTIONS) if asked.trust else set[str]()
    files = plan_settings(agents, place, client_words(home), server_command(), manifest, trusting) if agents else []
    return Setup(
        workspace=workspace,
        home=home,
        agents=tuple(agents),
        files=tuple(files),
        start=plan_start(workspace, asked.mode, asked.share, asked.private),
        manifest=replace(manifest, moved={**manifest.moved, **moved}) if agents else manifest,
    )


def perform_setup(setup: Setup) -> None:
    """Make the changes: the client first, so that no hook ever names one that is not there."""
    manifest = setup.manifest.with_repository(setup.workspace.root)
    if setup.agents:
        install_client(setup.home, manifest.client)
        manifest = replace(manifest, client=hash_client(setup.home))
    now = format_utc(datetime.now(UTC), "seconds")
    manifest = write_plans(setup.files, setup.home, manifest, now, version("remit"))
    write_manifest(setup.home, manifest)
    start_governing(setup.workspace, setup.start)


def confirm(setup: Setup) -> bool:
    """Ask whether to go on, and return whether `.orchestration/` is to stay out of git. Raises Failure on a no."""
    hidden = setup.start.private or not setup.start.govern or setup.workspace.common_dir is None
    private = "" if hidden else "; p = yes, and keep .orchestration/ out of git"
    while True:
        asked = f"Apply? [Y/n; d = show the changes{private}]"
        answer = click.prompt(asked, default="y", show_default=False).strip().lower()
        if answer == "d":
            click.echo(coloured_diffs(setup) or "no settings file changes")
        elif answer in ("y", "yes") or (answer == "p" and private):
            return answer == "p"
        elif answer in ("n", "no"):
            raise Failure("NOT_CONFIRMED", "nothing was changed", exit_code=USAGE)


# --- words -------------------------------------------------------------------------------------------------


NO_AGENT_NOTE = (
    "No agent is wired: nobody asks Remit before a call. `remit init` wires the agents that it finds on PATH or by "
    "their folder, `remit init --agent NAME` one by its name."
)


def unwired_line(setup: Setup) -> str:
    """What stands about agents where this run wired none: those that an earlier one wired for the user go on to ask."""
    place = SettingsPlace(setup.home, moved_folders=setup.manifest.moved)
    wired = [row.title for row in ROWS.values() if setup.manifest.find_file(place.hooks_file(row))]
    return f"No agent was wired now; wired for you already: {', '.join(wired)}." if wired else NO_AGENT_NOTE


def headline(setup: Setup) -> str:
    """The repository and its mode, as they are now."""
    return f"{setup.workspace.root} is governed; mode: {load_rules(setup.workspace).mode}."


def agent_line(agent: DetectedAgent) -> str:
    """One agent, and why it counts as here."""
    return f"  {agent.row.agent:<14} {agent.binary or f'its folder ~/{agent.row.config_folder}'}"


def file_line(file: FilePlan, home: Path) -> str:
    """One settings file, and what comes in."""
    fresh = "new file" if file.before is None else "changed"
    return f"  {display_path(file.path, home):<32} {fresh}: {file.parts_text}"


TRACKED_LOG_NOTE = ", in .orchestration/log/: each commit of it keeps a piece for good"


def repository_lines(setup: Setup) -> list[str]:
    """What happens in the repository."""
    wanted, root = setup.start, setup.workspace.root
    lines = [f"  {root}/.orchestration/  what agents may do here, and Remit's state"] if wanted.govern else []
    lines += ["  .orchestration/active_intents.yaml  with an example to fill in"] if wanted.starter else []
    lines += ["  .git/info/exclude  /.orchestration/: git does not track it"] if wanted.private else []
    lines += [f"  mode: {wanted.mode}{MODE_NOTES[wanted.mode]}"] if wanted.mode else kept_mode_lines(setup)
    share = wanted.share
    tracked = TRACKED_LOG_NOTE if share and share.log == "tree" else ""
    return lines + ([f"  share: notes {'on' if share.notes else 'off'}, log {share.log}{tracked}"] if share else [])


MODE_NOTES: dict[Mode, str] = {
    "observe": ": calls are recorded, and none is refused",
    "warn": ": calls pass, and the agent hears what enforce would refuse",
    "enforce": ": changes need an intent, and stay in its scope",
}


def right_lines(setup: Setup) -> list[str]:
    """The rights that agents get by this, with the setting that gives each."""
    trusted = {agent for file in setup.changed_files if "trust" in file.parts for agent in file.agents}
    changed = {agent for file in setup.changed_files for agent in file.agents}
    rows = [agent.row for agent in setup.agents if agent.row.agent in changed]
    rights = [(row.title, *right) for row in rows for right in list_granted_rights(row, row.agent in trusted)]
    lines = [f"  {title:<14} {may:<24} ({setting})" for title, may, setting in rights]
    return ["", heading("These agents may then, without asking you"), *lines] if lines else []


def kept_mode_lines(setup: Setup) -> list[str]:
    """A word where a repository is governed again, in the mode that its configuration kept."""
    if not setup.start.govern or setup.start.mode:
        return []
    mode = load_rules(setup.workspace).mode
    return [f"  mode: {mode}, as .orchestration/ says from before; another with --mode, or `remit mode` later"]


def plan_text(setup: Setup, with_diff: bool) -> str:
    """The whole plan for people."""
    found = [heading("Found"), *map(agent_line, setup.agents)]
    parts = found if setup.agents else [heading("No agent to wire")]
    parts += ["", heading("This will change"), *(file_line(file, setup.home) for file in setup.changed_files)]
    parts += repository_lines(setup)
    parts += right_lines(setup)
    parts += [*untrusted_lines(setup), *unread_lines(setup), *brought_lines(setup)]
    return "\n".join([*parts, *(["", coloured_diffs(setup)] if with_diff else [])])


def heading(text: str) -> str:
    """Return the heading of a part of the plan."""
    return click.style(text, bold=True)


def coloured_diffs(setup: Setup) -> str:
    """Return the changes of the settings files in git's colours."""
    lines = unified_diffs(setup.changed_files, setup.home).splitlines()
    return "\n".join(click.style(line, fg=DIFF_COLOURS.get(line[:1])) for line in lines)


def untrusted_lines(setup: Setup) -> list[str]:
    """A word about agents that will not run our hooks yet."""
    trusted = {agent for file in setup.files if "trust" in file.parts for agent in file.agents}
    waiting = [a.row.title for a in setup.agents if a.row.agent in TRUST_FUNCTIONS and a.row.agent not in trusted]
    return [f"  {name} runs these hooks once you trust them: --trust-codex, or /hooks in it" for name in waiting]


def brought_lines(setup: Setup) -> list[str]:
    """Return a line on what the repository brings that has no effect before a person trusts it."""
    rules = load_rules(setup.workspace)
    if not rules.repository_commands:
        return []
    try:
        known = read_trust(setup.home, repository_id(setup.workspace))
    except (GitError, OSError):
        known = None
    found = tuple(one for one in rules.repository_commands if known is None or one.digest not in known.digests)
    return [f"  {describe_untrusted(found)}: see `remit trust`"] if found else []


def unread_lines(setup: Setup) -> list[str]:
    """A word about agents that will never run our hooks, as their settings are written."""
    return list(filter(None, (describe_unread(file, setup.home) for file in setup.files)))


def unified_diffs(files: Sequence[FilePlan], home: Path) -> str:
    """The changes of these files, as unified diffs."""
    return "".join(file.diff(home) for file in files)


def tracking_lines(setup: Setup) -> list[str]:
    """A line on whether git tracks the new `.orchestration/`."""
    if not setup.start.govern or setup.workspace.common_dir is None:
        return []
    if is_private(setup.workspace):
        return ["  .orchestration/ stays out of git: the rules hold on this machine only"]
    return ["  .orchestration/ is new: commit it to share the rules, or keep it out of git: remit init --private"]


def done_text(setup: Setup, with_diff: bool) -> str:
    """What was done, and what comes next."""
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
        lines += ["", unified_diffs(setup.changed_files, setup.home)]
    enforces = load_rules(setup.workspace).mode == "enforce"
    return "\n".join([*lines, NEXT_STEPS.format(then=OBSERVE_STEP if enforces else ENFORCE_STEP)])


def setup_document(setup: Setup) -> dict[str, object]:
    """The same as data. `settings` is what stands in each agent's file of hooks, as ours."""
    words = client_words(setup.home)
    blind = [
        {"path": str(f.path), "agent": title, "because": why}
        for f in setup.files
        for title, why in find_unread_agents(f)
    ]
    return {
        "root": str(setup.workspace.root),
        "mode": load_rules(setup.workspace).mode,
        "agents": [agent.row.agent for agent in setup.agents],
        "files": [{"path": str(f.path), "created": f.before is None, "parts": f.parts} for f in setup.changed_files],
        "unread": blind,
        "settings": {agent.row.agent: build_hook_settings(agent.row, words) for agent in setup.agents},
    }

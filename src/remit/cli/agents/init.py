"""`remit init`: govern this repository, and wire the agents found on this machine."""

import os
import shlex
import sys
from datetime import UTC, datetime
from functools import partial
from importlib.metadata import version
from pathlib import Path
from typing import Literal

import click
from msgspec import Struct
from msgspec.structs import replace

from remit.adapters import settings as hook_settings
from remit.cli.output import USAGE, Failure, command_options, emit, say, warn
from remit.cli.person_only import require_person
from remit.cli.screen import DIFF_COLOURS
from remit.core.acts import Act
from remit.core.agents import ROWS
from remit.core.config import ShareSettings
from remit.core.decision import Mode
from remit.core.record import format_utc
from remit.core.untrusted_input import sanitise_line
from remit.gate.facts.runtime_data import find_proposals, format_patterns, name_data
from remit.gate.gate import Gate
from remit.gate.governing.rules import load_rules
from remit.gate.intents.owned_files import describe_nested_rules
from remit.gate.people import adoption
from remit.gate.people.trust import describe_untrusted
from remit.servers.daemon import start_daemon
from remit.servers.daemon_client import START_TIMEOUT_S, wait_for_daemon
from remit.servers.environment import read_environment
from remit.servers.tool_offer import find_offer, put_offer
from remit.wiring import hook_client, wire
from remit.wiring.agents import (
    TRUST_OPTIONS,
    TRUSTING_AGENTS,
    DetectedAgent,
    SettingsPlace,
    find_agents,
    find_moved_folders,
    list_granted_rights,
)
from remit.wiring.doctor_checks import describe_containment_warning
from remit.wiring.hook_switches import find_hook_switches, list_wired_agents
from remit.wiring.manifest import Manifest, read_manifest, write_manifest
from remit.wiring.repository_setup import RepositoryStart, is_private, plan_start, start_governing
from remit.workspace.git.command import GitError
from remit.workspace.git.repository import repository_id
from remit.workspace.place.config import ConfigError, read_trust
from remit.workspace.place.workspace import (
    ORCHESTRATION_FOLDER,
    Workspace,
    find_git_root,
    locate_workspace,
    register_repository,
    workspace_at,
)

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
    agents: list[DetectedAgent]
    files: list[wire.FilePlan]
    start: RepositoryStart
    manifest: Manifest
    carried: adoption.CarriedRules | None = None
    """Rules in the commit that is checked out, before this setup in force nowhere in the clone."""

    @property
    def changed_files(self) -> list[wire.FilePlan]:
        return [file for file in self.files if file.has_changes]

    @property
    def mode(self) -> Mode:
        is_planned = self.carried is not None and not self.workspace.is_governed
        return self.carried.mode if self.carried is not None and is_planned else load_rules(self.workspace).mode

    @property
    def headline(self) -> str:
        return f"{self.workspace.root} is governed; mode: {self.mode}."


@click.command()
@click.option("--mode", type=click.Choice(list(MODE_NOTES)), default=None, help="Default: observe.")
@click.option("--yes", "-y", is_flag=True, help="Do it without asking.")
@click.option("--diff", is_flag=True, help="Show each change of a settings file.")
@click.option(
    "--agent", "agents", multiple=True, type=click.Choice(list(ROWS)), help="Wire only this agent; repeatable."
)
@click.option("--no-agents", is_flag=True, help="Wire no agent: only govern the repository.")
@click.option("--project", is_flag=True, help="Wire the agents in this repository only, not for all of yours.")
@click.option(*TRUST_OPTIONS, "trust", default=None, help="Tell the agent to trust these hooks.")
@click.option("--private", is_flag=True, help="Keep .orchestration/ out of git, by .git/info/exclude.")
@click.option("--share-notes", is_flag=True, help="Share attribution as git notes.")
@click.option(
    "--share-log",
    type=click.Choice(["off", "ref", "tree"]),
    default=None,
    help="Share the log itself: as a git ref, or as a tracked file.",
)
@command_options
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
    share = ShareSettings(share_notes, share_log or "off") if share_notes or share_log else None
    asks_person = sys.stdin.isatty() and not yes and not as_json
    # At a terminal the single question covers this trust too, as the plan above it states.
    trusting = set(TRUSTING_AGENTS) if trust or (trust is None and asks_person) else set[str]()
    environment = read_environment()
    home, workspace = environment.home, find_root_to_govern(repo, environment.home)
    require_person(Act.CHANGE_WIRING if workspace.is_governed else Act.BEGIN)
    plan_repository = partial(plan_start, workspace, mode, share)
    found = None if no_agents else agents
    setup = plan_setup(workspace, home, found, plan_repository(private), is_project=project, trusting=trusting)
    if not (setup.changed_files or setup.start.has_changes or needs_client(setup)):
        emit(setup_document(setup), as_json, [f"nothing to do: {setup.headline}", *unread_lines(setup)])
        return
    if not yes:
        say(plan_text(setup, diff), err=as_json)
    if asks_person and confirm(setup):
        setup = replace(setup, start=plan_repository(True))
    if not asks_person and not yes:
        raise Failure("NOT_CONFIRMED", "nothing was changed: nobody is there to ask", fix="add --yes", exit_code=USAGE)
    always = asks_person and ask_about_clones(setup)
    finish_setup(setup, environment.temporary, always=always)
    if asks_person:
        name_runtime_data(setup)
    emit(setup_document(setup), as_json, done_text(setup, diff and yes))


def plan_setup(
    workspace: Workspace,
    home: Path,
    agents: tuple[str, ...] | None,
    start: RepositoryStart,
    *,
    is_project: bool = False,
    trusting: set[str],
) -> Setup:
    """Return the changes to make; `agents` are those to wire, all that are found without names, none for None."""
    manifest, moved = read_manifest(home), find_moved_folders(os.environ, home)
    found = find_agents(home, os.environ.get("PATH", os.defpath), agents, moved) if agents is not None else []
    place = SettingsPlace(home, workspace.root if is_project else None, moved)
    words, server = hook_client.client_words(home), hook_client.server_command(home)
    files = wire.plan_settings(found, place, words, server, manifest, trusting) if found else []
    if found:
        manifest = replace(manifest, moved={**manifest.moved, **moved})
    carried = None if workspace.is_governed else adoption.find_carried_rules(workspace)
    if carried is None and start.base:
        carried = adoption.find_carried_rules(workspace, start.base)
    return Setup(workspace, home, found, files, start, manifest, carried)


def needs_client(setup: Setup) -> bool:
    is_sound = hook_client.is_client_current(setup.home)
    is_sound = is_sound and not hook_client.is_client_altered(setup.home, setup.manifest.client)
    return bool(setup.agents) and not is_sound


def ask_about_clones(setup: Setup) -> bool:
    """Ask, at a first setup, whether further clones of the same remote are to be governed by their rules at once."""
    remote = adoption.find_remote(setup.workspace) if setup.start.govern else ""
    if not remote or adoption.find_adopting_pattern(setup.home, setup.workspace):
        return False
    return click.confirm(f"Also in further clones of {sanitise_line(remote)}?", default=True)


def finish_setup(setup: Setup, temporary: Path, *, always: bool) -> None:
    """Make the changes, and keep the remote for further clones if `always`. Raises Failure."""
    perform_setup(setup)
    if always and (remote := adoption.find_remote(setup.workspace)):
        try:
            adoption.add_adopted_remote(setup.home, remote)
        except (adoption.AdoptSettingsError, ConfigError) as error:
            raise Failure("CONFIG_INVALID", str(error), fix=f"write it into [adopt] remotes: {remote}") from None
    if setup.mode == "enforce" and (warning := describe_containment_warning(setup.home, temporary)):
        warn(warning)


def find_root_to_govern(repo: Path, home: Path) -> Workspace:
    """Return the workspace around `repo`, or the folder itself. Raises Failure for HOME and its parents."""
    folder = repo.resolve()
    is_git_folder = all((folder / name).exists() for name in ("HEAD", "objects", "refs"))
    if is_git_folder and not (folder / ".git").exists():
        message = f"{str(folder)!r} is a bare repository, without a work tree"
        raise Failure("NO_WORKSPACE", message, fix="use a clone of it")
    own = workspace_at(folder, find_git_root(folder)) if (folder / ORCHESTRATION_FOLDER).is_dir() else None
    workspace = own or locate_workspace(folder) or Workspace(folder, None, None)
    home = home.resolve()
    if workspace.root == home or workspace.root in home.parents:
        message = f"{str(workspace.root)!r} is no project: everything of yours is below it"
        raise Failure("NO_WORKSPACE", message, fix="run `remit init` in a project's folder, or name one with --repo")
    if not workspace.root.is_dir():
        raise Failure("NO_WORKSPACE", f"{str(workspace.root)!r} is no folder")
    return workspace


def confirm(setup: Setup) -> bool:
    """Ask whether to proceed; return whether `.orchestration/` is to stay out of git. Raises Failure on a no."""
    hidden = setup.start.private or not setup.start.govern or setup.workspace.common_dir is None
    private = "" if hidden else "; p = yes, and keep .orchestration/ out of git"
    while True:
        question = f"Apply? [Y/n; d = show the changes{private}]"
        answer = click.prompt(question, default="y", show_default=False).strip().lower()
        if answer == "d":
            say(coloured_diffs(setup) or "no settings file changes")
        elif answer in ("y", "yes") or (answer == "p" and private):
            return answer == "p"
        elif answer in ("n", "no"):
            raise Failure("NOT_CONFIRMED", "nothing was changed", exit_code=USAGE)


def name_runtime_data(setup: Setup) -> None:
    gate = Gate(setup.workspace, read_environment())
    try:
        proposed = find_proposals(setup.workspace, gate.rules.config.containment.data)
        patterns = [each.pattern for each in proposed]
        shown = sanitise_line(", ".join(each.text for each in proposed), 400)
        while patterns:
            say(f"Runtime data: {shown}. Commands may change it under any intent; a copy is kept before.")
            answer = click.prompt("[Y/n/e]", default="y", show_default=False).strip().lower()
            if answer in ("n", "no"):
                return
            if answer in ("e", "edit"):
                typed = click.prompt("Patterns, between spaces", default=format_patterns(patterns))
                patterns, shown = shlex.split(typed), sanitise_line(typed, 400)
                continue
            if answer in ("y", "yes"):
                name_data(gate, patterns)
                return
    except (ConfigError, GitError, OSError, ValueError) as error:
        warn(f"runtime data was not named: {sanitise_line(str(error), 400)}")
    finally:
        gate.close()


def perform_setup(setup: Setup) -> None:
    manifest = setup.manifest.with_repository(setup.workspace.root)
    if setup.agents:
        hook_client.install_client(setup.home, manifest.client)
        manifest = replace(manifest, client=hook_client.hash_client(setup.home))
    now = format_utc(datetime.now(UTC), "seconds")
    manifest = wire.write_plans(setup.files, setup.home, manifest, now, version("remit"))
    write_manifest(setup.home, manifest)
    if setup.start.adopts:
        adoption.adopt_workspace(setup.home, setup.workspace, base=setup.start.base)
        return
    start_governing(setup.workspace, setup.start)
    register_repository(setup.home, setup.workspace)
    put_offer(setup.home, find_offer(setup.workspace.root), version("remit"))
    if any(agent.binary for agent in setup.agents):  # its first call finds a daemon that has read the rules
        wait_for_daemon(start_daemon(setup.home, str(setup.workspace.root)), START_TIMEOUT_S)


# --- output ------------------------------------------------------------------------------------------------


def plan_text(setup: Setup, with_diff: bool) -> str:
    """Return the changes to come: agents, files, the repository, and the rights that agents gain."""
    agents = [f"  {a.row.agent:<14} {a.binary or f'its folder ~/{a.row.config_folder}'}" for a in setup.agents]
    lines = [heading("Found"), *agents] if agents else [heading("No agent to wire")]
    lines += ["", heading("This will change"), *file_lines(setup)]
    start, share = setup.start, setup.start.share
    if start.govern and start.adopts:
        lines.append(f"  {setup.workspace.root}  the rules in its commits hold")
    elif start.govern:
        lines.append(f"  {setup.workspace.root}/.orchestration/  what agents may do here, and Remit's state")
    lines += ["  .orchestration/intents/  a file for each intent: remit intent new"] if start.starter else []
    lines += ["  .git/info/exclude  /.orchestration/: git does not track it"] if start.private else []
    lines += [f"  mode: {start.mode}{MODE_NOTES[start.mode]}"] if start.mode else kept_mode_lines(setup)
    if share:
        tracked = TRACKED_LOG_NOTE if share.log == "tree" else ""
        lines.append(f"  share: notes {'on' if share.notes else 'off'}, log {share.log}{tracked}")
    trusted = {agent for file in setup.changed_files if "trust" in file.parts for agent in file.agents}
    changed = {agent for file in setup.changed_files for agent in file.agents}
    rights = [
        f"  {row.title:<14} {may:<24} ({setting})"
        for row in (agent.row for agent in setup.agents if agent.row.agent in changed)
        for may, setting in list_granted_rights(row, row.agent in trusted)
    ]
    lines += ["", heading("These agents may then, without asking you"), *rights] if rights else []
    lines += [*note_lines(setup), *(["", coloured_diffs(setup)] if with_diff else [])]
    return "\n".join(lines)


def done_text(setup: Setup, with_diff: bool) -> str:
    """Return the report of the changes, and the next steps."""
    lines = [setup.headline, *kept_mode_lines(setup)]
    if setup.carried is not None:
        lines.append("  .orchestration/ its rules are committed; adopted")
    elif setup.start.govern and setup.workspace.common_dir is not None:
        private = "stays out of git: the rules hold on this machine only"
        shared = "is new: commit it to share the rules, or keep it out of git: remit init --private"
        lines.append(f"  .orchestration/ {private if is_private(setup.workspace) else shared}")
    lines += [*file_lines(setup), *note_lines(setup), *proposed_data_lines(setup)]
    if not setup.agents:  # agents wired earlier for the user still ask Remit
        place = SettingsPlace(setup.home, moved_folders=setup.manifest.moved)
        wired = [row.title for row in ROWS.values() if setup.manifest.find_file(place.hooks_file(row))]
        known = f"No agent was wired now; wired for you already: {', '.join(wired)}."
        lines.append(known if wired else NO_AGENT_NOTE)
    if with_diff:
        lines += ["", "".join(file.diff(setup.home) for file in setup.changed_files)]
    then = OBSERVE_STEP if setup.mode == "enforce" else ENFORCE_STEP
    return "\n".join([*lines, NEXT_STEPS.format(then=then)])


def heading(text: str) -> str:
    return click.style(text, bold=True)


def coloured_diffs(setup: Setup) -> str:
    lines = "".join(file.diff(setup.home) for file in setup.changed_files).splitlines()
    return "\n".join(click.style(line, fg=DIFF_COLOURS.get(line[:1])) for line in lines)


def file_lines(setup: Setup) -> list[str]:
    lines: list[str] = []
    for file in setup.changed_files:
        parts = ", ".join(wire.PART_NAMES[part] for part in file.parts)
        fresh = "new file" if file.before is None else "changed"
        lines.append(f"  {wire.display_path(file.path, setup.home):<32} {fresh}: {parts}")
    return lines


def kept_mode_lines(setup: Setup) -> list[str]:
    if not setup.start.govern or setup.start.mode:
        return []
    if unusable := load_rules(setup.workspace).config_error:
        return [f"  ! {sanitise_line(unusable)}; until it is mended, every change is refused"]
    if setup.start.adopts:
        return [f"  mode: {setup.mode}, as its commits say"]
    return [f"  mode: {setup.mode}, as .orchestration/ says from before; another with --mode, or `remit mode` later"]


def unread_lines(setup: Setup) -> list[str]:
    unread = filter(None, (wire.describe_unread(file, setup.home) for file in setup.files))
    agents = [agent.row.agent for agent in setup.agents] or list_wired_agents(setup.manifest)
    user = SettingsPlace(setup.home, moved_folders=setup.manifest.moved)
    switches = find_hook_switches(agents, user, setup.workspace.root, os.environ)
    nested = describe_nested_rules(setup.workspace) if setup.workspace.is_governed else ""
    return [
        *unread,
        *(f"  {switch}: Remit is not asked there. Take it out by hand" for switch in switches),
        *([f"  {nested}"] if nested else []),
    ]


def note_lines(setup: Setup) -> list[str]:
    trusted = {agent for file in setup.files if "trust" in file.parts for agent in file.agents}
    rows = [agent.row for agent in setup.agents if agent.row.trusts_by_hash]
    lines = [
        f"  {row.title} runs these hooks once you trust them: --trust-{row.agent}, or /hooks in it"
        for row in rows
        if row.agent not in trusted
    ]
    lines += unread_lines(setup)
    if commands := load_rules(setup.workspace).repository_commands:
        try:
            known = read_trust(setup.home, repository_id(setup.workspace))
        except (GitError, OSError):
            known = None
        untrusted = tuple(item for item in commands if known is None or item.digest not in known.digests)
        lines += [f"  {describe_untrusted(untrusted)}: see `remit trust`"] if untrusted else []
    return lines


def proposed_data_lines(setup: Setup) -> list[str]:
    proposed = find_proposals(setup.workspace, load_rules(setup.workspace).config.containment.data)
    if not proposed:
        return []
    shown = sanitise_line(", ".join(each.text for each in proposed), 400)
    words = sanitise_line(format_patterns(each.pattern for each in proposed), 400)
    return [f"  runtime data: {shown}: enforce drops what commands change there, until you say: remit data add {words}"]


def setup_document(setup: Setup) -> dict[str, object]:
    """Return the setup as data. `settings` holds Remit's entries in each agent's hook file."""
    words = hook_client.client_words(setup.home)
    unread = [(file.path, *found) for file in setup.files for found in wire.find_unread_agents(file)]
    return {
        "root": str(setup.workspace.root),
        "mode": setup.mode,
        "agents": [agent.row.agent for agent in setup.agents],
        "files": [{"path": str(f.path), "created": f.before is None, "parts": f.parts} for f in setup.changed_files],
        "unread": [{"path": str(path), "agent": title, "because": reason} for path, title, reason in unread],
        "settings": {agent.row.agent: hook_settings(agent.row.agent, words) for agent in setup.agents},
    }

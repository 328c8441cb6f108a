"""`remit uninstall`: undo everything that `remit init` did."""

import os
import sys
from pathlib import Path

import click
from msgspec import Struct
from msgspec.structs import replace

from remit.adapters import ROWS
from remit.cli.agents.wiring import reports_wiring, user_place
from remit.cli.output import FINDINGS, Failure, command_options, emit
from remit.cli.person_only import require_confirmation, require_person
from remit.servers.environment import read_environment
from remit.wiring.hook_client import remove_client
from remit.wiring.manifest import Manifest, ManifestError, WiredFile, read_manifest, write_manifest
from remit.wiring.plan import WiringProblem, display_path
from remit.wiring.repository_setup import count_tracked_files, list_remains, purge_repository, stop_governing
from remit.wiring.unwire import UnwiredFile, find_leftovers, remove_leftovers, unwire
from remit.workspace.place.governed_repositories import list_governed_roots
from remit.workspace.place.workspace import Workspace, locate_workspace


class UninstallOutcome(Struct, frozen=True):
    """The result of an uninstall. `others` are governed still; `wired` are the agents that stay wired."""

    done: list[UnwiredFile]
    problems: list[WiringProblem]
    stopped: Path | None
    purged: list[Path]
    ours_left: list[Path]
    stays: list[tuple[str, str]]
    others: list[str]
    wired: list[str]
    governed: Path | None
    tracked: int = 0


class UninstallOptions(Struct, frozen=True):
    """The options of the command line."""

    agents: tuple[str, ...]
    all_agents: bool
    here_only: bool
    purging: bool
    yes: bool


@click.command()
@click.option("--agent", "agents", multiple=True, type=click.Choice(list(ROWS)), help="Only this agent; repeatable.")
@click.option("--all-agents", is_flag=True, help="Also what no note is left of.")
@click.option("--this-repository", "here_only", is_flag=True, help="Leave the hooks: other repositories need them.")
@click.option("--purge", "purging", is_flag=True, help="Also remove the ledger and .orchestration/, for good.")
@click.option("--yes", "-y", is_flag=True, help="Do not ask.")
@command_options
@reports_wiring
def uninstall(
    agents: tuple[str, ...], all_agents: bool, here_only: bool, purging: bool, yes: bool, repo: Path, as_json: bool
) -> None:
    """Take Remit out of the agents' settings, and stop governing this repository. The ledger stays."""
    require_person("`remit uninstall`")
    options = UninstallOptions(agents, all_agents, here_only, purging, yes)
    if here_only and (agents or all_agents):
        raise Failure("USAGE", "--this-repository leaves the agents as they are; it goes with neither --agent option")
    home, workspace = read_environment().home, locate_workspace(repo)
    manifest = known_manifest(home, all_agents)
    confirm_uninstall(options, home, workspace, manifest)
    outcome = perform_uninstall(options, home, workspace, manifest)
    emit(outcome_document(outcome), as_json, outcome_text(outcome, home, options.agents))
    if outcome.problems:
        sys.exit(FINDINGS)


def known_manifest(home: Path, all_agents: bool) -> Manifest:
    """Return the manifest; with `all_agents` a broken manifest counts as empty. Raises ManifestError."""
    try:
        return read_manifest(home)
    except ManifestError:
        if not all_agents:
            raise
        return Manifest()


def confirm_uninstall(options: UninstallOptions, home: Path, workspace: Workspace | None, manifest: Manifest) -> None:
    """Ask before other repositories lose their hooks, and before a purge. Raises Failure without a yes."""
    losing = [] if options.here_only else other_roots(home, workspace, manifest)
    if losing and any(is_file_affected(options, file) for file in manifest.files):
        require_confirmation(
            options.yes,
            f"the agents' hooks are one for all your repositories: {', '.join(losing)} would be governed no longer",
            "add --yes, or keep the hooks with --this-repository",
        )
    if options.purging and workspace is not None:
        tracked = count_tracked_files(workspace)
        note = f"; git tracks {tracked} files of it, which will show as deleted" if tracked else ""
        removed = f"{workspace.state} (the ledger) and {workspace.folder}{note}"
        require_confirmation(options.yes, f"--purge would remove {removed} for good", "add --yes")


def is_file_affected(options: UninstallOptions, file: WiredFile) -> bool:
    return not options.agents or bool(set(options.agents) & set(file.agents))


def other_roots(home: Path, workspace: Workspace | None, manifest: Manifest) -> list[str]:
    known = dict.fromkeys((*manifest.repositories, *list_governed_roots(home)))
    own = str(workspace.root) if workspace else ""
    return [root for root in known if root != own and is_governed_root(Path(root))]


def perform_uninstall(
    options: UninstallOptions, home: Path, workspace: Workspace | None, manifest: Manifest
) -> UninstallOutcome:
    """Unwire the agents and stop governing. Raises SettingsChanged, OSError, GitError."""
    root = workspace.root if workspace else None
    user = user_place(home, os.environ, manifest)
    done, problems, manifest = unwire(home, manifest, options.agents, root if options.here_only else None)
    done += remove_leftovers(user, root) if options.all_agents else []
    stopped, purged, tracked = False, list[Path](), 0
    if workspace is not None and not options.agents:
        tracked = count_tracked_files(workspace) if options.purging else 0
        stopped = stop_governing(home, workspace)
        purged = purge_repository(workspace) if options.purging else []
        manifest = manifest.without_repository(workspace.root)
    others = other_roots(home, workspace, manifest)
    if not manifest.files:
        manifest = replace(manifest, client="", moved={})
    write_manifest(home, manifest)
    if not manifest.files:
        remove_client(home)
    return UninstallOutcome(
        done=[file for file in done if file.changed],
        problems=problems,
        stopped=root if stopped else None,
        purged=purged,
        ours_left=find_leftovers(user, root) if not manifest.files else [],
        stays=list_remains(workspace, home) if workspace else [],
        others=others,
        wired=sorted({agent for file in manifest.files for agent in file.agents}),
        governed=root if workspace is not None and workspace.is_governed else None,
        tracked=tracked,
    )


def is_governed_root(root: Path) -> bool:
    found = locate_workspace(root)
    return found is not None and found.is_governed


def outcome_document(outcome: UninstallOutcome) -> dict[str, object]:
    return {
        "files": [{"path": str(file.path), "removed": file.removed, "exact": file.exact} for file in outcome.done],
        "problems": [str(problem) for problem in outcome.problems],
        "stopped": str(outcome.stopped) if outcome.stopped else None,
        "purged": [str(path) for path in outcome.purged],
        "purged_tracked_files": outcome.tracked,
        "ours_left": [str(path) for path in outcome.ours_left],
        "stays": [{"path": path, "what": about} for path, about in outcome.stays],
        "still_governed": outcome.others,
        "still_wired": outcome.wired,
    }


def outcome_text(outcome: UninstallOutcome, home: Path, agents: tuple[str, ...]) -> str:
    lines = [file_line(file, home) for file in outcome.done]
    lines += [f"stopped governing {outcome.stopped}"] if outcome.stopped else []
    lines += [f"removed {path}" for path in outcome.purged]
    if outcome.tracked:
        note = "they show as deleted until you commit or restore them"
        lines.append(f"git tracked {outcome.tracked} of these files: {note}")
    lines += [str(problem) for problem in outcome.problems]
    left = [display_path(path, home) for path in outcome.ours_left]
    lines += [f"{path} still names Remit, not from `remit init`: see --all-agents" for path in left]
    if not lines:
        lines = [f"nothing to do: {', '.join(agents)} was not wired" if agents else "nothing to do"]
    if agents and outcome.governed:
        lines += [f"still governed: {outcome.governed}  (remit uninstall, without --agent, ends that)"]
    lines += [f"still wired: {', '.join(outcome.wired)}"] if outcome.wired else []
    lines += [f"stays: {path}  ({about})" for path, about in outcome.stays]
    note = "" if outcome.wired else ", but no agent asks there any more"
    lines += [f"still marked as governed{note}: {root}  (remit uninstall --repo …)" for root in outcome.others]
    return "\n".join(lines)


def file_line(unwired: UnwiredFile, home: Path) -> str:
    if unwired.removed:
        became = "removed: `remit init` had made it"
    else:
        became = "as it was before, byte for byte" if unwired.exact else "our entries taken out, all else as it stands"
    return f"{display_path(unwired.path, home):<34} {became}"

"""`remit uninstall`: take everything out again."""

import os
import sys
from pathlib import Path

import click
from msgspec import Struct
from msgspec.structs import replace

from remit.adapters import ROWS
from remit.cli.agents.wiring import reports_wiring, user_place
from remit.cli.output import FINDINGS, Failure, emit, json_option, repo_option, reports_failures
from remit.cli.person_only import require_person
from remit.servers.environment import read_environment
from remit.wiring.hook_client import remove_client
from remit.wiring.manifest import Manifest, ManifestError, WiredFile, read_manifest, write_manifest
from remit.wiring.plan import WiringProblem, display_path
from remit.wiring.repository_setup import count_tracked_files, list_remains, purge_repository, stop_governing
from remit.wiring.unwire import UnwiredFile, find_leftovers, remove_leftovers, unwire
from remit.workspace.place.governed_repositories import list_governed_roots
from remit.workspace.place.workspace import Workspace, locate_workspace


class UninstallOutcome(Struct, frozen=True):
    """What an uninstall did, and what it found. `others` are governed still; `wired` are the agents that stay wired."""

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
    """What the command line says."""

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
@repo_option
@json_option
@reports_failures
@reports_wiring
def uninstall(
    agents: tuple[str, ...], all_agents: bool, here_only: bool, purging: bool, yes: bool, repo: Path, as_json: bool
) -> None:
    """Take Remit out of the agents' settings, and stop governing this repository. The ledger stays."""
    require_person("`remit uninstall`")
    asked = UninstallOptions(agents, all_agents, here_only, purging, yes)
    if here_only and (agents or all_agents):
        raise Failure("USAGE", "--this-repository leaves the agents as they are; it goes with neither --agent option")
    home, workspace = read_environment().home, locate_workspace(repo)
    manifest = known_manifest(home, all_agents)
    confirm_uninstall(asked, home, workspace, manifest)
    outcome = perform_uninstall(asked, home, workspace, manifest)
    emit(outcome_document(outcome), as_json, outcome_text(outcome, home, asked.agents))
    if outcome.problems:
        sys.exit(FINDINGS)


def known_manifest(home: Path, all_agents: bool) -> Manifest:
    """What was noted; with `all_agents` a manifest that is broken is no obstacle. Raises ManifestError."""
    try:
        return read_manifest(home)
    except ManifestError:
        if not all_agents:
            raise
        return Manifest()


def confirm_uninstall(asked: UninstallOptions, home: Path, workspace: Workspace | None, manifest: Manifest) -> None:
    """Ask before others lose their hooks, and before what cannot be undone. Raises Failure where nobody says yes."""
    losing = [] if asked.here_only else other_roots(home, workspace, manifest)
    if losing and any(is_file_affected(asked, file) for file in manifest.files):
        require_confirmation(
            asked.yes,
            f"the agents' hooks are one for all your repositories: {', '.join(losing)} would be governed no longer",
            "add --yes, or keep the hooks with --this-repository",
        )
    if asked.purging and workspace is not None:
        tracked = count_tracked_files(workspace)
        of_git = f"; git tracks {tracked} files of it, which will show as deleted" if tracked else ""
        what = f"{workspace.state} (the ledger) and {workspace.folder}{of_git}"
        require_confirmation(asked.yes, f"--purge would remove {what} for good", "add --yes")


def require_confirmation(yes: bool, what: str, fix: str) -> None:
    """Go on only where a person says so. Raises Failure."""
    if yes or (sys.stdin.isatty() and click.confirm(f"{what}. Go on?", default=False)):
        return
    raise Failure("NOT_CONFIRMED", f"nothing was changed: {what}", fix=fix)


def is_file_affected(asked: UninstallOptions, file: WiredFile) -> bool:
    """Whether this file would be unwired."""
    return not asked.agents or bool(set(asked.agents) & set(file.agents))


def other_roots(home: Path, workspace: Workspace | None, manifest: Manifest) -> list[str]:
    """The other repositories that are governed, as far as they are known by name."""
    known = dict.fromkeys((*manifest.repositories, *list_governed_roots(home)))
    own = str(workspace.root) if workspace else ""
    return [root for root in known if root != own and is_governed_root(Path(root))]


def perform_uninstall(
    asked: UninstallOptions, home: Path, workspace: Workspace | None, manifest: Manifest
) -> UninstallOutcome:
    """Do it. Raises SettingsChanged, OSError, GitError."""
    root = workspace.root if workspace else None
    user = user_place(home, os.environ, manifest)
    done, problems, manifest = unwire(home, manifest, asked.agents, root if asked.here_only else None)
    done += remove_leftovers(user, root) if asked.all_agents else []
    stopped, purged, tracked = False, list[Path](), 0
    if workspace is not None and not asked.agents:
        tracked = count_tracked_files(workspace) if asked.purging else 0
        stopped = stop_governing(home, workspace)
        purged = purge_repository(workspace) if asked.purging else []
        manifest = manifest.without_repository(workspace.root)
    others = other_roots(home, workspace, manifest)
    if not manifest.files:
        manifest = replace(manifest, client="", moved={})
    write_manifest(home, manifest)
    if not manifest.files:
        remove_client(home)
    return UninstallOutcome(
        done=[each for each in done if each.changed],
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
    """Whether a repository that `init` was run in is governed."""
    found = locate_workspace(root)
    return found is not None and found.is_governed


def outcome_document(outcome: UninstallOutcome) -> dict[str, object]:
    """What was done, as data."""
    return {
        "files": [{"path": str(u.path), "removed": u.removed, "exact": u.exact} for u in outcome.done],
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
    """What was done, for people."""
    lines = [file_line(each, home) for each in outcome.done]
    lines += [f"stopped governing {outcome.stopped}"] if outcome.stopped else []
    lines += [f"removed {path}" for path in outcome.purged]
    if outcome.tracked:
        lines += [
            f"git tracked {outcome.tracked} of these files: they show as deleted until you commit or restore them"
        ]
    lines += [str(problem) for problem in outcome.problems]
    lines += [
        f"{display_path(path, home)} still names Remit, not from `remit init`: see --all-agents"
        for path in outcome.ours_left
    ]
    if not lines:
        lines = [f"nothing to do: {', '.join(agents)} was not wired" if agents else "nothing to do"]
    if agents and outcome.governed:
        lines += [f"still governed: {outcome.governed}  (remit uninstall, without --agent, ends that)"]
    lines += [f"still wired: {', '.join(outcome.wired)}"] if outcome.wired else []
    lines += [f"stays: {path}  ({about})" for path, about in outcome.stays]
    why = "" if outcome.wired else ", but no agent asks there any more"
    return "\n".join(
        lines + [f"still marked as governed{why}: {root}  (remit uninstall --repo …)" for root in outcome.others]
    )


def file_line(unwired: UnwiredFile, home: Path) -> str:
    """What became of one settings file."""
    if unwired.removed:
        became = "removed: `remit init` had made it"
    else:
        became = "as it was before, byte for byte" if unwired.exact else "our entries taken out, all else as it stands"
    return f"{display_path(unwired.path, home):<34} {became}"

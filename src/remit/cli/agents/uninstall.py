"""`remit uninstall`: undo everything that `remit init` did."""

import os
from pathlib import Path

import click
from msgspec.structs import replace

from remit.cli.output import FINDINGS, Failure, command_options, emit, yes_option
from remit.cli.person_only import require_confirmation, require_person
from remit.core.acts import Act
from remit.core.agents import ROWS
from remit.servers.environment import read_environment
from remit.wiring.agents import find_user_place
from remit.wiring.hook_client import remove_client
from remit.wiring.manifest import Manifest, ManifestError, read_manifest, write_manifest
from remit.wiring.repository_setup import count_tracked_files, list_remains, purge_repository, stop_governing
from remit.wiring.wire import display_path, find_leftovers, remove_leftovers, unwire
from remit.workspace.place.workspace import Workspace, list_governed_roots, locate_workspace


@click.command()
@click.option("--agent", "agents", multiple=True, type=click.Choice(list(ROWS)), help="Only this agent; repeatable.")
@click.option("--all-agents", is_flag=True, help="Also what no note is left of.")
@click.option("--this-repository", "here_only", is_flag=True, help="Leave the hooks: other repositories need them.")
@click.option("--purge", "purging", is_flag=True, help="Also remove the ledger and .orchestration/, for good.")
@yes_option
@command_options
def uninstall(
    agents: tuple[str, ...], all_agents: bool, here_only: bool, purging: bool, yes: bool, repo: Path, as_json: bool
) -> None:
    """Take Remit out of the agents' settings, and stop governing this repository. The ledger stays."""
    require_person(Act.UNINSTALL)
    if here_only and (agents or all_agents):
        raise Failure("USAGE", "--this-repository leaves the agents as they are; it goes with neither --agent option")
    home, workspace = read_environment().home, locate_workspace(repo)
    root = workspace.root if workspace else None
    try:
        manifest = read_manifest(home)
    except ManifestError:
        if not all_agents:
            raise
        manifest = Manifest()
    # 1. Ask before other repositories lose their hooks, and before a purge.
    losing = [] if here_only else other_roots(home, workspace, manifest)
    if losing and any(not agents or set(agents) & set(file.agents) for file in manifest.files):
        what = f"the agents' hooks are one for all your repositories: {', '.join(losing)} would be governed no longer"
        require_confirmation(yes, what, "add --yes, or keep the hooks with --this-repository")
    tracked = count_tracked_files(workspace) if purging and workspace else 0
    if purging and workspace is not None:
        note = f"; git tracks {tracked} files of it, which will show as deleted" if tracked else ""
        removed = f"{workspace.state} (the ledger) and {workspace.folder}{note}"
        require_confirmation(yes, f"--purge would remove {removed} for good", "add --yes")
    # 2. Unwire the agents.
    user = find_user_place(home, os.environ, manifest)
    files, problems, manifest = unwire(home, manifest, agents, root if here_only else None)
    files = [file for file in (*files, *(remove_leftovers(user, root) if all_agents else ())) if file.changed]
    # 3. Stop governing.
    stopped, purged = False, list[Path]()
    if workspace is not None and not agents:
        stopped = stop_governing(home, workspace)
        purged = purge_repository(workspace) if purging else []
        manifest = manifest.without_repository(workspace.root)
    others = other_roots(home, workspace, manifest)
    if not manifest.files:
        manifest = replace(manifest, client="", moved={})
    write_manifest(home, manifest)
    if not manifest.files:
        remove_client(home)
    # 4. Report what went, and what stays.
    leftovers = find_leftovers(user, root) if not manifest.files else []
    stays = list_remains(workspace, home) if workspace else []
    wired = sorted({agent for file in manifest.files for agent in file.agents})
    data: dict[str, object] = {
        "files": [{"path": str(file.path), "removed": file.removed, "exact": file.exact} for file in files],
        "problems": [str(problem) for problem in problems],
        "stopped": str(root) if stopped else None,
        "purged": [str(path) for path in purged],
        "purged_tracked_files": tracked if purged else 0,
        "ours_left": [str(path) for path, _, _ in leftovers],
        "stays": [{"path": path, "what": about} for path, about in stays],
        "still_governed": others,
        "still_wired": wired,
    }
    lines: list[str] = []
    for file in files:
        if file.removed:
            became = "removed: `remit init` had made it"
        else:
            became = "as it was before, byte for byte" if file.exact else "our entries taken out, all else as it stands"
        lines.append(f"{display_path(file.path, home):<34} {became}")
    lines += [f"stopped governing {root}"] if stopped else []
    lines += [f"removed {path}" for path in purged]
    if purged and tracked:
        note = "they show as deleted until you commit or restore them"
        lines.append(f"git tracked {tracked} of these files: {note}")
    lines += [str(problem) for problem in problems]
    shown = (display_path(path, home) for path, _, _ in leftovers)
    lines += [f"{path} still names Remit, not from `remit init`: see --all-agents" for path in shown]
    if not lines:
        lines = [f"nothing to do: {', '.join(agents)} was not wired" if agents else "nothing to do"]
    if agents and workspace is not None and workspace.is_governed:
        lines += [f"still governed: {root}  (remit uninstall, without --agent, ends that)"]
    lines += [f"still wired: {', '.join(wired)}"] if wired else []
    lines += [f"stays: {path}  ({about})" for path, about in stays]
    note = "" if wired else ", but no agent asks there any more"
    lines += [f"still marked as governed{note}: {other}  (remit uninstall --repo …)" for other in others]
    emit(data, as_json, lines, FINDINGS if problems else 0)


def other_roots(home: Path, workspace: Workspace | None, manifest: Manifest) -> list[str]:
    own = str(workspace.root) if workspace else ""
    known = (root for root in dict.fromkeys((*manifest.repositories, *list_governed_roots(home))) if root != own)
    return [root for root in known if (found := locate_workspace(Path(root))) and found.is_governed]

"""`remit uninstall`: take everything out again."""

import sys
from pathlib import Path

import click
from msgspec import Struct

from remit.adapters import ROWS
from remit.cli.output import FINDINGS, Failure, emit, json_option, repo_option, reports_failures
from remit.cli.people import only_people
from remit.cli.wired import reports_wiring
from remit.servers.environment import enter
from remit.wiring.client import remove_client
from remit.wiring.manifest import Manifest, ManifestError, read_manifest, write_manifest
from remit.wiring.plan import Problem, shown_path
from remit.wiring.starting import purge, ungovern, what_stays
from remit.wiring.unwire import Unwired, leftovers, sweep, unwire
from remit.workspace.place import Workspace, locate


class Outcome(Struct, frozen=True):
    """What an uninstall did, and what it found."""

    done: list[Unwired]
    problems: list[Problem]
    stopped: Path | None
    purged: list[Path]
    ours_left: list[Path]
    stays: list[tuple[str, str]]
    others: list[str]


@click.command()
@click.option("--agent", "agents", multiple=True, type=click.Choice(list(ROWS)), help="Only this agent; repeatable.")
@click.option("--all-agents", is_flag=True, help="Also what no note is left of.")
@click.option("--purge", "purging", is_flag=True, help="Also remove the ledger and .orchestration/, for good.")
@click.option("--yes", "-y", is_flag=True, help="Do not ask before a purge.")
@repo_option
@json_option
@reports_failures
@reports_wiring
def uninstall(agents: tuple[str, ...], all_agents: bool, purging: bool, yes: bool, repo: Path, as_json: bool) -> None:
    """Take Remit out of the agents' settings, and stop governing this repository. The ledger stays."""
    only_people("`remit uninstall`")
    home = enter().home
    workspace = locate(repo)
    if purging and workspace is not None:
        confirm_purge(workspace, yes)
    done, problems, manifest = unwired(home, agents, all_agents, workspace)
    stopped, purged = False, list[Path]()
    if workspace is not None and not agents:
        stopped = ungovern(home, workspace)
        purged = purge(workspace) if purging else []
        manifest = manifest.without_repository(workspace.root)
    write_manifest(home, manifest)
    if not manifest.files:
        remove_client(home)
    outcome = Outcome(
        done=[each for each in done if each.changed],
        problems=problems,
        stopped=workspace.root if stopped and workspace else None,
        purged=purged,
        ours_left=leftovers(home, workspace.root if workspace else None),
        stays=what_stays(workspace, home) if workspace else [],
        others=[root for root in manifest.repositories if still_governed(Path(root))],
    )
    emit(data(outcome), as_json, text(outcome, home))
    if problems:
        sys.exit(FINDINGS)


def confirm_purge(workspace: Workspace, yes: bool) -> None:
    """Ask before what cannot be undone. Raises Failure where nobody says yes."""
    what = f"{workspace.state} (the ledger) and {workspace.folder}"
    if yes or (sys.stdin.isatty() and click.confirm(f"Remove {what} for good?", default=False)):
        return
    raise Failure("NOT_CONFIRMED", f"nothing was changed: --purge would remove {what} for good", fix="add --yes")


def unwired(
    home: Path, agents: tuple[str, ...], all_agents: bool, workspace: Workspace | None
) -> tuple[list[Unwired], list[Problem], Manifest]:
    """Take out what is noted; with `all_agents` then also what is not, and a manifest that is broken is no obstacle."""
    try:
        manifest = read_manifest(home)
    except ManifestError:
        if not all_agents:
            raise
        manifest = Manifest()
    done, problems, manifest = unwire(home, manifest, agents)
    if all_agents:
        done += sweep(home, workspace.root if workspace else None)
    return done, problems, manifest


def still_governed(root: Path) -> bool:
    """Whether a repository that `init` was run in is governed."""
    found = locate(root)
    return found is not None and found.governed


def data(outcome: Outcome) -> dict[str, object]:
    """What was done, as data."""
    return {
        "files": [{"path": str(u.path), "removed": u.removed, "exact": u.exact} for u in outcome.done],
        "problems": [str(problem) for problem in outcome.problems],
        "stopped": str(outcome.stopped) if outcome.stopped else None,
        "purged": [str(path) for path in outcome.purged],
        "ours_left": [str(path) for path in outcome.ours_left],
        "stays": [{"path": path, "what": about} for path, about in outcome.stays],
        "still_governed": outcome.others,
    }


def text(outcome: Outcome, home: Path) -> str:
    """What was done, for people."""
    lines = [file_line(each, home) for each in outcome.done]
    lines += [f"stopped governing {outcome.stopped}"] if outcome.stopped else []
    lines += [f"removed {path}" for path in outcome.purged]
    lines += [str(problem) for problem in outcome.problems]
    lines += [
        f"{shown_path(path, home)} still names Remit, not from `remit init`: see --all-agents"
        for path in outcome.ours_left
    ]
    if not lines:
        return "nothing to do"
    lines += [f"stays: {path}  ({about})" for path, about in outcome.stays]
    return "\n".join(
        lines + [f"still marked as governed: {root}  (remit uninstall --repo …)" for root in outcome.others]
    )


def file_line(unwired: Unwired, home: Path) -> str:
    """What became of one settings file."""
    if unwired.removed:
        became = "removed: `remit init` had made it"
    else:
        became = "as it was before, byte for byte" if unwired.exact else "our entries taken out, all else as it stands"
    return f"{shown_path(unwired.path, home):<34} {became}"

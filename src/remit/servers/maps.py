"""The intent maps of the repositories in use, kept up with their ledgers while no call is under way.

No call waits for it: what to read is asked in a repository's turn, the reading and writing is done outside of it.
"""

import time
from pathlib import Path
from typing import TYPE_CHECKING

from remit.gate.gate import Gate
from remit.ledger.lock import LockTimeout
from remit.servers.gates import Gates, report

if TYPE_CHECKING:
    from remit.provenance.map_keeping import IntentMap

QUIET_S = 0.5
"""How long nobody may have called: the calls of an agent come in pairs, and often in rows."""

LATEST_S = 5.0
"""Without a pause of that length it is done meanwhile."""

STEP_S = 0.2
"""How long one repository is worked for at a time: Python lets one thread work, and calls come first."""

REST = 20
"""Its part in the time of this process is at most one in so many."""


class Maps:
    """When to look after the maps, and what is left to do."""

    def __init__(self, gates: Gates) -> None:
        self.gates = gates
        self.looked = time.monotonic()
        """When it was last begun."""
        self.due = 0.0
        """Not before then, unless there is a backlog."""
        self.left = False
        self.said: dict[Path, str] = {}
        """What was reported of each: a trouble that stays is told once."""

    def keep(self, last_call: float, now: float) -> None:
        """Bring the maps up to date, where a call came since the last time, and it is quiet or has waited long."""
        waited = now - last_call >= QUIET_S or now - self.looked >= LATEST_S
        if self.left or (last_call >= self.looked and waited and now >= self.due):
            self.looked = now
            self.bring_up()
            self.due = time.monotonic() + REST * (time.monotonic() - now)

    def bring_up(self) -> None:
        """One step for each work tree whose gate is open."""
        wanted: dict[Path, IntentMap] = {}
        self.gates.each(lambda gate: wanted.update(asked(gate)))
        self.left = any([self.step(each) for each in wanted.values()])

    def step(self, one: "IntentMap") -> bool:
        """A little work on one map; whether more is left. What cannot be done is reported."""
        end = time.monotonic() + STEP_S
        root, said = one.workspace.root, ""
        try:
            return one.kept_up(lambda: time.monotonic() > end)
        except LockTimeout:
            return True
        except Exception as error:  # noqa: BLE001  records of others are read, and whatever they break, the rest goes on
            words = error.strerror if isinstance(error, OSError) else str(error)
            said = f"the intent map of {root} was left for later: {type(error).__name__}: {words}"
            return False
        finally:
            if said and said != self.said.get(root):
                report(said)
            self.said[root] = said


def asked(gate: Gate) -> "dict[Path, IntentMap]":
    """The map of this gate's work tree. Raises OSError."""
    # It brings parsers of source code, which no call may load.
    from remit.provenance.map_keeping import IntentMap

    return {gate.workspace.root: IntentMap.of(gate.workspace, gate.recorder.log.name, gate.recorder.machine)}

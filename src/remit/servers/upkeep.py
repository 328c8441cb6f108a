"""What is made from the ledgers of the repositories in use, kept up with them while no call is under way:
the intent map, and the index with the words that records put into files: nobody who asks for blame waits for that.

No call waits for it: what to read is asked in a repository's turn, the reading and writing is done outside of it.
"""

import time
from collections.abc import Callable
from functools import partial
from typing import TypeAlias

from remit.gate.gate import Gate
from remit.ledger.lock import LockTimeout
from remit.servers.gates import Gates, report

Job: TypeAlias = Callable[[Callable[[], bool]], bool]
"""Does some of it, until it is told that it is enough; whether more is left."""

QUIET_S = 0.5
"""How long nobody may have called: the calls of an agent come in pairs, and often in rows."""

LATEST_S = 5.0
"""Without a pause of that length it is done meanwhile."""

STEP_S = 0.2
"""How long one repository is worked for at a time: Python lets one thread work, and calls come first."""

REST = 20
"""Its part in the time of this process is at most one in so many."""


class Upkeep:
    """When to look after it, and what is left to do."""

    def __init__(self, gates: Gates) -> None:
        self.gates = gates
        self.looked = time.monotonic()
        """When it was last begun."""
        self.due = 0.0
        """Not before then, unless there is a backlog."""
        self.left = False
        self.said: dict[str, str] = {}
        """What was reported of each job: a trouble that stays is told once."""

    def keep(self, last_call: float, now: float) -> None:
        """Bring all of it up to date, where a call came since the last time, and it is quiet or has waited long."""
        waited = now - last_call >= QUIET_S or now - self.looked >= LATEST_S
        if self.left or (last_call >= self.looked and waited and now >= self.due):
            self.looked = now
            self.bring_up()
            self.due = time.monotonic() + REST * (time.monotonic() - now)

    def bring_up(self) -> None:
        """One step for each work tree whose gate is open."""
        wanted: dict[str, Job] = {}
        self.gates.each(lambda gate: wanted.update(jobs(gate)))
        self.left = any([self.step(name, job) for name, job in wanted.items()])

    def step(self, name: str, job: Job) -> bool:
        """A little work on one job; whether more is left. What cannot be done is reported."""
        end = time.monotonic() + STEP_S
        said = ""
        try:
            return job(lambda: time.monotonic() > end)
        except LockTimeout:
            return True
        except Exception as error:  # noqa: BLE001  records of others are read, and whatever they break, the rest goes on
            words = error.strerror if isinstance(error, OSError) else str(error)
            said = f"{name} was left for later: {type(error).__name__}: {words}"
            return False
        finally:
            if said and said != self.said.get(name):
                report(said)
            self.said[name] = said


def jobs(gate: Gate) -> dict[str, Job]:
    """What is kept up for this gate's work tree, by what it is called. Raises OSError."""
    # They bring parsers of source code, and what blame is made of, which no call may load.
    from remit.provenance.map.keeping import IntentMap
    from remit.provenance.origins.put_words import kept_up

    root, machine = gate.workspace.root, gate.recorder.machine
    return {
        f"the intent map of {root}": IntentMap.of(gate.workspace, gate.recorder.log.name, machine).kept_up,
        f"the index of {root}": partial(kept_up, gate.workspace, machine),
    }

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
from remit.servers.open_gates import OpenGates, write_log_line

Job: TypeAlias = Callable[[Callable[[], bool]], bool]
"""Does some of it, until it is told that it is enough; whether more is left."""

QUIET_INTERVAL_S = 0.5
"""How long nobody may have called: the calls of an agent come in pairs, and often in rows."""

MAX_DELAY_S = 5.0
"""Without a pause of that length it is done meanwhile."""

MAX_STEP_S = 0.2
"""How long one repository is worked for at a time: Python lets one thread work, and calls come first."""

REST_FACTOR = 20
"""Its part in the time of this process is at most one in so many."""


class Upkeep:
    """When to look after it, and what is left to do."""

    def __init__(self, gates: OpenGates) -> None:
        self.gates = gates
        self.started_at = time.monotonic()
        """When it was last begun."""
        self.not_before = 0.0
        """Not before then, unless there is a backlog."""
        self.has_backlog = False
        self.reported_errors: dict[str, str] = {}
        """What was reported of each job: a trouble that stays is told once."""

    def run_if_due(self, last_call: float, now: float) -> None:
        """Bring all of it up to date, where a call came since the last time, and it is quiet or has waited long."""
        waited = now - last_call >= QUIET_INTERVAL_S or now - self.started_at >= MAX_DELAY_S
        if self.has_backlog or (last_call >= self.started_at and waited and now >= self.not_before):
            self.started_at = now
            self.run_all_jobs()
            self.not_before = time.monotonic() + REST_FACTOR * (time.monotonic() - now)

    def run_all_jobs(self) -> None:
        """One step for each work tree whose gate is open."""
        wanted: dict[str, Job] = {}
        self.gates.for_each_gate(lambda gate: wanted.update(find_jobs(gate)))
        self.has_backlog = any([self.run_job(name, job) for name, job in wanted.items()])

    def run_job(self, name: str, job: Job) -> bool:
        """A little work on one job; whether more is left. What cannot be done is reported."""
        end = time.monotonic() + MAX_STEP_S
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
            if said and said != self.reported_errors.get(name):
                write_log_line(said)
            self.reported_errors[name] = said


def find_jobs(gate: Gate) -> dict[str, Job]:
    """What is kept up for this gate's work tree, by what it is called. Raises OSError."""
    # They bring parsers of source code, and what blame is made of, which no call may load.
    from remit.provenance.map.intent_map_file import IntentMap
    from remit.provenance.origins.token_index import update_token_index

    root, machine = gate.workspace.root, gate.recorder.machine
    return {
        f"the intent map of {root}": IntentMap.open(gate.workspace, gate.recorder.log.name, machine).update,
        f"the index of {root}": partial(update_token_index, gate.workspace, machine),
    }

"""Background upkeep of the intent map and the index, kept current for `remit blame` while no call is pending.

No call waits for upkeep: inputs are collected in a repository's turn, reading and writing happen outside of the turn.
"""

import time
from collections.abc import Callable
from functools import partial
from typing import TypeAlias

from remit.gate.gate import Gate
from remit.ledger.lock import LockTimeout
from remit.servers.open_gates import OpenGates, write_log_line

Job: TypeAlias = Callable[[Callable[[], bool]], bool]
"""Does a part of the work until the given function returns True; returns True if work is left."""

QUIET_INTERVAL_S = 0.5
"""Required pause after a call: agents' calls come in pairs, and often in rows."""

MAX_DELAY_S = 5.0
"""Without such a pause the work starts after this delay."""

MAX_STEP_S = 0.2
"""Time for one repository at once: Python runs one thread at a time, and calls come first."""

REST_FACTOR = 20
"""Upkeep takes at most one part in so many of this process's time."""


class Upkeep:
    """Schedule of the upkeep, and its backlog."""

    def __init__(self, gates: OpenGates) -> None:
        self.gates = gates
        self.started_at = time.monotonic()
        """Time of the last start."""
        self.not_before = 0.0
        """Earliest time of the next start, unless a backlog exists."""
        self.has_backlog = False
        self.reported_errors: dict[str, str] = {}
        """Last reported error of each job: a lasting error is logged once."""

    def run_if_due(self, last_call: float, now: float) -> None:
        """Run the jobs if a call came since the last time, and the pause or the delay is over."""
        waited = now - last_call >= QUIET_INTERVAL_S or now - self.started_at >= MAX_DELAY_S
        if self.has_backlog or (last_call >= self.started_at and waited and now >= self.not_before):
            self.started_at = now
            self.run_all_jobs()
            self.not_before = time.monotonic() + REST_FACTOR * (time.monotonic() - now)

    def run_all_jobs(self) -> None:
        wanted: dict[str, Job] = {}
        self.gates.for_each_gate(lambda gate: wanted.update(find_jobs(gate)))
        self.has_backlog = any([self.run_job(name, job) for name, job in wanted.items()])

    def run_job(self, name: str, job: Job) -> bool:
        """Do one step of a job; return True if work is left. Failures are logged."""
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
    """Return the jobs of this gate's worktree, by name. Raises OSError."""
    # These load parsers of source code and the modules of blame: no call may load them.
    from remit.provenance.map.intent_map_file import IntentMap
    from remit.provenance.origins.token_index import update_token_index

    root, machine = gate.workspace.root, gate.recorder.machine
    return {
        f"the intent map of {root}": IntentMap.open(gate.workspace, gate.recorder.log.name, machine).update,
        f"the index of {root}": partial(update_token_index, gate.workspace, machine),
    }

"""Exchanges of an attempt with the repository's remote: an absent remote is waited for, and a refusing remote raises a
question to a person; the board shows the reason.
"""

import socket
import time
from collections.abc import Callable
from typing import TypeVar

from msgspec import Struct

from remit.core.untrusted_input import sanitise_line
from remit.gate.gate import Gate
from remit.workspace.git.command import TIMEOUT_S
from remit.workspace.merging import RemoteRefused
from remit.workspace.sharing.shared_refs import RemoteAway
from remit_fleet.board import Attempt, TaskState
from remit_fleet.engines.dbos import DbosEngine
from remit_fleet.remote import FleetRemote, IntentDiffers, TargetRewritten
from remit_fleet.states import REMOTE_WAIT

T = TypeVar("T")
MAX_PAUSE_S, ANSWER_PAUSE_S = 60.0, 2.0
MAX_LIMIT_S = 3600.0
MAX_WHY_CHARS = 900
QUESTIONS = (RemoteRefused, TargetRewritten, IntentDiffers)
"""Errors that waiting does not mend, and that are no fault of the attempt."""


class RemotePatience(Struct):
    """Patience with a remote that has not answered `since` a time: the pause before the next try, and that try's time
    limit. Both double, so that a large push over a slow line gets through in the end.
    """

    since: float
    pause_s: float = 1.0
    limit_s: float = TIMEOUT_S

    def double(self) -> None:
        self.pause_s, self.limit_s = min(2 * self.pause_s, MAX_PAUSE_S), min(2 * self.limit_s, MAX_LIMIT_S)


class WorkerStopped(RuntimeError):
    """Error for an attempt whose worker was stopped while it waited."""


def exchange_with_remote(
    engine: DbosEngine,
    gate: Gate,
    attempt: Attempt,
    exchange: Callable[[FleetRemote], T],
    wait: Callable[[float], bool],
    instead: Callable[[FleetRemote], T | None] = lambda _: None,
) -> T | None:
    """Return the result of an exchange, repeated until the remote answers and takes what is sent; None without a
    remote, and for an attempt that is superseded meanwhile.

    While the remote is away, a result of `instead` will do. `wait` pauses, and returns True to stop. Raises
    WorkerStopped.
    """
    name, patience, is_explained = gate.rules.config.orchestrator.remote, RemotePatience(time.time()), False
    while name:
        remote = FleetRemote(gate, name, patience.limit_s)
        try:
            done = exchange_or_do_without(remote, exchange, instead)
        except RemoteAway as error:
            is_explained = True
            if not engine.explain_wait(attempt.token, attempt.key, describe_away(error, patience.since)):
                return None
            if wait(patience.pause_s):
                raise WorkerStopped(f"its worker was stopped; {error}") from error
            patience.double()
        except QUESTIONS as error:
            why = f"{sanitise_line(str(error), MAX_WHY_CHARS)}. Mend it, then `remit plan resume {attempt.intent}`"
            if not engine.ask_person(attempt.token, attempt.key, why) or not wait_for_answer(engine, attempt, wait):
                return None
        else:
            if is_explained:
                engine.explain_wait(attempt.token, attempt.key, "")
            return done
    return None


def exchange_or_do_without(
    remote: FleetRemote, exchange: Callable[[FleetRemote], T], instead: Callable[[FleetRemote], T | None]
) -> T:
    try:
        return exchange(remote)
    except RemoteAway:
        if (found := instead(remote)) is None:
            raise
        return found


def wait_for_answer(engine: DbosEngine, attempt: Attempt, wait: Callable[[float], bool]) -> bool:
    """Wait until a person lets the attempt go on; return whether it still has its place. Raises WorkerStopped."""
    while not wait(ANSWER_PAUSE_S):
        board = engine.read_board()
        live = board.attempts.get(attempt.key)
        if live is None or live.token != attempt.token:
            return False
        if board.tasks[attempt.key].state is not TaskState.ASKING:
            return True
    raise WorkerStopped("its worker was stopped before a person answered")


def describe_away(error: RemoteAway, since: float) -> str:
    """Return the reason of a task that waits for a remote since a time, in words that follow "waits for"."""
    moment = time.strftime("%Y-%m-%d %H:%M:%S UTC", time.gmtime(since))
    return f"{REMOTE_WAIT}{moment} on {socket.gethostname()}: {error}"

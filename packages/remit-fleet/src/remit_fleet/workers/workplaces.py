"""Worktrees of the attempts that a worker runs: their leases, messages, meetings, budgets, checkpoints and ends. The
messages that an attempt's agent sends are stored for the fleet; notes and neighbouring tasks are delivered to it.
"""

import shutil
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from functools import partial

from msgspec import Struct, field
from msgspec.structs import replace

from remit.core.assignment import Assignment, hash_scope
from remit.core.call import SessionKey
from remit.gate.context import RECORDING_ERRORS
from remit.gate.people.messages import PendingMessages
from remit.gate.state.attempt_messages import AttemptMessage, AttemptMessages, FleetNeighbour, FleetView
from remit.gate.state.database import StateError
from remit.gate.state.workspace_state import State
from remit.workspace.git.command import GitError
from remit.workspace.place.assignment_file import AssignmentChanged, AssignmentFile, read_boot_clock_ns
from remit.workspace.place.workspace import Workspace
from remit.workspace.sandbox.private_git_folder import PrivateGitFolder
from remit_fleet.attempts import find_endings, find_warnings
from remit_fleet.board import AttemptEnd, Board, Hold, Order, OrderKind, Task, TaskState
from remit_fleet.conflict import ConflictKind, Evidence
from remit_fleet.database.notes import count_notes, list_notes
from remit_fleet.database.store import AWAY_ERRORS, Store
from remit_fleet.engines.engine import Engine
from remit_fleet.planning.roles import find_role
from remit_fleet.planning.write_sets import make_write_set
from remit_fleet.remote import SHARING_ERRORS, FleetRemote
from remit_fleet.states import FINAL_STATES, needs_hold
from remit_fleet.workers.agent import LOOK_INTERVAL_S, AgentProcess
from remit_fleet.workers.host import WorkerHost
from remit_fleet.workers.landing_rounds import trees_folder
from remit_fleet.workers.meetings import find_owners, list_new_denials, measure_party, write_lessons
from remit_fleet.workers.messages import is_heard, leave_message
from remit_fleet.workers.starting_point import StartingPoint

CHECKPOINT_BEATS = 24  # heartbeats between two checkpoints of a worktree: 120 s
DRAIN_S = 10.0


class Workplace(Struct):
    """Worktree of an attempt with its assignment, and the agent's process once it runs."""

    tree: Workspace
    assignment: AssignmentFile
    renewed_s: float
    start: StartingPoint
    known: frozenset[SessionKey] = frozenset()
    """Sessions of earlier attempts in this worktree."""
    process: AgentProcess | None = None
    ending: tuple[AttemptEnd, str] | None = None
    """How the attempt was ended, also before its agent was started: then none starts."""
    messages: list[Order] = []
    unheard: list[tuple[SessionKey, Order]] = []
    delivery: threading.Lock = field(default_factory=threading.Lock)
    """Held while messages are delivered: by the heartbeat, or at the attempt's end."""
    beats: int = 0
    aside: threading.Thread | None = None
    """What is done for the attempt beside the heartbeat."""
    began: float = 0.0
    denied: dict[str, float] = {}
    """Paths outside of the write set that the agent was denied, with when it last was."""
    wanted: list[str] = []
    """Paths that the agent asked for and another task holds."""
    is_warned: bool = False
    """Whether its agent has been told that a budget is nearly used up."""
    view: FleetView | None = None
    """What the attempt has been brought of others."""

    def set_process(self, process: AgentProcess) -> None:
        self.process = process
        if self.ending is not None:
            process.cancel(*self.ending)

    def cancel(self, ended_as: AttemptEnd, why: str) -> None:
        self.ending = (ended_as, why)
        if self.process is not None:
            self.process.cancel(ended_as, why)


def name_folders(intent: str, attempt: int | str) -> tuple[str, str]:
    """Return the names of an attempt's folders for temporary files and for state, or the patterns of all of them."""
    return f"{intent}-{attempt}.tmp", f"{intent}-{attempt}.state"


class Workplaces:
    """Workplaces of a worker's attempts, by the token of the hold."""

    def __init__(self, host: WorkerHost) -> None:
        self.host = host
        self.by_token: dict[int, Workplace] = {}

    def renew(self, place: Workplace, hold: Hold, board: Board, asked: float) -> None:
        """Write the assignment anew after the lease was renewed, and keep a checkpoint from time to time."""
        task = board.tasks.get(hold.key)
        is_paused = task is not None and task.state in (TaskState.PAUSED, TaskState.ASKING)
        terms = place.assignment.terms
        if terms is None:
            return
        place.renewed_s = asked
        left_s = self.host.engine.timing.assignment_s - (read_boot_clock_ns() / 1e9 - asked)
        try:
            place.assignment.change_state(replace(terms, state="paused" if is_paused else "active"), max(left_s, 0.0))
        except AssignmentChanged as error:
            if place.process is not None:
                place.process.cancel(AttemptEnd.FAILED, str(error))
            return
        except OSError:
            return  # it runs out by itself
        if task is not None and task.state is TaskState.ASKING and place.process is not None:
            place.process.cancel(AttemptEnd.CANCELLED, task.why)  # a person has taken it over
        self.deliver_messages(place, hold.attempt)
        with suppress(GitError, OSError):
            PrivateGitFolder(place.tree).refresh()
        place.beats += 1
        if place.beats % CHECKPOINT_BEATS == 0:
            self.run_aside(place, partial(self.keep, place, hold.intent, hold.attempt))

    def run_aside(self, place: Workplace, action: Callable[[], None]) -> None:
        """Run what may wait for a remote beside the heartbeat, unless the last such action still runs."""

        def run_once() -> None:
            with suppress(*AWAY_ERRORS):
                action()

        if place.aside is None or not place.aside.is_alive():
            place.aside = threading.Thread(target=run_once, daemon=True)
            place.aside.start()

    def take_message(self, order: Order) -> None:
        """Keep a person's message for the task's agent until the agent's session is known."""
        if order.kind is OrderKind.STEER:
            for place in list(self.by_token.values()):
                terms = place.assignment.terms
                if terms is not None and terms.task == f"{order.repository}:{order.intent}":
                    place.messages.append(order)

    def deliver_messages(self, place: Workplace, attempt: int) -> None:
        environment = self.host.settings.environment
        with suppress(StateError), place.delivery:
            while place.messages:
                session = leave_message(place.tree, environment, place.known, place.messages[0])
                if session is None:
                    break
                place.unheard.append((session, place.messages.pop(0)))
            for session, order in list(place.unheard):
                if is_heard(place.tree, environment, session, order):
                    self.host.engine.finish_order(order, attempt)
                    place.unheard.remove((session, order))

    def watch_denials(self, place: Workplace, hold: Hold, board: Board) -> None:
        """Settle with the owners the agent's denied wishes for held paths."""
        with suppress(*RECORDING_ERRORS):
            with self.host.open_state(place.tree) as state:
                denied = list_new_denials(state, place.began, place.denied)
            place.denied |= denied
            wanted, place.wanted = [*denied, *place.wanted], []
            for owner, paths in find_owners(board, hold.key, wanted).items():
                self.meet(place, hold, board.holds[hold.repository, owner], paths)

    def watch_scope(self, place: Workplace, hold: Hold, board: Board) -> None:
        """Widen the attempt's write set once a person has widened its intent's scope. A path that another task holds is
        a meeting with its owner.
        """
        task, terms = board.tasks.get(hold.key), place.assignment.terms
        if task is None or terms is None or task.state is not TaskState.RUNNING:
            return
        with suppress(*RECORDING_ERRORS, AssignmentChanged):
            with self.host.open_gate(hold.repository) as gate:
                intent, settings = gate.intents.find_intent(hold.intent), gate.rules.config.orchestrator
            wider = make_write_set(intent, find_role(settings, task.role), settings.commons).scope if intent else ()
            added = tuple(pattern for pattern in wider if pattern not in hold.scope)
            if not added:
                return
            owner = self.host.engine.widen_hold(hold.token, hold.key, wider, hash_scope(wider))
            if owner is None:
                scope = (*wider, *settings.union_paths)
                place.assignment.change_state(replace(terms, scope=scope), self.host.engine.timing.assignment_s)
                self.tell_sessions(place, f"Remit: {hold.intent} may write {', '.join(added)} now too.")
            elif owned := board.holds.get((hold.repository, owner)):
                self.meet(place, hold, owned, added)

    def meet(self, place: Workplace, hold: Hold, owned: Hold, paths: tuple[str, ...]) -> None:
        """Have a meeting of two tasks settled, tell the agent, and write the lesson."""
        theirs = self.by_token.get(owned.token)
        mine = place.assignment.terms.base if place.assignment.terms else ""
        base = theirs.assignment.terms.base if theirs and theirs.assignment.terms else ""
        earlier = measure_party(owned, theirs.tree if theirs else None, base)
        evidence = Evidence(ConflictKind.GROW, earlier, measure_party(hold, place.tree, mine), paths)
        settlement = self.host.engine.meet_owner(hold.token, hold.key, evidence)
        if settlement is None:
            return
        say = f"Remit: {', '.join(paths[:3])} belongs to {owned.intent}. {settlement.kind}: {settlement.why}. "
        self.tell_sessions(place, f"{say}Leave it out, or send {owned.intent} the change with submit_patch.")
        with self.host.open_gate(hold.repository) as gate:
            write_lessons(self.host.engine.store, gate, hold.repository)

    def watch_budgets(self, board: Board) -> None:
        """End local agents with an exhausted budget, and warn agents with a nearly exhausted budget."""
        for ending in find_endings(board):
            if ending.ended_as is AttemptEnd.OVER_BUDGET:
                self.end(ending.token, ending.ended_as, ending.why)
        for key, name in find_warnings(board).items():
            place = self.by_token.get(board.attempts[key].token)
            if place is not None and not place.is_warned:
                place.is_warned = True
                self.tell_sessions(
                    place, f"Remit: the budget of {name} is nearly used up. Finish what is begun, and end."
                )

    def tell_sessions(self, place: Workplace, text: str) -> None:
        with suppress(*RECORDING_ERRORS), self.host.open_state(place.tree) as state:
            for session in state.list_recent_sessions():
                PendingMessages(state).add_message(session, text)

    def end(self, token: int, ended_as: AttemptEnd, why: str) -> None:
        place = self.by_token.get(token)
        if place is None:
            return
        if place.assignment.terms is not None:
            with suppress(OSError, AssignmentChanged):
                place.assignment.change_state(replace(place.assignment.terms, state="ended"), 0.0)
        place.cancel(ended_as, why)

    def end_overdue(self) -> None:
        """End agents not renewed for too long, before a new attempt may take their place."""
        now = read_boot_clock_ns() / 1e9
        for token, place in list(self.by_token.items()):
            if now - place.renewed_s > self.host.engine.timing.assignment_s:
                self.end(token, AttemptEnd.LOST, "the database did not answer in time")

    def wait_until_left(self) -> None:
        until = time.monotonic() + DRAIN_S
        while self.by_token and time.monotonic() < until:
            time.sleep(LOOK_INTERVAL_S)

    def leave(self, token: int) -> None:
        place = self.by_token.get(token)
        if place is None or place.assignment.terms is None:
            return
        if place.aside is not None and place.aside is not threading.current_thread():
            place.aside.join(DRAIN_S)
        intent, attempt = place.assignment.terms.intent, place.assignment.terms.attempt
        with suppress(GitError, OSError):  # again by whoever needs the worktree next
            self.host.open_trees(self.find_repository_of(place)).end_git_folder(place.tree)
        self.keep(place, intent, attempt)
        self.relay_rest(place.tree, place.assignment.terms, self.host.engine.read_board())
        with suppress(*AWAY_ERRORS):  # the next attempt's brief has what is unheard
            self.deliver_messages(place, attempt)
        self.end(token, AttemptEnd.CANCELLED, "")
        self.by_token.pop(token, None)
        folder = trees_folder(self.host.settings.home, self.find_repository_of(place))
        for name in name_folders(intent, attempt):
            shutil.rmtree(folder / name, ignore_errors=True)

    def keep(self, place: Workplace, intent: str, attempt: int) -> None:
        """Keep a checkpoint of the worktree. After a failure, the worktree itself still holds the files."""
        repository = self.find_repository_of(place)
        with suppress(GitError, OSError):
            self.host.open_trees(repository).checkpoint(place.tree, intent, attempt, "a checkpoint", int(time.time()))
            with self.host.open_gate(repository) as gate, suppress(*SHARING_ERRORS):
                if remote := gate.rules.config.orchestrator.remote:
                    FleetRemote(gate, remote).push_checkpoint(f"{intent}/{attempt}")

    def relay(self, place: Workplace, task: Task | None, board: Board) -> None:
        """Carry messages between the attempt and the fleet. Failures are retried at the next beat."""
        terms = place.assignment.terms
        if terms is None or task is None:
            return
        engine = self.host.engine
        with suppress(*RECORDING_ERRORS), self.host.open_state(place.tree) as state:
            sent = take_messages(engine, state, task, terms.attempt, terms.token)
            place.wanted += [path for message in sent if message.kind == "grow" for path in message.paths]
            place.view = bring_view(engine.store, state, board, task, terms.attempt, terms.token, place.view)

    def relay_rest(self, tree: Workspace, terms: Assignment, board: Board) -> None:
        """Store the last messages of an ended attempt, and delete the rest."""
        repository, _, intent = terms.task.partition(":")
        task = board.tasks.get((repository, intent))
        with suppress(*RECORDING_ERRORS), self.host.open_state(tree) as state:
            if task is not None:
                take_messages(self.host.engine, state, task, terms.attempt, terms.token)
            AttemptMessages(state, terms.token).forget()

    def find_repository_of(self, place: Workplace) -> str:
        return place.assignment.terms.task.partition(":")[0] if place.assignment.terms else ""


def take_messages(engine: Engine, state: State, task: Task, attempt: int, token: int) -> tuple[AttemptMessage, ...]:
    """Store and return the attempt's sent messages. Messages sent again after a worker's death are stored once."""
    messages = AttemptMessages(state, token)
    sent = messages.read_outbox().messages
    if sent:
        engine.store_messages(task, attempt, token, sent)
        messages.drop_messages(sent[-1].number)
    return sent


def bring_view(
    store: Store, state: State, board: Board, task: Task, attempt: int, token: int, brought: FleetView | None
) -> FleetView:
    with store.read() as connection:
        posted = count_notes(connection, task.key)
        view = FleetView(list_notes(connection, task, attempt), list_neighbours(board, task), posted)
    if view != brought:
        AttemptMessages(state, token).deliver_view(view)
    return view


def list_neighbours(board: Board, task: Task) -> tuple[FleetNeighbour, ...]:
    beside = (
        other
        for other in board.tasks.values()
        if other.repository == task.repository and other.key != task.key and other.state not in FINAL_STATES
    )
    return tuple(
        FleetNeighbour(
            other.intent,
            other.state,
            board.find_role(other).name,
            attempt.agent if (attempt := board.attempts.get(other.key)) else "",
            other.scope,
            is_holding=needs_hold(other),
        )
        for other in beside
    )

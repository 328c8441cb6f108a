"""Executor of a host: its slots, heartbeat and renewals, the sweep by one leader, and the steps of an attempt.

A short outage of the database stops no agent: the loop retries, and an agent with a possibly expired lease is ended
here before a new attempt can take its place.
"""

import os
import shutil
import signal
import socket
import threading
import time
from collections.abc import Callable, Generator, Iterable, Mapping
from contextlib import AbstractContextManager, contextmanager, suppress
from pathlib import Path
from typing import TypeVar

from msgspec import Struct
from msgspec.structs import replace

from remit.core.assignment import ANYWHERE, Assignment, RoleEffect, hash_scope
from remit.core.call import SessionKey
from remit.core.config import Commons
from remit.core.intent import FINAL_STATUSES, TRANSITIONS, Status
from remit.core.scope.path_patterns import Scope
from remit.core.untrusted_input import sanitise_line
from remit.gate.context import RECORDING_ERRORS
from remit.gate.gate import Gate
from remit.gate.intents.lessons import list_open_items
from remit.gate.machine import Environment
from remit.gate.pending_messages import PendingMessages
from remit.gate.state.attempt_messages import AttemptMessages, FleetView
from remit.gate.state.database import StateError
from remit.gate.state.workspace_state import State
from remit.gate.team_hooks.tool_call_hooks import command_environment
from remit.gate.team_hooks.verify_commands import output_tail
from remit.gate.trust import are_trusted
from remit.orchestrator.board import (
    Attempt,
    AttemptEnd,
    AttemptState,
    Board,
    Hold,
    Order,
    OrderKind,
    Role,
    Task,
    TaskState,
    Worker,
)
from remit.orchestrator.conflict import ConflictKind, Evidence
from remit.orchestrator.database.holds import become_leader
from remit.orchestrator.database.notes import find_verdict
from remit.orchestrator.database.store import AWAY_ERRORS, StoreError
from remit.orchestrator.database.troubles import describe_trouble
from remit.orchestrator.endings import find_endings, find_warnings
from remit.orchestrator.engines.dbos import DbosEngine
from remit.orchestrator.engines.workflows import ATTEMPT_STEPS, FLOW_VERSION, StepEnd, launch_executor, register_queues
from remit.orchestrator.planning.roles import MAX_INSTRUCTION_BYTES, ROLE_DUTIES, find_role, is_reviewer
from remit.orchestrator.planning.write_sets import make_write_set
from remit.orchestrator.remote import SHARING_ERRORS, FleetRemote
from remit.orchestrator.states import FINAL_STATES
from remit.orchestrator.workers.agent import (
    FIRST_PORT,
    LOOK_INTERVAL_S,
    PORTS_OF_SLOT,
    AgentCommand,
    AgentProcess,
    AgentRun,
    AttemptPlaces,
    claim_slot,
    explain_unwired,
    fill_words,
    make_jail,
    run_setup,
)
from remit.orchestrator.workers.brief import MAX_REASON_CHARS, StageBrief, describe_handover, write_brief
from remit.orchestrator.workers.feed import AgentFeed, AgentUsage
from remit.orchestrator.workers.landing_rounds import find_base, land_handed_in, trees_folder
from remit.orchestrator.workers.meetings import find_owners, list_new_denials, measure_party, write_lessons
from remit.orchestrator.workers.messages import is_heard, leave_message, list_sessions
from remit.orchestrator.workers.relay import bring_view, take_messages
from remit.orchestrator.workers.starting_point import StartingPoint, find_starting_point
from remit.wiring.agents import FOLDER_VARIABLES
from remit.workspace.git.command import Git, GitError
from remit.workspace.intents_file.storage import IntentsFileChanged
from remit.workspace.merging import Identity
from remit.workspace.place.assignment_file import AssignmentChanged, AssignmentFile, read_assignment
from remit.workspace.place.workspace import Workspace, locate_workspace
from remit.workspace.processes.process_tracking import process_start_time
from remit.workspace.safe_files import hold_lock, read_regular_file
from remit.workspace.sandbox.jail import find_bubblewrap
from remit.workspace.sandbox.reaper import MISSING_EXIT_CODE
from remit.workspace.sharing.shared_refs import RemoteAway
from remit.workspace.worktrees import Worktrees

T = TypeVar("T")
MAX_RETRY_S = 5.0
MAX_PUSH_PAUSE_S = 30.0
REPORT_INTERVAL_S = 2.0
CHECKPOINT_BEATS = 24  # heartbeats between two checkpoints of a worktree: 120 s
MAX_INTENT_TRIES = 50
DRAIN_S = 10.0
MAX_WHY_CHARS = 300
TREE_LOCK_S, LANDING_LOCK_S = 600.0, 24 * 3600.0
PASSED_VARIABLES = ("PATH", "HOME", "USER", "LOGNAME", "LANG", "LC_ALL", "LC_CTYPE", "TZ", "GIT_CONFIG_NOSYSTEM")
"""Variables that every agent gets. None of them may hold a secret."""

ROLE_EFFECTS: tuple[RoleEffect, ...] = ("read", "write", "execute")
SUPERSEDED_END = StepEnd(AttemptEnd.SUPERSEDED, "another attempt has its place")


class WorkerSettings(Struct, frozen=True):
    """Settings of a worker. `commands` are the startable agents, by name."""

    slots: int
    commands: Mapping[str, AgentCommand]
    variables: Mapping[str, str]
    home: Path
    environment: Environment
    until_idle: bool = False
    ensure_daemon: Callable[[], None] = lambda: None
    version: str = ""
    clones: Mapping[str, Path] = {}
    """Main worktrees of the shared repositories on this host."""
    tell: Callable[[str], None] = lambda _: None
    """Tells the person who started the worker."""


class Workplace(Struct):
    """Worktree of an attempt with its assignment, and the agent's process once it runs."""

    tree: Workspace
    assignment: AssignmentFile
    renewed_s: float
    start: StartingPoint
    known: frozenset[SessionKey] = frozenset()
    """Sessions of earlier attempts in this worktree."""
    process: AgentProcess | None = None
    messages: list[Order] = []
    unheard: list[tuple[SessionKey, Order]] = []
    beats: int = 0
    began: float = 0.0
    denied: dict[str, float] = {}
    """Paths outside of the write set that the agent was denied, with when it last was."""
    wanted: list[str] = []
    """Paths that the agent asked for and another task holds."""
    is_warned: bool = False
    """Whether its agent has been told that a budget is nearly used up."""
    view: FleetView | None = None
    """What the attempt has been brought of others."""


def name_worker() -> str:
    """Return a globally unique id of this process: host, boot, process id, and start time."""
    boot = Path("/proc/sys/kernel/random/boot_id")
    boot_id = boot.read_text().strip()[:8] if boot.exists() else "0"
    return f"{socket.gethostname()}:{boot_id}:{os.getpid()}:{process_start_time(os.getpid())}"


def read_boot_clock_s() -> float:
    return time.clock_gettime(getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC))


class FleetWorker:
    """Executor. `run_until_stopped` blocks until the worker is drained, idle, or `stopping` is set; the engine's
    threads end with the process.
    """

    def __init__(self, engine: DbosEngine, settings: WorkerSettings) -> None:
        self.engine = engine
        self.settings = settings
        self.id = name_worker()
        self.stopping = threading.Event()
        self.places: dict[int, Workplace] = {}  # by token
        self.intents_lock = threading.Lock()
        self.bubblewrap = find_bubblewrap()
        self.last_order = 0
        self.away_since_s: float | None = None

    def describe(self) -> Worker:
        return Worker(
            id=self.id,
            host=socket.gethostname(),
            boot=self.id.split(":")[1],
            slots=self.settings.slots,
            agents=tuple(self.settings.commands),
            version=self.settings.version,
            flow=FLOW_VERSION,
            repositories=tuple(self.settings.clones),
        )

    # -- the loop

    def run_until_stopped(self) -> None:
        """Run until stopped, drained or idle. Raises StoreError for a database unusable by this worker."""
        timing = self.engine.timing
        slots, clones = self.settings.slots, tuple(self.settings.clones)
        self.retry(lambda: self.engine.require_new_worker(self.id))
        queues = self.engine.queues
        self.retry(lambda: launch_executor(self.engine, queues, self.id, slots, timing.poll_s, self, clones))
        due_beat = due_sweep = 0.0
        try:
            while not self.stopping.wait(timing.poll_s):
                if self.has_new_order() or time.monotonic() >= due_beat:
                    due_beat = time.monotonic() + timing.beat_s / 2
                    self.try_once(self.beat)
                self.end_overdue()
                if time.monotonic() >= due_sweep:
                    due_sweep = time.monotonic() + timing.sweep_s
                    self.try_once(self.look_after_fleet)
                    if self.settings.until_idle and self.is_idle():
                        break
        finally:
            with suppress(StoreError):
                self.try_once(self.drain_slots)
                self.try_once(lambda: self.engine.remove_worker(self.id))
            for token in list(self.places):
                self.end_place(token, AttemptEnd.LOST, "its worker was stopped")
            self.wait_for_places()

    def drain_slots(self) -> None:
        """Take no further work, end the agents, and wait for the last checkpoint of each."""
        self.engine.drain_worker(self.id)
        for place in list(self.places.values()):
            if place.process is not None:
                place.process.cancel(AttemptEnd.LOST, "its worker was stopped")
        self.wait_for_places()

    def wait_for_places(self) -> None:
        until = time.monotonic() + DRAIN_S
        while self.places and time.monotonic() < until:
            time.sleep(LOOK_INTERVAL_S)

    def retry(self, action: Callable[[], None]) -> None:
        """Repeat the action until the database answers, or the worker is stopped."""
        pause_s = 0.1
        while not self.try_once(action):
            if self.stopping.wait(pause_s):
                return
            pause_s = min(2 * pause_s, MAX_RETRY_S)

    def try_once(self, action: Callable[[], None]) -> bool:
        """Run the action, and return whether the database answered. Reports the start and the end of an outage."""
        now = time.monotonic()
        try:
            action()
        except AWAY_ERRORS as error:
            if self.away_since_s is None:
                self.away_since_s = now
                trouble = describe_trouble(error)
                self.settings.tell(f"{trouble.what}\nhint: {trouble.fix}")
            return False
        if self.away_since_s is not None:
            self.settings.tell(f"the fleet database answers again, after {now - self.away_since_s:.0f} s")
            self.away_since_s = None
        return True

    def has_new_order(self) -> bool:
        try:
            newest = self.engine.find_newest_order()
        except AWAY_ERRORS:
            return False
        known, self.last_order = self.last_order, newest
        return newest != known

    def beat(self) -> None:
        """Renew the leases, take orders, end agents of superseded attempts, and update paused assignments."""
        asked = read_boot_clock_s()
        held = {hold.token: hold for hold in self.engine.beat(self.describe())}
        for order in self.engine.take_orders(self.id):
            self.take_message(order)
        board = self.engine.read_board() if held else None
        for token, place in list(self.places.items()):
            if token not in held:
                self.end_place(token, AttemptEnd.SUPERSEDED, "another attempt has its place")
                if place.process is None:  # between two steps: none of them comes
                    self.leave_place(token)
            elif board is not None:
                self.renew(place, held[token], board, asked)
                self.relay(place, board.tasks.get(held[token].key), board)
                self.watch_denials(place, held[token], board)
                self.watch_scope(place, held[token], board)
        if board is not None:
            self.watch_budgets(board)

    def renew(self, place: Workplace, hold: Hold, board: Board, asked: float) -> None:
        """Write the assignment anew after the lease was renewed, and keep a checkpoint from time to time."""
        task = board.tasks.get(hold.key)
        is_paused = task is not None and task.state in (TaskState.PAUSED, TaskState.ASKING)
        terms = place.assignment.terms
        if terms is None:
            return
        place.renewed_s = asked
        left_s = self.engine.timing.assignment_s - (read_boot_clock_s() - asked)
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
        place.beats += 1
        if place.beats % CHECKPOINT_BEATS == 0:
            self.keep(place, hold.intent, hold.attempt)

    def take_message(self, order: Order) -> None:
        """Keep a person's message for the task's agent until the agent's session is known."""
        if order.kind is OrderKind.STEER:
            for place in list(self.places.values()):
                terms = place.assignment.terms
                if terms is not None and terms.task == f"{order.repository}:{order.intent}":
                    place.messages.append(order)

    def deliver_messages(self, place: Workplace, attempt: int) -> None:
        """Leave the messages for the agent's session, for delivery with the answer to its next call or prompt. A
        message unheard at the session's end goes into the next attempt's brief.
        """
        environment = self.settings.environment
        with suppress(StateError):
            while place.messages:
                session = leave_message(place.tree, environment, place.known, place.messages[0])
                if session is None:
                    break
                place.unheard.append((session, place.messages.pop(0)))
            for session, order in list(place.unheard):
                if is_heard(place.tree, environment, session, order):
                    self.engine.finish_order(order, attempt)
                    place.unheard.remove((session, order))

    def watch_denials(self, place: Workplace, hold: Hold, board: Board) -> None:
        """Settle with the owners the agent's denied wishes for held paths."""
        with suppress(*RECORDING_ERRORS):
            with self.open_state(place.tree) as state:
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
            with self.open_gate(hold.repository) as gate:
                intent, settings = gate.intents.find_intent(hold.intent), gate.rules.config.orchestrator
            wider = make_write_set(intent, find_role(settings, task.role), settings.commons).scope if intent else ()
            added = tuple(pattern for pattern in wider if pattern not in hold.scope)
            if not added:
                return
            owner = self.engine.widen_hold(hold.token, hold.key, wider, hash_scope(wider))
            if owner is None:
                scope = (*wider, *settings.union_paths)
                place.assignment.change_state(replace(terms, scope=scope), self.engine.timing.assignment_s)
                self.tell_sessions(place, f"Remit: {hold.intent} may write {', '.join(added)} now too.")
            elif owned := board.holds.get((hold.repository, owner)):
                self.meet(place, hold, owned, added)

    def meet(self, place: Workplace, hold: Hold, owned: Hold, paths: tuple[str, ...]) -> None:
        """Have a meeting of two tasks settled, tell the agent, and write the lesson."""
        theirs = self.places.get(owned.token)
        mine = place.assignment.terms.base if place.assignment.terms else ""
        base = theirs.assignment.terms.base if theirs and theirs.assignment.terms else ""
        earlier = measure_party(owned, theirs.tree if theirs else None, base)
        evidence = Evidence(ConflictKind.GROW, earlier, measure_party(hold, place.tree, mine), paths)
        settlement = self.engine.meet_owner(hold.token, hold.key, evidence)
        if settlement is None:
            return
        say = f"Remit: {', '.join(paths[:3])} belongs to {owned.intent}. {settlement.kind}: {settlement.why}. "
        self.tell_sessions(place, f"{say}Leave it out, or send {owned.intent} the change with submit_patch.")
        with self.open_gate(hold.repository) as gate:
            write_lessons(self.engine.store, gate, hold.repository)

    def watch_budgets(self, board: Board) -> None:
        """End local agents with an exhausted budget, and warn agents with a nearly exhausted budget."""
        for ending in find_endings(board):
            if ending.ended_as is AttemptEnd.OVER_BUDGET:
                self.end_place(ending.token, ending.ended_as, ending.why)
        for key, name in find_warnings(board).items():
            place = self.places.get(board.attempts[key].token)
            if place is not None and not place.is_warned:
                place.is_warned = True
                self.tell_sessions(
                    place, f"Remit: the budget of {name} is nearly used up. Finish what is begun, and end."
                )

    def tell_sessions(self, place: Workplace, text: str) -> None:
        """Leave a message for the agent's sessions, for delivery with the answer to their next call or prompt."""
        with suppress(*RECORDING_ERRORS), self.open_state(place.tree) as state:
            for session in state.list_recent_sessions():
                PendingMessages(state).add_message(session, text)

    def end_place(self, token: int, ended_as: AttemptEnd, why: str) -> None:
        place = self.places.get(token)
        if place is None:
            return
        if place.assignment.terms is not None:
            with suppress(OSError, AssignmentChanged):
                place.assignment.change_state(replace(place.assignment.terms, state="ended"), 0.0)
        if place.process is not None:
            place.process.cancel(ended_as, why)

    def end_overdue(self) -> None:
        """End agents not renewed for too long, before a new attempt may take their place."""
        now = read_boot_clock_s()
        for token, place in list(self.places.items()):
            if now - place.renewed_s > self.engine.timing.assignment_s:
                self.end_place(token, AttemptEnd.LOST, "the database did not answer in time")

    def look_after_fleet(self) -> None:
        """Schedule and, as the one leader, end attempts of dead workers."""
        with self.engine.store.write() as connection:
            self.engine.store.require_version(connection)
            for_s = 3 * self.engine.timing.sweep_s
            leads = become_leader(self.engine.store, connection, "sweep", self.id, for_s)
        register_queues(self.id, self.settings.slots, self.engine.timing.poll_s, self.settings.clones)
        if leads:
            self.engine.sweep()
        if not self.engine.is_draining(self.id):
            self.engine.dispatch()
        elif not self.places:
            self.stopping.set()

    def is_idle(self) -> bool:
        try:
            board = self.engine.read_board()
        except AWAY_ERRORS:
            return False
        quiet = (*FINAL_STATES, TaskState.ASKING, TaskState.PAUSED)
        return not self.places and all(task.state in quiet for task in board.tasks.values())

    # -- an attempt, step by step

    def run_step(self, step: str, attempt: Attempt) -> StepEnd:
        steps: dict[str, Callable[[Attempt], StepEnd]] = {
            "prepare": self.prepare,
            "run": self.run_agent,
            "check": self.check,
            "hand_in": self.hand_in,
        }
        pause_s = 0.1
        while True:
            try:
                return self.end_step(step, attempt, steps[step](attempt))
            except AWAY_ERRORS:
                # Away for a moment: no step has begun what it cannot begin again when it asks the database.
                if self.stopping.wait(pause_s):
                    raise
                pause_s = min(2 * pause_s, MAX_RETRY_S)
            except Exception as error:  # noqa: BLE001  whatever breaks, the attempt ends, and its hold is released
                kind = type(error).__name__
                failed = StepEnd(AttemptEnd.FAILED, f"{kind}: {error}"[:500], f"{step}: {kind}")
                return self.end_step(step, attempt, failed)

    def end_step(self, step: str, attempt: Attempt, end: StepEnd) -> StepEnd:
        if end.ended_as is not None or step == ATTEMPT_STEPS[-1]:
            self.leave(attempt)
        return end

    def prepare(self, attempt: Attempt) -> StepEnd:
        """Make the worktree, and move the intent on first: a worktree without the folder cannot."""
        board = self.engine.read_board()
        task = board.tasks[attempt.key]
        plan = board.plans[task.plan]
        target = plan.target
        with self.open_gate(attempt.repository) as gate, self.intents_lock:
            found = self.share(gate, lambda remote: remote.take_in_plan(plan, attempt.intent))
        base = task.head or found or find_base(self.find_workspace(attempt.repository), target, plan.base)
        self.move_intent(attempt.repository, attempt.intent, "IN_PROGRESS")
        with self.open_gate(attempt.repository) as gate:
            settings = gate.rules.config.orchestrator
            role = find_role(settings, board.find_role(task).name)
        scope = (*task.scope, *settings.union_paths)
        trees = self.open_trees(attempt.repository)
        with self.lock(attempt.repository, "trees", TREE_LOCK_S):
            self.settle_old_trees(trees)
            last = self.find_last_attempt(attempt)
            start = find_starting_point(trees, base, (scope, role.paths), last)
            tree = trees.prepare(attempt.intent, attempt.attempt, start.commit)
            assignment = AssignmentFile(tree)
            terms = Assignment(
                task=f"{attempt.repository}:{attempt.intent}",
                intent=attempt.intent,
                attempt=attempt.attempt,
                token=attempt.token,
                scope=scope,
                role=role.name,
                paths=role.paths,
                effects=tuple(effect for effect in ROLE_EFFECTS if effect in role.effects),
                target=target,
                base=base,
            )
            asked = read_boot_clock_s()
            if not self.engine.move_attempt(attempt.token, attempt.key, AttemptState.PREPARED, base=base):
                return SUPERSEDED_END
            assignment.write(terms, self.engine.timing.assignment_s)
        known = list_sessions(tree, self.settings.environment)
        place = Workplace(tree, assignment, asked, start, known, began=self.settings.environment.clock())
        self.places[attempt.token] = place
        self.relay(place, task, board)
        return self.set_up_tree(attempt)

    def set_up_tree(self, attempt: Attempt) -> StepEnd:
        """Run the repository's command that prepares a worktree, if trusted by a person."""
        with self.open_gate(attempt.repository) as gate:
            settings = gate.rules.config.orchestrator
            command = settings.setup
            if not command:
                return StepEnd()
            if not are_trusted(settings.setup_items, gate.recorder):
                why = "nobody on this host trusts `[orchestrator] setup`: `remit trust` shows it and asks"
                return StepEnd(AttemptEnd.FAILED, why, "setup is not trusted")
            words = ("/bin/sh", "-c", command) if isinstance(command, str) else command
            places = self.find_places(attempt, gate.workspace)
            jail = make_jail(places, "", words, self.settings.environment, self.search_path, settings.links)
            variables = {**command_environment(self.settings.environment), "TMPDIR": str(places.temporary)}
            git = Git(places.tree.root)
            before = git.text("status", "--porcelain", "--untracked-files=normal")
            ran = run_setup(words, jail, variables, settings.setup_minutes * 60)
            if ran.exit_code != 0:
                told = ran.failure or f"it ended with {ran.exit_code}"
                why = f"the setup command failed ({told}): {sanitise_line(output_tail(ran), MAX_WHY_CHARS)}"
                return StepEnd(AttemptEnd.FAILED, why, f"setup: {told}")
            changed = git.text("status", "--porcelain", "--untracked-files=normal")
            if changed != before:
                named = sanitise_line(changed, MAX_WHY_CHARS)
                why = f"the setup command changed what git sees: {named}; let git ignore what it makes"
                return StepEnd(AttemptEnd.FAILED, why, "setup: changes")
        return StepEnd()

    @property
    def search_path(self) -> str:
        return self.settings.variables.get("PATH", os.defpath)

    def find_places(self, attempt: Attempt, main: Workspace) -> AttemptPlaces:
        """Return the folders of an attempt, and create the temporary folder."""
        place = self.places[attempt.token]
        folder = trees_folder(self.settings.home, attempt.repository)
        temporary = folder / f"{attempt.intent}-{attempt.attempt}.tmp"
        temporary.mkdir(exist_ok=True, mode=0o700)
        return AttemptPlaces(main, place.tree, place.assignment.path.parent, temporary.resolve())

    def settle_old_trees(self, trees: Worktrees) -> None:
        """Keep the work of ended attempts in local worktrees as checkpoints, and release their worktrees for reuse."""
        found = [(tree, facts.terms) for tree in trees.list_trees() if (facts := read_assignment(tree))]
        # Read after the files: an attempt is on the board before its assignment is written.
        board = self.engine.read_board()
        current = {each.token for each in (*board.attempts.values(), *board.holds.values())}
        for tree, terms in found:
            if terms is None or terms.state == "ended" or terms.token in current:
                continue
            AssignmentFile(tree).write(replace(terms, state="ended"), 0.0)
            self.relay_rest(tree, terms, board)
            with suppress(GitError, OSError):
                trees.checkpoint(tree, terms.intent, terms.attempt, "left by a worker that is gone", int(time.time()))

    def run_agent(self, attempt: Attempt) -> StepEnd:
        """Run the agent to its end."""
        command, place = self.settings.commands.get(attempt.agent), self.places.get(attempt.token)
        if command is None or place is None:
            return StepEnd(AttemptEnd.FAILED, f"this worker has no agent {attempt.agent!r}", "no agent")
        unwired = explain_unwired(attempt.agent, command, self.settings.home, self.settings.variables, place.tree.root)
        if unwired:
            return StepEnd(AttemptEnd.FAILED, unwired, "not wired")
        with claim_slot(trees_folder(self.settings.home, attempt.repository).parent) as slot:
            process = AgentProcess(self.describe_run(attempt, place, command, slot))
            if not self.engine.move_attempt(attempt.token, attempt.key, AttemptState.STARTED):
                return SUPERSEDED_END
            self.settings.ensure_daemon()
            place.process = process
            report = Report(self.engine, attempt)
            end = process.wait(report.tell)
            place.process = None
        report.tell(process.feed, is_last=True)
        if end.ended_as is not None:
            return StepEnd(end.ended_as, end.why, str(end.ended_as))
        if end.code:
            told = f"{describe_exit(end.code)}: {process.feed.tail}"
            return StepEnd(AttemptEnd.FAILED, f"its agent ended with {told}"[:500], f"exit {told}")
        return StepEnd()

    def describe_run(self, attempt: Attempt, place: Workplace, command: AgentCommand, slot: int) -> AgentRun:
        """Return the agent's command with its prompt, its jail and its variables."""
        board = self.engine.read_board()
        task = board.tasks[attempt.key]
        neighbours = [hold for hold in board.holds.values() if hold.repository == attempt.repository]
        neighbours = [hold for hold in neighbours if hold.key != attempt.key]
        last = self.find_last_attempt(attempt)
        is_stage = last is None or (task.head and last.ended_as in (AttemptEnd.HANDED_IN, AttemptEnd.SENT_BACK))
        before = None if last is None or is_stage else describe_handover(last, place.start)
        with self.open_gate(attempt.repository) as gate:
            places, links = self.find_places(attempt, gate.workspace), gate.rules.config.orchestrator.links
            block = gate.intents.format_block(gate.intents.get(attempt.intent))
            stage = self.describe_stage(gate, attempt, task, place, board)
        unheard = self.engine.list_unheard(attempt.key)
        prompt = write_brief(attempt, task, block, neighbours, before, stage, [order.body for order in unheard])
        for order in unheard:
            self.engine.finish_order(order, attempt.attempt)
        words = fill_words(command, prompt=prompt, intent=attempt.intent, model=board.find_role(task).model)
        moving = FOLDER_VARIABLES.get(attempt.agent, ())[:1]
        names = (*PASSED_VARIABLES, *moving, *command.variables)
        return AgentRun(
            words=words,
            variables={
                **{name: self.settings.variables[name] for name in names if name in self.settings.variables},
                **command.settings,
                "TMPDIR": str(places.temporary),
                "REMIT_INTENT": attempt.intent,
                "REMIT_SLOT": str(slot),
                "REMIT_PORT": str(FIRST_PORT + PORTS_OF_SLOT * slot),
            },
            jail=make_jail(places, attempt.agent, words, self.settings.environment, self.search_path, links),
            log=trees_folder(self.settings.home, attempt.repository) / f"{attempt.intent}-{attempt.attempt}.log",
            bubblewrap=self.bubblewrap,
        )

    def find_last_attempt(self, attempt: Attempt) -> Attempt | None:
        """Return the attempt before this one, if its work is to be taken on."""
        task = self.engine.read_board().tasks[attempt.key]
        known = self.engine.list_attempts(attempt.key)
        ended = [one for one in known if task.first_attempt <= one.attempt < attempt.attempt]
        return ended[-1] if ended else None

    def describe_stage(self, gate: Gate, attempt: Attempt, task: Task, place: Workplace, board: Board) -> StageBrief:
        """Return the attempt's facts about its role and the work so far."""
        role = find_role(gate.rules.config.orchestrator, board.find_role(task).name)
        diff, target = "", board.plans[task.plan].target
        if task.head:
            start = find_base(gate.workspace, target)
            start = self.open_trees(attempt.repository).store.find_merge_base(start, task.head) or start
            words = ("--no-color", "--no-ext-diff", "--no-textconv", "--find-renames", "--end-of-options")
            diff = Git(gate.workspace.root).run("diff", *words, start, task.head).decode("utf-8", "replace")
        return StageBrief(
            ROLE_DUTIES.get(role.name, ""),
            read_instructions(gate.workspace, role.name),
            is_reviewer(role),
            diff,
            list_open_items(gate.workspace, attempt.intent),
            place.view.notes if place.view is not None else (),
        )

    def check(self, attempt: Attempt) -> StepEnd:
        """Commit the agent's changes. Without any, or with a path outside the write set, the attempt ends."""
        place = self.places.get(attempt.token)
        terms = place.assignment.terms if place else None
        if place is None or terms is None:
            return SUPERSEDED_END
        message = f"{attempt.intent}: attempt {attempt.attempt}\n\nIntent: {attempt.intent}"
        author = Identity(attempt.agent, f"{attempt.agent}@remit.invalid", int(time.time()))
        board = self.engine.read_board()
        task = board.tasks[attempt.key]
        self.relay(place, task, board)
        handed = self.open_trees(attempt.repository).hand_in(place.tree, terms.sets, message, author)
        if handed.outside:
            named = ", ".join(handed.outside[:5])
            with self.open_gate(attempt.repository) as gate:
                instead = name_fragments(gate.rules.config.orchestrator.commons, handed.outside)
            why = f"it changed what is not its own: {named}{instead}"
            return StepEnd(AttemptEnd.FAILED, why[:500], f"outside: {named}"[:200])
        if not self.engine.move_attempt(attempt.token, attempt.key, AttemptState.STARTED, head=handed.commit):
            return SUPERSEDED_END
        return self.judge_stage(attempt, task, board, terms, has_changed=handed.commit != terms.base)

    def judge_stage(
        self, attempt: Attempt, task: Task, board: Board, terms: Assignment, *, has_changed: bool
    ) -> StepEnd:
        """Return how a stage ends: by its verdict, or without a verdict by the presence of work."""
        with self.engine.store.read() as connection:
            verdict = find_verdict(connection, attempt.key, attempt.attempt) if task.stage else None
        if verdict is not None and verdict.kind == "revise":
            return StepEnd(AttemptEnd.SENT_BACK, sanitise_line(verdict.text, MAX_REASON_CHARS))
        if verdict is None and ("write" not in terms.effects or not terms.paths):
            return StepEnd(AttemptEnd.GAVE_UP, f"the {terms.role} gave no verdict", "no verdict")
        role = board.roles.get(task.role) or Role(task.role)
        is_last = task.stage + 1 >= len(role.stages)
        if not has_changed and not task.head and (is_last or terms.paths == ANYWHERE):
            return StepEnd(AttemptEnd.GAVE_UP, "it changed nothing", "no change")
        return StepEnd()

    def hand_in(self, attempt: Attempt) -> StepEnd:
        head = self.open_trees(attempt.repository).store.find_commit(f"refs/heads/{attempt.branch}") or ""
        with self.open_gate(attempt.repository) as gate:
            self.share(gate, lambda remote: remote.push_attempt(f"{attempt.intent}/{attempt.attempt}"))
        handed = self.engine.move_attempt(attempt.token, attempt.key, AttemptState.STARTED, head=head)
        return StepEnd() if handed else SUPERSEDED_END

    def leave(self, attempt: Attempt) -> None:
        """Keep the worktree's files, and give the worktree back."""
        self.leave_place(attempt.token)

    def leave_place(self, token: int) -> None:
        place = self.places.get(token)
        if place is None or place.assignment.terms is None:
            return
        intent, attempt = place.assignment.terms.intent, place.assignment.terms.attempt
        self.keep(place, intent, attempt)
        self.relay_rest(place.tree, place.assignment.terms, self.engine.read_board())
        self.try_once(lambda: self.deliver_messages(place, attempt))
        self.end_place(token, AttemptEnd.CANCELLED, "")
        self.places.pop(token, None)
        folder = trees_folder(self.settings.home, self.find_repository_of(place))
        shutil.rmtree(folder / f"{intent}-{attempt}.tmp", ignore_errors=True)

    def keep(self, place: Workplace, intent: str, attempt: int) -> None:
        """Keep a checkpoint of the worktree. After a failure, the worktree itself still holds the files."""
        repository = self.find_repository_of(place)
        with suppress(GitError, OSError):
            self.open_trees(repository).checkpoint(place.tree, intent, attempt, "a checkpoint", int(time.time()))
            with self.open_gate(repository) as gate, suppress(*SHARING_ERRORS):
                if remote := gate.rules.config.orchestrator.remote:
                    FleetRemote(gate, remote).push_checkpoint(f"{intent}/{attempt}")

    def share(self, gate: Gate, exchange: Callable[[FleetRemote], T]) -> T | None:
        """Return the result of an exchange with the repository's remote, retried until the remote answers; None without
        a remote.
        """
        remote, pause_s = gate.rules.config.orchestrator.remote, 1.0
        while remote:
            try:
                return exchange(FleetRemote(gate, remote))
            except RemoteAway:
                if self.stopping.wait(pause_s):
                    raise
                pause_s = min(2 * pause_s, MAX_PUSH_PAUSE_S)
        return None

    # -- messages

    def relay(self, place: Workplace, task: Task | None, board: Board) -> None:
        """Carry messages between the attempt and the fleet. Failures are retried at the next beat."""
        terms = place.assignment.terms
        if terms is None or task is None:
            return
        store = self.engine.store
        with suppress(*RECORDING_ERRORS), self.open_state(place.tree) as state:
            sent = take_messages(store, state, task, terms.attempt, terms.token)
            place.wanted += [path for message in sent if message.kind == "grow" for path in message.paths]
            place.view = bring_view(store, state, board, task, terms.attempt, terms.token, place.view)

    def relay_rest(self, tree: Workspace, terms: Assignment, board: Board) -> None:
        """Store the last messages of an ended attempt, and delete the rest."""
        repository, _, intent = terms.task.partition(":")
        task = board.tasks.get((repository, intent))
        with suppress(*RECORDING_ERRORS), self.open_state(tree) as state:
            if task is not None:
                take_messages(self.engine.store, state, task, terms.attempt, terms.token)
            AttemptMessages(state, terms.token).forget()

    @contextmanager
    def open_state(self, tree: Workspace) -> Generator[State]:
        gate = Gate(tree, self.settings.environment)
        try:
            yield gate.state
        finally:
            gate.close()

    def find_repository_of(self, place: Workplace) -> str:
        return place.assignment.terms.task.partition(":")[0] if place.assignment.terms else ""

    # -- landing

    def land(self, repository: str, target: str) -> None:
        # There is one worktree for verification.
        with self.lock(repository, "landing", LANDING_LOCK_S), self.open_gate(repository) as gate:
            trees = self.open_trees(repository)
            land_handed_in(self.engine, gate, trees, repository, target, self.stopping.wait)
            with suppress(*RECORDING_ERRORS):
                write_lessons(self.engine.store, gate, repository)
        if self.stopping.is_set():
            time.sleep(DRAIN_S)  # the process ends, and another worker goes on

    # -- places and values

    def find_workspace(self, repository: str) -> Workspace:
        clone = self.settings.clones.get(repository)
        root = clone or Path(self.engine.read_board().repositories[repository].url)
        found = locate_workspace(root)
        if found is None or found.common_dir is None:
            raise ValueError(f"{str(root)!r} is no git repository on this host")
        return found

    @contextmanager
    def open_gate(self, repository: str) -> Generator[Gate]:
        gate = Gate(self.find_workspace(repository), self.settings.environment)
        try:
            yield gate
        finally:
            gate.close()

    def lock(self, repository: str, name: str, timeout_s: float) -> AbstractContextManager[None]:
        """Return a lock shared by the workers of this host."""
        folder = trees_folder(self.settings.home, repository)
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        return hold_lock(folder / f"{name}.lock", timeout_s=timeout_s)

    def open_trees(self, repository: str) -> Worktrees:
        return Worktrees(self.find_workspace(repository), trees_folder(self.settings.home, repository))

    def move_intent(self, repository: str, intent_id: str, to: Status) -> None:
        """Move an intent to a status in the main worktree, if allowed and needed. Concurrent writers of the file are
        expected.
        """
        for _ in range(MAX_INTENT_TRIES):
            with self.open_gate(repository) as gate, self.intents_lock:
                status = gate.intents.get(intent_id).status
                if status in FINAL_STATUSES:
                    raise ValueError(f"{intent_id} is {status}: nobody works on it; `remit plan stop {intent_id}`")
                if to not in TRANSITIONS[status]:
                    return
                with suppress(IntentsFileChanged):
                    gate.intents.set_status(intent_id, to, by="fleet")
                    return
            time.sleep(LOOK_INTERVAL_S)
        raise TimeoutError(f"{intent_id} could not be moved to {to}: others keep writing the intents file")


def name_fragments(commons: Iterable[Commons], paths: Iterable[str]) -> str:
    """Return where changes of common files go instead; empty without such a file."""
    places = (c for c in commons if c.fragments and any(Scope(c.paths).matches(path) for path in paths))
    return "".join(f"; what belongs into {', '.join(c.paths)} goes into a file below {c.fragments}" for c in places)


def describe_exit(code: int) -> str:
    """Return an exit code with its usual meaning."""
    number = -code if code < 0 else code - 128
    with suppress(ValueError):
        return f"{code} ({signal.Signals(number).name})"
    return f"{code} (a program is not there)" if code == MISSING_EXIT_CODE else str(code)


def read_instructions(workspace: Workspace, role: str) -> str:
    """Return the team's instructions for this role: `.orchestration/roles/<name>.md`; empty without the file."""
    with suppress(OSError):
        text = read_regular_file(workspace.folder / "roles" / f"{role}.md", MAX_INSTRUCTION_BYTES)
        return text.decode("utf-8", "replace").strip()
    return ""


class Report:
    """Report of an agent's usage and progress to the board, at most every two seconds."""

    def __init__(self, engine: DbosEngine, attempt: Attempt) -> None:
        self.engine = engine
        self.attempt = attempt
        self.due_s: float = 0.0
        self.heard_s: float = 0.0
        self.said = ""
        self.counted = AgentUsage()

    def tell(self, feed: AgentFeed, *, is_last: bool = False) -> None:
        if not is_last and (time.monotonic() < self.due_s or feed.last_word_s == self.heard_s):
            return
        self.due_s, self.heard_s = time.monotonic() + REPORT_INTERVAL_S, feed.last_word_s
        usage = feed.usage
        used = replace(
            self.attempt,
            sessions=(feed.session,) if feed.session else (),
            turns=usage.turns,
            tokens_in=usage.tokens_in,
            tokens_out=usage.tokens_out,
            usd=usage.usd,
        )
        news = feed.progress if feed.progress != self.said else ""
        self.said = feed.progress
        with suppress(*AWAY_ERRORS):
            self.engine.record_usage(used.token, used, news)
            good, bad = usage.turns - self.counted.turns, usage.refusals - self.counted.refusals
            if good > 0 or bad > 0:
                why = f"{self.attempt.agent}: {usage.refusals} refusals in {usage.turns + usage.refusals} answers"
                self.engine.note_answers(self.attempt.agent, max(good, 0), max(bad, 0), why)
                self.counted = replace(usage)

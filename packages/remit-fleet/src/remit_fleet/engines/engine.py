"""Keeper of a board: each method is one deed, in one transaction of the rows that a store gives it."""

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager

from msgspec.structs import replace

from remit.gate.state.attempt_messages import AttemptMessage
from remit_fleet import moves
from remit_fleet.attempts import find_endings, start_task
from remit_fleet.board import (
    Attempt,
    AttemptEnd,
    AttemptState,
    Board,
    Breaker,
    BreakerKind,
    Claim,
    Ending,
    EventKind,
    FleetEvent,
    Hold,
    Landing,
    OpenPlan,
    Order,
    OrderKind,
    Role,
    Task,
    TaskKey,
    Worker,
)
from remit_fleet.breaker import record_answers
from remit_fleet.conflict import Evidence, Settlement
from remit_fleet.rows import Rows
from remit_fleet.schedule import schedule
from remit_fleet.states import ASKING, HANDED_IN, HELD, LANDING, PAUSED, WAITING, move_task


class Engine(ABC):
    """Keeper of the board on any store. `moves` says what a deed changes.

    A method with a `token` changes no row and returns False if the token differs from the hold's token: the attempt has
    been superseded, and its effects are refused.
    """

    lease_s: float

    @abstractmethod
    def change(self, repository: str = "") -> AbstractContextManager[Rows]:
        """Begin a deed. Its changes are stored, and its effects enqueued, at the end, or nothing is. With a repository,
        changes of its tasks are serial. Raises ValueError for an unknown one.
        """
        ...

    @abstractmethod
    def read_board(self) -> Board:
        """Return the current board."""
        ...

    def view_board(self) -> Board:
        """Return the current board for a rule that answers before the next deed."""
        return self.read_board()

    @abstractmethod
    def read_events(self, after: int, limit: int = 500) -> Sequence[FleetEvent]:
        """Return events after the sequence number, oldest first."""
        ...

    # -- plans and claims

    def open_plan(
        self,
        plan: OpenPlan,
        tasks: Sequence[Task],
        roles: Mapping[str, Role] | None = None,
        *,
        is_rebuilt: bool = False,
    ) -> None:
        with self.change(plan.repository) as rows:
            moves.open_plan(rows, plan, tasks, roles or {}, is_rebuilt=is_rebuilt)

    def set_plan_budget(self, plan: OpenPlan, usd: float | None, tokens: int | None) -> None:
        """Set what a plan may spend; None leaves a bound as it is."""
        bounds = {name: bound for name, bound in (("usd", usd), ("tokens", tokens)) if bound is not None}
        with self.change(plan.repository) as rows:
            known, budget = rows.plans[plan.id], rows.budgets.get(("plan", plan.id))
            rows.plans[plan.id] = replace(known, limits=replace(known.limits, **bounds))
            if budget is not None:
                rows.budgets["plan", plan.id] = replace(budget, **bounds)

    def dispatch(self) -> tuple[Claim, ...]:
        """Schedule the board and carry out the claims. Each claim stores the hold, token, attempt and place in the
        queue atomically.
        """
        found = schedule(self.view_board())
        for after in found.moves:
            with self.change(after.repository) as rows:
                before = rows.tasks.get(after.key)
                if before is not None and before.state in (WAITING, HELD) and rows.live.get(after.key) is None:
                    moves.store_task(rows, after)
        return tuple(claim for claim in found.claims if self.carry_out(claim))

    def carry_out(self, claim: Claim) -> bool:
        try:
            with self.change() as rows:
                rows.effects.append(moves.claim_task(rows, claim, self.lease_s))
        except moves.ClaimRefused:
            return False
        return True

    # -- workers

    def beat(self, worker: Worker) -> Sequence[Hold]:
        """Register or renew the worker and the leases of its attempts. Return the worker's remaining holds.

        An attempt of this worker without a returned hold has been superseded: the worker ends its agent.
        """
        with self.change() as rows:
            known = rows.workers.get(worker.id)
            draining = worker.draining if known is None else known.draining
            rows.workers[worker.id] = replace(worker, beat_at=rows.now, draining=draining)
            if known is None:
                rows.tell(EventKind.WORKER, {"worker": worker.id, "state": "came"})
            return rows.renew_holds(worker.id, rows.now + self.lease_s)

    def end_overdue(self) -> Sequence[Ending]:
        """End the attempts named by `endings.find_endings`, and return them for their workers."""
        endings = find_endings(self.view_board())
        self.cancel([(ending.repository, ending.intent, ending.attempt) for ending in endings])
        for ending in endings:
            key = ending.repository, ending.intent
            self.end_attempt(ending.token, key, ending.ended_as, str(ending.ended_as), ending.why)
        return endings

    def cancel(self, ended: Sequence[tuple[str, str, int]]) -> None:
        """Take attempts out of their queues, before they end. An engine without queues does nothing."""
        return

    def release_waiting(self) -> None:
        for repository in {task.repository for task in self.view_board().tasks.values() if task.state is PAUSED}:
            with self.change(repository) as rows:
                moves.release_waiting(rows, repository)

    # -- attempts

    def find_live(self, rows: Rows, token: int, key: TaskKey) -> tuple[Attempt, Task] | None:
        """Return the live attempt with this token, and its task; None for a superseded attempt."""
        attempt, hold, task = rows.live.get(key), rows.holds.get(key), rows.tasks.get(key)
        if attempt is None or hold is None or task is None or not attempt.token == hold.token == token:
            return None
        return attempt, task

    def move_attempt(self, token: int, key: TaskKey, state: AttemptState, **columns: str) -> bool:
        """Record that the attempt is prepared or started, and other columns."""
        with self.change(key[0]) as rows:
            if (found := self.find_live(rows, token, key)) is None:
                return False
            attempt, task = found
            rows.live[key] = replace(attempt, state=state, last_event_at=rows.now, **columns)
            if state is AttemptState.STARTED:
                moves.note_agent(rows, attempt, None)
                moves.store_task(rows, start_task(task))
            if state is not attempt.state:
                moves.tell_attempt(rows, EventKind.ATTEMPT, {"state": str(state)}, attempt)
            return True

    def explain_wait(self, token: int, key: TaskKey, why: str) -> bool:
        """Store why an attempt's worker waits; an empty text ends the wait."""
        with self.change(key[0]) as rows:
            if (found := self.find_live(rows, token, key)) is None:
                return False
            attempt, task = found
            rows.live[key] = replace(attempt, last_event_at=rows.now)
            if task.why != why:
                moves.store_task(rows, replace(task, why=why))
                moves.tell_attempt(rows, EventKind.PROGRESS, {"text": why or "the remote answers again"}, attempt)
            return True

    def ask_person(self, token: int, key: TaskKey, why: str) -> bool:
        """Ask a person about an attempt that cannot go on; once they resume the task, it goes on where it was."""
        with self.change(key[0]) as rows:
            if (found := self.find_live(rows, token, key)) is None:
                return False
            moves.store_task(rows, move_task(found[1], ASKING, why))
            return True

    def record_usage(self, token: int, attempt: Attempt, progress: str = "") -> bool:
        """Record the attempt's sessions, turns, tokens and money so far, and the time of its last event."""
        with self.change() as rows:
            if (found := self.find_live(rows, token, attempt.key)) is None:
                return False
            rows.live[attempt.key] = replace(
                found[0],
                sessions=attempt.sessions,
                turns=attempt.turns,
                tokens_in=attempt.tokens_in,
                tokens_out=attempt.tokens_out,
                usd=attempt.usd,
                last_event_at=rows.now,
            )
            if progress:
                moves.tell_attempt(rows, EventKind.PROGRESS, {"text": progress}, attempt)
            return True

    def note_answers(self, provider: str, good: int, bad: int, why: str = "") -> None:
        """Count answers of a model's provider. Too many recent bad answers reduce the provider's slots for a time."""
        with self.change() as rows:
            subject = BreakerKind.PROVIDER, provider
            before = rows.breakers.get(subject) or Breaker(*subject)
            rows.breakers[subject] = after = record_answers(before, rows.now, good, bad, why)
            if after.trips > before.trips:
                rows.tell(EventKind.BREAKER, {"provider": provider, "why": why, "trips": after.trips})

    def end_attempt(self, token: int, key: TaskKey, ended_as: AttemptEnd, failure: str = "", why: str = "") -> bool:
        """End the attempt; its task is handed in, tried again, or stuck. A hand-in also requests a landing."""
        with self.change(key[0]) as rows:
            if (found := self.find_live(rows, token, key)) is None:
                return False
            attempt, task = found
            moves.settle_attempt(rows, task, attempt, ended_as, failure, why)
            return True

    def widen_hold(self, token: int, key: TaskKey, scope: Sequence[str], scope_sha256: str) -> str | None:
        """Widen the task's write set at once if the wider set is apart from every hold; return None.

        Otherwise keep the hold and return the intent that owns the rest. The task claims the wider set at its next
        attempt: the caller ends the current attempt as cancelled, to prevent a deadlock between two tasks.
        """
        with self.change(key[0]) as rows:
            if (found := self.find_live(rows, token, key)) is None:
                return key[1]
            wider = replace(found[1], scope=tuple(scope), scope_sha256=scope_sha256)
            moves.store_task(rows, wider)
            if overlap := moves.find_overlap(rows, wider):
                return overlap[0].intent
            rows.holds[key] = replace(rows.holds[key], scope=wider.scope, scope_sha256=scope_sha256)
            return None

    def meet_owner(self, token: int, key: TaskKey, evidence: Evidence) -> Settlement | None:
        with self.change(key[0]) as rows:
            return moves.meet_owner(rows, key, evidence) if self.find_live(rows, token, key) else None

    def store_messages(self, task: Task, attempt: int, token: int, sent: Sequence[AttemptMessage]) -> None:
        """Store new messages of an attempt and skip stored messages. Progress is only an event."""
        with self.change() as rows:
            for message in sent:
                source = f"{token}:{message.number}"
                if message.kind == "progress":
                    rows.tell(EventKind.PROGRESS, {"text": message.text}, task, attempt=attempt)
                elif not rows.notes.find(source=source):
                    said = message.kind, message.text, message.to, message.paths
                    moves.write_note(rows, task, *said, source=source, attempt=attempt)

    # -- orders

    def give_order(self, order: Order) -> int:
        with self.change(order.repository) as rows:
            return moves.give_order(rows, order)

    def take_orders(self, worker: str) -> Sequence[Order]:
        with self.change() as rows:
            return moves.take_orders(rows, worker)

    def list_unheard(self, key: TaskKey) -> Sequence[Order]:
        """Return people's messages not yet received by any agent of the task, oldest first."""
        with self.change() as rows:
            return rows.orders.find(repository=key[0], intent=key[1], kind=OrderKind.STEER, done_at=None)

    def finish_order(self, order: Order, attempt: int) -> bool:
        """Record that an agent of this attempt received the message; return False if it was received before."""
        with self.change(order.repository) as rows:
            known = rows.orders.get(order.id)
            if known is None or known.done_at is not None:
                return False
            rows.orders[order.id] = replace(known, done_at=rows.now, attempt=attempt)
            body = {"kind": str(order.kind), "state": "heard"}
            rows.tell(EventKind.ORDER, body, repository=order.repository, intent=order.intent, attempt=attempt)
            return True

    # -- landings

    def enqueue_landing(self, repository: str, target: str) -> None:
        with self.change(repository) as rows:
            moves.ask_for_landing(rows, repository, target)

    def ask_for_missed_landings(self) -> None:
        """Request landings for handed-in tasks without a landing under way, for example after a rebuild."""
        board = self.view_board()
        ready = (task for task in board.tasks.values() if task.state in (HANDED_IN, LANDING))
        for repository, target in {(task.repository, board.plans[task.plan].target) for task in ready}:
            self.enqueue_landing(repository, target)

    def finish_landing(self, repository: str, target: str, workflow: str) -> bool:
        with self.change(repository) as rows:
            return moves.finish_landing(rows, repository, target, workflow)

    def gather_landing(
        self, repository: str, target: str, old: str, touched: Mapping[str, Sequence[str]]
    ) -> Landing | None:
        with self.change(repository) as rows:
            return moves.gather_landing(rows, repository, target, old, touched)

    def note_check(self, landing: Landing, command: str) -> None:
        with self.change(landing.repository) as rows:
            moves.note_check(rows, landing, command)

    def choose_attempt(self, landing: Landing, intent: str, attempt: int, why: str) -> None:
        with self.change(landing.repository) as rows:
            moves.choose_attempt(rows, landing, intent, attempt, why)

    def settle_landing(self, landing: Landing, landed: Sequence[str], conflicts: Sequence[Evidence] = ()) -> bool:
        with self.change(landing.repository) as rows:
            return moves.settle_landing(rows, landing, landed, conflicts)

"""States of tasks: the allowed transitions, the final states, the states that keep a hold, and the effect of an order
on a task.
"""

from collections.abc import Mapping

from msgspec.structs import replace

from remit_fleet.board import Order, OrderKind, Task, TaskState

WAITING, HELD, RUNNING, PAUSED, ASKING, HANDED_IN, LANDING, LANDED, STUCK, BLOCKED, DROPPED = TaskState

FINAL_STATES = frozenset({LANDED, STUCK, BLOCKED, DROPPED})
HOLDING_STATES = frozenset({HELD, RUNNING, HANDED_IN, LANDING})
"""States in which a task owns its write set. A paused or asking task keeps it if it returns to one of these."""

MOVES: Mapping[TaskState, frozenset[TaskState]] = {
    WAITING: frozenset({HELD, PAUSED, ASKING, BLOCKED, DROPPED}),
    HELD: frozenset({RUNNING, WAITING, PAUSED, ASKING, STUCK, DROPPED}),
    RUNNING: frozenset({HANDED_IN, HELD, WAITING, PAUSED, ASKING, STUCK, DROPPED}),
    HANDED_IN: frozenset({LANDING, HELD, PAUSED, ASKING, DROPPED}),
    # A train that does not land gives its members back: to be gathered again, to be redone, or to a person.
    LANDING: frozenset({LANDED, HANDED_IN, HELD, ASKING, STUCK}),
    PAUSED: frozenset({WAITING, HELD, RUNNING, HANDED_IN, PAUSED, ASKING, STUCK, DROPPED}),
    ASKING: frozenset({WAITING, HELD, RUNNING, HANDED_IN, PAUSED, ASKING, STUCK, DROPPED}),
    # Only a person takes a landing back, or opens these again.
    LANDED: frozenset({DROPPED}),
    STUCK: frozenset({WAITING, DROPPED}),
    BLOCKED: frozenset({WAITING, DROPPED}),
    DROPPED: frozenset(),
}

DONE_BODY = "done"
"""Body of an order that gives a task back as finished: what the person did is handed in."""

FRESH_BODY = "fresh"
"""Body of an order to retry a task from the target, without the files of earlier attempts."""

WAIT_REASONS: Mapping[TaskState, str] = {
    HELD: "its agent to start",
    RUNNING: "its agent",
    HANDED_IN: "the next landing",
    LANDING: "its train to land",
    PAUSED: "a person to resume it",
    ASKING: "a person",
}


TAKE_REASON = "has taken it over, and gives it back"
"""End of the reason of a task that a person has taken over."""

REMOTE_WAIT = "the remote since "
"""Beginning of the reason of a task that waits for the repository's remote, in whatever state."""


class ImpossibleMove(Exception):
    """Error for a transition missing in `MOVES`. The task is unchanged."""

    def __init__(self, task: Task, state: TaskState) -> None:
        super().__init__(f"{task.intent} is {task.state}: it cannot become {state}")
        self.task = task
        self.state = state


def move_task(task: Task, state: TaskState, why: str = "") -> Task:
    """Return the task in its next state. A paused or asking task remembers its previous state."""
    if state not in MOVES[task.state]:
        raise ImpossibleMove(task, state)
    if state not in (PAUSED, ASKING):
        return replace(task, state=state, why=why, returns_to=None)
    return replace(task, state=state, why=why, returns_to=task.returns_to or task.state)


def ask_to_land(task: Task, why: str = "`remit plan land` lands it") -> Task:
    """Return a handed-in task as a question to a person, who has to land the task."""
    return move_task(task, ASKING, why) if task.state is HANDED_IN else task


def awaits_person_to_land(task: Task) -> bool:
    return task.state is ASKING and task.returns_to is HANDED_IN


def is_with_person(task: Task) -> bool:
    """Return whether a person has the task's worktree now."""
    return task.state is ASKING and task.why.endswith(TAKE_REASON)


def name_next_step(task: Task) -> str:
    """Return the command with which a person lets an asking, paused or stuck task go on; empty without one."""
    if is_with_person(task):
        return f"remit task give-back {task.intent}"
    if awaits_person_to_land(task):
        return f"remit plan {'resume' if 'remit plan resume' in task.why else 'land'} {task.intent}"
    if task.state in (STUCK, BLOCKED):
        return f"remit task retry {task.intent}"
    return f"remit plan resume {task.intent}" if task.state in (ASKING, PAUSED) else ""


def needs_hold(task: Task) -> bool:
    """Return whether the task's paths are reserved for the task now."""
    return (task.returns_to or task.state) in HOLDING_STATES


def awaits_remote(task: Task) -> bool:
    return task.why.startswith(REMOTE_WAIT)


def describe_wait(task: Task) -> str:
    """Return the reason of a task's wait. For a task without an attempt, `schedule.explain_waits` reads the board."""
    if awaits_remote(task):
        return task.why
    reason = WAIT_REASONS.get(task.state, "")
    return f"{reason}: {task.why}" if reason and task.why else reason or task.why


def apply_order(task: Task, order: Order) -> Task:
    """Return the task after a person's order. An order that does not fit the state has no effect."""
    by = order.by or "a person"
    match order.kind:
        case OrderKind.PAUSE if PAUSED in MOVES[task.state] and task.state is not ASKING:  # which waits already
            return move_task(task, PAUSED, order.body or f"paused by {by}")
        case OrderKind.TAKE if PAUSED in MOVES[task.state]:
            taken = move_task(task, ASKING, f"{by} {TAKE_REASON}")
            return replace(taken, returns_to=HELD) if taken.returns_to is HANDED_IN else taken
        case OrderKind.GIVE_BACK if is_with_person(task) and order.body == DONE_BODY and needs_hold(task):
            return move_task(task, HANDED_IN, f"finished by {by}")
        # A question is answered, and a task given back, one at a time: never by resuming them all.
        case OrderKind.RESUME if task.state is PAUSED or (task.state is ASKING and order.intent):
            return move_task(task, task.returns_to or WAITING)
        case OrderKind.GIVE_BACK if is_with_person(task):
            return move_task(task, task.returns_to or WAITING)
        case OrderKind.UNDO if task.state is LANDED:
            return replace(move_task(task, DROPPED, f"undone by {by}"), landed="")
        case OrderKind.STOP | OrderKind.DROP if can_drop(task):
            return move_task(task, DROPPED, order.body or f"dropped by {by}")
        case OrderKind.RETRY if task.state in (STUCK, BLOCKED, ASKING):
            again = move_task(task, WAITING, f"tried again for {by}")
            return start_afresh(again) if order.body == FRESH_BODY else again
        case OrderKind.REASSIGN if task.state in (HELD, RUNNING, PAUSED, ASKING, STUCK):
            return choose_agents(move_task(task, WAITING, f"reassigned by {by}"), order)
        case OrderKind.REASSIGN if task.state is WAITING:
            return choose_agents(task, order)
        case _:
            return task


def can_drop(task: Task) -> bool:
    return DROPPED in MOVES[task.state] and task.state is not LANDED


def start_afresh(task: Task, head: str = "") -> Task:
    """Return the task for an attempt in its first role that takes on no earlier work, on the commit `head` or the
    target's tip.
    """
    return replace(task, stage=0, revisions=0, head=head, first_attempt=task.attempts + 1)


def choose_agents(task: Task, order: Order) -> Task:
    """Return the task for the agents named by the order, in order; unchanged if the order names none."""
    return replace(task, agents=tuple(order.body.split())) if order.body else task


def rebuild_task(task: Task, landed: str, is_handed_in: bool) -> Task:
    """Return a task in the state derived from files: landed by the ledger, handed in by its branch, otherwise to be
    tried again.
    """
    state = LANDED if landed else HANDED_IN if is_handed_in else task.state if task.state in FINAL_STATES else WAITING
    return replace(task, state=state, landed=landed, returns_to=None, why="")

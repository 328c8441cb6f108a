"""Relay between an attempt and the fleet: stores the agent's messages, and delivers notes and neighbouring tasks."""

from remit.gate.state.attempt_messages import AttemptMessage, AttemptMessages, FleetNeighbour, FleetView
from remit.gate.state.workspace_state import State
from remit.orchestrator.board import Board, Task
from remit.orchestrator.database.notes import count_notes, list_notes, store_messages
from remit.orchestrator.database.store import Store
from remit.orchestrator.states import FINAL_STATES, needs_hold


def take_messages(store: Store, state: State, task: Task, attempt: int, token: int) -> tuple[AttemptMessage, ...]:
    """Store and return the attempt's sent messages. Messages sent again after a worker's death are stored once."""
    messages = AttemptMessages(state, token)
    sent = messages.read_outbox().messages
    if sent:
        with store.write() as connection:
            store_messages(store, connection, task, attempt, token, sent)
        messages.drop_messages(sent[-1].number)
    return sent


def bring_view(
    store: Store, state: State, board: Board, task: Task, attempt: int, token: int, brought: FleetView | None
) -> FleetView:
    """Deliver the attempt's notes and neighbours if different from `brought`, and return them."""
    with store.read() as connection:
        posted = count_notes(connection, task.key)
        view = FleetView(list_notes(connection, task, attempt), list_neighbours(board, task), posted)
    if view != brought:
        AttemptMessages(state, token).deliver_view(view)
    return view


def list_neighbours(board: Board, task: Task) -> tuple[FleetNeighbour, ...]:
    """Return the repository's unfinished tasks beside this task."""
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

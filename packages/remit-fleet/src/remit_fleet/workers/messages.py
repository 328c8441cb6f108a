"""Messages of a person to a running agent, stored in its worktree's state until its next answer."""

from remit.core.call import SessionKey
from remit.gate.context import WorkspaceContext
from remit.gate.machine import Environment
from remit.gate.people.messages import PendingMessages
from remit.workspace.place.workspace import Workspace
from remit_fleet.board import Order
from remit_fleet.workers.brief import format_message


def list_sessions(tree: Workspace, environment: Environment) -> frozenset[SessionKey]:
    """Return the newest sessions in the worktree. Raises StateError."""
    context = WorkspaceContext(tree, environment)
    try:
        return frozenset(context.state.list_recent_sessions())
    finally:
        context.close()


def leave_message(
    tree: Workspace, environment: Environment, known: frozenset[SessionKey], order: Order
) -> SessionKey | None:
    """Leave a message for the newest session in the worktree not in `known`, and return the session; None without such
    a session. Raises StateError.
    """
    context = WorkspaceContext(tree, environment)
    try:
        found = [key for key in context.state.list_recent_sessions() if key not in known]
        bound = [key for key in found if (own := context.state.find_session(key)) and own.intent_id == order.intent]
        if bound:
            PendingMessages(context.state).add_message(bound[0], format_message(order.body))
        return bound[0] if bound else None
    finally:
        context.close()


def is_heard(tree: Workspace, environment: Environment, session: SessionKey, order: Order) -> bool:
    """Return whether an answer has taken the message along. Raises StateError."""
    context = WorkspaceContext(tree, environment)
    try:
        waiting = PendingMessages(context.state).load_messages(session).values()
        return not any(format_message(order.body) in text for text in waiting)
    finally:
        context.close()

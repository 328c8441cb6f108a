"""Whether what a command's text tells of its writes still holds when it writes.

Its paths are looked up before it runs. A command that writes later, while another one runs, may meet a link where a
file was: made by a command that was looked at by itself, and harmless by itself.
"""

import os
from collections.abc import Iterable
from pathlib import Path

from remit.core.call import ToolCall
from remit.core.facts import Target
from remit.gate.contained_tickets import Tickets
from remit.gate.state import OpenCall, State
from remit.policy.commands.background import IN_BACKGROUND, leaves_running


def why_unsteady(call: ToolCall, targets: Iterable[Target], state: State) -> str | None:
    """Why others may move what this command writes to before it does; None where nobody does. Raises StateError."""
    if any(call.arguments.get(key) for key in IN_BACKGROUND) or leaves_running(call.command or ""):
        return "it writes in the background, where others may move what it writes to"
    if uncontained(call, state) or (any(one.path is None for one in targets) and contained(state)):
        return "another command runs, and may move what this one writes to"
    return None


def uncontained(call: ToolCall, state: State) -> bool:
    """Whether another call is under way that changes files as they are. Raises StateError."""
    own = (call.session, call.call_id)
    return any((one.session, one.call_id) != own and changes(one) for one in state.open_calls())


def contained(state: State) -> bool:
    """Whether a contained command runs now: the temporary folder is its as well. Raises StateError."""
    return any(runs(ticket.folder) for ticket in Tickets(state).all())


def runs(folder: str) -> bool:
    """Whether what is staged there is of a command that runs; of one that names no folder, it counts as running."""
    owner = Path(folder).name.partition("-")[0]
    return bool(folder) and (os.sep not in folder or (Path("/proc", owner).exists() and Path(folder).exists()))


def running_launchers(state: State) -> list[int]:
    """The processes that run contained commands now, as far as their tickets name them. Raises StateError."""
    folders = (ticket.folder for ticket in Tickets(state).all() if os.sep in ticket.folder and runs(ticket.folder))
    return [int(Path(folder).name.partition("-")[0]) for folder in folders]


def changes(one: OpenCall) -> bool:
    """Whether that call writes to the workspace itself: one that is contained does so when it has ended."""
    return one.pending is None or (one.pending.effect == "execute" and one.pending.verdict != "contain")

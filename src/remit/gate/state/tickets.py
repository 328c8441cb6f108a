"""Leave to run one command contained: given by the hook that rewrote the call, used once by the launcher.

Whoever runs the launcher with a ticket of their own making runs nothing; and one that was used is used up.

Whether what a command's text tells of its writes still holds when it writes.

Its paths are looked up before it runs. A command that writes later, while another one runs, may meet a link where a
file was: made by a command that was looked at by itself, and harmless by itself.
"""

import os
from collections.abc import Iterable
from pathlib import Path

import msgspec
from msgspec import Struct

from remit.core.call import SessionKey, ToolCall, hash_arguments
from remit.core.diff.contents import sha256
from remit.core.facts import Target
from remit.gate.state.workspace_state import OpenCall, State
from remit.policy.commands.background import BACKGROUND_ARGUMENTS, leaves_process_running

TICKET_PREFIX = "contained:"
"""How the names of these facts begin."""

TICKET_LIFETIME_S = 86400.0
"""A ticket that nobody came for, or whose command never ended, is thrown away after so long."""


class Ticket(Struct, frozen=True):
    """What the hook decided about, without the command itself: that may hold secrets, and is known by its hash.

    `temporary` is the agent's temporary folder; `folder` is where the writes are staged, once it is used.
    """

    token: str
    session: SessionKey
    agent: str
    tool: str
    call_id: str
    cwd: str
    command_sha256: str
    intent_id: str | None
    temporary: str
    at: float
    transcript: str | None = None
    folder: str = ""

    def make_call(self, command: str, cwd: str = "") -> ToolCall:
        """The call as the agent made it; `cwd` is where its shell really stands."""
        return ToolCall(
            agent=self.agent,
            session=self.session,
            tool=self.tool,
            effect="execute",
            cwd=cwd or self.cwd,
            call_id=self.call_id,
            command=command,
            arguments_sha256=hash_arguments({"command": command}),
            whole_workspace=True,
            transcript=self.transcript,
        )

    def is_for_call(self, call: ToolCall, command: str) -> bool:
        """Whether it was given for this call of the agent, which ran that command."""
        same = (self.session, self.tool, self.call_id) == (call.session, call.tool, call.call_id)
        return same and self.command_sha256 == command_digest(command)


class TicketNotFound(RuntimeError):
    """Nobody gave leave to run this."""

    def __init__(self, token: str) -> None:
        super().__init__(
            f"no call {token!r} of this session waits to run contained: only what an agent's hook let through may; "
            "run the command itself, and its hook will see to it"
        )


class Tickets:
    """The tickets of one workspace. Its methods raise StateError."""

    def __init__(self, state: State) -> None:
        self.state = state

    def issue_ticket(self, call: ToolCall, command: str, intent_id: str | None, temporary: str, now: float) -> Ticket:
        """A new one, kept; those that are too old go."""
        found = Ticket(
            token=os.urandom(8).hex(),
            session=call.session,
            agent=call.agent,
            tool=call.tool,
            call_id=call.call_id,
            cwd=call.cwd,
            command_sha256=command_digest(command),
            intent_id=intent_id,
            temporary=temporary,
            at=now,
            transcript=call.transcript,
        )
        with self.state.group_changes():
            for old in self.list_tickets():
                if not 0 <= now - old.at <= TICKET_LIFETIME_S:
                    self.delete_ticket(old.token)
            self.put_ticket(found)
        return found

    def use_ticket(self, token: str, session_id: str, command: str, folder: str) -> Ticket:
        """The ticket, used up from here on: its command runs, staged in `folder`. Raises NoTicket."""
        with self.state.group_changes():
            found = self.find_ticket(token)
            if found is None or found.folder or found.session.session_id != session_id:
                raise TicketNotFound(token)
            if found.command_sha256 != command_digest(command):
                raise TicketNotFound(token)
            self.put_ticket(msgspec.structs.replace(found, folder=folder))
        return found

    def finish_ticket(self, token: str, folder: str, command: str) -> Ticket:
        """The ticket of a command that has ended, gone from here on. Raises NoTicket."""
        with self.state.group_changes():
            found = self.find_ticket(token)
            if (
                found is None
                or not found.folder
                or found.folder != folder
                or found.command_sha256 != command_digest(command)
            ):
                raise TicketNotFound(token)
            self.delete_ticket(token)
        return found

    def put_ticket(self, ticket: Ticket) -> None:
        """Keep it as it is now."""
        self.state.put_fact(f"{TICKET_PREFIX}{ticket.token}", msgspec.json.encode(ticket).decode())

    def find_ticket(self, token: str) -> Ticket | None:
        """The ticket of that name."""
        text = self.state.read_fact(f"{TICKET_PREFIX}{token}")
        return None if text is None else msgspec.json.decode(text, type=Ticket)

    def list_tickets(self) -> list[Ticket]:
        """Every ticket."""
        rows = self.state.fetch_rows(
            "SELECT value FROM facts WHERE workspace=? AND name GLOB ?", self.state.workspace, f"{TICKET_PREFIX}*"
        )
        return [msgspec.json.decode(row[0], type=Ticket) for row in rows]

    def delete_ticket(self, token: str) -> None:
        """Throw it away."""
        with self.state.transaction() as connection:
            connection.execute(
                "DELETE FROM facts WHERE workspace=? AND name=?", (self.state.workspace, f"{TICKET_PREFIX}{token}")
            )


def command_digest(command: str) -> str:
    """What tells two commands apart, whatever characters they hold."""
    return sha256(command.encode("utf-8", "surrogateescape"))


def why_race_possible(call: ToolCall, targets: Iterable[Target], state: State) -> str | None:
    """Why others may move what this command writes to before it does; None where nobody does. Raises StateError."""
    if any(call.arguments.get(key) for key in BACKGROUND_ARGUMENTS) or leaves_process_running(call.command or ""):
        return "it writes in the background, where others may move what it writes to"
    if has_uncontained_call(call, state) or (any(one.path is None for one in targets) and has_contained_command(state)):
        return "another command runs, and may move what this one writes to"
    return None


def has_uncontained_call(call: ToolCall, state: State) -> bool:
    """Whether another call is under way that changes files as they are. Raises StateError."""
    own = (call.session, call.call_id)
    return any((one.session, one.call_id) != own and changes_files(one) for one in state.list_open_calls())


def has_contained_command(state: State) -> bool:
    """Whether a contained command runs now: the temporary folder is its as well. Raises StateError."""
    return any(is_running(ticket.folder) for ticket in Tickets(state).list_tickets())


def is_running(folder: str) -> bool:
    """Whether what is staged there is of a command that runs; of one that names no folder, it counts as running."""
    owner = Path(folder).name.partition("-")[0]
    return bool(folder) and (os.sep not in folder or (Path("/proc", owner).exists() and Path(folder).exists()))


def running_launchers(state: State) -> list[int]:
    """The processes that run contained commands now, as far as their tickets name them. Raises StateError."""
    folders = (
        ticket.folder
        for ticket in Tickets(state).list_tickets()
        if os.sep in ticket.folder and is_running(ticket.folder)
    )
    return [int(Path(folder).name.partition("-")[0]) for folder in folders]


def changes_files(one: OpenCall) -> bool:
    """Whether that call writes to the workspace itself: one that is contained does so when it has ended."""
    return one.pending is None or (one.pending.effect == "execute" and one.pending.verdict != "contain")

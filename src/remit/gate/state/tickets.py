"""Tickets of contained commands: issued by the hook for a rewritten call, used once by the launcher. A launcher without
an issued ticket refuses to run.
"""

import os
from pathlib import Path

import msgspec
from msgspec import Struct

from remit.core.call import SessionKey, ToolCall, hash_arguments
from remit.core.diff.contents import sha256
from remit.core.python_runtime import prepare_type
from remit.gate.state.workspace_state import State

TICKET_PREFIX = "contained:"  # prefix of the facts that hold tickets
TICKET_LIFETIME_S = 86400.0  # age after which a ticket is deleted whose command never began, or never ended


class Ticket(Struct, frozen=True):
    """A call that the hook decided about; the command, which may hold secrets, is known by its hash only. `temporary`
    is the agent's temporary folder; `folder` is the staging area, once the ticket is used.
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
        """Return the agent's original call; `cwd` is the real folder of the shell."""
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
        same = (self.session, self.tool, self.call_id) == (call.session, call.tool, call.call_id)
        return same and self.command_sha256 == command_digest(command)


class TicketNotFound(RuntimeError):
    """An error of the launcher: no ticket allows the command."""

    def __init__(self, token: str) -> None:
        super().__init__(
            f"no call {token!r} of this session waits to run contained: only what an agent's hook let through may; "
            "run the command itself, and its hook will see to it"
        )


class Tickets:
    """The tickets of a workspace. Methods raise StateError."""

    def __init__(self, state: State) -> None:
        self.state = state

    def issue_ticket(self, call: ToolCall, command: str, intent_id: str | None, temporary: str, now: float) -> Ticket:
        """Store and return a new ticket, and delete expired tickets."""
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
        with self.state.transaction():
            for old in self.list_tickets():
                if not 0 <= now - old.at <= TICKET_LIFETIME_S:
                    self.delete_ticket(old.token)
            self.put_ticket(found)
        return found

    def use_ticket(self, token: str, session_id: str, command: str, folder: str) -> Ticket:
        """Use a ticket up: its command runs, staged in `folder`. Raises TicketNotFound."""
        with self.state.transaction():
            found = self.find_ticket(token)
            if (
                found is None
                or (found.folder, found.session.session_id) != ("", session_id)
                or found.command_sha256 != command_digest(command)
            ):
                raise TicketNotFound(token)
            self.put_ticket(msgspec.structs.replace(found, folder=folder))
        return found

    def find_used_ticket(self, token: str, folder: str, command: str) -> Ticket:
        """Return the ticket of a command that has ended. It is deleted when the effects are settled. Raises
        TicketNotFound.
        """
        found = self.find_ticket(token)
        if found is None or not folder or (found.folder, found.command_sha256) != (folder, command_digest(command)):
            raise TicketNotFound(token)
        return found

    def put_ticket(self, ticket: Ticket) -> None:
        self.state.put_fact(f"{TICKET_PREFIX}{ticket.token}", msgspec.json.encode(ticket).decode())

    def find_ticket(self, token: str) -> Ticket | None:
        text = self.state.read_fact(f"{TICKET_PREFIX}{token}")
        return None if text is None else msgspec.json.decode(text, type=prepare_type(Ticket))

    def list_tickets(self) -> list[Ticket]:
        query = "SELECT value FROM facts WHERE workspace=? AND name GLOB ?"
        rows = self.state.fetch_rows(query, self.state.workspace, f"{TICKET_PREFIX}*")
        return [msgspec.json.decode(row[0], type=prepare_type(Ticket)) for row in rows]

    def delete_ticket(self, token: str) -> None:
        self.state.execute(
            "DELETE FROM facts WHERE workspace=? AND name=?", self.state.workspace, f"{TICKET_PREFIX}{token}"
        )


def command_digest(command: str) -> str:
    return sha256(command.encode("utf-8", "surrogateescape"))


def has_uncontained_call(call: ToolCall, state: State) -> bool:
    return any(
        (other.session, other.call_id) != (call.session, call.call_id)
        and (other.pending is None or (other.pending.effect == "execute" and other.pending.verdict != "contain"))
        for other in state.list_open_calls()
    )


def has_contained_command(state: State) -> bool:
    """Return True if a contained command runs now, which shares the temporary folder. Raises StateError."""
    return any(is_running(ticket.folder) for ticket in Tickets(state).list_tickets())


def is_running(folder: str) -> bool:
    """Return True if the command of a staging area still runs; a ticket without a real folder counts as running."""
    return bool(folder) and (
        os.sep not in folder or (Path("/proc", owner_pid(folder)).exists() and Path(folder).exists())
    )


def owner_pid(folder: str) -> str:
    return Path(folder).name.partition("-")[0]


def running_launchers(state: State) -> list[int]:
    folders = [ticket.folder for ticket in Tickets(state).list_tickets()]
    return [int(owner_pid(folder)) for folder in folders if os.sep in folder and is_running(folder)]

"""Leave to run one command contained: given by the hook that rewrote the call, used once by the launcher.

Whoever runs the launcher with a ticket of their own making runs nothing; and one that was used is used up.
"""

import os

import msgspec
from msgspec import Struct

from remit.core.call import SessionKey, ToolCall, hash_arguments
from remit.core.contents import sha256
from remit.gate.state import State

PREFIX = "contained:"
"""How the names of these facts begin."""

KEPT_S = 86400.0
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

    def call(self, command: str, cwd: str = "") -> ToolCall:
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

    def is_for(self, call: ToolCall, command: str) -> bool:
        """Whether it was given for this call of the agent, which ran that command."""
        same = (self.session, self.tool, self.call_id) == (call.session, call.tool, call.call_id)
        return same and self.command_sha256 == digest(command)


class NoTicket(RuntimeError):
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

    def issued(self, call: ToolCall, command: str, intent_id: str | None, temporary: str, now: float) -> Ticket:
        """A new one, kept; those that are too old go."""
        found = Ticket(
            token=os.urandom(8).hex(),
            session=call.session,
            agent=call.agent,
            tool=call.tool,
            call_id=call.call_id,
            cwd=call.cwd,
            command_sha256=digest(command),
            intent_id=intent_id,
            temporary=temporary,
            at=now,
            transcript=call.transcript,
        )
        with self.state.together():
            for old in self.all():
                if not 0 <= now - old.at <= KEPT_S:
                    self.forget(old.token)
            self.put(found)
        return found

    def used(self, token: str, session_id: str, command: str, folder: str) -> Ticket:
        """The ticket, used up from here on: its command runs, staged in `folder`. Raises NoTicket."""
        with self.state.together():
            found = self.found(token)
            if found is None or found.folder or found.session.session_id != session_id:
                raise NoTicket(token)
            if found.command_sha256 != digest(command):
                raise NoTicket(token)
            self.put(msgspec.structs.replace(found, folder=folder))
        return found

    def ended(self, token: str, folder: str, command: str) -> Ticket:
        """The ticket of a command that has ended, gone from here on. Raises NoTicket."""
        with self.state.together():
            found = self.found(token)
            if found is None or not found.folder or found.folder != folder or found.command_sha256 != digest(command):
                raise NoTicket(token)
            self.forget(token)
        return found

    def put(self, ticket: Ticket) -> None:
        """Keep it as it is now."""
        self.state.put_fact(f"{PREFIX}{ticket.token}", msgspec.json.encode(ticket).decode())

    def found(self, token: str) -> Ticket | None:
        """The ticket of that name."""
        text = self.state.fact(f"{PREFIX}{token}")
        return None if text is None else msgspec.json.decode(text, type=Ticket)

    def all(self) -> list[Ticket]:
        """Every ticket."""
        rows = self.state.rows(
            "SELECT value FROM facts WHERE workspace=? AND name GLOB ?", self.state.workspace, f"{PREFIX}*"
        )
        return [msgspec.json.decode(row[0], type=Ticket) for row in rows]

    def forget(self, token: str) -> None:
        """Throw it away."""
        with self.state.writing() as connection:
            connection.execute(
                "DELETE FROM facts WHERE workspace=? AND name=?", (self.state.workspace, f"{PREFIX}{token}")
            )


def digest(command: str) -> str:
    """What tells two commands apart, whatever characters they hold."""
    return sha256(command.encode("utf-8", "surrogateescape"))

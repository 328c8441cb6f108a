"""Commands run by the gate's own process: bare, or contained like an agent's own call.

A contained command is planned and settled in the repository's turn, and runs outside of the turn. Its end is written
beside the staged files before a change is judged: after a crash the effects are judged then, or, if they were being
brought over, the rest is.
"""

import os
import threading
from pathlib import Path

from msgspec import DecodeError, ValidationError, json
from msgspec.structs import replace

from remit.core.call import SESSION_VARIABLE, ToolCall
from remit.core.python_runtime import prepare_type
from remit.gate.containment import run_command
from remit.gate.containment.contained_command import ContainedCommand
from remit.gate.containment.rewrite_call import SHELL, CommandRewriter
from remit.gate.containment.take_over import ContainedResult
from remit.gate.context import WorkspaceContext
from remit.gate.state.tickets import Ticket, Tickets
from remit.workspace.place.assignment_file import read_assignment
from remit.workspace.safe_files import write_atomically
from remit.workspace.sandbox.attempt_places import put_into_command_jail
from remit.workspace.sandbox.containment import CommandEnd, Limits, kind_for_workspace, run_without_bubblewrap
from remit.workspace.sandbox.git_folder_checks import check_objects
from remit.workspace.sandbox.staging import END_FILE, lend_caches, measure_bytes, remove_tree

NO_STAGING_FOLDER = "here"  # stands for a folder in the ticket of a command without a staging area


class CommandRun:
    """A command of the gate's process. `ended` is None until the command has ended."""

    def __init__(self, context: WorkspaceContext, call: ToolCall, cancel: threading.Event | None) -> None:
        self.context = context
        self.call = call
        self.ended: CommandEnd | None = None
        machine = context.environment
        own = {**machine.variables, "HOME": str(machine.home), "TMPDIR": str(machine.temporary)}
        own[SESSION_VARIABLE] = call.session.session_id
        known = run_command.limits_from(context.rules.config.containment) if context.is_governed else Limits()
        self.limits = replace(known, environment=own, cancelled=cancel)

    @property
    def words(self) -> list[str]:
        return [SHELL, "-c", self.call.command or ""]

    def run(self, limits: Limits) -> CommandEnd:
        """Run the command to its end, outside of the repository's turn. Raises SandboxFailed, OSError."""
        words, folder = self.words, Path(self.call.cwd)
        workspace, home = self.context.found_workspace, self.context.environment.home
        if workspace is not None and (assignment := read_assignment(workspace)) and assignment.terms:
            words = put_into_command_jail(workspace, home, folder, words)
        self.ended = run_without_bubblewrap(words, folder, replace(limits, size=None))
        return self.ended


class SandboxRun(CommandRun):
    """A contained command with its ticket."""

    def __init__(self, context: WorkspaceContext, call: ToolCall, cancel: threading.Event | None) -> None:
        """Plan the command, in the repository's turn. Raises NoScratchFolder, OSError, StateError."""
        super().__init__(context, call, cancel)
        containment = CommandRewriter(context, in_process=True).containment
        way = kind_for_workspace(containment, context.workspace)
        environment, tickets, command = context.environment, Tickets(context.state), call.command or ""
        staging = (
            run_command.stage_command(context, call, environment.temporary, os.getpid()) if way == "overlay" else None
        )
        intent_id = context.state.active_session(call.session).intent_id
        issued = tickets.issue_ticket(call, command, intent_id, str(environment.temporary), environment.clock.now())
        folder = NO_STAGING_FOLDER if staging is None else str(staging.folder)
        self.ticket = tickets.use_ticket(issued.token, call.session.session_id, command, folder)
        self.command = ContainedCommand(context, call, self.ticket, is_staged=staging is not None)
        self.staging = staging
        if staging is None:
            self.sandbox = run_command.plan_sandbox(self.command, replace(containment, way=way))
        else:
            lend_caches(staging, context.workspace.root, self.command.intent_id)
            folder = Path(call.cwd)
            self.sandbox = run_command.CommandSandbox(
                containment, folder, (), run_command.make_staged_jail(self.command, staging)
            )

    def run(self, limits: Limits) -> CommandEnd:
        staging = self.staging
        if staging is None:
            self.ended = self.sandbox.run(self.words, replace(limits, size=None))
            return self.ended
        limits = replace(limits, written=lambda: sum(measure_bytes(layer.upper) for layer in staging.layers))
        self.ended = self.sandbox.run(self.words, limits)
        write_atomically(staging.folder / END_FILE, json.encode(self.ended), durable=False)
        check_objects(self.context.workspace, staging)
        return self.ended

    def settle(self) -> ContainedResult | None:
        """Judge the effects, keep the allowed files, and record both, in the repository's turn. None if no command
        ran.
        """
        try:
            if self.ended is None:
                return None
            if self.staging is None:
                return run_command.settle_unstaged(self.command, self.ended)
            return run_command.settle_staging(self.command, self.staging.folder, self.ended)
        finally:
            self.release()

    def release(self) -> None:
        """Give up the command's staged files and its ticket."""
        if self.staging is not None:
            run_command.release_staging(self.staging.folder, discarded=self.ended is None or self.ended.must_discard)
        Tickets(self.context.state).delete_ticket(self.ticket.token)


class LeftoverRun:
    """A contained command of a process that died, found by its ticket."""

    def __init__(self, context: WorkspaceContext, call: ToolCall, ticket: Ticket) -> None:
        self.context = context
        self.call = call
        self.ticket = ticket
        self.folder = Path(ticket.folder)
        self.ended = read_end(self.folder) if ticket.folder != NO_STAGING_FOLDER else None

    def settle(self) -> ContainedResult | None:
        """Judge the staged files, or bring the rest over, and record the result; None if the command had not ended:
        then no file of the command was brought over.
        """
        try:
            if self.ended is None:
                return None
            return run_command.settle_staging(
                ContainedCommand(self.context, self.call, self.ticket), self.folder, self.ended
            )
        finally:
            Tickets(self.context.state).delete_ticket(self.ticket.token)
            if self.ticket.folder != NO_STAGING_FOLDER:
                remove_tree(self.folder)


def find_interrupted_run(context: WorkspaceContext, call: ToolCall) -> LeftoverRun | None:
    """Return the contained command begun by a process for the call, and not settled. Raises StateError."""
    tickets = Tickets(context.state)
    own = [ticket for ticket in tickets.list_tickets() if ticket.is_for_call(call, call.command or "")]
    for unused in (ticket for ticket in own if not ticket.folder):
        tickets.delete_ticket(unused.token)
    return next((LeftoverRun(context, call, ticket) for ticket in own if ticket.folder), None)


def read_end(folder: Path) -> CommandEnd | None:
    try:
        return json.decode((folder / END_FILE).read_bytes(), type=prepare_type(CommandEnd))
    except (OSError, DecodeError, ValidationError):
        return None

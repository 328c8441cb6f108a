"""The daemon's part in a contained command: planning the sandbox, and judging its layers.

The launcher (`hook exec`) asks twice. `plan`: session, call, its process, the words; the answer is the staging folder,
the limits in seconds and bytes, and the words to run, each ended by a NUL. `settle`: folder, call, exit code, the limit
that ended the command, the words; the answer is the message about dropped changes, and the exit code.
"""

import os
import threading
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from remit.adapters import HookReply
from remit.core.display_text import escape_surrogates
from remit.gate.containment.contained_command import ContainedCommand
from remit.gate.containment.rewrite_call import CommandRewriter
from remit.gate.containment.run_command import limits_from, make_sandbox_words, settle_staging
from remit.gate.environment import Environment
from remit.gate.gate import Gate
from remit.gate.state.tickets import TicketNotFound, Tickets, has_uncontained_call
from remit.servers.hook import OpenGate
from remit.workspace.place.workspace import Workspace, locate_workspace
from remit.workspace.sandbox import layers, package_caches
from remit.workspace.sandbox.object_checks import check_objects
from remit.workspace.sandbox.remove_tree import remove_tree
from remit.workspace.sandbox.run_command import STOP_REASONS, describe_end

LAUNCHER_AGENT = "exec"
"""Agent name in the launcher's frames."""

STATUS_DESCRIPTOR = 7
"""Descriptor of the launcher for bubblewrap's status output; `client.c` has the same number."""

FIELD_COUNTS = {"plan": 6, "settle": 7}
"""Number of fields after the phase; the last three are the words."""

REFUSED_EXIT_CODE, RETRY_EXIT_CODE = 3, 9


def answer_launcher(payload: bytes, cwd: str, environment: Environment, gates: OpenGate) -> HookReply:
    """Answer the launcher. Raises the errors in RECORDING_ERRORS: the launcher asks a fresh process after them."""
    phase, *fields = (field.decode("utf-8", "surrogateescape") for field in payload.split(b"\0")[:-1])
    workspace = locate_workspace(Path(cwd))
    if phase == "settle" and workspace is not None:
        check_staged_objects(workspace, Path(fields[0]), environment)
    with gates(workspace, environment) as gate:
        if not gate.is_governed or len(fields) != FIELD_COUNTS.get(phase) or fields[-2] != "-c":
            return HookReply(exit_code=RETRY_EXIT_CODE)
        try:
            return plan_command(gate, cwd, fields) if phase == "plan" else settle_command(gate, fields)
        except layers.NoScratchFolder:
            return HookReply(exit_code=RETRY_EXIT_CODE)
        except TicketNotFound as error:
            return HookReply(stderr=f"remit: {escape_surrogates(str(error))}\n".encode(), exit_code=REFUSED_EXIT_CODE)


def check_staged_objects(workspace: Workspace, folder: Path, environment: Environment) -> None:
    """Check staged git objects before the repository's turn, while other calls need not wait."""
    if folder.parent in [place.resolve() for place in layers.staging_folders(environment.home, environment.temporary)]:
        with suppress(OSError):
            check_objects(workspace, layers.reopen_staging(folder, workspace))


def plan_command(gate: Gate, cwd: str, fields: Sequence[str]) -> HookReply:
    """Return the staging folder, the limits, and the sandbox's words. Raises TicketNotFound."""
    session_id, token, launcher, *command = fields
    rewriter, tickets = CommandRewriter(gate), Tickets(gate.state)
    ticket = tickets.find_ticket(token)
    if ticket is None:
        raise TicketNotFound(token)
    if not rewriter.has_overlay or not launcher.isdecimal():
        return HookReply(exit_code=RETRY_EXIT_CODE)
    around, workspace, temporary = gate.environment, gate.workspace, Path(ticket.temporary)
    place = layers.find_scratch_folder(workspace, around.home, temporary)
    if layers.find_leftovers(place):
        threading.Thread(target=layers.remove_leftovers, args=(place,), daemon=True).start()
    shared = not has_uncontained_call(ticket.make_call(command[2], cwd), gate.state)
    staged = layers.create_staging(place, workspace, around.home, temporary, int(launcher), shared=shared)
    try:
        ticket = tickets.use_ticket(token, session_id, command[2], str(staged.folder))
    except TicketNotFound:
        remove_tree(staged.folder)
        raise
    contained = ContainedCommand(gate, ticket.make_call(command[2], cwd), ticket)
    package_caches.lend_caches(staged, workspace.root, contained.intent_id)
    words = make_sandbox_words(contained, rewriter.containment.program, command, staged, STATUS_DESCRIPTOR)
    limits = limits_from(contained.settings)
    first = (str(staged.folder), f"{limits.seconds or 0:f}", str(limits.size or 0))
    return HookReply(stdout=b"".join(os.fsencode(word) + b"\0" for word in (*first, *words)))


def clear_staging(folder: Path, kept: Path | None) -> None:
    remove_tree(folder)
    package_caches.trim_caches(kept)


def settle_command(gate: Gate, fields: Sequence[str]) -> HookReply:
    """Return the message about dropped changes, and the exit code. Raises TicketNotFound."""
    folder, token, code, stop, *command = fields
    ticket = Tickets(gate.state).finish_ticket(token, folder, command[2])
    contained = ContainedCommand(gate, ticket.make_call(command[2]), ticket)
    ended = describe_end(next((s for s in STOP_REASONS if s == stop), None), int(code), limits_from(contained.settings))
    try:
        result = settle_staging(contained, Path(folder), ended)
    finally:
        kept = None if ended.must_discard else package_caches.keep_caches(Path(folder))
        if not layers.save_as_spare(Path(folder)) or kept is not None:
            threading.Thread(target=clear_staging, args=(Path(folder), kept), daemon=True).start()
    message = f"{escape_surrogates(result.said)}\n".encode() if result.said else b""
    return HookReply(stderr=message, exit_code=result.code)

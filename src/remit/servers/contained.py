"""The daemon's part in a contained command: it plans the sandbox, and judges what its layers took.

The launcher (`hook exec`) asks twice. `plan`: session, call, its process, the words; the answer is the folder of the
staged writes, the seconds and bytes that it may take, then the words to run, each ended by a NUL. `settle`: folder,
call, exit code, which limit ended it, the words; the answer is what was dropped, and the exit code.
"""

import os
import threading
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from remit.adapters import HookReply
from remit.core.text import encodable
from remit.gate.contained import Contained, limits_in
from remit.gate.contained_calls import ContainedCalls
from remit.gate.contained_tickets import NoTicket, Tickets
from remit.gate.environment import Environment
from remit.gate.gate import Gate
from remit.gate.steady import uncontained
from remit.servers.hook import OpenGate
from remit.workspace.place import Workspace, locate
from remit.workspace.sandbox import places, warm
from remit.workspace.sandbox.object_checks import check_objects
from remit.workspace.sandbox.removal import remove_tree
from remit.workspace.sandbox.running import STOPS, stopped_by

AGENT = "exec"
"""What the launcher's frames name in place of an agent."""

STATUS = 7
"""The descriptor that the launcher keeps for bubblewrap's news; `client.c` names the same."""

FIELDS = {"plan": 6, "settle": 7}
"""How many fields come after the phase; the last three are the words."""

REFUSED, ELSEWHERE = 3, 9
"""Nobody gave leave; this process cannot do it, so the launcher has a fresh one do all of it."""


def answer(payload: bytes, cwd: str, around: Environment, gates: OpenGate) -> HookReply:
    """The answer to the launcher. Raises what CannotRecord names: then it asks a fresh process."""
    phase, *fields = (field.decode("utf-8", "surrogateescape") for field in payload.split(b"\0")[:-1])
    workspace = locate(Path(cwd))
    if phase == "settle" and workspace is not None:
        check_before_the_turn(workspace, Path(fields[0]), around)
    with gates(workspace, around) as gate:
        if not gate.governed or len(fields) != FIELDS.get(phase) or fields[-2] != "-c":
            return HookReply(exit_code=ELSEWHERE)
        try:
            return planned(gate, cwd, fields) if phase == "plan" else settled(gate, fields)
        except places.NoScratch:
            return HookReply(exit_code=ELSEWHERE)
        except NoTicket as error:
            return HookReply(stderr=f"remit: {encodable(str(error))}\n".encode(), exit_code=REFUSED)


def check_before_the_turn(workspace: Workspace, folder: Path, around: Environment) -> None:
    """Check the git objects in a staging folder while no other call of the repository has to wait for that."""
    if folder.parent in [place.resolve() for place in places.staging_places(around.home, around.temporary)]:
        with suppress(OSError):
            check_objects(workspace, places.reopened(folder, workspace))


def planned(gate: Gate, cwd: str, fields: Sequence[str]) -> HookReply:
    """Where its writes are staged, and the words that run it. Raises NoTicket."""
    session_id, token, launcher, *command = fields
    calls, tickets = ContainedCalls(gate), Tickets(gate.state)
    ticket = tickets.found(token)
    if ticket is None:
        raise NoTicket(token)
    if not calls.staged or not launcher.isdecimal():
        return HookReply(exit_code=ELSEWHERE)
    around, workspace, temporary = gate.environment, gate.workspace, Path(ticket.temporary)
    place = places.scratch(workspace, around.home, temporary)
    if places.leftovers(place):
        threading.Thread(target=places.sweep, args=(place,), daemon=True).start()
    shared = not uncontained(ticket.call(command[2], cwd), gate.state)
    staged = places.stage(place, workspace, around.home, temporary, int(launcher), shared=shared)
    try:
        ticket = tickets.used(token, session_id, command[2], str(staged.folder))
    except NoTicket:
        remove_tree(staged.folder)
        raise
    contained = Contained(gate, calls.how, ticket)
    warm.lend(staged, workspace.root, ticket.intent_id or "")
    words = contained.words(ticket.call(command[2], cwd), command, staged, STATUS)
    limits = limits_in(gate.governing.config.containment)
    first = (str(staged.folder), f"{limits.seconds or 0:f}", str(limits.size or 0))
    return HookReply(stdout=b"".join(os.fsencode(word) + b"\0" for word in (*first, *words)))


def cleared(folder: Path, kept: Path | None) -> None:
    """Take away what is no longer needed."""
    remove_tree(folder)
    warm.trim(kept)


def settled(gate: Gate, fields: Sequence[str]) -> HookReply:
    """What was dropped, and the exit code. Raises NoTicket."""
    folder, token, code, said, *command = fields
    ticket = Tickets(gate.state).ended(token, folder, command[2])
    contained = Contained(gate, ContainedCalls(gate).how, ticket)
    limits = limits_in(gate.governing.config.containment)
    ended = stopped_by(next((stop for stop in STOPS if stop == said), None), int(code), limits)
    try:
        result = contained.settle(ticket.call(command[2]), Path(folder), ended)
    finally:
        kept = None if ended.too_much else warm.keep(Path(folder))
        if not places.give_back(Path(folder)) or kept is not None:
            threading.Thread(target=cleared, args=(Path(folder), kept), daemon=True).start()
    said = f"{encodable(result.said)}\n".encode() if result.said else b""
    return HookReply(stderr=said, exit_code=result.code)

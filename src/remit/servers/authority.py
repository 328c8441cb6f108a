"""The door of what only a person may do: who asks, by the kernel's word, and what that is enough for.

A person is who is positively seen as one. What cannot be seen is unclear, and unclear is no yes. An agent that runs
uncontained as the same user can leave its ancestors, its terminal and its control group: nothing here proves more than
what it says. See `docs/explanation/threat-model.md`.
"""

import socket
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from enum import IntEnum
from itertools import pairwise
from pathlib import Path
from typing import Any, TypeAlias

from msgspec import Struct
from msgspec.structs import replace

from remit.core.acts import Act
from remit.core.agents import ROWS
from remit.core.machine_paths import STATE_FOLDER
from remit.core.record import Body, CallPart
from remit.core.untrusted_input import sanitise_line
from remit.gate.gate import Gate
from remit.gate.intents.refusals import make_refusal
from remit.gate.records.call_records import violation_document
from remit.gate.state.database import StateDatabase, StateError
from remit.servers.environment import AGENT_VARIABLES
from remit.servers.pin import PinKeeper, PinUnreadable
from remit.workspace.processes import peer_identity
from remit.workspace.processes.process_tracking import (
    OWN_PROGRAM,
    Incomplete,
    ProcessInfo,
    find_agent,
    find_agents_in,
    list_ancestors,
    program_name,
    read_process,
    split_program,
    walk_ancestors,
)

MAX_CALL_S = 600.0  # a command older than the longest wait of an agent has been abandoned
MAX_ROOTS = 256
MAX_PROGRAMS = 12  # of a chain, in a record
ASK = "ask the person to do it"
OWN_CODE = "from remit."  # begin of the code with which the daemon starts processes of its own
DOOR = 1  # version of the evidence in records
BINARIES = frozenset(row.binary for row in ROWS.values())
EDITORS_WITH_TERMINALS = frozenset(
    {
        *("code", "code-insiders", "codium", "cursor", "windsurf", "zed", "zed-editor", "fleet", "emacs"),
        *("idea", "pycharm", "webstorm", "goland", "clion", "rider", "phpstorm", "rubymine", "studio"),
    }
)
"""Programs in whose window an agent and a person may both have a terminal."""


class PeerGrade(IntEnum):
    """Who asks, the clearest person first."""

    PERSON = 0
    UNCLEAR = 1
    SHARED = 2
    AGENT = 3
    CONTAINED = 4
    OTHER_USER = 5


class Ruling(Struct, frozen=True):
    """What the door says to an act: `why` is the evidence where it is refused, `fix` the next step."""

    act: str
    allowed: bool
    grade: str
    why: str = ""
    fix: str = ""
    session: str = ""
    terminal: int = 0
    programs: tuple[str, ...] = ()
    factor: str = ""

    @property
    def takes_pin(self) -> bool:
        """Return whether a PIN lets the act pass: it loosens, and who asks cannot be told from a person."""
        is_open = self.grade in ("unclear", "shared") and self.act != Act.SET_PIN.name
        return not self.allowed and is_open and Act[self.act].kind == "loosen"

    @property
    def evidence(self) -> dict[str, Any]:
        """What a record of the act says about who asked."""
        found = {"version": DOOR, "grade": self.grade, "tty": self.terminal, "programs": self.programs[:MAX_PROGRAMS]}
        return found | {"factor": self.factor} if self.factor else found


class Judgement(Struct, frozen=True):
    """A grade with its evidence; `session` is the agent's, if known."""

    grade: PeerGrade
    why: str = ""
    fix: str = ""
    session: str = ""
    terminal: int = 0
    programs: tuple[str, ...] = ()

    def rule(self, act: Act) -> Ruling:
        """Return the ruling for an act: the class of the act says how clearly a person has to be seen."""
        enough = {"loosen": PeerGrade.PERSON, "neutral": PeerGrade.SHARED, "tighten": PeerGrade.SHARED}[act.kind]
        is_seen = self.grade == PeerGrade.PERSON or act.kind == "tighten" or self.terminal != 0
        return Ruling(
            act=act.name,
            allowed=self.grade <= enough and is_seen,
            grade=self.grade.name.lower(),
            why=self.why,
            fix=self.fix,
            session=self.session,
            terminal=self.terminal,
            programs=self.programs,
        )


def apply_pin(ruling: Ruling, keeper: PinKeeper, pin: str) -> Ruling:
    """Return the ruling with the PIN that was given; empty for none."""
    if not ruling.takes_pin:
        return ruling
    if not keeper.is_set:
        return replace(ruling, fix=f"{ruling.fix}; or, in a terminal where Remit sees you, `remit pin set` once")
    if not pin:
        return replace(ruling, fix=f"{ruling.fix}; or give your PIN at a terminal")
    try:
        found, wait_s = keeper.check(pin)
    except (OSError, PinUnreadable) as error:
        return replace(ruling, why=f"{ruling.why}; {error}", fix=f"{ruling.fix}; or `remit pin set` again")
    if found == "right":
        return replace(ruling, allowed=True, factor="pin", why="", fix="")
    why = "the PIN is wrong" if found == "wrong" else "too many PINs were wrong"
    fix = f"try again in {max(1, round(wait_s))} s" if wait_s else "try again"
    return replace(ruling, why=f"{ruling.why}; {why}", fix=f"{fix}, or set another: `remit pin set`")


class AgentRoot(Struct, frozen=True):
    """The process of an agent whose hooks were called."""

    pid: int
    started: int
    agent: str
    session: str

    def is_alive(self) -> bool:
        found = read_process(self.pid)
        return found is not None and found.started == self.started


class AgentRoots:
    """The agents' processes that called hooks, kept in the user's state. Thread-safe."""

    def __init__(self, home: Path) -> None:
        self.home = home
        self.known: set[tuple[int, int]] = set()

    def find_new(self, hook_pid: int) -> tuple[ProcessInfo, str] | None:
        """Return the agent above a hook's process, if it is not kept yet."""
        try:
            found = find_agent(walk_ancestors(hook_pid), BINARIES)
        except Incomplete:
            return None
        return None if found is None or (found[0].pid, found[0].started) in self.known else found

    def keep(self, root: ProcessInfo, agent: str, session: str) -> None:
        with suppress(StateError, OSError):
            database = self.open()
            with database.transaction() as connection:
                row = (root.pid, root.started, agent, session)
                connection.execute("INSERT OR REPLACE INTO agent_roots VALUES(?,?,?,?)", row)
                surplus = "SELECT rowid FROM agent_roots ORDER BY rowid DESC LIMIT -1 OFFSET ?"
                connection.execute(f"DELETE FROM agent_roots WHERE rowid IN ({surplus})", (MAX_ROOTS,))
            database.close()
            self.known.add((root.pid, root.started))

    def list_alive(self) -> list[AgentRoot]:
        """Return the agents that still run. Raises Incomplete."""
        if not (self.home / STATE_FOLDER / "state.db").exists():
            return []
        try:
            database = self.open()
            rows = database.fetch_rows("SELECT pid, started, agent, session FROM agent_roots")
            database.close()
        except StateError as error:
            raise Incomplete(f"the agents at work are not known: {error}") from None
        return [root for row in rows if (root := AgentRoot(*row)).is_alive()]

    def open(self) -> StateDatabase:
        return StateDatabase(self.home / STATE_FOLDER / "state.db", self.home)


FindCalls: TypeAlias = Callable[[], str]
"""Returns the agent whose command is under way in the workspace; empty for none."""


class Authority:
    """Judge of who asks, for one user. Works in the daemon, and in each process of the user that may read /proc."""

    def __init__(self, home: Path) -> None:
        self.roots = AgentRoots(home)

    def is_worker(self, pid: int) -> bool:
        """Return whether the process may speak for a plan's agents: no agent is above it, and it is in no jail."""
        try:
            return self.judge(peer_identity.read_peer_process(pid), (), may_be_agent=True).grade == PeerGrade.PERSON
        except Incomplete:
            return False

    def rule_connection(self, act: Act, connection: socket.socket, root: Path | None, find_call: FindCalls) -> Ruling:
        """Rule for the process that connected to the daemon's socket."""
        try:
            with peer_identity.pinned_peer(connection) as peer:
                judgement = self.judge_peer(peer, root, find_call)
            return judgement.rule(act)
        except Incomplete as error:
            return explain_incomplete(error).rule(act)

    def rule_process(
        self, act: Act, pid: int, root: Path | None, find_call: FindCalls, variables: Mapping[str, str]
    ) -> Ruling:
        """Rule for a process by its id, and its environment."""
        try:
            peer = replace(peer_identity.read_peer_process(pid), variables=variables)
            return self.judge_peer(peer, root, find_call).rule(act)
        except Incomplete as error:
            return explain_incomplete(error).rule(act)

    def rule_web(
        self, act: Act, root: Path | None, connection: peer_identity.ClientConnection, *, may_be_elsewhere: bool = False
    ) -> Ruling:
        """Rule for the client of a TCP connection by the worst of all processes that hold it. Where people log in, the
        client may be on another machine, or behind a proxy: then the login and the browser's key are all there is.
        """
        try:
            worst = self.judge_holders(connection)
        except peer_identity.NotOfThisUser:
            worst = explain_incomplete(Incomplete("the process that asks is not this user's, or not on this machine"))
        except Incomplete as error:
            return explain_incomplete(error).rule(act)
        if may_be_elsewhere and worst.grade in (PeerGrade.UNCLEAR, PeerGrade.SHARED):
            return Ruling(act.name, True, "login", programs=worst.programs)
        return worst.rule(act)

    def judge_holders(self, connection: peer_identity.ClientConnection) -> Judgement:
        """Return the worst judgement of those that hold the client's end. Raises Incomplete, NotOfThisUser."""
        judged = {pid: self.judge_holder(pid) for pid in peer_identity.find_holders(connection)}
        if any(found.grade == PeerGrade.UNCLEAR for found in judged.values()):
            holding = peer_identity.find_holders(connection)  # one that ended while it was looked at holds nothing
            judged = {pid: found for pid, found in judged.items() if pid in holding}
        if not judged:
            raise Incomplete("no process holds this connection any more")
        return max(judged.values(), key=lambda found: found.grade)

    def judge_holder(self, pid: int) -> Judgement:
        try:
            return self.judge(peer_identity.read_peer_process(pid), self.roots.list_alive(), may_be_agent=False)
        except Incomplete as error:
            return explain_incomplete(error)

    def judge_peer(self, peer: peer_identity.Peer, root: Path | None, find_call: FindCalls) -> Judgement:
        """Judge a process that a person may have started at a terminal. Raises Incomplete."""
        alive = self.roots.list_alive()
        found = self.judge_terminal(peer, self.judge(peer, alive, may_be_agent=True), alive)
        if found.grade > PeerGrade.PERSON or peer.process.terminal:
            return found
        return judge_without_terminal(peer, found, alive, root, find_call)

    def find_doubt(self, agent: peer_identity.Peer) -> str:
        """Return why it is not surely a person who started an agent, and types at its terminal; empty without doubt.
        Raises Incomplete.
        """
        alive = [root for root in self.roots.list_alive() if root.pid != agent.process.pid]
        above = replace(agent, chain=agent.chain[1:])
        if not above.chain:
            raise Incomplete("what started it is not of this system")
        found = self.judge_terminal(agent, self.judge(above, alive, may_be_agent=False), alive)
        return "" if found.grade == PeerGrade.PERSON else found.why

    def judge_terminal(self, peer: peer_identity.Peer, found: Judgement, alive: Sequence[AgentRoot]) -> Judgement:
        for pid in peer_identity.find_terminal_masters(peer) if found.grade <= PeerGrade.UNCLEAR else ():
            if pid not in {process.pid for process in peer.chain}:
                master = self.judge(peer_identity.read_peer_process(pid), alive, may_be_agent=False)
                found = max(found, master, key=lambda each: each.grade)
        return found

    def judge(self, peer: peer_identity.Peer, alive: Sequence[AgentRoot], *, may_be_agent: bool) -> Judgement:
        """Judge a process by its ancestors. `may_be_agent`: an own command that is an agent for others may ask.

        Raises Incomplete.
        """
        chain = peer.chain
        pids = {(process.pid, process.started) for process in chain}
        seen = Judgement(PeerGrade.PERSON, terminal=peer.process.terminal, programs=peer.programs)
        own = may_be_agent and program_name(peer.process.argv) == OWN_PROGRAM
        agent = find_agent(chain[1:] if own else chain, BINARIES)
        kept = next((root for root in alive if (root.pid, root.started) in pids), None)
        name, pid = (agent[1], agent[0].pid) if agent else (kept.agent, kept.pid) if kept else ("", 0)
        session = next((root.session for root in alive if root.pid == pid), "")
        if peer.is_jailed or (peer.is_elsewhere and name):
            why = "this command runs contained, and nothing in there acts for a person"
            return replace(seen, grade=PeerGrade.CONTAINED, why=why, fix=ASK, session=session)
        if name:
            why = f"{name} (process {pid}) started this"
            return replace(seen, grade=PeerGrade.AGENT, why=why, fix=ASK, session=session)
        if (command := find_command_of_daemon(chain)) is not None:
            why = f"Remit's daemon runs {program_name(command.argv)} (process {command.pid}) for an agent"
            return replace(seen, grade=PeerGrade.AGENT, why=why, fix=ASK)
        if any(peer.variables.get(variable) for variable in AGENT_VARIABLES):
            why = "this shell was started by a coding agent: its environment says so"
            return replace(seen, grade=PeerGrade.AGENT, why=why, fix=ASK)
        for root in alive:
            with suppress(Incomplete):
                if editor := find_shared_editor(chain, list_ancestors(root.pid)):
                    why = f"this terminal is {editor}'s, and {root.agent} works in {editor} too"
                    fix = "use a terminal outside of it, or the console"
                    why += ": whose typing this is cannot be told"
                    return replace(seen, grade=PeerGrade.SHARED, why=why, fix=fix)
        if (root := find_likely_parent(peer, alive)) is not None and peer.adopted is not None:
            what = f"{program_name(peer.adopted.argv)} (process {peer.adopted.pid})"
            why = f"who started this cannot be seen: {what} has no parent, and began while {root.agent} worked"
            fix = f"use a terminal that is older than {root.agent}, or end {root.agent} first"
            return replace(seen, grade=PeerGrade.UNCLEAR, why=why, fix=fix)
        return seen


def find_command_of_daemon(chain: Sequence[ProcessInfo]) -> ProcessInfo | None:
    for child, parent in pairwise(chain):
        if split_program(parent.argv)[0] == OWN_PROGRAM and "daemon" in parent.argv:
            is_own = program_name(child.argv) == OWN_PROGRAM or any(word.startswith(OWN_CODE) for word in child.argv)
            return None if is_own else child
    return None


def explain_incomplete(error: Incomplete) -> Judgement:
    return Judgement(
        PeerGrade.UNCLEAR, f"who started this cannot be seen: {error}", "try again, in a terminal of your own"
    )


def find_shared_editor(chain: Sequence[ProcessInfo], others: Sequence[ProcessInfo]) -> str:
    """Return the editor that is above both; empty for none."""
    above = {process.pid for process in others}
    shared = (program_name(process.argv) for process in chain if process.pid in above)
    return next((name for name in shared if name.lower() in EDITORS_WITH_TERMINALS), "")


def find_likely_parent(peer: peer_identity.Peer, alive: Sequence[AgentRoot]) -> AgentRoot | None:
    """Return the agent that may have left the process behind: the system adopted it while that one worked, and no
    control group tells them apart. Raises Incomplete.
    """
    adopted = peer.adopted
    earlier = [root for root in alive if adopted is not None and root.started <= adopted.started]
    if adopted is None or not earlier or not peer_identity.is_own_process(adopted.pid):
        return None
    group = peer_identity.read_control_group(adopted.pid)
    return next(
        (root for root in earlier if not group or peer_identity.read_control_group(root.pid) in ("", group)), None
    )


def judge_without_terminal(
    peer: peer_identity.Peer, found: Judgement, alive: Sequence[AgentRoot], root: Path | None, find_call: FindCalls
) -> Judgement:
    agent = find_call()
    if not alive and not agent:
        return found
    begun = [each.started for each in alive]
    begun += [each.started for each in find_agents_in(root, BINARIES)] if root is not None else []
    leader = next((each for each in peer.chain[1:] if each.pid == peer.process.session), None)
    if leader is not None and begun and leader.started < min(begun):
        return found
    what = f"a command of {agent} is under way in this repository" if agent else f"{alive[0].agent} is at work"
    why = f"this shell has none, and {what}, which may have started it"
    fix = "run it in a terminal, or when that command has ended"
    return Judgement(PeerGrade.UNCLEAR, why, fix, terminal=0, programs=found.programs)


def find_running_agent(gate: Gate) -> str:
    """Return the agent whose command is under way in this workspace; empty for none."""
    since = gate.environment.clock.now() - MAX_CALL_S
    try:
        calls = gate.state.list_open_calls() if gate.is_governed else []
    except StateError:
        return ""
    return next((c.pending.agent for c in calls if c.at > since and c.pending and c.pending.whole), "")


def record_refused(gate: Gate, ruling: Ruling, command: str) -> None:
    """Record a refused act; do nothing in an ungoverned folder."""
    if not gate.is_governed:
        return
    reason = f"{Act[ruling.act].words} is for a person at a terminal: {sanitise_line(ruling.why, 500)}."
    violation = violation_document(make_refusal("COMMAND_BLOCKED", reason, command, None).violation)
    call = CallPart(name=command, effect="execute", command=Act[ruling.act].words)
    detail = {"door": ruling.evidence}
    body = Body(
        event="denied",
        intent_id=None,
        session_id=ruling.session or None,
        call=call,
        violation=violation,
        detail=detail,
    )
    gate.recorder.append_or_spool([gate.recorder.make_record(body)])

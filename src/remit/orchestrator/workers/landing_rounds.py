"""Rounds of landing: the engine gathers a train, the lander lands it, and the engine is told how it went.

A round may run twice: what had landed before a worker died is found in the target, and only settled.
"""

import shlex
from collections.abc import Sequence
from pathlib import Path

from msgspec.structs import replace
from sqlalchemy.exc import DBAPIError

from remit.core.assignment import ANYWHERE
from remit.core.untrusted_input import sanitise_line
from remit.gate.gate import Gate
from remit.gate.team_hooks.verify_commands import split_by_trust
from remit.gate.trust import trusted_digests
from remit.orchestrator.board import Hold, Landing, LandingState, TaskState
from remit.orchestrator.conflict import ConflictKind, Evidence, Party
from remit.orchestrator.engines import Engine
from remit.orchestrator.landing.checks import ContainedChecks
from remit.orchestrator.landing.land import CommonFiles, Lander, LandingMember, LandingTerms, TrainResult
from remit.orchestrator.landing.merge_rules import FaultKind, IsGreen, LandingFault
from remit.orchestrator.trains import bisect_train
from remit.workspace.merging import RefCheckedOut, TreeStore
from remit.workspace.place.workspace import Workspace
from remit.workspace.worktrees import Worktrees

MAX_WHY_CHARS = 2000
MAX_REASON_CHARS = 600


def land_handed_in(
    engine: Engine, gate: Gate, trees: Worktrees, repository: str, target: str, kind: type[Lander] = Lander
) -> None:
    """Land one train after the other, until nothing is handed in."""
    store = TreeStore(gate.workspace)
    while True:
        tip = store.find_commit(f"refs/heads/{target}")
        landing = engine.gather_landing(repository, target, tip or "", list_touched(engine, store, repository))
        if landing is None:
            return
        land_train(engine, gate, landing, tip, make_lander(gate, trees, kind))


def make_lander(gate: Gate, trees: Worktrees, kind: type[Lander] = Lander) -> Lander:
    timeout_s = gate.rules.config.verify.landing_timeout_s
    return kind(
        gate, trees, ContainedChecks(gate.environment, checks_folder(trees), timeout_s=timeout_s).run, find_culprit
    )


def land_train(engine: Engine, gate: Gate, landing: Landing, tip: str | None, lander: Lander) -> None:
    """Land a train, and settle it: each member has landed, is redone, or waits for a person."""
    base = tip or ""
    try:
        members = list_members(engine, gate, landing)
        base = base or find_base(gate.workspace, landing.target)
        result = land_members(gate, lander, landing, base, members)
        present = {member.intent for member in members}
    except DBAPIError:
        raise
    except Exception as error:  # noqa: BLE001  whatever breaks, nothing has landed, and a person is told
        result = refuse_all(landing, base, "unknown", f"{type(error).__name__}: {error}")
        present = set[str]()
    missing = {*landing.members} - present - {fault.intent for fault in result.faults}
    lost = "its intent is no longer in the intents file, or what it handed in is gone"
    gone = tuple(LandingFault(intent, "unknown", lost) for intent in sorted(missing))
    faults = (*result.faults, *gone)
    state = LandingState.TARGET_MOVED if result.target_moved else LandingState.LANDED
    if not result.landed and faults:
        state = LandingState.RED if any(fault.kind == "red" for fault in faults) else LandingState.CONFLICT
    ended = replace(
        landing,
        state=state,
        new=result.new,
        verify_ms=result.verify_ms,
        flaky=result.flaky,
        why="; ".join(f"{fault.intent}: {fault.why}" for fault in faults)[:MAX_WHY_CHARS],
    )
    engine.settle_landing(ended, tuple(result.landed), tuple(map(describe_fault, faults)))


def land_members(
    gate: Gate, lander: Lander, landing: Landing, base: str, members: Sequence[LandingMember]
) -> TrainResult:
    """Land the members as the settings say. Where a command that decides is not trusted here, nothing lands."""
    config = gate.rules.config
    trusted = trusted_digests(gate.recorder)
    items = (*config.verify.landing_items, *config.orchestrator.trust_items)
    named = [item.text for item in items if item.digest not in trusted]
    if not config.verify.landing:
        criteria = {name: split_by_trust(gate, gate.intents.get(name))[1] for name in landing.members}
        named += [f"to verify {name}: {command}" for name, commands in criteria.items() for command in commands]
    if named:
        why = f"not trusted on this machine, so it does not run: {'; '.join(named)}. Look at it, then `remit trust`"
        return refuse_all(landing, base, "untrusted", f"{why}, and `remit plan resume`")
    made = (common for common in config.orchestrator.commons if common.make)
    commons = tuple(CommonFiles(c.paths, c.make if isinstance(c.make, str) else shlex.join(c.make)) for c in made)
    settings = config.orchestrator
    terms = LandingTerms(landing.target, settings.form, settings.remote, base, config.verify.landing, commons)
    try:
        return lander.land(terms, members)
    except RefCheckedOut as error:
        why = f"{landing.target} is checked out in {error.place!r}: {error.hint}"
        return refuse_all(landing, base, "unknown", why)


def refuse_all(landing: Landing, tip: str, kind: FaultKind, why: str) -> TrainResult:
    return TrainResult(tip, tip, faults=tuple(LandingFault(intent, kind, why) for intent in landing.members))


def find_culprit(members: Sequence[str], is_green: IsGreen) -> tuple[str, str]:
    found = bisect_train(members, is_green)
    return found.intent, found.partner


def checks_folder(trees: Worktrees) -> Path:
    return trees.folder / "checks"


def list_members(engine: Engine, gate: Gate, landing: Landing) -> list[LandingMember]:
    """Return the members with what they handed in, in the order of the train."""
    board = engine.read_board()
    members: list[LandingMember] = []
    for name in landing.members:
        hold = board.holds.get((landing.repository, name))
        intent = gate.intents.find_intent(name)
        if hold is None or intent is None:
            continue
        members.append(
            LandingMember(
                name,
                hold.attempt,
                hold.token,
                branch_of(hold),
                (hold.scope, intent.owned_scope, ANYWHERE),
                intent.title,
                split_by_trust(gate, intent)[0],
            )
        )
    return members


def branch_of(hold: Hold) -> str:
    return f"refs/heads/remit/{hold.intent}/{hold.attempt}"


def describe_fault(fault: LandingFault) -> Evidence:
    """Return a fault as evidence of a conflict; what no attempt can mend goes to a person."""
    kinds = {"conflict": ConflictKind.TEXT, "lost_line": ConflictKind.TEXT, "red": ConflictKind.MEANING}
    kind = kinds.get(fault.kind, ConflictKind.REFUSED)
    earlier = Party(fault.partner or "what has landed", paths=len(fault.paths))
    why = sanitise_line(" ".join(fault.why.split()), MAX_REASON_CHARS)
    return Evidence(kind, earlier, Party(fault.intent, paths=len(fault.paths)), fault.paths, why=why)


def list_touched(engine: Engine, store: TreeStore, repository: str) -> dict[str, tuple[str, ...]]:
    """Return the files that each change that is handed in touches."""
    board = engine.read_board()
    touched: dict[str, tuple[str, ...]] = {}
    for key, task in board.tasks.items():
        hold = board.holds.get(key)
        if hold is not None and task.repository == repository and task.state is TaskState.HANDED_IN:
            touched[task.intent] = list_files(store, hold, board.plans[task.plan].target)
    return touched


def list_files(store: TreeStore, hold: Hold, target: str) -> tuple[str, ...]:
    head, tip = store.find_commit(branch_of(hold)), store.find_commit(f"refs/heads/{target}") or "HEAD"
    base = store.find_merge_base(tip, head) if head else None
    return tuple(change.path for change in store.list_changes(base, head)) if head and base else ()


def find_base(workspace: Workspace, target: str) -> str:
    """Return the newest commit to start from: the target's tip, else the one that the main worktree has checked out.

    Raises ValueError in a repository without a commit.
    """
    store = TreeStore(workspace)
    found = store.find_commit(f"refs/heads/{target}") or store.find_commit("HEAD")
    if found is None:
        raise ValueError(f"{str(workspace.root)!r} has no commit to start from: make one first")
    return found


def trees_folder(home: Path, repository: str) -> Path:
    return home / ".local/share/remit/trees" / repository

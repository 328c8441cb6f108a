"""Rounds of landing: the engine gathers a train, the lander lands the train, and the result is reported to the engine.

A round may run twice: members landed before a worker died are found in the target, and only settled.
"""

import shlex
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path

from msgspec.structs import replace

from remit.core.assignment import ANYWHERE
from remit.core.intent import Intent
from remit.core.plurals import count_things
from remit.core.untrusted_input import sanitise_line
from remit.gate.gate import Gate
from remit.gate.hooks.verify_commands import split_by_trust
from remit.workspace.git.command import TIMEOUT_S, GitError
from remit.workspace.git.repository import prefix_in_repository
from remit.workspace.merging import RefCheckedOut, RemoteRefused, TreeStore
from remit.workspace.place.workspace import Workspace
from remit.workspace.sharing.shared_refs import RemoteAway
from remit.workspace.worktrees import HANDED_IN_REFS, Worktrees, attempt_name
from remit_fleet.artifacts import keep_landing
from remit_fleet.board import Hold, Landing, LandingState, TaskState
from remit_fleet.conflict import ConflictKind, Evidence, Party
from remit_fleet.database.store import AWAY_ERRORS, StoreError
from remit_fleet.engines.dbos import DbosEngine
from remit_fleet.landing.checks import CheckResult, ContainedChecks
from remit_fleet.landing.land import CommonFiles, Lander, LandingMember, LandingTerms, TrainResult
from remit_fleet.landing.merge_rules import FaultKind, IsGreen, LandingFault
from remit_fleet.remote import SHARING_ERRORS, FleetRemote, TargetRewritten
from remit_fleet.trains import bisect_train
from remit_fleet.workers.waiting import RemotePatience, describe_away

MAX_WHY_CHARS = 2000
MAX_REASON_CHARS, MAX_COMMAND_CHARS = 600, 120


class IntentsUnreadable(RuntimeError):
    """Error for an intents file with an error, such as one that a person is about to edit."""


def land_handed_in(
    engine: DbosEngine,
    gate: Gate,
    trees: Worktrees,
    repository: str,
    target: str,
    wait: Callable[[float], bool],
    kind: type[Lander] = Lander,
) -> None:
    """Land one train after the next until no task is handed in. `wait` pauses, and returns True to stop."""
    store = TreeStore(gate.workspace)
    patience = RemotePatience(gate.environment.clock.now())
    while True:
        tip = store.find_commit(f"refs/heads/{target}")
        landing = engine.gather_landing(repository, target, tip or "", list_touched(engine, gate, store, repository))
        if landing is None:
            return
        tell = partial(engine.note_check, landing)
        if land_train(engine, gate, landing, make_lander(gate, trees, kind, tell), patience):
            patience = RemotePatience(gate.environment.clock.now())
        elif wait(patience.pause_s):
            return
        else:
            patience.double()


def make_lander(
    gate: Gate, trees: Worktrees, kind: type[Lander] = Lander, tell: Callable[[str], None] = lambda _: None
) -> Lander:
    """Return a lander. `tell` is called with each check before it runs."""
    timeout_s = gate.rules.config.verify.landing_timeout_s
    checks = ContainedChecks(gate.environment, checks_folder(trees), timeout_s=timeout_s)

    def run_check(tree: Workspace, command: str) -> CheckResult:
        tell(sanitise_line(command, MAX_COMMAND_CHARS))
        return checks.run(tree, command)

    return kind(gate, trees, run_check, find_culprit)


def land_train(engine: DbosEngine, gate: Gate, landing: Landing, lander: Lander, patience: RemotePatience) -> bool:
    away = ""
    try:
        choose_attempts(engine, gate, landing, lander, patience.limit_s)
        members = list_members(engine, gate, landing)
        nothing = TrainResult(landing.old, landing.old)
        result = land_members(gate, lander, landing, members, patience.limit_s) if members else nothing
        present = {member.intent for member in members}
    except (*AWAY_ERRORS, StoreError):
        raise
    except (RemoteAway, IntentsUnreadable) as error:
        result, present = TrainResult(landing.old, landing.old, target_moved=True), {*landing.members}
        said = describe_away(error, patience.since) if isinstance(error, RemoteAway) else str(error)
        away = f"{said}; it is tried again in {patience.pause_s:g} s"
    except Exception as error:  # whatever breaks, nothing has landed, and a person is told
        if isinstance(error, GitError) and (error.code or 0) < 0:
            raise  # a signal ended git, which says nothing about the change: another landing takes up the train
        said = str(error) if isinstance(error, ValueError | RuntimeError) else f"{type(error).__name__}: {error}"
        why = f"{said}; once that is mended, `remit plan land`"
        result, present = refuse_all(landing, "unknown", why), set[str]()
    missing = {*landing.members} - present - {fault.intent for fault in result.faults}
    gone = tuple(LandingFault(intent, "unknown", explain_absence(gate, intent)) for intent in sorted(missing))
    faults = (*result.faults, *gone)
    state = LandingState.TARGET_MOVED if result.target_moved else LandingState.LANDED
    if not result.landed and faults:
        state = LandingState.RED if any(fault.kind == "red" for fault in faults) else LandingState.CONFLICT
    ended = replace(
        landing,
        state=state,
        old=result.old,
        new=result.new,
        verify_ms=result.verify_ms,
        flaky=result.flaky,
        why=(away or "; ".join(f"{fault.intent}: {fault.why}" for fault in faults))[:MAX_WHY_CHARS],
    )
    engine.settle_landing(ended, tuple(result.landed), tuple(map(describe_fault, faults)))
    return not away


def choose_attempts(
    engine: DbosEngine, gate: Gate, landing: Landing, lander: Lander, limit_s: float = TIMEOUT_S
) -> None:
    """Choose of each member with rivals the attempt that lands: green before red, then the fewest changed lines. Raises
    RemoteAway.
    """
    board = engine.read_board()
    for name in landing.members:
        task, hold = board.tasks[landing.repository, name], board.holds.get((landing.repository, name))
        intent = gate.intents.find_intent(name)
        if not task.finished or hold is None or intent is None or describe_untrusted(gate, [name]):
            continue  # its landing says what is missing
        try:
            terms = make_terms(gate, landing.target, limit_s)
        except TargetRewritten:
            return  # its landing says so
        if terms.remote:
            FleetRemote(gate, terms.remote, limit_s).fetch_attempts(f"{name}/{number}" for number in task.finished)
        found: list[tuple[bool, int, int, str]] = []
        for number in task.finished:
            member = make_member(engine, gate, replace(hold, attempt=number), intent)
            fault, lines = (
                lander.try_member(terms, member),
                count_changed_lines(lander.store, terms.base, member.commit),
            )
            why = f"attempt {number}: {fault.why if fault else 'green'}, {count_things(lines, 'changed line')}"
            found.append((fault is not None, lines, number, sanitise_line(" ".join(why.split()), MAX_REASON_CHARS)))
        best = min(found)
        others = [f"remit/{name}/{number}" for _, _, number, _ in found if number != best[2]]
        kept = f"; {', '.join(others)} stay" if others else ""
        engine.choose_attempt(landing, name, best[2], f"{'; '.join(each[3] for each in found)}{kept}")


def count_changed_lines(store: TreeStore, base: str, commit: str) -> int:
    if store.find_commit(commit) is None:
        return 0  # what is not here cannot land
    fork = store.find_merge_base(base, commit) or base
    rows = (line.split("\t") for line in store.git.text("diff", "--numstat", fork, commit).splitlines())
    return sum(int(number) for row in rows for number in row[:2] if number.isdigit())


def land_members(
    gate: Gate, lander: Lander, landing: Landing, members: Sequence[LandingMember], limit_s: float = TIMEOUT_S
) -> TrainResult:
    """Land the members according to the settings, each exchange with the remote within `limit_s`. Raises RemoteAway,
    without any ref moved.
    """
    settings = gate.rules.config.orchestrator
    if why := describe_untrusted(gate, [member.intent for member in members]):
        return refuse_all(landing, "untrusted", why)
    try:
        terms = make_terms(gate, landing.target, limit_s)
        if settings.remote:
            remote = FleetRemote(gate, settings.remote, limit_s)
            remote.fetch_attempts(member.name for member in members)  # some were handed in as the train was gathered
            remote.fetch_logs()
        try:
            result = lander.land(terms, members)
        finally:
            keep_landing(gate, [member.name for member in members], lander.results)
    except RefCheckedOut as error:
        why = f"{landing.target} is checked out in {error.place!r}: {error.hint}"
        return refuse_all(landing, "checked_out", why)
    except (TargetRewritten, RemoteRefused) as error:
        return refuse_all(landing, "remote", str(error))
    if settings.remote and result.landed:
        with suppress(*SHARING_ERRORS):  # the next landing shares it
            FleetRemote(gate, settings.remote).share_log()
    return result


def make_terms(gate: Gate, target: str, limit_s: float = TIMEOUT_S) -> LandingTerms:
    """Return the terms of a landing by the settings, after the target has followed the remote's. Raises RemoteAway,
    TargetRewritten.
    """
    config, settings = gate.rules.config, gate.rules.config.orchestrator
    made = (common for common in settings.commons if common.make)
    commons = tuple(CommonFiles(c.paths, c.make if isinstance(c.make, str) else shlex.join(c.make)) for c in made)
    terms = LandingTerms(target, settings.form, "", "", config.verify.landing, commons, union=list_union(gate))
    if settings.remote:
        tip, theirs = FleetRemote(gate, settings.remote, limit_s).follow_target(target)
        terms = replace(terms, remote=settings.remote, base=tip or "", remote_tip=theirs, limit_s=limit_s)
    return replace(terms, base=terms.base or find_base(gate.workspace, target))


def describe_untrusted(gate: Gate, names: Iterable[str]) -> str:
    """Return the landing commands not trusted on this machine; empty if none."""
    config, trusted = gate.rules.config, gate.trusted_digests()
    items = (*config.verify.landing_items, *config.orchestrator.trust_items)
    named = [item.text for item in items if item.digest not in trusted]
    for name in names if not config.verify.landing else ():
        named += [f"to verify {name}: {command}" for command in split_by_trust(gate, gate.intents.get(name))[1]]
    if not named:
        return ""
    why = f"not trusted on this machine, so it does not run: {'; '.join(named)}"
    return f"{why}. Look at it, then `remit trust`, and `remit plan land`"


def refuse_all(landing: Landing, kind: FaultKind, why: str) -> TrainResult:
    faults = tuple(LandingFault(intent, kind, why) for intent in landing.members)
    return TrainResult(landing.old, landing.old, faults=faults)


def find_culprit(members: Sequence[str], is_green: IsGreen) -> tuple[str, str]:
    found = bisect_train(members, is_green)
    return found.intent, found.partner


def checks_folder(trees: Worktrees) -> Path:
    return trees.folder / "checks"


def list_members(engine: DbosEngine, gate: Gate, landing: Landing) -> list[LandingMember]:
    """Return the members with their handed-in work, in the order of the train; without those that `explain_absence`
    names. Raises IntentsUnreadable.
    """
    for name in landing.members:
        if broken := gate.intents.describe_broken_file(name):
            raise IntentsUnreadable(broken)
    board = engine.read_board()
    members: list[LandingMember] = []
    for name in landing.members:
        hold = board.holds.get((landing.repository, name))
        intent = gate.intents.find_intent(name)
        if hold is None or intent is None or intent.status == "ABORTED":
            continue
        members.append(make_member(engine, gate, hold, intent))
    return members


def explain_absence(gate: Gate, name: str) -> str:
    intent = gate.intents.find_intent(name)
    if intent is None:
        return f"no file declares it any more: put it back, then `remit plan land`; else {give_up(name)}"
    if intent.status == "ABORTED":
        return f"a person made it ABORTED while it ran: {give_up(name)}"
    return f"what it handed in is gone: `remit task retry {name}`"


def give_up(name: str) -> str:
    return f"`remit plan stop {name}` gives it up, and its work stays on the branches remit/{name}/*"


def list_union(gate: Gate) -> tuple[str, ...]:
    prefix = prefix_in_repository(gate.workspace)
    return tuple(f"{prefix}{pattern}" for pattern in gate.rules.config.orchestrator.union_paths)


def make_member(engine: DbosEngine, gate: Gate, hold: Hold, intent: Intent) -> LandingMember:
    union = gate.rules.config.orchestrator.union_paths
    patterns = ((*hold.scope, *union), intent.owned_scope, ANYWHERE)
    checks = split_by_trust(gate, intent)[0]
    commit, branch = find_handed_in(engine, gate, hold), branch_of(hold)
    return LandingMember(intent.id, hold.attempt, hold.token, commit, patterns, intent.title, checks, branch)


def find_handed_in(engine: DbosEngine, gate: Gate, hold: Hold) -> str:
    mark = TreeStore(gate.workspace).find_commit(f"{HANDED_IN_REFS}/{attempt_name(hold.intent, hold.attempt)}")
    known = engine.load_attempt(hold.repository, hold.intent, hold.attempt)
    return mark or (known.head if known else "")


def branch_of(hold: Hold) -> str:
    return f"refs/heads/remit/{hold.intent}/{hold.attempt}"


def describe_fault(fault: LandingFault) -> Evidence:
    kinds = {"conflict": ConflictKind.TEXT, "lost_line": ConflictKind.TEXT, "red": ConflictKind.MEANING}
    kind = kinds.get(fault.kind, ConflictKind.REFUSED)
    earlier = Party(fault.partner or "what has landed", paths=len(fault.paths))
    why = sanitise_line(" ".join(fault.why.split()), MAX_REASON_CHARS)
    return Evidence(kind, earlier, Party(fault.intent, paths=len(fault.paths)), fault.paths, why=why)


def list_touched(engine: DbosEngine, gate: Gate, store: TreeStore, repository: str) -> dict[str, tuple[str, ...]]:
    board = engine.read_board()
    ready = (TaskState.HANDED_IN, TaskState.LANDING)
    holds = {
        key: hold
        for key, hold in board.holds.items()
        if key[0] == repository and (task := board.tasks.get(key)) and task.state in ready
    }
    if remote := gate.rules.config.orchestrator.remote:
        with suppress(RemoteAway, GitError):  # its landing says so
            numbers = {key: {hold.attempt, *board.tasks[key].finished} for key, hold in holds.items()}
            FleetRemote(gate, remote).fetch_attempts(f"{key[1]}/{n}" for key, each in numbers.items() for n in each)
    targets = {key: board.plans[board.tasks[key].plan].target for key in holds}
    return {hold.intent: list_files(store, hold, targets[key]) for key, hold in holds.items()}


def list_files(store: TreeStore, hold: Hold, target: str) -> tuple[str, ...]:
    head, tip = store.find_commit(branch_of(hold)), store.find_commit(f"refs/heads/{target}") or "HEAD"
    with suppress(GitError):  # its landing says what is wrong with it
        base = store.find_merge_base(tip, head) if head else None
        return tuple(change.path for change in store.list_changes(base, head)) if head and base else ()
    return ()


def find_base(workspace: Workspace, target: str, first: str = "") -> str:
    """Return the newest commit to start from: the target's tip, or the `first` commit of its plan, or the main
    worktree's HEAD. Raises ValueError in a repository without a commit.
    """
    store = TreeStore(workspace)
    names = (f"refs/heads/{target}", *((first,) if first else ()), "HEAD")
    found = next(filter(None, map(store.find_commit, names)), None)
    if found is None:
        raise ValueError(f"{str(workspace.root)!r} has no commit to start from: make one first")
    return found


def trees_folder(home: Path, repository: str) -> Path:
    return home / ".local/share/remit/trees" / repository

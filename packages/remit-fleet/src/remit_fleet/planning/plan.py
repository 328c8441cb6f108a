"""Plans made from intents: the tasks, their dependencies, an order, and the findings against the plan.

A plan has no file of its own: its steps are intents. A task starts once its dependencies and its children have landed,
and never beside a task with an unproved or overlapping write set.
"""

from bisect import bisect_left
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from heapq import heapify, heappop, heappush
from itertools import chain, islice, takewhile
from typing import Literal, TypeAlias

from msgspec import Struct

from remit.core.config import AgentRole, OrchestratorSettings, as_tuple, make_verify_item
from remit.core.intent import FINAL_STATUSES, INTENTS_FOLDER, PRIORITIES, Intent, IntentsDocument
from remit.core.intents.validation import find_cycles, format_cycle
from remit.core.plurals import count_things
from remit.core.scope.apart import Apart, Shared, Unproved, decide_all_apart
from remit.core.scope.path_patterns import Scope, find_literal_prefix, fold_case, relative_glob_error
from remit_fleet.planning.write_sets import EVERYTHING, Proofs, SharedPath, WriteSet, make_write_set

PlanCode: TypeAlias = Literal[
    "INTENTS_FILE_INVALID", "INTENT_CLOSED", "CYCLE", "UNKNOWN_DEPENDENCY", "DEPENDENCY_NOT_PLANNED", "SCOPE_UNUSABLE",
    "OVERLAP", "UNPROVED", "COMPANIONS_IN_PLAN", "COMMONS", "NO_CRITERION", "UNTRUSTED_VERIFY", "IMPORTS_ACROSS",
    "TOO_WIDE", "NO_AGENT", "NO_COMMIT", "DIRTY_TARGET", "TARGET_BEHIND", "NOT_COMMITTED",
]  # fmt: skip
MAX_SHARE = 0.25
"""Share of the tracked files that a task may own without a warning, in a repository of MIN_FILES or more."""
MIN_FILES = 20
MAX_SHOWN_ERRORS = 10
MAX_PAIR_FINDINGS = 500


class PlanFinding(Struct, frozen=True):
    """Finding against a plan. `path` is a witness, `fix` an example of the next step."""

    code: PlanCode
    severity: Literal["error", "warning"]
    message: str
    intents: tuple[str, ...] = ()
    field: str | None = None
    path: str | None = None
    fix: str = ""


class RepositoryFacts(Struct, frozen=True):
    """Facts of the repository and the machine needed by a plan.

    `files` are the tracked files in order; `imports` maps a file to its imported files, `trusted` holds the digests of
    commands trusted by a person, `agents` the installed agents. `folds_case` describes the file system; `dirty_target`
    is the work tree with the target branch checked out and uncommitted changes, empty for none. `apart` counts the
    commits of Remit's own target that HEAD lacks, and those of HEAD that it lacks; `uncommitted` are the intents that
    HEAD lacks.
    """

    files: tuple[str, ...] = ()
    has_commit: bool = True
    folds_case: bool = False
    agents: frozenset[str] = frozenset()
    trusted: frozenset[str] = frozenset()
    dirty_target: str = ""
    imports: Mapping[str, tuple[str, ...]] = {}
    apart: tuple[int, int] = (0, 0)
    uncommitted: tuple[str, ...] = ()


class TrackedFiles:
    """Tracked files of a repository, sorted. `fold` describes a file system that ignores case."""

    def __init__(self, files: Iterable[str], *, fold: bool = False) -> None:
        self.fold = fold
        self.pairs = sorted((fold_case(file) if fold else file, file) for file in files)
        """Each file, after its form for comparing."""

    def list_owned(self, own: WriteSet) -> Iterator[str]:
        """Yield the files that a task may write; only files below the task's folders are examined."""
        found = (find_literal_prefix(line) for line in own.scope if not line.startswith("!"))
        folders = {fold_case(folder) if self.fold else folder for folder in found}
        for folder in sorted(f for f in folders if not any(f != other and f.startswith(other) for other in folders)):
            plain = folder.removesuffix("/")  # a plain name may be a file
            exact = takewhile(lambda pair, name=plain: pair[0] == name, self.list_pairs_from(plain) if plain else ())
            below = takewhile(lambda pair, name=folder: pair[0].startswith(name), self.list_pairs_from(folder))
            yield from (file for _, file in chain(exact, below) if own.contains(file, fold=self.fold))

    def list_pairs_from(self, start: str) -> Iterator[tuple[str, str]]:
        return islice(self.pairs, bisect_left(self.pairs, (start, "")), None)


class PlannedTask(Struct, frozen=True):
    """Intent in a plan. `needs` have to land first; `shares` are the tasks that never run beside this task."""

    intent_id: str
    title: str
    role: str
    needs: tuple[str, ...]
    shares: tuple[str, ...]
    write_set: WriteSet


SEQUENCED_CODES = ("OVERLAP", "UNPROVED")


class Plan(Struct, frozen=True):
    """Tasks in an order allowed by their needs, the pairs not proved apart, and the findings."""

    tasks: tuple[PlannedTask, ...]
    findings: tuple[PlanFinding, ...]
    shared: tuple[SharedPath, ...]
    pairs_apart: int

    @property
    def errors(self) -> tuple[PlanFinding, ...]:
        return tuple(finding for finding in self.findings if finding.severity == "error")

    @property
    def obstacles(self) -> tuple[PlanFinding, ...]:
        """The errors that keep the plan from starting. Tasks that are not proved apart only run one after the other."""
        return tuple(finding for finding in self.errors if finding.code not in SEQUENCED_CODES)


def make_plan(
    document: IntentsDocument,
    chosen: Sequence[str],
    role: AgentRole,
    settings: OrchestratorSettings,
    facts: RepositoryFacts,
    proofs: Proofs | None = None,
) -> Plan:
    """Make a plan of the chosen intents and their open descendants; of every open intent if none is chosen."""
    intents = {intent.id: intent for intent in document.intents}
    planned = select_planned(intents, chosen)
    needs = _list_needs(planned)
    sets = [make_write_set(intent, role, settings.commons) for intent in planned.values()]
    proofs = proofs or Proofs(fold=facts.folds_case)
    tracked = TrackedFiles(facts.files, fold=facts.folds_case)
    shared = tuple(proofs.find_shared(sets))
    before = _list_all_needs(needs)
    findings = [
        *_check_document(document, {*planned, *chosen}),
        *_check_references(intents, planned, chosen),
        *_check_cycles(needs),
        *(finding for own in sets for finding in _check_scope(planned[own.intent_id], own, settings, facts, tracked)),
        *_check_pairs(shared, before, {own.intent_id: own for own in sets}),
        *(finding for intent in planned.values() for finding in _check_intent(intent, facts)),
        *_check_imports(sets, before, facts, tracked),
        *_check_place(role, settings, facts),
    ]
    beside: dict[str, list[str]] = {name: [] for name in planned}
    for pair in shared:
        beside[pair.first].append(pair.second)
        beside[pair.second].append(pair.first)
    by_id = {own.intent_id: own for own in sets}
    tasks = tuple(
        PlannedTask(name, planned[name].title, role.name, needs[name], tuple(beside[name]), by_id[name])
        for name in order_tasks(planned, needs)
    )
    pairs = len(sets) * (len(sets) - 1) // 2
    return Plan(tasks, tuple(sorted(findings, key=lambda f: f.severity)), shared, pairs - len(shared))


# --- tasks and their order --------------------------------------------------------------------------------


def select_planned(intents: Mapping[str, Intent], chosen: Sequence[str]) -> dict[str, Intent]:
    """Return the open intents among the chosen intents and their descendants, in the order of the file."""
    children: dict[str, list[str]] = {}
    for intent in intents.values():
        children.setdefault(intent.parent_intent or "", []).append(intent.id)
    wanted: set[str] = set()
    pending = list(chosen) or list(intents)
    while pending:
        name = pending.pop()
        if name not in wanted:
            wanted.add(name)
            pending += children.get(name, ())
    return {name: i for name, i in intents.items() if name in wanted and i.status not in FINAL_STATUSES}


def _list_needs(planned: Mapping[str, Intent]) -> dict[str, tuple[str, ...]]:
    order = {name: number for number, name in enumerate(planned)}
    needs = {name: set(intent.dependencies) & order.keys() for name, intent in planned.items()}
    for name, intent in planned.items():
        if intent.parent_intent in needs:
            needs[intent.parent_intent].add(name)
    return {name: tuple(sorted(each - {name}, key=order.__getitem__)) for name, each in needs.items()}


def _list_all_needs(needs: Mapping[str, Sequence[str]]) -> dict[str, set[str]]:
    found: dict[str, set[str]] = {}
    for name in needs:
        reached: set[str] = set()
        pending = list(needs[name])
        while pending:
            need = pending.pop()
            if need not in reached:
                reached.add(need)
                if need in found:
                    reached |= found[need]
                else:
                    pending += needs[need]
        found[name] = reached
    return found


def order_tasks(planned: Mapping[str, Intent], needs: Mapping[str, Sequence[str]]) -> list[str]:
    rank = {
        name: (-PRIORITIES.index(intent.priority), number, name)
        for number, (name, intent) in enumerate(planned.items())
    }
    waiting = {name: set(each) for name, each in needs.items()}
    needed_by: dict[str, list[str]] = {}
    for name, each in needs.items():
        for need in each:
            needed_by.setdefault(need, []).append(name)
    ready = [rank[name] for name, each in waiting.items() if not each]
    heapify(ready)
    ordered: list[str] = []
    while ready:
        name = heappop(ready)[2]
        ordered.append(name)
        for later in needed_by.get(name, ()):
            waiting[later].discard(name)
            if not waiting[later]:
                heappush(ready, rank[later])
    done = set(ordered)
    return ordered + [name for name in planned if name not in done]  # those in and behind a cycle


# --- findings ---------------------------------------------------------------------------------------------


def _check_document(document: IntentsDocument, wanted: Container[str]) -> Iterator[PlanFinding]:
    for error in document.errors[:MAX_SHOWN_ERRORS]:
        message = f"{error.place}: {error.code}: {error.message}"
        about = (error.intent_id,) if error.intent_id else ()
        fix = "mend the file; `remit intent lint` lists everything in it"
        is_apart = error.file.startswith(f"{INTENTS_FOLDER}/") and str(error.intent_id) not in wanted
        severity = "warning" if is_apart else "error"
        yield PlanFinding("INTENTS_FILE_INVALID", severity, message, about, error.field, fix=fix)


def _check_references(
    intents: Mapping[str, Intent], planned: Mapping[str, Intent], chosen: Sequence[str]
) -> Iterator[PlanFinding]:
    for name in dict.fromkeys(chosen):
        if name in intents and intents[name].status in FINAL_STATUSES and not _has_planned_child(name, planned):
            message = f"{name} is {intents[name].status}, and is left out"
            yield PlanFinding("INTENT_CLOSED", "error", message, (name,), "status", fix=f"remit intent fork {name}")
    for intent in planned.values():
        for name in dict.fromkeys(intent.dependencies):
            found = intents.get(name)
            if found is None or found.id == intent.id:
                why = "is itself" if found else "is no intent of this file"
                message = f"{intent.id} waits for {name[:80]!r}, which {why}"
                fix = f"correct `dependencies` of {intent.id}: remit intent list"
                yield PlanFinding("UNKNOWN_DEPENDENCY", "error", message, (intent.id,), "dependencies", fix=fix)
            elif name not in planned and found.status != "DONE":
                is_open = found.status not in FINAL_STATUSES
                message = f"{intent.id} waits for {name}, which is {found.status} and not in this plan"
                fix = f"plan it too: remit plan check {intent.id} {name}" if is_open else f"remit intent fork {name}"
                both = (intent.id, name)
                yield PlanFinding("DEPENDENCY_NOT_PLANNED", "error", message, both, "dependencies", fix=fix)


def _has_planned_child(name: str, planned: Mapping[str, Intent]) -> bool:
    return any(intent.parent_intent == name for intent in planned.values())


def _check_cycles(needs: Mapping[str, Sequence[str]]) -> Iterator[PlanFinding]:
    for cycle in find_cycles(needs):
        message = f"none of these can land first: {format_cycle(cycle)}"
        fix = f"take {cycle[0]} out of `dependencies` of {cycle[-1]}, or choose another parent"
        yield PlanFinding("CYCLE", "error", message, cycle, "dependencies", fix=fix)


def _check_scope(
    intent: Intent, own: WriteSet, settings: OrchestratorSettings, facts: RepositoryFacts, tracked: TrackedFiles
) -> Iterator[PlanFinding]:
    name, field = intent.id, "owned_scope"
    faults = [(line, fault) for line in intent.owned_scope if (fault := relative_glob_error(line))]
    for line, fault in faults:
        message = f"{line[:80]!r} of {name} cannot be used: {fault}"
        yield PlanFinding("SCOPE_UNUSABLE", "error", message, (name,), field, fix=_edit_scope(name, "src/part/**"))
    owned = sum(1 for _ in tracked.list_owned(own))
    if not faults and not owned and decide_all_apart(own.scopes, [Scope(EVERYTHING)]) == Apart():
        message = f"{name} may write no file: its patterns leave nothing"
        yield PlanFinding("SCOPE_UNUSABLE", "error", message, (name,), field, fix=_edit_scope(name, "src/part/**"))
    if len(facts.files) >= MIN_FILES and owned > MAX_SHARE * len(facts.files):
        share = f"{owned} of {len(facts.files)} files"
        message = f"{name} owns {share}, {100 * owned // len(facts.files)} %: few tasks can run beside it"
        yield PlanFinding("TOO_WIDE", "warning", message, (name,), field, fix=f"remit plan suggest {name} --parts 3")
    if intent.companions:
        message = f"{name} has companions, a rule that is no set of paths: it gives nothing in a plan"
        fix = f"remit plan check {name} --fix   writes their patterns into its scope"
        yield PlanFinding("COMPANIONS_IN_PLAN", "error", message, (name,), "companions", fix=fix)
    for common in (common for common in settings.commons if not common.union):
        answer = decide_all_apart([Scope(intent.owned_scope)], [Scope(common.paths)], fold=facts.folds_case)
        if isinstance(answer, Shared):
            fragment = _add_scope(name, f"{common.fragments.rstrip('/')}/{name}*")
            instead = f"landing makes it: {common.make}" if common.make else f"write a fragment instead: {fragment}"
            message = f"{name} owns {answer.path!r}, which every change touches: it is left out"
            yield PlanFinding("COMMONS", "warning", message, (name,), field, answer.path, instead)


def _edit_scope(name: str, pattern: str) -> str:
    return f"remit intent edit {name} --scope '{pattern}'"


def _add_scope(name: str, pattern: str) -> str:
    return f"remit intent edit {name} --add-scope '{pattern}'"


def _check_pairs(
    shared: Iterable[SharedPath], before: Mapping[str, set[str]], sets: Mapping[str, WriteSet]
) -> Iterator[PlanFinding]:
    """Check the pairs of independent tasks, because independent tasks may run at the same time."""
    meeting = [
        pair for pair in shared if pair.first not in before[pair.second] and pair.second not in before[pair.first]
    ]
    if len(meeting) > MAX_PAIR_FINDINGS:
        message = f"{len(meeting)} pairs of tasks are not proved apart; {MAX_PAIR_FINDINGS} of them are named"
        yield PlanFinding("UNPROVED", "error", message, field="owned_scope", fix="give tasks folders of their own")
    for pair in meeting[:MAX_PAIR_FINDINGS]:
        a, b = pair.first, pair.second
        wait = f"let {b} wait (`dependencies: [{a}]`)"
        match pair.answer:
            case Shared(path, other):
                spelled = f", the same file as {other!r} on this file system" if other else ""
                message = f"{a} and {b} may both write {path!r}{spelled}"
                line = next((line for line in sets[a].scope if Scope((line,)).matches(path)), path)
                fix = f"{wait}, or take the part out of one: remit intent edit {b} --add-scope '!{line}'"
                yield PlanFinding("OVERLAP", "error", message, (a, b), "owned_scope", path, fix)
            case Unproved(why):
                message = f"{a} and {b} are not proved apart: {why}"
                yield PlanFinding("UNPROVED", "error", message, (a, b), "owned_scope", fix=wait)
            case Apart():
                pass


def _check_intent(intent: Intent, facts: RepositoryFacts) -> Iterator[PlanFinding]:
    name, field = intent.id, "acceptance_criteria"
    commands = [criterion.verify for criterion in intent.acceptance_criteria if criterion.verify]
    if not commands:
        message = f"{name} has no criterion with a command: only `[verify] landing` verifies it before it lands"
        fix = f"add to {name}: acceptance_criteria: [{{text: The tests pass, verify: pytest -q}}]"
        yield PlanFinding("NO_CRITERION", "warning", message, (name,), field, fix=fix)
    for command in dict.fromkeys(commands):
        if make_verify_item(command, name).digest not in facts.trusted:
            message = f"{name} is verified by {command[:80]!r}, which is not trusted here and does not run"
            yield PlanFinding("UNTRUSTED_VERIFY", "warning", message, (name,), field, fix="remit trust")


def _check_imports(
    sets: Sequence[WriteSet], before: Mapping[str, set[str]], facts: RepositoryFacts, tracked: TrackedFiles
) -> Iterator[PlanFinding]:
    owners: dict[str, list[str]] = {}
    for own in sets if facts.imports else ():
        for file in tracked.list_owned(own):
            owners.setdefault(file, []).append(own.intent_id)
    found: dict[tuple[str, str], tuple[str, str]] = {}
    for file, imported in facts.imports.items():
        for b in owners.get(file, ()):
            for path in imported:
                for a in owners.get(path, ()):
                    if a != b and b not in owners[path] and a not in before[b] and b not in before[a]:
                        found.setdefault((b, a), (file, path))
    for (b, a), (file, path) in found.items():
        message = f"{file!r} of {b} imports {path!r} of {a}, and neither waits for the other"
        fix = f"agree on the interface first, or let {b} wait: `dependencies: [{a}]`"
        yield PlanFinding("IMPORTS_ACROSS", "warning", message, (b, a), "dependencies", file, fix)


def _check_place(role: AgentRole, settings: OrchestratorSettings, facts: RepositoryFacts) -> Iterator[PlanFinding]:
    if not facts.has_commit:
        message = "the repository has no commit, and attempts begin at one"
        yield PlanFinding("NO_COMMIT", "error", message, fix="git commit --allow-empty -m 'Begin'")
    wanted = as_tuple(role.agent)
    if not (facts.agents & set(wanted) if wanted else facts.agents):
        which = f"none of {', '.join(wanted)}" if wanted else "no agent that Remit knows"
        message = f"{which} is installed here, and the role {role.name} needs one"
        yield PlanFinding("NO_AGENT", "warning", message, fix="install one, or run a worker where one is")
    if facts.dirty_target:
        message = f"{settings.target} is checked out with uncommitted changes in {facts.dirty_target!r}"
        fix = 'commit them, or land elsewhere: [orchestrator] target = "remit/next"'
        yield PlanFinding("DIRTY_TARGET", "error", message, field="target", fix=fix)
    ahead, behind = facts.apart
    if behind and (ahead or settings.remote):
        held = f", and holds {count_things(ahead, 'commit')} that HEAD lacks" if ahead else ""
        message = f"{settings.target} lacks {count_things(behind, 'commit')} of HEAD{held}: agents begin without them"
        fix = f"git merge {settings.target}; the next plan then begins at HEAD, until then landing goes on without them"
        if not ahead:
            fix = f"git push {settings.remote} HEAD:{settings.target}"
        yield PlanFinding("TARGET_BEHIND", "warning", message, field="target", fix=fix)
    if facts.uncommitted:
        message = f"HEAD lacks {', '.join(facts.uncommitted)} as planned here, and so do the worktrees of its agents"
        fix = "git add .orchestration && git commit"
        yield PlanFinding("NOT_COMMITTED", "warning", message, facts.uncommitted, fix=fix)

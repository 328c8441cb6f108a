"""Violations among the changes of a call after its return, found path by path."""

from collections.abc import Iterable, Sequence
from typing import TypeAlias

from msgspec.structs import replace

from remit.core.call import ToolCall
from remit.core.decision import ErrorType, Finding
from remit.core.facts import Facts, SessionFacts, Target
from remit.core.scope.globs import Scope
from remit.gate.context import WorkspaceContext
from remit.gate.gather import gather_facts, mark_ignored
from remit.gate.state.pending_calls import PendingCall
from remit.gate.state.questions import QuestionStore
from remit.gate.undo.git_file_copies import GitFileCopies, is_git_path
from remit.policy.decide import decide, split_waived
from remit.workspace.observe.git_arrivals import find_arriving_paths
from remit.workspace.observe.observation import Change
from remit.workspace.place.resolve_paths import MachinePlaces, folds_case, resolve_target
from remit.workspace.place.workspace import ORCHESTRATION_FOLDER

UNDONE_CODES: frozenset[ErrorType] = frozenset({"SCOPE_VIOLATION", "INTENTIGNORE_PATH_BLOCKED", "PROTECTED_PATH"})
"""Violations for which a change is undone: they concern the path itself, and not the moment."""

BROKEN_CODE: ErrorType = "CONSTRAINT_VIOLATION"

Reasons: TypeAlias = dict[str, str]
"""Reasons by path."""


def find_violations(
    context: WorkspaceContext, call: ToolCall, pending: PendingCall, changes: Iterable[Change]
) -> Reasons:
    """Return the rule that each change breaks. Raises RECORDING_ERRORS.

    `.orchestration/` is left out: governing files are put back by `undo.governing_files`, and Remit writes the rest.
    """
    own = [c for c in changes if not c.from_git and c.path not in pending.judged and not is_remit_path(c.path)]
    copies = GitFileCopies(context.workspace)
    found = {c.path: "PROTECTED_PATH" for c in own if is_git_path(c.path) and not copies.is_harmless(c)}
    files = exclude_git_changes(context, own, pending)
    if not files:
        return found
    tool, facts = gather_facts_for_effects(context, call, pending)
    rules = context.last_rules or context.rules
    for target_file in mark_ignored(make_targets(context, files), context.workspace, rules):
        code = find_violation(tool, facts, target_file, pending)
        if code is not None:
            found[target_file.raw] = code
    return found


def find_broken_constraints(
    context: WorkspaceContext, call: ToolCall, pending: PendingCall, changes: Sequence[Change]
) -> Reasons:
    """Return in words the constraints of the intent that a change broke, by path. Raises RECORDING_ERRORS.

    What a person allowed stays. A file tool is refused before it breaks a constraint.
    """
    intent = context.rules.intents.get(pending.intent_id)
    written = [c for c in changes if not c.from_git and c.after is not None and not is_remit_path(c.path)]
    if intent is None or not intent.rules or pending.grants or not written:
        return {}
    # Imported here: the ledger's index is opened only for intents that have constraints.
    from remit.gate.evidence import constraint_facts

    broken = constraint_facts.find_broken_constraints(intent, exclude_git_changes(context, written, pending))
    if not broken:
        return {}
    tool, facts = gather_facts_for_effects(context, call, pending)
    unwaived = {
        path: why for path, why in broken.items() if not split_waived((constraint_finding(path, why),), tool, facts)[1]
    }
    return unwaived | find_move_sources(unwaived, changes)


def exclude_git_changes(context: WorkspaceContext, changes: Iterable[Change], pending: PendingCall) -> list[Change]:
    files = [change for change in changes if not is_git_path(change.path)]
    from_git = find_arriving_paths(context.workspace, pending.known_commits) if files else frozenset[str]()
    return [change for change in files if change.path not in from_git]


def gather_facts_for_effects(context: WorkspaceContext, call: ToolCall, pending: PendingCall) -> tuple[ToolCall, Facts]:
    tool, rules = as_file_tool(call), context.rules
    facts = gather_facts(context, tool, rules).facts
    grants = QuestionStore(context.state, context.environment.clock).active_grants(rules.config.grants)
    return tool, replace(facts, session=SessionFacts(pending.intent_id), grants=grants)


def as_file_tool(call: ToolCall) -> ToolCall:
    """Return the call as its effects are judged: a tool that writes files, and compares contents by itself."""
    return replace(
        call,
        effect="write",
        command=None,
        paths=(),
        checks_itself=True,
        whole_workspace=False,
        has_unwatched_stdin=False,
    )


def make_targets(context: WorkspaceContext, changes: Iterable[Change]) -> tuple[Target, ...]:
    """Return the changed files as the checks know them."""
    environment, root = context.environment, context.workspace.root
    folds = folds_case(root)
    surroundings = MachinePlaces(environment.home, environment.temporary, environment.settings, environment.own_folders)
    targets = (resolve_target(context.workspace, f"{root}/{c.path}", c.path, surroundings) for c in changes)
    return tuple(replace(found, folds=folds) for found in targets)


def find_violation(call: ToolCall, facts: Facts, changed: Target, pending: PendingCall) -> ErrorType | None:
    """Return the rule broken by a change: by the scope at the decision, and by the present form of further rules.

    A call allowed by a person may have any effect except on protected files.
    """
    decision = decide(call, replace(facts, targets=(changed,)))
    if decision.effect == "allow":
        return None
    codes = UNDONE_CODES & {f.code for f in decision.findings if f.verdict != "allow"}
    if pending.grants:
        codes &= {"PROTECTED_PATH"}
    if pending.intent_id is None or Scope(pending.owned_scope).matches(changed.raw, fold=changed.folds):
        codes -= {"SCOPE_VIOLATION"}
    return min(codes, default=None)


def find_move_sources(broken: Reasons, changes: Iterable[Change]) -> Reasons:
    changes = tuple(changes)
    made = {c.after.version.sha256: c.path for c in changes if c.path in broken and c.before is None and c.after}
    deleted = {c.path: c.before.version.sha256 for c in changes if c.after is None and c.before}
    return {path: broken[made[content]] for path, content in deleted.items() if content in made}


def constraint_finding(path: str, why: str) -> Finding:
    return Finding(rule="constraints", code=BROKEN_CODE, message=why, path=path)


def is_remit_path(path: str) -> bool:
    return path.startswith(f"{ORCHESTRATION_FOLDER}/")

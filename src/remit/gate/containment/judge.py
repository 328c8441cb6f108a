"""Judgement of a contained command's effects: each effect is judged like a file tool's write."""

from collections.abc import Collection, Container, Iterable
from pathlib import Path

from msgspec.structs import replace

from remit.core.decision import Finding
from remit.core.facts import Target
from remit.core.scope.globs import Scope
from remit.core.scope.repopath import InvalidPath
from remit.gate.containment.contained_command import ContainedCommand
from remit.gate.containment.messages import make_finding
from remit.gate.gather import mark_ignored, mark_leases
from remit.gate.rules.scope_exempt_files import GeneratedFiles
from remit.gate.rules.trust import trusted_patterns
from remit.gate.undo.find_violations import as_file_tool, constraint_finding, find_move_sources
from remit.policy.decide import decide, split_waived
from remit.workspace.git.tree_files import find_tracked
from remit.workspace.observe.observation import Change, try_observe_file
from remit.workspace.place.resolve_paths import MachinePlaces, folds_case, resolve_target
from remit.workspace.sandbox.layer_changes import StagedChange


def find_objections(
    command: ContainedCommand, paths: Iterable[str], generated: Container[str] = ()
) -> dict[str, Finding]:
    """Return, by path, the leading finding of the checks about a write to the file.

    Files in `generated` may lie outside the scope.
    """
    context, workspace = command.context, command.context.workspace
    environment, rules = context.environment, context.rules
    surroundings = MachinePlaces(environment.home, environment.temporary, environment.settings, environment.own_folders)
    folds = folds_case(workspace.root)
    found: dict[str, Finding] = {}
    targets: list[Target] = []
    for path in paths:
        try:
            resolved = resolve_target(workspace, str(workspace.root / path), path, surroundings)
        except InvalidPath as error:
            found[path] = make_finding("INVALID_ARGUMENTS", path, str(error))
        else:
            targets.append(replace(resolved, folds=folds, generated=path in generated))
    call, facts = as_file_tool(command.call), command.gather_facts()
    since = environment.clock() - rules.config.session.lease_s
    judged = mark_leases(mark_ignored(tuple(targets), workspace, rules), command.call, context.state, since)
    for resolved in judged:
        decision = decide(call, replace(facts, targets=(resolved,)))
        if decision.effect != "allow" and decision.leading is not None:
            found[resolved.raw] = decision.leading
    return found


def find_broken_constraints(
    command: ContainedCommand, staged: Iterable[StagedChange], upper: Path
) -> dict[str, Finding]:
    """Return, by path, the constraints that the content staged in `upper` would break, in enforce."""
    facts, root = command.gather_facts(), command.context.workspace.root
    if facts.active is None or not facts.active.rules or facts.mode != "enforce":
        return {}
    # Loaded only for intents with constraints: the module opens the ledger's index.
    from remit.gate.evidence import constraint_facts

    changes = [
        Change(c.path, try_observe_file(root / c.path), try_observe_file(upper / c.path) if c.kind == "file" else None)
        for c in staged
        if c.kind in ("file", "gone")
    ]
    broken = constraint_facts.find_broken_constraints(facts.active, changes)
    broken |= find_move_sources(broken, changes)
    findings = {path: constraint_finding(path, why) for path, why in broken.items()}
    call = as_file_tool(command.call)
    return {path: finding for path, finding in findings.items() if not split_waived((finding,), call, facts)[1]}


def find_generated(command: ContainedCommand, paths: Collection[str], folders: Collection[str] = ()) -> dict[str, str]:
    """Return the generated files with the ignored folder or file they belong to. Raises StateError, GitError."""
    context, workspace = command.context, command.context.workspace
    found = GeneratedFiles.at_head(workspace, context.state).find_generated(paths, folders)
    patterns = trusted_patterns(context.rules, context.recorder)
    if not patterns:
        return found
    scope = Scope(patterns)
    matching = [path for path in (*paths, *folders) if path not in found and scope.matches(path)]
    tracked = find_tracked(workspace, matching)
    return found | {path: path.partition("/")[0] for path in matching if path not in tracked}

"""A contained command, and the rules for its effects: each effect is judged like a file tool's write."""

from collections.abc import Collection, Container, Iterable
from pathlib import Path

from msgspec import Struct
from msgspec.structs import replace

from remit.core.call import ToolCall
from remit.core.config import ContainmentRules
from remit.core.decision import Facts, Finding, SessionFacts, Target
from remit.core.machine_paths import TEMPORARY_FOLDERS
from remit.core.scope.path_patterns import InvalidPath, Scope
from remit.gate.containment.messages import make_finding
from remit.gate.context import WorkspaceContext
from remit.gate.facts.scope_exempt_files import find_ignored_files
from remit.gate.facts.secret_targets import find_secrets
from remit.gate.gather import gather_facts, mark_ignored, mark_leases
from remit.gate.state.tickets import Ticket, running_launchers
from remit.gate.undo.violations import as_file_tool, constraint_finding, find_move_sources
from remit.policy.decide import decide, hold_irreversible, split_waived
from remit.workspace.git.repository import find_tracked
from remit.workspace.observe.observation import Change, try_observe_file
from remit.workspace.place.resolve_paths import folds_case, resolve_target
from remit.workspace.sandbox.jail import find_contained_sockets, find_sockets
from remit.workspace.sandbox.secret_places import SecretPlaces
from remit.workspace.sandbox.staged_changes import StagedChange


class ContainedCommand(Struct, frozen=True):
    """Command that runs contained.

    `ticket` belongs to an agent's own shell call: its hook decided the call and records its end. `is_staged` is True
    with an overlay: the real tree is untouched until the effects are judged.
    """

    context: WorkspaceContext
    call: ToolCall
    ticket: Ticket | None = None
    is_staged: bool = True
    shown: tuple[Path, ...] = ()
    """Secret places that a person shows to this command alone."""

    @property
    def settings(self) -> ContainmentRules:
        return self.context.rules.config.containment

    @property
    def intent_id(self) -> str:
        """Return the command's intent; "" for none. Raises StateError."""
        if self.ticket is not None:
            return self.ticket.intent_id or ""
        return self.context.state.active_session(self.call.session).intent_id or ""

    @property
    def has_network(self) -> bool:
        intent = self.context.rules.intents.get(self.intent_id)
        return intent is None or intent.network == "allow"

    def gather_facts(self) -> Facts:
        rules = self.context.rules
        facts = gather_facts(self.context, as_file_tool(self.call), rules).facts
        intent_id = self.ticket.intent_id if self.ticket is not None else facts.session.intent_id
        # Earlier denials and failures stop calls; they do not count against effects of an allowed call.
        session = SessionFacts(intent_id, facts.session.source, narrow=facts.session.narrow)
        return replace(facts, session=session, grants=self.context.active_grants(rules))

    def find_hidden_sockets(self) -> tuple[Path, ...]:
        """Return the sockets closed to contained commands, except a folder above the workspace itself."""
        environment, root = self.context.environment, self.context.workspace.root
        temporary = (*map(Path, TEMPORARY_FOLDERS), environment.temporary)
        own = find_contained_sockets(running_launchers(self.context.state))
        found = find_sockets(environment.home, temporary, ssh_agent=self.settings.ssh_agent, excluded=own)
        return tuple(door for door in found if not root.is_relative_to(door))

    def find_secrets(self) -> SecretPlaces:
        """Return the secret places closed to this command. Raises OSError, GitError."""
        return find_secrets(self.context, self.shown, ssh_agent=self.settings.ssh_agent)


def find_write_objections(
    command: ContainedCommand, paths: Iterable[str], generated: Container[str] = ()
) -> dict[str, Finding]:
    """Return, by path, the leading finding of the checks about a write to the file.

    Files in `generated` may lie outside the scope.
    """
    context, workspace = command.context, command.context.workspace
    environment, rules = context.environment, context.rules
    folds = folds_case(workspace.root)
    found: dict[str, Finding] = {}
    targets: list[Target] = []
    for path in paths:
        try:
            resolved = resolve_target(workspace, str(workspace.root / path), path, environment)
        except InvalidPath as error:
            found[path] = make_finding("INVALID_ARGUMENTS", path, str(error))
        else:
            targets.append(replace(resolved, folds=folds, generated=path in generated))
    call, facts = as_file_tool(command.call), command.gather_facts()
    since = environment.clock.now() - rules.config.session.lease_s
    for target in mark_leases(mark_ignored(tuple(targets), workspace, rules), command.call, context.state, since):
        decision = hold_irreversible(decide(call, replace(facts, targets=(target,))))
        if decision.effect != "allow" and decision.leading is not None:
            found[target.raw] = decision.leading
    return found


def find_broken_constraints(
    command: ContainedCommand, staged: Iterable[StagedChange], upper: Path
) -> dict[str, Finding]:
    """Return, by path, the constraints that the content staged in `upper` would break, in enforce."""
    facts, root = command.gather_facts(), command.context.workspace.root
    if facts.active is None or not facts.active.rules or facts.mode != "enforce":
        return {}
    # Loaded only for intents with constraints: the module opens the ledger's index.
    from remit.gate.facts import constraint_facts

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


def find_generated_files(command: ContainedCommand, paths: Collection[str], folders: Collection[str]) -> dict[str, str]:
    """Return the generated files by the rules before the command, with the ignored folder or file they belong to.

    Raises StateError, GitError.
    """
    context, workspace = command.context, command.context.workspace
    found = find_ignored_files(workspace, context.state, paths, folders)
    settings = context.rules.config.containment
    scope = Scope(settings.generated if context.are_trusted(settings.generated_items) else ())
    matching = [path for path in (*paths, *folders) if path not in found and scope.matches(path)]
    tracked = find_tracked(workspace, matching) if matching else set[str]()
    return found | {path: path.partition("/")[0] for path in matching if path not in tracked}

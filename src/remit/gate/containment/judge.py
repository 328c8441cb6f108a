"""Judgement of a contained command's effects: each effect is judged like a file tool's write."""

from collections.abc import Collection, Container, Iterable
from pathlib import Path

from msgspec.structs import replace

from remit.core.call import ToolCall
from remit.core.config import ContainmentRules
from remit.core.decision import Finding
from remit.core.facts import Facts, SessionFacts, Target
from remit.core.scope.globs import Scope
from remit.core.scope.repopath import InvalidPath
from remit.gate.containment.messages import make_finding
from remit.gate.context import WorkspaceContext
from remit.gate.enforce import Enforcement
from remit.gate.gather import mark_ignored, mark_leases
from remit.gate.rules.generated_files import GeneratedFiles
from remit.gate.rules.trust import trusted_patterns
from remit.gate.state.tickets import Ticket
from remit.gate.undo.find_violations import as_file_tool, constraint_finding, find_move_sources
from remit.policy.decide import decide, split_waived
from remit.workspace.git.committed_ignores import find_tracked
from remit.workspace.observe.observation import Change, try_observe_file
from remit.workspace.place.paths import MachinePlaces, folds_case, resolve_target
from remit.workspace.sandbox.staged_changes import StagedChange


class EffectJudge:
    """Judge of contained commands' effects in one workspace."""

    def __init__(self, site: WorkspaceContext, ticket: Ticket | None) -> None:
        self.site = site
        self.ticket = ticket
        """Ticket of an agent's own shell call: its hook decides and records the call itself."""
        self.enforcement = Enforcement(site)

    @property
    def containment_rules(self) -> ContainmentRules:
        return self.site.rules.config.containment

    def gather_facts(self, call: ToolCall) -> Facts:
        """Return the facts for judging effects: those of a file tool without named targets."""
        rules = self.site.rules
        found = self.enforcement.gather(as_file_tool(call), rules)
        session = found.facts.session
        intent_id = self.ticket.intent_id if self.ticket is not None else session.intent_id
        # What went wrong in a row stops calls, and not what one that went through has done.
        session = SessionFacts(intent_id, session.source)
        return replace(found.facts, session=session, grants=self.site.questions.active_grants(rules.config.grants))

    def find_objections(
        self, call: ToolCall, paths: Iterable[str], generated: Container[str] = ()
    ) -> dict[str, Finding]:
        """Return, by path, the leading finding of the checks about a write to the file.

        Files in `generated` may lie outside the scope.
        """
        paths = list(paths)
        facts, folds = self.gather_facts(call), folds_case(self.site.workspace.root)
        around, found = self.site.environment, dict[str, Finding]()
        surroundings = MachinePlaces(around.home, around.temporary, around.settings, around.own_folders)
        targets: list[Target] = []
        for path in paths:
            real = str(self.site.workspace.root / path)
            try:
                one = resolve_target(self.site.workspace, real, path, surroundings)
                targets.append(replace(one, folds=folds, generated=path in generated))
            except InvalidPath as error:
                found[path] = make_finding("INVALID_ARGUMENTS", path, str(error))
        rules = self.site.rules
        since = around.clock() - rules.config.session.lease_s
        targets = list(
            mark_leases(mark_ignored(tuple(targets), self.site.workspace, rules), call, self.site.state, since)
        )
        for one in targets:
            decision = decide(as_file_tool(call), replace(facts, targets=(one,)))
            if decision.effect != "allow" and decision.leading is not None:
                found[one.raw] = decision.leading
        return found

    def find_broken_constraints(
        self, call: ToolCall, staged: Iterable[StagedChange], upper: Path
    ) -> dict[str, Finding]:
        """Return, by path, the constraints that the content staged in `upper` would break, in enforce."""
        facts, root = self.gather_facts(call), self.site.workspace.root
        if facts.active is None or not facts.active.rules or facts.mode != "enforce":
            return {}
        # For those who have constraints: it opens the ledger's index.
        from remit.gate.evidence.constraint_facts import find_broken_constraints

        sides = [(c.path, upper / c.path if c.kind == "file" else None) for c in staged if c.kind in ("file", "gone")]
        changes = [
            Change(path, try_observe_file(root / path), try_observe_file(now) if now else None) for path, now in sides
        ]
        told = find_broken_constraints(facts.active, changes)
        wrong = {path: constraint_finding(path, why) for path, why in (told | find_move_sources(told, changes)).items()}
        return {path: one for path, one in wrong.items() if not split_waived((one,), as_file_tool(call), facts)[1]}

    def find_generated(self, paths: Collection[str], folders: Collection[str] = ()) -> dict[str, str]:
        """Return the generated files with the ignored folder or file they belong to. Raises StateError, GitError."""
        workspace, patterns = self.site.workspace, trusted_patterns(self.site.rules, self.site.recorder)
        found = GeneratedFiles.at_head(workspace, self.site.state).find_generated(paths, folders)
        if not patterns:
            return found
        scope = Scope(patterns)
        named = [path for path in (*paths, *folders) if path not in found and scope.matches(path)]
        tracked = find_tracked(workspace, named)
        return found | {path: path.partition("/")[0] for path in named if path not in tracked}

    def find_intent_id(self, call: ToolCall) -> str:
        """Return the command's intent; "" for none. Raises StateError."""
        found = (
            self.ticket.intent_id if self.ticket is not None else self.site.state.active_session(call.session).intent_id
        )
        return found or ""

    def has_network(self, call: ToolCall) -> bool:
        intent = self.site.rules.intents.get(self.find_intent_id(call))
        return intent is None or intent.network == "allow"

"""What the checks say of a contained command's effects: each is judged as a file tool's write of it."""

from collections.abc import Collection, Container, Iterable
from pathlib import Path

from msgspec.structs import replace

from remit.core.call import ToolCall
from remit.core.config import ContainmentRules
from remit.core.decision import Finding
from remit.core.facts import Facts, SessionFacts, Target
from remit.core.globs import Scope
from remit.core.repopath import InvalidPath
from remit.gate.contained_tickets import Ticket
from remit.gate.contained_words import objection
from remit.gate.gather import with_holders, with_ignored
from remit.gate.generated import GeneratedFiles
from remit.gate.judging import Judging
from remit.gate.overreach import against, as_writes, moved_from
from remit.gate.site import Site
from remit.gate.trusting import trusted_patterns
from remit.policy.engine import decide, waived
from remit.workspace.ignored import find_tracked
from remit.workspace.observe import Change, glance
from remit.workspace.paths import Surroundings, folds_case, target
from remit.workspace.sandbox.staged import Touched


class Verdicts:
    """Judges the effects of contained commands in one workspace."""

    def __init__(self, site: Site, ticket: Ticket | None) -> None:
        self.site = site
        self.ticket = ticket
        """Of an agent's own shell call: its hook lets the call through, and records that it came back."""
        self.judging = Judging(site)

    @property
    def rules(self) -> ContainmentRules:
        """What a person set for contained commands."""
        return self.site.governing.config.containment

    def facts(self, call: ToolCall) -> Facts:
        """What the effects are judged by: as for a tool that writes files, of which none is named yet."""
        rules = self.site.governing
        found = self.judging.gathered(as_writes(call), rules)
        session = found.facts.session
        intent_id = self.ticket.intent_id if self.ticket is not None else session.intent_id
        # What went wrong in a row stops calls, and not what one that went through has done.
        session = SessionFacts(intent_id, session.source)
        return replace(found.facts, session=session, grants=self.site.approvals.grants(rules.config.grants))

    def objections(self, call: ToolCall, paths: Iterable[str], generated: Container[str] = ()) -> dict[str, Finding]:
        """By path, why a change may not stay: what every check says of a write to that file.

        Those in `generated` may lie out of the scope.
        """
        paths = list(paths)
        facts, folds = self.facts(call), folds_case(self.site.workspace.root)
        around, found = self.site.environment, dict[str, Finding]()
        surroundings = Surroundings(around.home, around.temporary, around.settings, around.own_folders)
        targets: list[Target] = []
        for path in paths:
            real = str(self.site.workspace.root / path)
            try:
                one = target(self.site.workspace, real, path, surroundings)
                targets.append(replace(one, folds=folds, generated=path in generated))
            except InvalidPath as error:
                found[path] = objection("INVALID_ARGUMENTS", path, str(error))
        rules = self.site.governing
        since = around.clock() - rules.config.session.lease_s
        targets = list(
            with_holders(with_ignored(tuple(targets), self.site.workspace, rules), call, self.site.state, since)
        )
        for one in targets:
            decision = decide(as_writes(call), replace(facts, targets=(one,)))
            if decision.effect != "allow" and decision.leading is not None:
                found[one.raw] = decision.leading
        return found

    def broken(self, call: ToolCall, staged: Iterable[Touched], upper: Path) -> dict[str, Finding]:
        """By path, in enforce, the constraints of the intent that what is staged in `upper` would break."""
        facts, root = self.facts(call), self.site.workspace.root
        if facts.active is None or not facts.active.rules or facts.mode != "enforce":
            return {}
        # For those who have constraints: it opens the ledger's index.
        from remit.gate.constraining import broken_by

        sides = [(c.path, upper / c.path if c.kind == "file" else None) for c in staged if c.kind in ("file", "gone")]
        changes = [Change(path, glance(root / path), glance(now) if now else None) for path, now in sides]
        told = broken_by(facts.active, changes)
        wrong = {path: against(path, why) for path, why in (told | moved_from(told, changes)).items()}
        return {path: one for path, one in wrong.items() if not waived((one,), as_writes(call), facts)[1]}

    def generated(self, paths: Collection[str], folders: Collection[str] = ()) -> dict[str, str]:
        """Those that are generated, each with the folder or file that it belongs to. Raises StateError, GitError."""
        workspace, patterns = self.site.workspace, trusted_patterns(self.site.governing, self.site.recorder)
        found = GeneratedFiles.by_head(workspace, self.site.state).find(paths, folders)
        if not patterns:
            return found
        scope = Scope(patterns)
        named = [path for path in (*paths, *folders) if path not in found and scope.matches(path)]
        tracked = find_tracked(workspace, named)
        return found | {path: path.partition("/")[0] for path in named if path not in tracked}

    def intent_id(self, call: ToolCall) -> str:
        """The intent that the command runs under; empty for none. Raises StateError."""
        found = self.ticket.intent_id if self.ticket is not None else self.site.state.active(call.session).intent_id
        return found or ""

    def networked(self, call: ToolCall) -> bool:
        """Whether the command may use the network."""
        intent = self.site.governing.intents.get(self.intent_id(call))
        return intent is None or intent.network == "allow"

"""What a call did beyond its right: judged by what is there afterwards, path by path."""

from collections.abc import Iterable, Iterator, Sequence
from typing import TypeAlias

from msgspec.structs import replace

from remit.core.call import ToolCall
from remit.core.decision import ErrorType, Finding
from remit.core.facts import Facts, SessionFacts, Target
from remit.core.globs import Scope
from remit.gate.gather import gather, with_ignored
from remit.gate.guarded import PREFIX, Guarded
from remit.gate.site import Site
from remit.gate.state import PendingCall
from remit.policy.engine import decide, waived
from remit.workspace.observe import Change
from remit.workspace.paths import Surroundings, folds_case, target
from remit.workspace.place import FOLDER
from remit.workspace.underway import arriving

UNDOES: frozenset[ErrorType] = frozenset({"SCOPE_VIOLATION", "INTENTIGNORE_PATH_BLOCKED", "PROTECTED_PATH"})
"""What an effect is undone for: it says something about the path itself, and not about the moment."""

BROKEN: ErrorType = "CONSTRAINT_VIOLATION"
Why: TypeAlias = dict[str, str]
"""By path, a reason."""


class Overreach:
    """Says of the changes of one workspace which a call may not have made."""

    def __init__(self, site: Site, guarded: Guarded) -> None:
        self.site = site
        self.guarded = guarded
        self.root = site.workspace.root

    def objections(self, call: ToolCall, pending: PendingCall, done: Iterable[Change]) -> Why:
        """By path, the rule that a change breaks.

        `.orchestration/` is not looked at: what governs there is put back elsewhere, the rest Remit writes itself.
        """
        own = [c for c in done if not c.brought and c.path not in pending.judged and not is_remits(c.path)]
        found = {c.path: "PROTECTED_PATH" for c in own if is_gits(c.path) and not self.guarded.harmless(c)}
        rest = self.of_its_own(own, pending)
        if not rest:
            return found
        asked, facts = self.facts(call, pending)
        targets = with_ignored(tuple(self.targets(rest)), self.site.workspace, self.site.rules or self.site.governing)
        broken = ((one.raw, objection(asked, facts, one, pending)) for one in targets)
        return {**found, **{path: rule for path, rule in broken if rule is not None}}

    def broken(self, call: ToolCall, pending: PendingCall, done: Sequence[Change]) -> Why:
        """By path, in words, the constraints of the intent that what the call left breaks, and did not before it.

        A file tool that would leave that is refused; what a person said yes to stays.
        """
        intent = self.site.governing.intents.get(pending.intent_id)
        rest = [c for c in done if not c.brought and c.after is not None and not is_remits(c.path)]
        if intent is None or not intent.rules or pending.grants or not rest:
            return {}
        # For those who have constraints: it opens the ledger's index.
        from remit.gate.constraining import broken_by

        found = broken_by(intent, self.of_its_own(rest, pending))
        if not found:
            return {}
        asked, facts = self.facts(call, pending)
        left = {path: why for path, why in found.items() if not waived((against(path, why),), asked, facts)[1]}
        return left | moved_from(left, done)

    def of_its_own(self, done: Iterable[Change], pending: PendingCall) -> list[Change]:
        """The changes of the user's files, but for those that git is just bringing."""
        rest = [c for c in done if not is_gits(c.path)]
        brings = arriving(self.site.workspace, pending.known_commits) if rest else frozenset[str]()
        return [c for c in rest if c.path not in brings]

    def facts(self, call: ToolCall, pending: PendingCall) -> tuple[ToolCall, Facts]:
        """The call as its effects are judged, and what they are judged by. Raises what CannotRecord names."""
        site, rules, asked = self.site, self.site.governing, as_writes(call)
        facts = gather(asked, site.workspace, rules, site.state, site.store, site.environment).facts
        grants = site.approvals.grants(rules.config.grants)
        return asked, replace(facts, session=SessionFacts(pending.intent_id), grants=grants)

    def targets(self, changed: Iterable[Change]) -> Iterator[Target]:
        """The changed files as the checks know them."""
        around, folds = self.site.environment, folds_case(self.root)
        surroundings = Surroundings(around.home, around.temporary, around.settings, around.own_folders)
        for change in changed:
            found = target(self.site.workspace, f"{self.root}/{change.path}", change.path, surroundings)
            yield replace(found, folds=folds)


def as_writes(call: ToolCall) -> ToolCall:
    """The call as its effects are judged: a tool that writes files, and looks at what is there itself."""
    return replace(
        call, effect="write", command=None, paths=(), checks_itself=True, whole_workspace=False, opens_stdin=False
    )


def objection(call: ToolCall, facts: Facts, one: Target, pending: PendingCall) -> ErrorType | None:
    """The rule that a change of this file breaks: by the scope as it was then, and by all rules as they are now.

    What a person said yes to may have any effect but on what is protected.
    """
    decision = decide(call, replace(facts, targets=(one,)))
    if decision.effect == "allow":
        return None
    codes = UNDOES & {f.code for f in decision.findings if f.verdict != "allow"}
    if pending.grants:
        codes &= {"PROTECTED_PATH"}
    if pending.intent_id is None or Scope(pending.owned_scope).matches(one.raw, fold=one.folds):
        codes -= {"SCOPE_VIOLATION"}
    return min(codes, default=None)


def moved_from(broken: Why, done: Iterable[Change]) -> Why:
    """The files that one of these was moved from, by the content: undone by half, a move would leave neither."""
    made = {c.after.version.sha256: c.path for c in done if c.path in broken and c.before is None and c.after}
    gone = {c.path: c.before.version.sha256 for c in done if c.after is None and c.before}
    return {path: broken[made[content]] for path, content in gone.items() if content in made}


def against(path: str, why: str) -> Finding:
    """The objection that a file tool's write of this content would have met."""
    return Finding(rule="constraints", code=BROKEN, message=why, path=path)


def is_remits(path: str) -> bool:
    """Whether a path lies in the folder that Remit itself writes to."""
    return path.startswith(f"{FOLDER}/")


def is_gits(path: str) -> bool:
    """Whether a path is one of git's own files, as observations name them."""
    return path.startswith(PREFIX)

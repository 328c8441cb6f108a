"""What a call did beyond its right: judged by what is there afterwards, path by path.

Which change of a governing file is an agent's way out, and not a person's or git's doing.
"""

from collections.abc import Iterable, Iterator, Sequence
from typing import TypeAlias

from msgspec.structs import replace

from remit.core.call import ToolCall
from remit.core.decision import ErrorType, Finding
from remit.core.facts import Facts, SessionFacts, Target
from remit.core.intent import FINAL_STATUSES, Intent
from remit.core.scope.globs import Scope
from remit.gate.context import WorkspaceContext
from remit.gate.gather import gather_facts, mark_ignored
from remit.gate.state.workspace_state import PendingCall
from remit.gate.undo.git_files import GIT_PREFIX, GitFileCopies
from remit.policy.decide import decide, split_waived
from remit.workspace.observe.git_arrivals import find_arriving_paths
from remit.workspace.observe.observation import GOVERNING_FILES, HOOKS_FOLDER, Change
from remit.workspace.place.paths import MachinePlaces, folds_case, resolve_target
from remit.workspace.place.workspace import ORCHESTRATION_FOLDER

UNDONE_CODES: frozenset[ErrorType] = frozenset({"SCOPE_VIOLATION", "INTENTIGNORE_PATH_BLOCKED", "PROTECTED_PATH"})
"""What an effect is undone for: it says something about the path itself, and not about the moment."""

BROKEN_CODE: ErrorType = "CONSTRAINT_VIOLATION"
Reasons: TypeAlias = dict[str, str]
"""By path, a reason."""


class ViolationFinder:
    """Says of the changes of one workspace which a call may not have made."""

    def __init__(self, context: WorkspaceContext, guarded: GitFileCopies) -> None:
        self.context = context
        self.git_files = guarded
        self.root = context.workspace.root

    def find_violations(self, call: ToolCall, pending: PendingCall, done: Iterable[Change]) -> Reasons:
        """By path, the rule that a change breaks.

        `.orchestration/` is not looked at: what governs there is put back elsewhere, the rest Remit writes itself.
        """
        own = [c for c in done if not c.from_git and c.path not in pending.judged and not is_remit_path(c.path)]
        found = {c.path: "PROTECTED_PATH" for c in own if is_git_path(c.path) and not self.git_files.is_harmless(c)}
        rest = self.exclude_git_changes(own, pending)
        if not rest:
            return found
        asked, facts = self.gather_facts(call, pending)
        targets = mark_ignored(
            tuple(self.make_targets(rest)), self.context.workspace, self.context.last_rules or self.context.rules
        )
        broken = ((one.raw, find_violation(asked, facts, one, pending)) for one in targets)
        return {**found, **{path: rule for path, rule in broken if rule is not None}}

    def find_broken_constraints(self, call: ToolCall, pending: PendingCall, done: Sequence[Change]) -> Reasons:
        """By path, in words, the constraints of the intent that what the call left breaks, and did not before it.

        A file tool that would leave that is refused; what a person said yes to stays.
        """
        intent = self.context.rules.intents.get(pending.intent_id)
        rest = [c for c in done if not c.from_git and c.after is not None and not is_remit_path(c.path)]
        if intent is None or not intent.rules or pending.grants or not rest:
            return {}
        # For those who have constraints: it opens the ledger's index.
        from remit.gate.evidence.constraint_facts import find_broken_constraints

        found = find_broken_constraints(intent, self.exclude_git_changes(rest, pending))
        if not found:
            return {}
        asked, facts = self.gather_facts(call, pending)
        left = {
            path: why
            for path, why in found.items()
            if not split_waived((constraint_finding(path, why),), asked, facts)[1]
        }
        return left | find_move_sources(left, done)

    def exclude_git_changes(self, done: Iterable[Change], pending: PendingCall) -> list[Change]:
        """The changes of the user's files, but for those that git is just bringing."""
        rest = [c for c in done if not is_git_path(c.path)]
        brings = find_arriving_paths(self.context.workspace, pending.known_commits) if rest else frozenset[str]()
        return [c for c in rest if c.path not in brings]

    def gather_facts(self, call: ToolCall, pending: PendingCall) -> tuple[ToolCall, Facts]:
        """The call as its effects are judged, and what they are judged by. Raises what CannotRecord names."""
        site, rules, asked = self.context, self.context.rules, as_file_tool(call)
        facts = gather_facts(asked, site.workspace, rules, site.state, site.contents, site.environment).facts
        grants = site.questions.active_grants(rules.config.grants)
        return asked, replace(facts, session=SessionFacts(pending.intent_id), grants=grants)

    def make_targets(self, changed: Iterable[Change]) -> Iterator[Target]:
        """The changed files as the checks know them."""
        around, folds = self.context.environment, folds_case(self.root)
        surroundings = MachinePlaces(around.home, around.temporary, around.settings, around.own_folders)
        for change in changed:
            found = resolve_target(self.context.workspace, f"{self.root}/{change.path}", change.path, surroundings)
            yield replace(found, folds=folds)


def as_file_tool(call: ToolCall) -> ToolCall:
    """The call as its effects are judged: a tool that writes files, and looks at what is there itself."""
    return replace(
        call,
        effect="write",
        command=None,
        paths=(),
        checks_itself=True,
        whole_workspace=False,
        has_unwatched_stdin=False,
    )


def find_violation(call: ToolCall, facts: Facts, one: Target, pending: PendingCall) -> ErrorType | None:
    """The rule that a change of this file breaks: by the scope as it was then, and by all rules as they are now.

    What a person said yes to may have any effect but on what is protected.
    """
    decision = decide(call, replace(facts, targets=(one,)))
    if decision.effect == "allow":
        return None
    codes = UNDONE_CODES & {f.code for f in decision.findings if f.verdict != "allow"}
    if pending.grants:
        codes &= {"PROTECTED_PATH"}
    if pending.intent_id is None or Scope(pending.owned_scope).matches(one.raw, fold=one.folds):
        codes -= {"SCOPE_VIOLATION"}
    return min(codes, default=None)


def find_move_sources(broken: Reasons, done: Iterable[Change]) -> Reasons:
    """The files that one of these was moved from, by the content: undone by half, a move would leave neither."""
    made = {c.after.version.sha256: c.path for c in done if c.path in broken and c.before is None and c.after}
    gone = {c.path: c.before.version.sha256 for c in done if c.after is None and c.before}
    return {path: broken[made[content]] for path, content in gone.items() if content in made}


def constraint_finding(path: str, why: str) -> Finding:
    """The objection that a file tool's write of this content would have met."""
    return Finding(rule="constraints", code=BROKEN_CODE, message=why, path=path)


def is_remit_path(path: str) -> bool:
    """Whether a path lies in the folder that Remit itself writes to."""
    return path.startswith(f"{ORCHESTRATION_FOLDER}/")


def is_git_path(path: str) -> bool:
    """Whether a path is one of git's own files, as observations name them."""
    return path.startswith(GIT_PREFIX)


INTENTS_PATH = f"{ORCHESTRATION_FOLDER}/active_intents.yaml"


def must_revert(change: Change) -> bool:
    """Whether the change has to be put back. A file that is gone need not be: the kept copy goes on to hold.

    A hook that is gone is put back: it would not run any more.
    A stash or a checkout turns an intent's status and times back, which loosens nothing; neither does a comment.
    """
    if change.path.startswith(f"{HOOKS_FOLDER}/"):
        return not change.from_git
    if change.path not in GOVERNING_FILES or change.from_git or change.after is None:
        return False
    if change.path != INTENTS_PATH:
        return True
    return parse_intent_rules(change.before.content if change.before else b"") != parse_intent_rules(
        change.after.content
    )


def is_bookkeeping(change: Change) -> bool:
    """Whether only an intent's status and times turned, or a comment: each content of that file has its own record.

    Remit writes them when an intent is selected, and a stash or a checkout turns them back.
    """
    if change.path != INTENTS_PATH or change.before is None or change.after is None:
        return False
    before, after = change.before.content, change.after.content
    return (
        before is not None and after is not None and parse_intent_rules(before) == parse_intent_rules(after) is not None
    )


def parse_intent_rules(text: bytes | None) -> dict[str, Intent] | None:
    """What the file allows, by id; None where it has errors: then it allows nothing, but nobody could work either."""
    from remit.workspace.intents_file.parse import parse_intents  # milliseconds, and few calls change that file

    document = parse_intents(text or b"active_intents: []\n")
    return None if document.errors else {i.id: without_progress(i) for i in document.intents}


def without_progress(intent: Intent) -> Intent:
    """The intent without what may change while it is worked on."""
    status = intent.status if intent.status in FINAL_STATUSES or intent.status == "BLOCKED" else "DRAFT"
    return replace(intent, status=status, updated_at=None, created_at=None)

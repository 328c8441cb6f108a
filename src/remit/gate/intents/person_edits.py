"""Changes to intents that a person asks for, and what a scope would own. The commands `remit intent` and the console's
pages call these functions.
"""

from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from remit.core.config import make_verify_item
from remit.core.intent import Constraint, Criterion, Intent, IntentSet, Status, find_completion_obstacles
from remit.core.intents.constraints import parse_constraint
from remit.core.intents.validation import find_scope_doubt
from remit.core.record import format_utc
from remit.core.scope.path_patterns import Scope
from remit.core.untrusted_input import quote_path, sanitise_line
from remit.gate.context import WorkspaceContext
from remit.gate.hooks.verify_commands import split_by_trust
from remit.gate.intents.intents import IntentCompletion, Intents
from remit.gate.intents.owned_files import list_present_files, match_files
from remit.gate.intents.refusals import IntentError, describe_pattern_fault
from remit.workspace.git.command import GitError
from remit.workspace.place.config import Trust, read_trust, write_trust
from remit.workspace.place.workspace import Workspace

PERSON = "person"
MAX_SAMPLE = 12
MAX_COUNTED_PATTERNS = 60  # patterns of a scope whose files are counted one by one
NO_MATCH = "matches no file that is there now: right for new files, else look at the spelling"


class ChildrenOpen(IntentError):
    """A parent intent that would be closed before its children."""


class UnprovedCriteria(IntentError):
    """An intent with criteria `commands` that may not run here: without a person's word it is not DONE."""

    def __init__(self, intent_id: str, commands: Sequence[str]) -> None:
        self.commands = tuple(commands)
        count = f"{len(self.commands)} {'checks were' if len(self.commands) > 1 else 'check was'}"
        named = "; ".join(f'"{sanitise_line(command, 300)}"' for command in self.commands)
        super().__init__(f"{intent_id} is not closed: {count} not run here, for want of trust: {named}")


def draft_intent(
    base: Intent,
    *,
    intent_id: str,
    name: str,
    scope: Sequence[str],
    constraints: Sequence[Constraint] = (),
    criteria: Sequence[Criterion] = (),
    parent: str | None = None,
    references: Sequence[str] = (),
    needs: Sequence[str] = (),
    **fields: Any,
) -> Intent:
    """Return a new intent, as DRAFT: what a person gives, on top of a template's lists."""
    return replace(
        base,
        id=intent_id,
        name=name,
        status="DRAFT",
        owned_scope=tuple(scope) or base.owned_scope,
        constraints=(*base.constraints, *constraints),
        acceptance_criteria=(*base.acceptance_criteria, *criteria),
        parent_intent=parent or base.parent_intent,
        references=(*base.references, *references),
        dependencies=tuple(dict.fromkeys((*base.dependencies, *needs))),
        created_at=None,
        updated_at=None,
        **fields,
    )


def draft_fork(old: Intent, name: str = "") -> Intent:
    """Return a new DRAFT with the scope, constraints and criteria of another intent, which it refers to."""
    references = tuple(dict.fromkeys((*old.references, old.id)))
    base = replace(old, blocked_reason=None, references=references, uid=None, formerly=(), created_at=None)
    return draft_intent(base, intent_id="", name=name or old.title, scope=())


def parse_constraints(texts: Iterable[str], known: Sequence[Constraint] = ()) -> tuple[Constraint, ...]:
    """Return constraints from their lines; a line of a `known` constraint stays that one. Raises InvalidConstraint."""
    by_text = {constraint.text: constraint for constraint in known}
    return tuple(by_text.get(text) or parse_constraint(text) for text in texts)


def make_criteria(texts: Iterable[str], known: Sequence[Criterion] = ()) -> tuple[Criterion, ...]:
    """Return criteria from their lines; a line of a `known` criterion keeps its command."""
    by_text = {criterion.text: criterion for criterion in known}
    return tuple(by_text.get(text) or Criterion(text) for text in texts)


def require_closed_children(context: WorkspaceContext, intent_id: str, *, force: bool) -> str:
    """Return the open children of an intent that is closed by force; empty for none. Raises ChildrenOpen."""
    intents = Intents(context)
    children = "; ".join(find_completion_obstacles(intents.get(intent_id), intents.document.intents))
    if children and not force:
        raise ChildrenOpen(f"{intent_id} is not closed: {children}")
    return children


def change_status(context: WorkspaceContext, intent_id: str, to: Status, notes: str) -> Intent:
    """Move an intent along its life for a person. Raises IllegalTransition, IntentError, EditRefused."""
    return Intents(context).set_status(intent_id, to, by=PERSON, notes=notes, reason=notes or None)


def find_unproved(context: WorkspaceContext, intent_id: str) -> tuple[str, ...]:
    """Return the criteria commands of an intent that may not run, because nobody on this machine trusts them."""
    return split_by_trust(context, Intents(context).get(intent_id))[1]


def complete_intent(context: WorkspaceContext, intent_id: str, notes: str, *, without_proof: bool = False) -> Intent:
    """Close an intent as DONE after its criteria commands passed. A command that may not run is no proof: that raises
    UnprovedCriteria, unless the person closes it `without_proof`, which is recorded, and runs nothing. Raises
    IntentRefused, and as `change_status`.
    """
    if without_proof:
        commands = [c.verify for c in Intents(context).get(intent_id).acceptance_criteria if c.verify]
        unproved = f" (completed without proof: {'; '.join(commands)})" if commands else ""
        return change_status(context, intent_id, "DONE", notes + unproved)
    if unproved := find_unproved(context, intent_id):
        raise UnprovedCriteria(intent_id, unproved)
    IntentCompletion(context).verify_for_person(intent_id)
    return change_status(context, intent_id, "DONE", notes)


def trust_commands(context: WorkspaceContext, made: Intent, shown: Sequence[str]) -> None:
    """Trust exactly the commands that a person was shown, beside what they trusted before. Raises OSError."""
    items = tuple(
        make_verify_item(c.verify, made.id) for c in made.acceptance_criteria if c.verify in shown and c.verify
    )
    if not items:
        return
    home, repository = context.environment.home, context.recorder.repository
    before = read_trust(home, repository)
    known = before.commands if before is not None else ()
    at = format_utc(datetime.fromtimestamp(context.environment.clock.now(), UTC), "seconds")
    write_trust(home, Trust(repository, str(context.workspace.root), at, tuple(dict.fromkeys((*known, *items)))))


# What a scope would own


class PatternPreview(Struct, frozen=True):
    """A pattern of a scope: the number of files that the pattern matches (None if not counted), its fault, and a
    doubt about its meaning.
    """

    pattern: str
    files: int | None
    problem: str = ""
    doubt: str = ""


class ScopePreview(Struct, frozen=True):
    """The files that a scope would own, compared with the intent's present scope. `owners` counts the files that other
    intents in progress own; `touched` are files changed under the intent, `left_out` those outside the scope.
    """

    patterns: list[PatternPreview]
    files: int
    sample: list[str]
    added: list[str]
    added_files: int
    removed: list[str]
    removed_files: int
    owners: dict[str, int]
    touched: int
    left_out: list[str]


def list_scope_remarks(workspace: Workspace, scope: Sequence[str]) -> list[str]:
    """Return what a person should know about a scope: doubtful patterns, or that no file matches."""
    doubts = [(pattern, doubt) for pattern in scope if (doubt := find_scope_doubt(pattern))]
    if doubts:
        return [f"{sanitise_line(repr(pattern))} {doubt}" for pattern, doubt in doubts]
    try:
        is_empty = not any(map(Scope(tuple(scope)).matches, list_present_files(workspace)))
    except GitError:
        return []
    return [f"{', '.join(map(sanitise_line, scope))} {NO_MATCH}"] if is_empty else []


def preview_scope(
    scope: Sequence[str],
    files: Sequence[str],
    *,
    intents: Sequence[Intent] = (),
    intent: Intent | None = None,
    touched: Iterable[str] = (),
) -> ScopePreview:
    """Return what `scope` would own of these files."""
    problems = {pattern: describe_pattern_fault(pattern) for pattern in scope}
    usable = tuple(pattern for pattern in scope if not problems[pattern])
    matched = match_files(usable, files)
    patterns = [
        PatternPreview(
            pattern,
            None
            if problems[pattern] or number >= MAX_COUNTED_PATTERNS
            else len(match_files((pattern.removeprefix("!"),), files)),
            problems[pattern],
            find_scope_doubt(pattern) or "",
        )
        for number, pattern in enumerate(scope)
    ]
    before = set(match_files(intent.owned_scope, files)) if intent else set[str]()
    added, removed = [path for path in matched if path not in before], sorted(before - set(matched))
    others = IntentSet(each for each in intents if intent is None or each.id != intent.id)
    owners: dict[str, int] = {}
    for path in matched:
        for owner in others.find_owners(path):
            owners[owner] = owners.get(owner, 0) + 1
    seen = list(touched)
    left_out = [path for path in seen if not Scope(usable).matches(path)]
    return ScopePreview(
        patterns,
        len(matched),
        list(map(quote_path, matched[:MAX_SAMPLE])),
        list(map(quote_path, added[:MAX_SAMPLE])),
        len(added),
        list(map(quote_path, removed[:MAX_SAMPLE])),
        len(removed),
        owners,
        len(seen) - len(left_out),
        list(map(quote_path, left_out[:MAX_SAMPLE])),
    )

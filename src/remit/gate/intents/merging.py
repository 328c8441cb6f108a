"""Merges of intents that turned out to be one piece of work: one takes the others over, and they end as ABORTED."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from remit.core.intent import FINAL_STATUSES, Intent
from remit.core.intents.merge import absorb_intents, find_narrowed
from remit.core.intents.validation import PlacedIntent, validate_intents
from remit.core.untrusted_input import sanitise_line
from remit.gate.context import WorkspaceContext
from remit.gate.intents.bindings import Bindings
from remit.gate.intents.history import describe_differences
from remit.gate.intents.identity import list_worktrees
from remit.gate.intents.intents import Intents
from remit.gate.intents.person_edits import PERSON
from remit.gate.intents.refusals import IntentError
from remit.workspace.git.command import GitError
from remit.workspace.place.assignment_file import read_assignment
from remit.workspace.place.workspace import workspace_at


class IntentMerge(Struct, frozen=True):
    """A merge of intents: the one that stays, those that end, each change as a line, by intent, and remarks."""

    into: str
    merged: tuple[str, ...]
    changes: dict[str, list[str]]
    remarks: tuple[str, ...] = ()


def merge_into(context: WorkspaceContext, into: str, merged: Sequence[str], *, dry_run: bool = False) -> IntentMerge:
    """Let one intent take others over, which become ABORTED; who named one of them names it. All is looked at before
    anything is written, and what a crash leaves undone, the same call does.

    Raises IntentError, EditRefused, OSError.
    """
    intents = Intents(context)
    kept, others = require_mergeable(context, intents, into, merged)
    known = intents.document.intents
    changes = absorb_intents(kept, others, known)
    require_sound(intents, known, changes)
    by_id = {intent.id: intent for intent in known}
    lines = {
        name: list(describe_differences(by_id[name], replace(by_id[name], **new))) for name, new in changes.items()
    }
    reason = f"merged into {into}"
    lines |= {other.id: [f"status {other.status} → ABORTED: {reason}"] for other in others}
    narrowed = find_narrowed(changes.get(into, {}).get("owned_scope", kept.owned_scope), (kept, *others))
    remark = f"the exclusions of the others may take paths of {', '.join(narrowed)} away: look at the scope of {into}"
    made = IntentMerge(into, tuple(other.id for other in others), lines, (remark,) if narrowed else ())
    if dry_run:
        return made
    for name, new in changes.items():
        intents.edit(name, new, by=PERSON)
    for other in others:
        intents.set_status(other.id, "ABORTED", by=PERSON, notes=reason, reason=reason)
    return made


def require_mergeable(
    context: WorkspaceContext, intents: Intents, into: str, merged: Sequence[str]
) -> tuple[Intent, list[Intent]]:
    """Return the intent that stays and those that end. Raises IntentError for one that cannot be merged."""
    names = (into, *merged)
    for name in names:
        if names.count(name) > 1:
            raise IntentError(f"{sanitise_line(name, 60)} is named twice; name each intent once")
        if broken := intents.describe_broken_file(name):
            raise IntentError(f"{sanitise_line(name, 60)} cannot be merged: {broken}")
        intent = intents.get(name)
        if intent.status in FINAL_STATUSES:
            cure = f"leave it out, or `remit intent reopen {name}` first"
            raise IntentError(f"{name} is {intent.status} and cannot be merged; {cure}")
    for name, holder, cure in list_holders(context):
        if name in merged:
            raise IntentError(f"{name} cannot end by a merge: {holder}; {cure}")
    return intents.get(into), [intents.get(name) for name in merged]


def list_holders(context: WorkspaceContext) -> Iterator[tuple[str, str, str]]:
    """Yield the intents that a person or a plan holds work to, by what, and how to end that. Raises StateError."""
    for bound in Bindings(context.state).list_all():
        option = {"worktree": "--worktree", "terminal": "--terminal"}.get(bound.kind, f"--{bound.kind} {bound.name}")
        place = "this work tree" if bound.kind == "worktree" else f"{bound.kind} {sanitise_line(bound.name, 80)}"
        if bound.intent_id:
            yield bound.intent_id, f"it is bound to {place}", f"run `remit intent unbind {sanitise_line(option, 100)}`"
    if context.workspace.common_dir is None:
        return
    with suppress(GitError):
        for root in list_worktrees(context.workspace.root):
            held = read_assignment(workspace_at(root, root))
            if held is not None and held.terms is not None:
                name = held.terms.intent
                yield name, "a plan works on it", f"run `remit task drop {name}`, or wait until it has landed"


def require_sound(intents: Intents, known: Iterable[Intent], changes: Mapping[str, Mapping[str, Any]]) -> None:
    """Raise IntentError where a changed intent cannot be written, or intents would then wait for each other."""
    for name in changes:
        if broken := intents.describe_broken_file(name):
            raise IntentError(f"{name} names one of them, and cannot be read: {broken}")
    after = [PlacedIntent(replace(one, **changes.get(one.id, {})), {}) for one in known]
    ids = {one.intent.id for one in after}
    before = {f.message for f in validate_intents([PlacedIntent(one, {}) for one in known], ids)}
    for finding in validate_intents(after, ids):
        if finding.code in ("CIRCULAR_DEPENDENCY", "INVALID_PARENT") and finding.message not in before:
            cure = "take one of these away first: `remit intent edit ID --needs …` or `--parent …`"
            raise IntentError(f"after this merge {finding.message}; {cure}")

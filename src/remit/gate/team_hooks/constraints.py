"""Constraints of an intent, checked against the files after a call and before completion.

Calls with unknown results (a shell command, a foreign tool) are judged here, by their effects.
"""

import os
from collections.abc import Iterable, Iterator
from pathlib import Path

from msgspec import UNSET

from remit.core.call import ToolCall
from remit.core.decision import Mode
from remit.core.diff.edits import ProposedFile
from remit.core.display_text import quote_path
from remit.core.intent import Constraint, Intent
from remit.core.record import Body
from remit.gate.answer import join_lines
from remit.gate.context import WorkspaceContext
from remit.gate.evidence.constraint_facts import LINK_MODE, find_paths_changed_under
from remit.policy.checks.constraints.breach import Breach, ProposedChange
from remit.policy.checks.constraints.evaluate import describe_breach, find_all_breaches
from remit.workspace.files.read_files import ObservedFile
from remit.workspace.observe.observation import try_observe_file

MAX_NAMED_BREACHES = 5
BrokenConstraint = tuple[Constraint, Breach]


def check_after_call(
    context: WorkspaceContext, call: ToolCall, intent: Intent, mode: Mode, changed: tuple[str, ...]
) -> str:
    """Return the message about constraints broken by a call's changes, and record the breaches.

    Raises the errors in RECORDING_ERRORS.
    """
    before = find_paths_changed_under(intent.id, context.workspace)
    find_staged_changes = [path for path in changed if path in before]
    found = list(find_breaches(context, intent, before, find_staged_changes, is_final=False))
    broken = [(constraint, breach) for constraint, breach in found if not breach.is_remark]
    if broken:
        record_breaches(context, call, intent, broken)
    messages: list[str] = []
    # The checks judged a file tool's content beforehand: in warn the model has heard about its breaches already.
    is_judged = call.edit is not None and call.command is None
    if broken and mode != "observe" and not (is_judged and mode == "warn"):
        named = " ".join(describe_breach(intent.id, *each) for each in broken[:MAX_NAMED_BREACHES])
        messages.append(
            f"Remit: this {call.tool} call left what breaks {len(broken)} of the constraints of {intent.id}. {named} "
            "It is recorded. Mend it now: the intent cannot be completed like this."
        )
    remarks = [describe_breach(intent.id, *each) for each in found if each[1].is_remark]
    if remarks and before.keys() <= set(find_staged_changes):
        messages.append(f"Remit: before the intent is completed: {' '.join(remarks[:MAX_NAMED_BREACHES])}")
    return join_lines(*messages)


def describe_completion_breaches(context: WorkspaceContext, intent: Intent) -> tuple[str, ...]:
    """Describe the broken constraints that prevent completion. Raises OSError, LedgerError."""
    before = find_paths_changed_under(intent.id, context.workspace)
    found = find_breaches(context, intent, before, before, is_final=True)
    return tuple(describe_breach(intent.id, *each).rstrip(".") for each in found)


def find_breaches(
    context: WorkspaceContext, intent: Intent, before: dict[str, str | None], paths: Iterable[str], *, is_final: bool
) -> Iterator[BrokenConstraint]:
    """Return the broken constraints. A breach older than the intent's first change is not counted.

    `before` maps each path changed under the intent to its git blob before the first change.
    """
    files: list[ProposedFile] = []
    for path in paths:
        blob, seen = before[path], glance_through_link(context.workspace.root, path)
        old = context.contents.load(blob) if blob else None
        files.append(ProposedFile(path, old, seen.content if seen else None, seen is None or seen.content is not None))
    changed = tuple(file.path for file in files if not file.known or file.after != file.before)
    return find_all_breaches(
        intent, ProposedChange(tuple(files), changed, changed if is_final else tuple(before), is_final)
    )


def glance_through_link(root: Path, path: str) -> ObservedFile | None:
    """Return the file at a path; a link inside the workspace is followed."""
    seen = try_observe_file(root / path)
    if seen is None or seen.version.mode != LINK_MODE:
        return seen
    target = Path(os.path.realpath(root / path))
    return (try_observe_file(target) or seen) if target.is_relative_to(os.path.realpath(root)) else seen


def record_breaches(context: WorkspaceContext, call: ToolCall, intent: Intent, broken: list[BrokenConstraint]) -> None:
    bodies = [
        Body(
            event="verification",
            intent_id=intent.id,
            session_id=call.session.session_id,
            agent_id=call.session.agent_id or UNSET,
            detail={
                "command": f"constraint {constraint.kind}",
                "exit_code": 1,
                "ms": 0,
                "paths": [quote_path(breach.path)] if breach.path else [],
                "output": describe_breach(intent.id, constraint, breach),
            },
        )
        for constraint, breach in broken
    ]
    context.recorder.append_or_spool([context.recorder.make_record(body, call.agent) for body in bodies])

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


class ConstraintCheck:
    """Check of intents' constraints against the current files of one workspace."""

    def __init__(self, site: WorkspaceContext) -> None:
        self.site = site

    def check_after_call(self, call: ToolCall, intent: Intent, mode: Mode, changed: tuple[str, ...]) -> str:
        """Return the message about constraints broken by a call's changes, and record the breaches.

        Raises the errors in RECORDING_ERRORS.
        """
        before = find_paths_changed_under(intent.id, self.site.workspace)
        fresh = [path for path in changed if path in before]
        found = list(self.find_breaches(intent, before, fresh, final=False))
        remarks = [describe_breach(intent.id, *one) for one in found if one[1].is_remark]
        wrong = [one for one in found if not one[1].is_remark]
        if wrong:
            self.record_breaches(call, intent, wrong)
        known = call.edit is not None and call.command is None
        if mode == "observe" or (known and mode == "warn"):
            wrong = []
        return join_lines(
            describe_breaches(intent, call, wrong), describe_remarks(remarks) if before.keys() <= set(fresh) else ""
        )

    def find_obstacles(self, intent: Intent) -> tuple[str, ...]:
        """Return the broken constraints that prevent completion. Raises OSError, LedgerError."""
        before = find_paths_changed_under(intent.id, self.site.workspace)
        found = self.find_breaches(intent, before, before, final=True)
        return tuple(describe_breach(intent.id, *one).rstrip(".") for one in found)

    def find_breaches(
        self, intent: Intent, before: dict[str, str | None], paths: Iterable[str], *, final: bool
    ) -> Iterator[BrokenConstraint]:
        """Return the broken constraints. A breach older than the intent's first change is not counted."""
        files = tuple(self.load_files(before, paths))
        now = tuple(file.path for file in files if not file.known or file.after != file.before)
        changed = now if final else tuple(before)
        return find_all_breaches(intent, ProposedChange(files, now, changed, final))

    def load_files(self, before: dict[str, str | None], paths: Iterable[str]) -> Iterator[ProposedFile]:
        """Yield each file with its content before the intent's first change, and its current content."""
        for path in paths:
            seen, blob = self.glance_through_link(path), before[path]
            old = self.site.contents.load(blob) if blob else None
            yield ProposedFile(path, old, seen.content if seen else None, seen is None or seen.content is not None)

    def glance_through_link(self, path: str) -> ObservedFile | None:
        """Return the file at a path; a link inside the workspace is followed."""
        root = self.site.workspace.root
        seen = try_observe_file(root / path)
        if seen is None or seen.version.mode != LINK_MODE:
            return seen
        behind = Path(os.path.realpath(root / path))
        return (try_observe_file(behind) or seen) if behind.is_relative_to(os.path.realpath(root)) else seen

    def record_breaches(self, call: ToolCall, intent: Intent, wrong: list[BrokenConstraint]) -> None:
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
            for constraint, breach in wrong
        ]
        self.site.recorder.append_or_spool([self.site.recorder.make_record(body, call.agent) for body in bodies])


def describe_breaches(intent: Intent, call: ToolCall, wrong: list[BrokenConstraint]) -> str:
    if not wrong:
        return ""
    named = " ".join(describe_breach(intent.id, *one) for one in wrong[:MAX_NAMED_BREACHES])
    return (
        f"Remit: this {call.tool} call left what breaks {len(wrong)} of the constraints of {intent.id}. {named} "
        "It is recorded. Mend it now: the intent cannot be completed like this."
    )


def describe_remarks(remarks: list[str]) -> str:
    return f"Remit: before the intent is completed: {' '.join(remarks[:MAX_NAMED_BREACHES])}" if remarks else ""

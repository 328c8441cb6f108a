"""Whether what stands in the files keeps to an intent's constraints: after a call, and before the intent is completed.

A call that does not say what it will leave (a shell command, a tool of others) is judged here, by what it left.
"""

import os
from collections.abc import Iterable, Iterator
from pathlib import Path

from msgspec import UNSET

from remit.core.call import ToolCall
from remit.core.decision import Mode
from remit.core.edits import Proposed
from remit.core.intent import Constraint, Intent
from remit.core.record import Body
from remit.core.text import quoted_path
from remit.gate.answer import joined
from remit.gate.constraining import LINK, changed_by
from remit.gate.site import Site
from remit.policy.checks.constraints.breach import Breach, Situation
from remit.policy.checks.constraints.judging import breaches, sentence
from remit.workspace.observe import glance
from remit.workspace.versions import Seen

TOLD_MOST = 5
Broken = tuple[Constraint, Breach]


class KeepingTo:
    """The constraints of intents in one workspace, held against the files as they are."""

    def __init__(self, site: Site) -> None:
        self.site = site

    def told(self, call: ToolCall, intent: Intent, mode: Mode, changed: tuple[str, ...]) -> str:
        """What the model should know of what its call changed; recorded where something is broken.

        Raises what CannotRecord names.
        """
        before = changed_by(intent.id, self.site.workspace)
        fresh = [path for path in changed if path in before]
        found = list(self.broken(intent, before, fresh, final=False))
        remarks = [sentence(intent.id, *one) for one in found if one[1].remark]
        wrong = [one for one in found if not one[1].remark]
        if wrong:
            self.record(call, intent, wrong)
        known = call.edit is not None and call.command is None
        if mode == "observe" or (known and mode == "warn"):
            wrong = []
        return joined(said_wrong(intent, call, wrong), said_remarks(remarks) if before.keys() <= set(fresh) else "")

    def obstacles(self, intent: Intent) -> tuple[str, ...]:
        """Why the constraints do not let the intent be completed. Raises OSError, LedgerError."""
        before = changed_by(intent.id, self.site.workspace)
        found = self.broken(intent, before, before, final=True)
        return tuple(sentence(intent.id, *one).rstrip(".") for one in found)

    def broken(
        self, intent: Intent, before: dict[str, str | None], paths: Iterable[str], *, final: bool
    ) -> Iterator[Broken]:
        """What does not hold. What was so when the intent first touched a file is not its doing."""
        files = tuple(self.files(before, paths))
        now = tuple(file.path for file in files if not file.known or file.after != file.before)
        changed = now if final else tuple(before)
        return breaches(intent, Situation(files, now, changed, final))

    def files(self, before: dict[str, str | None], paths: Iterable[str]) -> Iterator[Proposed]:
        """These files: what each held at first, and what it holds."""
        for path in paths:
            seen, blob = self.found(path), before[path]
            old = self.site.store.load(blob) if blob else None
            yield Proposed(path, old, seen.content if seen else None, seen is None or seen.content is not None)

    def found(self, path: str) -> Seen | None:
        """What stands at a path: behind a link, what it leads to in the workspace."""
        root = self.site.workspace.root
        seen = glance(root / path)
        if seen is None or seen.version.mode != LINK:
            return seen
        behind = Path(os.path.realpath(root / path))
        return (glance(behind) or seen) if behind.is_relative_to(os.path.realpath(root)) else seen

    def record(self, call: ToolCall, intent: Intent, wrong: list[Broken]) -> None:
        """Write down which constraints what the call left does not keep to."""
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
                    "paths": [quoted_path(breach.path)] if breach.path else [],
                    "output": sentence(intent.id, constraint, breach),
                },
            )
            for constraint, breach in wrong
        ]
        self.site.recorder.append_or_spool([self.site.recorder.record(body, call.agent) for body in bodies])


def said_wrong(intent: Intent, call: ToolCall, wrong: list[Broken]) -> str:
    """What the model is told of constraints that are broken now."""
    if not wrong:
        return ""
    named = " ".join(sentence(intent.id, *one) for one in wrong[:TOLD_MOST])
    return (
        f"Remit: this {call.tool} call left what breaks {len(wrong)} of the constraints of {intent.id}. {named} "
        "It is recorded. Mend it now: the intent cannot be completed like this."
    )


def said_remarks(remarks: list[str]) -> str:
    """What the model is told of what has to be so in the end."""
    return f"Remit: before the intent is completed: {' '.join(remarks[:TOLD_MOST])}" if remarks else ""

"""`forbid_path`: files that the intent must not change, although they are in its scope."""

from collections.abc import Iterator

from remit.core.intent import Constraint
from remit.policy.checks.constraints.breach import Breach, ProposedChange, covers_path


def find_breaches(constraint: Constraint, change: ProposedChange) -> Iterator[Breach]:
    for path in change.written_paths:
        if covers_path(constraint, path):
            yield Breach("a change", "none there", path)

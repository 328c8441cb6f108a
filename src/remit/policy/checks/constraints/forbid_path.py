"""`forbid_path`: files that the intent leaves alone, whatever else it owns."""

from collections.abc import Iterator

from remit.core.intent import Constraint
from remit.policy.checks.constraints.breach import Breach, ProposedChange, covers_path


def find_breaches(constraint: Constraint, change: ProposedChange) -> Iterator[Breach]:
    """Those of the files that are written."""
    for path in change.written_paths:
        if covers_path(constraint, path):
            yield Breach("a change", "none there", path)

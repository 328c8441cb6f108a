"""`forbid_path`: files that the intent leaves alone, whatever else it owns."""

from collections.abc import Iterator

from remit.core.intent import Constraint
from remit.policy.checks.constraints.breach import Breach, Situation, covers


def broken(constraint: Constraint, situation: Situation) -> Iterator[Breach]:
    """Those of the files that are written."""
    for path in situation.named:
        if covers(constraint, path):
            yield Breach("a change", "none there", path)

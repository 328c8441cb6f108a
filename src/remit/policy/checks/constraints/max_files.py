"""`max_files`: the intent changes at most `max` files in all."""

from collections.abc import Iterator

from remit.core.intent import Constraint
from remit.policy.checks.constraints.breach import NAMED_MOST, Breach, Situation


def broken(constraint: Constraint, situation: Situation) -> Iterator[Breach]:
    """Whether one more is too many; a file that it changed before is none."""
    most = int(constraint.options["max"])
    fresh = tuple(dict.fromkeys(path for path in situation.named if path not in situation.changed))
    number = len(set(situation.changed)) + len(fresh)
    if number > most and (fresh or situation.final):
        said = f"{number} changed files"
        if situation.changed:
            said += f" (so far {', '.join(sorted(situation.changed)[:NAMED_MOST])})"
        yield Breach(said, f"at most {most}", fresh[0] if fresh else None, weight=number)

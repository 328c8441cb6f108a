"""`max_files`: the intent changes at most `max` files in total."""

from collections.abc import Iterator

from remit.core.intent import Constraint
from remit.policy.checks.constraints.breach import MAX_NAMED, Breach, ProposedChange


def find_breaches(constraint: Constraint, change: ProposedChange) -> Iterator[Breach]:
    """Yield a breach if the change exceeds the maximum; files changed before do not count again."""
    most = int(constraint.options["max"])
    fresh = tuple(dict.fromkeys(path for path in change.written_paths if path not in change.changed_before))
    number = len(set(change.changed_before)) + len(fresh)
    if number > most and (fresh or change.is_final):
        said = f"{number} changed files"
        if change.changed_before:
            said += f" (so far {', '.join(sorted(change.changed_before)[:MAX_NAMED])})"
        yield Breach(said, f"at most {most}", fresh[0] if fresh else None, weight=number)

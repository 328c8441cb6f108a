"""`max_files`: the intent changes at most `max` files in total."""

from collections.abc import Iterator

from remit.core.intent import Constraint
from remit.policy.checks.constraints.breach import MAX_NAMED, Breach, ProposedChange


def find_breaches(constraint: Constraint, change: ProposedChange) -> Iterator[Breach]:
    """Yield a breach if the change exceeds the maximum; files changed before do not count again."""
    maximum = int(constraint.options["max"])
    new_files = tuple(dict.fromkeys(path for path in change.written_paths if path not in change.changed_before))
    number = len(set(change.changed_before)) + len(new_files)
    if number > maximum and (new_files or change.is_final):
        measured = f"{number} changed files"
        if change.changed_before:
            measured += f" (so far {', '.join(sorted(change.changed_before)[:MAX_NAMED])})"
        yield Breach(measured, f"at most {maximum}", new_files[0] if new_files else None, weight=number)

"""Who wrote what a version added: a pure function of contents and of the recorded mutations of that path.

git says which version of a file first had a line. Here that version is rebuilt from the versions that were
recorded on the way to it, and each line keeps the label of the step that added it. Commit ids play no part.
"""

from collections.abc import Callable, Mapping, Sequence

from msgspec import Struct

from remit.core.contents import Hunk


class Step(Struct, frozen=True):
    """One step from a content to the next, by git names. `record` is None where nobody recorded it."""

    before: str | None
    after: str
    record: str | None


class Recorded(Struct, frozen=True):
    """One recorded mutation of a path. `seq` orders them."""

    seq: int
    record: str
    before: str | None
    after: str


def path_to(version: str, parent: str | None, recorded: Sequence[Recorded]) -> tuple[Step, ...]:
    """The steps from the parent's content to the version's, oldest first; empty where no record leads there.

    A version that is no recorded `after` may end a chain that began at the parent: somebody went on editing.
    """
    exact = back_from(version, parent, recorded)
    if exact:
        return exact
    for last in reversed(recorded):
        chain = back_from(last.after, parent, [r for r in recorded if r.seq <= last.seq])
        if chain and chain[0].before == parent:
            return (*chain, Step(last.after, version, None))
    return ()


def back_from(version: str, parent: str | None, recorded: Sequence[Recorded]) -> tuple[Step, ...]:
    """The chain that ends in `version`, followed backwards while records tell how it came about."""
    steps: list[Step] = []
    wanted: str | None = version
    bound = len(recorded)
    while wanted is not None and (wanted != parent or not steps):
        at = next((i for i in range(bound - 1, -1, -1) if recorded[i].after == wanted), None)
        if at is None:
            earlier = recorded[bound - 1] if steps and bound and wanted != parent else None
            if earlier is None:
                break
            steps.append(Step(earlier.after, wanted, None))
            wanted = earlier.after
            continue
        steps.append(Step(recorded[at].before, wanted, recorded[at].record))
        wanted, bound = recorded[at].before, at
    return tuple(reversed(steps))


Hunks = Callable[[str | None, str], Sequence[Hunk]]


def label(steps: Sequence[Step], lines: Mapping[str | None, int], hunks: Hunks) -> list[str | None]:
    """The record that added each line of the last step's content; None where none did.

    `lines` counts the lines of each content; `hunks(before, after)` is git's diff of two of them.
    """
    if not steps:
        return []
    labels: list[str | None] = [None] * lines.get(steps[0].before, 0)
    for step in steps:
        labels = carried(labels, hunks(step.before, step.after), step.record)
    return labels


def carried(labels: Sequence[str | None], hunks: Sequence[Hunk], record: str | None) -> list[str | None]:
    """The labels after one step: what git's diff keeps, keeps its label; what it adds gets the step's."""
    out: list[str | None] = []
    at = 0
    for hunk in hunks:
        start = hunk.old - 1 if hunk.old_lines else hunk.old
        out += labels[at:start]
        out += [record] * hunk.new_lines
        at = start + hunk.old_lines
    return [*out, *labels[at:]]

"""A plan as text: its findings with the next step, and its tasks in order."""

from collections import Counter
from collections.abc import Iterator

from remit.core.plurals import count_things
from remit.core.untrusted_input import sanitise_line
from remit_fleet.planning.plan import Plan

MAX_SHOWN_OF_CODE = 10


def describe_plan(made: Plan) -> Iterator[str]:
    proved = f"{count_things(made.pairs_apart, 'pair')} proved apart, {len(made.shared)} not"
    yield f"{count_things(len(made.tasks), 'task')}, {proved}"
    seen = Counter[str]()
    for finding in made.findings:
        seen[finding.code] += 1
        if seen[finding.code] <= MAX_SHOWN_OF_CODE:
            yield f"{finding.severity}: {finding.code}: {sanitise_line(finding.message, 1000)}"
            if finding.fix:
                yield f"    {sanitise_line(finding.fix, 1000)}"
    for code, count in seen.items():
        if count > MAX_SHOWN_OF_CODE:
            yield f"and {count - MAX_SHOWN_OF_CODE} more of {code}; --json has all"
    for task in made.tasks:
        notes = [f"after {', '.join(task.needs)}"] if task.needs else []
        notes += [f"never beside {', '.join(task.shares)}"] if task.shares else []
        yield "  ".join((task.intent_id, sanitise_line(task.title), *(f"({note})" for note in notes)))
    if not made.tasks:
        yield "no open intents; make one with `remit intent new NAME --scope GLOB`"
    elif made.obstacles:
        yield f"{len(made.obstacles)} to mend before this can start"
    elif made.errors:
        yield "as they are, `remit plan start` never runs such tasks at once, but one after the other"

"""A plan as text: its findings with the next step, and its tasks in order."""

from collections.abc import Iterator

from remit.cli.plan.suggest import count_things
from remit.core.untrusted_input import sanitise_line
from remit.orchestrator.planning.plan import Plan


def describe_plan(made: Plan) -> Iterator[str]:
    errors = len(made.errors)
    proved = f"{count_things(made.pairs_apart, 'pair')} proved apart, {len(made.shared)} not"
    yield f"{count_things(len(made.tasks), 'task')}, {proved}"
    for finding in made.findings:
        yield f"{finding.severity}: {finding.code}: {sanitise_line(finding.message, 1000)}"
        if finding.fix:
            yield f"    {sanitise_line(finding.fix, 1000)}"
    for task in made.tasks:
        notes = [f"after {', '.join(task.needs)}"] if task.needs else []
        notes += [f"never beside {', '.join(task.shares)}"] if task.shares else []
        yield "  ".join((task.intent_id, sanitise_line(task.title), *(f"({note})" for note in notes)))
    if not made.tasks:
        yield "no open intents; make one with `remit intent new NAME --scope GLOB`"
    elif errors:
        yield f"{errors} to mend before this can start"

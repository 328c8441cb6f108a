"""`remit plan suggest`: cut work into parts without shared files."""

from collections.abc import Iterator, Sequence
from pathlib import Path

import click

from remit.cli.completion import INTENT
from remit.cli.output import REFUSED, Failure, command_options, emit, governed_gate
from remit.cli.person_only import PERSON, require_person
from remit.core.acts import Act
from remit.core.config import OrchestratorSettings
from remit.core.intent import Intent
from remit.core.plurals import count_things
from remit.core.untrusted_input import sanitise_line
from remit.gate.gate import Gate
from remit.workspace.place.resolve_paths import folds_case
from remit.workspace.safe_files import read_regular_file
from remit_fleet.planning.plan import TrackedFiles
from remit_fleet.planning.suggest.candidates import find_candidates
from remit_fleet.planning.suggest.coupling import RepositoryHistory, measure_coupling
from remit_fleet.planning.suggest.parts import MAX_PARTS, SuggestedPart, Suggestion, suggest_parts
from remit_fleet.planning.write_sets import WriteSet
from remit_fleet.repository import (
    MAX_IMPORTING_FILES,
    list_tracked_files,
    order_by_changes,
    read_history,
    read_imports,
)

MAX_BRIEF_BYTES = 256 * 1024
MAX_SHOWN_PATTERNS = 12
MAX_SHOWN_COMMONS = 5


@click.command("suggest")
@click.argument("intent_ids", nargs=-1, metavar="[ID]...", type=INTENT)
@click.option(
    "--brief",
    type=click.Path(path_type=Path, exists=True, dir_okay=False),
    metavar="FILE",
    help="Cut the files that this text is about: those it names, and those that intents in like words changed.",
)
@click.option("--parts", type=click.IntRange(1, MAX_PARTS), help="How many; one a worker by default.")
@click.option("--write", is_flag=True, help="Make DRAFT intents of the parts; with several IDs, write their scopes.")
@command_options
def suggest(
    intent_ids: tuple[str, ...], brief: Path | None, parts: int | None, write: bool, repo: Path, as_json: bool
) -> None:
    """Propose parts without shared files, of similar size, cut at the weakest coupling.

    With several intents, a file owned by more than one intent goes to the intent with the strongest coupling. With one
    intent, its files are cut; without intents and --brief, the whole repository is cut. The report shows how well
    similar parts held in the past, and the parts that are better run one after the other. No intent is written without
    --write.
    """
    require_person(Act.READ_PLANS)
    if len(intent_ids) > 1 and (brief or parts):
        message = "several intents get a part each: --brief and --parts are for one intent, or none"
        raise Failure("USAGE", message, fix=f"remit plan suggest {' '.join(intent_ids)}")
    gate = governed_gate(repo)
    intents = [gate.intents.get(name) for name in dict.fromkeys(intent_ids)]
    settings = gate.rules.config.orchestrator
    made = propose_parts(gate, intents, read_brief(brief), parts or settings.workers, settings)
    if write:
        require_person(Act.MAKE_INTENT)
        write_parts(gate, made, intents)
    emit(made, as_json, "\n".join(describe_suggestion(made)))


def read_brief(brief: Path | None) -> str:
    return read_regular_file(brief, MAX_BRIEF_BYTES).decode("utf-8", "replace") if brief is not None else ""


def propose_parts(
    gate: Gate, intents: Sequence[Intent], brief: str, count: int, settings: OrchestratorSettings
) -> Suggestion:
    files = list_tracked_files(gate.workspace)
    history = read_history(gate)
    tracked = TrackedFiles(files, fold=folds_case(gate.workspace.root))
    sets = [WriteSet(intent.id, intent.owned_scope) for intent in intents]
    wanted: dict[str, Sequence[str]] = {own.intent_id: [*tracked.list_owned(own)] for own in sets}
    if not intents:
        wanted = {"": find_brief_files(gate, brief, files, history, settings) if brief else files}
    elif brief:
        (name,) = wanted
        about = find_brief_files(gate, brief, files, history, settings)
        wanted[name] = sorted({*wanted[name], *about})
    candidates = sorted({path for paths in wanted.values() for path in paths})
    if not candidates:
        what = "the brief names no tracked file" if brief else "no tracked file is in scope"
        fix = (
            "name paths or folders in it"
            if brief
            else "`git add` the files first, or look at the scope: remit intent list"
        )
        raise Failure("NOTHING_TO_CUT", f"{what}, so there is nothing to cut", fix=fix)
    importing = order_by_changes(candidates, history.commits)[:MAX_IMPORTING_FILES]
    imports = read_imports(gate.workspace.root, importing, files)
    return suggest_parts(wanted, count, files, history, imports, settings.weights)


def find_brief_files(
    gate: Gate, brief: str, files: Sequence[str], history: RepositoryHistory, settings: OrchestratorSettings
) -> list[str]:
    titles = {intent.id: f"{intent.name} {intent.description}" for intent in gate.intents.document.intents}
    strengths = measure_coupling(files, history, {}, settings.weights)
    return find_candidates(brief, files, history, titles, strengths)


def write_parts(gate: Gate, made: Suggestion, intents: Sequence[Intent]) -> None:
    if not made.is_apart:
        message = "the parts are not proved apart, and nothing was written"
        raise Failure("UNPROVED", message, fix="cut fewer files: name intents, or a brief", exit_code=REFUSED)
    begun = [intent.id for intent in intents if intent.status != "DRAFT"]
    if len(intents) > 1 and begun:
        message = f"{', '.join(begun)} are no longer DRAFT, and their scopes are in force"
        raise Failure(
            "IN_FORCE", message, fix="write them yourself: remit intent edit ID --scope GLOB", exit_code=REFUSED
        )
    for number, part in enumerate(made.parts, 1):
        if part.intent is not None:
            gate.intents.edit(part.intent, {"owned_scope": part.paths}, by=PERSON)
            continue
        parent = intents[0] if intents else None
        title = f"{parent.title}: " if parent else ""
        name = f"{title}part {number} of {len(made.parts)} ({part.paths[0]})"[:200]
        draft = Intent("", part.paths, name=name, parent_intent=parent.id if parent else None)
        gate.intents.create(draft, by=PERSON)


def describe_suggestion(made: Suggestion) -> Iterator[str]:
    files = sum(part.files for part in made.parts)
    proof = "each pair proved apart" if made.is_apart else "NOT proved apart"
    yield f"{count_things(len(made.parts), 'part')} of {count_things(files, 'file')}, {proof}; {made.commits} commits"
    for number, part in enumerate(made.parts, 1):
        yield f"{number}  {f'{part.intent}, ' if part.intent else ''}{count_things(part.files, 'file')}"
        yield from (f"     {sanitise_line(pattern)}" for pattern in part.paths[:MAX_SHOWN_PATTERNS])
        if len(part.paths) > MAX_SHOWN_PATTERNS:
            yield f"     and {len(part.paths) - MAX_SHOWN_PATTERNS} more; --json has all"
    yield from describe_straddles(made.parts)
    if made.held is not None and made.random is not None:
        yield f"of {made.held_out} later commits, {made.held:.0%} stay inside one part that was cut from earlier ones"
        yield f"    random parts of the same sizes: {made.random:.0%}"
    else:
        yield "too few commits to tell how well such parts hold"
    for path, share in list(made.commons.items())[:MAX_SHOWN_COMMONS]:
        yield f"left out: {sanitise_line(path)}, which {share:.0%} of the commits change; see [orchestrator] commons"


def describe_straddles(parts: Sequence[SuggestedPart]) -> Iterator[str]:
    for number, part in enumerate(parts):
        for other in part.conflicts:
            if other.part > number:
                advice = ": run them one after the other" if other.in_sequence else ""
                count = count_things(other.commits, "recent commit")
                examples = ", ".join(other.examples)
                yield f"{number + 1} and {other.part + 1}: {count} changed both ({other.share:.0%}), {examples}{advice}"

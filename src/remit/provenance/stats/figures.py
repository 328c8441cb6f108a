"""Figures of `remit stats`: authorship of the lines at HEAD, and counts from the ledger."""

from collections import Counter
from collections.abc import Iterable, Sequence

from msgspec import Struct

from remit.ledger.index.index import Filters
from remit.provenance.blame.blame import Blamer
from remit.provenance.origins.evidence import LIKELY
from remit.provenance.stats.line_survival import LineLife, find_line_lives
from remit.provenance.stats.record_counts import (
    ApprovalFigures,
    GroupedFigures,
    GroupFigures,
    RecordCounts,
    ToolFigures,
    count_records,
)
from remit.workspace.git.command import Git, GitError

EMPTY_TREES = {
    40: "4b825dc642cb6eb9a060e54bf8d69288fbee4904",
    64: "6ef19b41225c5369f1c104d45d8d85efa9b057b53b14b4b9b939dd74decc5321",
}
"""The empty tree, known to every git, by the length of object names: SHA-1 or SHA-256."""

DURABILITY_DAYS = (7, 30, 90)
DAY_S = 86400.0


class FileFigures(Struct, frozen=True):
    """Lines of one file at HEAD by origin.

    `open` lines came while a command ran that may have written them, without proof; `likely` ones while one command ran
    alone and no other writer was seen.
    """

    path: str
    lines: int
    ai: int
    human: int = 0
    mixed: int = 0
    open: int = 0
    likely: int = 0
    by_agent: dict[str, int] = {}
    by_model: dict[str, int] = {}
    by_intent: dict[str, int] = {}


class Durability(Struct, frozen=True):
    """Of the recorded lines whose commit is at least `days` old, the number that stood so long."""

    days: int
    lines: int
    alive: int


class Figures(Struct, frozen=True):
    """Lines at HEAD by origin, fate of the agents' lines, and counts of the ledger.

    `files` have lines of agents, most first. `unknown` are the lines at HEAD outside `ai`, `human`, `mixed` and
    `likely`; `open` ones came while a command ran, without proof. `generated` excludes unproved lines, which `unproved`
    counts. `accepted` lines reached a commit on HEAD's first-parent history; of those `overridden` were replaced by
    lines of no known agent, `rewritten` by an agent, `deleted` removed. `by_agent` and `by_intent` count lines at HEAD.
    """

    lines: int
    ai: int
    human: int
    mixed: int
    unknown: int
    open: int
    likely: int
    files: tuple[FileFigures, ...]
    by_agent: dict[str, int]
    by_model: dict[str, int]
    by_intent: dict[str, int]
    generated: int
    unproved: int
    accepted: int
    overridden: int
    rewritten: int
    deleted: int
    durability: tuple[Durability, ...]
    groups: GroupedFigures
    tools: dict[str, ToolFigures]
    mean_ms: float | None
    approvals: ApprovalFigures
    records: int
    by_event: dict[str, int]
    by_verdict: dict[str, int]
    by_violation: dict[str, int]


def measure_figures(
    blamer: Blamer, within: Sequence[str], by: Filters, now: float, *, model: str | None = None
) -> Figures:
    """Return all figures; lines only of the files `within` (git pathspecs), by default all files. Raises GitError.

    `by` and `model` select the agents' changes; `now` is the time in seconds.
    """
    sizes = count_lines(blamer.git, within)
    counts = count_records(blamer.index, by, model)
    files = [measure_file(blamer, path, counts) for path in sorted(counts.paths & sizes.keys())]
    lives = [life for life in find_line_lives(blamer.git, blamer.attributor, within) if life.record in counts.origin]
    add_line_counts(counts, lives, files)
    files_by_agents = sorted((file for file in files if file.ai), key=lambda file: (-file.ai, file.path))
    return Figures(
        lines=sum(sizes.values()),
        ai=sum(file.ai for file in files_by_agents),
        human=sum(file.human for file in files),
        mixed=sum(file.mixed for file in files),
        unknown=sum(sizes.values()) - sum(file.ai + file.human + file.mixed + file.likely for file in files),
        open=sum(file.open for file in files),
        likely=sum(file.likely for file in files),
        files=tuple(files_by_agents),
        by_agent=sum_counts(file.by_agent for file in files_by_agents),
        by_model=sum_counts(file.by_model for file in files_by_agents),
        by_intent=sum_counts(file.by_intent for file in files_by_agents),
        generated=counts.generated,
        unproved=counts.unproved,
        accepted=len(lives),
        overridden=sum(is_overridden(life, counts) for life in lives),
        rewritten=sum(bool(life.by) and not is_overridden(life, counts) for life in lives),
        deleted=sum(life.died is not None and life.by is None for life in lives),
        durability=tuple(count_durable_lines(lives, days, now) for days in DURABILITY_DAYS),
        groups=counts.groups,
        tools=dict(sorted(counts.tools.items(), key=lambda item: -item[1].calls)),
        mean_ms=counts.mean_ms,
        approvals=counts.answers,
        records=counts.records,
        by_event=dict(counts.events.most_common()),
        by_verdict=dict(counts.verdicts.most_common()),
        by_violation=dict(counts.violations.most_common()),
    )


def is_overridden(life: LineLife, counts: RecordCounts) -> bool:
    return life.by is not None and life.by not in counts.agents


def count_durable_lines(lives: Sequence[LineLife], days: int, now: float) -> Durability:
    old = [life for life in lives if life.born <= now - days * DAY_S]
    return Durability(days, len(old), sum(life.reached_age(days * DAY_S) for life in old))


def add_line_counts(counts: RecordCounts, lives: Sequence[LineLife], files: Sequence[FileFigures]) -> None:
    """Add the fate of lines to the figures of each agent, model and intent."""
    for life in lives:
        for group in counts.groups.groups_of(*counts.origin[life.record]):
            group.accepted += 1
            group.overridden += is_overridden(life, counts)
    for file in files:
        for names, groups in (
            (file.by_agent, counts.groups.agents),
            (file.by_model, counts.groups.models),
            (file.by_intent, counts.groups.intents),
        ):
            for name, count in names.items():
                groups.setdefault(name, GroupFigures()).at_head += count


def count_lines(git: Git, within: Sequence[str]) -> dict[str, int]:
    """Return the lines of each text file at HEAD; empty before the first commit. Raises GitError."""
    head = git.read_head()
    if head is None:
        return {}
    ends = (EMPTY_TREES[len(head)], head)
    output = git.run("diff", "--numstat", "--no-renames", "--no-textconv", "--relative", "-z", *ends, "--", *within)
    rows = (row.split("\t", 2) for row in output.decode("utf-8", "surrogateescape").split("\0") if row)
    return {path: int(added) for added, _, path in rows if added.isdigit()}


def measure_file(blamer: Blamer, path: str, counts: RecordCounts) -> FileFigures:
    """Return the lines of one file at HEAD by origin; zeros if git cannot blame the file."""
    try:
        blamed = blamer.blame(path, ["HEAD"])
    except GitError:
        return FileFigures(path, 0, 0)
    by_agents = [line for line in blamed if line.origin == "ai" and line.record in counts.origin]
    certain = [line for line in by_agents if line.grade != LIKELY]
    origins = Counter(line.origin for line in blamed)
    return FileFigures(
        path,
        len(blamed),
        len(certain),
        origins["human"],
        origins["mixed"],
        sum(bool(line.candidates) for line in blamed),
        len(by_agents) - len(certain),
        dict(Counter(line.agent or "none" for line in certain)),
        dict(Counter(line.model or "none" for line in certain)),
        dict(Counter(line.intent_id or "none" for line in certain)),
    )


def sum_counts(parts: Iterable[dict[str, int]]) -> dict[str, int]:
    total = Counter[str]()
    for part in parts:
        total.update(part)
    return dict(total.most_common())

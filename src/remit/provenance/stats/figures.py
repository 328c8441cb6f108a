"""Figures: how much of the code at HEAD is whose, and what the ledger counts."""

from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct

from remit.core.record import KEY
from remit.ledger.index.index import Filters
from remit.ledger.machine_logs import list_readable_places
from remit.ledger.reader import read_lines
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
"""The tree without files, which every git knows, by the digits of the repository's names: SHA-1 or SHA-256."""

DURABILITY_DAYS = (7, 30, 90)
DAY_S = 86400.0


class FileFigures(Struct, frozen=True):
    """One file at HEAD: its lines, and how many of them an agent, a person or both are known to have written.

    `open` lines came while a command ran that may have written them, and nothing proves it; `likely` ones while one ran
    alone, and nothing else can be seen to have written them.
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
    """Of the recorded lines whose commit is at least so many days old, how many stood that long."""

    days: int
    lines: int
    alive: int


class Figures(Struct, frozen=True):
    """Lines at HEAD by origin, what became of what agents wrote, and what the ledger counts.

    `files` are those with a line of an agent, most first. Of the lines at HEAD what is neither `ai`, `human`,
    `mixed` nor `likely` an agent's is `unknown`: nobody saw it written, or (`open`) a command ran that may have, and
    nothing proves it. Such lines, and the likely ones, are no part of `generated`; all that ever came so are
    `unproved`. `accepted` lines reached a commit on HEAD's way; of those, `overridden` ones were replaced by what no
    agent is known to have written, `rewritten` ones by an agent, and `deleted` ones by nothing. `by_agent` and
    `by_intent` count lines at HEAD.
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
    """All figures; lines only of the files `within` (git's pathspecs), all of them by default. Raises GitError.

    `by` and `model` say which of the agents' changes count; `now` is the time in seconds.
    """
    sizes = count_lines(blamer.git, within)
    counts = count_records(blamer.index, by, model)
    shares = [measure_file(blamer, path, counts) for path in sorted(counts.paths & sizes.keys())]
    stood = [life for life in find_line_lives(blamer.git, blamer.attributor, within) if life.record in counts.origin]
    add_line_counts(counts, stood, shares)
    known = sorted((s for s in shares if s.ai), key=lambda s: (-s.ai, s.path))
    return Figures(
        lines=sum(sizes.values()),
        ai=sum(s.ai for s in known),
        human=sum(s.human for s in shares),
        mixed=sum(s.mixed for s in shares),
        unknown=sum(sizes.values()) - sum(s.ai + s.human + s.mixed + s.likely for s in shares),
        open=sum(s.open for s in shares),
        likely=sum(s.likely for s in shares),
        files=tuple(known),
        by_agent=sum_counts(s.by_agent for s in known),
        by_model=sum_counts(s.by_model for s in known),
        by_intent=sum_counts(s.by_intent for s in known),
        generated=counts.generated,
        unproved=counts.unproved,
        accepted=len(stood),
        overridden=sum(is_overridden(life, counts) for life in stood),
        rewritten=sum(bool(life.by) and not is_overridden(life, counts) for life in stood),
        deleted=sum(life.died is not None and life.by is None for life in stood),
        durability=tuple(count_durable_lines(stood, days, now) for days in DURABILITY_DAYS),
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
    """Whether something took a line's place that no agent is known to have written."""
    return life.by is not None and life.by not in counts.agents


def count_durable_lines(stood: Sequence[LineLife], days: int, now: float) -> Durability:
    """How many of the lines that are old enough stood so many days."""
    old = [life for life in stood if life.born <= now - days * DAY_S]
    return Durability(days, len(old), sum(life.reached_age(days * DAY_S) for life in old))


def add_line_counts(counts: RecordCounts, stood: Sequence[LineLife], shares: Sequence[FileFigures]) -> None:
    """Count what became of lines for each agent, model and intent."""
    for life in stood:
        for group in counts.groups.groups_of(*counts.origin[life.record]):
            group.accepted += 1
            group.overridden += is_overridden(life, counts)
    for one in shares:
        for names, groups in (
            (one.by_agent, counts.groups.agents),
            (one.by_model, counts.groups.models),
            (one.by_intent, counts.groups.intents),
        ):
            for name, count in names.items():
                groups.setdefault(name, GroupFigures()).at_head += count


def count_lines(git: Git, within: Sequence[str]) -> dict[str, int]:
    """The lines of each text file at HEAD. Empty before the first commit. Raises GitError."""
    head = git.read_head()
    if head is None:
        return {}
    ends = (EMPTY_TREES[len(head)], head)
    out = git.run("diff", "--numstat", "--no-renames", "--no-textconv", "--relative", "-z", *ends, "--", *within)
    rows = (row.split("\t", 2) for row in out.decode("utf-8", "surrogateescape").split("\0") if row)
    return {path: int(added) for added, _, path in rows if added.isdigit()}


def measure_file(blamer: Blamer, path: str, counts: RecordCounts) -> FileFigures:
    """How much of one file at HEAD is whose; nothing is known where git cannot blame it."""
    try:
        blamed = blamer.blame(path, ["HEAD"])
    except GitError:
        return FileFigures(path, 0, 0)
    by_agents = [line for line in blamed if line.origin == "ai" and line.record in counts.origin]
    known = [line for line in by_agents if line.grade != LIKELY]
    origins = Counter(line.origin for line in blamed)
    return FileFigures(
        path,
        len(blamed),
        len(known),
        origins["human"],
        origins["mixed"],
        sum(bool(line.candidates) for line in blamed),
        len(by_agents) - len(known),
        dict(Counter(line.agent or "none" for line in known)),
        dict(Counter(line.model or "none" for line in known)),
        dict(Counter(line.intent_id or "none" for line in known)),
    )


def decode_body(raw: bytes) -> dict[str, Any]:
    """Remit's part of a line; empty where it is no record, which is `verify`'s to report."""
    try:
        return msgspec.json.decode(raw, type=dict[str, Any])["metadata"][KEY]
    except (msgspec.DecodeError, UnicodeDecodeError, KeyError, TypeError):
        return {}


def sum_counts(parts: Iterable[dict[str, int]]) -> dict[str, int]:
    """The sum of counts, the most first."""
    total = Counter[str]()
    for part in parts:
        total.update(part)
    return dict(total.most_common())


class RefusableCalls(Struct, frozen=True):
    """What enforce would have said of the calls that were let through in `observe` and `warn`.

    `by_rule` counts each rule that objected; `examples` are the newest calls, a few of each verdict and rule.
    """

    calls: int
    refused: int
    asked: int
    by_rule: dict[str, int]
    sessions: dict[str, int]
    examples: tuple[str, ...]
    loose: tuple[tuple[str, ...], ...] = ()
    """The paths of each call to which only the want of an intent, or its scope, was objected."""


def find_refusable_calls(log: Path, max_examples: int = 5) -> RefusableCalls:
    """What `mode suggest` tells of the logs in the folder `log`."""
    found = (line for place in list_readable_places(log) for line in read_lines(log / place))
    bodies = [body for line in found if (body := decode_body(line.raw)).get("event") == "tool_use"]
    passed = [b for b in bodies if b.get("decision", {}).get("mode") in ("observe", "warn")]
    strict = [b for b in passed if b["decision"].get("verdict") in ("deny", "ask")]
    return RefusableCalls(
        calls=len(passed),
        refused=sum(b["decision"]["verdict"] == "deny" for b in strict),
        asked=sum(b["decision"]["verdict"] == "ask" for b in strict),
        by_rule=dict(Counter(str(rule) for b in strict for rule in b["decision"].get("rules", [])).most_common()),
        sessions=dict(Counter(str(b.get("session_id")) for b in strict).most_common(5)),
        examples=tuple(map(describe_call, reversed(strict[-max_examples:]))),
        loose=tuple(paths for b in strict if (paths := paths_lacking_intent(b))),
    )


def paths_lacking_intent(body: dict[str, Any]) -> tuple[str, ...]:
    """The paths of a call that an intent of the right scope would let pass; none for any other."""
    rules = set(map(str, body["decision"].get("rules", [])))
    return tuple(map(str, body.get("call", {}).get("paths", []))) if rules <= {"active_intent", "scope"} else ()


def describe_call(body: dict[str, Any]) -> str:
    """One call in words."""
    call: dict[str, Any] = body.get("call", {})
    target = call.get("command") or " ".join(call.get("paths", []))
    return f"{', '.join(body['decision'].get('rules', []))}: {call.get('name')} {target}"[:160]


def propose_scope(paths: Sequence[str]) -> tuple[str, ...]:
    """Patterns that own these files: a folder where several of them lie in it, else the file itself."""
    folders = Counter(path.rpartition("/")[0] for path in paths)
    wide = {folder for folder, number in folders.items() if folder and number > 1}
    top = {f for f in wide if not any(f.startswith(f"{other}/") for other in wide)}
    alone = [p for p in paths if not any(p.startswith(f"{folder}/") for folder in top)]
    return (*(f"{escape_pattern(folder)}/**" for folder in sorted(top)), *map(escape_pattern, alone))


def escape_pattern(path: str) -> str:
    """A pattern that is exactly this path."""
    return "".join(f"\\{c}" if c in "\\*?[]{},!" else c for c in path)

"""What came of a re-enacted history: lines, reasons, grades, times."""

import tempfile
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from statistics import quantiles
from typing import Any

from remit.provenance.blame.blamed_line import body_of

from .reenact import Enacted, Mode
from .reenact_truth import Asked, Reason, Reasons, Timed, ask
from .replay import named
from .scenario import CLASSES

SAFE_CLASSES = ("exact", "carried")
"""The classes of grades that promise no false claim."""

MAX_SHOWN = 12


@dataclass
class Report:
    """The figures of one repository."""

    name: str
    mode: Mode
    commits: int
    merges: int
    by_agents: int
    divided: int
    """Changes of a file that an agent and a person made together."""
    refused: int
    calls: int
    unrecorded: Counter[str]
    seconds: float
    hooks: dict[str, list[float]]
    times: list[Timed]
    agent_lines: Counter[str] = field(default_factory=Counter[str])
    blank_unknown: int = 0
    person_lines: Counter[str] = field(default_factory=Counter[str])
    old_lines: Counter[str] = field(default_factory=Counter[str])
    shared_lines: int = 0
    reasons: Counter[Reason] = field(default_factory=Counter[Reason])
    old_reasons: Counter[Reason] = field(default_factory=Counter[Reason])
    grades: dict[str, Counter[str]] = field(default_factory=dict[str, Counter[str]])
    """By class of grades, how many of the lines called an agent's were what."""
    not_right: list[str] = field(default_factory=list[str])
    false: list[str] = field(default_factory=list[str])
    """What was called an agent's and is a person's or older, where git shows no reason for it."""
    broken_promises: int = 0
    """Of those, the ones at a grade that promises none, and all agents' lines that are called a person's."""

    def count(self, line: Asked, reasons: Reasons) -> None:
        verdict = line.verdict
        kind: dict[str, Counter[str]] = {"ai": self.agent_lines, "person": self.person_lines, "before": self.old_lines}
        if verdict == "shared":
            self.shared_lines += 1
            return
        kind[line.who.kind][verdict] += 1
        reason: Reason | None = None
        if verdict in ("false AI", "old AI"):
            reason = reasons.reason(line)
            (self.reasons if verdict == "false AI" else self.old_reasons)[reason] += 1
        if line.claim.origin == "ai":
            what = f"{verdict}, {reason}" if reason else verdict
            self.grades.setdefault(CLASSES.get(line.claim.grade or "", "-"), Counter())[what] += 1
        if line.who.kind == "ai" and verdict != "right":
            self.blank_unknown += verdict == "unknown" and not line.text.strip()
            self.broken_promises += verdict == "false human"
            self.not_right.append(f"{verdict}: {told(line)}")
        if reason == "unexplained":
            self.broken_promises += CLASSES.get(line.claim.grade or "") in SAFE_CLASSES
            self.false.append(f"{verdict}: {told(line)}")


def told(line: Asked) -> str:
    who = f"{line.who.kind} {line.who.session or ''}"
    said = f"{line.claim.origin} {line.claim.session or ''} ({line.claim.grade})"
    place = f"{line.path}:{line.number}"
    return f"{place} {line.text[:70]!r} by {who} in {line.version.commit[:10]}:{line.at}, called {said}"


def reenact(repository: Path, commits: int, seed: int, mode: Mode) -> Report:
    """Enact a history in a folder that goes with it, and ask about every line."""
    with tempfile.TemporaryDirectory(prefix="provbench-") as folder:
        return reenacted(repository, Path(folder).resolve(), commits, seed, mode)


def reenacted(repository: Path, folder: Path, commits: int, seed: int, mode: Mode) -> Report:
    """The same in a folder that stays."""
    began = time.perf_counter()
    enacted = Enacted(repository, folder, commits, seed, mode)
    enacted.run()
    seconds = time.perf_counter() - began
    lines, times = ask(enacted)
    found = Report(
        name=named(repository),
        mode=mode,
        commits=len(enacted.names),
        merges=enacted.merges,
        by_agents=len({commit for (commit, _), work in enacted.works.items() if work.who.kind == "ai"}),
        divided=sum(bool(work.left) for work in enacted.works.values()),
        refused=enacted.refused,
        calls=len(enacted.hands.calls),
        unrecorded=unrecorded(enacted),
        seconds=seconds,
        hooks=enacted.tool.hook_times,
        times=times,
    )
    reasons = Reasons(enacted, lines)
    for line in lines:
        found.count(line, reasons)
    return found


def unrecorded(enacted: Enacted) -> Counter[str]:
    """The calls that ran and left no record, by agent and tool."""
    with enacted.tool.blamer(enacted.world.root) as blamer:
        records = list(blamer.index.iterate_records())
    known = {call_id(record) for record in records}
    return Counter(tool for call, tool in enacted.hands.calls.items() if call not in known)


def call_id(record: dict[str, Any]) -> str | None:
    call: dict[str, str] = body_of(record).get("call") or {}
    return call.get("id")


def percent(part: int, whole: int) -> str:
    return f"{100 * part / whole:.2f} %" if whole else "-"


def at(values: Sequence[float], share: int) -> float:
    """The value below which that many of a hundred lie."""
    return quantiles(values, n=100, method="inclusive")[share - 1] if len(values) > 1 else sum(values)


def milliseconds(values: Sequence[float]) -> str:
    return " / ".join(f"{1000 * value:.1f}" for value in (at(values, 50), at(values, 95), max(values, default=0)))


def lines_of(report: Report) -> list[str]:
    """The report for people, a line a measure."""
    r = report
    agents, persons, old = r.agent_lines, r.person_lines, r.old_lines
    slow = sorted(r.times, key=lambda timed: -timed.tool_s)[:3]
    speeds = [f"{t.path}: {t.lines} lines, {1000 * t.tool_s:.0f} ms, git {1000 * t.git_s:.0f} ms" for t in slow]
    wrong, false = agents["wrong agent"], persons["false AI"]
    found = [
        f"reenact {r.name}, {r.mode}: {r.commits} commits, {r.merges} of them merges, {r.by_agents} by agents, "
        f"{r.divided} changes of a file by an agent and a person together",
        f"  agent lines {agents.total()}: right session and intent {agents['right']} "
        f"({percent(agents['right'], agents.total())}), unknown {agents['unknown']} (blank {r.blank_unknown}), "
        f"wrong agent {wrong}, false human {agents['false human']}; not counted, since a call was refused: "
        f"{r.shared_lines}",
        f"  person lines {persons.total()}: human {persons['human']}, unknown {persons['unknown']}, false AI {false} "
        f"({', '.join(f'{reason} {count}' for reason, count in r.reasons.most_common()) or 'none'})",
        f"  older lines {old.total()}: called AI {old['old AI']} "
        f"({', '.join(f'{reason} {count}' for reason, count in r.old_reasons.most_common()) or 'none'})",
    ]
    for grade, counts in sorted(r.grades.items()):
        right, all_of = counts["right"], counts.total()
        unexplained = sum(count for what, count in counts.items() if what.endswith("unexplained"))
        found.append(
            f"  grade {grade}: {all_of} lines called an agent's, precision {percent(right, all_of)} strictly and "
            f"{percent(all_of - unexplained - counts['wrong agent'], all_of)} where git shows a reason, "
            f"recall {percent(right, agents.total())}"
        )
    ratios = [t.tool_s / t.git_s for t in r.times]
    found += [
        f"  blame a file p50 / p95 / max: {milliseconds([t.tool_s for t in r.times])} ms, git blame "
        f"{milliseconds([t.git_s for t in r.times])} ms, ratio {at(ratios, 50):.1f} / {at(ratios, 95):.1f}",
        *(f"    slowest {speed}" for speed in speeds),
        f"  calls {r.calls}, refused {r.refused}, without a record {r.unrecorded.total()} {dict(r.unrecorded) or ''}",
        *(f"  hook {name} p50 / p95 / max: {milliseconds(times)} ms" for name, times in r.hooks.items()),
        f"  enacted in {r.seconds:.0f} s, {1000 * r.seconds / max(1, r.commits):.0f} ms a commit",
        *(f"    {text}" for text in [*r.not_right[:MAX_SHOWN], *r.false[:MAX_SHOWN]]),
    ]
    return found


def as_document(report: Report) -> dict[str, Any]:
    """The report for programs, times in milliseconds."""
    times = [{"path": t.path, "lines": t.lines, "ms": 1000 * t.tool_s, "git_ms": 1000 * t.git_s} for t in report.times]
    hooks = {name: [1000 * at(times, 50), 1000 * at(times, 95)] for name, times in report.hooks.items()}
    return {**vars(report), "times": times, "hooks": hooks}

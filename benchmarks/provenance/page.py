"""The page of figures in the documentation, from the JSON of one or several runs.

python -m benchmarks.provenance --json --track rewrites > rewrites.json
python -m benchmarks.provenance.page rewrites.json … --write docs/explanation/how-attribution-is-measured.md
"""

import argparse
import json
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from remit.provenance.origins.evidence_grades import GRADES_BY_CLASS

from .remit_tool import RemitTool

Document = Mapping[str, Any]

TRACKS = {
    "constructed": "edits by agents and people at random",
    "rewrites": "rewrites of a branch in which both wrote",
    "traps": "cases in which a line looks like an agent's and is not",
    "shell": "lines that commands of agents write",
    "git-brought": "lines that git brings inside an agent's command",
}

HEAD = """\
# How attribution is measured

ProvBench (`benchmarks/provenance`) plays agents, people and git in throw-away repositories, with the real hooks and the
real git, and knows who wrote each line. It asks `remit blame` about every line and counts. This page is written by
`python -m benchmarks.provenance.page` from its figures.

*Precision*: of the lines that are called an agent's at a grade, those that this agent wrote under this intent.
*Recall*: of all lines that agents wrote, those called so at this grade; what is left is *unknown*. *exact* and
*carried* promise that no line of a person is called an agent's; *likely* promises nothing. What the grades mean:
[read the ledger](../how-to/read-the-ledger.md).
"""

COMPARED = """\
## Beside Git AI

Git AI publishes no rates of right and wrong lines. These are facts about its release 1.6.24 (source 55a1d728), which
was run in November 2026, beside Remit's figures for the same families of cases. The scenarios are not the same code, so
the columns are for orientation only. Git AI's run: 37 of 50 black-box scenarios passed where each git command waited
for its daemon, 35 at machine speed, and 11 lines were falsely called an agent's.

| case | Git AI 1.6.24 | Remit keeps, of the agents' lines |
| --- | --- | --- |
"""

LOST_BY_GIT_AI = (
    "rename before the commit",
    "move a block down",
    "move a block to another file",
    "copy a file",
    "indent",
    "filter-branch, messages",
    "rebase in a clone without the tool",
    "squash merge on a server",
    "commit by a git without the tool",
)
"""Scenarios of whose families Git AI 1.6.24 lost the agent's lines."""


def write_page(documents: Sequence[Document]) -> str:
    rows = [row for found in documents for row in found["scenarios"] if row["tool"] == RemitTool.name]
    seeds = sorted({str(found["seed"]) for found in documents})
    parts = [HEAD, f"Seeds: {', '.join(seeds)}.\n", "## Scenarios\n", *table_of_tracks(rows)]
    if reports := [report for found in documents for report in found["reenact"]]:
        parts += ["\n## Histories of public repositories, enacted again\n", *table_of_histories(reports)]
    if reworked := [report for found in documents for report in found.get("reworked", ())]:
        parts += ["\n## The same histories, rewritten\n", *table_of_rewrites(reworked)]
    parts += ["", COMPARED.rstrip(), *table_of_lost(rows)]
    return "\n".join(parts) + "\n"


def table_of_tracks(rows: Sequence[Document]) -> Iterator[str]:
    yield from head("track", "scenarios", "with a wrong line", "agents' lines", "grade", "lines", "wrong", *RATES)
    for track, what in TRACKS.items():
        own = [row for row in rows if row["track"] == track and not row["broken"]]
        evidence = Counter[str]()
        for row in own:
            evidence.update(row["evidence"])
        agents, wrong = sum(row["ai"] for row in own), sum(bool(row["wrong"]) for row in own)
        named: tuple[object, ...] = (f"{what} (`{track}`)", len(own), wrong, agents)
        for name in GRADES_BY_CLASS:
            right, false = evidence[f"{name}, right"], evidence[f"{name}, wrong"]
            if right + false:
                yield cells(*named, name, right + false, false, share(right, right + false), share(right, agents))
                named = ("",) * 4


HISTORIES = """\
Half of the commits are made by agents' calls, the rest by people who save files; `git blame` and the commits' makers
tell who wrote a line. A line may be called an agent's although a person's commit brought it: the person moved it, laid
it out anew, or wrote what the agent had written elsewhere. *Wrong* are those where git shows no such reason, and those
of another agent; *strictly* counts all of them.
"""


def table_of_histories(reports: Sequence[Document]) -> Iterator[str]:
    yield HISTORIES
    yield from head("history", "commits", "merges", "agents' lines", "grade", "lines", "wrong", "strictly", *RATES)
    for report in reports:
        agents = sum(report["agent_lines"].values())
        named: tuple[object, ...] = (report["name"], report["commits"], report["merges"], agents)
        for name in GRADES_BY_CLASS:
            counts: Mapping[str, int] = report["grades"].get(name, {})
            called, right = sum(counts.values()), counts.get("right", 0)
            false = sum(n for what, n in counts.items() if what == "wrong agent" or what.endswith("unexplained"))
            if called:
                rates = (share(right, called), share(called - false, called), share(right, agents))
                yield cells(*named, name, called, false, *rates)
                named = ("",) * 4


REWRITTEN = """\
Agents' lines that are told right before a rewrite of the whole stretch and after it, and lines that are called an
agent's after it and were not before.
"""


def table_of_rewrites(reports: Sequence[Document]) -> Iterator[str]:
    yield REWRITTEN
    yield from head("history", "commits", "rewrite", "agents' lines", "before", "after", "another agent's", "newly")
    for report in reports:
        for found in report["outcomes"]:
            lines, newly = found["agent_lines"], sum(found["false_ai"].values())
            shares = (share(found["before"], lines), share(found["kept"], lines))
            yield cells(report["name"], report["commits"], found["name"], lines, *shares, found["wrong_agent"], newly)


def table_of_lost(rows: Iterable[Document]) -> Iterator[str]:
    by_name = {row["scenario"]: row for row in rows if row["track"] == "rewrites"}
    for name in LOST_BY_GIT_AI:
        if row := by_name.get(name):
            yield cells(name, "lost", f"{share(row['kept'], row['certain'])} of {row['certain']}")


RATES = ("precision", "recall")


def head(*names: str) -> Iterator[str]:
    yield cells(*names)
    yield cells(*["---"] * len(names))


def cells(*texts: object) -> str:
    return f"| {' | '.join(map(str, texts))} |"


def share(part: int, whole: int) -> str:
    return f"{100 * part / whole:.2f} %" if whole else "-"


def main() -> None:
    asked = argparse.ArgumentParser("python -m benchmarks.provenance.page", description=__doc__)
    asked.add_argument("figures", nargs="+", type=Path)
    asked.add_argument("--write", type=Path, required=True)
    given = asked.parse_args()
    given.write.write_text(write_page([json.loads(path.read_text()) for path in given.figures]))


if __name__ == "__main__":
    main()

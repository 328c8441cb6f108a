"""What is run, and how it is told."""

import argparse
import json
import os
import random
import shutil
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from .agent_trace_tool import PROGRAM, AgentTraceTool
from .code import Block, blocks_of
from .constructed import CONSTRUCTED
from .git_brought import GIT_BROUGHT
from .git_tool import GitTool
from .load import busy
from .real import scenario as real_scenario
from .reenact_report import Report, lines_of, reenact
from .reenact_report import as_document as report_document
from .remit_tool import RemitTool, UncontainedRemitTool
from .replay import Replayed, named, replay
from .reworked import Reworked, rework
from .reworked import as_document as document_of_rework
from .reworked import lines_of as lines_of_rework
from .rewrites import REWRITES
from .scenario import Run, Score, run
from .shell_made import SHELL_MADE
from .speed import Speed, measured
from .table import Row, examples, table
from .table import document as row_document
from .tools import Tool
from .traps import TRAPS

TOOLS: dict[str, Callable[[], Tool]] = {
    "remit": RemitTool,
    "remit-not-contained": UncontainedRemitTool,
    "git": GitTool,
    "agent-trace": AgentTraceTool,
}
TRACKS: dict[str, Mapping[str, Run]] = {
    "constructed": CONSTRUCTED,
    "rewrites": REWRITES,
    "traps": TRAPS,
    "shell": SHELL_MADE,
    "git-brought": GIT_BROUGHT,
}
ALL = (*TRACKS, "real", "reenact", "reworked", "replay", "speed")


def main(words: Sequence[str]) -> int:
    """Exit code 1 where Remit called a line somebody's who did not write it, or a scenario could not be played."""
    asked = arguments().parse_args(words)
    asked.tool = asked.tool or [RemitTool.name]
    for name in [name for name in os.environ if name.startswith(("GIT_", "REMIT_", "CLAUDE", "XDG_"))]:
        del os.environ[name]
    if asked.list:
        print("\n".join(f"{track}: {name}" for track in ALL for name in scenarios(track, asked)))
        return 0
    for name in {"real", "reenact", "reworked"}.intersection(asked.track or ()):
        if not asked.repo:
            arguments().error(f"the track `{name}` plays a repository's history: name one with --repo PATH")
    tracks = asked.track or (ALL if not asked.only else TRACKS)
    with busy(asked.load):
        rows = [row for track in tracks for row in played(track, asked)]
        replayed = [replay(path, asked.sample, asked.seed) for path in asked.repo] if "replay" in tracks else []
        reports = [reenact(p, asked.commits, asked.seed, asked.mode) for p in asked.repo] if "reenact" in tracks else []
        reworked: list[Reworked] = []
        if "reworked" in tracks:
            reworked = [rework(p, asked.commits, asked.seed, asked.mode, asked.only or ()) for p in asked.repo]
    speed = measured(asked.seed, asked.rounds, asked.pairs) if "speed" in tracks else None
    if asked.json:
        document = as_document(asked, rows, replayed, reports, speed)
        print(json.dumps({**document, "reworked": list(map(document_of_rework, reworked))}, indent=1))
    else:
        tell(asked, rows, replayed, reports, speed)
        print("\n".join(line for report in reworked for line in lines_of_rework(report)))
    ours = [row.score for row in rows if row.tool in (RemitTool.name, UncontainedRemitTool.name)]
    broken = any(score.misattributed or score.broken for score in ours)
    broken = broken or any(outcome.broken_promises for report in reworked for outcome in report.outcomes)
    return int(broken or any(report.broken_promises for report in reports))


def played(track: str, asked: argparse.Namespace) -> list[Row]:
    """The scenarios of a track, each for every tool and seed."""
    real: list[Block] = [block for path in asked.repo for block in blocks_of(path)]
    known = {name: run for name, run in scenarios(track, asked).items() if not asked.only or name in asked.only}
    rows: list[Row] = []
    # The commands of the real track are only told, so no tool may run them itself.
    tools = [UncontainedRemitTool.name if track == "real" and name == RemitTool.name else name for name in asked.tool]
    for name, scenario in known.items():
        for tool in dict.fromkeys(tools):
            total = Score()
            for seed in range(asked.seed, asked.seed + asked.runs):
                total.add(run(TOOLS[tool], name, scenario, seed, real))
            rows.append(Row(track, name, tool, total))
            if sys.stderr.isatty():
                print(f"\r{track}: {name:<70}", end="", file=sys.stderr)
    return rows


def scenarios(track: str, asked: argparse.Namespace) -> Mapping[str, Run]:
    """The scenarios of a track, by their names; of the real one, the repositories."""
    if track == "real":
        return {named(path): real_scenario(path, asked.commits) for path in asked.repo}
    return TRACKS.get(track, {})


def tell(
    asked: argparse.Namespace, rows: list[Row], replayed: list[Replayed], reports: list[Report], speed: Speed | None
) -> None:
    """For people."""
    print(f"seeds {asked.seed} to {asked.seed + asked.runs - 1}; code {', '.join(map(str, asked.repo)) or 'made up'}")
    if rows:
        print(table(rows))
        print(examples(rows))
    for found in replayed:
        print(
            f"replay {found.name}: {found.commits} commits, {found.files} of {found.of_files} files, "
            f"{found.lines} lines, agreement {found.agreement:.2f} %, unknown {found.unknown}, replay "
            f"{found.replay_s:.1f} s = {found.ratio:.1f} x git log, blame {found.blame_s:.1f} s "
            f"(git {found.git_blame_s:.1f} s)"
        )
    for report in reports:
        print("\n".join(lines_of(report)))
    if speed:
        print("\n".join(line for measure in speed.measures for line in [measure.line()]))
        print("\n".join(f"git {name}: {lines or 'nothing of ours'}" for name, lines in speed.traced.items()))


def as_document(
    asked: argparse.Namespace, rows: list[Row], replayed: list[Replayed], reports: list[Report], speed: Speed | None
) -> dict[str, object]:
    """For programs."""
    return {
        "seed": asked.seed,
        "runs": asked.runs,
        "scenarios": list(map(row_document, rows)),
        "replay": [{**vars(r), "agreement": round(r.agreement, 3), "ratio": round(r.ratio, 2)} for r in replayed],
        "reenact": list(map(report_document, reports)),
        "speed": [{**vars(m), "ratio": round(m.ratio, 3)} for m in speed.measures] if speed else [],
        "traced": speed.traced if speed else {},
    }


def arguments() -> argparse.ArgumentParser:
    found = argparse.ArgumentParser("python -m benchmarks.provenance", description=__doc__)
    found.add_argument("--track", action="append", choices=ALL, help="only these tracks")
    found.add_argument("--only", action="append", metavar="NAME", help="only these scenarios, by their full names")
    tools = [name for name in TOOLS if name != PROGRAM or shutil.which(PROGRAM)]
    found.add_argument("--tool", action="append", choices=tools, help=f"{RemitTool.name} where none is named")
    found.add_argument(
        "--seed", type=int, default=random.randrange(10**6), help="the first seed; drawn where not given"
    )
    found.add_argument("--runs", type=int, default=1, help="so many seeds, one after the other")
    found.add_argument(
        "--repo", type=Path, action="append", default=[], help="a repository: replayed, and its code used"
    )
    found.add_argument("--sample", type=int, default=0, help="replay compares so many files; 0 is all")
    found.add_argument(
        "--commits", type=int, default=25, help="real, reenact and reworked play so many commits of each --repo"
    )
    found.add_argument(
        "--mode", choices=("observe", "enforce"), default="enforce", help="of Remit, in reenact and reworked"
    )
    found.add_argument("--pairs", type=int, default=200, help="pairs of git commit that are timed")
    found.add_argument("--rounds", type=int, default=7, help="rounds of timed blame")
    found.add_argument("--load", type=int, default=0, help="so many busy processes beside it")
    found.add_argument("--list", action="store_true", help="name the scenarios")
    found.add_argument("--json", action="store_true")
    return found

"""Kills processes of fleets at random moments until so many tasks have landed, and counts what is lost or left.

`python benchmarks/kills.py [--database postgresql|sqlite] [--tasks 600] [--kills 200] [--slice 60] [--results FILE]`.
Every slice is a fleet of its own: a home, a repository, a server, two workers of two slots, and agents that write
through the hook. A worker, its sweeper, its lander, an agent, git, the daemon, `plan start` or the server is killed
with signal 9 after random pauses. The results of each slice are one line of the file, so that a run that was stopped
goes on where it was; the table sums the slices. A slice that does not end prints what everything waits for.

The bar: every task ends, none is lost, each lands once, no process is left.
"""

import argparse
import json
import os
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Generator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from statistics import median
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))

from orchestrator.fleet_driving import Fleet, git
from orchestrator.killing import Killer, list_leftovers
from orchestrator.postgres import running_postgres

FIRST_SEED = 20261127
SECONDS_OF_TASK, SECONDS_OF_SLICE = 6, 180
GIT_SETTINGS = "[user]\n\tname = A Person\n\temail = person@example.org\n[init]\n\tdefaultBranch = main\n"


@contextmanager
def own_home(folder: Path) -> Generator[Path]:
    """Make a home for everything that this process starts, with its own folder for temporary files."""
    home, temporary = folder / "home", folder / "tmp"
    home.mkdir()
    temporary.mkdir()
    (home / ".gitconfig").write_text(GIT_SETTINGS)
    for name in [name for name in os.environ if name.startswith(("GIT_", "REMIT_", "CLAUDE", "XDG_"))]:
        del os.environ[name]
    os.environ |= {"HOME": str(home), "TMPDIR": str(temporary), "GIT_CONFIG_NOSYSTEM": "1"}
    yield home


def run_slice(database: str, seed: int, tasks: int, kills: int, pace: float) -> dict[str, Any]:
    """Run one fleet to its end, and return its figures."""
    server = running_postgres() if database == "postgresql" else nullcontext()
    with server as made, tempfile.TemporaryDirectory(prefix="remit-kills-") as name, own_home(Path(name)) as home:
        fleet = Fleet(home, Path(name) / "work", made.url if made else None, pace=f"{pace:g}")
        ids = fleet.govern(tasks)
        killer = Killer(fleet, made, seed)
        began, trouble = time.monotonic(), ""
        try:
            killer.run(ids, kills, SECONDS_OF_SLICE + SECONDS_OF_TASK * tasks)
        except AssertionError as error:
            trouble = str(error)
        finally:
            took = time.monotonic() - began
            fleet.stop()
        landed = Counter(fleet.landings())
        files = git(fleet.root, "ls-tree", "-r", "--name-only", "remit/next").split()
        figures = {
            "database": database,
            "seed": seed,
            "tasks": tasks,
            "ended": killer.count_ended(),
            "lost": sum(f"src/{id.lower()}/made.py" not in files for id in ids),
            "landed_once": sum(landed[id] == 1 for id in ids),
            "kills": dict(killer.kills),
            "again_s": killer.measure_restarts(),
            "seconds": round(took, 1),
            "told": killer.tell_figures(),
            "trouble": trouble,
            "left": killer.list_left(),
            "leftovers": list_leftovers(fleet.root, home, Path(name) / "tmp"),
        }
        killer.close()
        return figures


def print_table(rows: list[dict[str, Any]]) -> None:
    print("| database | tasks | kills | ended | lost | landed once | left | again, s: p50 / max | minutes |")
    print("| --- | --- | --- | --- | --- | --- | --- | --- | --- |")
    for database in sorted({row["database"] for row in rows}):
        mine = [row for row in rows if row["database"] == database]
        again = [seconds for row in mine for seconds in row["again_s"]] or [0.0]
        sums = {name: sum(row[name] for row in mine) for name in ("tasks", "ended", "lost", "landed_once", "seconds")}
        kinds: Counter[str] = Counter()
        for row in mine:
            kinds.update(row["kills"])
        left = sum(len(row["left"]) for row in mine)
        print(
            f"| {database} | {sums['tasks']} | {kinds.total()} | {sums['ended']} | {sums['lost']}"
            f" | {sums['landed_once']} | {left} | {median(again):.1f} / {max(again):.1f} of {len(again)}"
            f" | {sums['seconds'] / 60:.1f} |"
        )
        print(f"  {dict(kinds.most_common())}; left beside: {sorted({x for row in mine for x in row['leftovers']})}")


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--database", choices=("postgresql", "sqlite"), default="postgresql")
    parser.add_argument("--tasks", type=int, default=600)
    parser.add_argument("--kills", type=int, default=200)
    parser.add_argument("--slice", type=int, default=60)
    parser.add_argument("--pace", type=float, default=0.2)
    parser.add_argument("--first-seed", type=int, default=FIRST_SEED)
    parser.add_argument("--results", type=Path, default=Path("kills.jsonl"))
    wanted = parser.parse_args()
    rows = [json.loads(line) for line in wanted.results.read_text().splitlines()] if wanted.results.exists() else []
    while True:
        mine = [row for row in rows if row["database"] == wanted.database]
        done, killed = sum(row["tasks"] for row in mine), sum(sum(row["kills"].values()) for row in mine)
        if done >= wanted.tasks:
            break
        tasks = min(wanted.slice, wanted.tasks - done)
        kills = -(-(wanted.kills - killed) * tasks // (wanted.tasks - done))
        rows.append(run_slice(wanted.database, wanted.first_seed + len(mine), tasks, max(kills, 0), wanted.pace))
        with wanted.results.open("a") as file:
            file.write(json.dumps(rows[-1]) + "\n")
        print(f"{rows[-1]['seconds']:.0f} s: {rows[-1]['told']}", flush=True)
    print_table(rows)


if __name__ == "__main__":
    main()

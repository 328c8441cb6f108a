"""Kills processes of fleets at random moments until so many tasks have landed, and counts what is lost or left.

`python benchmarks/kills.py [--database postgresql|sqlite] [--hosts 1] [--tasks 600] [--kills 200] [--slice 60]`.
Every slice is a fleet of its own: a home, a repository, a server, two workers of two slots, and agents that write
through the hook. A worker, its sweeper, its lander, an agent, git, the daemon, `plan start` or the server is killed
with signal 9 after random pauses. With `--hosts 2` each host has a home and a clone of one bare repository, whose
transport is slow and killed, too, and hangs at times.
The results of each slice are one line of the file `--results`, so that a run that was stopped goes on where it was; the
table sums the slices. A slice that does not end prints what everything waits for.

The bar: every task ends, none is lost, each lands once, no process is left.
"""

import argparse
import json
import os
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Generator, Sequence
from contextlib import contextmanager, nullcontext
from pathlib import Path
from statistics import median
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))

from fleet.fleet_driving import Fleet, git
from fleet.host_driving import make_hosts, write_far_host
from fleet.killing import Killer, list_leftovers
from fleet.postgres import running_postgres

FIRST_SEED = 20261127
SLOW_S = "0.15"
"""What a remote that hosts share waits before and after each answer."""
SECONDS_OF_SLICE = 180
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


@contextmanager
def running_fleet(settings: argparse.Namespace, folder: Path, home: Path, seed: int, tasks: int) -> Generator[Killer]:
    """Make one host, or several that share a slow remote, and end their workers at the end."""
    pace = f"{settings.pace:g}"
    with running_postgres() if settings.database == "postgresql" else nullcontext() as server:
        if settings.hosts == 1:
            fleets: Sequence[Fleet] = [Fleet(home, folder / "work", pace=pace)]
            fleets[0].govern(tasks)
            hangs = None
        else:
            hosts, _ = make_hosts(folder, tasks, f"sqlite:///{folder}/fleet.db", hosts=settings.hosts, pace=pace)
            program = write_far_host(folder, *(host.home for host in hosts))
            fleets, hangs = hosts, Path(f"{program}.hangs")
            for host in hosts:
                git(host.root, "remote", "set-url", "origin", f"ssh://far{folder}/far.git")
                host.variables = {**os.environ, "HOME": str(host.home), "FAR_SLOW": SLOW_S}
        killer = Killer(fleets[0], server, seed, *fleets[1:], remote=hangs)
        try:
            yield killer
        finally:
            for fleet in fleets:
                fleet.stop()
            killer.close()


def run_slice(settings: argparse.Namespace, seed: int, tasks: int, kills: int) -> dict[str, Any]:
    """Run one fleet to its end, and return its figures."""
    ids = [f"INT-{number:03}" for number in range(1, tasks + 1)]
    with (
        tempfile.TemporaryDirectory(prefix="remit-kills-") as name,
        own_home(Path(name)) as home,
        running_fleet(settings, Path(name), home, seed, tasks) as killer,
    ):
        began, trouble = time.monotonic(), ""
        try:
            killer.run(ids, kills, SECONDS_OF_SLICE + settings.patience * tasks)
        except AssertionError as error:
            trouble = str(error)
            settings.results.with_suffix(f".{seed}.txt").write_text(trouble.replace("\\n", "\n"))
        took = time.monotonic() - began
        killer.end_starter()
        for fleet in killer.fleets:
            fleet.stop()
        target = killer.fleet.root if settings.hosts == 1 else Path(name) / "far.git"
        form = "--format=%(trailers:key=Remit-Intent,valueonly)"
        tip = git(target, "for-each-ref", "--format=%(objectname)", "refs/heads/remit/next").strip() or "main"
        landed = Counter(git(target, "log", "--first-parent", "--merges", form, tip).split())
        files = git(target, "ls-tree", "-r", "--name-only", tip).split()
        return {
            "database": settings.database,
            "hosts": settings.hosts,
            "seed": seed,
            "tasks": tasks,
            "ended": killer.count_ended(),
            "lost": sum(f"src/{id.lower()}/made.py" not in files for id in ids),
            "landed_once": sum(landed[id] == 1 for id in ids),
            "kills": dict(killer.kills),
            "hangs": killer.hangs,
            "again_s": killer.measure_restarts(),
            "seconds": round(took, 1),
            "told": killer.tell_figures(),
            "trouble": trouble[:300],
            "left": killer.list_left(),
            "leftovers": [
                x for each in killer.fleets for x in list_leftovers(each.root, each.home, Path(name) / "tmp")
            ],
        }


def print_table(rows: list[dict[str, Any]]) -> None:
    print("| database, hosts | tasks | kills | ended | lost | landed once | left | again, s: p50 / max | minutes |")
    print("| --- | --- | --- | --- | --- | --- | --- | --- | --- |")
    for database, hosts in sorted({(row["database"], row["hosts"]) for row in rows}):
        mine = [row for row in rows if (row["database"], row["hosts"]) == (database, hosts)]
        again = [seconds for row in mine for seconds in row["again_s"]] or [0.0]
        sums = {name: sum(row[name] for row in mine) for name in ("tasks", "ended", "lost", "landed_once", "seconds")}
        kinds: Counter[str] = Counter()
        for row in mine:
            kinds.update(row["kills"])
        left = sum(len(row["left"]) for row in mine)
        print(
            f"| {database}, {hosts} | {sums['tasks']} | {kinds.total()} | {sums['ended']} | {sums['lost']}"
            f" | {sums['landed_once']} | {left} | {median(again):.1f} / {max(again):.1f} of {len(again)}"
            f" | {sums['seconds'] / 60:.1f} |"
        )
        print(f"  {dict(kinds.most_common())}; left beside: {sorted({x for row in mine for x in row['leftovers']})}")


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--database", choices=("postgresql", "sqlite"), default="postgresql")
    parser.add_argument("--hosts", type=int, default=1)
    parser.add_argument("--tasks", type=int, default=600)
    parser.add_argument("--kills", type=int, default=200)
    parser.add_argument("--slice", type=int, default=60)
    parser.add_argument("--pace", type=float, default=0.2)
    parser.add_argument("--patience", type=float, default=6.0, help="seconds for each task of a slice")
    parser.add_argument("--first-seed", type=int, default=FIRST_SEED)
    parser.add_argument("--results", type=Path, default=Path("kills.jsonl"))
    wanted = parser.parse_args()
    rows = [json.loads(line) for line in wanted.results.read_text().splitlines()] if wanted.results.exists() else []
    while True:
        mine = [row for row in rows if (row["database"], row["hosts"]) == (wanted.database, wanted.hosts)]
        done, killed = sum(row["tasks"] for row in mine), sum(sum(row["kills"].values()) for row in mine)
        if done >= wanted.tasks:
            break
        tasks = min(wanted.slice, wanted.tasks - done)
        kills = -(-(wanted.kills - killed) * tasks // (wanted.tasks - done))
        rows.append(run_slice(wanted, wanted.first_seed + len(mine), tasks, max(kills, 0)))
        with wanted.results.open("a") as file:
            file.write(json.dumps(rows[-1]) + "\n")
        print(f"{rows[-1]['seconds']:.0f} s: {rows[-1]['told']}", flush=True)
    print_table(rows)


if __name__ == "__main__":
    main()

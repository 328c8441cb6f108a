"""Agents that misbehave in a plan: each is named and survived, the next step is said, and nothing is lost."""

import re
import sys
from pathlib import Path

import pytest

from fleet.fleet_driving import Fleet, Tasks, git
from processes import fields

pytestmark = pytest.mark.timeout(900)

FAKE = Path(__file__).with_name("fake_agent.py")

ENDS = {
    "hangs": ("stuck", "silent", "no event for"),
    "garbage": ("landed", "handed_in", ""),
    "daemon": ("landed", "handed_in", ""),
    "commits": ("landed", "handed_in", ""),
    "pushes": ("landed", "handed_in", ""),
    "resets": ("stuck", "gave_up", "it changed nothing"),
    "rewinds": ("stuck", "failed", "it changed what is not its own"),
    "renames": ("landed", "handed_in", ""),
    "leaves": ("landed", "handed_in", ""),
    "deletes": ("landed", "handed_in", ""),
    "widens": ("landed", "handed_in", ""),  # the settings of its worktree are read-only in the jail
    "assigns": ("stuck", "failed", "README.md"),
    "crashes": ("stuck", "failed", "its agent ended with 139 (SIGSEGV)"),
    "misses": ("stuck", "failed", "its agent ended with 127 (a program is not there)"),
    "nothing": ("stuck", "gave_up", "it changed nothing"),
}
"""By behaviour: the task's end, how each of its attempts ended, and what the plan's log says of it."""


def processes_of(home: Path, program: str) -> list[int]:
    found = (path for path in Path("/proc").glob("[0-9]*"))
    return [
        int(path.name)
        for path in found
        if program in " ".join(fields(path / "cmdline")) and f"HOME={home}" in fields(path / "environ")
    ]


def test_every_misbehaving_agent_is_named_and_survived(fleet: Fleet) -> None:
    fleet.govern(1)
    ids = [f"INT-{number:03}" for number in range(1, len(ENDS) + 1)]
    for id in ids:
        fleet.intent_file(id).write_text(f"id: {id}\nname: make\nowned_scope: ['src/{id.lower()}/**']\n")
    git(fleet.root, "add", "-A")
    with (fleet.root / ".orchestration" / "remit.toml").open("a") as settings:
        settings.write("\n[orchestrator]\nstall_s = 30\n")
    (fleet.root / "README.md").write_text("# Example\n\nMore.\n")
    git(fleet.root, "commit", "-qam", "second")
    remote = fleet.home / "remote.git"
    git(fleet.root, "clone", "-q", "--bare", str(fleet.root), str(remote))
    git(fleet.root, "remote", "add", "origin", str(remote))
    pushed = git(remote, "for-each-ref")
    command = f"--agent-command=fake={sys.executable} {FAKE} {{intent}} {' '.join(ENDS)}"
    fleet.remit("plan", "start", *ids, "--yes", "--workers=3", "--pace=0.2", command)
    finals = {"landed", "stuck"}

    def have_all_ended(now: Tasks) -> bool:
        states = {task["state"] for task in now.values()}
        if "waiting" in states and not states & {"held", "landing"}:
            fleet.remit("plan", "resume")  # a plan of which many tasks are stuck waits for a person
        return states <= finals

    fleet.wait_for(have_all_ended)
    found, log = fleet.status(), fleet.remit("plan", "log")
    wrong: list[object] = []
    for id, (name, (state, end, why)) in zip(ids, ENDS.items(), strict=True):
        ends = re.findall(rf"attempt {id}/\d+ state=ended ended_as=(\w+)(.*)", log)
        if found[id]["state"] != state or {one for one, _ in ends} != {end} or why not in ends[-1][1]:
            wrong.append((name, found[id], ends))
    assert wrong == [], log
    assert processes_of(fleet.home, "sleep 61") == []
    assert git(remote, "for-each-ref") == pushed
    assert git(fleet.root, "show", "remit/next:README.md") == "# Example\n\nMore.\n"

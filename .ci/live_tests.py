"""Prints the test files and folders whose `live` tests a submission has to run: `live_tests.py [BASE]`.

A submission is what changed since BASE; without one, since `origin/main` where that lies before HEAD, else since the
last commit that is `WINDOW_H` hours older than HEAD. Each room that it touches brings the live tests of its own folder
and those of `tests/e2e` that start it; what all tests stand on brings all.
"""

import subprocess
import sys
from pathlib import Path, PurePosixPath

WINDOW_H = 8
EVERYTHING = ("uv.lock", "Makefile", ".ci/")
"""What all tests stand on, beside the modules that lie in `tests/` itself."""

AGENTS = (
    *("test_agent_dialog_live", "test_claude_code", "test_contained_live", "test_detours_live", "test_doctor_live"),
    *("test_elsewhere_live", "test_failing_live", "test_first_five_minutes", "test_first_minute_live"),
    *("test_four_agents", "test_harness", "test_harness_others"),
    *("test_hooks_live", "test_observe_live", "test_own_rules_live", "test_usual_day_live", "test_why_live"),
)
DOCUMENTS = ("test_tutorial",)
STORIES = {
    "adapters": AGENTS,
    "cli": DOCUMENTS,
    "console": ("test_console_*",),
    "docs": DOCUMENTS,
    "gate": (
        *("test_agent_dialog_live", "test_claude_code", "test_contained_live", "test_detours_live", "test_django"),
        *("test_everyday", "test_first_minute_live", "test_four_agents"),
        *DOCUMENTS,
    ),
    "agent": ("test_agent_faces", "test_console_chat", *DOCUMENTS),
    "ledger": DOCUMENTS,
    "fleet": ("test_plans_live", *DOCUMENTS),
    "policy": ("test_four_agents", "test_own_rules_live", *DOCUMENTS),
    "provenance": ("test_usual_day_live", "test_why_live", *DOCUMENTS),
    "remit_hook": AGENTS,
    "servers": ("test_agent_dialog_live", "test_claude_code", "test_failing_live", "test_hooks_live"),
    "wiring": (*AGENTS, *DOCUMENTS),
    "workspace": ("test_everyday",),
}
"""The stories of `tests/e2e` by the room, or the package beside it, that they start; other rooms have none there."""


def main(base: str | None = None) -> int:
    since = base or find_base()
    print(*choose(list_changes(since)), sep="\n")
    print(f"live tests of what changed since {since[:12]}", file=sys.stderr)
    return 0


def choose(changed: list[str]) -> list[str]:
    """Choose test files and folders for changed paths."""
    paths = [PurePosixPath(path) for path in changed]
    if any(path.startswith(EVERYTHING) for path in changed) or any(is_shared_by_tests(path) for path in paths):
        return ["tests"]
    rooms = {room for path in paths if (room := find_room(path))}
    stories = {f"tests/e2e/{name}.py" for room in rooms for name in STORIES.get(room, ())}
    found = {str(path) for story in stories for path in Path().glob(story)}
    found |= {f"tests/{room}" for room in rooms if Path("tests", room).is_dir()}
    return sorted(found | {path for path in changed if path.startswith("tests/e2e/test_") and Path(path).exists()})


def is_shared_by_tests(path: PurePosixPath) -> bool:
    return path.parts[0] == "tests" and path.suffix == ".py" and (len(path.parts) == 2 or path.name == "conftest.py")


def find_room(path: PurePosixPath) -> str | None:
    """The room of a file of the sources or of the tests."""
    parts = path.parts
    if parts[0] == "packages":
        return parts[1].removeprefix("remit-")
    if parts[:2] == ("src", "remit") and len(parts) > 3:
        return parts[2]
    if parts[:2] == ("src", "remit_hook"):
        return "remit_hook"
    if parts[0] == "docs":
        return "docs"
    return parts[1] if parts[0] == "tests" and len(parts) > 2 and parts[1] != "e2e" else None


def find_base() -> str:
    head = git("rev-parse", "HEAD")
    remote = git("rev-parse", "--quiet", "--verify", "origin/main^{commit}")
    if remote and remote != head and git("merge-base", remote, head) == remote:
        return remote
    moment = int(git("show", "--no-patch", "--format=%ct", "HEAD")) - WINDOW_H * 3600
    return git("rev-list", "-1", f"--before={moment}", "HEAD") or git("hash-object", "-t", "tree", "/dev/null")


def list_changes(base: str) -> list[str]:
    return [path for path in git("diff", "--name-only", "--no-renames", "-z", base).split("\0") if path]


def git(*words: str) -> str:
    return subprocess.run(["git", *words], stdout=subprocess.PIPE, text=True, check=False).stdout.strip()


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:2]))

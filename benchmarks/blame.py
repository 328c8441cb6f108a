"""What `remit blame` costs beside `git blame` and `remit --version`, for a file of 5,000 lines.

`python benchmarks/blame.py [COMMITS] [ROUNDS]`, 100 by default: a person's, of years ago, and then a fifth by an agent.
`--mixed`: a person's, of whom nobody recorded anything, and an agent's take turns, all of today; then the first blame
of all, when nothing of the records' contents is kept yet, has a row of its own.
All commands take turns in one run, and medians are compared. Nothing is asserted: the table is the result. `-w` is one
of the options with which a blame traces lines otherwise.
"""

import json
import os
import random
import sqlite3
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from remit.gate.governing.settings import govern_workspace, set_mode
from remit.gate.machine import Environment
from remit.servers.hook import EventClass, HookFrame, answer
from remit.workspace.place.workspace import find_git_root, workspace_at

LINES = 5_000
ROUNDS = 11
LONG_AGO = "2020-01-01T00:00:00Z"
INTENTS = """\
version: "1.0"
active_intents:
  - {id: INT-001, name: Work, status: IN_PROGRESS, owned_scope: ["src/**"], constraints: [], acceptance_criteria: [ok]}
"""
KINDS: dict[str, EventClass] = {"PreToolUse": "pre", "PostToolUse": "post"}
REMIT = (sys.executable, "-c", "from remit.cli import main; main()")


class Author:
    """Edits the file and commits, as a person or as an agent whose calls go through the hook."""

    def __init__(self, root: Path, home: Path, *, today: bool = False) -> None:
        self.root, self.home, self.today = root, home, today
        self.chance = random.Random(1)
        self.lines = [f"value_{n} = compute_{n}(argument_{n})" for n in range(LINES)]

    def git(self, *words: str) -> None:
        subprocess.run(["git", "-C", str(self.root), *words], check=True, capture_output=True)

    def begin(self) -> None:
        self.git("init", "-q")
        (self.root / "src").mkdir()
        (self.root / ".orchestration").mkdir()
        (self.root / ".orchestration" / "active_intents.yaml").write_text(INTENTS)
        workspace = workspace_at(self.root, find_git_root(self.root))
        govern_workspace(workspace)
        set_mode(workspace, "enforce")
        self.write()
        self.commit(LONG_AGO)
        self.send("PreToolUse", "Bash", "select", command="remit intent select INT-001")

    def send(self, event: str, tool: str, call: str, **arguments: str) -> None:
        payload = {"session_id": "s", "cwd": str(self.root), "hook_event_name": event, "tool_name": tool}
        payload |= {"tool_use_id": call, "tool_input": arguments, "tool_response": {}}
        answer(
            json.dumps(payload).encode(),
            HookFrame("claude-code", str(self.root), KINDS[event]),
            Environment(self.home, self.home),
        )

    def write(self) -> None:
        (self.root / "src" / "large.py").write_text("\n".join(self.lines) + "\n")

    def commit(self, when: str = "") -> None:
        self.git("add", "-A")
        dated = {"GIT_COMMITTER_DATE": when, "GIT_AUTHOR_DATE": when} if when else {}
        os.environ |= dated
        self.git("commit", "-qm", "work")
        for name in dated:
            del os.environ[name]

    def edit(self, number: int, *, agent: bool) -> None:
        at = self.chance.randrange(LINES - 30)
        self.lines[at : at + 20] = [f"changed_{number}_{n} = rewritten_{number}({n})" for n in range(20)]
        if not agent:
            self.write()
        else:
            arguments = {"file_path": str(self.root / "src" / "large.py"), "content": "\n".join(self.lines) + "\n"}
            self.send("PreToolUse", "Write", f"call-{number}", **arguments)
            self.write()
            self.send("PostToolUse", "Write", f"call-{number}", **arguments)
        self.commit("" if agent or self.today else LONG_AGO)


def forget_words(root: Path) -> None:
    """Forget which words the records put into files."""
    database = sqlite3.connect(root / ".git" / "remit" / "index.db", isolation_level=None)
    database.execute("delete from put_words")
    database.close()


def seconds(words: Sequence[str], root: Path, before: Callable[[], object] = lambda: None) -> float:
    before()
    began = time.perf_counter()
    subprocess.run(words, cwd=root, check=True, capture_output=True)
    return time.perf_counter() - began


def main() -> None:
    words = [word for word in sys.argv[1:] if word != "--mixed"]
    mixed = len(words) < len(sys.argv) - 1
    count = int(words[0]) if words else 100
    with tempfile.TemporaryDirectory() as name:
        root, home = Path(name) / "repository", Path(name) / "home"
        root.mkdir()
        home.mkdir()
        os.environ |= {"HOME": str(home), "GIT_CONFIG_NOSYSTEM": "1"}
        os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
        (home / ".gitconfig").write_text("[user]\n\tname = A\n\temail = a@example.org\n")
        author = Author(root, home, today=mixed)
        author.begin()
        for number in range(count):
            author.edit(number, agent=bool(number % 2) if mixed else number >= count * 4 // 5)
        report(root, count, int(words[1]) if len(words) > 1 else ROUNDS, mixed=mixed)


def report(root: Path, count: int, rounds: int, *, mixed: bool) -> None:
    """The times and their ratios."""
    unread = lambda: forget_words(root)  # noqa: E731
    nothing = lambda: None  # noqa: E731
    file = "src/large.py"
    asked: dict[str, tuple[Sequence[str], Callable[[], object]]] = {
        "git blame": (("git", "blame", file), lambda: None),
        "git blame --porcelain": (("git", "blame", "--porcelain", file), lambda: None),
        "python": ((sys.executable, "-c", "pass"), lambda: None),
        "remit --version": ((*REMIT, "--version"), lambda: None),
        "remit blame": ((*REMIT, "blame", file), nothing),
        "remit blame --json": ((*REMIT, "blame", "--json", file), nothing),
        "remit blame -w": ((*REMIT, "blame", "-w", file), nothing),
        "remit blame --intent": ((*REMIT, "blame", "--intent", "INT-001", file), nothing),
        "remit why": ((*REMIT, "why", f"{file}:10"), lambda: None),
        "remit stats": ((*REMIT, "stats"), lambda: None),
    }
    if mixed:
        asked |= {
            "remit blame, first": ((*REMIT, "blame", file), unread),
            "remit blame -w, first": ((*REMIT, "blame", "-w", file), unread),
        }
    times: dict[str, list[float]] = {name: [] for name in asked}
    for _ in range(rounds):
        for name, (words, before) in asked.items():
            times[name].append(seconds(words, root, before))
    median = {name: statistics.median(found) for name, found in times.items()}
    print(f"{LINES} lines, {count} commits, {rounds} rounds: least and median")
    for name, found in times.items():
        print(f"{name:<26} {min(found) * 1000:7.1f} {median[name] * 1000:7.1f} ms")
    for name in (name for name in median if name.startswith("remit blame")):
        ratio = (median[name] - median["python"]) / median["git blame"]
        print(f"{name}: {ratio:.2f} x git blame + a Python start (bar {3 if 'first' in name else 1.5})")


if __name__ == "__main__":
    main()

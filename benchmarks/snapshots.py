"""What a shell call costs before it may run, snapshot and all, beside `git status -uall` in the same run.

A real daemon behind the real client; ten files change before each call, by another process's write. A table, nothing
asserted. The last lines: whether a thousand snapshots bring on git's own clean-up.
"""

import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager
from importlib.metadata import version
from pathlib import Path

import remit_hook
from remit.servers.daemon import socket_path
from remit.workspace.git.command import Git
from remit.workspace.place.workspace import workspace_at
from remit.workspace.snapshots.git_store import GitSnapshotStore
from remit.workspace.snapshots.snapshot import Occasion, read_files, take_snapshot

MAIN = "from remit.cli import main; main()"
ROUNDS = 21
BARS = {20_000: 0.5, 100_000: 0.2}
DIRTY = 10
MANY = 1000
WATCHED_S = 3.0
"""By then every folder is watched."""


def repository(root: Path, files: int) -> list[str]:
    """A repository of so many small files; the names of those that will be dirty."""
    subprocess.run(["git", "init", "-q", str(root)], check=True)
    for number in range(files):
        path = root / f"d{number % 100}" / f"e{number % 1000 // 100}" / f"{number}.txt"
        if number < 1000:
            path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"{number}\n")
    git = Git(root)
    git.run("add", "-A")
    git.run("-c", "user.name=x", "-c", "user.email=x@x", "commit", "-q", "-m", "all")
    return [f"d{number}/e0/{number}.txt" for number in range(DIRTY)]


def timed(step: Callable[[], object]) -> float:
    """Milliseconds."""
    began = time.perf_counter()
    step()
    return (time.perf_counter() - began) * 1000


class Agent:
    """An agent's hook, as its settings start it."""

    def __init__(self, home: Path, root: Path) -> None:
        self.root = root
        self.environ = {**os.environ, "HOME": str(home), "GIT_CONFIG_NOSYSTEM": "1"}
        self.client = home / "hook"
        compiler = shutil.which("cc") or shutil.which("gcc")
        if compiler is None:
            raise SystemExit("there is no C compiler: the client cannot be built")
        source = Path(remit_hook.__file__).with_name("client.c")
        subprocess.run([compiler, "-O2", "-o", self.client, source], check=True)
        lines = [version("remit"), sys.executable, str(socket_path(home)), "20"]
        (home / "hook.conf").write_text("".join(f"{line}\n" for line in lines))
        self.calls = 0

    def remit(self, *words: str) -> None:
        """A command of Remit's."""
        subprocess.run(
            [sys.executable, "-c", MAIN, *words], cwd=self.root, env=self.environ, check=True, capture_output=True
        )

    def ask(self, kind: str) -> None:
        """One event of a shell call whose effects nobody knows."""
        event = "PreToolUse" if kind == "pre" else "PostToolUse"
        document = {
            "session_id": "s1",
            "cwd": str(self.root),
            "hook_event_name": event,
            "tool_name": "Bash",
            "tool_input": {"command": "make"},
            "tool_use_id": f"t{self.calls}",
            "tool_response": {"stdout": ""},
        }
        given = json.dumps(document).encode()
        done = subprocess.run(
            [self.client, "claude-code", kind],
            input=given,
            cwd=self.root,
            env=self.environ,
            capture_output=True,
            check=True,
        )
        if b'"deny"' in done.stdout:
            raise SystemExit(done.stdout.decode())

    def call(self) -> float:
        """A whole call; what the part before it took."""
        self.calls += 1
        spent = timed(lambda: self.ask("pre"))
        self.ask("post")
        return spent


@contextmanager
def governed(root: Path) -> Generator[Agent]:
    """The repository, governed, and a daemon that has looked at it once and watches."""
    with tempfile.TemporaryDirectory() as name:
        agent = Agent(Path(name), root)
        agent.remit("init", "--mode", "observe", "--yes", "--no-agents")
        daemon = subprocess.Popen([sys.executable, "-I", "-c", MAIN, "daemon"], env=agent.environ)
        try:
            while not socket_path(Path(name)).exists():
                time.sleep(0.05)
            agent.call()
            time.sleep(WATCHED_S)
            agent.call()
            yield agent
        finally:
            daemon.terminate()
            daemon.wait()


def written(root: Path, dirty: list[str], turn: int) -> None:
    """Another process writes the files that differ."""
    for path in dirty:
        (root / path).write_text(f"{turn} {path}\n")


def measured(files: int) -> None:
    """Two rows of the table: the whole call, and the snapshot alone where it is told what differs."""
    with tempfile.TemporaryDirectory() as name:
        root = Path(name)
        dirty = repository(root, files)
        store = GitSnapshotStore(workspace_at(root, root), "0123456789ab", keeps_importer=True)
        status: list[float] = []
        calls: list[float] = []
        kept: list[float] = []
        with governed(root) as agent:
            for turn in range(ROUNDS):
                written(root, dirty, turn)
                status.append(timed(lambda: Git(root).run("status", "--porcelain=v2", "-z", "-uall")))
                calls.append(agent.call())
                kept.append(timed(lambda: snapshot(store, root, dirty)))
        store.close()
        row(f"{files:>7} files, {DIRTY} changed: the call before", calls, status, f"<= {BARS[files]}")
        row(f"{files:>7} files, {DIRTY} changed: the snapshot alone", kept, status, "-")


def snapshot(store: GitSnapshotStore, root: Path, dirty: list[str]) -> None:
    """One snapshot of files that are known to differ."""
    workspace = workspace_at(root, root)
    take_snapshot(store, workspace, Occasion("call"), read_files(workspace, dirty), at=time.time())


def row(name: str, value: list[float], floor: list[float], asked: str) -> None:
    """One line."""
    ratio = statistics.median(value) / statistics.median(floor)
    print(
        f"{name:<48} {statistics.median(value):8.2f} ms   git status -uall {statistics.median(floor):8.2f} ms"
        f"   {ratio:5.2f} x   asked {asked}"
    )


def many() -> None:
    """A thousand snapshots, and whether git would then clean up by itself."""
    with tempfile.TemporaryDirectory() as name:
        root = Path(name)
        dirty = repository(root, 200)
        store = GitSnapshotStore(workspace_at(root, root), "0123456789ab", keeps_importer=True)
        git = Git(root)
        for turn in range(MANY):
            (root / dirty[turn % DIRTY]).write_text(f"{turn}\n")
            snapshot(store, root, dirty)
        store.tidy()
        before = counts(git)
        done = subprocess.run(["git", "-C", str(root), "gc", "--auto"], capture_output=True, text=True, check=True)
        said = done.stderr.strip() or "nothing"
        print(f"{MANY} snapshots: {before}; `git gc --auto` says: {said}; afterwards {counts(git)}")


def counts(git: Git) -> str:
    """Loose objects and packs."""
    found = dict(line.split(": ") for line in git.text("count-objects", "-v").splitlines())
    return f"{found['count']} loose objects, {found['packs']} packs"


if __name__ == "__main__":
    for size in BARS:
        measured(size)
    many()

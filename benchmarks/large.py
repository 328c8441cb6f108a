"""What people and agents wait for in a large repository: `python -m benchmarks.large [--keep FOLDER]`.

A seeded generator makes a repository of 20,001 files, 3,000 commits, and one file of 30,000 lines that an agent edits
25 times. Each figure stands beside a floor of the same run: what git, or a bare Python, takes for as much. Nothing is
asserted: the table is the result. Processor time stands beside the clock's, which other work on the machine moves.
"""

import argparse
import json
import os
import random
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path

from msgspec import Struct

from remit.wiring.hook_client import client_path, install_client

SEED = 20_261_123
FILES = 20_000
COMMITS = 3_000
LINES = 30_000
EDITS = 25
ROUNDS = 5
MAIN = "from remit.cli import main; main()"
LARGE = "src/large.py"


class Measured(Struct, frozen=True):
    """Seconds by the clock, and of processors, of one process with its children."""

    wall: float
    cpu: float


def history(seed: int, commits: int = COMMITS) -> Iterator[bytes]:
    """The repository as a stream for `git fast-import`: all files in the first commit, then one to five a commit."""
    chance = random.Random(seed)
    paths = [f"src/pkg{n // 200:03d}/mod{n % 200:03d}.py" for n in range(FILES)]
    large = "".join(f"value_{n} = {chance.randrange(10**4)}\n" for n in range(LINES))
    for number in range(commits):
        changed = paths if number == 0 else chance.sample(paths, chance.randint(1, 5))
        yield b"commit refs/heads/main\ncommitter P <p@example.org> %d +0000\n" % (1_700_000_000 + 600 * number)
        yield b"data 4\nwork\n"
        for path in changed:
            yield blob(path, "".join(f"{path[-9:-3]}_{n} = {chance.randrange(10**6)}\n" for n in range(10)))
        if number == 0:
            yield blob(LARGE, large)
        yield b"\n"


def blob(path: str, text: str) -> bytes:
    """One changed file of a commit."""
    return b"M 100644 inline %s\ndata %d\n%s\n" % (path.encode(), len(text), text.encode())


def make_repository(root: Path, home: Path, commits: int) -> None:
    """Make the repository, and let Remit observe it."""
    root.mkdir(parents=True)
    run(["git", "init", "-q", "-b", "main"], root, home)
    stream = b"".join(history(SEED, commits))
    subprocess.run(["git", "fast-import", "--quiet"], cwd=root, env=environ(home), input=stream, check=True)
    run(["git", "reset", "-q", "--hard"], root, home)
    for name, value in (("user.name", "P"), ("user.email", "p@example.org")):
        run(["git", "config", name, value], root, home)
    run([sys.executable, "-c", MAIN, "init", "--yes", "--no-agents"], root, home)


def environ(home: Path) -> dict[str, str]:
    """Variables without the machine's own settings."""
    kept = {name: os.environ[name] for name in ("PATH", "LANG") if name in os.environ}
    return {**kept, "HOME": str(home), "GIT_CONFIG_NOSYSTEM": "1"}


def run(words: Sequence[str], folder: Path, home: Path, stdin: bytes = b"") -> bytes:
    """Run a program; what it wrote."""
    return subprocess.run(words, cwd=folder, env=environ(home), input=stdin, check=True, capture_output=True).stdout


def timed(work: Callable[[], object]) -> Measured:
    """How long some work with child processes takes."""
    before, began = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    work()
    wall, after = time.perf_counter() - began, resource.getrusage(resource.RUSAGE_CHILDREN)
    return Measured(wall, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)


def least(runs: Iterable[Measured]) -> Measured:
    """The least of several runs: other work only adds."""
    found = list(runs)
    return Measured(min(one.wall for one in found), min(one.cpu for one in found))


def row(name: str, value: Measured, floor: str, of: Measured, asked: str) -> None:
    """One figure beside its floor."""
    ratio = f"{value.wall / of.wall:>7.2f} x wall {value.cpu / max(of.cpu, 1e-4):>7.2f} x cpu"
    times = f"{value.wall * 1000:>9.1f} ms ({value.cpu * 1000:>8.1f} cpu)"
    print(f"{name:<42} {times}   {floor:<24} {of.wall * 1000:>8.1f} ms   {ratio}   asked {asked}", flush=True)


class Hooks:
    """An agent's hooks through the installed client."""

    def __init__(self, root: Path, home: Path) -> None:
        self.root, self.home = root, home
        install_client(home)
        self.client = str(client_path(home))

    def send(self, kind: str, event: str, **fields: object) -> bytes:
        """One event; the answer."""
        payload = {"session_id": "s1", "cwd": str(self.root), "hook_event_name": event, **fields}
        return run([self.client, "claude-code", kind], self.root, self.home, json.dumps(payload).encode())

    def call(self, number: int, tool: str, act: Callable[[], object], **arguments: object) -> tuple[Measured, Measured]:
        """One tool call; how long the hooks before and after it take."""
        about = {"tool_name": tool, "tool_input": arguments, "tool_use_id": f"t{number}"}
        before = timed(lambda: self.send("pre", "PreToolUse", **about))
        act()
        return before, timed(lambda: self.send("post", "PostToolUse", tool_response={}, **about))

    def edit(self, number: int) -> tuple[Measured, Measured]:
        """One edit of the large file."""
        path = self.root / LARGE
        lines = path.read_text().splitlines(keepends=True)
        at = (number * 1_117) % len(lines)
        old, new = lines[at], f"edited_{number} = {number}\n{lines[at]}"
        act = lambda: path.write_text("".join([*lines[:at], new, *lines[at + 1 :]]))  # noqa: E731
        return self.call(number, "Edit", act, file_path=str(path), old_string=old, new_string=new)

    def daemon(self) -> int | None:
        """The daemon's process, where one runs."""
        for name in os.listdir("/proc"):  # noqa: PTH208
            try:
                variables = Path(f"/proc/{name}/environ").read_bytes() if name.isdigit() else b""
                words = Path(f"/proc/{name}/cmdline").read_bytes() if name.isdigit() else b""
            except OSError:
                continue
            if f"HOME={self.home}\0".encode() in variables and b"daemon" in words:
                return int(name)
        return None

    def end_daemon(self) -> None:
        """End the daemon of this home."""
        pid = self.daemon()
        if pid is not None:
            os.kill(pid, signal.SIGTERM)
            while Path(f"/proc/{pid}").exists():
                time.sleep(0.05)


def cold_start(hooks: Hooks) -> Measured:
    """The start of a session where no daemon runs."""
    hooks.end_daemon()
    return timed(lambda: hooks.send("note", "SessionStart", source="startup"))


def measure(root: Path, home: Path) -> None:
    """Print the table."""
    hooks = Hooks(root, home)
    python = least(timed(lambda: run([sys.executable, "-c", "0"], root, home)) for _ in range(ROUNDS))
    status = least(timed(lambda: run(["git", "status", "--porcelain"], root, home)) for _ in range(ROUNDS))
    imports = least(timed(lambda: run([sys.executable, "-c", "import msgspec"], root, home)) for _ in range(ROUNDS))
    cold = least(cold_start(hooks) for _ in range(ROUNDS))
    row("session start, no daemon", cold, "bare Python", python, "200 ms")
    warm = least(timed(lambda: hooks.send("note", "SessionStart", source="resume")) for _ in range(ROUNDS))
    row("session start, daemon", warm, "bare Python", python, "200 ms")
    time.sleep(3)
    stops: list[Measured] = []
    for number in range(EDITS):
        hooks.edit(number)
        if number % 5 == 4:
            time.sleep(1.5)
            stops.append(timed(lambda: hooks.send("note", "Stop")))
    row("end of a turn, with changes", least(stops), "git status", status, "200 ms")
    row("  the slowest of them", max(stops, key=lambda one: one.wall), "git status", status, "200 ms")
    quiet = [hooks.call(100 + n, "Bash", lambda: None, command="python3 --version; :") for n in range(20)]
    written = [hooks.call(200 + n, "Write", lambda: None, file_path=str(root / "src/a.py")) for n in range(20)]
    for name, calls in (("Bash", quiet), ("Write", written)):
        for which, place in (("pre", 0), ("post", 1)):
            row(f"{name}, {which}, quiet", least(call[place] for call in calls), "bare Python", python, "5 ms")
    hooks.end_daemon()
    large = least(timed(lambda: run(["git", "blame", "-s", LARGE], root, home)) for _ in range(2))
    for words, floor, of in ((["map"], "git blame", large), (["stats"], "git blame", large)):
        command = [sys.executable, "-c", MAIN, *words]
        row(f"remit {words[0]}", least(timed(lambda c=command: run(c, root, home)) for _ in range(2)), floor, of, "3 s")
    row("  import of msgspec, for scale", imports, "bare Python", python, "-")


def main() -> None:
    """Make the repository, or take a kept one, and measure."""
    words = argparse.ArgumentParser()
    words.add_argument("--keep", type=Path, help="a folder to make the repository in, or to find it in again")
    words.add_argument("--commits", type=int, default=COMMITS)
    given = words.parse_args()
    folder = given.keep or Path(tempfile.mkdtemp(prefix="remit-large."))
    root, home = folder / "repository", folder / "home"
    home.mkdir(parents=True, exist_ok=True)
    try:
        if not root.exists():
            make_repository(root, home, given.commits)
        measure(root, home)
    finally:
        if given.keep is None:
            shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    main()

"""Room that the contents of many edits take: while they wait, in the daemon's memory, and at the end.

`python benchmarks/contents.py [EDITS]`, 120 by default. One agent edits without a pause; every fourth edit changes a
line of a file of 2 MB, the others change files of 1 KB. The calls go to a daemon of their own over its socket, so the
time of a call holds no start of a process. Nothing is asserted: the table is the result.
"""

import json
import os
import random
import socket
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from importlib.metadata import version
from pathlib import Path

MAIN = "from remit.cli import main; main()"
LARGE_BYTES, SMALL_BYTES = 2 << 20, 1 << 10
SMALL_FILES = 40
LARGE_EVERY = 4
SAMPLE_S = 0.05
REST_S = 4.0
"""Time without a change of size after which the folder counts as at rest."""

MAX_WAIT_S = 90.0
SCOPE = "src/**"


def mib(size: float) -> str:
    return f"{size / (1 << 20):.1f} MiB"


def remit(folder: Path, home: Path, *words: str) -> None:
    environ = {**os.environ, "HOME": str(home)}
    subprocess.run([sys.executable, "-c", MAIN, *words], cwd=folder, env=environ, check=True, capture_output=True)


def make_lines(drawn: random.Random, size: int) -> list[str]:
    """Lines of source-like words, as compressible as code."""
    words = [f"{drawn.choice('abcdefgh')}{drawn.randrange(4000):x}" for _ in range(3000)]
    lines: list[str] = []
    left = size
    while left > 0:
        lines.append("    " + " ".join(drawn.choices(words, k=9)) + "\n")
        left -= len(lines[-1])
    return lines


class Sampler(threading.Thread):
    """Peaks of the daemon's memory, of the contents that wait, and of the state folder."""

    def __init__(self, pid: int, state: Path) -> None:
        super().__init__(daemon=True)
        self.pid, self.state = pid, state
        self.waiting = self.folder = self.rss = 0
        self.done = threading.Event()

    def run(self) -> None:
        while not self.done.wait(SAMPLE_S):
            self.look()

    def look(self) -> None:
        self.folder = max(self.folder, folder_bytes(self.state))
        contents = self.state / "contents"
        self.waiting = max(self.waiting, sum(file_bytes(path) for path in contents.glob("waiting*")))
        self.rss = max(self.rss, read_rss(self.pid))


def file_bytes(path: Path) -> int:
    try:
        return path.stat().st_blocks * 512
    except OSError:
        return 0


def folder_bytes(folder: Path) -> int:
    """Bytes on disk; a file with several names counts once, since objects are linked."""
    seen: dict[tuple[int, int], int] = {}
    for place, _, names in os.walk(folder):
        for name in names:
            try:
                status = os.lstat(f"{place}/{name}")
            except OSError:
                continue
            if status.st_nlink == 1:
                seen[status.st_dev, status.st_ino] = status.st_blocks * 512
    return sum(seen.values())


def read_rss(pid: int) -> int:
    """Bytes of a process's resident memory; 0 if it is gone."""
    try:
        lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    except OSError:
        return 0
    return next((int(line.split()[1]) * 1024 for line in lines if line.startswith("VmRSS")), 0)


class Agent:
    """An agent that edits: its calls, and how long the answers took."""

    def __init__(self, root: Path, home: Path) -> None:
        self.root = root
        self.socket_path = home / ".local/state/remit/daemon.sock"
        self.times: dict[tuple[str, str], list[float]] = {}

    def tell(self, kind: str, document: dict[str, object]) -> bytes:
        fields = [b"RMT1", version("remit").encode(), b"claude-code", kind.encode(), os.fsencode(self.root)]
        with socket.socket(socket.AF_UNIX) as line:
            line.connect(str(self.socket_path))
            line.sendall(b"\0".join(fields) + b"\0\0" + json.dumps(document).encode())
            line.shutdown(socket.SHUT_WR)
            return b"".join(iter(lambda: line.recv(1 << 16), b""))

    def edit(self, number: int, path: Path, lines: list[str], at: int, size: str) -> None:
        """Change one line of a file, between both hooks of the call."""
        old, new = lines[at], f"    changed {number} in {path.name}\n"
        call: dict[str, object] = {
            "session_id": "s1",
            "cwd": str(self.root),
            "tool_name": "Edit",
            "tool_use_id": f"t{number}",
            "tool_input": {"file_path": str(path), "old_string": old, "new_string": new},
        }
        self.time_call("pre", size, {**call, "hook_event_name": "PreToolUse"})
        lines[at] = new
        path.write_text("".join(lines))
        self.time_call("post", size, {**call, "hook_event_name": "PostToolUse", "tool_response": {}})

    def time_call(self, kind: str, size: str, document: dict[str, object]) -> None:
        began = time.perf_counter()
        reply = self.tell(kind, document)
        self.times.setdefault((kind, size), []).append(time.perf_counter() - began)
        if len(reply) < 10 or b"deny" in reply or b"Remit" in reply:
            raise SystemExit(f"{kind} {document['tool_use_id']}: {reply[10:600]!r}")


def make_repository(root: Path, home: Path, drawn: random.Random) -> dict[Path, list[str]]:
    files = {root / "src" / "large.py": make_lines(drawn, LARGE_BYTES)}
    files |= {root / "src" / f"f{n}.py": make_lines(drawn, SMALL_BYTES) for n in range(SMALL_FILES)}
    (root / "src").mkdir(parents=True)
    for path, lines in files.items():
        path.write_text("".join(lines))
    for words in (("init", "-q"), ("add", "-A"), ("-c", "user.name=b", "-c", "user.email=b@x", "commit", "-qm", "1")):
        subprocess.run(["git", *words], cwd=root, check=True)
    remit(root, home, "init", "--mode", "observe", "--yes")
    return files


def wait_for_rest(state: Path, sampler: Sampler) -> float:
    """Wait until nothing waits and the folder keeps its size; return the seconds that it took to get there."""
    began = changed = time.monotonic()
    size = -1
    while time.monotonic() - began < MAX_WAIT_S:
        now, waiting = folder_bytes(state), sum(map(file_bytes, (state / "contents").glob("waiting*")))
        sampler.look()
        if now != size or waiting:
            size, changed = now, time.monotonic()
        if time.monotonic() - changed > REST_S:
            break
        time.sleep(0.1)
    return changed - began


def measure(edits: int, home: Path) -> None:
    drawn = random.Random(7)
    root = home / "project"
    files = make_repository(root, home, drawn)
    state = root / ".git" / "remit"
    environ = {**os.environ, "HOME": str(home)}
    process = subprocess.Popen([sys.executable, "-I", "-c", MAIN, "daemon", "--idle-s", "900"], env=environ)
    try:
        agent = Agent(root, home)
        until = time.monotonic() + 20
        while not agent.socket_path.exists() and time.monotonic() < until:
            time.sleep(0.02)
        started = {"hook_event_name": "SessionStart", "source": "startup"}
        agent.tell("note", {"session_id": "s1", "cwd": str(root), **started})
        sampler = Sampler(process.pid, state)
        sampler.start()
        large, *small = files
        began = time.perf_counter()
        for number in range(edits):
            is_large = number % LARGE_EVERY == 0
            path = large if is_large else small[number % len(small)]
            agent.edit(number, path, files[path], drawn.randrange(len(files[path])), "2 MB" if is_large else "1 KB")
        took = time.perf_counter() - began
        sampler.look()
        after = folder_bytes(state)
        rest_s = wait_for_rest(state, sampler)
        sampler.done.set()
        sampler.join()
    finally:
        process.terminate()
        process.wait()
    print(f"{edits} edits, every {LARGE_EVERY}th of a file of 2 MB, in {took:.1f} s")
    for name, times in sorted(agent.times.items()):
        ordered = sorted(times)
        p50, p95 = statistics.median(ordered) * 1000, ordered[int(len(ordered) * 0.95)] * 1000
        print(f"  {name[0]:<4} {name[1]}: p50 {p50:7.2f} ms   p95 {p95:7.2f} ms   max {ordered[-1] * 1000:7.1f} ms")
    print(f"  waiting contents, peak     {mib(sampler.waiting)}")
    print(f"  memory of the daemon, peak {mib(sampler.rss)}; at rest {mib(read_rss(process.pid) or sampler.rss)}")
    print(f"  .git/remit: peak {mib(sampler.folder)}, after the last edit {mib(after)}")
    print(f"  .git/remit: at rest {mib(folder_bytes(state))}, {rest_s:.1f} s after the last edit")


def main() -> None:
    with tempfile.TemporaryDirectory(prefix="remit-contents-") as name:
        home = Path(name).resolve()
        os.environ.pop("REMIT_INTENT", None)
        measure(int(sys.argv[1]) if len(sys.argv) > 1 else 120, home)


if __name__ == "__main__":
    main()

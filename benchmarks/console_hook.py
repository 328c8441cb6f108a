"""What an agent waits for while pages of the console compute: `python benchmarks/console_hook.py [--calls 200]`.

Fresh hook clients ask the daemon whose console a visitor reads: with nothing else to do, while two pages compute who
wrote a file of 5,000 lines and the figures of the repository, and while the same two commands run outside of the
daemon. The three take turns in one run, so that other work on the machine meets all of them. Nothing is asserted.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager
from importlib.metadata import version
from pathlib import Path
from typing import NamedTuple, cast

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))

from hook import MAIN, call, client, daemon, payload

from console.console_world import Browser
from console.large_session import append_events
from gate.driving import Agent, governed
from remit.console.server import ConsoleServer
from remit.servers.daemon import CONSOLE_AGENT
from remit.servers.daemon_client import ask_started_daemon
from remit.workspace.place.workspace import register_repository, workspace_at

LINES = 5000
RECORDS = 3000
TURNS = 5
BIG = "src/big.py"


class Origin(NamedTuple):
    """The address of a console in another process, as a browser of the tests needs it."""

    origin: str


class Address(NamedTuple):
    guard: Origin
    port: int


def make_world(folder: Path) -> tuple[Path, Path]:
    """Return a repository and a home: an agent wrote a long file, a person committed it and changed it since."""
    home, root = folder / "home", folder / "shop"
    for path in (home, root / "src"):
        path.mkdir(parents=True)
    os.environ["HOME"] = str(home)
    (home / ".gitconfig").write_text("[user]\n\tname = A\n\temail = a@example.org\n")
    git(root, "init", "-q")
    governed(root)
    register_repository(home, workspace_at(root, root))
    agent = Agent(root, home)
    agent.select()
    agent.write(BIG, "".join(f"def f{n}():\n    return {n}\n" for n in range(LINES // 2)))
    git(root, "add", "-A")
    git(root, "commit", "-qm", "first")
    append_events(root, home, RECORDS)
    return root, home


def git(root: Path, *words: str) -> None:
    subprocess.run(["git", "-C", str(root), *words], check=True, capture_output=True)


def pair(home: Path) -> Browser:
    """Open the console of the daemon, and return a paired visitor."""
    link = ask_started_daemon(home, version("remit"), CONSOLE_AGENT, "open", b"").stdout.decode().split()[0]
    origin, _, secret = link.partition("/pair#")
    browser = Browser(cast("ConsoleServer", Address(Origin(origin), int(origin.rpartition(":")[2]))))
    if (answer := browser.pair(secret)).status != 200:
        raise SystemExit(f"the console paired no browser: {answer.status} {answer.text[:200]}")
    return browser


class Visitor:
    """A process that reads a page whenever it is told to: what it reads must not wait with the calls that are timed."""

    def __init__(self, browser: Browser, address: str) -> None:
        words = [sys.executable, "-c", VISIT, str(browser.server.port), browser.host, browser.cookie, address]
        self.process = subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE)

    def read(self) -> None:
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.write(b"\n")
        self.process.stdin.flush()
        if (status := self.process.stdout.readline()) != b"200\n":
            raise SystemExit(f"the console answered {status!r}")


VISIT = """
import http.client, sys
port, host, cookie, address = sys.argv[1:]
for _ in sys.stdin:
    connection = http.client.HTTPConnection("127.0.0.1", int(port), timeout=90)
    connection.request("GET", address, headers={"Host": host, "Cookie": f"remit_read={cookie}"})
    response = connection.getresponse()
    response.read()
    print(response.status, flush=True)
    connection.close()
"""


@contextmanager
def repeating(*works: Callable[[], None]) -> Generator[list[int]]:
    """Do works again and again, each in a thread; how often they were done, in the end."""
    is_over = threading.Event()
    done: list[int] = []

    def repeat(work: Callable[[], None]) -> None:
        while not is_over.is_set():
            work()
            done.append(1)

    threads = [threading.Thread(target=repeat, args=(work,)) for work in works]
    for thread in threads:
        thread.start()
    try:
        yield done
    finally:
        is_over.set()
        for thread in threads:
            thread.join()


def main() -> None:
    words = argparse.ArgumentParser(description=__doc__)
    words.add_argument("--calls", type=int, default=200, help="of each of the three")
    given = words.parse_args()
    with tempfile.TemporaryDirectory(prefix="remit-hook.", ignore_cleanup_errors=True) as name:
        folder = Path(name).resolve()
        root, home = make_world(folder)
        process = daemon(home)
        try:
            measure(folder, root, home, given.calls // TURNS)
        finally:
            process.terminate()
            process.wait()


def measure(folder: Path, root: Path, home: Path, calls: int) -> None:
    program = client(folder / "client", home / ".local/state/remit/daemon.sock")
    if program is None:
        raise SystemExit("there is no C compiler here")
    browser = pair(home)
    body = payload(root, "PreToolUse", "Write", "w1", file_path=str(root / "src/app.py"), content="y" * 1024)
    call([program], payload(root, "PreToolUse", "Bash", "b", command="remit intent select INT-001"), root)

    def run(*command: str) -> None:
        niced = f"import os; os.nice(5); {MAIN}"
        subprocess.run([sys.executable, "-I", "-c", niced, *command, "--json"], cwd=root, capture_output=True)

    blame, metrics = Visitor(browser, f"/r/{root.name}/code/{BIG}.json"), Visitor(browser, f"/r/{root.name}/metrics")

    def read_blame() -> None:
        os.utime(root / BIG)  # an answer is kept while file and records stay
        blame.read()

    outside = (lambda: run("blame", BIG), lambda: run("stats"))
    ways: dict[str, tuple[Callable[[], None], ...]] = {
        "idle": (),
        "two pages compute": (read_blame, metrics.read),
        "the same outside": outside,
    }
    times: dict[str, list[float]] = {way: [] for way in ways}
    done = dict.fromkeys(ways, 0)
    for _ in range(TURNS):
        for way, works in ways.items():
            with repeating(*works) as finished:
                for _ in range(calls):
                    began = time.perf_counter()
                    call([program], body, root)
                    times[way].append(1000 * (time.perf_counter() - began))
            done[way] += len(finished)
    print(f"{calls * TURNS} calls each; milliseconds of a whole call; load {os.getloadavg()[0]:.1f}")
    idle = [statistics.median(times["idle"]), percentile(times["idle"])]
    for way, spent in times.items():
        found = [statistics.median(spent), percentile(spent)]
        print(
            f"{way:<20} median {found[0]:>7.1f} ({found[0] / idle[0]:.2f} x)   p99 {found[1]:>7.1f} "
            f"({found[1] / idle[1]:.2f} x)   computed {done[way]} times",
            flush=True,
        )
    print("asked: two pages compute, p99 <= 1.30 x idle")
    print(json.dumps({way: sorted(round(each, 1) for each in spent)[-5:] for way, spent in times.items()}))


def percentile(values: list[float]) -> float:
    return sorted(values)[min(len(values) - 1, int(0.99 * len(values)))]


if __name__ == "__main__":
    main()

"""What strangers' connections and a killed console cost: `python benchmarks/console_flood.py [--calls 200]`.

A paired browser asks for pages while 2,000 silent connections and 300 half-sent second requests are held; fresh hook
clients ask the daemon alone, and while pages are asked for without a pause, in turns of one run; the console is killed,
and its page asked for until it answers. Nothing is asserted: the bars of the design stand beside the figures.
"""

import argparse
import os
import resource
import signal
import socket
import statistics
import sys
import tempfile
import time
from collections.abc import Generator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))

from console_hook import TURNS, Visitor, make_world, pair, percentile, repeating
from hook import call, client, daemon, payload

from console.console_world import Browser
from remit.console.status import read_console_status

SILENT, HALF_SENT, PAGES = 2000, 300, 20
REQUEST = b"GET / HTTP/1.1\r\nHost: nobody\r\n\r\n"


@contextmanager
def holding(port: int, silent: int, half_sent: int) -> Generator[None]:
    with ExitStack() as held:
        for _ in range(half_sent):
            line = held.enter_context(socket.create_connection(("127.0.0.1", port), timeout=60))
            with suppress(OSError):  # it made room for another one
                line.sendall(REQUEST)
                line.recv(1 << 16)
                line.sendall(REQUEST[:20])
        for _ in range(silent):
            held.enter_context(socket.create_connection(("127.0.0.1", port)))
        yield


def show(what: str, times: list[float], bar: str = "") -> None:
    milliseconds = [1000 * each for each in times]
    worst = max(milliseconds)
    print(f"{what:<52} p50 {statistics.median(milliseconds):>7.1f} ms   worst {worst:>7.1f} ms   {bar}", flush=True)


def read_pages(browser: Browser) -> list[float]:
    """Return the times of the pages that were answered."""
    times: list[float] = []
    for _ in range(PAGES):
        began = time.perf_counter()
        if browser.get("/index.json").status == 200:
            times.append(time.perf_counter() - began)
    return times


def measure_pages(browser: Browser) -> None:
    for what, silent, half_sent in (
        ("quiet", 0, 0),
        (f"{SILENT} silent", SILENT, 0),
        (f"{SILENT} silent, {HALF_SENT} half-sent", SILENT, HALF_SENT),
    ):
        with holding(browser.server.port, silent, half_sent):
            times = read_pages(browser)
        show(f"page, {what}: {len(times)} of {PAGES} answered", times, "asked: 20 of 20")


def measure_hooks(root: Path, program: Path, browser: Browser, calls: int) -> None:
    body = payload(root, "PreToolUse", "Write", "w1", file_path=str(root / "src/app.py"), content="y" * 1024)
    call([program], payload(root, "PreToolUse", "Bash", "b", command="remit intent select INT-001"), root)
    readers = [Visitor(browser, address) for address in ("/", f"/r/{root.name}/ledger", f"/r/{root.name}/sessions")]
    ways = {"alone": [], "pages without a pause": [reader.read for reader in readers]}
    times: dict[str, list[float]] = {way: [] for way in ways}
    done = 0
    for _ in range(TURNS):
        for way, works in ways.items():
            with repeating(*works) as finished:
                for _ in range(calls // TURNS):
                    began = time.perf_counter()
                    call([program], body, root)
                    times[way].append(time.perf_counter() - began)
            done += len(finished)
    ratio = statistics.median(times["pages without a pause"]) / statistics.median(times["alone"])
    for way, spent in times.items():
        show(f"hook, {way} (p99 {1000 * percentile(spent):.1f} ms)", spent)
    print(f"hooks' p50 while {done} pages are read: {ratio:.2f} x alone   asked: 1.20 x")


def measure_restart(home: Path, browser: Browser) -> None:
    found = read_console_status(home)
    if found is None or found.process is None:
        raise SystemExit("there is no console")
    os.kill(found.process.pid, signal.SIGKILL)
    began = time.perf_counter()
    while Path(f"/proc/{found.process.pid}").exists():
        time.sleep(0.001)
    while True:
        with suppress(OSError):
            if browser.get("/index.json").status == 200:
                break
    show("page after the console was killed", [time.perf_counter() - began], "asked: 2,000 ms")


def main() -> None:
    words = argparse.ArgumentParser(description=__doc__)
    words.add_argument("--calls", type=int, default=200, help="of each of the two")
    given = words.parse_args()
    most = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(most, 16_384), most))
    with tempfile.TemporaryDirectory(prefix="remit-flood.", ignore_cleanup_errors=True) as name:
        folder = Path(name).resolve()
        root, home = make_world(folder)
        process = daemon(home)
        try:
            program = client(folder / "client", home / ".local/state/remit/daemon.sock")
            if program is None:
                raise SystemExit("there is no C compiler here")
            browser = pair(home)
            measure_pages(browser)
            measure_hooks(root, program, browser, given.calls)
            measure_restart(home, browser)
            print(f"load {os.getloadavg()[0]:.1f}")
        finally:
            process.terminate()
            process.wait()


if __name__ == "__main__":
    main()

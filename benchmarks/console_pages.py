"""What the console's pages cost while agents work: `python -m benchmarks.console_pages [--seconds 10] [--tabs 12]`.

Fifty sessions write twenty records a second each into a real log. A browser has the page Now, the page of one of the
sessions, or many of its pages open. Told are the share of a core that the page's main thread is busy, its longest task,
the server's processor time and memory, and whether every page followed to the last record. Then a session of 10,000
records and a file of 20,000 lines are opened. Nothing is asserted: the table is the result.
"""

import argparse
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

from playwright.sync_api import Browser, BrowserContext, CDPSession, Page, sync_playwright

from console.large_session import SESSION, append_events, make_body
from gate.driving import governed, machine
from remit.console.server import ConsoleServer
from remit.gate.gate import Gate
from remit.workspace.place.workspace import locate_workspace, register_repository, workspace_at

SESSIONS, RATE = 50, 20
FLAGS = ["--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking"]
WATCH_TASKS = """() => {
  let longest = 0;
  self.readLongest = () => longest;
  const note = (list) => { for (const each of list.getEntries()) longest = Math.max(longest, each.duration); };
  new PerformanceObserver(note).observe({ type: "longtask" });
}"""


def serve(home: Path) -> None:
    """Serve the console of a home until standard input ends; a line in gives a link out."""
    server = ConsoleServer(lambda: machine(home), 0)
    server.start()
    for _ in sys.stdin:
        print(json.dumps({"link": server.make_link(), "origin": server.guard.origin}), flush=True)
    server.stop()


@contextmanager
def console_process(home: Path) -> Generator[subprocess.Popen[str]]:
    command = [sys.executable, "-m", "benchmarks.console_pages", "--serve", str(home)]
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    try:
        yield process
    finally:
        assert process.stdin
        process.stdin.close()
        process.wait(10)


def ask_link(process: subprocess.Popen[str]) -> dict[str, str]:
    assert process.stdin
    assert process.stdout
    process.stdin.write("\n")
    process.stdin.flush()
    answer: dict[str, str] = json.loads(process.stdout.readline())
    return answer


def write_records(root: Path, home: Path, seconds: float, stop: threading.Event) -> int:
    """Append RATE records a second to each session, for some seconds."""
    gate = Gate(locate_workspace(root), machine(home))
    began, rounds = time.monotonic(), 0
    while time.monotonic() - began < seconds and not stop.is_set():
        batch = [
            gate.recorder.make_record(make_body(rounds, f"agent-{number}"), "claude-code") for number in range(SESSIONS)
        ]
        gate.recorder.append_or_spool(batch)
        rounds += 1
        wait = began + rounds / RATE - time.monotonic()
        if wait > 0:
            time.sleep(wait)
    gate.close()
    return rounds


def read_process(pid: int) -> tuple[float, float]:
    """Return the processor seconds and the resident megabytes of a process."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    ticks = os.sysconf("SC_CLK_TCK")
    pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    return (int(fields[11]) + int(fields[12])) / ticks, pages * os.sysconf("SC_PAGE_SIZE") / 1e6


def open_metrics(context: BrowserContext, page: Page) -> CDPSession:
    session = context.new_cdp_session(page)
    session.send("Performance.enable")  # pyright: ignore[reportUnknownMemberType]
    return session


def read_busy_s(session: CDPSession) -> float:
    """Return the seconds that a page's main thread has worked since its metrics were opened."""
    found = json.loads(json.dumps(session.send("Performance.getMetrics")))  # pyright: ignore[reportUnknownMemberType]
    return next(float(metric["value"]) for metric in found["metrics"] if metric["name"] == "TaskDuration")


def measure_live(
    browser: Browser, process: subprocess.Popen[str], root: Path, home: Path, name: str, arguments: argparse.Namespace
) -> None:
    """Print what pages cost while the sessions work."""
    link = ask_link(process)
    context = browser.new_context(viewport={"width": 1389, "height": 868})
    first = context.new_page()
    first.goto(link["link"])
    first.wait_for_url(f"{link['origin']}/")
    tabs = arguments.tabs if name == "tabs" else 1
    places = ["/"] if name == "now" else [f"/r/{root.name}/sessions/agent-{n}" for n in range(tabs)]
    pages = [first, *(context.new_page() for _ in places[1:])]
    for page, place in zip(pages, places, strict=True):
        page.goto(f"{link['origin']}{place}")
        page.locator("[data-live].on").wait_for(state="attached", timeout=20_000)
        page.evaluate(WATCH_TASKS)
    metrics = [open_metrics(context, page) for page in pages]
    before = [read_busy_s(each) for each in metrics]
    cpu, _ = read_process(process.pid)
    began, stop = time.monotonic(), threading.Event()
    written: list[int] = []
    writer = threading.Thread(target=lambda: written.append(write_records(root, home, arguments.seconds, stop)))
    writer.start()
    writer.join()
    elapsed = time.monotonic() - began
    after = [read_busy_s(each) for each in metrics]
    cpu_after, megabytes = read_process(process.pid)
    busy = [100 * (late - early) / elapsed for early, late in zip(before, after, strict=True)]
    longest = max(float(page.evaluate("readLongest()")) for page in pages)
    time.sleep(1.0)
    followed = sum(is_at_end(page, link["origin"], place) for page, place in zip(pages, places, strict=True))
    rate = written[0] * SESSIONS / elapsed
    nodes = max(int(page.evaluate("document.getElementsByTagName('*').length")) for page in pages)
    print(
        f"{name:6} {len(pages):3} pages  {rate:6.0f} records/s  page busy {statistics.median(busy):5.1f} % "
        f"(most {max(busy):.1f} %)  longest task {longest:4.0f} ms  server {100 * (cpu_after - cpu) / elapsed:5.1f} % "
        f"of a core, {megabytes:.0f} MB  {nodes} nodes  at the end: {followed} of {len(pages)}",
        flush=True,
    )
    context.close()


def is_at_end(page: Page, origin: str, place: str) -> bool:
    """Return whether a page shows the newest record of its session."""
    if place == "/":
        return True
    answer = page.evaluate(f"fetch('{place}.json').then((answer) => answer.json())")["data"]
    newest = answer["rows"][-1]["key"]
    return bool(page.evaluate("(key) => Boolean(document.querySelector(`[data-key='${key}']`))", newest))


def measure_opening(browser: Browser, process: subprocess.Popen[str], root: Path) -> None:
    """Print how long a long session and a long file take to open, and to jump in."""
    link = ask_link(process)
    context = browser.new_context(viewport={"width": 1389, "height": 868})
    page = context.new_page()
    page.goto(link["link"])
    page.wait_for_url(f"{link['origin']}/")
    for name, place, part in (
        ("session of 10,000", f"/r/{root.name}/sessions/{SESSION}", "rows"),
        ("file of 20,000 lines", f"/r/{root.name}/code/src/big.py", "source"),
    ):
        paints: list[float] = []
        for _ in range(3):
            page.goto(f"{link['origin']}{place}")
            page.wait_for_timeout(300)
            paints.append(page.evaluate("performance.getEntriesByType('paint').at(-1).startTime"))
        jumps = [measure_jump(page, place, part, start) for start in (1000, 4000, 7000, 2500, 9000)]
        nodes = int(page.evaluate("document.getElementsByTagName('*').length"))
        print(
            f"{name:22} first paint {statistics.median(paints):4.0f} ms (first time {paints[0]:.0f})  "
            f"jump median {statistics.median(jumps):4.0f}, most {max(jumps):.0f} ms  {nodes} nodes",
            flush=True,
        )
    context.close()


def measure_jump(page: Page, place: str, part: str, start: int) -> float:
    script = f"""async () => {{
      const began = performance.now();
      const answer = await fetch("{place}?from={start}", {{ headers: {{ "Remit-Part": "{part}" }} }});
      const holder = document.createElement("div");
      const html = await answer.text();
      const {{ putPart }} = await import(document.body.dataset.static + "/parts.js");
      putPart(document.querySelector('[data-part="{part}"]') ?? holder, html);
      await new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)));
      return performance.now() - began;
    }}"""
    return float(page.evaluate(script))


def make_world(folder: Path) -> tuple[Path, Path]:
    home, root = folder / "home", folder / "busy"
    for path in (home, root, root / "src"):
        path.mkdir()
    os.environ["HOME"] = str(home)
    (home / ".gitconfig").write_text("[user]\n\tname = A\n\temail = a@example.org\n")
    (root / "src" / "big.py").write_text(
        "".join(f"def f{n}(x: int) -> str:\n    return 'a'  # {n}\n" for n in range(10_000))
    )
    for command in (["init", "-q"], ["add", "-A"], ["commit", "-qm", "first"]):
        subprocess.run(["git", "-C", str(root), *command], check=True, capture_output=True)
    governed(root)
    register_repository(home, workspace_at(root, root))
    for number in range(SESSIONS):
        append_events(root, home, 3, f"agent-{number}")
    return root, home


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=10.0)
    parser.add_argument("--tabs", type=int, default=12)
    parser.add_argument("--serve", type=Path, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.serve:
        serve(arguments.serve)
        return
    program = shutil.which("chromium")
    if program is None:
        sys.exit("there is no chromium on this machine")
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        root, home = make_world(Path(folder))
        with console_process(home) as process, sync_playwright() as playwright:
            browser = playwright.chromium.launch(executable_path=program, args=FLAGS)
            for name in ("session", "now", "tabs"):
                measure_live(browser, process, root, home, name, arguments)
            append_events(root, home, 10_000)
            measure_opening(browser, process, root)
            browser.close()


if __name__ == "__main__":
    main()

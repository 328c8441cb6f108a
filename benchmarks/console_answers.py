"""What a person waits for at the console: `.venv/bin/python -m benchmarks.console_answers [--rounds 20]`.

An agent's hook asks, the card appears in a browser, a key answers, the hook is released: with a daemon that holds the
waiting call, and with a fresh process that holds it. A calibration loop stands beside each figure: other work on the
machine moves both. Nothing is asserted: the table is the result, beside the bars of the design.
"""

import argparse
import json
import os
import shutil
import sqlite3
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from contextlib import closing
from datetime import datetime
from importlib.metadata import version
from pathlib import Path

from playwright.sync_api import Page, sync_playwright

from remit.gate.gate import Gate
from remit.servers.daemon import CONSOLE_AGENT, socket_path
from remit.servers.daemon_client import ask_started_daemon
from remit.servers.environment import make_environment
from remit.wiring.hook_client import install_script
from remit.workspace.place.workspace import locate_workspace

MAIN = "from remit.cli import main; main()"
FLAGS = ["--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking"]
DEAD_S = 0.45  # a card takes no key before
TIMEOUT_S = 30.0

STAMPS = """
self.cards = {}; self.keys = {};
const now = () => (performance.timeOrigin + performance.now()) / 1000;
const look = () => {
  const id = document.querySelector("[data-card]")?.dataset.card;
  if (id && !self.cards[id]) { self.cards[id] = 0; requestAnimationFrame(() => { self.cards[id] = now(); }); }
};
addEventListener("DOMContentLoaded", () => {
  look();
  new MutationObserver(look).observe(document.body, { childList: true, subtree: true });
});
addEventListener("keydown", () => { self.keys[document.querySelector("[data-card]")?.dataset.card] = now(); }, true);
"""
"""Times of cards, at the frame after their arrival, and of keys: seconds since the epoch."""


class Round:
    """One question: its times in seconds since the epoch."""

    def __init__(self, asked: float, shown: float, pressed: float, answered: float, woken: float, ended: float) -> None:
        self.to_card = shown - asked
        self.to_wake = woken - pressed
        self.wake = woken - answered
        self.to_end = ended - pressed


def make_repository(folder: Path, home: Path) -> Path:
    root = folder / "repo"
    root.mkdir()
    environ = {**os.environ, "HOME": str(home)}
    for words in (
        ["git", "init", "-q"],
        [sys.executable, "-I", "-c", MAIN, *["init", "--yes", "--no-agents", "--mode", "enforce"]],
    ):
        subprocess.run(words, cwd=root, env=environ, check=True, capture_output=True)
    return root


def run_hook(command: list[str], root: Path, home: Path, payload: dict[str, object]) -> subprocess.Popen[bytes]:
    process = subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, cwd=root, env={**os.environ, "HOME": str(home)}
    )
    assert process.stdin is not None
    process.stdin.write(json.dumps(payload).encode())
    process.stdin.close()
    process.stdin = None
    return process


def read_times(root: Path) -> tuple[str, float, float]:
    """Return the newest question's id, when it was stored, and when it was answered."""
    with closing(sqlite3.connect(root / ".git/remit/state.db")) as state:
        row = state.execute("SELECT id, question, answered_at FROM approvals ORDER BY rowid DESC LIMIT 1").fetchone()
    return row[0], float(json.loads(row[1])["asked_at"]), float(row[2])


def read_woken(root: Path) -> float:
    """Return when the waiting call took its answer: the time of its record."""
    lines = [line for log in (root / ".git/remit/log").rglob("*.jsonl") for line in log.read_text().splitlines()]
    times = [json.loads(line)["timestamp"] for line in lines if '"approval_answered"' in line]
    return max(datetime.fromisoformat(time).timestamp() for time in times)


def wait_for_presence(home: Path, root: Path) -> None:
    """Wait until the console has signed that a person can answer."""
    until = time.monotonic() + TIMEOUT_S
    while time.monotonic() < until:
        gate = Gate(locate_workspace(root), make_environment({"HOME": str(home)}))
        is_present = gate.questions.is_watcher_present()
        gate.close()
        if is_present:
            return
        time.sleep(0.1)
    raise SystemExit("the console never signed")


def wait_for(page: Page, expression: str) -> float:
    until = time.monotonic() + TIMEOUT_S
    while not (found := page.evaluate(expression)):
        if time.monotonic() > until:
            raise SystemExit(f"nothing came: {expression}")
        time.sleep(0.02)
    return float(found)


def measure(page: Page, root: Path, home: Path, command: list[str], number: int) -> Round:
    payload: dict[str, object] = {"session_id": "s1", "cwd": str(root), "hook_event_name": "PreToolUse"}
    payload |= {"tool_name": "Write", "tool_use_id": f"t{number}"}
    payload |= {"tool_input": {"file_path": str(root / f"docs/{number}.md"), "content": "x\n"}}
    process = run_hook(command, root, home, payload)
    released: list[float] = []

    def wait() -> None:
        process.communicate(timeout=60)
        released.append(time.time())

    thread = threading.Thread(target=wait)
    thread.start()
    until = time.monotonic() + TIMEOUT_S
    wait_for(
        page,
        "Object.values(self.cards).at(-1) || 0"
        if number == 0
        else f"Object.keys(self.cards).length > {number} && Object.values(self.cards).at(-1) || 0",
    )
    name, asked, _ = read_times(root)
    shown = wait_for(page, f"self.cards[{name!r}] || 0")
    time.sleep(DEAD_S)
    page.keyboard.press("y")
    thread.join(TIMEOUT_S)
    if not released or time.monotonic() > until + TIMEOUT_S:
        raise SystemExit("the hook was not released")
    pressed = float(page.evaluate(f"self.keys[{name!r}]"))
    answered = read_times(root)[2]
    wait_for(page, "document.querySelector('[data-card]') ? 0 : 1")
    return Round(asked, shown, pressed, answered, read_woken(root), released[0])


def calibrate() -> float:
    """Return the milliseconds of a loop that does nothing but count: about 25 on an idle machine of 2025."""
    times: list[float] = []
    for _ in range(5):
        began = time.perf_counter()
        sum(range(1_000_000))
        times.append(1000 * (time.perf_counter() - began))
    return statistics.median(times)


def show(title: str, seconds: list[float], bar: str) -> None:
    ordered = sorted(1000 * each for each in seconds)
    p90 = ordered[min(len(ordered) - 1, round(0.9 * len(ordered)))]
    print(f"{title:<46} {statistics.median(ordered):>7.1f} {p90:>7.1f} {ordered[-1]:>7.1f}   {bar}", flush=True)


def main() -> None:
    """Serve a console in a home of its own, and answer."""
    words = argparse.ArgumentParser(description=__doc__)
    words.add_argument("--rounds", type=int, default=20)
    given = words.parse_args()
    chromium = shutil.which("chromium")
    if chromium is None:
        raise SystemExit("there is no chromium on this machine")
    folder = Path(tempfile.mkdtemp(prefix="remit-console."))
    home = folder / "home"
    home.mkdir()
    daemon = subprocess.Popen(
        [sys.executable, "-I", "-c", MAIN, "daemon", "--idle-s", "300"], env={**os.environ, "HOME": str(home)}
    )
    try:
        root = make_repository(folder, home)
        until = time.monotonic() + TIMEOUT_S
        while not socket_path(home).exists() and time.monotonic() < until:
            time.sleep(0.05)
        link = ask_started_daemon(home, version("remit"), CONSOLE_AGENT, "open", b"").stdout.decode()
        client = home / "hook"
        install_script(client)
        settings = (version("remit"), sys.executable, str(socket_path(home)), "20")
        client.with_name("hook.conf").write_text("".join(f"{line}\n" for line in settings))
        fresh = [sys.executable, "-I", "-c", MAIN, "hook", "claude-code", "pre"]
        with sync_playwright() as playwright:
            browser = playwright.chromium.launch(executable_path=chromium, args=FLAGS)
            page = browser.new_page()
            page.goto(link)
            page.wait_for_url("**/")
            page.add_init_script(STAMPS)
            page.goto(f"{link.partition('/pair')[0]}/approvals")
            page.locator("[data-live].on").wait_for(state="attached")
            wait_for_presence(home, root)
            print(f"{given.rounds} questions each; milliseconds{'':<18} {'median':>7} {'p90':>7} {'most':>7}   bar")
            number = 0
            for holder, command, bar in (
                ("the daemon", [str(client), "claude-code", "pre"], "10 median"),
                ("a fresh process", fresh, "50 median"),
            ):
                rounds: list[Round] = []
                for _ in range(given.rounds):
                    rounds.append(measure(page, root, home, command, number))
                    number += 1
                print(f"held by {holder}; calibration loop {calibrate():.1f} ms, load {os.getloadavg()[0]:.1f}")
                show("  question stored → card in the page", [each.to_card for each in rounds], "150 median, 400 most")
                show("  answer stored → waiting call goes on", [each.wake for each in rounds], "")
                show("  `y` pressed → waiting call goes on", [each.to_wake for each in rounds], bar)
                show("  `y` pressed → hook's process ended", [each.to_end for each in rounds], "")
            browser.close()
    finally:
        daemon.terminate()
        daemon.wait(20)
        shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    main()

"""Every signed write of the console: nobody below an agent makes one, and a worker that dies loses nothing."""

import os
import re
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from cli.running import data
from console.console_world import Browser, serving
from console.test_console import ATTEMPT
from gate.driving import Agent, governed, records
from remit.console.pages.recovery import list_points
from remit.console.routes import WRITES
from remit.console.server import ConsoleServer
from remit.console.workers import WorkerPool
from remit.workspace.place.workspace import register_repository, workspace_at


@pytest.fixture
def agent(repository: Path, home: Path) -> Agent:
    governed(repository)
    register_repository(home, workspace_at(repository, repository))
    found = Agent(repository, home)
    found.select()
    (repository / "src" / "new.py").write_text("fresh = 1\n")
    found.shell("rm -f src/new.py")
    return found


@pytest.fixture
def server(agent: Agent) -> Iterator[ConsoleServer]:
    with serving(agent.home) as found:
        yield found


@pytest.fixture
def browser(server: ConsoleServer) -> Browser:
    found = Browser(server)
    assert found.pair().status == 200
    return found


def addresses(agent: Agent) -> list[str]:
    values = {"repository": agent.cwd.name, "intent": "INT-001", "point": "latest", "grant": "g-1"}
    return [re.sub(r"\{(\w+)\}", lambda match: values.get(match[1], "x"), write.url) for write in WRITES]


@pytest.mark.skipif(sys.platform != "linux", reason="/proc is Linux's")
def test_no_write_is_made_by_a_process_below_an_agent(agent: Agent, browser: Browser, tmp_path: Path) -> None:
    """Even with the browser's own key and cookie: a program named `claude` started the one that asks."""
    claude = tmp_path / "claude"
    claude.write_text(
        f"import subprocess, sys\nsys.exit(subprocess.run([{sys.executable!r}, *sys.argv[1:]]).returncode)\n"
    )
    before = (agent.cwd / ".orchestration" / "active_intents.yaml").read_bytes()
    for path in addresses(agent):
        words = [str(browser.server.port), path, "{}", browser.host, f"remit_read={browser.cookie}"]
        command = [sys.executable, str(claude), "-c", ATTEMPT, *words, browser.proof("POST", path, b"{}")]
        assert subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip() == "403", path
        denied = records(agent.cwd, "denied")[-1]["metadata"]["dev.remit"]
        assert path in denied["violation"]["error"], path
    assert (agent.cwd / ".orchestration" / "active_intents.yaml").read_bytes() == before
    assert not (agent.cwd / "src" / "new.py").exists()


def test_no_write_is_made_without_a_signature_or_with_strange_words(agent: Agent, browser: Browser) -> None:
    for path in addresses(agent):
        assert browser.post(path, {}, proof="").status == 401, path
        assert browser.get(path).status in (200, 404, 405), path
        bodies: list[object] = [[], {"strange": 1}, "x", None]
        for body in bodies:
            assert browser.post(path, body).status in (400, 404, 409), (path, body)
        assert "Traceback" not in browser.post(path, {"strange": "\ud800"}).text


def find_worker(pool: WorkerPool) -> int:
    return pool.idle[0].process.pid


def test_a_worker_that_was_killed_is_replaced(agent: Agent) -> None:
    pool = WorkerPool()
    root = str(agent.cwd)
    assert len(pool.call_function(root, None, list_points, 10).points) == 1
    first = find_worker(pool)
    os.kill(first, signal.SIGKILL)
    pool.idle[0].process.wait()
    assert len(pool.call_function(root, None, list_points, 10).points) == 1
    second = find_worker(pool)
    assert second != first
    pool.close()
    assert not Path(f"/proc/{second}").exists() or sys.platform != "linux"


def test_a_worker_ends_with_the_process_that_asked(agent: Agent) -> None:
    pool = WorkerPool()
    pool.call_function(str(agent.cwd), None, list_points, 10)
    process = pool.idle[0].process
    assert process.stdin is not None
    process.stdin.close()
    assert process.wait(60) == 0
    pool.close()


def test_two_restores_at_once_end_in_one_state_and_nothing_is_lost(agent: Agent, browser: Browser) -> None:
    at = f"/r/{agent.cwd.name}/restore/latest"
    sha = browser.get(f"{at}.json").data["preview"]["plan_sha256"]
    answers: list[int] = []

    def restore() -> None:
        answers.append(browser.post(at, {"plan_sha256": sha}).status)

    threads = [threading.Thread(target=restore) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(120)
    assert sorted(set(answers)) in ([200, 409], [200])
    assert answers.count(200) == 1
    assert (agent.cwd / "src" / "new.py").read_text() == "fresh = 1\n"
    kinds = [point["before"] for point in data(agent.cwd, "restore", "list")]
    assert kinds.count("restore") == 1
    assert len(records(agent.cwd, "restore")) == 1

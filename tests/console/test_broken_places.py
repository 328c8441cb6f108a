"""What is broken below the console has a page with the next step, on every page, and is never a defect of the page."""

import os
import resource
import shutil
from collections.abc import Callable, Iterator
from concurrent.futures import wait
from pathlib import Path
from urllib.parse import quote

import pytest

from conftest import run_git
from console.console_world import Browser, serving
from console.hostile_world import ShownPage
from console.test_console import addresses
from gate.driving import Agent, governed
from remit.console.server import ConsoleServer
from remit.gate.gate import Gate
from remit.workspace.place.workspace import register_repository, workspace_at


@pytest.fixture
def agent(repository: Path, home: Path) -> Agent:
    governed(repository)
    register_repository(home, workspace_at(repository, repository))
    found = Agent(repository, home)
    found.select()
    found.write("src/app.py", "two\n")
    found.shell("echo more >> src/app.py")
    run_git(repository, "add", "-A")
    run_git(repository, "commit", "-qm", "work")
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


def log_file(root: Path) -> Path:
    return next(path for path in Gate.open(root).workspace.log_folder.rglob("*.jsonl") if path.stat().st_size)


def break_log(root: Path) -> None:
    lines = log_file(root).read_bytes().split(b"\n")
    lines[1] = b'{"version": "0.1.0", "id": [' + lines[1][:40]
    log_file(root).write_bytes(b"\n".join(lines))


def damage_index(root: Path) -> None:
    for path in Gate.open(root).workspace.state.glob("*.db*"):
        if "state" not in path.name:
            path.write_bytes(b"no database " * 300)


def damage_state(root: Path) -> None:
    for path in Gate.open(root).workspace.state.glob("state.db*"):
        path.write_bytes(b"no database " * 300)


BREAKAGES: dict[str, Callable[[Path], object]] = {
    "no folder": shutil.rmtree,
    "a file in its place": lambda root: (shutil.rmtree(root), root.write_text("x")),
    "broken settings": lambda root: (root / ".orchestration" / "remit.toml").write_text("mode = [\n"),
    "broken intents": lambda root: (root / ".orchestration" / "active_intents.yaml").write_text("active_intents: [\n"),
    "settings that are a folder": lambda root: (
        (root / ".orchestration" / "remit.toml").unlink(),
        (root / ".orchestration" / "remit.toml").mkdir(),
    ),
    "a broken log": break_log,
    "no log": lambda root: shutil.rmtree(Gate.open(root).workspace.log_folder),
    "a damaged index": damage_index,
    "a damaged state": damage_state,
    "no git folder": lambda root: shutil.rmtree(root / ".git"),
    "a broken HEAD": lambda root: (root / ".git" / "HEAD").write_text("nonsense\n"),
}


@pytest.mark.parametrize("name", BREAKAGES)
def test_what_is_broken_has_pages_with_the_next_step(name: str, agent: Agent, browser: Browser) -> None:
    asked = addresses(agent)
    BREAKAGES[name](agent.cwd)
    wrong: list[str] = []
    for address in asked:
        page = browser.get(address)
        twin = browser.get("/index.json" if address == "/" else f"{address}.json")
        text = " ".join(ShownPage(page.text).text.split())
        is_apart = address.endswith("/changes") and page.status == 200  # the page is there before its answers
        if (
            page.status == 500
            or (page.status != twin.status and not is_apart)
            or (page.status != 200 and "Next:" not in text)
        ):
            wrong.append(f"{address}: {page.status}, {twin.status}: {text[:300]}")
    assert wrong == []
    assert browser.get("/").status == 200


def test_a_full_disk_breaks_no_page(agent: Agent, browser: Browser) -> None:
    """No file of this process may grow: what a page would write fails as it does on a full disk."""
    asked = addresses(agent)
    agent.write("src/b.py", "not indexed yet\n")
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, before[1]))
    try:
        answers = {address: browser.get(address) for address in asked}
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
        repositories = browser.server.console.repositories
        wait([answer for _, answer in list(repositories.heavy.answers.values())])  # its worker would come back after
        pool = repositories.workers
        pool.close()  # these processes have the limit for good
        pool.is_closed = False
    for address, page in answers.items():
        text = ShownPage(page.text).text
        assert page.status in (200, 503), (address, page.status, text[:300])
        assert page.status == 200 or "Next:" in text, (address, text)
    assert {address: found.status for address in asked if (found := browser.get(address)).status != 200} == {}


def test_a_repository_without_commits_and_one_without_records_have_pages(tmp_path: Path, home: Path) -> None:
    root = tmp_path / "young"
    root.mkdir()
    run_git(root, "init", "-q")
    governed(root)
    register_repository(home, workspace_at(root, root))
    with serving(home) as server:
        browser = Browser(server)
        browser.pair()
        for page in ("intents", "sessions", "code", "agents", "changes", "restore", "governed", "metrics", "ledger"):
            found = browser.get(f"/r/young/{page}")
            assert found.status == 200, (page, ShownPage(found.text).text)


def test_a_repository_whose_folder_is_no_text_has_pages(tmp_path: Path, home: Path) -> None:
    root = Path(os.fsdecode(os.fsencode(tmp_path) + b"/caf\xe9"))
    root.mkdir()
    run_git(root, "init", "-q")
    (root / "a.py").write_text("one\n")
    run_git(root, "add", "-A")
    run_git(root, "commit", "-qm", "first")
    governed(root)
    register_repository(home, workspace_at(root, root))
    with serving(home) as server:
        browser = Browser(server)
        browser.pair()
        (repository,) = browser.get("/index.json").data["repositories"]
        base = f"/r/{quote(repository['name'])}"
        pages = ("intents", "sessions", "code", "code/a.py", "agents", "changes", "restore", "governed", "metrics")
        for address in ("/", "/settings", "/search?q=a", "/approvals", *(f"{base}/{page}" for page in pages)):
            found = browser.get(address)
            assert found.status == 200, (address, ShownPage(found.text).text)
            path, _, query = address.partition("?")
            twin = browser.get("/index.json" if path == "/" else f"{path}.json?{query}")
            assert twin.status == 200, (address, twin.text)

"""The page Recovery over a real socket: its JSON is the command's, and a restore does what was shown, or nothing."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from cli.running import data
from conftest import run_git
from console.console_world import Browser, serving
from gate.driving import Agent, body, governed, records
from remit.console.server import ConsoleServer
from remit.workspace.place.workspace import register_repository, workspace_at
from remit.workspace.safe_files import try_lock
from remit.workspace.snapshots.data_store import DataStore
from remit.workspace.snapshots.snapshot import Occasion

HOSTILE = "<img src=x onerror=alert(1)>\u202e"


@pytest.fixture
def agent(repository: Path, home: Path) -> Agent:
    """An agent that lost what nobody had committed."""
    governed(repository, "observe")
    register_repository(home, workspace_at(repository, repository))
    found = Agent(repository, home)
    found.select()
    (repository / "src" / "new.py").write_text("fresh = 1\n")
    (repository / "src" / HOSTILE.replace("/", "_")).write_text(f"{HOSTILE}\n")
    (repository / "README.md").write_text("edited\n")
    found.shell("git reset -q --hard && git clean -fdq src && rm -rf src")
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


def place(agent: Agent, *parts: str) -> str:
    return "/".join((f"/r/{agent.cwd.name}/restore", *parts))


def newest(agent: Agent) -> str:
    return str(data(agent.cwd, "restore", "list")[0]["id"])


def preview(browser: Browser, agent: Agent, name: str = "latest") -> dict[str, Any]:
    found = browser.get(place(agent, f"{name}.json"))
    assert found.status == 200, found.text
    return dict(found.data)


def restore(browser: Browser, agent: Agent, name: str, shown: dict[str, Any], **fields: Any) -> Any:
    return browser.post(place(agent, name), {"plan_sha256": shown["preview"]["plan_sha256"], **fields})


def test_the_list_and_the_preview_are_those_of_the_command(agent: Agent, browser: Browser) -> None:
    assert browser.get(place(agent) + ".json").data["points"] == data(agent.cwd, "restore", "list")
    shown = preview(browser, agent)
    assert shown["preview"]["plan"] == data(agent.cwd, "restore", "latest", "--preview")
    assert shown["words"].startswith("before git reset -q --hard")
    page = browser.get(place(agent, newest(agent))).text
    assert "<img" not in page
    assert "\u202e" not in page
    changes = {file["path"]: (file["change"], file["diff"]) for file in shown["preview"]["files"]}
    assert changes["src/new.py"] == ("create", "@@ -0,0 +1 @@\n+fresh = 1")
    assert changes["README.md"][0] == "write"


def test_a_copy_of_runtime_data_is_listed_with_the_command_that_brings_it_back(agent: Agent, browser: Browser) -> None:
    store = DataStore(workspace_at(agent.cwd, agent.cwd))
    version = store.copy_file("README.md")
    assert version is not None
    point = store.write_point(Occasion("call", command=HOSTILE), {"README.md": version}, agent.environment.clock.now())
    assert point is not None
    points = browser.get(place(agent) + ".json").data["points"]
    assert points == data(agent.cwd, "restore", "list")
    assert points[0]["data"] == ["README.md"]
    page = browser.get(place(agent)).text
    assert f"remit restore {point.name}" in page
    assert f"/restore/{point.name}" not in page
    assert "<img" not in page


def test_untracked_files_come_back_byte_for_byte_and_the_restore_is_undone(agent: Agent, browser: Browser) -> None:
    head = run_git(agent.cwd, "rev-parse", "HEAD")
    done = restore(browser, agent, newest(agent), preview(browser, agent))
    assert done.status == 200, done.text
    assert (agent.cwd / "src" / "new.py").read_bytes() == b"fresh = 1\n"
    assert (agent.cwd / "README.md").read_text() == "edited\n"
    assert run_git(agent.cwd, "rev-parse", "HEAD") == head
    assert body(records(agent.cwd, "restore")[-1])["saved"] == done.data["saved"]
    assert browser.get(place(agent) + ".json").data["undoable"] == done.data["saved"]
    undone = restore(browser, agent, "undo", preview(browser, agent, "undo"))
    assert undone.status == 200, undone.text
    assert not (agent.cwd / "src").exists()


def test_chosen_files_alone_come_back(agent: Agent, browser: Browser) -> None:
    assert restore(browser, agent, "latest", preview(browser, agent), only=["src/new.py"]).status == 200
    assert sorted(path.name for path in (agent.cwd / "src").iterdir()) == ["new.py"]
    assert restore(browser, agent, "latest", preview(browser, agent), only=["../README.md"]).status == 409


def test_what_was_not_shown_is_not_done(agent: Agent, browser: Browser) -> None:
    shown = preview(browser, agent)
    (agent.cwd / "docs.md").write_text("new\n")
    run_git(agent.cwd, "add", "docs.md")  # tracked by now: the restore would delete it
    refused = restore(browser, agent, "latest", shown)
    assert (refused.status, "files changed meanwhile" in refused.text) == (409, True)
    assert (agent.cwd / "docs.md").exists()
    assert not (agent.cwd / "src").exists()


def test_a_second_time_there_is_nothing_to_do(agent: Agent, browser: Browser) -> None:
    name, shown = newest(agent), preview(browser, agent)
    assert restore(browser, agent, name, shown).status == 200
    again = restore(browser, agent, name, shown)
    assert (again.status, "nothing to do" in again.text) == (409, True)
    assert "There is nothing to do" in browser.get(place(agent, name)).text


def test_a_point_that_is_gone_is_said_with_the_next_step(agent: Agent, browser: Browser) -> None:
    for answer in (
        browser.get(place(agent, "20200101T000000-00000000")),
        browser.post(place(agent, "20200101T000000-00000000"), {"plan_sha256": ""}),
        browser.post(place(agent, "nothing", "pin"), {"pinned": True}),
        browser.get(place(agent, "undo")),
    ):
        assert answer.status == 404
        assert "Recovery lists the snapshots" in answer.text


def test_a_restore_under_way_is_waited_for(agent: Agent, browser: Browser) -> None:
    shown = preview(browser, agent)
    [lock] = (agent.cwd / ".git").rglob("restores/*.lock")
    with try_lock(lock) as is_free:
        assert is_free
        refused = restore(browser, agent, "latest", shown)
    assert (refused.status, "under way" in refused.text) == (409, True)
    assert restore(browser, agent, "latest", shown).status == 200


def test_an_agent_at_work_is_named_in_the_preview(agent: Agent, browser: Browser) -> None:
    agent.ask("Bash", command="make all")
    shown = preview(browser, agent)
    assert [(each["agent"], each["tool"]) for each in shown["working"]] == [("claude-code", "Bash")]
    assert "has a call under way" in browser.get(place(agent, "latest")).text


def test_a_pin_keeps_a_snapshot_and_is_let_go(agent: Agent, browser: Browser) -> None:
    name = newest(agent)
    for wanted in (True, False):
        assert browser.post(place(agent, name, "pin"), {"pinned": wanted}).data == {"id": name, "pinned": wanted}
        assert data(agent.cwd, "restore", "list")[0]["pinned"] is wanted


def test_nothing_unsigned_restores(agent: Agent, browser: Browser) -> None:
    shown = preview(browser, agent)
    wanted = {"plan_sha256": shown["preview"]["plan_sha256"]}
    assert browser.post(place(agent, "latest"), wanted, proof="").status == 401
    assert browser.post(place(agent, "latest"), {**wanted, "more": 1}).status == 400
    assert not (agent.cwd / "src").exists()


def test_without_a_snapshot_the_page_says_what_takes_one(repository: Path, home: Path) -> None:
    governed(repository)
    register_repository(home, workspace_at(repository, repository))
    with serving(home) as server:
        browser = Browser(server)
        browser.pair()
        assert "Nothing destructive has run" in browser.get(f"/r/{repository.name}/restore").text
        assert browser.get(f"/r/{repository.name}/restore.json").data["points"] == []


def test_secrets_and_what_is_no_text_are_not_shown(agent: Agent, browser: Browser) -> None:
    (agent.cwd / ".env").write_text("TOKEN=supersecretvalue\n")
    (agent.cwd / "image.bin").write_bytes(b"\x00\x01")
    agent.shell("rm -f .env image.bin")
    shown = preview(browser, agent)
    assert "supersecretvalue" not in browser.get(place(agent, "latest")).text
    notes = {file["path"]: file["note"] for file in shown["preview"]["files"]}
    assert "secrets" in notes[".env"]
    assert "not text" in notes["image.bin"]


def test_one_session_is_undone_as_by_the_command_and_brought_back(agent: Agent, browser: Browser) -> None:
    other = Agent(agent.cwd, agent.home, "session-2")
    other.select()
    other.write("src/ours.py", "a\n")
    at = place(agent, "session", "session-2")
    shown = browser.get(f"{at}.json").data
    assert shown["preview"]["plan"] == data(agent.cwd, "restore", "--session", "session-2", "--preview")
    assert [(file["path"], file["change"]) for file in shown["preview"]["files"]] == [("src/ours.py", "delete")]
    wanted = {"plan_sha256": shown["preview"]["plan_sha256"]}
    assert browser.post(at, {"plan_sha256": "0" * 64}).status == 409
    assert browser.post(at, wanted, proof="").status == 401
    assert browser.post(at, wanted).status == 200
    assert not (agent.cwd / "src" / "ours.py").exists()
    assert browser.post(at, wanted).status == 409
    assert "no file contains its changes" in browser.get(at).text
    assert restore(browser, agent, "undo", preview(browser, agent, "undo")).status == 200
    assert (agent.cwd / "src" / "ours.py").read_text() == "a\n"
    assert browser.get(place(agent, "session", "nobody")).status == 404

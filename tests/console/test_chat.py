"""The console's chat: runs of Remit's own agent, begun and answered by signed words."""

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from console.console_world import Browser, serving
from gate.driving import governed
from remit.console.server import ConsoleServer
from remit.workspace.place.workspace import register_repository, workspace_at
from waiting import wait_until

EDIT = {"path": "src/app.py", "content": "two\n", "intent_id": "INT-001", "mutation_class": "BUG_FIX"}
SCRIPT: list[list[dict[str, Any]]] = [
    [{"say": "I change it."}, {"tool": "write_to_file", "input": EDIT}],
    [{"tool": "ask_followup_question", "input": {"question": "Which?", "follow_up": [{"text": "red <b>"}]}}],
    [{"say": "So it is <script>."}],
    [{"say": "Welcome back."}],
]


@pytest.fixture
def server(repository: Path, home: Path) -> Iterator[ConsoleServer]:
    governed(repository)
    register_repository(home, workspace_at(repository, repository))
    with serving(home) as found:
        yield found


@pytest.fixture
def browser(server: ConsoleServer) -> Browser:
    found = Browser(server)
    found.pair()
    return found


@pytest.fixture
def model(tmp_path: Path) -> str:
    path = tmp_path / "script.json"
    path.write_text(json.dumps(SCRIPT))
    return f"scripted:{path}"


def read_until(browser: Browser, address: str, is_there: Callable[[Any], bool]) -> Any:
    seen = dict[str, Any]()
    wait_until(lambda: seen.update(browser.get(f"{address}.json").data) or is_there(seen), lambda: seen)
    return seen


def test_a_run_is_begun_asks_and_is_taken_up_again(browser: Browser, repository: Path, model: str) -> None:
    base = f"/r/{repository.name}/chat"
    assert browser.get(f"{base}.json").data["runs"] == []
    begun = browser.post(base, {"task": "change it", "intent": "INT-001", "model": model})
    assert begun.status == 200, begun.text
    here = f"{base}/{begun.data['run']}"
    asked = read_until(browser, here, lambda data: data["question"])
    assert (asked["question"]["text"], asked["question"]["choices"]) == ("Which?", ["red <b>"])
    assert [(item["kind"], item["text"]) for item in asked["items"] if item["kind"] in ("person", "agent")] == [
        ("person", "change it"),
        ("agent", "I change it."),
    ]
    [call] = [item for item in asked["items"] if item["tool"] == "write_to_file"]
    assert (call["state"], call["subject"]) == ("done", "src/app.py")
    assert "+two" in call["diff"]
    answered = browser.post(f"{here}/words", {"words": "red <b>", "answer": asked["question"]["id"]})
    assert answered.status == 200, answered.text
    said = read_until(browser, here, lambda data: not data["is_working"] and not data["question"])
    assert said["items"][-1]["text"] == "So it is <script>."
    page = browser.get(here).text
    assert "So it is &lt;script&gt;." in page
    assert "<script>." not in page
    assert [(run["id"], run["mode"]) for run in browser.get(f"{base}.json").data["runs"]] == [
        (begun.data["run"], "code")
    ]
    # A process that ended is begun again by the next words.
    process = browser.server.console.repositories.runs.runs[begun.data["run"]].process
    process.kill()
    process.wait()
    assert browser.post(f"{here}/stop", {}).status == 409
    assert browser.post(f"{here}/words", {"words": "hello again"}).status == 200
    back = read_until(browser, here, lambda data: data["items"][-1]["text"] == "Welcome back.")
    assert back["is_open"]


@pytest.mark.parametrize(
    ("body", "status", "said"),
    [
        ({"task": " "}, 400, "there is no task"),
        ({"task": "x", "model": "nobody:none"}, 400, "nobody"),
        ({"task": "x", "model": "scripted:/none.json", "mode": "no-mode"}, 400, "there is no mode"),
        ({"task": "x", "unknown": 1}, 400, "unknown"),
    ],
)
def test_a_run_that_cannot_begin_says_why(
    browser: Browser, repository: Path, body: dict[str, Any], status: int, said: str
) -> None:
    found = browser.post(f"/r/{repository.name}/chat", body)
    assert found.status == status
    assert said in found.text
    assert browser.server.console.repositories.runs.runs == {}


def test_words_without_a_proof_reach_no_run(browser: Browser, repository: Path, model: str) -> None:
    assert browser.post(f"/r/{repository.name}/chat", {"task": "x", "model": model}, proof="").status in (401, 403)
    assert browser.get(f"/r/{repository.name}/chat.json").data["runs"] == []
    assert browser.get(f"/r/{repository.name}/chat/none").status == 404
    assert browser.post(f"/r/{repository.name}/chat/none/words", {"words": "x"}).status == 400

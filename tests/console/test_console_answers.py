"""Answers of the console: how far they go, what they cover, and who was first."""

import json
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from conftest import run_git
from console.console_world import Browser, put_on_clock, serving, sign_everywhere
from console.test_console import Asked, body_for, wait_for_card
from gate.driving import Agent, governed, records
from remit.console.server import ConsoleServer
from remit.gate.people.answer import record_reply
from remit.gate.people.questions import ApprovalReply
from remit.workspace.place.workspace import register_repository, workspace_at
from stepped_clock import SteppedClock
from waiting import wait_until


@pytest.fixture
def clock() -> SteppedClock:
    return SteppedClock()


@pytest.fixture
def agent(repository: Path, home: Path, clock: SteppedClock) -> Agent:
    governed(repository)
    register_repository(home, workspace_at(repository, repository))
    (repository / "docs").mkdir()
    for name in ("one.md", "two.md", "sub/three.md"):
        (repository / "docs" / name).parent.mkdir(exist_ok=True)
        (repository / "docs" / name).write_text("x\n")
    run_git(repository, "add", "-A")
    run_git(repository, "commit", "-qm", "docs")
    found = put_on_clock(Agent(repository, home), clock)
    found.select()
    return found


@pytest.fixture
def server(agent: Agent) -> Iterator[ConsoleServer]:
    with serving(agent.home, clock=agent.environment.clock) as found:
        yield found


@pytest.fixture
def browser(server: ConsoleServer) -> Browser:
    """A paired browser, and a sign of a person in each repository, so that agents ask. It holds while time stands."""
    found = Browser(server)
    assert found.pair().status == 200
    sign_everywhere(server)
    return found


def answers_of(agent: Agent) -> list[dict[str, Any]]:
    return [record["metadata"]["dev.remit"]["approval"] for record in records(agent.cwd, "approval_answered")]


def ask_command(agent: Agent, command: str) -> threading.Thread:
    thread = threading.Thread(target=lambda: agent.ask("Bash", command=command))
    thread.start()
    return thread


@pytest.mark.parametrize("extent", ["session", "intent", "project"])
def test_a_wider_yes_goes_as_far_as_was_chosen_and_covers_the_rule_as_it_was_edited(
    agent: Agent, browser: Browser, extent: str
) -> None:
    asked = Asked(agent)
    card = wait_for_card(browser)
    assert card["extents"] == ["once", "session", "intent", "project"]
    path = f"/approvals/{card['question']['id']}/answer"
    refused = browser.post(path, body_for(card, extent=extent, rule="src/**"))
    assert refused.status == 400
    assert "does not cover" in json.loads(refused.body)["error"]["message"]
    done = browser.post(path, body_for(card, extent=extent, rule="docs/*.md"))
    assert (done.data["extent"], done.data["rule"]) == (extent, "docs/*.md")
    assert asked.decision == "allow"
    [answer] = answers_of(agent)
    assert (answer["extent"], answer["through"], answer["grant"]["rule"]) == (extent, "console", "docs/*.md")
    assert "docs/*.md" in (agent.cwd / ".orchestration/remit.toml").read_text() or extent != "project"


def test_the_preview_counts_the_tracked_files_and_the_calls_that_the_rule_covers(
    agent: Agent, browser: Browser
) -> None:
    agent.read("docs/one.md")
    asked = Asked(agent)
    card = wait_for_card(browser)
    address = f"/approvals/{card['question']['id']}"
    assert browser.get(f"{address}.json").data["preview"] is None
    default = browser.get(f"{address}.json?rule=").data["preview"]
    assert (default["extent"], default["rule"], default["files"]) == ("intent", "docs/**", 3)
    narrow = browser.get(f"{address}.json?rule=docs/*.md&extent=session").data["preview"]
    assert (narrow["files"], narrow["example_files"]) == (2, ["docs/one.md", "docs/two.md"])
    assert narrow["covered_calls"] == 1
    assert narrow["looked_at"] <= 20
    wrong = browser.get(f"{address}.json?rule=src/**").data["preview"]
    assert "does not cover" in wrong["fault"]
    part = browser.get(f"{address}?rule=src/**", Remit_Part="preview")
    assert "This yes cannot be given" in part.text
    assert browser.get(f"{address}?extent=once").status == 400
    assert browser.post(f"{address}/answer", body_for(card, allow=False)).status == 200
    assert asked.decision == "deny"


def test_a_command_is_previewed_by_its_first_words(agent: Agent, browser: Browser) -> None:
    agent.shell("git log -1")
    config = agent.cwd / ".orchestration/remit.toml"
    config.write_text(f"{config.read_text()}\n[approvals]\nthreshold = 0\n")
    thread = ask_command(agent, "git fetch origin")
    card = wait_for_card(browser)
    address = f"/approvals/{card['question']['id']}"
    preview = browser.get(f"{address}.json?extent=intent").data["preview"]
    assert preview["rule"] == "git fetch"
    assert not preview["is_for_paths"]
    assert preview["covered_calls"] == 0
    browser.post(f"{address}/answer", body_for(card, allow=False))
    thread.join(60)


def test_who_was_first_is_told_to_whoever_comes_second(agent: Agent, server: ConsoleServer, browser: Browser) -> None:
    asked = Asked(agent)
    card = wait_for_card(browser)
    address = f"/approvals/{card['question']['id']}"
    [repository] = server.console.repositories.list_all()
    with server.console.repositories.open_gate(repository) as gate:
        [waiting] = gate.questions.list_open_questions()
        record_reply(gate, waiting, ApprovalReply(False, "not now"))
    second = browser.post(f"{address}/answer", body_for(card))
    assert second.status == 409
    assert (
        "already denied by A Person <person@example.org> in a terminal" in json.loads(second.body)["error"]["message"]
    )
    assert asked.decision == "deny"
    assert [answer["answer"] for answer in answers_of(agent)] == ["deny"]
    page = browser.get(address)
    assert "denied by A Person &lt;person@example.org&gt; in a terminal" in page.text


def test_what_the_console_decided_says_so(agent: Agent, browser: Browser) -> None:
    asked = Asked(agent)
    card = wait_for_card(browser)
    path = f"/approvals/{card['question']['id']}/answer"
    assert browser.post(path, body_for(card)).status == 200
    again = json.loads(browser.post(path, body_for(card)).body)["error"]["message"]
    assert again.startswith("already allowed this once by A Person <person@example.org> in the console at ")
    assert asked.decision == "allow"


def test_many_answers_at_once_are_one_record(agent: Agent, browser: Browser) -> None:
    asked = Asked(agent)
    card = wait_for_card(browser)
    path = f"/approvals/{card['question']['id']}/answer"
    statuses: list[int] = []
    bodies = [body_for(card, allow=bool(number % 2), words=str(number)) for number in range(8)]

    def post(body: dict[str, Any]) -> None:
        statuses.append(browser.post(path, body).status)

    threads = [threading.Thread(target=post, args=(body,)) for body in bodies]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert sorted(statuses) == [200] + [409] * 7
    assert asked.decision in ("allow", "deny")
    assert len(answers_of(agent)) == 1


def test_equal_questions_of_low_risk_are_allowed_together_and_only_those_that_were_shown(
    agent: Agent, browser: Browser
) -> None:
    first = [Asked(agent, f"docs/new-{number}.md") for number in range(2)]
    wait_until(lambda: browser.get("/approvals.json").data["waiting"] == 2)
    card = wait_for_card(browser)
    shown = {each["id"]: each["shown_sha256"] for each in card["together"]}
    assert len(shown) == 2
    assert [each["diff"].count("img src=x") for each in card["together"]] == [1, 1]
    third = Asked(agent, "docs/new-3.md")
    wait_until(lambda: browser.get("/approvals.json").data["waiting"] == 3)
    changed = dict.fromkeys(shown, "0" * 64)
    body = {"repository": card["repository"], "shown": shown}
    assert browser.post("/approvals/answer-equal", {**body, "shown": changed}).status == 409
    assert browser.post("/approvals/answer-equal", body, proof="").status == 401
    assert answers_of(agent) == []
    done = browser.post("/approvals/answer-equal", body)
    assert sorted(done.data["allowed"]) == sorted(shown)
    assert [asked.decision for asked in first] == ["allow", "allow"]
    assert third.reply is None
    left = wait_for_card(browser)
    assert browser.post("/approvals/answer-equal", body).status == 409
    assert browser.post(f"/approvals/{left['question']['id']}/answer", body_for(left, allow=False)).status == 200
    assert third.decision == "deny"


def test_a_high_risk_is_never_allowed_together_or_for_longer(agent: Agent, browser: Browser) -> None:
    threads = [ask_command(agent, f"git push --force origin b{number}") for number in range(2)]
    wait_until(lambda: browser.get("/approvals.json").data["waiting"] == 2)
    for left in (1, 0):
        [question] = browser.get("/approvals.json").data["queue"]
        card = browser.get(f"/approvals/{question['id']}.json").data["card"]
        assert (card["together"], card["extents"], len(card["typed"])) == ([], ["once"], 4)
        shown = {question["id"]: card["shown_sha256"]}
        body = {"repository": card["repository"], "shown": shown}
        assert browser.post("/approvals/answer-equal", body).status == 409
        path = f"/approvals/{question['id']}/answer"
        assert browser.post(path, body_for(card, typed="")).status == 400
        assert browser.post(path, body_for(card, extent="intent")).status == 400
        assert browser.post(path, body_for(card, allow=False)).status == 200
        wait_until(lambda left=left: browser.get("/approvals.json").data["waiting"] == left)
    for thread in threads:
        thread.join(60)
        assert not thread.is_alive()


def test_what_is_too_long_to_be_shown_whole_has_to_be_typed(agent: Agent, browser: Browser) -> None:
    asked = threading.Thread(
        target=lambda: agent.ask("Write", file_path=str(agent.cwd / "docs/long.md"), content="line\n" * 5000)
    )
    asked.start()
    card = wait_for_card(browser)
    assert card["question"]["is_cut"]
    assert card["typed"]
    page = browser.get("/approvals").text
    assert "too long to be shown" in page
    path = f"/approvals/{card['question']['id']}/answer"
    assert browser.post(path, body_for(card, typed="")).status == 400
    assert browser.post(path, body_for(card, allow=False)).status == 200
    asked.join(60)


def test_a_long_command_is_shown_to_its_last_character(agent: Agent, browser: Browser) -> None:
    tail = "origin HEAD:main"
    thread = ask_command(agent, f"echo {'a' * 3000} && git push --force {tail}")
    card = wait_for_card(browser)
    assert card["action"].endswith(tail)
    page = browser.get("/approvals").text
    assert f"<mark>--force</mark> {tail}</pre>" in page
    path = f"/approvals/{card['question']['id']}/answer"
    assert browser.post(path, body_for(card, allow=False)).status == 200
    thread.join(60)


def test_the_link_of_a_phone_shows_one_card_and_opening_it_decides_nothing(agent: Agent, browser: Browser) -> None:
    asked = Asked(agent)
    card = wait_for_card(browser)
    name = card["question"]["id"]
    wait_until(lambda: bool(records(agent.cwd, "approval_requested")))  # the question is there before its record
    before = len(records(agent.cwd, ""))
    pages = [browser.get(f"/p/{name}") for _ in range(2)]
    assert [page.status for page in pages] == [200, 200]
    assert pages[0].text.count("<button") == 2
    assert asked.reply is None
    assert len(records(agent.cwd, "")) == before
    assert browser.ask("POST", f"/p/{name}", b"{}").status == 405
    assert browser.post(f"/approvals/{name}/answer", body_for(card, allow=False)).status == 200
    assert asked.decision == "deny"
    assert "was already denied by A Person &lt;person@example.org&gt; in the console" in browser.get(f"/p/{name}").text
    assert "No such question waits" in browser.get("/p/none").text


def test_a_card_that_changed_since_it_was_shown_takes_no_answer(agent: Agent, browser: Browser) -> None:
    asked = Asked(agent)
    card = wait_for_card(browser)
    intents = agent.cwd / ".orchestration/active_intents.yaml"
    intents.write_text(intents.read_text().replace(card["intent_name"], "Something else"))
    path = f"/approvals/{card['question']['id']}/answer"
    refused = browser.post(path, body_for(card))
    assert refused.status == 409
    assert "not the one that was shown" in json.loads(refused.body)["error"]["message"]
    assert asked.reply is None
    again = wait_for_card(browser)
    assert again["intent_name"] == "Something else"
    assert browser.post(path, body_for(again, allow=False)).status == 200
    assert asked.decision == "deny"


def test_a_question_that_nobody_answered_says_so_and_can_be_answered_late(
    agent: Agent, browser: Browser, clock: SteppedClock
) -> None:
    config = agent.cwd / ".orchestration/remit.toml"
    config.write_text(f"{config.read_text()}\n[approvals]\ntimeout_s = 2\n")
    asked = Asked(agent)
    wait_until(lambda: browser.get("/approvals.json").data["queue"])
    clock.advance(3)
    [name] = [each["id"] for each in browser.get("/approvals.json").data["queue"]]
    assert asked.decision == "deny"
    assert "Denied: nobody answered in time" in browser.get(f"/p/{name}").text
    late = browser.get(f"/approvals/{name}.json").data["card"]
    assert not late["is_open"]
    assert browser.post(f"/approvals/{name}/answer", body_for(late)).data["late"]
    assert Asked(agent).decision == "allow"


def test_the_inbox_holds_the_questions_of_every_repository_as_often_as_its_json(
    agent: Agent, server: ConsoleServer, browser: Browser, tmp_path: Path, clock: SteppedClock
) -> None:
    other = tmp_path / "other"
    other.mkdir()
    run_git(other, "init", "-q")
    governed(other)
    register_repository(agent.home, workspace_at(other, other))
    second = put_on_clock(Agent(other, agent.home, session="session-2"), server.clock)
    second.select()
    sign_everywhere(server)
    asked = list[Asked]()
    for who, path in ((agent, "docs/b.md"), (second, "docs/b.md"), (agent, "notes/b.md")):
        asked.append(Asked(who, path))
        wait_until(lambda: len(browser.get("/approvals.json").data["queue"]) == len(asked))
        clock.advance(1)
    data = browser.get("/approvals.json").data
    page = browser.get("/approvals").text
    assert page.count("data-ticket=") == len(data["queue"]) == data["waiting"] == 3
    assert {question["repository"] for question in data["queue"]} == {agent.cwd.name, "other"}
    assert [question["asked_at"] for question in data["queue"]] == [clock.start, clock.start + 1, clock.start + 2]
    for question in data["queue"]:
        card = browser.get(f"/approvals/{question['id']}.json").data["card"]
        assert browser.post(f"/approvals/{question['id']}/answer", body_for(card, allow=False)).status == 200
    assert [each.decision for each in asked] == ["deny"] * 3


def test_a_wide_proposal_takes_the_typed_word_or_another_scope(agent: Agent, browser: Browser) -> None:
    thread = ask_command(agent, "remit intent propose Everything --scope '**' --why all")
    card = wait_for_card(browser)
    path = f"/approvals/{card['question']['id']}/answer"
    for scope in ([], ["**"], ["**", "**"]):
        refused = browser.post(path, body_for(card, typed="", scope=scope))
        assert refused.status == 400
        assert "has to be confirmed" in json.loads(refused.body)["error"]["message"]
    assert browser.post(path, body_for(card, typed="", scope=["src/app.py"])).status == 200
    thread.join()
    [answer] = answers_of(agent)
    assert answer["scope"] == ["src/app.py"]

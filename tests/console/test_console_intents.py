"""The pages Intents and Intent over a real socket: their JSON is the commands', and a change loses nothing."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from cli.running import data, remit
from conftest import run_git
from console.console_world import Browser, serving
from gate.driving import Agent, body, governed, records
from gate.hooks.trusted_hooks import trust_all
from remit.console.server import ConsoleServer
from remit.workspace.place.workspace import register_repository, workspace_at

HOSTILE = "<img src=x onerror=alert(1)>\u202e{{ 7*7 }}"

INTENTS = """\
version: "1.0"
# what the team does
active_intents:
  - id: INT-001
    name: Names  # the greeting
    status: IN_PROGRESS
    owned_scope: ["src/**"]
    constraints: [none]
    acceptance_criteria:
      - text: it works
        verify: "true"
      - a person likes it
    references: [specs/001-names/spec.md]
  - id: INT-002
    name: Docs
    status: DRAFT
    owned_scope: ["docs/**", "README.md"]
    dependencies: [INT-001]
    references: ["#12"]
    constraints: [none]
    acceptance_criteria: [it works]
"""


@pytest.fixture
def agent(repository: Path, home: Path) -> Agent:
    governed(repository, intents=INTENTS)
    register_repository(home, workspace_at(repository, repository))
    found = Agent(repository, home)
    found.select()
    found.write("src/app.py", "two\n")
    (repository / "docs").mkdir()
    (repository / "docs" / "a.md").write_text("a\n")
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


def place(agent: Agent, *parts: str) -> str:
    return "/".join((f"/r/{agent.cwd.name}", *parts))


def shown(browser: Browser, agent: Agent, intent: str = "INT-001") -> dict[str, Any]:
    found = browser.get(place(agent, "intents", f"{intent}.json"))
    assert found.status == 200, found.text
    return dict(found.data)


def form(browser: Browser, agent: Agent, intent: str = "INT-001", **changes: Any) -> dict[str, Any]:
    """The fields of the form as the page shows them, with some changed."""
    found = browser.get(place(agent, "intents", intent, "edit.json")).data
    fields = found["fields"]
    texts = {name: [each["text"] for each in fields[f"{name}"]] for name in ("constraints",)}
    texts["criteria"] = [each["text"] for each in fields["acceptance_criteria"]]
    plain = {name: fields[name] for name in ("description", "priority", "owner")}
    return {
        "name": fields["name"],
        "scope": fields["owned_scope"],
        "shown_sha256": found["shown_sha256"],
        **texts,
        **plain,
        **changes,
    }


def intents_text(agent: Agent) -> str:
    return (agent.cwd / ".orchestration" / "active_intents.yaml").read_text()


def test_list_intent_and_history_are_those_of_the_commands(agent: Agent, browser: Browser) -> None:
    rows = browser.get(place(agent, "intents.json")).data["rows"]
    assert [row["intent"] for row in rows] == data(agent.cwd, "intent", "list")
    assert [(row["source"], row["touched"], row["blocked_by"]) for row in rows] == [
        ("spec-kit", 1, []),
        ("issue", 0, ["INT-001"]),
    ]
    page = shown(browser, agent)
    assert page["intent"] == data(agent.cwd, "intent", "show", "INT-001")
    assert page["history"][::-1] == data(agent.cwd, "intent", "history", "INT-001")
    found = browser.get(place(agent, "intents.json")).data["findings"]
    assert [each["finding"] for each in found] == data(agent.cwd, "intent", "lint")


def test_the_filter_is_in_the_address(agent: Agent, browser: Browser) -> None:
    for query, wanted in (
        ("status=DRAFT", ["INT-002"]),
        ("source=spec-kit", ["INT-001"]),
        ("q=readme", ["INT-002"]),
        ("status=DONE", []),
        ("view=board", ["INT-001", "INT-002"]),
    ):
        found = browser.get(f"{place(agent, 'intents.json')}?{query}").data["rows"]
        assert [row["intent"]["id"] for row in found] == wanted, query
        page = browser.get(f"{place(agent, 'intents')}?{query}")
        assert (page.status, "No intent fits" in page.text) == (200, not wanted)


def test_an_error_of_the_file_is_shown_in_place(agent: Agent, browser: Browser) -> None:
    path = agent.cwd / ".orchestration" / "active_intents.yaml"
    path.write_text(INTENTS.replace("status: DRAFT", "status: SOON"))
    [fault] = [f for f in browser.get(place(agent, "intents.json")).data["findings"] if f["finding"]["line"] == 16]
    assert fault["finding"]["code"] == "INVALID_STATUS"
    assert [16, "    status: SOON"] in fault["lines"]
    assert "status: SOON" in browser.get(place(agent, "intents")).text
    refused = browser.post(place(agent, "intents"), {"name": "New", "scope": ["new/**"]})
    assert (refused.status, "mend them first" in refused.text) == (400, True)
    path.write_text("active_intents: [\n")
    assert "cannot be used" in browser.get(place(agent, "intents")).text
    path.unlink()
    assert browser.get(place(agent, "intents")).status == 200


def test_the_preview_counts_what_git_lists(agent: Agent, browser: Browser) -> None:
    (agent.cwd / "src" / "untracked.py").write_text("x\n")
    (agent.cwd / ".gitignore").write_text("*.log\n")
    (agent.cwd / "src" / "ignored.log").write_text("x\n")
    asked = f"{place(agent, 'scope.json')}?intent=INT-002&scope=src/**%0Adocs/**"
    found = browser.get(asked).data
    assert found["files"] == 3
    assert [(each["pattern"], each["files"]) for each in found["patterns"]] == [("src/**", 2), ("docs/**", 1)]
    assert found["owners"] == {"INT-001": 2}
    assert (sorted(found["added"]), found["removed"]) == (["src/app.py", "src/untracked.py"], ["README.md"])
    wrong = browser.get(f"{place(agent, 'scope.json')}?scope=/etc/**%0A[").data["patterns"]
    assert all(each["problem"] for each in wrong)
    part = browser.get(asked.replace("scope.json", "scope"), Remit_Part="preview").text
    assert "are owned by <b>INT-001</b> too" in part
    assert "<html" not in part
    assert (
        browser.post(place(agent, "intents", "INT-002"), form(browser, agent, "INT-002", scope=["src/**"])).status
        == 200
    )
    assert shown(browser, agent, "INT-002")["owned"] == 2


def test_an_edit_changes_its_fields_and_leaves_the_file_s_rest(agent: Agent, browser: Browser) -> None:
    before = intents_text(agent)
    wanted = form(browser, agent, scope=["src/**", "lib/**"], criteria=["it works", "a person likes it", HOSTILE])
    done = browser.post(place(agent, "intents", "INT-001"), wanted)
    assert done.status == 200, done.text
    after = intents_text(agent)
    assert "# what the team does" in after
    assert "# the greeting" in after
    assert before.partition("  - id: INT-002")[2] == after.partition("  - id: INT-002")[2]
    intent = data(agent.cwd, "intent", "show", "INT-001")
    assert intent["owned_scope"] == ["src/**", "lib/**"]
    assert intent["acceptance_criteria"][0]["verify"] == "true"
    changed = records(agent.cwd, "intent_changed")[-1]["metadata"]["dev.remit"]
    assert changed["by"] == "person"
    page = browser.get(place(agent, "intents", "INT-001")).text
    assert "<img" not in page
    again = browser.post(place(agent, "intents", "INT-001"), form(browser, agent))
    assert (again.status, "nothing was changed" in again.text) == (400, True)


def test_who_edits_what_somebody_changed_sees_both_and_loses_nothing(agent: Agent, browser: Browser) -> None:
    wanted = form(browser, agent, name="Mine")
    remit(agent.cwd, "intent", "edit", "INT-001", "--name", "Theirs")
    refused = browser.post(place(agent, "intents", "INT-001"), wanted)
    assert (refused.status, "changed meanwhile" in refused.text) == (409, True)
    assert data(agent.cwd, "intent", "show", "INT-001")["name"] == "Theirs"
    part = browser.get(place(agent, "intents", "INT-001", "edit"), Remit_Part="current").text
    assert "Theirs" in part
    over = {**wanted, "shown_sha256": shown(browser, agent)["shown_sha256"]}
    assert browser.post(place(agent, "intents", "INT-001"), over).status == 200
    assert data(agent.cwd, "intent", "show", "INT-001")["name"] == "Mine"
    remit(agent.cwd, "intent", "edit", "INT-002", "--name", "Another intent")  # hinders nobody
    assert browser.post(place(agent, "intents", "INT-001"), form(browser, agent, name="Mine too")).status == 200


def test_a_new_intent_a_fork_and_a_deletion(agent: Agent, browser: Browser) -> None:
    made = browser.post(place(agent, "intents"), {"name": "Login", "scope": ["auth/**"], "template": "feature"})
    assert (made.status, made.data["id"]) == (200, "INT-003")
    forked = browser.post(place(agent, "intents", "INT-001", "fork"), {})
    assert forked.data["id"] == "INT-004"
    assert data(agent.cwd, "intent", "show", "INT-004")["references"][-1] == "INT-001"
    sha = shown(browser, agent, "INT-003")["shown_sha256"]
    assert browser.post(place(agent, "intents", "INT-003", "delete"), {"shown_sha256": sha}).status == 200
    wrong: list[tuple[dict[str, Any], int]] = [
        ({"name": " ", "scope": ["a/**"]}, 400),
        ({"name": "X", "scope": []}, 400),
        ({"name": "X", "scope": ["/etc/**"]}, 400),
        ({"name": "X", "scope": ["a/**"], "constraints": ["max_line: max=3"]}, 400),
        ({"name": "X", "scope": ["a/**"], "id": "INT-009"}, 400),
        ({"name": "X", "scope": ["a/**"], "template": "../x"}, 400),
    ]
    for sent, status in wrong:
        refused = browser.post(place(agent, "intents"), sent)
        assert refused.status == status, (sent, refused.text)
    assert [row["id"] for row in data(agent.cwd, "intent", "list")] == ["INT-001", "INT-002", "INT-004"]


def move(browser: Browser, agent: Agent, intent: str, to: str, **fields: Any) -> Any:
    sha = shown(browser, agent, intent)["shown_sha256"]
    return browser.post(place(agent, "intents", intent, "status"), {"to": to, "shown_sha256": sha, **fields})


def test_an_intent_moves_along_its_life_as_by_the_command(agent: Agent, browser: Browser) -> None:
    assert move(browser, agent, "INT-002", "DONE", notes="x").status == 400
    assert move(browser, agent, "INT-002", "IN_PROGRESS").status == 200
    assert move(browser, agent, "INT-002", "BLOCKED", notes="waits for anna").status == 200
    assert data(agent.cwd, "intent", "show", "INT-002")["blocked_reason"] == "waits for anna"
    assert move(browser, agent, "INT-001", "DONE").status == 400
    unproved = move(browser, agent, "INT-001", "DONE", notes="read it")
    assert (unproved.status, "1 check was not run here, for want of trust" in unproved.text) == (409, True)
    done = move(browser, agent, "INT-001", "DONE", notes="read it", unverified=True)
    assert (done.status, done.data["status"]) == (200, "DONE"), done.text
    [*_, moved] = [body(r) for r in records(agent.cwd, "intent_transition")]
    assert moved["notes"] == "read it (completed without proof: true)"
    assert "is final" in move(browser, agent, "INT-001", "IN_PROGRESS").text


def test_a_parent_is_not_closed_before_its_children(agent: Agent, browser: Browser) -> None:
    remit(agent.cwd, "intent", "edit", "INT-002", "--parent", "INT-001")
    refused = move(browser, agent, "INT-001", "DONE", notes="done")
    assert (refused.status, "INT-002 is DRAFT" in refused.text) == (409, True)
    assert move(browser, agent, "INT-001", "DONE", notes="done", force=True, unverified=True).status == 200


def test_criteria_show_their_evidence(agent: Agent, browser: Browser) -> None:
    assert [(c["is_met"], c["lack"]) for c in shown(browser, agent)["criteria"]] == [
        (False, "'true' was never run"),
        (False, ""),
    ]
    trust_all(agent.cwd, agent.home)
    assert move(browser, agent, "INT-001", "DONE", notes="read it").data["remarks"] == []
    assert shown(browser, agent)["criteria"][0]["is_met"]


def test_a_session_is_bound_and_released(agent: Agent, browser: Browser) -> None:
    [session] = shown(browser, agent)["sessions"]
    assert (session["session_id"], session["is_active"]) == (agent.session, True)
    at = place(agent, "intents", "INT-001", "session")
    assert browser.post(at, {"session_id": agent.session, "bind": False}).status == 200
    assert browser.post(at, {"session_id": agent.session, "bind": False}).status == 409
    assert browser.post(at, {"session_id": "nobody"}).status == 404
    assert browser.post(at, {"session_id": agent.session}).data["intent_id"] == "INT-001"
    assert (
        agent.ask("Write", file_path=str(agent.cwd / "src" / "b.py"), content="x\n").get("permissionDecision") is None
    )


def test_a_grant_is_revoked_once(agent: Agent, browser: Browser) -> None:
    from remit.core.decision import Grant

    with browser.server.console.repositories.open_gate(browser.server.console.repositories.list_all()[0]) as gate:
        gate.state.put_grant(Grant("g-1", "SCOPE_VIOLATION", "intent", pattern="docs/*", intent_id="INT-001"))
    assert [grant["pattern"] for grant in shown(browser, agent)["grants"]] == ["docs/*"]
    assert browser.post(place(agent, "grants", "g-1", "revoke"), {}).data == {"revoked": "g-1"}
    assert browser.post(place(agent, "grants", "g-1", "revoke"), {}).status == 409
    assert data(agent.cwd, "approvals", "list")["grants"] == []


def test_nothing_unsigned_changes_an_intent(agent: Agent, browser: Browser) -> None:
    before = intents_text(agent)
    wanted = form(browser, agent, name="Mine")
    for at in ("intents", "intents/INT-001", "intents/INT-001/status", "intents/INT-001/fork", "grants/x/revoke"):
        assert browser.post(place(agent, at), wanted, proof="").status == 401, at
    assert intents_text(agent) == before


def test_without_git_or_commits_the_pages_are_there(tmp_path: Path, home: Path) -> None:
    for name, has_git in (("plain", False), ("empty", True)):
        folder = tmp_path / name
        folder.mkdir()
        if has_git:
            run_git(folder, "init", "-q")
        (folder / "a.txt").write_text("a\n")
        remit(folder, "init", "--yes", "--no-agents")
    with serving(home) as server:
        browser = Browser(server)
        browser.pair()
        for name in ("plain", "empty"):
            assert "There is no intent" in browser.get(f"/r/{name}/intents").text, name
            made = browser.post(f"/r/{name}/intents", {"name": "One", "scope": ["*.txt"]})
            assert made.status == 200, made.text
            assert browser.get(f"/r/{name}/intents/INT-001.json").data["owned"] == 1, name
            assert browser.get(f"/r/{name}/restore").status == 200


def test_a_touched_file_that_is_gone_lies_in_the_scope_all_the_same(agent: Agent, browser: Browser) -> None:
    agent.write("src/gone.py", "one\n")
    agent.shell("rm src/gone.py")
    page = browser.get(f"/r/{agent.cwd.name}/intents/INT-001.json").data
    (folder,) = (each for each in page["tree"]["folders"] if each["name"] == "src")
    assert {each["path"]: each["is_owned"] for each in folder["entries"]}["src/gone.py"]
    assert page["outside"] == []

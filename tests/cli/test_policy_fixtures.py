"""`remit policy report-wrong`: a decision as a file, and its replay."""

import json
import os
from pathlib import Path
from typing import Any

import pytest

from cli.running import data, remit
from gate.driving import INTENTS, Agent, governed, records


@pytest.fixture
def agent(repository: Path, home: Path) -> Agent:
    found = Agent(governed(repository), home)
    found.select()
    return found


def report(agent: Agent, expected: str, *words: str) -> dict[str, Any]:
    """What is told of a report."""
    return data(agent.cwd, "policy", "report-wrong", *words, "--expected", expected)


def replay(agent: Agent, folder: Path, code: int = 0) -> list[tuple[str, bool]]:
    """The verdicts of a folder's fixtures."""
    found: Any = data(agent.cwd, "policy", "test", "--fixtures", str(folder), code=code)
    return [(one["verdict"], one["ok"]) for one in found]


def test_a_refusal_becomes_a_fixture_that_fails_until_the_rules_agree(agent: Agent) -> None:
    agent.write("docs/x.md", "something private\n")
    found = report(agent, "allow", "--last", "--why", "docs belong to it")
    folder = agent.cwd / ".orchestration" / "fixtures"
    path = Path(found["path"])
    assert path.parent == folder
    assert (found["was"], found["verdict"], found["reproduced"]) == ("deny", "deny", True)
    assert replay(agent, folder, code=1) == [("deny", False)]
    document = json.loads(path.read_text())
    document["intents"][0]["owned_scope"].append("docs/**")
    path.write_text(json.dumps(document))
    assert replay(agent, folder) == [("allow", True)]


def test_a_call_that_was_let_through_becomes_one_where_the_user_says(agent: Agent, tmp_path: Path) -> None:
    agent.write("src/x.py", "1\n")
    found = report(agent, "deny", "--last", "--to", str(tmp_path / "here"))
    assert found["verdict"] == "allow"
    assert replay(agent, tmp_path / "here", code=1) == [("allow", False)]


def test_it_holds_no_content_no_secret_and_no_place_of_this_machine(agent: Agent, home: Path) -> None:
    path = agent.cwd / "src" / "x.py"
    path.write_text("first line of mine\n")
    agent.read("src/x.py")
    path.write_text("second line of mine\n")
    assert not path.samefile(home)
    agent.write("src/x.py", "third\n")
    agent.shell(f"tee docs/y {home}/z token=abcdef0123456789abcdef0123456789")
    for record in records(agent.cwd, "denied"):
        report(agent, "allow", record["id"])
    texts = [p.read_text() for p in (agent.cwd / ".orchestration" / "fixtures").iterdir()]
    assert len(texts) == 2
    for word in ("line of mine", "third", "abcdef0123456789", str(home), str(agent.cwd)):
        assert not any(word in text for text in texts), word
    assert any('"STALE_FILE"' in json.dumps(record) for record in records(agent.cwd, "denied"))
    assert replay(agent, agent.cwd / ".orchestration" / "fixtures", code=1) == [("deny", False), ("deny", False)]


def test_the_intents_are_those_of_then(agent: Agent) -> None:
    agent.write("src/x.py", "1\n")
    (agent.cwd / ".orchestration" / "active_intents.yaml").write_text(INTENTS.replace("src/**", "lib/**"))
    found = report(agent, "deny", "--last")
    assert found["intents"][0]["owned_scope"] == ["src/**"]
    assert found["verdict"] == "allow"


@pytest.mark.parametrize("content", ["", "{}", '{"version": 2}', '{"version": 1, "call": []}', "[1]"])
def test_a_file_that_is_no_fixture_is_named_and_fails(content: str, agent: Agent, tmp_path: Path) -> None:
    (tmp_path / "a.json").write_text(content)
    found: Any = data(agent.cwd, "policy", "test", "--fixtures", str(tmp_path), code=1)
    assert (found[0]["file"], found[0]["ok"]) == ("a.json", False)


def test_what_names_no_decision_is_said(agent: Agent) -> None:
    def refused(*words: str) -> str:
        said = remit(agent.cwd, "policy", "report-wrong", *words, "--expected", "allow", "--json", code=2)
        return str(json.loads(said)["error"]["message"])

    assert "give a RECORD or --last" in refused()
    [selected] = [record["id"] for record in records(agent.cwd, "intent_selected")]
    assert "holds no decision" in refused(selected)
    assert "no denied record" in refused("--last")


@pytest.mark.timeout(200)
def test_a_pipe_or_a_link_among_the_fixtures_is_not_read(agent: Agent, tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "a.json")
    (tmp_path / "b.json").symlink_to("/dev/zero")
    found: Any = data(agent.cwd, "policy", "test", "--fixtures", str(tmp_path), code=1)
    assert [one["ok"] for one in found] == [False, False]

"""`remit verify`, rule by rule: what each finds, and what it leaves alone."""

from pathlib import Path
from typing import Any

import pytest

from cli.running import data, run
from cli.test_verify import commit
from conftest import run_git
from gate.driving import INTENTS, Agent, governed, machine
from gate.hooks.trusted_hooks import trust_all
from gate.intents.test_complete import KEY, complete, intents, working
from remit.cli.ledger.verify import finding_place
from remit.core.redaction import redact, redact_value
from remit.gate.gate import Gate
from remit.gate.governing.settings import set_mode
from remit.provenance.verify.change_rules import is_dependency_file
from remit.provenance.verify.rules import RULES, make_finding

TESTS = "from src.app import main\n\n\ndef test_one():\n    assert main() == 1\n    assert main() != 2\n\n\n"
TWO = TESTS + "def test_two():\n    assert main()\n"


@pytest.fixture
def agent(repository: Path, home: Path) -> Agent:
    """An agent that may write everywhere, in a repository with tests."""
    (repository / "tests").mkdir()
    (repository / "tests/test_app.py").write_text(TWO)
    run_git(repository, "add", "-A")
    run_git(repository, "commit", "-qm", "tests")
    found = Agent(governed(repository, intents=INTENTS.replace('["src/**"]', '["**"]')), home)
    found.select()
    return found


def found(root: Path, rule: str, *words: str) -> list[dict[str, Any]]:
    """The findings by that rule."""
    return [f for f in data(root, "verify", "--fail-on", "never", *words)["findings"] if f["rule"] == rule]


# --- RMT005 ----------------------------------------------------------------------------------------------------


def code(agent: Agent) -> None:
    agent.write("src/app.py", "def main():\n    return 2\n")


@pytest.mark.parametrize(
    ("after", "said"),
    [
        (TESTS, "1 test fewer, 1 assertion fewer"),
        (TWO.replace("    assert main() != 2\n", ""), "1 assertion fewer"),
        (TWO.replace("assert main() != 2", "assert True"), "1 assertion fewer"),
        (TWO.replace("def test_two", "import pytest\n@pytest.mark.skip\ndef test_two"), "1 more skipped"),
        (TWO.replace("def test_two", "def two"), "1 test fewer"),
        (TWO.replace("def test_two():\n    assert main()", "# def test_two():\n#    assert main()"), "1 test fewer"),
    ],
)
def test_weaker_tests_beside_a_change_of_code_are_named(agent: Agent, after: str, said: str) -> None:
    code(agent)
    agent.write("tests/test_app.py", after)
    (one,) = found(agent.cwd, "RMT005")
    assert (one["path"], one["severity"], one["intent_id"]) == ("tests/test_app.py", "warning", "INT-001")
    assert said in one["message"]


def test_new_tests_do_not_hide_the_loss_of_old_ones(agent: Agent) -> None:
    code(agent)
    agent.write("tests/test_app.py", TESTS)
    more = "".join(f"def test_more_{n}():\n    assert {n} == {n}\n\n\n" for n in range(9))
    agent.write("tests/test_more.py", more)
    (one,) = found(agent.cwd, "RMT005")
    assert (one["path"], "1 test fewer" in one["message"]) == ("tests/test_app.py", True)


def test_a_test_file_that_was_removed_is_named_in_its_range(agent: Agent) -> None:
    code(agent)
    commit(agent.cwd)
    agent.shell("rm tests/test_app.py")
    agent.write("src/app.py", "def main():\n    return 3\n")
    commit(agent.cwd)
    agent.write("src/other.py", "def other():\n    return 'something else'\n")
    commit(agent.cwd)
    assert [f["path"] for f in found(agent.cwd, "RMT005")] == ["tests/test_app.py"]
    assert [f["path"] for f in found(agent.cwd, "RMT005", "HEAD~2..HEAD~1")] == ["tests/test_app.py"]
    assert found(agent.cwd, "RMT005", "HEAD~1..HEAD") == []


def test_other_changes_of_tests_are_none_of_it(agent: Agent, home: Path) -> None:
    agent.write("tests/test_app.py", TESTS)
    assert found(agent.cwd, "RMT005") == []  # no code changed with it
    agent.write("tests/test_app.py", TWO)
    code(agent)
    agent.shell("git mv tests/test_app.py tests/test_main.py")
    agent.write("tests/test_more.py", "def test_three():\n    assert 1 + 1 == 2\n")
    assert found(agent.cwd, "RMT005") == []  # moved, and more of them
    (agent.cwd / "tests/test_main.py").write_text("# a person's work\n")
    other = Agent(agent.cwd, home, session="session-2")
    other.select("INT-002")
    other.write("docs/x.md", "test_two is gone\n")
    agent.write("src/app.py", "def main():\n    return 4\n")
    assert found(agent.cwd, "RMT005") == []  # not the agent's doing


# --- RMT006 ----------------------------------------------------------------------------------------------------


def test_a_criterion_of_a_closed_intent_without_a_run_is_noted(repository: Path, home: Path) -> None:
    gate = working(repository, home, "test -f README.md", "test -f later", trusted=False)
    (repository / "later").write_text("")
    assert found(repository, "RMT006") == []  # it is not closed
    gate.intents.set_status("INT-001", "DONE", by="person")
    said = [(f["message"], f["intent_id"]) for f in found(repository, "RMT006")]
    assert said == [
        ("INT-001 was closed without evidence for 'C0': 'test -f README.md' was never run", "INT-001"),
        ("INT-001 was closed without evidence for 'C1': 'test -f later' was never run", "INT-001"),
    ]


def test_a_run_that_passed_is_evidence_until_something_changes(repository: Path, home: Path) -> None:
    gate = working(repository, home, "test -f README.md")
    assert complete(gate) == "DONE"
    assert found(repository, "RMT006") == []
    set_mode(gate.workspace, "observe")
    set_active_again(gate, repository)
    agent = Agent(repository, home)
    agent.write("src/x.py", "x = 1\n")
    gate.intents.set_status("INT-001", "DONE", by="person")
    (one,) = found(repository, "RMT006")
    assert "passed before the last change" in one["message"]


def set_active_again(gate: Gate, repository: Path) -> None:
    """The person opens the intent again, by hand."""
    path = repository / ".orchestration/active_intents.yaml"
    path.write_text(intents("test -f README.md"))
    trust_all(repository, gate.environment.home)
    gate.intents.select(KEY, "claude-code", "INT-001")


def test_words_alone_need_a_persons_word(repository: Path, home: Path) -> None:
    governed(repository)
    gate = Gate.open(repository, machine(home))
    gate.intents.select(KEY, "claude-code", "INT-001")
    assert complete(gate) == "DONE"
    (one,) = found(repository, "RMT006")
    assert "'it works': it names no command, and claude-code alone said that it is met" in one["message"]
    gate.intents.set_status("INT-002", "DONE", by="person")
    assert len(found(repository, "RMT006")) == 1


# --- RMT008 ----------------------------------------------------------------------------------------------------

HELPED = "work\n\nCo-authored-by: Claude Code <noreply@anthropic.com>\n"
SIGNED = "work\n\nSigned-off-by: Claude Code <noreply@anthropic.com>\n"


@pytest.mark.parametrize(
    ("settings", "message", "expected"),
    [
        ("", HELPED, []),
        ("", SIGNED, ["SIGNED_OFF_BY_AGENT"]),
        ("", "work\n\nSigned-off-by: A Person <person@example.org>\n", []),
        ('[trailers]\nstyle = "none"\n', HELPED, ["TRAILER_AGAINST_POLICY"]),
        ('[trailers]\nstyle = "kernel"\n', HELPED, ["TRAILER_AGAINST_POLICY"]),
        ('[trailers]\nstyle = "coauthor"\n', HELPED, []),
    ],
)
def test_messages_are_held_against_the_policy_that_is_written_down(
    agent: Agent, settings: str, message: str, expected: list[str]
) -> None:
    (agent.cwd / ".orchestration/remit.toml").write_text(f'mode = "enforce"\n{settings}')
    code(agent)
    run_git(agent.cwd, "add", "src")
    run_git(agent.cwd, "commit", "-qm", message)
    assert [f["message"].partition(":")[0] for f in found(agent.cwd, "RMT008", "HEAD")] == expected
    assert found(agent.cwd, "RMT008") == []


def test_what_is_about_a_commit_is_told_with_its_name(agent: Agent) -> None:
    code(agent)
    run_git(agent.cwd, "add", "src")
    run_git(agent.cwd, "commit", "-qm", SIGNED)
    name = run_git(agent.cwd, "rev-parse", "HEAD").strip()[:12]
    assert f"commit {name}: RMT008" in run(agent.cwd, "verify", "--fail-on", "never", "HEAD").stdout


@pytest.mark.parametrize(
    ("about", "place"),
    [
        ({"path": "src/a.py", "line": 3, "commit": "c" * 40, "record": "1-r"}, "src/a.py:3"),
        ({"path": "a\x1b[2J"}, "a\\x1b[2J"),
        ({"record": "019aa1c2-8fce-720b-8cb5-45d93e79c7ea"}, "record 45d93e79c7ea"),
        ({}, "ledger"),
    ],
)
def test_a_finding_has_a_place(about: dict[str, Any], place: str) -> None:
    assert finding_place(make_finding("RMT012", "x", **about)) == place


# --- RMT009, RMT010 --------------------------------------------------------------------------------------------


def test_what_steers_an_agent_and_what_the_project_depends_on_are_told_apart(agent: Agent) -> None:
    set_mode(Gate.open(agent.cwd).workspace, "observe")
    for path in (".claude/settings.json", ".qwen/hooks/x.sh", "package.json", "docs/settings.json"):
        agent.write(path, "{}\n")
    told = [(f["rule"], f["path"]) for f in data(agent.cwd, "verify", "--fail-on", "never")["findings"]]
    assert [(r, p) for r, p in told if r in ("RMT004", "RMT009", "RMT010")] == [
        ("RMT009", ".claude/settings.json"),
        ("RMT009", ".qwen/hooks/x.sh"),
        ("RMT010", "package.json"),
    ]


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        *((p, True) for p in ("uv.lock", "a/Cargo.lock", "go.sum", "go.mod", "requirements-dev.txt", "pyproject.toml")),
        *((p, True) for p in ("Gemfile", "pom.xml", "x/App.csproj", "package-lock.json", "pnpm-lock.yaml")),
        *((p, False) for p in ("src/lock.py", "docs/requirements.md", "tests/data.json", "a.lock", "package.py")),
    ],
)
def test_manifests_and_lock_files_are_known(path: str, expected: bool) -> None:
    assert is_dependency_file(path) is expected


# --- RMT011 ----------------------------------------------------------------------------------------------------


def test_a_secret_that_only_todays_patterns_know_is_named_and_not_shown(agent: Agent) -> None:
    agent.shell("echo corp-4711-secret-word > src/s.txt")
    assert found(agent.cwd, "RMT011") == []
    with (agent.cwd / ".orchestration/remit.toml").open("a") as file:
        file.write('[redact]\npatterns = ["corp-[0-9]{4}-[a-z]{1,20}"]\n')
    told = found(agent.cwd, "RMT011")
    said = "what looks like a secret stands in `call.command` of a record of tool_use"
    assert said in {f["message"].partition(":")[0] for f in told}
    assert "4711" not in str(told)


def test_a_broken_configuration_is_said_and_ends_nothing(agent: Agent) -> None:
    (agent.cwd / ".orchestration/remit.toml").write_text("[redact\n")
    code(agent)
    assert "no secrets by the team's own patterns" in data(agent.cwd, "verify", "HEAD")["remarks"][0]


def test_a_secret_in_a_note_is_named(agent: Agent) -> None:
    code(agent)
    commit(agent.cwd)
    run_git(agent.cwd, "notes", "--ref=ai", "add", "-m", "AKIAIOSFODNN7EXAMPLQ password=hunter22XkQ9", "HEAD")
    (one,) = found(agent.cwd, "RMT011")
    assert "in line 1 of the note of" in one["message"]
    assert "hunter" not in str(one)


def test_what_was_redacted_once_stays_as_it_is() -> None:
    once = redact_value(
        {"command": "curl -u me:s3cretWord9 --password=Xk9pQ7rT2w https://u:p4ss@host/", "token": "abcdef1"}
    )
    assert redact_value(once) == once
    assert redact(redact("export API_KEY=AKIAIOSFODNN7EXAMPLQ")) == redact("export API_KEY=AKIAIOSFODNN7EXAMPLQ")


def test_ordinary_work_has_none_of_these_findings(agent: Agent) -> None:
    code(agent)
    agent.write("tests/test_app.py", TWO + "\n\ndef test_three():\n    assert main() == 2\n")
    agent.shell("echo 1 > src/data.txt")
    agent.read("src/app.py")
    assert data(agent.cwd, "verify")["findings"] == []
    commit(agent.cwd)
    assert data(agent.cwd, "verify", "HEAD")["findings"] == []


def test_every_rule_is_in_the_reference() -> None:
    page = Path(__file__).parents[2] / "docs/reference/rules.md"
    text = page.read_text("utf-8")
    assert all(f"`{rule}`" in text for rule in RULES)

"""An intent with companions may write the tests and pages of what it owns, by file tools, and nothing else."""

from pathlib import Path

import pytest

from conftest import run_git
from gate.driving import Agent, allowed, body, governed, records, refusal

INTENTS = """\
version: "1.0"
active_intents:
  - id: INT-001
    name: Names
    status: IN_PROGRESS
    owned_scope: ["src/auth/**", "!tests/frozen/**"]
    companions: {}
    constraints: [none]
    acceptance_criteria: [it works]
"""

TRACKED = ["src/auth/login.py", "src/pay/charge.py", "src/auth/both.py", "src/pay/both.py"]
OLD_TESTS = ["tests/auth/test_login.py", "tests/test_charge.py"]


@pytest.fixture
def agent(repository: Path, home: Path) -> Agent:
    for path in (*TRACKED, *OLD_TESTS):
        (repository / path).parent.mkdir(parents=True, exist_ok=True)
        (repository / path).write_text("x = 1\n")
    run_git(repository, "add", "-A")
    run_git(repository, "commit", "-q", "-m", "more")
    found = Agent(governed(repository, intents=INTENTS.format("true")), home)
    found.select()
    return found


@pytest.mark.parametrize(
    "path", ["tests/auth/test_login.py", "tests/unit/login_test.py", "docs/auth/login.md", "src/web/../auth/a.py"]
)
def test_a_companion_counts_as_in_scope_and_its_records_say_so(agent: Agent, repository: Path, path: str) -> None:
    assert allowed(agent.write(path, "y = 2\n"))
    [use] = [body(r) for r in records(repository, "tool_use") if body(r)["call"]["name"] == "Write"]
    assert use["decision"]["rules"] == ([] if ".." in path else ["companion"])
    [change] = [body(r) for r in records(repository, "mutation")]
    assert change["in_scope"] is True


@pytest.mark.parametrize(
    "path",
    [
        "tests/test_charge.py",  # of a file that the intent does not own
        "tests/pay/test_login2.py",  # of no file
        "tests/test_both.py",  # of two, one of them another's
        "tests/frozen/test_login.py",  # taken out by the scope
        "docs/guide.md",
        "tests/conftest.py",
    ],
)
def test_what_is_nobodys_companion_or_anothers_is_refused(agent: Agent, path: str) -> None:
    assert refusal(agent.write(path, "y = 2\n")) == "SCOPE_VIOLATION"


def test_folders_tell_which_of_two_files_a_test_is_about(agent: Agent) -> None:
    assert allowed(agent.write("tests/auth/test_both.py", "y = 2\n"))
    assert refusal(agent.write("tests/pay/test_both.py", "y = 2\n")) == "SCOPE_VIOLATION"


def test_a_new_file_brings_its_new_test_but_no_old_one(agent: Agent, repository: Path) -> None:
    (repository / "src/auth/charge.py").write_text("")
    assert refusal(agent.write("tests/test_charge.py", "y = 2\n")) == "SCOPE_VIOLATION"
    assert allowed(agent.write("src/auth/fresh.py", "y = 2\n"))
    assert allowed(agent.write("tests/test_fresh.py", "y = 2\n"))
    assert allowed(agent.write("tests/test_fresh.py", "y = 3\n"))


def test_a_command_writes_no_companion(agent: Agent, repository: Path) -> None:
    assert refusal(agent.shell("echo y = 2 > tests/auth/test_login.py")) == "SCOPE_VIOLATION"
    assert (repository / "tests/auth/test_login.py").read_text() == "x = 1\n"


def test_a_link_with_a_companions_name_leads_where_it_leads(agent: Agent, repository: Path) -> None:
    (repository / "tests/auth/login_test.py").symlink_to("../../src/pay/charge.py")
    assert refusal(agent.write("tests/auth/login_test.py", "y = 2\n")) == "SCOPE_VIOLATION"


def test_without_companions_a_test_is_outside(repository: Path, home: Path) -> None:
    agent = Agent(governed(repository, intents=INTENTS.format("false")), home)
    agent.select()
    assert refusal(agent.write("tests/test_login.py", "y = 2\n")) == "SCOPE_VIOLATION"

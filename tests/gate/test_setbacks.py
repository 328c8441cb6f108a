"""Leases, the circuit breaker, detours: one agent or two, through the hook's own door."""

from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gate.driving import INTENTS, Agent, allowed, body, governed, records, refusal
from remit.core.call import SessionKey
from remit.core.decision import DeniedPath
from remit.gate.gate import Gate
from remit.gate.intents.person_edits import PERSON
from remit.gate.state.workspace_state import State
from remit.policy.checks.call import names_denied_path
from stepped_clock import SteppedClock


class Clocked(Agent):
    """An agent whose machine's clock can be moved."""

    def later(self, seconds: float) -> None:
        """Move the clock on."""
        later = SteppedClock(self.environment.clock.now() + seconds)
        self.environment = msgspec.structs.replace(self.environment, clock=later)

    def fail(self, tool: str = "Bash", **arguments: Any) -> None:
        """A call that is let through and fails."""
        asked = self.ask(tool, **arguments)
        self.send(
            "PostToolUseFailure",
            tool_name=tool,
            tool_input=arguments,
            tool_use_id=asked["call_id"],
            error="Exit code 1",
        )


@pytest.fixture
def agent(repository: Path, home: Path) -> Clocked:
    """An agent under INT-001."""
    found = Clocked(governed(repository), home)
    found.select()
    return found


@pytest.fixture
def other(agent: Clocked) -> Clocked:
    """Another session under the same intent."""
    found = Clocked(agent.cwd, agent.home, "session-2")
    found.select()
    return found


def violation(root: Path) -> dict[str, Any]:
    """The newest violation."""
    return body(records(root, "denied")[-1])["violation"]


def start_write(agent: Agent, path: str = "src/new.py") -> dict[str, Any]:
    """A write that is let through and has not come back."""
    return agent.ask("Write", file_path=path, content="x = 1\n")


def test_a_path_that_another_session_is_writing_is_leased(agent: Clocked, other: Clocked) -> None:
    start_write(agent)
    assert refusal(start_write(other)) == "FILE_LEASED"
    assert violation(agent.cwd)["action_hint"] == "retry_later"
    assert violation(agent.cwd)["context"]["held_by"] == "session-1"
    assert allowed(start_write(other, "src/else.py"))


def test_a_lease_is_no_matter_to_its_own_session_nor_to_a_reader(agent: Clocked, other: Clocked) -> None:
    start_write(agent)
    assert allowed(start_write(agent))
    assert allowed(other.ask("Read", file_path="src/new.py"))


def test_the_result_of_the_call_releases_its_lease(agent: Clocked, other: Clocked) -> None:
    begun = start_write(agent)
    agent.tell("Write", begun["call_id"], file_path="src/new.py", content="x = 1\n")
    assert allowed(start_write(other))


def test_the_end_of_the_turn_releases_a_lease(agent: Clocked, other: Clocked) -> None:
    start_write(agent)
    agent.send("Stop")
    assert allowed(start_write(other))


def test_a_lease_ends_by_itself(agent: Clocked, other: Clocked) -> None:
    start_write(agent)
    other.later(61)
    assert allowed(start_write(other))


def test_the_fourth_try_after_three_equal_denials_opens_the_circuit(agent: Clocked) -> None:
    assert [refusal(agent.write("docs/x.md", "x")) for _ in range(3)] == ["SCOPE_VIOLATION"] * 3
    assert refusal(agent.write("src/fine.py", "x")) == "CIRCUIT_OPEN"
    assert violation(agent.cwd)["action_hint"] == "stop_and_report"
    assert violation(agent.cwd)["recoverable"] is False
    assert allowed(agent.read("src/app.py"))
    assert allowed(agent.ask("mcp__remit__list_active_intents"))


def test_different_denials_do_not_add_up(agent: Clocked) -> None:
    for number in range(6):
        assert refusal(agent.write(f"docs/{number % 2}.md", "x")) == "SCOPE_VIOLATION"
    assert allowed(agent.write("src/fine.py", "x"))


def test_other_constraints_of_one_file_are_other_denials(repository: Path, home: Path) -> None:
    kinds = [f"{{type: forbid_pattern, paths: '**', pattern: {word}}}" for word in ("one", "two", "three")]
    intents = INTENTS.replace("constraints: [none]", f"constraints: [{', '.join(kinds)}]")
    agent = Clocked(governed(repository, intents=intents), home)
    agent.select()
    for word in ("one", "two", "three", "one"):
        assert refusal(agent.write("src/a.py", f"{word}\n")) == "CONSTRAINT_VIOLATION"
    assert allowed(agent.write("src/a.py", "four\n"))


def test_five_failed_tools_open_the_circuit(agent: Clocked) -> None:
    for _ in range(5):
        agent.fail(command="make")
    assert refusal(agent.ask("Bash", command="make")) == "CIRCUIT_OPEN"


def test_a_success_ends_the_row(agent: Clocked) -> None:
    for _ in range(4):
        agent.fail(command="make")
    agent.write("src/fine.py", "x")
    agent.fail(command="make")
    assert allowed(agent.ask("Bash", command="make"))


def test_the_person_closes_an_open_circuit_by_writing(agent: Clocked) -> None:
    for _ in range(5):
        agent.fail(command="make")
    agent.send("UserPromptSubmit", prompt="go on")
    assert allowed(agent.ask("Bash", command="make"))


def test_an_open_circuit_closes_after_a_minute_even_for_one_who_keeps_trying(agent: Clocked) -> None:
    for _ in range(5):
        agent.fail(command="make")
    agent.later(40)
    assert refusal(agent.ask("Bash", command="make")) == "CIRCUIT_OPEN"
    agent.later(21)
    assert allowed(agent.ask("Bash", command="make"))


def test_the_circuit_of_one_session_is_not_another_ones(agent: Clocked, other: Clocked) -> None:
    for _ in range(5):
        agent.fail(command="make")
    assert allowed(other.ask("Bash", command="make"))


def test_the_second_try_by_another_tool_is_named_as_one(agent: Clocked) -> None:
    agent.write("docs/x.md", "x")
    assert refusal(agent.ask("Edit", file_path="docs/x.md", old_string="a", new_string="b")) == "SCOPE_VIOLATION"
    context = violation(agent.cwd)["context"]
    assert context["detour"] is True
    assert context["first_denial"] == {"error_type": "SCOPE_VIOLATION", "path": "docs/x.md", "tool": "Write"}


def test_the_same_tool_again_is_no_detour(agent: Clocked) -> None:
    agent.write("docs/x.md", "x")
    agent.write("docs/x.md", "x")
    assert "detour" not in violation(agent.cwd)["context"]


@pytest.mark.parametrize(
    "command",
    [
        "echo x > docs/x.md",
        "tee ./docs/x.md",
        "sh -c 'echo x >docs/x.md'",
        'python3 -c \'open("docs/x.md", "w")\'',
        "cp a docs/'x.md'",
        "echo x > {root}/docs/x.md",
    ],
)
def test_a_command_that_names_a_refused_path_is_refused(agent: Clocked, command: str) -> None:
    asked = command.replace("{root}", str(agent.cwd))
    agent.write("docs/x.md", "x")
    assert refusal(agent.ask("Bash", command=asked)) == "COMMAND_BLOCKED"
    assert violation(agent.cwd)["context"]["first_denial"]["tool"] == "Write"


@pytest.mark.parametrize(
    "command", ["cat docs/x.md", "touch src/x.md", "touch src/docs/x.md", "cp docs/x.md src/x.md", "make docs/x.md.bak"]
)
def test_a_command_that_only_reads_it_or_names_another_goes_on(agent: Clocked, command: str) -> None:
    agent.write("docs/x.md", "x")
    assert allowed(agent.ask("Bash", command=command))


def test_a_detour_ends_when_a_person_selects_an_intent_that_owns_the_path(agent: Clocked) -> None:
    agent.write("docs/x.md", "x")
    gate = Gate.open(agent.cwd, agent.environment)
    gate.intents.select(SessionKey(agent.session), PERSON, "INT-002", said_by=PERSON)
    assert allowed(agent.ask("Bash", command="touch docs/x.md"))


def test_a_detour_ends_when_the_scope_is_widened(agent: Clocked) -> None:
    agent.write("docs/x.md", "x")
    file = agent.cwd / ".orchestration" / "active_intents.yaml"
    file.write_text(file.read_text().replace('["src/**"]', '["src/**", "docs/**"]'))
    assert allowed(agent.ask("Bash", command="touch docs/x.md"))


def test_a_detour_ends_with_time(agent: Clocked) -> None:
    agent.write("docs/x.md", "x")
    assert refusal(agent.ask("Bash", command="make docs/x.md")) == "COMMAND_BLOCKED"
    agent.later(601)
    assert allowed(agent.ask("Bash", command="make docs/x.md"))


def test_a_sub_agent_is_no_way_round_and_another_session_is_not_concerned(agent: Clocked, other: Clocked) -> None:
    agent.write("docs/x.md", "x")
    assert refusal(Clocked(agent.cwd, agent.home, agent_id="sub").ask("Bash", command="touch docs/x.md"))
    assert allowed(other.ask("Bash", command="make docs/x.md"))


@given(st.text("ab/.-_", min_size=1, max_size=12), st.sampled_from(["a", "/", "-", "_", "b.b"]))
def test_a_path_is_found_by_itself_and_not_within_a_longer_one(path: str, more: str) -> None:
    denied = DeniedPath(path, "SCOPE_VIOLATION", "Write", (path,))
    assert names_denied_path(f"touch '{path}'", denied)
    assert not names_denied_path(f"touch {more}{path}x", denied)


def test_a_state_without_the_newer_tables_gets_them(tmp_path: Path) -> None:
    path = tmp_path / "state.db"
    state = State(path, tmp_path)
    for table in ("setbacks", "denied", "baseline"):
        state.connection.execute(f"DROP TABLE {table}")
    state.connection.execute("PRAGMA user_version=1")
    state.close()
    assert State(path, tmp_path).fetch_row("SELECT count(*) FROM setbacks") == (0,)

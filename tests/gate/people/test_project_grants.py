"""A yes for the project is a line of `remit.toml`: a person's to write, everybody's to have, no agent's to touch."""

import tomllib
from pathlib import Path
from typing import Any

import pytest

from gate.driving import Agent, allowed, body, governed, machine, records, refusal
from gate.people.test_ask import World
from remit.core.decision import Grant
from remit.gate.gate import Gate
from remit.gate.people.grants import remove_project_grant, trust_grant
from remit.gate.people.questions import ApprovalReply
from remit.gate.people.trust import describe_untrusted

COMMENTED = 'mode = "enforce"  # since May\n\n[approvals]\n# seldom\nthreshold = 90\n'


def given(root: Path) -> list[dict[str, Any]]:
    return tomllib.loads((root / ".orchestration/remit.toml").read_text()).get("grants", [])


@pytest.fixture
def world(repository: Path, home: Path) -> World:
    found = World(repository, home, None)
    (repository / ".orchestration/remit.toml").write_text(COMMENTED)
    return found


def test_a_yes_for_the_project_is_written_into_the_file_and_holds_for_every_session(world: World, home: Path) -> None:
    with world.person(ApprovalReply(True, extent="project")):
        assert allowed(world.agent.write("docs/a.md", "x\n"))
    text = (world.root / ".orchestration/remit.toml").read_text()
    assert text.startswith(COMMENTED)
    [entry] = given(world.root)
    assert (entry["code"], entry["pattern"], entry["by"]) == ("SCOPE_VIOLATION", "docs/**", "person")
    assert world.gate.state.fetch_rows("SELECT id FROM grants") == []
    other = Agent(world.root, home, session="another", clock=world.clock)
    other.select()
    assert allowed(other.write("docs/b.md", "x\n"))
    assert refusal(other.write("tests/b.md", "x\n")) == "SCOPE_VIOLATION"
    assert [body(r)["decision"]["grant"] for r in records(world.root, "tool_use")][-1] == entry["id"]


def test_it_is_taken_back_and_the_file_is_as_it_was(world: World, home: Path) -> None:
    with world.person(ApprovalReply(True, extent="project")):
        assert allowed(world.agent.write("docs/a.md", "x\n"))
    [entry] = given(world.root)
    assert remove_project_grant(world.gate, entry["id"])
    assert (world.root / ".orchestration/remit.toml").read_text() == COMMENTED
    assert not remove_project_grant(world.gate, entry["id"])
    assert refusal(world.agent.write("docs/b.md", "x\n")) == "SCOPE_VIOLATION"


def test_a_project_grant_of_an_older_state_still_holds(world: World) -> None:
    world.gate.state.put_grant(Grant("old", "SCOPE_VIOLATION", "project", pattern="docs/**"))
    assert allowed(world.agent.write("docs/a.md", "x\n"))


def test_where_the_file_cannot_be_written_the_yes_is_kept_all_the_same(world: World, home: Path) -> None:
    (world.root / ".orchestration/remit.toml").write_text("grants = []\n")
    with world.person(ApprovalReply(True, extent="project")):
        assert allowed(world.agent.write("docs/a.md", "x\n"))
    assert given(world.root) == []
    assert [g.extent for g in world.gate.active_grants(world.gate.rules)] == ["project"]


@pytest.mark.parametrize(
    "lines", ['pattern = "docs/**"', 'pattern = "**"', 'tool = "Write"', 'by = "person"\npattern = "docs/**"']
)
def test_a_line_that_came_with_the_repository_waives_nothing_before_a_person_trusts_it(
    world: World, lines: str
) -> None:
    """A clone, a pull, a checkout or an editor brings it: only an answer here, or `remit trust`, gives it effect."""
    entry = f'{COMMENTED}\n[[grants]]\nid = "x"\ncode = "SCOPE_VIOLATION"\n{lines}\n'
    (world.root / ".orchestration/remit.toml").write_text(entry)
    assert refusal(world.agent.write("docs/x.md", "x\n")) == "SCOPE_VIOLATION"
    gate = world.gate
    assert (
        describe_untrusted(gate.untrusted_commands) == "1 [[grants]] of remit.toml are not trusted, and waive nothing"
    )
    trust_grant(gate, gate.rules.config.grants[0])
    if "tool" not in lines:
        assert allowed(world.agent.write("docs/x.md", "x\n"))
    # Another line under the same id was never seen.
    (world.root / ".orchestration/remit.toml").write_text(entry.replace("docs/**", "tests/**").replace('"**"', '"*"'))
    assert refusal(world.agent.write("tests/x.md", "x\n")) == "SCOPE_VIOLATION"


@pytest.mark.parametrize("words", ["[[grants]]", 'mode = "observe"'])
def test_an_agent_cannot_write_the_file(world: World, words: str) -> None:
    held = (world.root / ".orchestration/remit.toml").read_text()
    assert refusal(world.agent.write(".orchestration/remit.toml", words)) == "PROTECTED_PATH"
    told = world.agent.ask("Bash", command=f"printf '{words}' >> .orchestration/remit.toml")
    assert refusal(told) in ("PROTECTED_PATH", "COMMAND_BLOCKED", "SCOPE_VIOLATION")
    assert (world.root / ".orchestration/remit.toml").read_text() == held


def test_a_line_that_an_agents_command_slipped_in_is_put_back(world: World) -> None:
    call = world.agent.ask("Bash", command="make x")
    with (world.root / ".orchestration/remit.toml").open("a") as file:
        file.write('[[grants]]\nid = "x"\ncode = "SCOPE_VIOLATION"\npattern = "**"\n')
    world.agent.tell("Bash", call["call_id"], command="make x")
    assert given(world.root) == []


def test_a_persons_line_stays_while_an_agents_command_runs(world: World, home: Path) -> None:
    other = Agent(world.root, home, session="another", clock=world.clock)
    other.select()
    running = other.ask("Bash", command="make x")
    with world.person(ApprovalReply(True, extent="project")):
        assert allowed(world.agent.write("docs/a.md", "x\n"))
    other.tell("Bash", running["call_id"], command="make x")
    assert [entry["pattern"] for entry in given(world.root)] == ["docs/**"]


@pytest.mark.parametrize(
    "lines",
    [
        'code = "PROTECTED_PATH"\npattern = "**"',
        'code = "OUTSIDE_WORKSPACE"\npattern = "**"',
        'code = "SCOPE_VIOLATION"\npattern = "/etc/**"',
        'code = "SCOPE_VIOLATION"\npattern = "docs/**"\ntool = "Write"',
        'code = "SCOPE_VIOLATION"',
    ],
)
def test_a_line_that_goes_too_far_is_an_error(world: World, lines: str) -> None:
    (world.root / ".orchestration/remit.toml").write_text(f'mode = "enforce"\n[[grants]]\nid = "x"\n{lines}\n')
    assert refusal(world.agent.write("src/a.py", "x\n")) == "CONFIG_INVALID"


@pytest.mark.parametrize(
    ("prefix", "command"),
    [
        ('["git"]', "git push --force"),
        ('["git", "push"]', "git push --force"),
        ('["bash"]', "bash -c 'git push --force'"),
        ('["sudo"]', "sudo ls"),
        ('["remit"]', "remit mode observe"),
    ],
)
def test_a_line_written_by_hand_covers_no_heavy_command_and_no_word_that_says_too_little(
    world: World, prefix: str, command: str
) -> None:
    entry = f'mode = "enforce"\n[[grants]]\nid = "x"\ncode = "COMMAND_BLOCKED"\ncommand = {prefix}\n'
    (world.root / ".orchestration/remit.toml").write_text(entry)
    assert refusal(world.agent.ask("Bash", command=command)) == "COMMAND_BLOCKED"


def test_protected_paths_are_no_override(repository: Path, home: Path) -> None:
    governed(repository)
    (repository / ".orchestration/remit.toml").write_text('mode = "enforce"\noverrides = ["PROTECTED_PATH"]\n')
    found = Gate.open(repository, machine(home)).rules.config_error
    assert found is not None
    assert "never waived" in found

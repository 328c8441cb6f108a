"""What a contained command leaves keeps to the intent's constraints, or does not come over."""

from pathlib import Path

from gate.driving import Agent, body, governed, overlay, records, run_shell
from gate.hooks.test_constraints import INTENTS


def contained(repository: Path, home: Path, rule: str) -> Agent:
    """An agent under an intent with this constraint, whose commands run contained."""
    overlay(home)
    governed(repository, "enforce", f"{INTENTS}      - {rule}\n")
    (home / "tmp").mkdir(exist_ok=True)
    agent = Agent(repository, home)
    agent.select()
    return agent


def run(agent: Agent, command: str) -> str:
    """Run it as the agent is told to; what it says as an error."""
    before = agent.ask("Bash", command=command)
    given = before["updatedInput"]
    done = run_shell(given["command"], agent.cwd)
    agent.tell("Bash", before["call_id"], {"stdout": ""}, **given)
    return done.stderr


def test_a_file_that_breaks_a_constraint_is_dropped_and_told(repository: Path, home: Path) -> None:
    agent = contained(repository, home, "{type: max_lines, max: 2}")
    said = run(agent, "python3 -c \"open('src/a.py','w').write('1\\n'*3); open('src/b.py','w').write('1\\n')\"")
    assert "src/a.py: 3 lines; INT-001 asks for at most 2." in said
    assert ("the constraint holds" in said, "the scope" in said) == (True, False)
    assert sorted(path.name for path in (repository / "src").iterdir()) == ["app.py", "b.py"]
    assert body(records(repository, "denied")[-1])["violation"]["error_type"] == "CONSTRAINT_VIOLATION"


def test_what_was_so_before_comes_over_and_a_move_is_dropped_whole(repository: Path, home: Path) -> None:
    (repository / "long.txt").write_text("1\n" * 5)
    agent = contained(repository, home, "{type: max_lines, max: 2}")
    run(agent, "python3 -c \"open('long.txt','w').write('2\\n'*4)\"")
    assert (repository / "long.txt").read_text() == "2\n" * 4
    run(agent, "python3 -c \"import os; os.rename('long.txt', 'src/long.txt')\"")
    assert (repository / "long.txt").read_text() == "2\n" * 4
    assert not (repository / "src" / "long.txt").exists()

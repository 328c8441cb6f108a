"""Coverage: what was judged before it changed, from a ledger that a real session wrote."""

from pathlib import Path

from click.testing import CliRunner

from gate.driving import Agent, governed
from remit.cli.status import status
from remit.gate.gate import Gate
from remit.ledger.index import Index
from remit.provenance.coverage import Coverage, coverage, share


def covered(root: Path) -> Coverage:
    """The coverage of that workspace."""
    place = Gate.open(root).workspace
    with Index.open(place.state / "index.db", place.log_folder) as index:
        index.catch_up()
        return coverage(index)


def worked(repository: Path, home: Path) -> Agent:
    """A session that wrote a file, ran a command that wrote another, while a person wrote a third."""
    agent = Agent(governed(repository), home)
    agent.send("SessionStart", source="startup")
    agent.select()
    agent.write("src/a.py", "a\n")
    agent.shell("python3 -c \"open('src/b.py','w')\"")
    (repository / "README.md").write_text("mine\n")
    agent.send("Stop")
    return agent


def test_only_what_was_judged_by_name_counts_as_judged(repository: Path, home: Path) -> None:
    found = covered(worked(repository, home).cwd)
    assert (found.overall.changed, found.overall.judged) == (3, 1)
    assert found.overall.ungoverned == ("README.md", "src/b.py")


def test_each_session_has_its_own_share(repository: Path, home: Path) -> None:
    found = covered(worked(repository, home).cwd)
    assert found.sessions["session-1"].ungoverned == ("src/b.py",)
    assert found.sessions[None].ungoverned == ("README.md",)


def test_one_unjudged_change_makes_a_file_ungoverned() -> None:
    files = [{"path": "x"}]
    found = share([{"covered": True, "files": files}, {"covered": False, "files": files}])
    assert (found.changed, found.judged) == (1, 0)


def test_status_names_the_ungoverned_files(repository: Path, home: Path) -> None:
    worked(repository, home)
    said = CliRunner().invoke(status, ["--repo", str(repository)]).output
    assert "1 of 3 changed files were judged before they changed" in said
    assert "not: README.md, src/b.py" in said

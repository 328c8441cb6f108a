"""Coverage of changes by verdicts, from a ledger of a real session."""

import json
from pathlib import Path

from click.testing import CliRunner

from conftest import run_git
from gate.driving import Agent, governed
from remit.cli.blame.stats import stats
from remit.cli.status import status
from remit.gate.gate import Gate
from remit.ledger.index.index import Index
from remit.provenance.verify.verdict_coverage import Coverage, measure_coverage, measure_share


def coverage_of(root: Path) -> Coverage:
    """Return the coverage of the workspace."""
    place = Gate.open(root).workspace
    with Index.open(place.state / "index.db", place.log_folder) as index:
        index.catch_up()
        return measure_coverage(index)


def run_session(repository: Path, home: Path) -> Agent:
    """Run a session that writes a file and runs a command that writes a second, while a person writes a third."""
    agent = Agent(governed(repository), home)
    agent.send("SessionStart", source="startup")
    agent.select()
    agent.write("src/a.py", "a\n")
    agent.shell("python3 -c \"open('src/b.py','w')\"")
    (repository / "README.md").write_text("mine\n")
    agent.send("Stop")
    return agent


def test_only_files_named_by_a_judged_call_count_as_covered(repository: Path, home: Path) -> None:
    found = coverage_of(run_session(repository, home).cwd)
    assert (found.overall.changed, found.overall.covered_files) == (3, 1)
    assert found.overall.ungoverned == ("README.md", "src/b.py")


def test_each_session_has_its_own_share(repository: Path, home: Path) -> None:
    found = coverage_of(run_session(repository, home).cwd)
    assert found.sessions["session-1"].ungoverned == ("src/b.py",)
    assert found.sessions[None].ungoverned == ("README.md",)


def test_one_unjudged_change_makes_a_file_ungoverned() -> None:
    files = [{"path": "x"}]
    found = measure_share([{"covered": True, "files": files}, {"covered": False, "files": files}])
    assert (found.changed, found.covered_files) == (1, 0)


def test_changes_by_people_need_no_verdict_and_are_counted_apart(repository: Path, home: Path) -> None:
    agent = Agent(governed(repository), home)
    agent.send("SessionStart", source="startup")
    agent.select()
    agent.write("src/a.py", "a\n")
    (repository / "README.md").write_text("mine\n")
    agent.send("Stop")
    found = coverage_of(repository).overall
    assert (found.changed, found.covered_files, found.people) == (1, 1, 1)


def test_each_change_without_a_verdict_names_its_likeliest_writer(repository: Path, home: Path) -> None:
    root = run_session(repository, home).cwd
    found = {c.path: c for c in coverage_of(root).changes}
    assert found["src/b.py"].writers == ("session session-1",)
    assert found["README.md"].why == "no call explains it"
    assert "session session-1 of claude-code, which has run commands" in found["README.md"].writers[0]
    listed = CliRunner().invoke(status, ["--coverage", "--repo", str(repository)]).output
    assert "README.md  no call explains it" in listed
    assert "written by session session-1" in listed
    assert "perhaps by session session-1 of claude-code" in listed


def test_older_changes_are_outside_the_asked_time(repository: Path, home: Path) -> None:
    run_session(repository, home)
    place = Gate.open(repository).workspace
    with Index.open(place.state / "index.db", place.log_folder) as index:
        index.catch_up()
        assert measure_coverage(index, since="2999-01-01T00:00:00.000000Z").overall.changed == 0
        assert measure_coverage(index, until="2999-01-01T00:00:00.000000Z").overall.changed == 3


def test_each_file_of_a_range_counts_by_the_origin_of_its_content(repository: Path, home: Path) -> None:
    root = run_session(repository, home).cwd
    (root / "src" / "later.py").write_text("nobody saw this\n")
    run_git(root, "add", "src", "README.md")
    run_git(root, "commit", "-qm", "two")
    done = CliRunner().invoke(stats, ["--range", "HEAD~1..HEAD", "--json", "--repo", str(root)])
    assert done.exit_code == 0, done.output
    found = json.loads(done.output)["data"]["coverage"]["range"]
    assert found["judged"] == 1
    assert found["ungoverned"] == ["README.md", "src/b.py"]
    assert found["unrecorded"] == ["src/later.py"]


def test_status_names_the_ungoverned_files(repository: Path, home: Path) -> None:
    run_session(repository, home)
    said = CliRunner().invoke(status, ["--repo", str(repository)]).output
    assert "1 of 3 changed files were judged before they changed" in said
    assert "not: README.md, src/b.py" in said

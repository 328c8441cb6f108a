"""`remit intent archive`: the files of ended intents go into a folder of their own, and count there as before."""

from pathlib import Path

from cli.running import data, remit, run
from conftest import run_git
from gate.driving import governed
from remit.gate.gate import Gate


def test_files_of_ended_intents_are_moved_and_count_as_before(repository: Path, home: Path) -> None:
    governed(repository)
    listed = run(repository, "intent", "archive", "--before", "90d")
    assert (listed.returncode, "`remit intent migrate`" in listed.stderr) == (2, True)
    remit(repository, "intent", "migrate")
    remit(repository, "intent", "complete", "INT-001", "--notes", "ran")
    # As of a clone: no record tells of the end, and the newest commit of the file does.
    folder = repository / ".orchestration/intents"
    (folder / "INT-009-old.yaml").write_text("id: INT-009\nowned_scope:\n  - old/**\n\nstatus: ABORTED\n")
    assert remit(repository, "intent", "archive", "--before", "now", "--dry-run").count("INT-009") == 0
    run_git(repository, "add", "-A")
    run_git(repository, "commit", "-qm", "ended")

    assert "no intent with a file" in remit(repository, "intent", "archive", "--before", "90d")
    assert run(repository, "intent", "archive", "--before", "now", CLAUDECODE="1").returncode == 3
    assert run(repository, "intent", "archive", "--before", "soon\x1b").returncode == 2
    before, head = data(repository, "intent", "list"), run_git(repository, "rev-parse", "HEAD")
    (folder / "closed").mkdir()
    (folder / "closed/INT-009-old.yaml").write_text("id: INT-008\nowned_scope:\n  - old/**\n")
    taken = run(repository, "intent", "archive", "--before", "2999-01-01")
    assert (taken.returncode, "is there already" in taken.stderr) == (2, True), taken
    (folder / "closed/INT-009-old.yaml").unlink()

    said = remit(repository, "intent", "archive", "--before", "2999-01-01")
    assert said.count("written  intents/closed/INT-") == 2, said
    assert sorted(path.name for path in (folder / "closed").iterdir()) == ["INT-001-names.yaml", "INT-009-old.yaml"]
    assert not (folder / "INT-001-names.yaml").exists()
    after = data(repository, "intent", "list")
    assert sorted(map(str, after)) == sorted(map(str, before))
    rules = Gate.open(repository).rules
    assert (rules.errors, rules.loosened) == ((), ())
    assert run_git(repository, "rev-parse", "HEAD") == head
    assert run_git(repository, "diff", "--cached", "--name-only") == ""

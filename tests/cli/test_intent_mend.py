"""`remit intent resolve`: what git could not merge of the intents, a person merges with one command."""

from pathlib import Path

import pytest

from cli.running import data, remit, run
from conftest import run_git
from gate.driving import governed


@pytest.fixture
def conflict(repository: Path, home: Path) -> Path:
    """A repository in the middle of a merge: both sides made an INT-003."""
    governed(repository)
    run_git(repository, "add", "-A")
    run_git(repository, "commit", "-qm", "govern")
    run_git(repository, "checkout", "-qb", "other")
    remit(repository, "intent", "new", "Theirs", "--scope", "docs/**")
    run_git(repository, "commit", "-qam", "theirs")
    run_git(repository, "checkout", "-q", "-")
    remit(repository, "intent", "new", "Mine", "--scope", "src/**", "--id", "INT-003")
    run_git(repository, "commit", "-qam", "mine")
    with pytest.raises(Exception, match="merge"):
        run_git(repository, "merge", "-q", "other")
    return repository


def test_a_conflict_is_named_with_its_cure(conflict: Path) -> None:
    done = run(conflict, "intent", "lint")
    assert done.returncode == 1
    assert "CONFLICT_MARKERS: git left conflict markers (ours: HEAD, theirs: other). Run: remit intent resolve" in (
        done.stdout
    )


def test_both_intents_stay_and_the_younger_gets_a_new_id(conflict: Path) -> None:
    said = remit(conflict, "intent", "resolve")
    assert "INT-003 was made twice" in said
    assert "then: git add .orchestration/active_intents.yaml" in said
    assert remit(conflict, "intent", "lint")
    assert {i["name"] for i in data(conflict, "intent", "list")} == {"Names", "Docs", "Mine", "Theirs"}
    run_git(conflict, "add", "-A")
    run_git(conflict, "commit", "-qm", "merged")
    assert remit(conflict, "intent", "resolve") == "git left no conflict in the intents\n"


def test_markers_that_git_knows_nothing_of_are_said_to_be_so(conflict: Path) -> None:
    run_git(conflict, "add", "-A")
    done = run(conflict, "intent", "resolve")
    assert done.returncode != 0
    assert "git checkout -m -- FILE" in done.stderr


def test_an_agent_resolves_nothing(conflict: Path) -> None:
    done = run(conflict, "intent", "resolve", CLAUDECODE="1")
    assert (done.returncode, "is for a person" in done.stderr) == (3, True)


@pytest.fixture
def closed(repository: Path, home: Path) -> Path:
    """A repository whose INT-001 is DONE, and committed."""
    governed(repository)
    remit(repository, "intent", "complete", "INT-001", "--notes", "ran")
    run_git(repository, "add", "-A")
    run_git(repository, "commit", "-qm", "done")
    return repository


def find_status(folder: Path) -> str:
    return next(i["status"] for i in data(folder, "intent", "list") if i["id"] == "INT-001")


def test_a_person_reopens_what_was_closed_too_early(closed: Path) -> None:
    assert remit(closed, "intent", "reopen", "INT-001", "--reason", "too early") == "INT-001 is open again\n"
    assert find_status(closed) == "IN_PROGRESS"
    assert "DONE" not in (closed / ".orchestration/active_intents.yaml").read_text()
    [record] = data(closed, "log", "--event", "intent_reopened")
    assert "too early" in str(record)
    assert remit(closed, "intent", "complete", "INT-001", "--notes", "again")
    assert find_status(closed) == "DONE"


def test_an_older_checkout_with_exactly_that_end_is_open_too(closed: Path) -> None:
    remit(closed, "intent", "reopen", "INT-001", "--reason", "too early")
    run_git(closed, "checkout", "-q", "--", ".")
    assert find_status(closed) == "IN_PROGRESS"


def test_an_open_intent_is_not_reopened(closed: Path) -> None:
    done = run(closed, "intent", "reopen", "INT-002", "--reason", "x")
    assert (done.returncode, "only a closed intent can be reopened" in done.stderr) == (2, True)


def test_an_agent_reopens_nothing(closed: Path) -> None:
    done = run(closed, "intent", "reopen", "INT-001", "--reason", "x", CLAUDECODE="1")
    assert (done.returncode, "is for a person" in done.stderr) == (3, True)
    assert find_status(closed) == "DONE"


LOGIN = """\
id: INT-204917
name: Login

owned_scope:
  - src/**

created_at: 2026-11-28T14:02:11Z
"""


@pytest.fixture
def with_files(repository: Path, home: Path) -> Path:
    """A repository whose intents have a file each."""
    governed(repository)
    (repository / ".orchestration/active_intents.yaml").unlink()
    folder = repository / ".orchestration/intents"
    folder.mkdir()
    (folder / "INT-204917-login.yaml").write_text(LOGIN)
    run_git(repository, "add", "-A")
    run_git(repository, "commit", "-qm", "govern")
    return repository


def on_both_sides(root: Path, name: str, ours: str | None, theirs: str | None) -> None:
    """Change a file on two branches, and begin to merge them."""
    file = root / ".orchestration" / name
    run_git(root, "checkout", "-qb", "other")
    for side, text in (("theirs", theirs), ("ours", ours)):
        if text is None:
            run_git(root, "rm", "-q", str(file))
        else:
            file.write_text(text)
        run_git(root, "add", "-A")
        run_git(root, "commit", "-qm", side)
        if side == "theirs":
            run_git(root, "checkout", "-q", "main")
    with pytest.raises(Exception, match="merge"):
        run_git(root, "merge", "-q", "other")


NAME = "intents/INT-204917-login.yaml"


def test_two_versions_of_one_file_merge_by_field(with_files: Path) -> None:
    ours = LOGIN.replace("  - src/**\n", "  - src/**\n  - docs/**\n")
    theirs = LOGIN.replace("  - src/**\n", "  - src/**\n  - lib/**\n").replace("Login", "Log in") + "\nstatus: DONE\n"
    on_both_sides(with_files, NAME, ours, theirs)
    assert "CONFLICT_MARKERS" in run(with_files, "intent", "lint").stdout
    assert "is merged; look at it, then: git add" in remit(with_files, "intent", "resolve")
    [found] = data(with_files, "intent", "list")
    assert found["owned_scope"] == ["src/**", "docs/**", "lib/**"]
    assert (found["name"], found["status"]) == ("Log in", "DONE")
    assert (with_files / ".orchestration" / NAME).read_text().endswith("status: DONE\n")


def test_what_git_put_twice_without_a_conflict_is_joined(with_files: Path) -> None:
    criterion = "acceptance_criteria:\n  - {}\n"
    twice = criterion.format("first") + LOGIN.rstrip("\n") + "\n\n# theirs\n" + criterion.format("second")
    file = with_files / ".orchestration" / NAME
    file.write_text(twice)
    assert "stands here a second time. Run: remit intent resolve" in run(with_files, "intent", "lint").stdout
    assert "acceptance_criteria stood here twice" in remit(with_files, "intent", "resolve")
    [found] = data(with_files, "intent", "list")
    assert [each["text"] for each in found["acceptance_criteria"]] == ["first", "second"]
    assert "error" not in remit(with_files, "intent", "lint")
    file.write_text(twice + criterion.format("third"))
    assert "more than twice; mend it by hand" in run(with_files, "intent", "resolve").stderr


@pytest.mark.parametrize(("ours", "theirs"), [(None, LOGIN + "# kept\n"), (LOGIN + "# kept\n", None)])
def test_what_one_side_deleted_and_the_other_changed_is_kept(
    with_files: Path, ours: str | None, theirs: str | None
) -> None:
    on_both_sides(with_files, NAME, ours, theirs)
    assert "deleted INT-204917-login.yaml" in remit(with_files, "intent", "resolve")
    assert (with_files / ".orchestration" / NAME).read_text() == LOGIN + "# kept\n"


def test_two_intents_of_one_id_are_told_apart(with_files: Path) -> None:
    younger = LOGIN.replace("Login", "Theirs").replace("2026-11-28", "2026-11-29")
    (with_files / ".orchestration/intents/INT-204917-theirs.yaml").write_text(younger)
    done = run(with_files, "intent", "lint")
    assert "DUPLICATE_ID" in done.stdout
    assert "Run: remit intent renumber INT-204917" in done.stdout
    assert remit(with_files, "intent", "renumber", "INT-204917").startswith("Theirs was INT-204917 and is INT-")
    found = {i["name"]: i for i in data(with_files, "intent", "list")}
    assert found["Login"]["id"] == "INT-204917"
    assert found["Theirs"]["formerly"] == ["INT-204917"]
    assert len(found["Theirs"]["uid"]) == 8
    [record] = data(with_files, "log", "--event", "intent_renumbered")
    assert found["Theirs"]["id"] in str(record)


def test_a_person_chooses_which_one_is_renumbered(with_files: Path) -> None:
    younger = LOGIN.replace("Login", "Theirs").replace("2026-11-28", "2026-11-29")
    (with_files / ".orchestration/intents/INT-204917-theirs.yaml").write_text(younger)
    said = remit(with_files, "intent", "renumber", "INT-204917", "--file", "INT-204917-login.yaml")
    assert said.startswith("Login was INT-204917")
    done = run(with_files, "intent", "renumber", "INT-204917", "--file", "nope.yaml")
    assert (done.returncode, "no file 'nope.yaml' of INT-204917" in done.stderr) == (2, True)


def test_two_of_one_id_in_a_list_are_told_apart(repository: Path, home: Path) -> None:
    governed(repository)
    file = repository / ".orchestration/active_intents.yaml"
    file.write_text(file.read_text().replace("INT-002", "INT-001"))
    assert "Run: remit intent renumber INT-001" in run(repository, "intent", "lint").stdout
    assert remit(repository, "intent", "renumber", "INT-001") == "Names was INT-001 and is INT-002 now\n"
    assert {i["id"]: i["name"] for i in data(repository, "intent", "list")} == {"INT-001": "Docs", "INT-002": "Names"}


@pytest.mark.parametrize("keeps_view", [False, True], ids=["removed", "committed the view"])
def test_a_list_that_one_side_migrated_gives_its_changes_to_the_files(
    repository: Path, home: Path, keeps_view: bool
) -> None:
    governed(repository)
    path = repository / ".orchestration/active_intents.yaml"
    before = path.read_text()
    run_git(repository, "add", "-A")
    run_git(repository, "commit", "-qm", "govern")
    run_git(repository, "checkout", "-qb", "other")
    path.write_text(before.replace('"docs/**"', '"docs/**", "pages/**"'))
    remit(repository, "intent", "new", "Third", "--scope", "third/**")
    run_git(repository, "commit", "-qam", "theirs")
    run_git(repository, "checkout", "-q", "main")
    remit(repository, "intent", "migrate")
    if not keeps_view:
        run_git(repository, "rm", "-q", "--cached", str(path))
    run_git(repository, "add", "-A")
    run_git(repository, "commit", "-qm", "ours")
    with pytest.raises(Exception, match="merge"):
        run_git(repository, "merge", "-q", "other")
    assert "git rm -q --cached .orchestration/active_intents.yaml" in remit(repository, "intent", "resolve")
    run_git(repository, "rm", "-q", "--cached", str(path))
    assert {i["name"] for i in data(repository, "intent", "list")} == {"Names", "Docs", "Third"}
    assert "pages/**" in (repository / ".orchestration/intents/INT-002-docs.yaml").read_text()
    assert remit(repository, "intent", "resolve") == "git left no conflict in the intents\n"
    assert all(found["severity"] != "error" for found in data(repository, "intent", "lint"))

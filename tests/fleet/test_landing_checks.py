"""Verification of trains by the settings: bad commands end, say what is wrong, and blame nobody else."""

import subprocess
import time
from pathlib import Path

import pytest

from conftest import run_git
from fleet.fleet_driving import Fleet as RunningFleet
from fleet.test_landing import TARGET, LandingRepository, bisect, work
from gate.driving import machine
from gate.hooks.trusted_hooks import trust_all
from remit.workspace.place.workspace import Workspace
from remit_fleet.landing.checks import CheckResult, ContainedChecks
from remit_fleet.landing.land import CommonFiles, Lander, LandingMember, LandingTerms


@pytest.fixture
def landing(repository: Path, tmp_path: Path, home: Path) -> LandingRepository:
    return LandingRepository(repository, tmp_path / "trees", home)


@pytest.fixture
def members(landing: LandingRepository) -> list[LandingMember]:
    return [landing.attempt("INT-001", work("INT-001", "a")), landing.attempt("INT-002", work("INT-002", "b"))]


LATE = "ended after 2 s"
BAD_COMMANDS = {
    "no such program": ("no-such-program --all", "not found"),
    "no shell text": ("if then fi (", "yntax error"),
    "endless": ("sleep 600", LATE),
    "endless output": ("yes", LATE),
    "waits for input": ("read answer", ""),
    "ends itself": ("kill -9 $$", ""),
    "ignores signals": ("trap '' TERM INT HUP; while :; do sleep 1; done", LATE),
    "leaves children": ("sleep 600 & setsid sleep 600 & false", ""),
    "removes its work tree": ("rm -rf .git ..?* .[!.]* *; false", ""),
    "bytes that are no text": ("printf '\\377\\376\\0\\033[2J'; false", ""),
    "looks green": ("echo '0 failed'; exit 1", "0 failed"),
}


@pytest.mark.parametrize("name", BAD_COMMANDS)
def test_a_command_that_cannot_pass_is_named_and_blames_no_member(
    landing: LandingRepository, members: list[LandingMember], name: str
) -> None:
    command, said = BAD_COMMANDS[name]
    limit_s = 2 if said == LATE else 120  # which ends by itself may take its time to do so
    checks = ContainedChecks(machine(landing.home), landing.trees.folder / "checks", timeout_s=limit_s)
    began = time.monotonic()
    done = Lander(landing.gate, landing.trees, checks.run, bisect).land(LandingTerms(checks=(command,)), members)
    assert time.monotonic() - began < 200  # each of them, and what it leaves, would take ten minutes
    assert [(fault.intent, fault.kind) for fault in done.faults] == [
        ("INT-001", "red_target"),
        ("INT-002", "red_target"),
    ]
    assert "remit/next is red without any of them" in done.faults[0].why
    assert said in done.faults[0].why
    assert "\x1b" not in done.faults[0].why
    assert done.landed == {}
    assert subprocess.run(["git", "-C", landing.root, "rev-parse", "-q", "--verify", TARGET], check=False).returncode
    # The next landing is not disturbed by what the command left.
    assert list(landing.lander.land(LandingTerms(checks=("test -e src/a/new.py",)), members[:1]).landed) == ["INT-001"]


def test_a_check_that_is_red_and_green_for_the_same_files_names_nobody(
    landing: LandingRepository, members: list[LandingMember]
) -> None:
    runs: list[str] = []

    def toss(tree: Workspace, command: str) -> CheckResult:
        runs.append(run_git(tree.root, "rev-parse", "HEAD"))
        return CheckResult(command, is_green=len(runs) > 2)

    done = Lander(landing.gate, landing.trees, toss, bisect).land(LandingTerms(checks=("toss",)), members)
    assert {(fault.intent, fault.kind) for fault in done.faults} == {("INT-001", "flaky"), ("INT-002", "flaky")}
    assert done.landed == {}


def test_an_endless_check_is_not_repeated(landing: LandingRepository, members: list[LandingMember]) -> None:
    runs: list[str] = []

    def hang(tree: Workspace, command: str) -> CheckResult:
        runs.append(command)
        return CheckResult(command, is_green=False, is_late=True)

    Lander(landing.gate, landing.trees, hang, bisect).land(LandingTerms(checks=("hang",)), members)
    assert len(runs) == 2  # the train, and the target without it


def test_a_verification_tree_that_is_no_worktree_any_more_is_made_anew(landing: LandingRepository) -> None:
    """git in a folder without `.git` works in the repository above: there `clean` would remove a person's files."""
    above = landing.trees.folder
    place = landing.trees.prepare_for_verification("main").root
    run_git(above, "init", "-q")
    (above / "mine.txt").write_text("a person's file\n")
    (place / ".git").unlink()
    assert landing.trees.prepare_for_verification("main").root == place
    assert (above / "mine.txt").read_text() == "a person's file\n"
    assert run_git(place, "status", "--porcelain") == ""
    assert (above / ".git" / "HEAD").exists()


# Common files

LOCK = "sort src/*/old.py | sha256sum > deps.lock; echo made > made/extra.lock"
BAD_MAKES = {
    "fails": ("false", "could not be made"),
    "makes a link": ("ln -sf /etc/passwd deps.lock", "symbolic link"),
}
NO_FILES = {
    "a FIFO": "mkfifo deps.lock",
    "behind a link": "ln -s $TMPDIR made; echo x > made/x.lock",
    "nothing": "true",
}


def test_common_files_are_found_by_patterns_and_nothing_else_that_the_command_wrote_lands(
    landing: LandingRepository, members: list[LandingMember]
) -> None:
    commons = (CommonFiles(("*.lock", "made/**"), f"mkdir -p made; echo stray > src/stray.py; {LOCK}"),)
    done = landing.lander.land(LandingTerms(commons=commons), members)
    made = set(run_git(landing.root, "diff", "--name-only", f"{done.landed['INT-002']}", done.new).split())
    assert made == {"deps.lock", "made/extra.lock"}
    removed = (CommonFiles(("*.lock", "made/**"), "rm deps.lock"),)
    again = landing.lander.land(LandingTerms(commons=removed), [landing.attempt("INT-003", work("INT-003", "c"))])
    assert "deps.lock" not in run_git(landing.root, "ls-tree", "--name-only", again.new)


@pytest.mark.parametrize("name", BAD_MAKES)
def test_common_files_that_cannot_be_made_land_nothing(
    landing: LandingRepository, members: list[LandingMember], name: str
) -> None:
    command, said = BAD_MAKES[name]
    done = landing.lander.land(LandingTerms(commons=(CommonFiles(("**/*.lock",), command),)), members)
    assert {fault.kind for fault in done.faults} == {"commons"}
    assert said in done.faults[0].why
    assert done.landed == {}


@pytest.mark.parametrize("name", NO_FILES)
def test_what_git_does_not_call_a_file_is_not_taken_over(
    landing: LandingRepository, members: list[LandingMember], name: str
) -> None:
    done = landing.lander.land(LandingTerms(commons=(CommonFiles(("**/*.lock",), NO_FILES[name]),)), members)
    assert done.new == done.landed["INT-002"]


# From the settings to the target

pytestmark = pytest.mark.timeout(900)


@pytest.mark.live
def test_a_check_of_the_settings_runs_once_a_person_trusts_it(home: Path, tmp_path: Path) -> None:
    fleet = RunningFleet(home, tmp_path / "work")
    try:
        ids = fleet.govern(2)
        settings = fleet.root / ".orchestration" / "remit.toml"
        text = settings.read_text() + "\n[orchestrator]\nform = 'squash'\n"
        text += "commons = [{paths = ['all.lock'], make = 'ls -R src > all.lock'}]\n"
        settings.write_text(text + "[verify]\nlanding = ['! test -e src/int-001/made.py || test -e README.md']\n")
        run_git(fleet.root, "commit", "-qam", "settings")
        fleet.start_worker(2, 0.2)
        fleet.start_plan(ids)
        fleet.wait_for_state("asking")
        assert "not trusted on this machine" in fleet.status()[ids[0]]["why"]
        assert "ls -R src > all.lock" in fleet.status()[ids[0]]["why"]
        assert len(fleet.attempts(ids[0])) == 1
        trust_all(fleet.root, home)
        for id in ids:
            fleet.remit("plan", "resume", id)
        fleet.wait_until_landed()
        assert [len(fleet.attempts(id)) for id in ids] == [1, 1]  # what was handed in landed as it was
        log = run_git(fleet.root, "log", "--first-parent", "--format=%s", "main..remit/next")
        assert log.count("Make common files anew") >= 1
        assert run_git(fleet.root, "rev-list", "--merges", "main..remit/next") == ""
        assert "made.py" in run_git(fleet.root, "show", "remit/next:all.lock")
    finally:
        fleet.stop()

"""Landing of real attempts: three agents through the hook, their worktrees, the object store, blame of every line."""

import re
import subprocess
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest
from msgspec.structs import replace

from cli.running import data, remit
from conftest import run_git
from gate.driving import Agent, allowed, governed, machine, overlay, records
from remit.core.assignment import Assignment
from remit.core.bounds import PATH_DEPTH
from remit.gate.gate import Gate
from remit.provenance.blame.blame import Blamer
from remit.workspace.merging import NO_COMMIT, Identity, RefCheckedOut
from remit.workspace.place.assignment_file import AssignmentFile
from remit.workspace.place.workspace import Workspace
from remit.workspace.worktrees import Worktrees
from remit_fleet.landing.checks import CheckResult, ContainedChecks
from remit_fleet.landing.land import CommonFiles, Lander, LandingMember, LandingTerms
from remit_fleet.landing.merge_rules import IsGreen
from remit_fleet.landing.undo import LandingUndo
from remit_fleet.trains import bisect_train

INTENTS = """\
version: "1.0"
active_intents:
""" + "".join(
    f"""\
  - id: INT-00{n}
    name: Part {n}
    status: IN_PROGRESS
    owned_scope: ["{scope}"]
    constraints: [none]
    acceptance_criteria: [it works]
"""
    for n, scope in ((1, "src/a/**"), (2, "src/b/**"), (3, "src/c/**"))
)
AUTHOR = Identity("An Agent", "agent@example.org", 1_700_000_000)
SCOPES = {"INT-001": "src/a/**", "INT-002": "src/b/**", "INT-003": "src/c/**"}
TARGET = "refs/heads/remit/next"


def bisect(members: Sequence[str], is_green: IsGreen) -> tuple[str, str]:
    found = bisect_train(members, is_green)
    return found.intent, found.partner


class LandingRepository:
    """A repository, its worktrees and its lander."""

    def __init__(self, root: Path, folder: Path, home: Path) -> None:
        self.root = governed(root, "enforce", INTENTS)
        overlay(home)
        self.home = home
        for part in "abc":
            (root / "src" / part).mkdir()
            (root / "src" / part / "old.py").write_text("".join(f"{part}_{n} = {n}\n" for n in range(9)))
        run_git(root, "add", "-A")
        run_git(root, "commit", "-qm", "parts")
        self.gate = Gate.open(root, machine(home))
        self.trees = Worktrees(self.gate.workspace, folder)
        self.checks = ContainedChecks(machine(home), folder / "checks")
        self.lander = Lander(self.gate, self.trees, self.checks.run, bisect)

    def attempt(self, intent: str, files: dict[str, str], number: int = 1) -> LandingMember:
        """What an agent that writes these files hands in."""
        tree, patterns = self.assigned(intent, number)
        agent = Agent(tree.root, self.home, f"s-{intent}-{number}")
        agent.send("SessionStart", source="startup")
        for path, content in files.items():
            said = agent.write(path, content)
            assert allowed(said), said
        done = self.trees.hand_in(tree, patterns, intent, AUTHOR)
        assert done.outside == ()
        return LandingMember(intent, number, number, done.commit, patterns, f"Work of {intent}")

    def assigned(self, intent: str, number: int) -> tuple[Workspace, tuple[tuple[str, ...], ...]]:
        tree = self.trees.prepare(intent, number, "main")
        terms = Assignment(f"p:{intent}", intent, number, number, (SCOPES[intent],), base=self.commit("main"))
        AssignmentFile(tree).write(terms, 600)
        return tree, terms.sets

    def smuggle(self, intent: str, files: dict[str, bytes | str], number: int = 1) -> LandingMember:
        """What an agent that got round the gate hands in."""
        tree, patterns = self.assigned(intent, number)
        for path, content in files.items():
            place = tree.root / path
            place.parent.mkdir(parents=True, exist_ok=True)
            place.write_bytes(content if isinstance(content, bytes) else content.encode())
        run_git(tree.root, "add", "--sparse", "-A")
        run_git(tree.root, "commit", "-qm", "mine")
        return LandingMember(intent, number, number, self.commit(f"remit/{intent}/{number}"), patterns, intent)

    def commit(self, name: str) -> str:
        return run_git(self.root, "rev-parse", name).strip()

    def blame(self, path: str) -> Iterator[tuple[str, str | None]]:
        """Each line of a file at the target, with its intent."""
        with self.gate.index() as index:
            for line in Blamer(self.gate.workspace, index, self.gate.contents).blame(path, [TARGET]):
                yield line.content, line.intent_id


@pytest.fixture
def landing(repository: Path, tmp_path: Path, home: Path) -> LandingRepository:
    return LandingRepository(repository, tmp_path / "trees", home)


def work(intent: str, part: str) -> dict[str, str]:
    """A new file, and an old one with lines changed, added and kept."""
    old = "".join(f"{part}_{n} = {n}\n" if n % 3 else f"{part}_{n} = compute_{intent[-3:]}({n})\n" for n in range(9))
    new = "".join(f"def {part}_function_{n}():\n    return compute_{intent[-3:]}({n})\n\n\n" for n in range(5))
    return {f"src/{part}/old.py": f"import machinery_{part}\n{old}", f"src/{part}/new.py": new}


@pytest.mark.parametrize("form", ["merge", "squash"])
def test_every_line_keeps_its_intent(landing: LandingRepository, form: str) -> None:
    given = {"INT-001": work("INT-001", "a"), "INT-002": work("INT-002", "b"), "INT-003": work("INT-003", "c")}
    members = [landing.attempt(intent, files) for intent, files in given.items()]
    done = landing.lander.land(LandingTerms(form="squash" if form == "squash" else "merge"), members)
    assert done.faults == ()
    assert list(done.landed) == list(given)
    assert landing.commit(TARGET) == done.new
    lines, right = 0, 0
    wrong: list[tuple[str, str, str | None]] = []
    for intent, files in given.items():
        for path, content in files.items():
            before = run_git(landing.root, "show", f"main:{path}").splitlines() if path.endswith("old.py") else []
            for text, found in landing.blame(path):
                expected = None if text in before else intent
                lines += expected is not None
                right += expected is not None and found == expected
                wrong += [(path, text, found)] if found not in (expected, None) else []
            assert run_git(landing.root, "show", f"{TARGET}:{path}") == content
    assert wrong == []
    assert right == lines > 60


@pytest.mark.parametrize("form", ["merge", "squash"])
def test_a_person_asks_who_wrote_a_landed_line_and_why(landing: LandingRepository, form: str) -> None:
    members = [landing.attempt("INT-001", work("INT-001", "a")), landing.attempt("INT-002", work("INT-002", "b"))]
    landing.lander.land(LandingTerms(form="squash" if form == "squash" else "merge"), members)
    run_git(landing.root, "merge", "-q", "--ff-only", "remit/next")
    for part, intent in (("a", "INT-001"), ("b", "INT-002")):
        lines = data(landing.root, "blame", f"src/{part}/new.py")["lines"]
        assert {line["intent_id"] for line in lines} == {intent}
        told = remit(landing.root, "why", f"src/{part}/old.py:1")
        assert intent in told
    notes = run_git(landing.root, "log", "--format=%N", "--notes=ai", "main..remit/next")
    assert notes == "" or "INT-00" in notes


def test_a_landing_is_one_move_with_the_intents_done_in_it(landing: LandingRepository) -> None:
    member = landing.attempt("INT-001", work("INT-001", "a"))
    head, status = landing.commit("HEAD"), run_git(landing.root, "status", "--porcelain")
    done = landing.lander.land(LandingTerms(), [member])
    text = run_git(landing.root, "show", f"{done.landed['INT-001']}:.orchestration/active_intents.yaml")
    assert re.findall(r"status: (\w+)", text) == ["DONE", "IN_PROGRESS", "IN_PROGRESS"]
    assert run_git(landing.root, "show", "-s", "--format=%P", done.new).split() == [done.old, member.commit]
    assert (landing.commit("HEAD"), run_git(landing.root, "status", "--porcelain")) == (head, status)
    found = records(landing.root, "task_landed")
    assert [record["metadata"]["dev.remit"]["intent_id"] for record in found] == ["INT-001"]


def test_a_squash_keeps_the_author_and_one_parent(landing: LandingRepository) -> None:
    done = landing.lander.land(LandingTerms(form="squash"), [landing.attempt("INT-001", work("INT-001", "a"))])
    assert run_git(landing.root, "show", "-s", "--format=%P|%an|%cn", done.new).strip() == f"{done.old}|An Agent|Remit"


def test_a_landing_that_is_repeated_lands_nothing_twice(landing: LandingRepository) -> None:
    members = [landing.attempt("INT-001", work("INT-001", "a")), landing.attempt("INT-002", work("INT-002", "b"))]
    for form in ("squash", "merge"):
        first = landing.lander.land(LandingTerms(form="squash"), members)
        again = landing.lander.land(LandingTerms(form="merge" if form == "merge" else "squash"), members)
        assert again.new == first.new
        assert again.landed == first.landed


def test_a_landing_that_was_cut_off_after_the_move_is_recorded_when_repeated(landing: LandingRepository) -> None:
    members = [landing.attempt("INT-001", work("INT-001", "a")), landing.attempt("INT-002", work("INT-002", "b"))]
    folder = landing.root / ".git" / "remit" / "log"
    landing.gate.close()
    away = folder.rename(folder.with_name("log-away"))
    folder.write_text("no folder")
    first = landing.lander.land(LandingTerms(), members)
    assert landing.commit(TARGET) == first.new
    folder.unlink()
    away.rename(folder)
    for _ in range(2):
        again = Lander(Gate.open(landing.root, machine(landing.home)), landing.trees, landing.checks.run, bisect)
        assert again.land(LandingTerms(), members).new == first.new
    found = [record["metadata"]["dev.remit"] for record in records(landing.root, "task_landed")]
    assert sorted((body["intent_id"], body["commit"]) for body in found) == sorted(first.landed.items())


def test_a_landing_that_was_killed_before_its_record_is_recorded_when_repeated(landing: LandingRepository) -> None:
    member = landing.attempt("INT-001", work("INT-001", "a"))
    candidate = landing.lander.build(LandingTerms(), landing.commit("main"), [member])
    landing.lander.move_target(LandingTerms(), candidate.commit, NO_COMMIT)
    for _ in range(2):
        done = landing.lander.land(LandingTerms(), [member])
        assert done.landed == {"INT-001": candidate.commit}
    (record,) = records(landing.root, "task_landed")
    body = record["metadata"]["dev.remit"]
    assert (body["old"], body["new"], body["token"]) == (landing.commit("main"), candidate.commit, 1)
    assert {intent for _, intent in landing.blame("src/a/new.py")} == {"INT-001"}


# Hostile content


@pytest.mark.parametrize(
    ("path", "content", "kind"),
    [
        ("docs/x.md", "x\n", "outside_scope"),
        (".orchestration/remit.toml", "mode = 'observe'\n", "governing"),
        (".intentignore", "x\n", "governing"),
        ("src/.orchestration/remit.toml", "x\n", "governing"),
        ("src/a/old.py", "a\n<<<<<<< ours\nb\n=======\nc\n>>>>>>> theirs\n", "markers"),
        ("src/a/crlf.py", b"<<<<<<< ours\r\nb\r\n=======\r\nc\r\n>>>>>>> theirs\r\n", "markers"),
    ],
)
def test_what_may_not_land_is_refused_by_name_and_the_rest_lands(
    landing: LandingRepository, path: str, content: bytes | str, kind: str
) -> None:
    bad = landing.smuggle("INT-001", {"src/a/new.py": "fine = 1\n", path: content})
    good = landing.attempt("INT-002", work("INT-002", "b"))
    done = landing.lander.land(LandingTerms(), [bad, good])
    assert [(fault.intent, fault.kind, fault.paths) for fault in done.faults] == [("INT-001", kind, (path,))]
    assert list(done.landed) == ["INT-002"]
    assert "new.py" not in run_git(landing.root, "ls-tree", "-r", "--name-only", done.new, "src/a")


@pytest.mark.parametrize("path", ["src/a/b\n\u202e.py", "src/a" + "/d" * PATH_DEPTH.value + "/x"], ids=["odd", "deep"])
def test_a_path_beyond_a_bound_does_not_land(landing: LandingRepository, path: str) -> None:
    bad, good = landing.smuggle("INT-001", {path: "x\n"}), landing.attempt("INT-002", work("INT-002", "b"))
    done = landing.lander.land(LandingTerms(), [bad, good])
    assert [(fault.intent, fault.kind, fault.paths) for fault in done.faults] == [("INT-001", "bounds", (path,))]
    assert not set("\n\u202e") & set(done.faults[0].why)
    assert list(done.landed) == ["INT-002"]


def test_a_repository_in_the_repository_does_not_land(landing: LandingRepository) -> None:
    tree, patterns = landing.assigned("INT-001", 1)
    run_git(tree.root, "update-index", "--add", "--cacheinfo", f"160000,{landing.commit('main')},src/a/inner")
    run_git(tree.root, "commit", "-qm", "mine")
    member = LandingMember("INT-001", 1, 1, landing.commit("remit/INT-001/1"), patterns)
    assert [fault.kind for fault in landing.lander.land(LandingTerms(), [member]).faults] == ["not_a_file"]


def test_what_is_no_commit_here_does_not_land(landing: LandingRepository) -> None:
    member = LandingMember("INT-001", 1, 1, "f" * 40, (("**",),))
    assert [fault.kind for fault in landing.lander.land(LandingTerms(), [member]).faults] == ["unknown"]


@pytest.mark.parametrize("author", ["A <a@b> 99999999999999999999 +0000", "A a@b 1", "<<>> 1 +0000"])
def test_a_commit_that_git_cannot_work_with_holds_up_nobody(landing: LandingRepository, author: str) -> None:
    fine = landing.smuggle("INT-001", {"src/a/new.py": "fine = 1\n"})
    raw = run_git(landing.root, "cat-file", "commit", fine.commit)
    broken = re.sub(r"^author .*$", f"author {author}", raw, flags=re.MULTILINE)
    words = ["git", "-C", str(landing.root), "hash-object", "-t", "commit", "-w", "--literally", "--stdin"]
    name = subprocess.run(words, input=broken.encode(), capture_output=True, check=True).stdout.decode().strip()
    good = landing.attempt("INT-002", work("INT-002", "b"))
    done = landing.lander.land(LandingTerms(), [replace(fine, commit=name), good])
    assert "INT-002" in done.landed
    assert len(done.landed) + len(done.faults) == 2


def test_a_tree_with_hostile_names_holds_up_nobody(landing: LandingRepository) -> None:
    blob = run_git(landing.root, "rev-parse", "main:src/app.py").strip()
    entry = b"100644 ../evil\0" + bytes.fromhex(blob)
    words = ["git", "-C", str(landing.root), "hash-object", "-t", "tree", "-w", "--literally", "--stdin"]
    tree = subprocess.run(words, input=entry, capture_output=True, check=True).stdout.decode().strip()
    commit = run_git(landing.root, "commit-tree", tree, "-p", "main", "-m", "x").strip()
    bad = LandingMember("INT-001", 1, 1, commit, (("**",),))
    good = landing.attempt("INT-002", work("INT-002", "b"))
    done = landing.lander.land(LandingTerms(), [bad, good])
    assert [fault.intent for fault in done.faults] == ["INT-001"]
    assert list(done.landed) == ["INT-002"]


def test_two_changes_of_one_place_land_once(landing: LandingRepository) -> None:
    one = landing.attempt("INT-001", {"src/a/old.py": "a_0 = 'one'\n"})
    other = replace(landing.smuggle("INT-002", {"src/a/old.py": "a_0 = 'other'\n"}), patterns=(("src/**",),))
    done = landing.lander.land(LandingTerms(), [one, other])
    assert [(fault.intent, fault.kind, fault.paths) for fault in done.faults] == [
        ("INT-002", "conflict", ("src/a/old.py",))
    ]
    assert run_git(landing.root, "show", f"{TARGET}:src/a/old.py") == "a_0 = 'one'\n"


# The target


def test_no_branch_is_moved_under_a_person(landing: LandingRepository) -> None:
    member = landing.attempt("INT-001", work("INT-001", "a"))
    before = landing.commit("main")
    with pytest.raises(RefCheckedOut):
        landing.lander.land(LandingTerms(target="main"), [member])
    assert landing.commit("main") == before


def test_a_target_that_somebody_moved_meanwhile_stays_theirs(landing: LandingRepository) -> None:
    member = replace(landing.attempt("INT-001", work("INT-001", "a")), checks=("true",))
    run_git(landing.root, "branch", "remit/next", "main")
    theirs = run_git(landing.root, "commit-tree", "main^{tree}", "-p", "main", "-m", "theirs").strip()

    def move(tree: Workspace, command: str) -> CheckResult:
        run_git(landing.root, "update-ref", TARGET, theirs)
        return CheckResult(command, is_green=True)

    done = Lander(landing.gate, landing.trees, move, bisect).land(LandingTerms(), [member])
    assert done.target_moved
    assert landing.commit(TARGET) == theirs
    assert landing.lander.land(LandingTerms(), [member]).old == theirs


def test_a_remote_is_moved_first_and_only_from_where_it_was(landing: LandingRepository, tmp_path: Path) -> None:
    run_git(tmp_path, "init", "-q", "--bare", "far")
    run_git(landing.root, "remote", "add", "origin", str(tmp_path / "far"))
    terms = LandingTerms(remote="origin")
    first = landing.lander.land(terms, [landing.attempt("INT-001", work("INT-001", "a"))])
    assert run_git(tmp_path / "far", "rev-parse", TARGET).strip() == first.new
    theirs = run_git(landing.root, "commit-tree", "main^{tree}", "-p", first.new, "-m", "theirs").strip()
    run_git(landing.root, "push", "-q", "origin", f"{theirs}:{TARGET}")
    second = landing.lander.land(terms, [landing.attempt("INT-002", work("INT-002", "b"))])
    assert second.target_moved
    assert run_git(tmp_path / "far", "rev-parse", TARGET).strip() == theirs
    assert landing.commit(TARGET) == first.new


# Checks


def test_a_red_train_names_who_does_not_fit_whom_and_lands_the_rest(landing: LandingRepository) -> None:
    members = [
        landing.attempt("INT-001", {"src/a/limit.py": "LIMIT = 1\n"}),
        landing.attempt("INT-002", {"src/b/limit.py": "LIMIT = 2\n"}),
        landing.attempt("INT-003", work("INT-003", "c")),
    ]
    both = "! { test -e src/a/limit.py && test -e src/b/limit.py; }"
    done = landing.lander.land(LandingTerms(checks=(both,)), members)
    assert [(f.intent, f.kind, f.partner) for f in done.faults] == [("INT-002", "red", "INT-001")]
    assert list(done.landed) == ["INT-001", "INT-003"]


def test_a_check_that_passes_when_repeated_is_noted(landing: LandingRepository, tmp_path: Path) -> None:
    seen = tmp_path / "trees" / "checks" / "seen"
    member = replace(
        landing.attempt("INT-001", work("INT-001", "a")), checks=(f"test -e {seen} || {{ touch {seen}; false; }}",)
    )
    done = landing.lander.land(LandingTerms(), [member])
    assert done.flaky == member.checks
    assert list(done.landed) == ["INT-001"]


def test_a_check_changes_nothing_but_its_own_worktree(landing: LandingRepository, tmp_path: Path) -> None:
    member = landing.attempt("INT-001", work("INT-001", "a"))
    git = f"rm -rf {landing.root}/.git/refs; git update-ref {TARGET} main"
    evil = f"echo x > {landing.root}/src/app.py; {git}; touch here; true"
    app = (landing.root / "src" / "app.py").read_text()
    done = landing.lander.land(LandingTerms(checks=(evil,)), [member])
    assert (landing.root / "src" / "app.py").read_text() == app
    assert landing.commit(TARGET) == done.new
    assert "here" not in run_git(landing.root, "ls-tree", "-r", "--name-only", done.new)


def test_common_files_are_made_anew_once(landing: LandingRepository) -> None:
    members = [landing.attempt("INT-001", work("INT-001", "a")), landing.attempt("INT-002", work("INT-002", "b"))]
    commons = (CommonFiles(("all.lock",), "ls -R src > all.lock"),)
    done = landing.lander.land(LandingTerms(commons=commons), members)
    assert run_git(landing.root, "show", f"{done.new}:all.lock").count("new.py") == 2
    assert run_git(landing.root, "rev-list", "--first-parent", "--count", f"{done.old}..{done.new}").strip() == "3"


# The way back


def test_an_intent_is_taken_out_and_lines_go_back_to_who_wrote_them(landing: LandingRepository) -> None:
    terms = LandingTerms()
    landing.lander.land(
        terms, [landing.attempt("INT-001", work("INT-001", "a")), landing.attempt("INT-002", work("INT-002", "b"))]
    )
    undone = LandingUndo(landing.lander).undo(terms, "INT-001")
    assert undone.fault is None
    assert undone.undone == ("INT-001",)
    assert run_git(landing.root, "show", f"{TARGET}:src/a/old.py") == run_git(landing.root, "show", "main:src/a/old.py")
    assert {intent for _, intent in landing.blame("src/a/old.py")} == {None}
    assert "INT-002" in {intent for _, intent in landing.blame("src/b/old.py")}
    text = run_git(landing.root, "show", f"{TARGET}:.orchestration/active_intents.yaml")
    assert re.findall(r"status: (\w+)", text) == ["IN_PROGRESS", "DONE", "IN_PROGRESS"]
    assert LandingUndo(landing.lander).undo(terms, "INT-001").fault is not None


def test_an_intent_is_taken_out_though_the_intents_file_was_changed_beside_it(landing: LandingRepository) -> None:
    terms, path = LandingTerms(), ".orchestration/active_intents.yaml"
    landing.lander.land(terms, [landing.attempt("INT-001", work("INT-001", "a"))])
    text = run_git(landing.root, "show", f"{TARGET}:{path}")
    changed = re.sub(
        "    name: [^\n]*", "    name: a new name", re.sub(" +updated_at: .*\n", "    priority: HIGH\n", text)
    )
    assert changed != text
    store = landing.lander.store
    tree = store.replace_files(f"{TARGET}^{{tree}}", {path: changed.encode()})
    new = store.commit(tree, (landing.commit(TARGET),), "INT-001 is described anew", Identity("ana", "ana@x", 1))
    run_git(landing.root, "update-ref", TARGET, new)
    assert LandingUndo(landing.lander).undo(terms, "INT-001").fault is None
    after = run_git(landing.root, "show", f"{TARGET}:{path}")
    assert re.findall(r"status: (\w+)", after)[0] == "IN_PROGRESS"
    assert after.count("a new name") == changed.count("a new name")


def test_what_a_landed_intent_needs_is_not_taken_out_alone(landing: LandingRepository) -> None:
    terms = LandingTerms()
    for intent, part in (("INT-001", "a"), ("INT-002", "b")):
        landing.lander.land(terms, [landing.attempt(intent, work(intent, part))])
    undo = LandingUndo(landing.lander)
    refused = undo.undo(terms, "INT-001", ["INT-002", "INT-003"])
    assert refused.dependants == ("INT-002",)
    assert refused.fault is not None
    assert refused.new == refused.old
    red = undo.undo(terms, "INT-002", checks=("test -e src/b/new.py",))
    assert red.fault is not None
    assert red.fault.kind == "red"
    assert undo.undo(terms, "INT-001", ["INT-002"], with_dependants=True).undone == ("INT-002", "INT-001")

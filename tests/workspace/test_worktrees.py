"""Worktrees of attempts: governed by the main one, without what governs, never given up with their content."""

from pathlib import Path

import pytest
from msgspec.structs import replace

from conftest import run_git
from gate.driving import Agent, allowed, governed, refusal
from remit.core.assignment import Assignment
from remit.workspace.merging import Identity
from remit.workspace.place.assignment_file import AssignmentFile
from remit.workspace.place.workspace import Workspace, locate_workspace
from remit.workspace.worktrees import ContentAtRisk, NoWorktree, Worktrees

AUTHOR = Identity("An Agent", "agent@example.org", 1_700_000_000)
TERMS = Assignment(task="p:INT-001", intent="INT-001", attempt=7, token=3, scope=("src/**",))


@pytest.fixture
def trees(repository: Path, tmp_path: Path) -> Worktrees:
    governed(repository)
    run_git(repository, "add", "-A")
    run_git(repository, "commit", "-q", "-m", "governed")
    found = locate_workspace(repository)
    assert found is not None
    return Worktrees(found, tmp_path / "trees")


@pytest.fixture
def tree(trees: Worktrees) -> Workspace:
    return trees.prepare("INT-001", 7, "main")


def assign(tree: Workspace, trees: Worktrees, **terms: object) -> AssignmentFile:
    file = AssignmentFile(tree)
    file.write(replace(TERMS, base=trees.require_commit("main"), **terms), 600)  # pyright: ignore[reportArgumentType]
    return file


def end(file: AssignmentFile) -> None:
    assert file.terms is not None
    file.change_state(replace(file.terms, state="ended"), 0)


def test_it_holds_the_files_of_the_base_and_not_what_governs(tree: Workspace, repository: Path) -> None:
    assert sorted(path.name for path in tree.root.iterdir()) == [".git", "README.md", "src"]
    assert run_git(tree.root, "status", "--porcelain") == ""
    assert run_git(tree.root, "branch", "--show-current").strip() == "remit/INT-001/7"
    assert tree.common_dir == repository / ".git"
    assert tree.is_governed


def test_the_main_worktrees_folder_enforces_in_it(tree: Workspace, trees: Worktrees, home: Path) -> None:
    assign(tree, trees)
    agent = Agent(tree.root, home)
    agent.send("SessionStart", source="startup")
    assert allowed(agent.write("src/app.py", "a = 1\n"))
    assert refusal(agent.write("docs/a.md", "a\n")) == "SCOPE_VIOLATION"
    assert refusal(agent.write(".orchestration/remit.toml", "mode = 'observe'\n")) == "PROTECTED_PATH"


@pytest.mark.parametrize(
    "command",
    [
        "git sparse-checkout disable",
        "git sparse-checkout set '/*'",
        "git sparse-checkout add .orchestration",
        "git config core.sparseCheckout false",
        "git update-index --no-skip-worktree .orchestration/remit.toml",
        "git checkout HEAD -- .orchestration",
        "git restore --ignore-skip-worktree-bits .orchestration",
    ],
)
def test_an_agent_cannot_bring_in_what_governs(tree: Workspace, trees: Worktrees, home: Path, command: str) -> None:
    assign(tree, trees)
    agent = Agent(tree.root, home)
    agent.send("SessionStart", source="startup")
    said = agent.ask("Bash", command=command)
    if allowed(said):
        import subprocess

        subprocess.run(["sh", "-c", command], cwd=tree.root, check=False, capture_output=True)
        agent.tell("Bash", said["call_id"], {"stdout": ""}, command=command)
    assert not (tree.root / ".orchestration").exists(), said
    assert refusal(agent.write("docs/a.md", "a\n")) == "SCOPE_VIOLATION"


def test_an_interrupted_preparation_is_taken_up_again(trees: Worktrees) -> None:
    assert trees.prepare("INT-001", 7, "main").root == trees.prepare("INT-001", 7, "main").root
    assert len(trees.list_trees()) == 1


def test_a_branch_with_other_work_is_never_taken_over(trees: Worktrees, repository: Path) -> None:
    run_git(repository, "checkout", "-q", "-b", "remit/INT-001/8")
    (repository / "src" / "app.py").write_text("other\n")
    run_git(repository, "commit", "-qam", "other")
    with pytest.raises(NoWorktree, match="number the attempt anew"):
        trees.prepare("INT-001", 8, "main")


@pytest.mark.parametrize(("intent", "attempt"), [("../x", 1), ("INT-1", 0), ("int-1", 1), ("INT-001/7/x", 1)])
def test_what_names_no_attempt_names_no_branch(trees: Worktrees, intent: str, attempt: int) -> None:
    with pytest.raises(ValueError, match="names no attempt"):
        trees.prepare(intent, attempt, "main")


# Checkpoints


def test_a_checkpoint_holds_everything_and_moves_nothing(trees: Worktrees, tree: Workspace) -> None:
    head = run_git(tree.root, "rev-parse", "HEAD")
    (tree.root / "src" / "app.py").write_bytes(b"crlf\r\n")
    (tree.root / "src" / "new 'ü\".py").write_text("new\n")
    (tree.root / "run").write_text("#!/bin/sh\n")
    (tree.root / "run").chmod(0o755)
    (tree.root / "link").symlink_to("run")
    (tree.root / "README.md").unlink()
    (tree.root / ".env").write_text("SECRET=1\n")
    kept = trees.checkpoint(tree, "INT-001", 7, "turn 1", 1_700_000_000)
    assert kept is not None
    assert kept.ref == "refs/remit/wip/INT-001/7"
    assert list(kept.left) == [".env"]
    assert run_git(tree.root, "rev-parse", "HEAD") == head
    assert run_git(tree.root, "diff", "--cached", "--name-only") == ""
    listed = run_git(tree.root, "diff-tree", "-r", "--no-renames", "-z", "--name-only", f"{kept.commit}^", kept.commit)
    assert sorted(filter(None, listed.split("\0"))) == ["README.md", "link", "run", "src/app.py", "src/new 'ü\".py"]
    assert run_git(tree.root, "show", f"{kept.commit}:src/app.py") == "crlf\r\n".replace("\r\n", "\r\n")
    assert "100755" in run_git(tree.root, "ls-tree", kept.commit, "run")


def test_an_unchanged_worktree_gets_no_second_checkpoint(trees: Worktrees, tree: Workspace) -> None:
    assert trees.checkpoint(tree, "INT-001", 7, "turn 1", 1) is None
    (tree.root / "src" / "app.py").write_text("a = 1\n")
    first = trees.checkpoint(tree, "INT-001", 7, "turn 1", 1)
    assert first is not None
    again = trees.checkpoint(tree, "INT-001", 7, "turn 2", 2)
    assert again is not None
    assert again.commit == first.commit
    (tree.root / "src" / "app.py").write_text("a = 2\n")
    then = trees.checkpoint(tree, "INT-001", 7, "turn 3", 3)
    assert then is not None
    assert then.commit != first.commit
    run_git(tree.root, "checkout", "-q", "src/app.py")
    back = trees.checkpoint(tree, "INT-001", 7, "turn 4", 4)
    assert back is not None
    assert run_git(tree.root, "diff", "--stat", back.commit, "HEAD") == ""


def test_a_checkpoint_is_pushed_only_from_where_it_was(trees: Worktrees, tree: Workspace, tmp_path: Path) -> None:
    run_git(tmp_path, "init", "-q", "--bare", "far")
    run_git(tree.root, "remote", "add", "origin", str(tmp_path / "far"))
    (tree.root / "src" / "app.py").write_text("a = 1\n")
    first = trees.checkpoint(tree, "INT-001", 7, "one", 1)
    assert first is not None
    trees.push_checkpoint("origin", first)
    (tree.root / "src" / "app.py").write_text("a = 2\n")
    second = trees.checkpoint(tree, "INT-001", 7, "two", 2)
    assert second is not None
    with pytest.raises(RuntimeError, match="gather again"):
        trees.push_checkpoint("origin", second)
    trees.push_checkpoint("origin", second, first.commit)
    assert run_git(tmp_path / "far", "rev-parse", second.ref).strip() == second.commit


# Giving up


def test_nothing_is_given_up_while_its_attempt_goes_on(trees: Worktrees, tree: Workspace) -> None:
    file = assign(tree, trees)
    with pytest.raises(ContentAtRisk, match="has not ended"):
        trees.remove(tree)
    end(file)
    trees.remove(tree)
    assert not tree.root.exists()


def test_nothing_is_given_up_with_what_no_ref_leads_to(trees: Worktrees, tree: Workspace) -> None:
    end(assign(tree, trees))
    (tree.root / "src" / "app.py").write_text("a = 1\n")
    with pytest.raises(ContentAtRisk, match="in no checkpoint"):
        trees.remove(tree)
    assert trees.checkpoint(tree, "INT-001", 7, "one", 1)
    (tree.root / "src" / "late.py").write_text("late\n")
    with pytest.raises(ContentAtRisk, match="late"):
        trees.remove(tree)
    assert trees.checkpoint(tree, "INT-001", 7, "two", 2)
    trees.remove(tree)


def test_nothing_is_given_up_with_a_commit_that_no_branch_holds(trees: Worktrees, tree: Workspace) -> None:
    end(assign(tree, trees))
    run_git(tree.root, "checkout", "-q", "--detach")
    (tree.root / "src" / "app.py").write_text("a = 1\n")
    run_git(tree.root, "commit", "-qam", "on no branch")
    with pytest.raises(ContentAtRisk, match="no ref leads to its commit"):
        trees.remove(tree)
    run_git(tree.root, "checkout", "-q", "-b", "kept")
    trees.remove(tree)


def test_a_repository_inside_keeps_its_worktree(trees: Worktrees, tree: Workspace) -> None:
    end(assign(tree, trees))
    run_git(tree.root, "init", "-q", "inner")
    (tree.root / "inner" / "x").write_text("x\n")
    with pytest.raises(ContentAtRisk, match="nested repository"):
        trees.remove(tree)


def test_an_idle_worktree_is_used_again_and_holds_nothing_of_before(trees: Worktrees, tree: Workspace) -> None:
    (tree.root / ".gitignore").write_text("build/\n")
    run_git(tree.root, "add", ".gitignore")
    run_git(tree.root, "commit", "-qm", "ignored")
    (tree.root / "build").mkdir()
    (tree.root / "build" / "left").write_text("poison\n")
    file = assign(tree, trees)
    assert trees.prepare("INT-002", 1, "main").root != tree.root
    end(file)
    again = trees.prepare("INT-002", 2, "main")
    assert again.root == tree.root
    assert not (tree.root / "build").exists()
    assert not Path(str(tree.assignment_path)).exists()
    assert not (tree.root / ".orchestration").exists()
    assert run_git(tree.root, "branch", "--show-current").strip() == "remit/INT-002/2"


# Handing in


def test_what_is_handed_in_lies_in_the_write_set(trees: Worktrees, tree: Workspace) -> None:
    assign(tree, trees)
    (tree.root / "src" / "app.py").write_text("a = 1\n")
    (tree.root / "docs").mkdir()
    (tree.root / "docs" / "x.md").write_text("x\n")
    refused = trees.hand_in(tree, TERMS.sets, "INT-001", AUTHOR)
    assert refused.outside == ("docs/x.md",)
    assert refused.commit == ""
    (tree.root / "docs" / "x.md").unlink()
    done = trees.hand_in(tree, TERMS.sets, "INT-001", AUTHOR)
    assert done.outside == ()
    assert run_git(tree.root, "log", "-1", "--format=%H %an %s").strip() == f"{done.commit} An Agent INT-001"
    assert run_git(tree.root, "status", "--porcelain") == ""
    assert trees.hand_in(tree, TERMS.sets, "INT-001", AUTHOR).commit == done.commit


def test_a_commit_of_the_agents_own_is_no_way_out(trees: Worktrees, tree: Workspace) -> None:
    assign(tree, trees)
    (tree.root / "docs").mkdir()
    (tree.root / "docs" / "x.md").write_text("x\n")
    run_git(tree.root, "add", "-A")
    run_git(tree.root, "commit", "-qm", "mine")
    assert trees.hand_in(tree, TERMS.sets, "INT-001", AUTHOR).outside == ("docs/x.md",)


def test_a_commit_of_what_governs_is_no_way_out(trees: Worktrees, tree: Workspace) -> None:
    assign(tree, trees)
    blob = run_git(tree.root, "hash-object", "-w", "src/app.py").strip()
    run_git(tree.root, "update-index", "--cacheinfo", f"100644,{blob},.orchestration/remit.toml")
    run_git(tree.root, "commit", "-qm", "mine")
    assert trees.hand_in(tree, (("**",),), "INT-001", AUTHOR).outside == (".orchestration/remit.toml",)


def test_verification_sees_exactly_the_commit(trees: Worktrees, tree: Workspace) -> None:
    (tree.root / "src" / "app.py").write_text("a = 1\n")
    run_git(tree.root, "commit", "-qam", "one")
    head = run_git(tree.root, "rev-parse", "HEAD").strip()
    seen = trees.prepare_for_verification("main")
    assert (seen.root / "src" / "app.py").read_text() != "a = 1\n"
    (seen.root / "left.py").write_text("left\n")
    (seen.root / "cache").mkdir()
    seen = trees.prepare_for_verification(head)
    assert (seen.root / "src" / "app.py").read_text() == "a = 1\n"
    assert sorted(path.name for path in seen.root.iterdir()) == [".git", "README.md", "src"]
    assert seen not in trees.list_trees()


def test_a_folder_that_the_attempt_brought_in_does_not_govern(trees: Worktrees, tree: Workspace, home: Path) -> None:
    assign(tree, trees)
    agent = Agent(tree.root, home)
    agent.send("SessionStart", source="startup")
    (tree.root / ".orchestration").mkdir()
    (tree.root / ".orchestration" / "remit.toml").write_text('mode = "observe"\n')
    assert refusal(agent.write("docs/a.md", "a\n")) == "SCOPE_VIOLATION"

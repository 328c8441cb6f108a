"""An attempt's own git folder: everything in it may be destroyed or forged, and the repository stays as it was."""

import hashlib
from collections.abc import Generator
from pathlib import Path

import pytest

from conftest import run_git
from fleet.jailed_attempt import JailedAttempt
from remit.workspace.merging import Identity
from remit.workspace.sandbox import private_git_folder
from remit.workspace.sandbox.jail import find_bubblewrap
from remit.workspace.sandbox.private_git_folder import PrivateGitFolder, WorkRefused
from remit.workspace.worktrees import WIP_REFS

pytestmark = pytest.mark.skipif(find_bubblewrap() is None, reason="NO JAIL TESTED: there is no bubblewrap here")

AUTHOR = Identity("a", "a@example.org", 1)
COMMIT = "echo y = 1 > src/made.py; git add src/made.py; git commit -qm mine"


@pytest.fixture
def attempt(repository: Path, home: Path) -> Generator[JailedAttempt]:
    made = JailedAttempt(repository, home)
    yield made
    made.end_daemons()


def run_shell(attempt: JailedAttempt, script: str) -> list[str]:
    """Run a script of the shell as the agent, and return the lines that it printed."""
    done = "subprocess.run(['sh', '-c', script], stdout=1, stderr=1)"
    return attempt.run(f"script = {script!r}\nsys.stdout.flush()\n{done}")[1].splitlines()


def describe_repository(root: Path) -> dict[str, str]:
    """Return the refs of a repository, and the digest of each file that steers git."""
    common = root / ".git"
    files = [common / "config", common / "HEAD", *(common / "hooks").rglob("*"), *(common / "info").rglob("*")]
    found = {str(path): hashlib.sha256(path.read_bytes()).hexdigest() for path in files if path.is_file()}
    refs = [line for line in run_git(root, "for-each-ref").splitlines() if "INT-001" not in line]
    return {**found, "refs": "\n".join(refs), "fsck": run_git(root, "fsck", "--full", "--no-dangling")}


HOSTILE = {
    "the objects": 'rm -rf "$(git rev-parse --git-common-dir)/objects"',
    "everything": "rm -rf .git; rm -rf $(git rev-parse --git-common-dir); rm -rf $GIT",
    "the packs": "find $GIT/objects -type f -delete",
    "the refs": "rm -rf $GIT/refs $GIT/packed-refs; echo 0 > $GIT/HEAD",
    "all branches": "git for-each-ref --format='delete %(refname)' | git update-ref --stdin",
    "by gc": "git reflog expire --expire=now --all; git gc -q --prune=now --aggressive",
    "by prune": "git update-ref -d refs/heads/main; git prune --expire=now; git prune-packed",
    "by repack": "git repack -a -d -f -q --no-cruft || git repack -adfq",
    "other bytes": "for f in $(find $GIT/objects -type f); do chmod u+w $f; echo x > $f; done",
    "other modes": "chmod -R 000 $GIT; chmod -R 777 $GIT",
    "the hooks": "rm -rf $GIT/hooks; mkdir -p $GIT/hooks; echo 'touch /tmp/x' > $GIT/hooks/post-checkout",
    "its settings": "git config core.fsmonitor 'touch /tmp/x'; echo x >> $GIT/config; mv $GIT/config $GIT/gone",
    "by moving": "mv $GIT/objects $GIT/gone; mv $GIT /tmp/gone; ln -s / $GIT/refs/heads/root",
    "the real ones": "rm -rf $SHARED; find $SHARED -type f -exec sh -c 'echo x > $1' x {} ';'",
    "as another repository": "echo /tmp > $GIT/commondir; echo /tmp > $OWN/commondir; echo /tmp > $OWN/gitdir",
    "by replacing": "git replace -f $(git rev-parse main) $(git rev-parse main~1); git push -f . main~1:main",
}


def destroy(attempt: JailedAttempt, named: str) -> None:
    own = PrivateGitFolder(attempt.places.tree)
    before, shared = describe_repository(attempt.root), own.shared
    names = f"GIT={attempt.root / '.git'}; OWN={own.real_own}; SHARED={shared};"
    run_shell(attempt, f"{COMMIT}; {names} {HOSTILE[named]}")
    refused = attempt.trees.end_git_folder(attempt.places.tree)
    assert not refused or "its commits are not taken over" in refused
    assert describe_repository(attempt.root) == before
    assert run_git(attempt.other.root, "log", "-1", "--format=%s") == "governed\n", "the neighbour is whole"
    handed = attempt.trees.hand_in(attempt.places.tree, [("src/**",)], "done", AUTHOR)
    assert run_git(attempt.root, "show", f"{handed.commit}:src/made.py") == "y = 1\n", "its files are never lost"
    run_git(attempt.root, "fsck", "--full", "--connectivity-only")


@pytest.mark.parametrize("named", ["the objects", "everything"])
def test_an_agent_that_destroys_gits_folder_destroys_its_own(attempt: JailedAttempt, named: str) -> None:
    destroy(attempt, named)


@pytest.mark.live
@pytest.mark.parametrize("named", [name for name in HOSTILE if name not in ("the objects", "everything")])
def test_whatever_an_agent_destroys_of_git_is_its_own(attempt: JailedAttempt, named: str) -> None:
    destroy(attempt, named)


COMMANDS = (
    *(
        "git commit -q --allow-empty -m one",
        "echo z >> README.md; git stash -q; git stash pop -q; git checkout -q .",
        "git branch side",
    ),
    *("git branch -d side", "git tag -a -m t v1", "git tag -d v1", "git gc -q", "git gc -q --prune=now"),
    *("git worktree add -q $TMPDIR/w -b w; git worktree remove --force $TMPDIR/w", "git commit-graph write"),
    *("git commit -q --amend --allow-empty -m two", "git checkout -q -b topic; git commit -q --allow-empty -m three"),
    *("git checkout -q -; git merge -q --no-ff -m m topic", "git cherry-pick --allow-empty topic || git reset -q"),
    *("git rebase -q --root --committer-date-is-author-date", "git reset -q --hard HEAD~1", "git fetch -q . main:new"),
    *("git notes add -m n", "git pack-refs --all", "git repack -adq", "git restore --staged README.md; git status"),
)


@pytest.mark.live
def test_everyday_commands_of_git_work_in_an_attempt(attempt: JailedAttempt) -> None:
    lines = run_shell(
        attempt,
        "".join(f"(env -u GIT_CONFIG_NOSYSTEM sh -ec {c!r}) && echo OK || echo FAILED {c!r}\n" for c in COMMANDS),
    )
    assert [line for line in lines if line.startswith("FAILED")] == [], "\n".join(lines)
    assert lines.count("OK") == len(COMMANDS)
    assert attempt.trees.end_git_folder(attempt.places.tree) == ""
    run_git(attempt.root, "fsck", "--full")


def test_remit_sees_the_agents_commit_at_once_and_takes_it_over_once(attempt: JailedAttempt) -> None:
    tree, branch = attempt.places.tree, "remit/INT-001/1"
    run_shell(attempt, COMMIT)
    assert attempt.trees.list_changed_files(tree) == []
    assert run_git(attempt.root, "log", "-1", "--format=%s", branch) == "governed\n"
    (tree.root / "src/more.py").write_text("z = 1\n")
    kept = attempt.trees.checkpoint(tree, "INT-001", 1, "kept", 1)
    assert kept is not None
    assert run_git(attempt.root, "log", "-2", "--format=%s", f"{WIP_REFS}/INT-001/1").split() == ["kept", "mine"]
    for _ in range(2):
        handed = attempt.trees.hand_in(tree, [("src/**",)], "done", AUTHOR)
        assert run_git(attempt.root, "log", "--format=%s", branch).split() == ["done", "mine", "governed", "first"]
        assert handed.commit == run_git(attempt.root, "rev-parse", branch).strip()
    assert not PrivateGitFolder(tree).folder.exists()
    assert run_git(attempt.root, "for-each-ref", "refs/remit/base", "refs/remit/incoming") == ""
    assert run_git(tree.root, "status", "--porcelain") == ""


@pytest.mark.parametrize("step", ["nothing", "fetched", "known", "moved", "ended"])
def test_a_hand_in_that_was_killed_is_made_again(attempt: JailedAttempt, step: str) -> None:
    own, branch = PrivateGitFolder(attempt.places.tree), "refs/heads/remit/INT-001/1"
    run_shell(attempt, COMMIT)
    head = own.read_head()
    assert head is not None
    if step != "nothing":
        bare = own.make_bare(head)
        words = (
            "-c",
            "protocol.file.allow=always",
            "fetch",
            "-q",
            str(bare),
            "+refs/heads/handed:refs/remit/incoming/INT-001/1",
        )
        run_git(attempt.root, *words)
    if step in ("known", "moved", "ended"):
        with (own.folder / "taken").open("a") as taken:
            taken.write(f"{head}\n")
    if step in ("moved", "ended"):
        run_git(attempt.root, "update-ref", branch, head)
    if step == "ended":
        own.own.rename(own.folder / "ended")
    handed = attempt.trees.hand_in(attempt.places.tree, [("src/**",)], "done", AUTHOR)
    assert handed.commit == head, "nothing is left to commit, and nothing is committed twice"


def forge_tree(name: str) -> str:
    return f"""
blob=$(echo x | git hash-object -w --stdin)
tree=$(printf '100644 blob %s\\t{name}\\n' $blob | git mktree)
git reset -q --soft $(git commit-tree -p HEAD -m forged $tree)
"""


REFUSED = {
    "a tree that git checks out nowhere": (forge_tree(".GIT"), "fsck|hasDotgit"),
    "a commit that is not there": (
        "id=$(git rev-parse HEAD | tr 0-9a-f 1-9a-f0); echo $id > $OWN/HEAD",
        "commits are not taken over",
    ),
    "an object of other bytes": (
        f"{COMMIT}; for f in $(find $GIT/objects -type f -path '*/??/*'); do chmod u+w $f; echo x > $f; done",
        "commits are not taken over",
    ),
}


@pytest.mark.parametrize("named", REFUSED)
def test_what_git_finds_wrong_is_not_taken_over_and_told(attempt: JailedAttempt, named: str) -> None:
    own, (script, said) = PrivateGitFolder(attempt.places.tree), REFUSED[named]
    before = describe_repository(attempt.root)
    run_shell(attempt, f"GIT={own.real}; OWN={own.real_own}; {script}")
    why = attempt.trees.end_git_folder(attempt.places.tree)
    assert any(part in why for part in said.split("|")), why
    assert describe_repository(attempt.root) == before
    assert run_git(attempt.root, "log", "-1", "--format=%s", "remit/INT-001/1") == "governed\n"


def test_a_branch_that_a_person_moved_meanwhile_is_left_to_the_person(attempt: JailedAttempt) -> None:
    run_shell(attempt, COMMIT)
    run_git(attempt.root, "update-ref", "refs/heads/remit/INT-001/1", "HEAD~1")
    assert "somebody else moved its branch" in attempt.trees.end_git_folder(attempt.places.tree)


def test_links_in_the_git_folder_lead_nowhere(attempt: JailedAttempt, home: Path) -> None:
    secret = home / "secret"
    secret.mkdir()
    run_git(secret, "init", "-q")
    run_git(secret, "commit", "-q", "--allow-empty", "-m", "private")
    commit = run_git(secret, "rev-parse", "HEAD").strip()
    own = PrivateGitFolder(attempt.places.tree)
    run_shell(
        attempt,
        f"cd {own.real}/objects; rm -rf pack {commit[:2]}; echo {commit} > {own.real_own}/HEAD;"
        f"for name in pack {commit[:2]}; do ln -s {secret}/.git/objects/$name $name; done",
    )
    assert "not taken over" in attempt.trees.end_git_folder(attempt.places.tree)
    assert attempt.trees.store.find_commit(commit) is None


def test_what_an_attempt_borrows_outlives_an_amended_base_and_a_gc(attempt: JailedAttempt) -> None:
    run_git(attempt.root, "update-ref", "-d", "refs/heads/remit/INT-002/1")
    run_git(attempt.other.root, "checkout", "-q", "--detach", "main~1")
    run_git(attempt.root, "commit", "-q", "--amend", "--allow-empty", "-m", "amended")
    run_shell(attempt, COMMIT)
    attempt.trees.checkpoint(attempt.places.tree, "INT-001", 1, "kept", 1)
    run_git(attempt.root, "update-ref", "refs/heads/remit/INT-001/1", "main")  # so that only the base holds it
    run_git(attempt.root, "reflog", "expire", "--expire=now", "--all")
    run_git(attempt.root, "gc", "-q", "--prune=now")
    lines = run_shell(attempt, "echo z > src/more.py; git add src; git commit -qm more; git log --format=%s")
    assert lines == ["more", "mine", "governed", "first"]


def test_refs_of_remotes_and_of_what_has_landed_are_brought_up_to_date(attempt: JailedAttempt) -> None:
    own = PrivateGitFolder(attempt.places.tree)
    for ref in ("refs/remotes/origin/main", "refs/heads/remit/next"):
        run_git(attempt.root, "update-ref", ref, "main~1")
    own.refresh()
    run_git(attempt.root, "update-ref", "refs/remotes/origin/main", "main")
    own.refresh()
    assert run_shell(attempt, "git log -1 --format=%s origin/main; git log -1 --format=%s remit/next") == [
        "governed",
        "first",
    ]
    run_shell(attempt, f"rm -rf {own.real}/refs/remotes; ln -s /tmp {own.real}/refs/remotes")
    run_git(attempt.root, "update-ref", "refs/remotes/origin/other", "main")
    own.refresh()
    assert not Path("/tmp/origin").exists(), "Remit writes through no link"


def test_the_amount_that_an_attempt_adds_is_bounded_and_told(attempt: JailedAttempt) -> None:
    own = PrivateGitFolder(attempt.places.tree)
    run_shell(
        attempt,
        f"""
say() {{ printf 'commit refs/heads/many\\ncommitter a <a@b> 1 +0000\\ndata 0\\n'; }}
{{ say; echo "from $(git rev-parse HEAD)"; for i in $(seq {private_git_folder.MAX_COMMITS}); do say; done; }} |
git fast-import --quiet; git checkout -q many
""",
    )
    with pytest.raises(WorkRefused, match="more than 10,000"):
        own.take_over()


def test_an_attempt_works_in_a_repository_of_sha_256(tmp_path: Path, home: Path) -> None:
    root = tmp_path / "long"
    (root / "src").mkdir(parents=True)
    run_git(root, "init", "-q", "--object-format=sha256", "-b", "main")
    (root / "src/app.py").write_text("x = 1\n")
    run_git(root, "add", "-A")
    run_git(root, "commit", "-q", "-m", "first")
    attempt = JailedAttempt(root, home)
    run_shell(attempt, COMMIT)
    attempt.trees.hand_in(attempt.places.tree, [("src/**",)], "done", AUTHOR)
    assert run_git(root, "log", "-1", "--format=%s", "remit/INT-001/1") == "mine\n"


def test_an_attempt_works_in_a_shallow_clone(repository: Path, tmp_path: Path, home: Path) -> None:
    root = tmp_path / "shallow"
    run_git(repository, "commit", "-q", "--allow-empty", "-m", "second")
    run_git(repository, "clone", "-q", "--depth=1", f"file://{repository}", str(root))
    attempt = JailedAttempt(root, home)
    run_shell(attempt, COMMIT)
    attempt.trees.hand_in(attempt.places.tree, [("src/**",)], "done", AUTHOR)
    assert run_git(root, "log", "--format=%s", "remit/INT-001/1").split() == ["mine", "governed", "second"]


def test_large_files_of_git_lfs_come_over_with_the_commits_that_name_them(attempt: JailedAttempt) -> None:
    own, content = PrivateGitFolder(attempt.places.tree), "large"
    name = hashlib.sha256(content.encode()).hexdigest()
    place = f"{own.real}/lfs/objects/{name[:2]}/{name[2:4]}"
    run_shell(
        attempt,
        f"mkdir -p {place}; printf {content} > {place}/{name}; echo forged > {place}/{name[::-1]};"
        f"ln -s /etc/passwd {place}/{'0' * 64}; {COMMIT}",
    )
    assert attempt.trees.end_git_folder(attempt.places.tree) == ""
    found = [path for path in (own.real / "lfs/objects").rglob("*") if path.is_file()]
    assert [(path.name, path.read_text()) for path in found] == [(name, content)]

"""Submodules and nested repositories in a contained command: each comes over whole or not at all."""

from pathlib import Path

import pytest

from gate.containment.git_team import Team, shell
from gate.driving import Agent, governed, overlay_untried, refusal

DATE = "2026-11-01T12:00:00Z"
UNITS = """
git init -q -b main lib; git -C lib commit -q --allow-empty -m empty
git init -q -b main inner; cd inner; echo i > i.txt; git add -A; git commit -qm inner; cd ..
cd lib; echo 1 > l.txt; git add -A; git commit -qm one; git submodule --quiet add ../inner in; git commit -qm with
echo 2 > l.txt; git commit -qam two; cd ..
"""
SUPER = """
git submodule --quiet add {lib} src/sub; git -C src/sub checkout -q HEAD~1
git add -A; git commit -qm sub; git submodule --quiet update --init --recursive; git clone -q {inner} src/dep
"""
STATE = """
for place in . src/sub src/sub/in src/dep src/new docs/sub; do
  echo "== $place"; test -e $place/.git || continue; cd $place; git rev-parse --show-prefix HEAD; git status --short
  git for-each-ref --format='%(refname) %(objectname)'; git symbolic-ref -q HEAD; git stash list; git log --oneline -3
  cd - >/dev/null
done
git submodule status --recursive; git config --local --get-regexp '^submodule' | sort
find src docs -path '*/.git/*' -prune -o -printf '%y %p\\n' | sort
"""


@pytest.fixture
def team(tmp_path: Path, home: Path, monkeypatch: pytest.MonkeyPatch) -> Team:
    for name in ("AUTHOR", "COMMITTER"):
        monkeypatch.setenv(f"GIT_{name}_DATE", DATE)
    monkeypatch.setenv("GIT_CONFIG_COUNT", "1")
    monkeypatch.setenv("GIT_CONFIG_KEY_0", "protocol.file.allow")
    monkeypatch.setenv("GIT_CONFIG_VALUE_0", "always")
    shell(tmp_path, UNITS)
    team = Team(tmp_path, home)
    for place in (team.root, team.twin):
        shell(place, SUPER.format(lib=tmp_path / "lib", inner=tmp_path / "inner"))
    shell(tmp_path / "lib", "git commit -q --allow-empty -m three")
    return team


WHOLE: dict[str, list[str]] = {
    "submodule update": ["git -C src/sub checkout -q HEAD~1; git submodule -q update"],
    "submodule update of the newest": ["git submodule -q update --remote src/sub"],
    "submodule update of the newest, merged": [
        "git -C src/sub checkout -q main",
        "git submodule -q update --remote --merge src/sub",
    ],
    "submodule update of a pull": ["git -C src/sub checkout -q main; git add src/sub; git commit -qm bump"],
    "commit by cd": ["cd src/sub && echo q > q && git add -A && git commit -qm q"],
    "commit by -C": ["echo q > src/sub/q; git -C src/sub add -A; git -C src/sub commit -qm q"],
    "commit by a script": ["printf 'cd src/sub\\necho q > q\\ngit add -A\\ngit commit -qm q' > src/c.sh; sh src/c.sh"],
    "commit in the inner one": ["cd src/sub/in && echo q > q && git add -A && git commit -qm q"],
    "add alone": ["cd src/sub && echo q > q && git add q"],
    "a branch": ["git -C src/sub checkout -q -b topic; git -C src/sub branch x", "git -C src/sub branch -D x"],
    "checkout and back": ["git -C src/sub checkout -q main", "cd src/sub && git checkout -q -"],
    "stash": ["cd src/sub && echo 9 > l.txt && git stash -q", "cd src/sub && git stash pop -q"],
    "reset of own": [
        "cd src/sub && echo q > q && git add -A && git commit -qm q",
        "cd src/sub && git reset -q --soft HEAD~1",
    ],
    "fetch": ["cd src/sub && git fetch -q"],
    "both committed": [
        "cd src/sub && echo q > q && git add -A && git commit -qm q && cd ../.. && git add src/sub && git commit -qm up"
    ],
    "deinit and init": ["git submodule -q deinit -f src/sub", "git submodule -q update --init --recursive"],
    "submodule foreach": ["git submodule -q foreach 'echo q > q; git add q; git commit -qm q'"],
    "commit in a nested clone": ["cd src/dep && echo q > q && git add -A && git commit -qm q"],
    "a nested clone, stashed": ["cd src/dep && echo 9 > i.txt && git stash -q"],
    "init in a script": [
        "printf 'mkdir src/new; cd src/new; git init -q -b main; echo 1 > main.rs' > src/n.sh; sh src/n.sh"
    ],
    "init and commit": ["mkdir src/new; cd src/new; git init -q -b main; echo 1 > a; git add -A; git commit -qm a"],
    "clone in a script": ["printf 'git clone -q {lib} src/new' > src/n.sh; sh src/n.sh"],
    "clone with submodules": ["sh -c 'git clone -q --recurse-submodules {lib} src/new'"],
    "an empty repository": ["sh -c 'git init -q -b main src/new'"],
    "a removed clone": ["python3 -c 'import shutil; shutil.rmtree(\"src/dep\")'"],
    "a removed clone by find": ["find src/dep -delete"],
    "a moved clone": ["sh -c 'mv src/dep src/new'"],
}


@pytest.mark.live
@pytest.mark.parametrize("name", WHOLE)
def test_a_repository_in_the_scope_comes_over_whole(team: Team, name: str) -> None:
    for command in WHOLE[name]:
        result = team.run_twice(command.format(lib=team.folder / "lib"))
        assert result.dropped == {}, (command, result.said)
    assert shell(team.root, STATE, check=False) == shell(team.twin, STATE, check=False)
    shell(
        team.root,
        "git fsck --strict; git -C src/sub fsck --strict" if (team.root / "src/sub/.git").exists() else "true",
    )


NOT_AT_ALL: dict[str, tuple[str, str]] = {
    "a submodule taken out of .gitmodules": ("sh -c 'git rm -qf src/sub'", "src/sub"),
    "a submodule put into .gitmodules": ("git submodule -q add {inner} src/new", "src/new"),
    "a commit outside the scope": ("cd docs/rep && echo q > q && git add -A && git commit -qm q", "docs/rep"),
    "a new repository outside": ("sh -c 'git init -q docs/new; echo 1 > docs/new/a'", "docs/new"),
    "a new repository around the scope": ("mkdir src/new; cd src/new; git init -q; ln -s / .git/refs/x", "src/new"),
    "its .git alone": ("rm -rf src/dep/.git", "src/dep"),
    "its .git replaced by a link": ("mv src/dep/.git src/g; ln -s ../g src/dep/.git", "src/dep"),
    "another folder as .git": ("rm src/sub/.git; echo 'gitdir: ../dep/.git' > src/sub/.git", "src/sub"),
    "a work tree": ("sh -c 'git worktree add -q src/new'", "src/new"),
    "a separate git folder": ("sh -c 'git init -q --separate-git-dir=src/g src/new'", "src/new"),
    "objects of another": ("sh -c 'git clone -q -s {inner} src/new'", "src/new"),
    "a monitor": ("git init -q src/new; git -C src/new config core.fsmonitor ./x; true > src/new/x", "src/new"),
    "hooks elsewhere": ("git init -q src/new; git -C src/new config core.hooksPath hooks; true > src/new/x", "src/new"),
    "a pager": ("git init -q src/new; git -C src/new config core.pager ./x; true > src/new/x", "src/new"),
    "an alias": ("git init -q src/new; git -C src/new config alias.st '!./x'; true > src/new/x", "src/new"),
    "a filter": ("git init -q src/new; git -C src/new config filter.f.clean ./x; true > src/new/x", "src/new"),
    "an included file": ("git init -q src/new; git -C src/new config include.path ../x; true > src/new/x", "src/new"),
    "attributes": (
        "git init -q src/new; echo '* filter=f' > src/new/.git/info/attributes; true > src/new/x",
        "src/new",
    ),
    "a transport": (
        "git init -q src/new; git -C src/new config remote.o.url 'ext::sh -c x'; true > src/new/x",
        "src/new",
    ),
    "a program of a remote": (
        "git init -q src/new; git -C src/new config remote.o.uploadpack ./x; true > src/new/x",
        "src/new",
    ),
    "a work tree elsewhere": (
        "git init -q src/new; git -C src/new config core.worktree ..; true > src/new/x",
        "src/new",
    ),
    "steps that run": (
        "git init -q src/new; mkdir src/new/.git/sequencer; echo 'exec x' > src/new/.git/sequencer/todo",
        "src/new",
    ),
    "a hook of a submodule": (
        "cd src/sub; d=$(git rev-parse --git-dir); echo x > $d/hooks/post-checkout; echo 1 > q",
        "src/sub",
    ),
    "a hook of a nested clone": ("echo x > src/dep/.git/hooks/post-checkout; echo 1 > src/dep/q", "src/dep"),
}


@pytest.mark.live
@pytest.mark.parametrize("name", NOT_AT_ALL)
def test_of_a_repository_that_may_not_stay_nothing_does(team: Team, name: str) -> None:
    command, tree = NOT_AT_ALL[name]
    shell(team.root, f"git clone -q {team.folder / 'inner'} docs/rep")
    before = shell(team.root, STATE, check=False)
    result = team.run(command.format(inner=team.folder / "inner"))
    assert [path for path in result.dropped if path.startswith(tree)] == [tree], result.said
    assert f"  {tree}: " in result.said
    assert not [path for path in result.kept if path.startswith(tree)]
    if not name.startswith(("its .git replaced", "a separate")):
        assert shell(team.root, STATE, check=False) == before
    assert not (team.root / "src/sub/.git").exists() or shell(team.root / "src/sub", "git status --short") == ""


def test_a_new_repository_comes_without_its_hooks(team: Team) -> None:
    result = team.run(
        "git init -q src/new; echo 'touch ran' > src/new/.git/hooks/post-commit; chmod +x src/new/.git/hooks/*"
    )
    assert "came without its hooks/post-commit" in result.said
    assert not (team.root / "src/new/.git/hooks").exists()


def test_a_removed_repository_can_be_found_again(team: Team) -> None:
    result = team.run("python3 -c 'import shutil; shutil.rmtree(\"src/dep\")'")
    assert result.said.startswith("Remit: src/dep/ was a repository of its own; its git folder is kept in ")
    kept = Path(result.said.partition(" kept in ")[2].strip().removesuffix("."))
    assert shell(team.root, f"git --git-dir={kept}/git-folder log --format=%s") == "inner\n"


def test_a_submodule_of_which_the_git_folder_is_gone_is_named(team: Team) -> None:
    shell(team.root, "rm -rf .git/modules/src/sub")
    result = team.run("git -C src/sub status")
    assert "src/sub is a submodule whose git folder is gone" in result.said


AS_A_WHOLE = {
    "rm -rf src/dep": "contained",
    "rm -rf src/deep": "contained",
    "mv src/dep src/new": "contained",
    "chmod -R u+w src/dep": "PROTECTED_PATH",
    "rm -rf src/dep/.git": "PROTECTED_PATH",
    "rm -rf ../other": "OUTSIDE_WORKSPACE",
    "chmod -R u+w .": "PROTECTED_PATH",
    "git worktree remove src/side": "as it is",
    "git worktree remove docs/side": "SCOPE_VIOLATION",
    "git worktree remove src/tried": "PROTECTED_PATH",
    "git -c status.showUntrackedFiles=no worktree remove src/fresh": "PROTECTED_PATH",
    "git worktree remove --force src/side": "PROTECTED_PATH",
    "git worktree remove src/far": "contained",
    "git worktree remove src/side && touch src/tried/x": "OUTSIDE_WORKSPACE",
}


def test_the_text_of_a_removal_leaves_inner_repositories_to_the_judgement_of_the_whole(
    repository: Path, home: Path
) -> None:
    governed(repository)
    shell(repository, "git add -A; git commit -qm governed; mkdir docs src; git init -q ../other; touch ../other/x")
    for place in ("src/dep", "src/deep/er"):
        shell(repository, f"git init -q {place}; touch {place}/x")
    for place in ("src/side", "docs/side", "src/tried", "src/fresh", "docs/src/far"):
        shell(repository, f"git worktree add -q --detach {place}")
    shell(repository, "mkdir .git/worktrees/tried/remit; touch src/fresh/x")
    overlay_untried(home)
    agent = Agent(repository, home)
    agent.select()
    found: dict[str, str] = {}
    for command in AS_A_WHOLE:
        answer = agent.ask("Bash", command=command)
        found[command] = refusal(answer) or ("contained" if "updatedInput" in answer else "as it is")
    assert found == AS_A_WHOLE

"""git commands that change index, names or settings, and the ways to say each: a new way is one more line here.

In the repository of these commands the scope is `src/**`; `docs/` and the branches `other` and `behind` are others'.
"""

import shlex
from collections.abc import Callable

INDEX = """\
git add -A
git add -u
git add .
git add docs
git add -f docs/x.md
git add -N docs/new.md
git stage -A
git add --chmod=+x docs/x.md
git rm -q --cached docs/x.md
git rm -rq --cached docs
git rm -rq --cached .
git rm -q --cached --ignore-unmatch docs/x.md
git mv docs/x.md src/x.md
git mv docs src/docs
git rm -rq docs
git reset -q
git reset -q HEAD
git reset -q HEAD~1
git reset -q --soft HEAD~1
git reset -q --mixed HEAD~1
git reset -q --hard HEAD~1
git reset -q -- docs/x.md
git reset -q HEAD~1 -- docs/x.md
git restore --staged .
git restore --staged docs/x.md
git restore --staged --source=HEAD~1 docs/x.md
git restore -SW docs
git checkout HEAD~1 -- docs/x.md
git checkout HEAD~1 -- .
git update-index --force-remove docs/x.md
git update-index --add --cacheinfo 100644,e69de29bb2d1d6434b8b29ae775ad8c2e48c5391,docs/x.md
git update-index --chmod=+x docs/x.md
git update-index --assume-unchanged docs/x.md
git update-index --skip-worktree docs/x.md
git read-tree HEAD~1
git read-tree --empty
git read-tree -m HEAD~1
git apply --cached src/out.patch
git stash -q
git stash push -q docs
git stash -q --keep-index
git checkout-index -f -a
git commit -qam work
git commit -q -m work -- docs/x.md
git commit -q --amend --no-edit
git commit-tree HEAD^{tree} -m x
git write-tree
git merge -q other
git merge -q -s ours other
git cherry-pick other
git revert --no-edit HEAD
git rebase -q behind
git sparse-checkout set src
git clean -fdq docs
""".splitlines()

NAMES = """\
git branch -m other zz
git branch -M other zz
git branch -m zz
git branch -d other
git branch -D other
git branch -f other HEAD~1
git branch -f behind HEAD
git branch -c other copy
git branch -C other behind
git branch new
git checkout -q -b new
git checkout -q -B other
git switch -q -c new
git switch -q -C other
git update-ref refs/heads/other HEAD~1
git update-ref -d refs/heads/other
git update-ref refs/heads/behind HEAD
git symbolic-ref HEAD refs/heads/other
git symbolic-ref refs/heads/other refs/heads/behind
git fetch -q . HEAD:behind
git push -q . HEAD:behind
git push -q . :other
git tag -f v1 HEAD~1
git tag -d v1
git remote rename origin o
git config user.name Dana
git config core.hooksPath src/hooks
git replace HEAD HEAD~1
""".splitlines()

COMMANDS = [*INDEX, *NAMES]

FORMS: dict[str, Callable[[str], str]] = {
    "plain": lambda text: text,
    "-C": lambda text: text.replace("git ", "git -C . ", 1),
    "-c": lambda text: text.replace("git ", "git -c core.abbrev=8 ", 1),
    "env": lambda text: f"env X=1 {text}",
    "env -C": lambda text: f"env -C . {text}",
    "GIT_DIR": lambda text: f"GIT_DIR=$PWD/.git {text}",
    "GIT_INDEX_FILE": lambda text: f"GIT_INDEX_FILE=$PWD/.git/index {text}",
    "--git-dir": lambda text: text.replace("git ", "git --git-dir=.git --work-tree=. ", 1),
    "alias": lambda text: f"git -c alias.zz={shlex.quote('!' + text)} zz",
    "a path": lambda text: f"/usr/bin/{text}",
    "command": lambda text: f"command {text}",
    "a shell": lambda text: f"sh -c {shlex.quote(text)}",
    "a folder": lambda text: f"cd . && {text}",
    "a subshell": lambda text: f"( {text} )",
    "a script": lambda text: f"python3 -c {shlex.quote(f'import os; os.system({text!r})')}",
}

# ruff: noqa: E501
"""Everyday commands in repositories with submodules, nested repositories, work trees and large files."""

from everyday_rows import Row

SUBMODULES, NESTED, WORKTREE, LARGE = ("submodules",), ("nested",), ("worktree",), ("lfs",)
COMMITTED = "echo 'TWO = 2' > src/two.py && git add -A && git commit -qm two"
CLONED = "git config --global protocol.file.allow always; git -C ../library commit -q --allow-empty -m more"
BIG = "git switch -qc big && head -c 5000 /dev/zero > src/big.bin && git add -A && git commit -qm big && git switch -q main"
STORED = "find .git/lfs/objects -type f | wc -l"
ELSEWHERE = "git lfs push --all origin main > /dev/null && rm -rf .git/lfs/objects src/model.bin && GIT_LFS_SKIP_SMUDGE=1 git checkout -q src/model.bin"

ROWS = (
    Row("git submodule status", ("git submodule status", "git submodule summary"), kinds=SUBMODULES),
    Row("git submodule update", ("git submodule -q update",), "git -C libs/library checkout -q --detach && git -C libs/library commit -q --allow-empty -m aside && git -C libs/library branch kept", kinds=SUBMODULES),
    Row("git submodule update --init --recursive", ("git submodule -q update --init --recursive",), f"{CLONED}; git submodule -q deinit -f libs/library", kinds=SUBMODULES),
    Row("git submodule update in a script", ("sh -c 'git submodule -q update --init'",), f"{CLONED}; git submodule -q deinit -f libs/library", kinds=SUBMODULES),
    Row("a commit in a submodule by cd", (f"cd libs/library && {COMMITTED}",), kinds=SUBMODULES),
    Row("a commit in a submodule by git -C", ("echo 'TWO = 2' > libs/library/src/two.py && git -C libs/library add -A && git -C libs/library commit -qm two",), kinds=SUBMODULES),
    Row("a commit in a submodule, then of its pointer", (f"cd libs/library && {COMMITTED}", "git add libs/library && git commit -qm 'move on'"), kinds=SUBMODULES),
    Row("git add in a submodule", ("cd libs/library && touch src/three.py && git add src/three.py && git status --short",), kinds=SUBMODULES),
    Row("a branch in a submodule", ("git -C libs/library checkout -q -b topic", "git -C libs/library checkout -q main"), kinds=SUBMODULES),
    Row("git stash in a submodule", ("cd libs/library && git stash -q && git stash pop -q",), "echo 'ONE = 3' > libs/library/src/one.py", kinds=SUBMODULES),
    Row("git log, diff in a submodule", ("git -C libs/library log --oneline -1; git diff --submodule=log; git -C libs/library diff",), "echo 'ONE = 3' > libs/library/src/one.py", kinds=SUBMODULES),
    Row("git fetch in a submodule", ("cd libs/library && git fetch -q",), CLONED, kinds=SUBMODULES),
    Row("git pull in a submodule", ("cd libs/library && git pull -q",), CLONED, kinds=SUBMODULES),
    Row("git submodule foreach", ("git submodule -q foreach 'git status --short; git log --oneline -1'",), kinds=SUBMODULES),
    Row("git restore in a submodule", ("git -C libs/library restore src/one.py",), "echo 'ONE = 3' > libs/library/src/one.py", kinds=SUBMODULES),
    Row("a script that makes a repository", ("sh -c 'mkdir -p src/app && cd src/app && git init -q && echo 1 > main.rs'", "git -C src/app status --short"), kinds=NESTED),
    Row("a script that makes a repository and commits", ("sh -c 'mkdir -p src/app && cd src/app && git init -q && echo 1 > main.rs && git add -A && git commit -qm first'",), kinds=NESTED),
    Row("git init of a folder in scope", ("git init -q src/app && cd src/app && git rev-parse --show-prefix",), kinds=NESTED),
    Row("git clone into the scope", ("git clone -q vendor/library src/library", "git -C src/library log --oneline"), kinds=NESTED),
    Row("a script that clones into the scope", ("sh -c 'git clone -q vendor/library src/library && ls src/library/src'",), kinds=NESTED),
    Row("a commit in a nested clone", (f"cd src/library && {COMMITTED}",), "git clone -q vendor/library src/library", kinds=NESTED),
    Row("a branch in a nested clone", ("cd src/library && git checkout -q -b topic && git branch", "git -C src/library checkout -q main"), "git clone -q vendor/library src/library", kinds=NESTED),
    Row("git stash in a nested clone", ("cd src/library && git stash -q", "cd src/library && git stash pop -q"), "git clone -q vendor/library src/library && echo 'ONE = 3' > src/library/src/one.py", kinds=NESTED),
    Row("shutil.rmtree of a nested clone", ("python3 -c 'import shutil; shutil.rmtree(\"src/library\")'",), "git clone -q vendor/library src/library", kinds=NESTED),
    Row("mv of a nested clone", ("mv src/library src/lib && git -C src/lib status --short",), "git clone -q vendor/library src/library", kinds=NESTED),
    Row("rm -rf of a folder with a clone in it", ("rm -rf src/deps",), "git clone -q vendor/library src/deps/library", kinds=NESTED),
    Row("sed -i in a nested clone", ("find src -name '*.py' -exec sed -i s/ONE/TWO/ {} +",), "git clone -q vendor/library src/library", kinds=NESTED),
    Row("rm -rf of a nested clone", ("rm -rf src/library",), "git clone -q vendor/library src/library", kinds=NESTED),
    Row("a commit in a work tree", (f"mkdir -p src && {COMMITTED}", "git log --oneline -1"), kinds=WORKTREE),
    Row("git worktree remove of a made one", ("git worktree add -q -b side src/side && ls src/side/src", "git worktree remove src/side", "git branch -q -d side"), kinds=WORKTREE),
    Row("git worktree list", ("git worktree list | wc -l",), kinds=WORKTREE),
    Row("git merge of a branch in a work tree", ("git merge -q --no-edit feature",), kinds=WORKTREE),
    Row("git rebase of own commits in a work tree", (COMMITTED, "git rebase -q feature"), kinds=WORKTREE),
    Row("a rebase that stops and goes on in a work tree", ("echo '# own' >> $CODE && git commit -qam own", "git rebase feature > /dev/null 2>&1; git status --short", "git checkout -q --theirs $CODE && git add $CODE && GIT_EDITOR=true git rebase --continue > /dev/null"), kinds=WORKTREE),
    Row("a cherry-pick given up in a work tree", ("echo '# own' >> $CODE && git commit -qam own", "git cherry-pick feature > /dev/null 2>&1; git cherry-pick --abort"), kinds=WORKTREE),
    Row("git stash in a work tree", ("git stash -q", "git stash pop -q"), "echo '# mine' >> $CODE", kinds=WORKTREE),
    Row("a repository made in a work tree", ("sh -c 'git init -q src/app && echo 1 > src/app/a'",), kinds=WORKTREE),
    Row("git lfs track", ("git lfs track '*.psd' && cat .gitattributes", "git add .gitattributes && git commit -qm psd"), kinds=LARGE),
    Row("a commit of a large file", ("head -c 3000 /dev/zero > src/more.bin && git add -A && git commit -qm more", f"git cat-file -p HEAD:src/more.bin; {STORED}; git lfs fsck"), kinds=LARGE),
    Row("git lfs ls-files", ("git lfs ls-files",), kinds=LARGE),
    Row("git lfs status", ("git lfs status; git lfs env > /dev/null",), "head -c 3000 /dev/zero > src/more.bin && git add -A && echo 1 >> src/model.bin", kinds=LARGE),
    Row("a branch with a large file", ("git switch -q big && wc -c src/*.bin", "git checkout -q main"), BIG, kinds=LARGE),
    Row("git merge of a branch with a large file", (f"git merge -q big && wc -c src/*.bin; {STORED}",), BIG, kinds=LARGE),
    Row("git lfs pull", (f"git lfs pull && wc -c src/model.bin; {STORED}; git status --short",), ELSEWHERE, kinds=LARGE),
    Row("git lfs fetch, git lfs checkout", (f"git lfs fetch > /dev/null; {STORED}", "git lfs checkout && wc -c src/model.bin"), ELSEWHERE, kinds=LARGE),
    Row("git push of a large file", ("head -c 3000 /dev/zero > src/more.bin && git add -A && git commit -qm more", "git push -q origin HEAD:topic > /dev/null", "ls ../origin.git/large-files"), kinds=LARGE),
)  # fmt: skip

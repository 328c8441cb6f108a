"""Lines of other people that an agent's commands bring into its work tree: every line stays theirs.

A teammate works in a clone; a person's own work waits on a branch, in a stash, in a patch, an archive or a folder
beside. Each scenario ends in a clone that has only the published notes: they may not say that an agent wrote it.
"""

import gzip
import shutil
import tarfile
from collections.abc import Callable
from pathlib import Path

from .code import Code
from .lines import PERSON, Line, written
from .scenario import Run, Score, counted
from .world import World

APP, MATE, DEEP = "src/app.py", "src/mate.py", "src/kit/deep.py"

SCRIPTS = {
    "take.py": 'import shutil\n\nshutil.copy("../mate/src/mate.py", "src/taken.py")',
    "append.py": "import pathlib\n\ntaken = pathlib.Path('..', 'mate', 'src', 'mate.py').read_text()\n"
    "with open('src/app.py', 'a') as file:\n    file.write(taken)",
    "Makefile": "all:\n\tpython3 take.py",
}


class Team:
    """A repository, its remote, and a teammate's clone with work on the branch `side`."""

    def __init__(self, world: World, code: Code) -> None:
        self.world, self.code = world, code
        self.folder = world.root.parent
        self.remote, self.mate = self.folder / "remote.git", self.folder / "mate"
        files = {APP: code.blocks(5), "src/kit/old.py": code.block()}
        scripts = {path: text.encode().split(b"\n") for path, text in SCRIPTS.items()}
        world.begin({**files, **scripts})
        world.git("branch", "-M", "main")
        world.git("init", "-q", "--bare", "-b", "main", str(self.remote))
        world.git("remote", "add", "origin", str(self.remote))
        world.git("push", "-q", "-u", "origin", "main")
        world.git("clone", "-q", str(self.remote), str(self.mate), cwd=self.folder)
        world.git("config", "user.name", "Mate", cwd=self.mate)
        world.git("config", "user.email", "mate@example.org", cwd=self.mate)
        self.base = world.files[APP]
        self.work("side", MATE)
        world.git("fetch", "-q")
        self.pack()
        self.session = world.session()
        world.read(self.session, APP)

    def theirs(self, path: str, lines: list[Line], folder: Path) -> None:
        """Somebody's version of a file, in a folder of theirs."""
        place = folder / path
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_bytes(self.world.data_of(path, lines))
        self.world.remember_as(path, lines)

    def work(self, branch: str, path: str) -> None:
        """The teammate pushes a branch with a new file, a folder, and lines inside an old file."""
        git, code = self.world.git, self.code
        git("checkout", "-q", "-b", branch, "origin/main", cwd=self.mate)
        self.theirs(path, written(code.blocks(4), PERSON), self.mate)
        self.theirs(DEEP, written(code.blocks(2), PERSON), self.mate)
        middle = len(self.base) // 2
        own = written([code.line() for _ in range(5)], PERSON)
        self.theirs(APP, [*self.base[:middle], *own, *self.base[middle:]], self.mate)
        git("add", "-A", cwd=self.mate)
        git("commit", "-q", "-m", f"work on {branch}", cwd=self.mate)
        git("push", "-q", "origin", branch, cwd=self.mate)

    def pack(self) -> None:
        """Put the branch's work into patches and archives beside the repository."""
        git, mate = self.world.git, self.mate
        patch = git("diff", "--binary", "origin/main", "side", cwd=mate)
        (self.folder / "side.patch").write_text(patch + "\n")
        mbox = git("format-patch", "--stdout", "origin/main..side", cwd=mate)
        (self.folder / "side.mbox").write_text(mbox + "\n")
        for kind in ("tar", "tar.gz"):
            with tarfile.open(self.folder / f"side.{kind}", "w:gz" if kind == "tar.gz" else "w") as archive:
                archive.add(mate / "src", "src")
        shutil.make_archive(str(self.folder / "side"), "zip", mate, "src")
        (self.folder / "mate.py.gz").write_bytes(gzip.compress((mate / MATE).read_bytes()))

    # -- what people do before the command

    def main(self) -> None:
        """A person goes on at the end of a file on main."""
        world = self.world
        world.person(APP, [*world.files[APP], *written(self.code.block(), PERSON)])
        world.commit()
        world.read(self.session, APP)

    def unfetched(self) -> None:
        """The teammate pushes more, which nobody has here."""
        self.work("late", "src/late.py")

    def gone(self) -> None:
        """A person's commit took lines of people's out."""
        self.world.person(APP, self.world.files[APP][9:])
        self.world.commit()

    def stash(self) -> None:
        """A person's work waits in a stash."""
        world = self.world
        old = world.files[APP]
        middle = len(old) // 2
        own = written([self.code.line() for _ in range(6)], PERSON)
        world.person(APP, [*old[:middle], *own, *old[middle:]])
        world.git("stash", "push", "-q")
        world.files[APP] = old

    def patch(self) -> None:
        """The patch lies in the work tree."""
        shutil.copy(self.folder / "side.patch", self.world.root)


class Way:
    """A command, and what people do before."""

    def __init__(self, command: str, *before: Callable[[Team], None]) -> None:
        self.command, self.before = command, before

    def play(self, world: World, code: Code) -> Score:
        team = Team(world, code)
        for prepare in self.before:
            prepare(team)
        world.run(team.session, self.command)
        found = Score(refused=not world.learn(PERSON))
        world.commit()
        world.settle()
        found.add(counted(world))
        refs = [ref for ref in world.tool.publish(world.root) if world.git("for-each-ref", ref)]
        other = team.folder / "fresh"
        world.git("clone", "-q", "--no-local", str(world.root), str(other), cwd=team.folder)
        for ref in refs:
            world.git("fetch", "-q", "origin", f"{ref}:{ref}", cwd=other)
        world.root = other
        return found


WAYS: dict[str, Way] = {
    "merge, fast forward": Way("git merge -q origin/side"),
    "merge, no fast forward": Way("git merge -q --no-ff --no-edit origin/side"),
    "merge into changes of main's": Way("git merge -q --no-edit origin/side", Team.main),
    "merge --squash": Way("git merge -q --squash origin/side", Team.main),
    "pull": Way("git pull -q origin side"),
    "pull what nobody fetched": Way("git pull -q --no-rebase --no-edit origin late", Team.unfetched),
    "pull --rebase": Way("git pull -q --rebase origin side", Team.main),
    "fetch and merge": Way("git fetch -q origin && git merge -q --no-edit origin/late", Team.unfetched),
    "switch": Way("git switch -q side"),
    "checkout a branch": Way("git checkout -q side"),
    "checkout files": Way("git checkout -q origin/side -- src"),
    "restore": Way("git restore --source origin/side src/mate.py src/app.py"),
    "reset": Way("git reset -q --keep origin/side"),
    "cherry-pick": Way("git cherry-pick origin/side", Team.main),
    "cherry-pick -n": Way("git cherry-pick -n origin/side", Team.main),
    "rebase": Way("git rebase -q origin/side", Team.main),
    "revert": Way("git revert --no-edit HEAD", Team.gone),
    "stash pop": Way("git stash pop -q", Team.stash),
    "stash pop into changes": Way("git stash pop -q", Team.stash, Team.main),
    "stash apply": Way("git stash apply -q", Team.stash),
    "checkout from a stash": Way("git checkout -q stash@{0} -- src", Team.stash),
    "apply": Way("git apply ../side.patch"),
    "apply from the work tree": Way("git apply side.patch", Team.patch),
    "patch": Way("patch -s -p1 < ../side.patch"),
    "am": Way("git am -q ../side.mbox"),
    "show into a file": Way("git show origin/side:src/mate.py > src/taken.py"),
    "show into a file that has lines": Way("git show origin/side:src/mate.py >> src/app.py"),
    "diff and apply": Way("git diff HEAD origin/side | git apply"),
    "archive": Way("git archive origin/side src | tar x"),
    "worktree": Way("git worktree add -q ../tree origin/side && cp ../tree/src/mate.py src/mate.py"),
    "cp -r": Way("cp -r ../mate/src/kit src/kit2"),
    "cp from a branch's folder": Way("cp ../mate/src/mate.py ../mate/src/app.py src/"),
    "rsync or cp": Way("cp -a ../mate/src/. src/"),
    "shutil.copy": Way('python3 -c \'import shutil; shutil.copy("../mate/src/mate.py", "src/taken.py")\''),
    "shutil.copytree": Way('python3 -c \'import shutil; shutil.copytree("../mate/src/kit", "src/kit2")\''),
    "a copying script": Way("python3 take.py"),
    "a script that appends": Way("python3 append.py"),
    "make that copies": Way("make -s"),
    "tar": Way("tar xf ../side.tar"),
    "tar.gz": Way("tar xzf ../side.tar.gz"),
    "unzip": Way("unzip -q -o ../side.zip"),
    "gunzip": Way("gunzip -c ../mate.py.gz > src/taken.py"),
    "cat of several": Way("cat ../mate/src/mate.py ../mate/src/kit/deep.py > src/taken.py"),
    "head of a file": Way("head -n 9 ../mate/src/mate.py > src/taken.py"),
    "sed -n of a file": Way("sed -n '3,9p' ../mate/src/mate.py >> src/app.py"),
}

GIT_BROUGHT: dict[str, Run] = {name: way.play for name, way in WAYS.items()}

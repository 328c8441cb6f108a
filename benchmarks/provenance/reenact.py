"""A public repository's history, enacted again commit by commit: half of its commits by agents, the rest by people.

The trees are those of the original, with its merges, so who wrote a line is what `git blame` says, and who made the
commit that it names.
"""

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from remit.gate.governing.settings import set_mode
from remit.workspace.place.workspace import find_git_root, workspace_at

from .lines import BEFORE, PERSON, Author
from .real_history import Changed, Difference, Repository
from .reenact_hands import Hands
from .remit_tool import CLASSES, UncontainedRemitTool
from .tools import Refused, Session
from .world import INTENTS, World, author

Mode = Literal["observe", "enforce"]

SHARED = Author("process")
"""Whose a file's lines of a commit are, where a call was refused halfway and a person made the rest: nobody's alone."""

OWN_FOLDER = ".orchestration"


class TimedTool(UncontainedRemitTool):
    """Remit, with the time of each hook call in seconds."""

    def __init__(self) -> None:
        super().__init__()
        self.hook_times: dict[str, list[float]] = {"pre": [], "post": []}

    def hook(self, session: Session, event: str, payload: Mapping[str, Any]) -> Mapping[str, Any]:
        began = time.perf_counter()
        try:
            return super().hook(session, event, payload)
        finally:
            self.hook_times.setdefault(CLASSES.get(event, "note"), []).append(time.perf_counter() - began)


@dataclass(frozen=True)
class Work:
    """A file's change in one commit: whose it is, but for the hunks that were left to a person."""

    who: Author
    left: Sequence[Difference] = ()

    def writer(self, number: int) -> Author:
        """Who wrote a line that the change added, by its number."""
        return PERSON if any(hunk.to < number <= hunk.to + hunk.size for hunk in self.left) else self.who


class Enacted:
    """A stretch of a history, enacted in a folder. `commits` are the new names by the old ones; `works` say who made a
    file's change in a new commit; what else there is in one of the `enacted` commits a person made.
    """

    def __init__(
        self, repository: Path, folder: Path, commits: int, seed: int, mode: Mode, *, first_parent: bool = False
    ) -> None:
        self.tool = TimedTool()
        self.world = World(self.tool, folder, f"{seed}:reenact")
        self.rng = self.world.rng
        self.source = Repository(repository)
        self.repository = Repository(self.world.root)
        self.commits: dict[str, str] = {}
        self.enacted: set[str] = set()
        self.branches: dict[str, str] = {}
        """The branch whose newest commit this is, by new names."""
        self.works: dict[tuple[str, str], Work] = {}
        self.written: dict[Author, set[bytes]] = {}
        """The texts that an agent's commits added, by agent."""
        self.merges = self.refused = 0
        words = ["--first-parent"] if first_parent else []
        named = self.source.out("rev-list", "--topo-order", "--reverse", "--parents", *words, f"-n{commits}", "HEAD")
        self.names = [names for line in named.decode().splitlines() if len(names := line.split()) > 1]
        """Each commit with its parents, parents first; a first commit is there from the start."""
        if first_parent:
            self.names = [names[:2] for names in self.names]
        self.begin(mode)

    def begin(self, mode: Mode) -> None:
        """The work tree of the first commit's parent, with Remit in it."""
        root = self.world.root
        objects = self.source.out("rev-parse", "--path-format=absolute", "--git-path", "objects").decode().strip()
        (root / ".git" / "objects" / "info").mkdir(parents=True, exist_ok=True)
        (root / ".git" / "objects" / "info" / "alternates").write_text(objects + "\n")
        (root / ".git" / "info" / "exclude").write_text(f"/{OWN_FOLDER}\n")
        self.world.git("checkout", "-q", "-B", "main", self.names[0][1])
        self.branches[self.names[0][1]] = "main"
        self.tool.install(root, self.world.home, INTENTS)
        set_mode(workspace_at(root, find_git_root(root)), mode)
        self.hands = Hands(self.world, self.rng)

    def run(self) -> None:
        for name, *parents in self.names:
            enacted = [self.commits.get(parent, parent) for parent in parents]
            self.stand_on(enacted[0])
            made = self.merge(name, enacted) if len(parents) > 1 else self.commit(name, parents[0])
            self.branches[made] = self.branches.pop(enacted[0])
            self.commits[name] = made
            self.enacted.add(made)
        self.world.git("checkout", "-q", "-B", "main", self.commits[self.names[-1][0]])

    def stand_on(self, commit: str) -> None:
        """A branch that ends there is checked out; a new one where none does."""
        if commit not in self.branches:
            self.branches[commit] = f"branch{len(self.commits)}"
            self.world.git("checkout", "-q", "-b", self.branches[commit], commit)
        else:
            self.world.git("checkout", "-q", self.branches[commit])

    def merge(self, name: str, parents: Sequence[str]) -> str:
        """People merge, and settle what is left to settle."""
        self.merges += 1
        self.world.git("merge", "-q", "--no-ff", "--no-commit", *parents[1:], ok=(0, 1, 2, 128))
        self.world.git("read-tree", "--reset", "-u", f"{name}^{{tree}}")
        if (self.world.root / ".git" / "MERGE_HEAD").exists():
            self.world.git("commit", "-q", "--allow-empty", "--no-verify", "-m", "merge")
        else:
            words = [word for parent in parents for word in ("-p", parent)]
            made = self.world.git("commit-tree", f"{name}^{{tree}}", *words, "-m", "merge")
            self.world.git("reset", "-q", "--hard", made)
        return self.world.head()

    def commit(self, name: str, parent: str) -> str:
        """A commit by an agent or a person."""
        session = self.rng.choice(self.hands.sessions) if self.rng.random() < 0.5 else None
        changes = list(self.source.changed(parent, name))
        if session:
            self.world.prompt(session)
        works = {change.new or "": self.make(change, parent, name, session) for change in changes}
        if session:
            self.world.stop(session)
        self.save_rest(parent, name)
        self.world.git("commit", "-q", "--allow-empty", "--no-verify", "-m", f"like {name[:12]}")
        made = self.world.head()
        self.works |= {(made, path): work for path, work in works.items()}
        return made

    def make(self, change: Changed, parent: str, name: str, session: Session | None) -> Work:
        """The change of one file."""
        old = self.source.text(parent, change.old) if change.old else None
        new = self.source.text(name, change.new) if change.new else None
        can_be_told = (old is not None or not change.old) and (new is not None or not change.new)
        if not session or not can_be_told:
            self.save(change, name)
            return Work(PERSON)
        try:
            work = Work(author(session), self.hands.change(session, change, old, new))
        except Refused:
            self.refused += 1
            work = Work(SHARED)
        if work.left or work.who == SHARED:
            self.save(change, name)
        gone = set(old or ())
        added = {text.strip() for n, text in enumerate(new or (), 1) if text not in gone and work.writer(n) != PERSON}
        self.written.setdefault(work.who, set()).update(added)
        return work

    def save(self, change: Changed, name: str) -> None:
        """A person makes a file what it is in that commit."""
        root = self.world.root
        if change.new is None or (change.old and change.old != change.new):
            (root / (change.old or "")).unlink(missing_ok=True)
        if change.new is not None:
            (root / change.new).parent.mkdir(parents=True, exist_ok=True)
            (root / change.new).write_bytes(self.source.out("cat-file", "blob", f"{name}:{change.new}"))

    def save_rest(self, parent: str, name: str) -> None:
        """A person saves what no agent can be told, and stages all: the index and the work tree are the original's."""
        world = self.world
        gone = world.git("diff", "--name-only", "--diff-filter=D", "--no-renames", "-z", parent, name)
        for path in filter(None, gone.split("\0")):
            if not (world.root / path).is_dir():
                (world.root / path).unlink(missing_ok=True)
        world.git("read-tree", f"{name}^{{tree}}")
        world.git("update-index", "-q", "--refresh", ok=(0, 1))
        left = [path for path in world.git("diff-files", "--name-only", "-z").split("\0") if path]
        if left:
            world.git("checkout-index", "-q", "-f", "--", *left)

    def writer(self, commit: str, path: str, number: int) -> Author:
        """Who wrote a line that a commit added to a file, by its number there."""
        work = self.works.get((commit, path))
        return work.writer(number) if work else PERSON if commit in self.enacted else BEFORE

"""Constructed truth on real code: a repository's own commits, each piece dealt by seed to a hand that writes it.

What is written is what the history holds, so it is as alike, as plain and as often moved as code is.
"""

from collections.abc import Callable, Iterator, Sequence
from itertools import pairwise
from pathlib import Path

from .code import Code
from .lines import texts
from .real_change import Change, Step, dealt, pieces_between
from .real_git import commit_some, is_clean, merged, rebase, squash
from .real_gone import Gone
from .real_hands import Hands
from .real_history import Changed, History
from .real_words import shell
from .scenario import Run, Score, counted
from .tools import Session
from .world import Call, World

MOST_LINES = 9_000
MOST_PIECES = 150
FEW_PIECES, FEW_CHANGES = 20, 15
"""Of a commit with more pieces than that only so much is played."""

EVERY = 25
"""Commits after which all lines are asked about, beside the end."""

SHARE_ASKED = 0.01
"""Steps after which they are asked about too, with work that is not committed."""


def scenario(repository: Path, commits: int) -> Run:
    """One stretch of a repository. What is counted on its way comes back."""

    def run(world: World, code: Code) -> Score:
        return Real(world, History(repository, world.rng, commits)).run()

    return run


class Real:
    """One stretch, played in one world."""

    def __init__(self, world: World, history: History) -> None:
        self.world, self.rng, self.history = world, world.rng, history
        first, touched = history.names[0], sorted(history.touched())
        files = {path: lines for path in touched if (lines := history.lines(first, path)) is not None}
        world.begin(files)
        self.hands = Hands(world)
        self.score = Score()

    def run(self) -> Score:
        """All commits; then what is left becomes one."""
        for number, (old, new) in enumerate(pairwise(self.history.names), 1):
            self.commit(old, new)
            if number % EVERY == 0:
                self.count()
        if not is_clean(self.world):
            self.count()
            self.world.commit()
        self.score.refused = self.hands.refused
        return self.score

    def count(self) -> None:
        """What the tool says of every line now."""
        self.world.settle()
        self.score.add(counted(self.world))

    def commit(self, old: str, new: str) -> None:
        """What one commit of the history did, and what people then do with it."""
        self.hands.gone = Gone()
        changes = self.changes(old, new)
        for change in changes:
            self.hands.gone.note(change.taken_out())
        self.committed(changes, dealt(changes, self.rng))
        for change in changes:
            self.hands.past.setdefault(change.path, Gone()).note(change.taken_out())
        if is_clean(self.world):
            self.afterwards()

    def committed(self, changes: Sequence[Change], steps: Sequence[Step]) -> None:
        """The steps, and commits of them in one of the ways that people commit; some stay in the work tree."""
        chance, world = self.rng.random(), self.world
        if changes and chance < 0.08 and is_clean(world):
            merged(world, changes, steps, self.play)
            world.commit()
        elif chance > 0.9 and len(steps) > 2:
            self.play(steps[: len(steps) // 2])
            world.commit()
            self.play(steps[len(steps) // 2 :])
            world.commit("--amend")
        else:
            self.play(steps)
            if self.rng.random() < 0.2:
                commit_some(world, changes, self.rng)
            if self.rng.random() < 0.85:
                world.commit()

    def play(self, steps: Sequence[Step]) -> None:
        self.hands.play(steps, self.ask_at_times)

    def ask_at_times(self) -> None:
        if self.rng.random() < SHARE_ASKED:
            self.count()

    def afterwards(self) -> None:
        """At times the commits are rewritten, or a conversation ends."""
        chance = self.rng.random()
        if chance < 0.08:
            squash(self.world, self.rng)
        elif chance < 0.16:
            rebase(self.world, self.rng)
        elif chance < 0.19:
            self.hands.restart()

    def changes(self, old: str, new: str) -> list[Change]:
        """The changes of a commit; files that it moves or removes are moved and removed already."""
        found = list(self.each_change(old, new))
        if sum(len(change.pieces) for change in found) <= MOST_PIECES:
            return found
        return [change for change in found if len(change.pieces) <= FEW_PIECES][:FEW_CHANGES]

    def each_change(self, old: str, new: str) -> Iterator[Change]:
        files = self.world.files
        for changed in self.history.changed(old, new):
            self.moved(changed)
            if changed.new is None or (self.world.root / changed.new).is_dir():
                continue
            target, base = self.history.lines(new, changed.new), files.get(changed.new, [])
            if target and list(texts(base)) != target and len(base) + len(target) <= MOST_LINES:
                yield Change(changed.new, base, pieces_between(texts(base), target, self.rng))

    def moved(self, changed: Changed) -> None:
        """A file gets another name, or goes, by a person or an agent."""
        old, new, files = changed.old, changed.new, self.world.files
        if old is None or old == new or old not in files or new in files:
            return
        if new is None:
            self.hands.gone.note(files[old])
            self.by_somebody((f"rm {old}", f"git rm -q {old}"), lambda: self.world.remove(old))
        else:
            self.by_somebody((f"git mv {old} {new}", f"mv {old} {new}"), lambda: self.world.rename(old, new))

    def by_somebody(self, commands: Sequence[str], act: Callable[[], None]) -> None:
        """Half of the time an agent's command does it."""
        if self.rng.random() < 0.5:
            act()
            return
        session = self.hands.session()
        call = shell(session, self.rng.choice(commands))
        self.told(session, call, act)

    def told(self, session: Session, call: Call, act: Callable[[], None]) -> None:
        """A call, and what it does."""
        self.world.before(session, call)
        act()
        self.world.after(session, call)

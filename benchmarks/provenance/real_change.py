"""What one commit does to one file, in pieces that different hands put in place, in any order."""

import random
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field

from .lines import Author, Line, written
from .real_gone import Gone
from .real_history import differences

ALGORITHMS = ("myers", "patience", "histogram", "minimal")


@dataclass
class Piece:
    """`count` lines of the base from `at` give place to others; `lines` are those, once somebody wrote them."""

    at: int
    count: int
    texts: Sequence[bytes]
    lines: list[Line] = field(default_factory=list[Line])


@dataclass
class Change:
    """One file in one commit; `done` are the pieces in place."""

    path: str
    base: list[Line]
    pieces: list[Piece]
    done: set[int] = field(default_factory=set[int])

    def lines(self, done: Collection[int] | None = None) -> list[Line]:
        """The file with those pieces in place; where none are named, with all that are."""
        found: list[Line] = []
        at = 0
        for n, piece in enumerate(self.pieces):
            found += self.base[at : piece.at]
            at = piece.at
            if n in (self.done if done is None else done):
                found += piece.lines
                at += piece.count
        return found + self.base[at:]

    def taken_out(self) -> list[Line]:
        """The lines that give place to its pieces."""
        return [line for piece in self.pieces for line in self.base[piece.at : piece.at + piece.count]]

    def write(self, numbers: Collection[int], who: Author, gone: Gone) -> None:
        """Somebody puts those pieces in place."""
        for n in numbers:
            piece = self.pieces[n]
            piece.lines = written(piece.texts, who)
            gone.account_for(piece.lines)
        self.done |= set(numbers)


@dataclass(frozen=True)
class Step:
    """Pieces of one change that one call, or one person, puts in place."""

    change: Change
    numbers: tuple[int, ...]


def pieces_between(old: Sequence[bytes], new: Sequence[bytes], rng: random.Random) -> list[Piece]:
    """The pieces by one of git's ways to see them; some long ones fall in two."""
    found: list[Piece] = []
    for hunk in differences(old, new, 0, rng.choice(ALGORITHMS)):
        at, count, come = hunk.at, hunk.count, list(new[hunk.to : hunk.to + hunk.size])
        while len(come) > 3 and rng.random() < 0.45:
            cut = rng.randrange(1, len(come))
            out = min(count, rng.randint(0, cut))
            found.append(Piece(at, out, come[:cut]))
            at, count, come = at + out, count - out, come[cut:]
        found.append(Piece(at, count, come))
    return found


def dealt(changes: Sequence[Change], rng: random.Random) -> list[Step]:
    """Every piece of a commit, in runs of one or more; files in turn, the order within one kept."""
    queues: dict[str, list[Step]] = {}
    for change in changes:
        left = list(range(len(change.pieces)))
        if rng.random() < 0.3:
            rng.shuffle(left)
        while left:
            size = rng.choice((1, 1, 1, 2, 3, 8))
            queues.setdefault(change.path, []).append(Step(change, tuple(left[:size])))
            left = left[size:]
    order = [path for path, steps in queues.items() for _ in steps]
    rng.shuffle(order)
    return [queues[path].pop(0) for path in order]

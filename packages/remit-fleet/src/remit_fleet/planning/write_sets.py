"""Write sets of tasks, and the proofs that two tasks never write the same file.

A write set is the intent's scope, without the commons, narrowed to the paths of the role. The proof covers exactly the
enforced rule: proof and gate read the same patterns.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence

from msgspec import Struct, json

from remit.core.config import AgentRole, Commons
from remit.core.diff.contents import sha256
from remit.core.intent import Intent
from remit.core.scope.apart import Answer, Apart, Edges, Shared, Unproved, can_meet, decide_all_apart, list_edges
from remit.core.scope.path_patterns import Scope

EVERYTHING = ("**",)
MAX_DECISIONS = 6_000
"""Pairs with common folders that are decided for one plan, each in 0.2 to 2 ms; further pairs are unproved."""


class WriteSet(Struct, frozen=True):
    """Paths that a task may write: the paths in `scope` that are also in `paths` of its role."""

    intent_id: str
    scope: tuple[str, ...]
    paths: tuple[str, ...] = EVERYTHING

    @property
    def scopes(self) -> tuple[Scope, ...]:
        return (Scope(self.scope),) if self.paths == EVERYTHING else (Scope(self.scope), Scope(self.paths))

    @property
    def sha256(self) -> str:
        return sha256(json.encode((self.scope, self.paths)))

    def contains(self, path: str, *, fold: bool = False) -> bool:
        return all(scope.matches(path, fold=fold) for scope in self.scopes)


class SharedPath(Struct, frozen=True):
    """Pair of tasks not proved apart, with a shared path or the reason of the missing proof."""

    first: str
    second: str
    answer: Answer


def make_write_set(intent: Intent, role: AgentRole, commons: Iterable[Commons] = ()) -> WriteSet:
    """Return the write set of a task. A task with later roles owns the whole scope, narrowed in each stage by the
    stage's role.
    """
    taken_out = tuple(f"!{path}" for common in commons for path in common.paths)
    return WriteSet(intent.id, (*intent.owned_scope, *taken_out), EVERYTHING if role.chain else role.paths)


class Proofs:
    """Decisions on pairs of write sets, each made once. `known` are the decisions so far, by the hashes of both sets.
    Callers may keep `known`, because a decision depends only on the hashes.
    """

    def __init__(self, *, fold: bool = False, known: dict[tuple[str, str], Answer] | None = None) -> None:
        self.fold = fold
        self.known = {} if known is None else known

    def decide(self, a: WriteSet, b: WriteSet) -> Answer:
        one, two = a.sha256, b.sha256
        if (one, two) not in self.known:
            answer = self.known[one, two] = decide_all_apart(a.scopes, b.scopes, fold=self.fold)
            if isinstance(answer, Shared) and answer.other:
                self.known[two, one] = Shared(answer.other, answer.path)
            self.known.setdefault((two, one), answer)
        return self.known[one, two]

    def find_shared(self, sets: Sequence[WriteSet]) -> Iterator[SharedPath]:
        """Yield the pairs not proved apart, in the order of the sets."""
        most = len(self.known) + 2 * MAX_DECISIONS
        for a, b in sorted(self._list_neighbours(sets)):
            is_late = len(self.known) > most
            answer = Unproved(f"more than {MAX_DECISIONS} pairs") if is_late else self.decide(sets[a], sets[b])
            if answer != Apart():
                yield SharedPath(sets[a].intent_id, sets[b].intent_id, answer)

    def _list_neighbours(self, sets: Sequence[WriteSet]) -> set[tuple[int, int]]:
        by_folder: defaultdict[str, defaultdict[int, set[Edges]]] = defaultdict(lambda: defaultdict(set))
        for number, write_set in enumerate(sets):
            for edges in list_edges(Scope(write_set.scope), fold=self.fold):
                by_folder[edges[0].rpartition("/")[0]][number].add(edges)
        pairs: set[tuple[int, int]] = set()
        for folder, inside in by_folder.items():
            for others in (by_folder[name] for name in _list_folders_above(folder) if name in by_folder):
                pairs.update(
                    (min(a, b), max(a, b))
                    for a, own in inside.items()
                    for b, other in others.items()
                    if a != b and can_meet(own, other)
                )
        return pairs


def _list_folders_above(folder: str) -> Iterator[str]:
    while folder:
        yield folder
        folder = folder.rpartition("/")[0]
    yield ""

"""Coupling between files: common commits, imports, and intents that changed both files."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from itertools import combinations
from math import sqrt
from typing import TypeAlias

from msgspec import Struct

from remit.core.config import CouplingWeights
from remit.core.scope.file_roles import MAX_COMMIT_FILES, find_mirror, select_mirrored_files

HUB_SHARE = 0.25
MIN_HUB_COMMITS = 20
"""Share of the commits that makes a file one that every change touches, in a history of at least so many commits."""
Pair: TypeAlias = tuple[str, str]
Strengths: TypeAlias = dict[Pair, float]
"""Strengths of pairs of files, the smaller name first; a pair without one is not coupled."""


class Commit(Struct, frozen=True):
    """Commit with its changed files, relative to the workspace."""

    id: str
    paths: tuple[str, ...]


class RepositoryHistory(Struct, frozen=True):
    """History of the files: commits, newest first, and the files changed under each intent."""

    commits: tuple[Commit, ...] = ()
    intents: Mapping[str, tuple[str, ...]] = {}


def find_hubs(commits: Sequence[Commit]) -> dict[str, float]:
    """Return the files changed by more than HUB_SHARE of the commits, with the share, most frequent first."""
    if len(commits) < MIN_HUB_COMMITS:
        return {}
    counts = Counter(path for commit in commits for path in set(commit.paths))
    shares = {path: count / len(commits) for path, count in counts.items() if count > HUB_SHARE * len(commits)}
    return dict(sorted(shares.items(), key=lambda item: (-item[1], item[0])))


def measure_coupling(
    files: Iterable[str],
    history: RepositoryHistory,
    imports: Mapping[str, Sequence[str]],
    weights: CouplingWeights,
) -> Strengths:
    """Return the coupling strength of file pairs: each count as a share from 0 to 1 of the events involving either
    file.

    A test or page counts as importing its mirrored file.
    """
    known = frozenset(files)
    commits = [sorted(known.intersection(c.paths)) for c in history.commits if len(c.paths) <= MAX_COMMIT_FILES]
    intents = [sorted(known.intersection(paths))[:MAX_COMMIT_FILES] for paths in history.intents.values()]
    strengths: Strengths = {}
    for weight, groups in ((weights.changes, commits), (weights.intents, intents)):
        for pair, share in _measure_groups(groups).items():
            strengths[pair] = strengths.get(pair, 0.0) + weight * share
    links = {_sort_pair(a, b) for a, targets in imports.items() if a in known for b in targets if b in known and a != b}
    for pair in sorted(links | _list_mirrors(known)):
        strengths[pair] = strengths.get(pair, 0.0) + weights.imports
    return strengths


def _measure_groups(groups: Iterable[Sequence[str]]) -> Strengths:
    """Return for each pair the weighted number of shared groups, divided by 1 plus the geometric mean of both files'
    totals.

    The added 1 prevents a maximal strength for two files changed once, together.
    """
    counts: Strengths = {}
    totals: dict[str, float] = {}
    for group in groups:
        if len(group) < 2:
            continue
        weight = 1 / (len(group) - 1)
        for path in group:
            totals[path] = totals.get(path, 0.0) + weight
        for pair in combinations(group, 2):
            counts[pair] = counts.get(pair, 0.0) + weight
    return {(a, b): count / (1 + sqrt(totals[a] * totals[b])) for (a, b), count in counts.items()}


def _list_mirrors(files: frozenset[str]) -> set[Pair]:
    by_stem: dict[str, list[str]] = {}
    for file in sorted(files):
        by_stem.setdefault(file.rpartition("/")[2].rpartition(".")[0], []).append(file)
    mirrors = ((file, mirror) for file in files if (mirror := find_mirror(file)) is not None)
    return {
        _sort_pair(file, subject)
        for file, mirror in mirrors
        for subject in select_mirrored_files(mirror, by_stem.get(mirror.name, ()))
        if subject != file
    }


def _sort_pair(a: str, b: str) -> Pair:
    return (a, b) if a < b else (b, a)

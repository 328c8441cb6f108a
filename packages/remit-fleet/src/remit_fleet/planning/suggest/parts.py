"""Parts of similar size without shared files: the cut between files, their patterns, and the changes across parts.

The same files, history and request give the same parts, byte for byte, regardless of time, chance or hashing.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from heapq import heapify, heappop, heappush
from itertools import combinations
from math import sqrt

from msgspec import Struct

from remit.core.config import CouplingWeights
from remit.core.decision import escape_pattern
from remit.core.diff.contents import sha256
from remit.core.scope.path_patterns import Scope
from remit_fleet.planning.suggest.coupling import (
    Commit,
    RepositoryHistory,
    Strengths,
    find_hubs,
    measure_coupling,
)
from remit_fleet.planning.write_sets import Proofs, WriteSet

MAX_PARTS = 64
SLACK = 1.2
"""Size of the largest part, in average parts."""
RECENT_COMMITS = 200
SEQUENCE_SHARE = 0.2
MAX_EXAMPLES = 3
HELD_OUT_SHARE = 0.2


class Straddle(Struct, frozen=True):
    """Neighbouring part changed together with this part. `share` counts the common commits among the recent commits
    that changed either part; above SEQUENCE_SHARE both parts are better run `in_sequence`.
    """

    part: int
    commits: int
    share: float
    in_sequence: bool
    examples: tuple[str, ...]


class SuggestedPart(Struct, frozen=True):
    """Proposed scope. `intent` is the intent of the part, None for a new intent."""

    intent: str | None
    paths: tuple[str, ...]
    files: int
    conflicts: tuple[Straddle, ...]


class Suggestion(Struct, frozen=True):
    """Parts, files touched by every change, and the quality of the parts measured on held-out commits.

    `held` is the share of the newest fifth of the commits inside a single part made from the older commits, `random`
    the same share for random parts of equal sizes; None without held-out commits. `is_apart` means a proof for each
    pair.
    """

    parts: tuple[SuggestedPart, ...]
    commons: Mapping[str, float]
    commits: int
    held_out: int
    held: float | None
    random: float | None
    is_apart: bool


def suggest_parts(
    wanted: Mapping[str, Sequence[str]],
    count: int,
    files: Sequence[str],
    history: RepositoryHistory,
    imports: Mapping[str, Sequence[str]],
    weights: CouplingWeights,
) -> Suggestion:
    """Cut files into parts. `wanted` holds the files of each intent, or of one nameless request.

    Several intents get a part each: a contested file goes to the intent with the strongest coupling. A single intent is
    cut into `count` parts.
    """
    hubs = find_hubs(history.commits)
    candidates = sorted({path for paths in wanted.values() for path in paths} - hubs.keys())
    count = max(1, min(count, MAX_PARTS, len(candidates)))

    def cut(past: RepositoryHistory) -> list[list[str]]:
        strengths = measure_coupling(candidates, past, imports, weights)
        if len(wanted) > 1:
            return _share_out([[path for path in paths if path not in hubs] for paths in wanted.values()], strengths)
        return _cut_files(candidates, strengths, count)

    groups = cut(history)
    part_of = {path: number for number, group in enumerate(groups) for path in group}
    patterns = _list_patterns(part_of, files, len(groups), list(hubs))
    if not _are_apart(patterns):  # each file by itself always is
        patterns = [tuple(map(escape_pattern, sorted(group))) for group in groups]
    straddles = _count_straddles(history.commits, part_of)
    names: list[str | None] = [*wanted] if len(wanted) > 1 else [None] * len(groups)
    parts = tuple(
        SuggestedPart(name, paths, len(group), tuple(straddles.get(number, ())))
        for number, (name, paths, group) in enumerate(zip(names, patterns, groups, strict=True))
    )
    held_out, held, random = _measure_held_out(history, cut)
    return Suggestion(parts, hubs, len(history.commits), held_out, held, random, _are_apart(patterns))


# --- the cut ----------------------------------------------------------------------------------------------


def _share_out(wanted: Sequence[Sequence[str]], strengths: Strengths) -> list[list[str]]:
    wishes: dict[str, list[int]] = {}
    for number, paths in enumerate(wanted):
        for path in paths:
            wishes.setdefault(path, []).append(number)
    owner = {path: numbers[0] for path, numbers in wishes.items() if len(numbers) == 1}
    sizes = Counter(owner.values())
    folders = {(number, path.rpartition("/")[0]) for path, number in owner.items()}
    near: dict[str, list[tuple[str, float]]] = {}
    for (a, b), strength in strengths.items():
        near.setdefault(a, []).append((b, strength))
        near.setdefault(b, []).append((a, strength))
    contested = [path for path in wishes if path not in owner]
    pull = {path: sum(s for other, s in near.get(path, ()) if other in owner) for path in contested}
    for path in sorted(contested, key=lambda path: (-pull[path], path)):
        scores = dict.fromkeys(wishes[path], 0.0)
        for other, strength in near.get(path, ()):
            if owner.get(other) in scores:
                scores[owner[other]] += strength
        folder = path.rpartition("/")[0]
        best = min(scores, key=lambda n: (-scores[n], (n, folder) not in folders, sizes[n], n))
        owner[path] = best
        sizes[best] += 1
        folders.add((best, folder))
    groups: list[list[str]] = [[] for _ in wanted]
    for path in sorted(owner):
        groups[owner[path]].append(path)
    return groups


def _cut_files(files: Sequence[str], strengths: Strengths, count: int) -> list[list[str]]:
    atoms = _list_atoms(files, count)
    atom_of = {path: number for number, atom in enumerate(atoms) for path in atom}
    links: list[dict[int, float]] = [{} for _ in atoms]
    for (a, b), strength in strengths.items():
        one, two = atom_of[a], atom_of[b]
        if one != two:
            links[one][two] = links[one].get(two, 0.0) + strength
            links[two][one] = links[two].get(one, 0.0) + strength
    cap = SLACK * len(files) / count
    groups = _join_atoms([len(atom) for atom in atoms], links, cap, count)
    joined = [sorted(path for number in group for path in atoms[number]) for group in groups]
    return _pack_groups(joined, cap, count)


def _list_atoms(files: Sequence[str], count: int) -> list[list[str]]:
    by_folder: dict[str, list[str]] = {}
    for path in files:
        by_folder.setdefault(path.rpartition("/")[0], []).append(path)
    folders = by_folder.values()
    return [
        atom for paths in folders for atom in ([paths] if len(paths) * count <= len(files) else [[p] for p in paths])
    ]


def _join_atoms(sizes: Sequence[int], links: list[dict[int, float]], cap: float, count: int) -> list[list[int]]:
    sizes = list(sizes)
    members = [[number] for number in range(len(sizes))]

    def rate(a: int, b: int) -> tuple[float, int, int]:
        return -links[a][b] / sqrt(sizes[a] * sizes[b]), min(a, b), max(a, b)

    heap = [rate(a, b) for a in range(len(sizes)) for b in links[a] if a < b]
    heapify(heap)
    left = len(sizes)
    while heap and left > count:
        rating, a, b = heappop(heap)
        if not members[a] or not members[b] or b not in links[a]:
            continue
        if rate(a, b)[0] > rating:  # one of them has grown since
            heappush(heap, rate(a, b))
            continue
        if sizes[a] + sizes[b] > cap:
            del links[a][b], links[b][a]
            continue
        if len(links[a]) < len(links[b]):
            a, b = b, a
        members[a] += members[b]
        sizes[a] += sizes[b]
        members[b] = []
        left -= 1
        for other, strength in links[b].items():
            del links[other][b]
            if other != a:
                links[a][other] = links[other][a] = links[a].get(other, 0.0) + strength
                heappush(heap, rate(a, other))
        links[b] = {}
    return [group for group in members if group]


def _pack_groups(groups: Sequence[Sequence[str]], cap: float, count: int) -> list[list[str]]:
    ordered = sorted(groups, key=lambda group: (-len(group), group[0]))
    parts = [list(group) for group in ordered[:count]]
    depths = [_list_folders(part) for part in parts]
    for group in ordered[count:]:
        folders = _list_folders(group)

        def rank(number: int, group: Sequence[str] = group, folders: set[str] = folders) -> tuple[bool, int, int, int]:
            depth = max((len(folder) for folder in folders & depths[number]), default=0)
            return len(parts[number]) + len(group) > cap, -depth, len(parts[number]), number

        best = min(range(len(parts)), key=rank)
        parts[best] += group
        depths[best] |= folders
    return sorted((sorted(part) for part in parts), key=lambda part: part[0])


def _list_folders(paths: Iterable[str]) -> set[str]:
    found: set[str] = set()
    for path in paths:
        folder = path.rpartition("/")[0]
        while folder and folder not in found:
            found.add(folder)
            folder = folder.rpartition("/")[0]
    return found


# --- patterns, and the proof ------------------------------------------------------------------------------


def _list_patterns(
    part_of: Mapping[str, int], files: Sequence[str], count: int, commons: Sequence[str]
) -> list[tuple[str, ...]]:
    below: dict[str, set[int | None]] = {}
    inside: dict[str, set[int | None]] = {}
    for path in {*files, *part_of}.difference(commons):
        folder, owner = path.rpartition("/")[0], part_of.get(path)
        inside.setdefault(folder, set()).add(owner)
        while owner not in below.setdefault(folder, set()):
            below[folder].add(owner)
            folder = folder.rpartition("/")[0]
    patterns: list[dict[str, None]] = [{} for _ in range(count)]
    for path in sorted(part_of):
        number, folder = part_of[path], path.rpartition("/")[0]
        only = {number}
        taken = f"{_name_folder(folder)}*" if inside[folder] == only else escape_pattern(path)
        while folder and below[folder] == only:
            taken = f"{_name_folder(folder)}**"
            folder = folder.rpartition("/")[0]
        patterns[number][taken] = None
    for own in patterns:
        own |= dict.fromkeys(f"!{escape_pattern(path)}" for path in commons if Scope(tuple(own)).matches(path))
    return [tuple(own) for own in patterns]


def _name_folder(folder: str) -> str:
    return f"{escape_pattern(folder)}/" if folder else ""


def _are_apart(patterns: Sequence[tuple[str, ...]]) -> bool:
    sets = [WriteSet(str(number), paths) for number, paths in enumerate(patterns)]
    return next(Proofs().find_shared(sets), None) is None


# --- how well parts hold ----------------------------------------------------------------------------------


def _count_straddles(commits: Sequence[Commit], part_of: Mapping[str, int]) -> dict[int, list[Straddle]]:
    touched = [(c.id, sorted({part_of[p] for p in c.paths if p in part_of})) for c in commits[:RECENT_COMMITS]]
    alone = Counter(part for _, parts in touched for part in parts)
    both: dict[tuple[int, int], list[str]] = {}
    for commit, parts in touched:
        for pair in combinations(parts, 2):
            both.setdefault(pair, []).append(commit)
    found: dict[int, list[Straddle]] = {}
    for (a, b), ids in sorted(both.items(), key=lambda item: (-len(item[1]), item[0])):
        share = len(ids) / (alone[a] + alone[b] - len(ids))
        for one, other in ((a, b), (b, a)):
            straddle = Straddle(other, len(ids), round(share, 3), share > SEQUENCE_SHARE, tuple(ids[:MAX_EXAMPLES]))
            found.setdefault(one, []).append(straddle)
    return found


def _measure_held_out(
    history: RepositoryHistory, cut: Callable[[RepositoryHistory], list[list[str]]]
) -> tuple[int, float | None, float | None]:
    newest = int(len(history.commits) * HELD_OUT_SHARE)
    if newest == 0:
        return 0, None, None
    groups = cut(RepositoryHistory(history.commits[newest:], history.intents))
    known = {path: number for number, group in enumerate(groups) for path in group}
    shuffled = sorted(known, key=lambda path: sha256(path.encode("utf-8", "surrogatepass")))
    sizes = [number for number, group in enumerate(groups) for _ in group]
    chance = dict(zip(shuffled, sizes, strict=True))
    tried = [paths for c in history.commits[:newest] if len(paths := [p for p in c.paths if p in known]) > 1]
    if not tried:
        return 0, None, None

    def measure(part_of: Mapping[str, int]) -> float:
        return round(sum(len({part_of[path] for path in paths}) == 1 for paths in tried) / len(tried), 3)

    return len(tried), measure(known), measure(chance)

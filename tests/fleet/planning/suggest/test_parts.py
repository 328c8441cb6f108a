"""Parts: a cut of the files, by what belongs together, with a proof for each pair."""

from collections.abc import Mapping, Sequence

from hypothesis import given
from hypothesis import strategies as st

from remit.core.config import CouplingWeights
from remit.core.scope.path_patterns import Scope
from remit_fleet.planning.suggest.coupling import (
    Commit,
    RepositoryHistory,
    find_hubs,
    measure_coupling,
)
from remit_fleet.planning.suggest.parts import Suggestion, suggest_parts
from remit_fleet.planning.write_sets import Proofs, WriteSet

WEIGHTS = CouplingWeights()
NO_HISTORY = RepositoryHistory()


def history(*commits: Sequence[str]) -> RepositoryHistory:
    return RepositoryHistory(tuple(Commit(f"c{n}", tuple(paths)) for n, paths in enumerate(commits)))


def suggest(
    wanted: Mapping[str, Sequence[str]],
    count: int = 2,
    files: Sequence[str] | None = None,
    past: RepositoryHistory = NO_HISTORY,
    imports: Mapping[str, Sequence[str]] | None = None,
) -> Suggestion:
    every = sorted({path for paths in wanted.values() for path in paths}) if files is None else files
    return suggest_parts(wanted, count, every, past, imports or {}, WEIGHTS)


def test_what_changes_together_stays_together() -> None:
    files = [f"src/{name}.py" for name in "abcdefgh"]
    past = history(*[("src/a.py", "src/c.py", "src/e.py", "src/g.py")] * 3, *[files[1::2]] * 3)
    made = suggest({"": files}, 2, past=past)
    assert [part.paths for part in made.parts] == [
        tuple(f"src/{name}.py" for name in "aceg"),
        tuple(f"src/{name}.py" for name in "bdfh"),
    ]
    assert made.is_apart
    assert all(part.conflicts == () for part in made.parts)


def test_imports_and_intents_and_mirrors_count_too() -> None:
    files = ["a/one.py", "b/two.py", "c/three.py", "tests/a/test_one.py"]
    past = RepositoryHistory(intents={"INT-001": ("b/two.py", "c/three.py")})
    strengths = measure_coupling(files, past, {"c/three.py": ("a/one.py",)}, WEIGHTS)
    assert strengths == {
        ("b/two.py", "c/three.py"): WEIGHTS.intents / 2,
        ("a/one.py", "c/three.py"): WEIGHTS.imports,
        ("a/one.py", "tests/a/test_one.py"): WEIGHTS.imports,
    }


def test_a_large_commit_says_nothing_and_a_small_one_most() -> None:
    files = [f"{n}.py" for n in range(40)]
    assert measure_coupling(files, history(files), {}, WEIGHTS) == {}
    strengths = measure_coupling(files, history(files[:2], files[1:5]), {}, WEIGHTS)
    assert max(strengths, key=lambda pair: strengths[pair]) == ("0.py", "1.py")


def test_files_of_every_change_are_commons_and_in_no_part() -> None:
    past = history(*[("CHANGES.md", f"src/{n % 4}.py") for n in range(40)])
    assert find_hubs(past.commits) == {"CHANGES.md": 1.0}
    files = ["CHANGES.md", *(f"src/{n}.py" for n in range(4))]
    made = suggest({"": files}, 2, past=past)
    assert made.commons == {"CHANGES.md": 1.0}
    assert not any(Scope(part.paths).matches("CHANGES.md") for part in made.parts)


def test_each_of_several_intents_gets_what_it_alone_wants_and_contested_files_go_where_they_belong() -> None:
    wanted = {
        "INT-001": ["src/a/x.py", "src/a/y.py", "src/shared.py"],
        "INT-002": ["src/b/x.py", "src/shared.py", "src/a/y.py"],
    }
    past = history(*[("src/b/x.py", "src/shared.py")] * 3, ("src/a/x.py", "src/a/y.py"))
    made = suggest(wanted, past=past)
    assert [(part.intent, part.files) for part in made.parts] == [("INT-001", 2), ("INT-002", 2)]
    assert Scope(made.parts[0].paths).matches("src/a/y.py")
    assert Scope(made.parts[1].paths).matches("src/shared.py")


def test_a_folder_with_files_that_nobody_asked_for_is_not_taken_whole() -> None:
    made = suggest({"": ["src/a.py", "lib/b.py"]}, 2, files=["lib/b.py", "src/a.py", "src/z.py"])
    assert sorted(part.paths for part in made.parts) == [("lib/**",), ("src/a.py",)]


def test_straddling_commits_are_counted_with_examples_and_advice() -> None:
    files = ["a/1.py", "a/2.py", "b/1.py", "b/2.py"]
    past = history(("a/1.py", "b/1.py"), *[("a/1.py", "a/2.py"), ("b/1.py", "b/2.py")] * 4)
    made = suggest({"": files}, 2, past=past)
    (straddle,) = made.parts[0].conflicts
    assert (straddle.part, straddle.commits, straddle.examples, straddle.in_sequence) == (1, 1, ("c0",), False)
    often = history(*[("a/1.py", "b/1.py")] * 2, *[("a/1.py", "a/2.py"), ("b/1.py", "b/2.py")] * 3)
    assert suggest({"": files}, 2, past=often).parts[0].conflicts[0].in_sequence


def test_parts_are_measured_by_commits_that_they_were_not_made_from() -> None:
    files = [f"{room}/{n}.py" for room in "abcd" for n in range(5)]
    rooms = [[path for path in files if path.startswith(room)] for room in "abcd"]
    past = history(*[room[n % 3 : n % 3 + 3] for n in range(30) for room in rooms])
    made = suggest({"": files}, 4, past=past)
    assert (made.held, made.held_out) == (1.0, 24)
    assert made.random is not None
    assert made.random < 0.5
    assert suggest({"": files}, 4).held is None


def test_no_more_parts_than_files() -> None:
    assert len(suggest({"": ["a.py"]}, 5).parts) == 1


NAMES = st.lists(st.sampled_from(["a", "b", "ab", "x.py", "[", "*", "!c", "é", "{q}", "A"]), min_size=1, max_size=3)
FILES = st.lists(NAMES.map("/".join), min_size=1, max_size=12, unique=True).map(sorted)


@given(FILES, st.integers(1, 5), st.data())
def test_parts_hold_each_file_once_are_apart_and_are_the_same_again(
    files: list[str], count: int, data: st.DataObject
) -> None:
    groups = data.draw(st.lists(st.lists(st.sampled_from(files), max_size=4), max_size=8))
    past = history(*groups)
    made = suggest({"": files}, count, past=past)
    assert made == suggest({"": files}, count, past=past)
    holders = [[Scope(part.paths).matches(path) for part in made.parts] for path in files]
    is_usable = [Scope(("**",)).matches(path) for path in files]
    clashing = any(a != b and b.startswith(f"{a}/") for a in files for b in files)  # no tree has both
    if made.is_apart and not clashing:
        assert [sum(row) for row in holders] == [int(usable) for usable in is_usable]
    assert made.is_apart or clashing
    sets = [WriteSet(str(n), part.paths) for n, part in enumerate(made.parts)]
    assert made.is_apart == (list(Proofs().find_shared(sets)) == [])

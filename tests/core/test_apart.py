"""Proofs that scopes share no path, against brute force, against the law, and in a table of facts."""

import random
from itertools import combinations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from core.random_scopes import FOLDING_ALPHABET, FULL_ALPHABET, list_paths, make_scope, select_matches
from remit.core.scope.apart import Apart, Shared, Unproved, decide_all_apart, decide_apart
from remit.core.scope.path_patterns import Scope, fold_case

LINE = st.text(alphabet="ab*?/.!{},[]-^A", min_size=1, max_size=8)
LINES = st.lists(LINE, min_size=1, max_size=3).map(tuple)


def decide(a: list[str] | tuple[str, ...], b: list[str] | tuple[str, ...], *, fold: bool = False) -> object:
    """A shared path as its text, a proof as None, anything else as it is."""
    answer = decide_apart(Scope(tuple(a)), Scope(tuple(b)), fold=fold)
    return answer.path if isinstance(answer, Shared) else None if isinstance(answer, Apart) else answer


@pytest.mark.parametrize(
    ("a", "b", "expected"),
    [
        (["src/**"], ["src/auth/*.py"], "src/auth/x.py"),
        (["src/**"], ["tests/**"], None),
        (["**/*.py"], ["src/**"], "src/x.py"),
        (["src/auth"], ["src"], "src/auth"),
        (["src/*.py"], ["src/*.ts"], None),
        (["src/*"], ["src/*/*"], None),
        (["src/{a,b}/**"], ["src/{b,c}/**"], "src/b/x"),
        (["**/test_*.py"], ["tests/**"], "tests/test_x.py"),
        (["**/test_*.py"], ["**/*_test.py"], "test_test.py"),
        (["[!a]?c"], ["[a-c]b?"], "bbc"),
        (["[!a]*"], ["a*"], None),
        (["."], ["docs/*.md"], "docs/x.md"),
        (["a*"], ["*a"], "a"),
        (["src/a*.py"], ["src/a.py"], "src/a.py"),
        (["src/**", "!src/auth/**"], ["src/auth/**"], None),
        (["src/**", "!src/auth/**"], ["src/**"], "src/x"),
        (["src/**", "!src/*"], ["src/**"], "src/x/x"),
        (["**", "!src/**", "src/keep/**"], ["src/**"], "src/keep/x"),
        (["**", "!x*", "!x*/**"], ["**"], "y"),
        (["**", "!**/*.py"], ["src/*.py"], None),
        (["src/**", "!/absolute"], ["src/**"], None),
        ([".git/**"], ["**"], None),
        (["src/[a"], ["**"], None),
        ([], ["**"], None),
        # one odd path: what is left of a class, of a length, or of a folder
        (["**", "!**/*[!%]*"], ["**", "!%", "!%%"], "x/%"),
        (["[a-y]"], ["[y-z]"], "y"),
        (["???"], ["a*b*c*", "!abc/**"], "abc"),
        ([".gi?/**"], [".g*/**"], ".gix/x"),
        (["[.]git*"], [".git?"], ".gitx"),
        (["x/.git"], ["x/*"], None),
        (["x/.g[Ii]t"], ["x/*", "!x/.GIT"], None),
        (["a/.orchestration/**"], ["**"], None),
        (["\u00e9*"], ["*\u00e9"], "\u00e9"),
        (["[\x01-\x1f]"], ["?", "![\x02-\U0010ffff]"], "\x01"),
    ],
)
def test_two_scopes_are_apart_or_share_a_shortest_path(a: list[str], b: list[str], expected: str | None) -> None:
    assert decide(a, b) == expected
    assert (decide(b, a) is None) is (expected is None)


@pytest.mark.parametrize(
    ("a", "b", "expected"),
    [
        (["SRC/**"], ["src/*.py"], "src/x.py"),
        (["src/**", "!SRC/gen/**"], ["Src/Gen/**"], None),
        (["[!a]*"], ["a*"], "A"),
        (["[A-C]*"], ["b"], "b"),
        (["stra\u00dfe/*"], ["STRASSE/x"], "strasse/x"),
        (["stra?e"], ["strasse"], "strasse"),
        (["caf?"], ["cafe\u0301"], "caf\u00e9"),
        (["?"], ["e?"], "e\u0301"),
        (["docs/\u212a*"], ["docs/k"], "docs/k"),
        (["x/.GIT/**"], ["X/**"], None),
        (["x/.orche\ufb06ration/**"], ["x/**"], None),
        (["src/*.py"], ["SRC/*.ts"], None),
    ],
)
def test_on_a_file_system_that_ignores_case_names_fold(a: list[str], b: list[str], expected: str | None) -> None:
    answer = decide_apart(Scope(tuple(a)), Scope(tuple(b)), fold=True)
    if expected is None:
        assert answer == Apart()
        return
    assert isinstance(answer, Shared)
    assert fold_case(answer.path) == fold_case(expected)
    assert Scope(tuple(a)).matches(answer.path, fold=True)
    assert Scope(tuple(b)).matches(answer.other or answer.path, fold=True)


def test_what_folding_does_not_cover_is_unproved() -> None:
    answer = decide_apart(Scope(("[\u0400-\u04ff]a.py",)), Scope(("[\u0430-\u044f]b*.py",)), fold=True)
    assert isinstance(answer, Unproved)
    assert "beyond ASCII" in answer.why


@pytest.mark.parametrize("fold", [False, True])
@pytest.mark.parametrize("seed", range(3))
def test_brute_force_over_short_paths_agrees(seed: int, fold: bool) -> None:
    draw = random.Random(seed)
    scopes = [make_scope(draw) for _ in range(40)]
    paths = list_paths(FOLDING_ALPHABET if fold else FULL_ALPHABET, 4)
    matches = [select_matches(scope, paths, fold=fold) for scope in scopes]
    for a, in_a in zip(scopes, matches, strict=True):
        for b, in_b in zip(scopes[:20], matches[:20], strict=True):
            answer = decide_apart(a, b, fold=fold)
            assert not isinstance(answer, Unproved), (a, b)
            if isinstance(answer, Apart):
                assert not in_a & in_b, (a, b)
                continue
            assert a.matches(answer.path, fold=fold), (a, b, answer)
            assert b.matches(answer.other or answer.path, fold=fold), (a, b, answer)


@settings(max_examples=400)
@given(LINES, LINES, st.booleans())
def test_a_shared_path_is_in_both_and_the_order_does_not_matter(
    a: tuple[str, ...], b: tuple[str, ...], fold: bool
) -> None:
    one, two = Scope(a), Scope(b)
    there, back = decide_apart(one, two, fold=fold), decide_apart(two, one, fold=fold)
    assert type(there) is type(back)
    if isinstance(there, Shared):
        assert one.matches(there.path, fold=fold)
        assert two.matches(there.other or there.path, fold=fold)


@settings(max_examples=400)
@given(LINES, LINES, st.text(alphabet="ab.A/", min_size=1, max_size=6))
def test_no_proof_stands_against_a_path_that_both_match(a: tuple[str, ...], b: tuple[str, ...], path: str) -> None:
    for fold in (False, True):
        if Scope(a).matches(path, fold=fold) and Scope(b).matches(path, fold=fold):
            assert decide_apart(Scope(a), Scope(b), fold=fold) != Apart()


def test_what_folds_together_is_never_less_shared_than_what_is_spelled_alike() -> None:
    draw = random.Random(7)
    for _ in range(300):
        a, b = make_scope(draw), make_scope(draw)
        if isinstance(decide_apart(a, b, fold=True), Apart) and not any(
            line.startswith("!") for line in a.patterns + b.patterns
        ):
            assert decide_apart(a, b) == Apart()


def test_hostile_scopes_end_unproved_and_are_never_called_apart_for_want_of_time() -> None:
    a = Scope(("**/*a" * 200 + "/q", "*a" * 500))
    b = Scope(("**/*a" * 200 + "c", "*b*a" * 250 + "c", "*[ab]" * 100))
    assert isinstance(decide_apart(a, b), Unproved)
    assert isinstance(decide_apart(Scope(("*a*b*c?",)), Scope(("*c*b*d?",)), max_steps=20), Unproved)


def test_patterns_that_begin_or_end_differently_are_apart_without_a_search() -> None:
    for a, b in [("*a*b*c", "*c*b*d"), ("src/ab*", "src/ba*"), ("src/**/*_x.sql", "src/**/*_y.sql"), ("*.py", "*.pyi")]:
        assert decide_apart(Scope((a,)), Scope((b,)), max_steps=0) == Apart()
        assert decide_apart(Scope((a,)), Scope((b.upper(),)), fold=True, max_steps=0) == Apart()
    assert decide_apart(Scope(("*_A.sql",)), Scope(("db/*a.SQL", "*a.SQL")), fold=True) != Apart()


def test_of_several_scopes_a_side_is_what_they_have_in_common() -> None:
    tests = Scope(("tests/**", "**/test_*.py"))
    one, two = Scope(("src/**", "tests/a/**")), Scope(("src/**", "tests/b/**"))
    assert decide_apart(one, two) == Shared("src/x")
    assert decide_all_apart((one, tests), (two, tests)) == Shared("src/test_x.py")
    assert decide_all_apart((one, Scope(("tests/**",))), (two, tests)) == Apart()


ODD_NAMES = [
    *("a", "s", "\u00df", "ss", "S?", "??", "*", "e*", "\u00e9", "[!s]", "[!e]?", "k", "\u212a*", "\ufb00", "f?", "**"),
    *("[!S]*", "*s", "\u017f*", "SS", "[[:lower:]]?", "e?"),
]


@pytest.mark.parametrize("seed", range(2))
def test_what_folds_by_more_than_case_is_never_called_apart(seed: int) -> None:
    draw = random.Random(seed)
    paths = list_paths("aesS\u00df\u00e9\u0301Kk\u212af\ufb00/E", 3)
    scopes: list[Scope] = []
    for _ in range(24):
        lines = ["/".join(draw.choices(ODD_NAMES, k=draw.choice([1, 1, 2]))) for _ in range(draw.choice([1, 1, 2]))]
        scopes.append(Scope((lines[0], *(f"!{line}" if draw.random() < 0.4 else line for line in lines[1:]))))
    matches = [select_matches(scope, paths, fold=True) for scope in scopes]
    for (a, in_a), (b, in_b) in combinations(zip(scopes, matches, strict=True), 2):
        if in_a & in_b:
            assert decide_apart(a, b, fold=True) != Apart(), (a, b)

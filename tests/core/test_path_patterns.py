"""Patterns against git's own answers, scopes against a table, and what must hold for any of them."""

import json
import random
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from conftest import run_git
from remit.core.scope.path_patterns import (
    MAX_EXPANDED,
    MAX_EXPANSIONS,
    MAX_LENGTH,
    MAX_SETS,
    GlobError,
    Scope,
    compile_globs,
    expand_braces,
    glob_error,
    is_absolute_pattern,
    parse_glob,
)

TESTS = Path(__file__).parent.parent


def rows(table: Path) -> Iterator[list[str]]:
    """The rows of a table, without its comments and its heading."""
    lines = [line for line in table.read_text().splitlines() if not line.startswith("# ")]
    return (line.split("\t") for line in lines[1:])


# --- git's answers -----------------------------------------------------------------------------------------

WILDMATCH = list(rows(TESTS / "compat" / "wildmatch.tsv"))
"""The first column is git's answer with WM_PATHNAME, as scopes match; the others ignore case, or folders."""


def wildmatch(pattern: str, text: str) -> bool:
    """Whether one pattern without braces matches, as git's wildmatch does; a malformed one matches nothing."""
    try:
        return compile_globs([parse_glob(pattern)]).fullmatch(text) is not None
    except GlobError:
        return False


def test_patterns_match_as_gits_own_suite_expects() -> None:
    assert [row for row in WILDMATCH if wildmatch(json.loads(row[5]), json.loads(row[4])) != (row[0] == "1")] == []


def test_the_table_is_the_whole_suite() -> None:
    assert len(WILDMATCH) == 190
    assert {cell for row in WILDMATCH for cell in row[:4]} == {"0", "1"}


PIECES = [
    *"aabbAB1.-_ ]!^[{,\\",
    *["*", "*", "*", "**", "***", "**/", "/**/", "/*/", "/", "/", "?", "\\/", "\\a", "\\A", "\\*"],
    *["[ab]", "[!a]", "[^A-Z]", "[a-", "[[:", "[:upper:]", "[[:alpha:]]", "[[:digit:]b]", "[[:space:]]"],
    *["[[:punct:]]", "[[:nope:]]", "[--A]", "[]a]", "[a-\\]]", "[\\A-b]", "[B-a]", "[b-a]", "[A]", "[/]"],
    *["[!/]", "[.-0]"],
]
CLASSES = [
    *["alnum", "alpha", "blank", "cntrl", "digit", "graph", "lower", "print", "punct", "space", "upper"],
    "xdigit",
]
# No pattern ends in a slash: in an attributes file that asks for a folder, which wildmatch knows nothing of.
ENDINGS = ["*", "a", "?", "[a-z]", "**", "b"]


def a_pattern(draw: random.Random) -> str:
    return "".join(draw.choices(PIECES, k=draw.randint(0, 8))) + draw.choice(ENDINGS)


def a_path(draw: random.Random) -> str:
    text = "".join(draw.choices([*"aaabbABz1.-_ ]![\\\x0b\t*", *"//////"], k=draw.randint(1, 10)))
    return "/".join(name for name in text.split("/") if name not in ("", ".", "..")) or "a"


def c_quoted(text: str) -> str:
    return '"' + "".join(f"\\{ord(char):03o}" for char in text) + '"'


@pytest.mark.parametrize("seed", [1, 2])
def test_patterns_match_as_git_does(tmp_path: Path, seed: int) -> None:
    """Each pattern gives paths an attribute of its own, so that one process answers for all.

    The folder `[r]/` before each keeps git from comparing a literal beginning by itself: what it hands to
    wildmatch would then be another pattern.
    """
    draw = random.Random(seed)
    patterns = [f"[r]/{a_pattern(draw)}" for _ in range(400)] + [f"[r]/a[[:{name}:]]" for name in CLASSES]
    each_character = {f"r/a{chr(code)}" for code in range(1, 128) if chr(code) != "/"}
    paths = sorted(each_character | {f"r/{a_path(draw)}" for _ in range(200)})
    run_git(tmp_path, "init", "-q")
    (tmp_path / ".gitattributes").write_text(
        "".join(f"{c_quoted(pattern)} p{index}\n" for index, pattern in enumerate(patterns))
    )
    command = ["git", "-C", str(tmp_path), "-c", "core.ignorecase=false", "check-attr", "-z", "--stdin", "--all"]
    asked = "".join(f"{path}\0" for path in paths).encode()
    done = subprocess.run(command, input=asked, check=True, capture_output=True)
    assert done.stderr == b""
    cells = done.stdout.decode().split("\0")
    gits = {(path, patterns[int(name[1:])]) for path, name in zip(cells[::3], cells[1::3], strict=False)}
    ours = {(t, p) for p in patterns for t in paths if wildmatch(p, t)}
    assert ours == gits
    assert len(gits) > 300


def test_a_newline_is_a_character_like_any_other() -> None:
    assert wildmatch("a?b", "a\nb")
    assert wildmatch("a*", "a\n/b") is False
    assert wildmatch("**", "a\n/\nb")
    assert wildmatch("a", "a\n") is False


HOSTILE = [
    "a*" * 512,
    "*a" * 500 + "b",
    "*?" * 500 + "b",
    "*" + "?" * 1000 + "b",
    "**/a/" * 200 + "b",
    "**/*a*/" * 140 + "b",
    "**/" * 340 + "b",
    "**/" + "*a/" * 300 + "b",
    "*[a-z]" * 160 + "B",
    "*[!b]" * 200 + "b",
    "a/**/" * 200 + "*a*a*a*a*b",
]


def best_time(call: Callable[[], object]) -> float:
    times: list[float] = []
    for _ in range(5):
        started = time.thread_time()
        call()
        times.append(time.thread_time() - started)
    return min(times)


@pytest.mark.parametrize("name", ["a", "a/", "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa/"])
@pytest.mark.parametrize("pattern", HOSTILE, ids=lambda pattern: pattern[:12])
def test_a_hostile_pattern_costs_at_most_the_square_of_the_path(pattern: str, name: str) -> None:
    assert len(pattern) <= MAX_LENGTH
    short, long = (name * (size // len(name)) + "c" for size in (2048, 8192))
    regex = compile_globs([parse_glob(pattern)])
    floor = 0.0001
    once = max(floor, best_time(lambda: regex.fullmatch(short)))
    assert best_time(lambda: regex.fullmatch(long)) < once * 4**2 * 3


# --- braces ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("pattern", "expected"),
    [
        ("src", ["src"]),
        ("{a,b}", ["a", "b"]),
        ("x{a,b}y{c,d}", ["xayc", "xayd", "xbyc", "xbyd"]),
        ("a{b,c{d,e}}f", ["abf", "acdf", "acef"]),
        ("{a,b,}", ["a", "b", ""]),
        ("{a}", ["{a}"]),
        ("{}", ["{}"]),
        ("{a{b,c}}", ["{ab}", "{ac}"]),
        ("a,b", ["a,b"]),
        ("\\{a,b\\}", ["\\{a,b\\}"]),
        ("{a\\,b}", ["{a\\,b}"]),
        ("{a\\,b,c}", ["a\\,b", "c"]),
        ("[{,}]", ["[{,}]"]),
        ("{[,],b}", ["[,]", "b"]),
        ("{1..3}", ["{1..3}"]),
    ],
)
def test_braces_expand_as_in_a_shell(pattern: str, expected: list[str]) -> None:
    assert list(expand_braces(pattern)) == expected


@pytest.mark.parametrize("pattern", ["{a,b", "a}", "{a,{b,c}", "}{", "{" * 1000, "{a,b}" * 9, "x" * 1025])
def test_braces_that_do_not_pair_or_explode_are_refused(pattern: str) -> None:
    with pytest.raises(GlobError) as caught:
        expand_braces(pattern)
    assert caught.value.why
    assert caught.value.why in str(caught.value)


def test_the_limits_are_reached_and_not_passed() -> None:
    assert len(expand_braces("{a,b}" * 8)) == MAX_EXPANSIONS
    assert sum(map(len, expand_braces("{a,b}" * 8 + "x" * 56))) == MAX_EXPANDED
    assert glob_error("{a,b}" * 8 + "x" * 57)
    assert glob_error("{a,b}" * 6 + "[a-z]" * 4) is None
    assert glob_error("{a,b}" * 6 + "[a-z]" * 5) == f"it has more than {MAX_SETS} sets in [...]"
    assert glob_error("x" * MAX_LENGTH) is None


# --- what a scope may say ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("pattern", "word"),
    [
        ("", "empty"),
        ("!", "nothing follows"),
        ("a\0b", "NUL"),
        ("src/[a", "[ is never closed"),
        ("src/[", "[ is never closed"),
        ("src/[[:digits:]]", "no character class 'digits'"),
        ("src/{a,b", "{ is never closed"),
        ("src/a,b}", "} was never opened"),
        ("x" * 1025, "longer"),
        ("{a,b}" * 9, "more than 256"),
        ("..", ".."),
        ("../src/**", ".."),
        ("src/../db", ".."),
        ("src/{a,..}/b", ".."),
        ("!src/..", ".."),
        ("src\\", "backslash"),
        ("{,src}", "alternatives is empty"),
    ],
)
def test_what_is_no_pattern_is_told_why(pattern: str, word: str) -> None:
    why = glob_error(pattern)
    assert why is not None
    assert word in why


@pytest.mark.parametrize(
    "pattern", ["src/**", "!src", ".", "./src", "a..b", "...", "[]]", "{a}", "/etc", "C:\\x", "~", "\\!a", "!!a"]
)
def test_what_is_a_pattern_passes(pattern: str) -> None:
    assert glob_error(pattern) is None


@pytest.mark.parametrize(
    ("pattern", "expected"),
    [
        ("/etc/**", True),
        ("!/etc/**", True),
        ("~", True),
        ("~/src", True),
        ("C:", True),
        ("c:/src", True),
        ("C:\\src", True),
        ("{src,/etc}/**", True),
        ("{src,}/**", True),
        ("/{a", True),
        ("src/**", False),
        ("./src", False),
        ("a:b", False),
        ("src/~", False),
        ("", False),
        ("{a", False),
    ],
)
def test_an_absolute_pattern_is_known(pattern: str, expected: bool) -> None:
    assert is_absolute_pattern(pattern) is expected


# --- scopes ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("expected", "fold", "patterns", "path"), list(rows(TESTS / "core" / "scopes.tsv")))
def test_a_scope_holds_what_the_table_says(expected: str, fold: str, patterns: str, path: str) -> None:
    scope = Scope(tuple(json.loads(patterns)))
    assert scope.matches(json.loads(path), fold=fold == "fold") is (expected == "yes")


def test_a_scope_answers_in_microseconds() -> None:
    """As a ratio, so that a slow machine passes too: to two string operations on the same path."""
    scope = Scope(("src/auth/**", "tests/auth/**", "!src/auth/legacy/**"))
    names = [f"src/auth/deep/er/file{number}.py" for number in range(1000)]
    known = frozenset({"src"})
    matching = best_time(lambda: [scope.matches(name) for name in names])
    looking = best_time(lambda: [name.replace("/", "\\").casefold() in known for name in names])
    assert matching < looking * 40


alphabet = st.sampled_from([*PIECES, *"{},/!~", "src", "auth/", ".git", ".orchestration", "é", "ß", "\n", "\0", ".."])
any_pattern = st.lists(alphabet, max_size=8).map("".join) | st.text(max_size=12)
good_pattern = st.lists(
    st.sampled_from(["a", "b", "*", "?", "**/", "/", "/**", "[ab]", "{a,b}", "src", ".py"]), min_size=1, max_size=5
).map("".join)
any_line = any_pattern | any_pattern.map("!{}".format) | good_pattern | good_pattern.map("!{}".format)
any_lines = st.lists(any_line, max_size=5).map(tuple)
good_lines = st.lists(good_pattern | good_pattern.map("!{}".format), max_size=5).map(tuple)
name = st.sampled_from(["a", "b", "ab", "src", "auth", "x.py", ".py", "A", "É", "c\nd"])
a_name = name | st.text(min_size=1, max_size=3).map(lambda text: text.replace("/", "_"))
any_path = st.lists(a_name, min_size=1, max_size=5).map("/".join)
law = settings(deadline=None, max_examples=200)


@law
@given(any_lines, st.text() | any_path, st.booleans())
def test_a_scope_answers_for_any_text(lines: tuple[str, ...], path: str, fold: bool) -> None:
    assert Scope(lines).matches(path, fold=fold) in (True, False)


@law
@given(any_pattern, st.text() | any_path)
def test_a_pattern_answers_for_any_text(pattern: str, text: str) -> None:
    assert wildmatch(pattern, text) in (True, False)


@law
@given(any_line)
def test_what_passes_as_a_pattern_expands(line: str) -> None:
    if glob_error(line) is None:
        assert all(expand_braces(line.removeprefix("!")))


@law
@given(
    any_lines,
    st.lists(a_name, max_size=3),
    st.sampled_from([".git", ".GIT", ".Git", ".orchestration", ".ORCHESTRATION", ".orcheſtration", "..", "."]),
    st.lists(a_name, max_size=3),
    st.booleans(),
)
def test_nothing_in_gits_or_remits_own_folder_is_in_any_scope(
    lines: tuple[str, ...], before: list[str], own: str, after: list[str], fold: bool
) -> None:
    path = "/".join([*before, own, *after])
    assert not Scope((*lines, "**", path)).matches(path, fold=fold)


@law
@given(good_lines | any_lines, any_pattern | good_pattern, st.integers(0, 5), any_path, st.booleans())
def test_an_exclusion_never_makes_more_match(
    lines: tuple[str, ...], excluded: str, at: int, path: str, fold: bool
) -> None:
    less = Scope((*lines[:at], "!" + excluded, *lines[at:]))
    assert less.matches(path, fold=fold) <= Scope(lines).matches(path, fold=fold)


@law
@given(good_lines, good_pattern, good_pattern, st.sampled_from(["", "!"]), any_path, st.booleans())
def test_the_order_of_two_neighbours_of_one_kind_does_not_matter(
    lines: tuple[str, ...], one: str, other: str, mark: str, path: str, fold: bool
) -> None:
    these = Scope((*lines, mark + one, mark + other, *lines))
    those = Scope((*lines, mark + other, mark + one, *lines))
    assert these.matches(path, fold=fold) == those.matches(path, fold=fold)


@law
@given(any_path)
def test_a_path_spelled_out_matches_itself_and_what_is_below(path: str) -> None:
    assume("\0" not in path and not {".", ".."} & set(path.split("/")))
    spelled = "".join("/" if char == "/" else "\\" + char for char in path)
    scope = Scope((spelled,))
    assert scope.matches(path) is Scope(("**",)).matches(path)
    assert scope.matches(path + "/x") is scope.matches(path)
    assert not scope.matches(path + "x")

"""What a scope would own: the same files as the scope itself says, whatever the pattern."""

from hypothesis import given
from hypothesis import strategies as st

from remit.core.intent import Intent
from remit.core.scope.path_patterns import Scope, glob_error
from remit.gate.intents.owned_files import match_files
from remit.gate.intents.person_edits import MAX_COUNTED_PATTERNS, preview_scope

FILES = [
    "README.md",
    "src/app.py",
    "src/auth/a.py",
    "src/auth/b{c}.py",
    "docs/a/b.md",
    "docs",
    "a[b].txt",
    ".git/x",
    "é/ü",
]
PARTS = st.sampled_from(
    ["src", "docs", "auth", "**", "*", "*.py", "a?b", "README.md", "[a]*", "{src,docs}", "\\[a]", ".", "é", "a[b].txt"]
)
PATTERNS = st.lists(
    st.tuples(st.sampled_from(["", "", "!", "./"]), st.lists(PARTS, min_size=1, max_size=3)).map(
        lambda pair: pair[0] + "/".join(pair[1])
    ),
    max_size=4,
)


@given(PATTERNS)
def test_the_files_of_a_scope_are_those_that_it_matches(patterns: list[str]) -> None:
    usable = [pattern for pattern in patterns if not glob_error(pattern)]
    assert match_files(usable, FILES) == list(filter(Scope(tuple(usable)).matches, FILES))


def test_a_preview_compares_with_the_present_scope_and_names_other_owners() -> None:
    own = Intent("INT-001", ("src/**",), status="IN_PROGRESS")
    other = Intent("INT-002", ("docs/**",), status="IN_PROGRESS")
    found = preview_scope(
        ["docs/**", "!docs/a/**", "src/auth/**", "/x", "["],
        FILES,
        intents=(own, other),
        intent=own,
        touched=["src/app.py", "src/auth/a.py"],
    )
    assert (found.files, found.added, found.removed) == (2, [], ["src/app.py"])
    assert (found.touched, found.left_out) == (1, ["src/app.py"])
    assert found.owners == {}
    assert [bool(each.problem) for each in found.patterns] == [False, False, False, True, True]
    assert preview_scope(["docs/**"], FILES, intents=(own, other), intent=own).owners == {"INT-002": 1}


def test_a_scope_of_a_thousand_patterns_counts_the_first_ones() -> None:
    found = preview_scope([f"d{n}/**" for n in range(1000)], FILES)
    assert [each.files is None for each in found.patterns] == [n >= MAX_COUNTED_PATTERNS for n in range(1000)]

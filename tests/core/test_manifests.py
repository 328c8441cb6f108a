"""Ranges of versions as manifests write them, and whether one lies in another."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from remit.core.code.manifests import ALL_VERSIONS, Dialect, InvalidRange, parse_range

WITHIN: list[tuple[Dialect, str, str, bool]] = [
    ("python", ">=2.31,<3", ">=2", True),
    ("python", ">=2", ">=2.31", False),
    ("python", "==2.0", ">=2", True),
    ("python", "==2.*", ">=2,<3", True),
    ("python", "~=1.4.2", ">=1.4,<1.5", True),
    ("python", "~=1.4", "<2", True),
    ("python", "!=1.5,>=1,<2", ">=1,<2", True),
    ("python", ">=1,<2", "!=1.5", False),
    ("python", ">1", ">=1", True),
    ("python", ">=1", ">1", False),
    ("python", "2.0rc1", ">=2", False),
    ("python", "", ">=1", False),
    ("npm", "^1.2.3", ">=1,<2", True),
    ("npm", "^1.2.3", ">=1.3", False),
    ("npm", "^0.2.3", "<0.3", True),
    ("npm", "^0.0.3", "<0.0.4", True),
    ("npm", "~1.2", ">=1.2,<1.3", True),
    ("npm", "1.x", "<2", True),
    ("npm", "1.2", "<1.3", True),
    ("npm", "1.2.3", "1.2.3", True),
    ("npm", ">=1 <2 || >=3 <4", "<5", True),
    ("npm", ">=1 <2 || >=3 <4", "<2", False),
    ("npm", "1.2 - 1.5", ">=1.2,<=1.5", True),
    ("npm", "*", ">=0", False),
    ("cargo", "1.2", "<2", True),
    ("cargo", "1.2", "<1.3", False),
    ("cargo", "=1.2.0", "<1.2.1", True),
    ("go", "v1.9.0", ">=1.9", True),
    ("go", "v0.0.0-20260101000000-abcdef", ">=0.1", False),
]


@pytest.mark.parametrize(("dialect", "found", "wanted", "expected"), WITHIN)
def test_whether_a_requirement_lies_in_a_range(dialect: Dialect, found: str, wanted: str, expected: bool) -> None:
    assert parse_range(found, dialect).is_subset_of(parse_range(wanted)) is expected


@pytest.mark.parametrize(
    "text", ["git+https://x/y", "latest", "workspace:*", "file:../x", "=>2", "a b", "1" * 600, ">="]
)
def test_what_is_no_range_is_said(text: str) -> None:
    with pytest.raises(InvalidRange):
        parse_range(text, "npm")


versions = st.lists(st.integers(0, 20), min_size=1, max_size=3).map(lambda numbers: ".".join(map(str, numbers)))
comparisons = st.tuples(st.sampled_from([">=", "<=", ">", "<", "==", "!=", "^", "~", "~="]), versions).map("".join)
ranges = st.lists(comparisons, min_size=1, max_size=3).map(",".join)


@given(ranges)
def test_a_range_lies_in_itself_and_in_all(text: str) -> None:
    found = parse_range(text)
    assert found.is_subset_of(found)
    assert found.is_subset_of(ALL_VERSIONS)


@given(ranges, comparisons)
def test_one_more_comparison_only_narrows(text: str, more: str) -> None:
    assert parse_range(f"{text},{more}").is_subset_of(parse_range(text))


@given(ranges, ranges)
def test_a_union_holds_both(one: str, other: str) -> None:
    both = parse_range(f"{one} || {other}")
    assert parse_range(one).is_subset_of(both)
    assert parse_range(other).is_subset_of(both)

"""Grants in `remit.toml`: put in, taken out, and nothing else changed."""

import tomllib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from remit.core.decision import ProjectGrant
from remit.workspace.place.config import ConfigError, add_grant, remove_grant

GRANT = ProjectGrant("g1", "SCOPE_VIOLATION", pattern="docs/**")
OTHER = ProjectGrant("g2", "USER_REJECTED", command=("git", "push"))
FILES = (
    "",
    'mode = "warn"',
    'mode = "warn"  # for now\n\n[approvals]\nthreshold = 40\n# the end\n',
    "# só isto\r\nmode = 'observe'\r\n[session]\r\nidle_minutes = 5\r\n",
    '[[hooks]]\non = "before"\ncommand = """\n[[grants]]\n"""\n',
    '[[grants]]\nid = "old"\ncode = "STALE_FILE"\ntool = "X"\n\n# hooks\n[[hooks]]\non = "after"\ncommand = "x"\n',
)


@pytest.mark.parametrize("text", FILES)
def test_what_was_there_stays_to_the_byte_and_comes_back_when_the_grant_is_taken_out(text: str) -> None:
    one = add_grant(text, GRANT)
    two = add_grant(one, OTHER)
    assert two.startswith(text)
    assert [g["id"] for g in tomllib.loads(two)["grants"]][-2:] == ["g1", "g2"]
    assert remove_grant(two, "g2") == one
    assert remove_grant(one, "g1").rstrip("\r\n") == text.rstrip("\r\n")
    assert tomllib.loads(remove_grant(two, "g1"))["grants"][-1]["command"] == ["git", "push"]


def test_lines_end_as_the_others_do() -> None:
    assert "\n" not in add_grant(FILES[3], GRANT).replace("\r\n", "")


@pytest.mark.parametrize(
    "text", ["grants = []\n", "mode = \n", 'grants = [{id = "a", code = "STALE_FILE", tool = "x"}]']
)
def test_a_file_that_cannot_take_it_is_refused_and_says_what_to_do(text: str) -> None:
    with pytest.raises(ConfigError, match=r"by hand|mend it first"):
        add_grant(text, GRANT)


def test_a_grant_that_a_person_wrote_inline_is_left_to_them() -> None:
    with pytest.raises(ConfigError, match=r"by hand"):
        remove_grant('grants = [{id = "a", code = "STALE_FILE", tool = "x"}]\n', "a")


@given(st.text(st.characters(exclude_categories=("Cs",)), min_size=1), st.text(min_size=1).filter(str.isprintable))
def test_any_words_are_read_as_they_were_written(word: str, tool: str) -> None:
    grant = ProjectGrant("g", "USER_REJECTED", command=(word, "x"))
    text = add_grant('mode = "warn"\n', grant)
    assert tomllib.loads(text)["grants"] == [
        {"id": "g", "code": "USER_REJECTED", "command": [word, "x"], "by": "person"}
    ]
    named = add_grant("", ProjectGrant("g", "USER_REJECTED", tool=tool))
    assert tomllib.loads(named)["grants"][0]["tool"] == tool

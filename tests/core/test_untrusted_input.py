"""Text of others on a terminal."""

import json
import unicodedata

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from remit.core.untrusted_input import escape_json, sanitise_full_line, sanitise_line, sanitise_text

TRICKS = ("\x1b[2J", "\x1b]0;title\x07", "\x1b[8m", "\x9b31m", "\u202e", "\u2066", "\u200b", "\r", "\b", "\U000e0041")


@pytest.mark.parametrize("trick", TRICKS)
def test_what_a_terminal_would_obey_stands_as_an_escape(trick: str) -> None:
    for safe in (
        sanitise_line(f"a{trick}b"),
        sanitise_text(f"a{trick}b"),
        escape_json(json.dumps(trick, ensure_ascii=False)),
    ):
        assert not any(unicodedata.category(c) in ("Cc", "Cf") for c in safe)


def test_colours_and_lines_stay() -> None:
    text = "\x1b[31m\x1b[1mno\x1b[0m\n\tdé ✦ 木\n"
    assert sanitise_text(text) == text


@pytest.mark.parametrize("end", ["\n", "\r", "\u2028", "\u2029", "\x85", "\x0b"])
def test_text_of_others_stays_on_its_line(end: str) -> None:
    assert len(sanitise_line(f"a{end}b").splitlines()) == 1


@given(st.dictionaries(st.text(), st.text() | st.integers()))
def test_json_means_the_same(value: dict[str, object]) -> None:
    assert json.loads(escape_json(msgspec.json.encode(value).decode())) == value


@given(st.text())
def test_what_somebody_says_yes_to_is_shown_to_its_end(text: str) -> None:
    assert sanitise_full_line(f"{text}; the end").endswith("; the end")

"""Views fit the screen, mean the same without colours, and hand no control character on."""

import re
import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len

from remit.cli.root import COMMANDS, SECTIONS
from remit.cli.screen import Screen, has_colour, parse_seconds, relative_time
from remit.cli.view import (
    MARKS,
    TextTable,
    ViewPart,
    facts,
    heading,
    join_texts,
    mark,
    one_line,
    render,
    styled_text,
)

NOW = 1_700_000_000.0
SGR = re.compile(r"\x1b\[[0-9;]*m")
TEXTS = st.text(max_size=60)
STYLES = st.sampled_from(["", "red", "dim", "bold"])
CELLS = st.builds(styled_text, TEXTS, STYLES)
TABLES = st.integers(1, 4).flatmap(
    lambda n: st.builds(
        TextTable,
        st.lists(st.tuples(*[CELLS] * n), max_size=4),
        cut=st.integers(-n, n - 1),
        is_folded=st.booleans(),
    )
)
VIEWS = st.lists(st.one_of(TEXTS, CELLS, st.builds(heading, TEXTS, TEXTS)), max_size=4)


@given(VIEWS, TABLES, st.integers(40, 130), st.booleans())
def test_a_view_passes_on_no_control_character(
    view: list[ViewPart], table: TextTable, width: int, coloured: bool
) -> None:
    for screen in (Screen(NOW), Screen(NOW, width, is_coloured=coloured)):
        shown = SGR.sub("", render([*view, table], screen)) if screen.is_coloured else render([*view, table], screen)
        assert not {c for c in shown if unicodedata.category(c) in ("Cc", "Cf", "Zl", "Zp")} - {"\n"}


@given(VIEWS, st.integers(40, 130))
def test_no_line_is_wider_than_the_screen(view: list[ViewPart], width: int) -> None:
    assert all(cell_len(shown) <= width for shown in render(view, Screen(NOW, width)).split("\n"))


@given(st.lists(st.tuples(st.text("abc", max_size=9), TEXTS), min_size=1, max_size=4), st.integers(40, 130))
def test_a_table_gives_way_in_one_column(rows: list[tuple[str, str]], width: int) -> None:
    for is_folded in (False, True):
        shown = render([TextTable(rows, is_folded=is_folded)], Screen(NOW, width)).split("\n")
        assert all(cell_len(one) <= width for one in shown)
        assert is_folded or len(shown) == len(rows)


@given(VIEWS, TABLES, st.integers(40, 130))
def test_colours_change_no_letter(view: list[ViewPart], table: TextTable, width: int) -> None:
    plain, coloured = (render([*view, table], Screen(NOW, width, is_coloured=c)) for c in (False, True))
    assert SGR.sub("", coloured) == plain


@given(st.lists(st.text("abc ", min_size=1, max_size=400), min_size=1, max_size=3))
def test_without_a_terminal_nothing_is_cut(cells: list[str]) -> None:
    shown = render([TextTable([cells]), "x" * 500], Screen(NOW))
    assert all(cell.rstrip() in shown for cell in cells)
    assert "…" not in shown
    assert "\t" not in shown


def test_a_wide_sign_takes_two_columns() -> None:
    shown = render([TextTable([("漢字", "a"), ("abcd", "b")])], Screen(NOW)).split("\n")
    assert shown == ["漢字  a", "abcd  b"]


def test_a_command_of_several_lines_stays_on_one() -> None:
    assert one_line("python3 - <<'E'\n  import os\n\tos.x()\nE\n") == "python3 - <<'E' ⏎ import os ⏎ os.x() ⏎ E"


def test_long_values_go_on_below_themselves() -> None:
    shown = render([facts([("mode", "enforce"), ("why", "word " * 12), ("none", "")])], Screen(NOW, 40))
    assert shown.split("\n") == [
        "mode  enforce",
        "why   word word word word word word word",
        "      word word word word word",
    ]


def test_each_mark_has_a_sign_of_its_own_width_one() -> None:
    assert all(cell_len(found.glyph) == cell_len(found.letter) == 1 for found in MARKS.values())
    shown = render([join_texts(mark("denied", "denied"), "…")], Screen(NOW, has_glyphs=False))
    assert shown == "x denied ~"


@pytest.mark.parametrize(
    ("age", "told"),
    [
        (0.2, "now"),
        (5, "5 s ago"),
        (59.9, "59 s ago"),
        (60, "1 min ago"),
        (3599, "59 min ago"),
        (7200, "2 h ago"),
        (86400 * 3, "3 d ago"),
        (86400 * 31, "2023-10-14"),
        (-90, "in 1 min"),
    ],
)
def test_times_are_told_from_now(age: float, told: str) -> None:
    assert relative_time(NOW - age, NOW) == told


def test_a_time_that_is_none_is_shown_as_it_stands() -> None:
    assert parse_seconds("yesterday") is None
    assert Screen(NOW).format_time("yester\x1bday") == "yester\\x1bday"
    assert Screen(NOW).format_time("2023-11-14T22:13:20.5Z") == "2023-11-14T22:13:20Z"
    assert Screen(NOW, has_relative_times=True).format_time("2023-11-14T22:12:20Z") == "1 min ago"


@pytest.mark.parametrize(
    ("choice", "around", "terminal", "coloured"),
    [
        ("auto", {"TERM": "xterm"}, True, True),
        ("auto", {"TERM": "xterm"}, False, False),
        ("auto", {"TERM": "dumb"}, True, False),
        ("auto", {}, True, False),
        ("auto", {"TERM": "xterm", "NO_COLOR": "1"}, True, False),
        ("auto", {"TERM": "xterm", "NO_COLOR": ""}, True, True),
        ("auto", {"CLICOLOR_FORCE": "1"}, False, True),
        ("auto", {"FORCE_COLOR": "0"}, False, False),
        ("auto", {"CLICOLOR_FORCE": "1", "NO_COLOR": "1"}, True, False),
        ("auto", {"TERM": "xterm", "CLICOLOR": "0"}, True, False),
        ("always", {"NO_COLOR": "1"}, False, True),
        ("never", {"CLICOLOR_FORCE": "1"}, True, False),
    ],
)
def test_colour_is_the_users_choice(choice: str, around: dict[str, str], terminal: bool, coloured: bool) -> None:
    assert has_colour(choice, around, is_terminal=terminal) is coloured


def test_each_command_stands_in_one_section_of_the_help() -> None:
    assert sorted(name for names in SECTIONS.values() for name in names) == sorted(COMMANDS)

"""Trailers: what is written, where, and what is found against the policy."""

from typing import get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from remit.core.config import TrailerStyle
from remit.core.formats.commit_trailers import (
    AgentContribution,
    add_trailers,
    build_trailers,
    find_violations,
    remove_lines,
)

CLAUDE = AgentContribution("claude-code", "2.1.330", "anthropic/claude-opus", "INT-001")
BY = "Assisted-by: claude-code:m"


@pytest.mark.parametrize(
    ("style", "line"),
    [
        ("kernel", "Assisted-by: claude-code:anthropic/claude-opus"),
        ("apache", "Generated-by: claude-code 2.1.330"),
        ("coauthor", "Co-authored-by: claude-code <claude-code@agents.invalid>"),
        ("Remit-Intent", "Remit-Intent: INT-001"),
    ],
)
def test_each_style_has_its_line_and_allows_no_other(style: TrailerStyle, line: str) -> None:
    assert build_trailers([CLAUDE, CLAUDE], style) == [line]
    allowed = [other for other in get_args(TrailerStyle) if not find_violations(f"work\n\n{line}\n", other)]
    assert allowed == [style]


def test_none_is_nothing() -> None:
    assert build_trailers([CLAUDE], "none") == []


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("work\n", f"work\n\n{BY}\n"),
        ("work", f"work\n\n{BY}\n"),
        ("work\n\nmore words\n", f"work\n\nmore words\n\n{BY}\n"),
        ("work\n\nReviewed-by: A\n", f"work\n\nReviewed-by: A\n{BY}\n"),
        ("work: it\n", f"work: it\n\n{BY}\n"),
        ("\n# Please enter\n", f"\n\n{BY}\n\n# Please enter\n"),
        ("work\n\n# --- >8 ---\ndiff --git\n", f"work\n\n{BY}\n\n# --- >8 ---\ndiff --git\n"),
        (f"work\n\n{BY}\n", f"work\n\n{BY}\n"),
    ],
)
def test_a_trailer_stands_where_git_looks_for_it(before: str, after: str) -> None:
    assert add_trailers(before, [BY]) == after


@given(st.text(max_size=120))
def test_adding_twice_is_adding_once_and_loses_no_line(message: str) -> None:
    once = add_trailers(message, [BY])
    assert add_trailers(once, [BY]) == once
    left = iter(once.split("\n"))
    assert all(line in left for line in message.split("\n") if line.strip())


@pytest.mark.parametrize(
    ("line", "code"),
    [
        ("Signed-off-by: Claude <noreply@anthropic.com>", "SIGNED_OFF_BY_AGENT"),
        ("signed-off-by: Claude Code <x@example.org>", "SIGNED_OFF_BY_AGENT"),
        ("Signed-off-by: dependabot[bot] <49699333+dependabot[bot]@users.noreply.github.com>", "SIGNED_OFF_BY_AGENT"),
        ("Signed-off-by: Claude Monet <claude@example.fr>", None),
        ("Signed-off-by: Devin Townsend <devin@example.org>", None),
        ("Co-authored-by: Claude Opus 9 <noreply@anthropic.com>", "TRAILER_AGAINST_POLICY"),
        ("Co-authored-by: A Friend <friend@example.org>", None),
        ("Assisted-by: codex:gpt-9", "TRAILER_AGAINST_POLICY"),
        ("🤖 Generated with [Claude Code](https://claude.com/claude-code)", "TRAILER_AGAINST_POLICY"),
        ("The report is generated with care.", None),
    ],
)
def test_lines_that_no_policy_or_not_this_one_allows(line: str, code: str | None) -> None:
    message = f"work\n\n{line}\n# Signed-off-by: Claude Code <a@b>\n"
    found = find_violations(message, "none")
    assert [finding.code for finding in found] == ([code] if code else [])
    assert (line in remove_lines(message, found)) is (code is None)


@pytest.mark.parametrize("style", get_args(TrailerStyle))
def test_nothing_is_ever_signed_off(style: TrailerStyle) -> None:
    assert not any("signed-off" in line.lower() for line in build_trailers([CLAUDE], style))


def test_a_name_cannot_add_lines() -> None:
    odd = AgentContribution("x\nSigned-off-by: me", "1\n2", "m\nn", "I\nJ")
    assert all("\n" not in line for style in get_args(TrailerStyle) for line in build_trailers([odd], style))

"""Cutting a shell text into its simple commands."""

from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from remit.core.shell_commands import SimpleCommand, UnreadableShell, parse_simple_commands


def shape(command: SimpleCommand) -> tuple[str, list[str], bool]:
    return command.before, [word.text for word in command.words], command.fed


@pytest.mark.parametrize(
    ("text", "shapes"),
    [
        ("", []),
        ("a b  c", [("", ["a", "b", "c"], False)]),
        ("a && b || c; d | e |& f & g", [
            ("", ["a"], False), ("&&", ["b"], False), ("||", ["c"], False), (";", ["d"], False), ("|", ["e"], False),
            ("|&", ["f"], False), ("&", ["g"], False),
        ]),
        ("a &&\n\n b", [("", ["a"], False), ("&&", ["b"], False)]),
        ("a\nb", [("", ["a"], False), ("\n", ["b"], False)]),
        ("a 'b c' \"d\\\"e\" f\\ g", [("", ["a", "b c", 'd"e', "f g"], False)]),
        ("a # don't\nb", [("", ["a"], False), ("\n", ["b"], False)]),
        ("a#b", [("", ["a#b"], False)]),
        ("a > f 2>&1 >> g", [("", ["a"], False)]),
        ("a < f", [("", ["a"], True)]),
        ("a <<< 'x y'", [("", ["a"], True)]),
        ("a <<E\nbody 'x\nE\nb", [("", ["a"], True), ("\n", ["b"], False)]),
        ("a $(b | c) d", [("", ["a", "$(b | c)", "d"], False), ("", ["b"], False), ("|", ["c"], False)]),
        ("a `b`", [("", ["a", "`b`"], False), ("", ["b"], False)]),
        ("a <(b)", [("", ["a", "<(b)"], False), ("", ["b"], False)]),
        ("((x = 1 << 2)); a", [(";", ["a"], False)]),
        ("a $((1 << 2))", [("", ["a", "$((1 << 2))"], False)]),
        ("a ${b:-'x y'} c", [("", ["a", "${b:-'x y'}", "c"], False)]),
    ],
)  # fmt: skip
def test_a_text_is_cut_into_its_commands(text: str, shapes: list[tuple[str, list[str], bool]]) -> None:
    assert [shape(command) for command in parse_simple_commands(text)] == shapes


def test_each_command_gets_its_own_here_documents() -> None:
    first, second = parse_simple_commands("a <<E | b <<-'F'\n$x\nE\n\ty\n\tF\n")
    assert [(d.body, d.quoted, d.closed) for d in first.documents] == [("$x", False, True)]
    assert [(d.body, d.quoted, d.closed) for d in second.documents] == [("y", True, True)]


def test_a_here_document_that_does_not_end_is_not_closed() -> None:
    (command,) = parse_simple_commands("a <<E\nx")
    assert [d.closed for d in command.documents] == [False]


@pytest.mark.parametrize("word", ["$x", '"$x"', "`a`", "*.py", "~", "{a,b}", "a{1..2}", "$'x'"])
def test_a_word_that_the_shell_replaces_is_not_literal(word: str) -> None:
    command = parse_simple_commands(f"p {word}")[0]
    assert not command.words[1].literal


@pytest.mark.parametrize(
    "text", ["'", '"', "`", "$(", "$((", "((", "${", "$'", "a $(b 'c)", "$(" * 60 + ")" * 60, "${$" * 9999]
)
def test_what_is_not_closed_is_unreadable(text: str) -> None:
    with pytest.raises(UnreadableShell):
        parse_simple_commands(text)


PIECES = st.sampled_from(
    ["a", " ", "\n", "<<E", "E", "$(", ")", "`", "'", '"', "\\", "((", "${", "}", "#", ";", "|", "<(", "&", "2>", "$'"]
)


@given(st.text() | st.lists(PIECES | st.text(max_size=2), max_size=30).map("".join))
def test_any_text_is_cut_or_unreadable(text: str) -> None:
    with suppress(UnreadableShell):
        assert all(command.words or command.fed for command in parse_simple_commands(text))

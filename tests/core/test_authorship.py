"""Authorship notes: the form, as its specification has it, and as real writers bend it."""

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from remit.core.authorship import (
    VERSION,
    Attested,
    Entry,
    NotANote,
    Note,
    attributes_of,
    author,
    can_be_attested,
    claims,
    human_key,
    merged_notes,
    parse_note,
    session_key,
    shared_attributes,
    trace_key,
    write_note,
)
from remit.core.spans import joined, numbers_of, outside, spans_of

SESSION = "s_c9883b05a2487d"
EXAMPLE = """\
src/main.rs
  s_c9883b05a2487d::t_9f8e7d6c5b4a32 1-10,15-20
  h_31dce776f88375 12
"src/my file.rs"
  abcd1234abcd1234 1-50
  abcd123 7
  human 3,9
---
{
  "schema_version": "authorship/3.0.0",
  "git_ai_version": "1.4.5",
  "base_commit_sha": "7734793b",
  "prompts": {
    "abcd1234abcd1234": {
      "agent_id": {
        "tool": "cursor",
        "id": "old",
        "model": "gpt-4"
      },
      "total_additions": 50,
      "odd": [
        1.5,
        null,
        {}
      ]
    },
    "abcd123": {
      "agent_id": {
        "tool": "claude",
        "id": "older",
        "model": "m"
      }
    }
  },
  "humans": {
    "h_31dce776f88375": {
      "author": "Dévéloper <dev@example.com>"
    }
  },
  "sessions": {
    "s_c9883b05a2487d": {
      "agent_id": {
        "tool": "claude",
        "id": "conv",
        "model": "m-1"
      },
      "custom_attributes": {
        "remit.intent": "INT-001"
      }
    }
  },
  "logical_commit_id": "kept"
}"""

names = st.text(st.characters(exclude_categories=("Cs",), exclude_characters='"\n\r\0'), min_size=1, max_size=20)
spans = st.lists(st.tuples(st.integers(1, 60), st.integers(0, 9)).map(lambda p: (p[0], p[0] + p[1])), min_size=1)
entries = st.builds(Entry, st.from_regex(r"[a-z0-9_:-]{1,34}", fullmatch=True), spans.map(tuple))
attested = st.builds(Attested, names.filter(can_be_attested), st.lists(entries, max_size=4).map(tuple))
leaves = st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.text(st.characters(exclude_categories=("Cs",)))
values: Any = st.recursive(
    leaves, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(names, inner, max_size=3), max_leaves=8
)
abouts = st.dictionaries(names, values, max_size=4).map(lambda about: {**about, "schema_version": VERSION})
notes = st.builds(Note, st.lists(attested, max_size=4).map(tuple), abouts)


@given(notes)
@settings(max_examples=40)
def test_what_was_written_is_read_again(note: Note) -> None:
    assert parse_note(write_note(note)) == note


@given(notes)
@settings(max_examples=40)
def test_what_was_read_is_written_again_byte_for_byte(note: Note) -> None:
    text = write_note(note)
    assert write_note(parse_note(text)) == text


@given(st.text(max_size=200) | st.text(max_size=80).map(lambda junk: EXAMPLE.replace("abcd123 7", junk)))
def test_junk_raises_its_own_error_or_is_a_note(text: str) -> None:
    try:
        note = parse_note(text)
    except NotANote:
        return
    for file in note.files:
        claims(note, file.path, range(1, 50))


@pytest.mark.parametrize("ending", ["", "\n"])
def test_the_example_comes_out_as_it_was(ending: str) -> None:
    assert write_note(parse_note(EXAMPLE + ending)) == EXAMPLE + ending


def test_a_quoted_path_may_hold_a_newline() -> None:
    text = EXAMPLE.replace('"src/my file.rs"', '"a\n---\nb"')
    assert [file.path for file in parse_note(text).files] == ["src/main.rs", "a\n---\nb"]
    assert write_note(parse_note(text)) == text


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("a\n  key 1", "no line is `---`"),
        ("", "neither a path nor an entry"),
        ("  key 1\n---\n{}", "before any file"),
        ("a\n  key 1-\n---\n{}", "no entry"),
        ("a\n  key 1 2\n---\n{}", "no entry"),
        ("a\n  key\n---\n{}", "no entry"),
        (" a\n---\n{}", "neither a path nor an entry"),
        ('"a\n---\n{}', "a quote that nothing closes"),
        ("---\nnot json", "after `---`"),
        ("---\n[]", "after `---`"),
        ('---\n{"schema_version": "authorship/2.0.0"}', "schema_version"),
        ("---\n" + "[" * 100_000, "after `---`"),
    ],
)
def test_what_is_wrong_is_named(text: str, why: str) -> None:
    with pytest.raises(NotANote, match=why):
        parse_note(text)


def test_all_forms_of_keys_are_known() -> None:
    note = parse_note(EXAMPLE)
    keys = [entry.key for file in note.files for entry in file.entries]
    found = [(who.kind, who.session or who.name) if (who := author(note, key)) else None for key in keys]
    assert found == [
        ("ai", "conv"),
        ("human", "Dévéloper <dev@example.com>"),
        ("ai", "old"),
        ("ai", "older"),
        None,
    ]


def test_the_last_entry_wins_and_a_key_that_is_nobodys_does_not_count() -> None:
    note = parse_note(EXAMPLE)
    assert claims(note, "src/my file.rs", [1, 3, 7, 51]) == {1: "abcd1234abcd1234", 3: "abcd1234abcd1234", 7: "abcd123"}
    assert claims(note, "src/other.rs", [1]) == {}


@given(st.lists(entries, max_size=6), st.sets(st.integers(1, 80)))
def test_claims_are_those_of_the_plain_rule(given_entries: list[Entry], wanted: set[int]) -> None:
    keys = {entry.key.partition("::")[0] for entry in given_entries}
    about = {"prompts": {key: {"agent_id": {"tool": "x"}} for key in keys}}
    note = Note((Attested("a", tuple(given_entries)),), about)
    plain = {n: e.key for e in given_entries if author(note, e.key) for n in numbers_of(e.spans) if n in wanted}
    assert claims(note, "a", sorted(wanted)) == plain


def test_a_range_costs_nothing_by_its_length() -> None:
    entry = Entry("abc", ((1, 999_999_999),) * 1000)
    note = Note((Attested("a", (entry,) * 100),), {"prompts": {"abc": {"agent_id": {"tool": "x"}}}})
    assert len(claims(note, "a", range(1, 1000))) == 999


@pytest.mark.parametrize("about", [[], 1, "x", {"h_1": []}, {"h_1": {"author": 3}}, {"s_1": {"agent_id": []}}, None])
def test_odd_metadata_names_nobody(about: Any) -> None:
    note = Note((), {"humans": about, "sessions": about, "prompts": about})
    assert [author(note, key) for key in ("h_1", "s_1::t_1", "s_1", "", "x")] == [None] * 5


def test_keys_are_those_of_the_specification() -> None:
    assert session_key("claude", "conv") == "s_b3cef98c3a71f7"
    assert all(len(key) == 16 for key in (session_key("a", "b"), trace_key("a"), human_key("A <a@b>")))


def test_attributes_of_edits_survive_being_shared() -> None:
    traces = {"t_1": {"remit.intent": "A", "x": "1"}, "t_2": {"remit.intent": "A"}, "t_3": {"remit.intent": "B"}}
    shared = shared_attributes(traces)
    assert shared["remit.intent"] == "A"
    for trace, wanted in traces.items():
        assert {name: value for name, value in attributes_of(shared, trace).items() if value} == wanted


@pytest.mark.parametrize(
    ("path", "fits"), [("a b", True), ('a"b', False), ("a\nb", False), ("\udcff", False), ("---", True)]
)
def test_paths_that_the_form_cannot_hold(path: str, fits: bool) -> None:
    assert can_be_attested(path) is fits


@given(notes, notes)
@settings(max_examples=40)
def test_merging_loses_no_line(first: Note, second: Note) -> None:
    both = merged_notes(first, second)
    lines = {(f.path, e.key, n) for f in both.files for e in f.entries for n in numbers_of(e.spans)}
    for note in (first, second):
        assert {(f.path, e.key, n) for f in note.files for e in f.entries for n in numbers_of(e.spans)} <= lines
    assert {**second.about, **first.about}.keys() <= both.about.keys()


@given(spans, spans)
def test_spans_are_sets_of_lines(some: list[tuple[int, int]], others: list[tuple[int, int]]) -> None:
    assert set(numbers_of(outside(some, others))) == set(numbers_of(some)) - set(numbers_of(others))
    assert spans_of(numbers_of(some)) == joined(some)


def test_the_json_is_laid_out_as_writers_of_the_form_do() -> None:
    about: dict[str, Any] = {
        "schema_version": VERSION,
        "a": {},
        "b": [],
        "c": "é\x7f\u2028\x1f\\/",
        "d": [1, {"e": None}],
    }
    text = write_note(Note((), about))
    assert text == "---\n" + json.dumps(about, indent=2, ensure_ascii=False)

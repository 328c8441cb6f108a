"""Authorship notes: the form, as its specification has it, and as real writers bend it."""

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from remit.core.diff.contents import expand_spans, make_spans, merge_spans, subtract_spans
from remit.core.formats.authorship_notes import (
    VERSION,
    Attestation,
    FileAttestation,
    InvalidNote,
    Note,
    find_author,
    find_line_keys,
    is_attestable_path,
    make_human_key,
    make_session_key,
    make_trace_key,
    merge_attributes,
    merge_notes,
    parse_note,
    select_attributes,
    write_note,
)

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
entries = st.builds(Attestation, st.from_regex(r"[a-z0-9_:-]{1,34}", fullmatch=True), spans.map(tuple))
attested = st.builds(FileAttestation, names.filter(is_attestable_path), st.lists(entries, max_size=4).map(tuple))
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
    except InvalidNote:
        return
    for file in note.files:
        find_line_keys(note, file.path, range(1, 50))


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
        ("a\n  key 1-\n---\n{}", "not an entry"),
        ("a\n  key 1 2\n---\n{}", "not an entry"),
        ("a\n  key\n---\n{}", "not an entry"),
        (" a\n---\n{}", "neither a path nor an entry"),
        ('"a\n---\n{}', "a quote that nothing closes"),
        ("---\nnot json", "after `---`"),
        ("---\n[]", "after `---`"),
        ('---\n{"schema_version": "authorship/2.0.0"}', "schema_version"),
        ("---\n" + "[" * 100_000, "after `---`"),
    ],
)
def test_what_is_wrong_is_named(text: str, why: str) -> None:
    with pytest.raises(InvalidNote, match=why):
        parse_note(text)


def test_all_forms_of_keys_are_known() -> None:
    note = parse_note(EXAMPLE)
    keys = [entry.key for file in note.files for entry in file.entries]
    found = [(who.kind, who.session or who.name) if (who := find_author(note, key)) else None for key in keys]
    assert found == [
        ("ai", "conv"),
        ("human", "Dévéloper <dev@example.com>"),
        ("ai", "old"),
        ("ai", "older"),
        None,
    ]


def test_the_last_entry_wins_and_a_key_that_is_nobodys_does_not_count() -> None:
    note = parse_note(EXAMPLE)
    assert find_line_keys(note, "src/my file.rs", [1, 3, 7, 51]) == {
        1: "abcd1234abcd1234",
        3: "abcd1234abcd1234",
        7: "abcd123",
    }
    assert find_line_keys(note, "src/other.rs", [1]) == {}


@given(st.lists(entries, max_size=6), st.sets(st.integers(1, 80)))
def test_claims_are_those_of_the_plain_rule(given_entries: list[Attestation], wanted: set[int]) -> None:
    keys = {entry.key.partition("::")[0] for entry in given_entries}
    about = {"prompts": {key: {"agent_id": {"tool": "x"}} for key in keys}}
    note = Note((FileAttestation("a", tuple(given_entries)),), about)
    plain = {n: e.key for e in given_entries if find_author(note, e.key) for n in expand_spans(e.spans) if n in wanted}
    assert find_line_keys(note, "a", sorted(wanted)) == plain


def test_a_range_costs_nothing_by_its_length() -> None:
    entry = Attestation("abc", ((1, 999_999_999),) * 1000)
    note = Note((FileAttestation("a", (entry,) * 100),), {"prompts": {"abc": {"agent_id": {"tool": "x"}}}})
    assert len(find_line_keys(note, "a", range(1, 1000))) == 999


@pytest.mark.parametrize("about", [[], 1, "x", {"h_1": []}, {"h_1": {"author": 3}}, {"s_1": {"agent_id": []}}, None])
def test_odd_metadata_names_nobody(about: Any) -> None:
    note = Note((), {"humans": about, "sessions": about, "prompts": about})
    assert [find_author(note, key) for key in ("h_1", "s_1::t_1", "s_1", "", "x")] == [None] * 5


def test_keys_are_those_of_the_specification() -> None:
    assert make_session_key("claude", "conv") == "s_b3cef98c3a71f7"
    assert all(len(key) == 16 for key in (make_session_key("a", "b"), make_trace_key("a"), make_human_key("A <a@b>")))


def test_attributes_of_edits_survive_being_shared() -> None:
    traces = {"t_1": {"remit.intent": "A", "x": "1"}, "t_2": {"remit.intent": "A"}, "t_3": {"remit.intent": "B"}}
    shared = merge_attributes(traces)
    assert shared["remit.intent"] == "A"
    for trace, wanted in traces.items():
        assert {name: value for name, value in select_attributes(shared, trace).items() if value} == wanted


@pytest.mark.parametrize(
    ("path", "fits"), [("a b", True), ('a"b', False), ("a\nb", False), ("\udcff", False), ("---", True)]
)
def test_paths_that_the_form_cannot_hold(path: str, fits: bool) -> None:
    assert is_attestable_path(path) is fits


@given(notes, notes)
@settings(max_examples=40)
def test_merging_loses_no_line(first: Note, second: Note) -> None:
    both = merge_notes(first, second)
    lines = {(f.path, e.key, n) for f in both.files for e in f.entries for n in expand_spans(e.spans)}
    for note in (first, second):
        assert {(f.path, e.key, n) for f in note.files for e in f.entries for n in expand_spans(e.spans)} <= lines
    assert {**second.metadata, **first.metadata}.keys() <= both.metadata.keys()


@given(spans, spans)
def test_spans_are_sets_of_lines(some: list[tuple[int, int]], others: list[tuple[int, int]]) -> None:
    assert set(expand_spans(subtract_spans(some, others))) == set(expand_spans(some)) - set(expand_spans(others))
    assert make_spans(expand_spans(some)) == merge_spans(some)


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

"""What git cannot merge by lines merges by meaning."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from remit.core.intent import STATUSES, Constraint, Criterion, Intent
from remit.core.intents.merge import merge_intents
from remit.workspace.intents_file.edit import add_intent, remove_intent, render_intent_file, set_fields
from remit.workspace.intents_file.parse import parse_intents
from remit.workspace.intents_file.resolve import merge_intent_lists
from remit.workspace.intents_file.storage import EditRefused

MONDAY, TUESDAY, NOW = "2026-11-23T10:00:00Z", "2026-11-24T10:00:00Z", "2026-11-25T10:00:00Z"
ONE = Intent("INT-001", ("src/**",), name="Login", created_at=MONDAY)
CRITERIA = st.lists(st.sampled_from([Criterion("a"), Criterion("b", "make b"), Criterion("c")]), unique_by=str)
INTENTS = st.builds(
    Intent,
    id=st.just("INT-001"),
    owned_scope=st.lists(st.sampled_from(["a/**", "b", "c/*.py"]), min_size=1, unique=True).map(tuple),
    name=st.sampled_from(["", "x", "y"]),
    status=st.sampled_from(STATUSES),
    constraints=st.lists(st.sampled_from([Constraint("k"), Constraint("m", "max_lines", {"max": 5})])).map(tuple),
    acceptance_criteria=CRITERIA.map(tuple),
)


def file_of(*intents: Intent) -> str:
    text = ""
    for intent in intents:
        text = add_intent(text, intent, now=intent.created_at or NOW)
    return text


def titles(text: str) -> dict[str, str]:
    document = parse_intents(text.encode())
    assert not document.errors
    return {i.id: i.name for i in document.intents}


@given(INTENTS, INTENTS)
def test_what_only_one_side_changed_is_that_sides(base: Intent, changed: Intent) -> None:
    expected = changed if changed.status == "BLOCKED" else replace(changed, blocked_reason=None)
    for merged in (merge_intents(base, changed, base), merge_intents(base, base, changed)):
        assert merged.kept_ours == ()
        assert {*map(str, merged.intent.constraints)} == {*map(str, expected.constraints)}
        assert {*merged.intent.owned_scope} == {*expected.owned_scope}
        assert (merged.intent.name, merged.intent.status) == (expected.name, expected.status)


@given(INTENTS, INTENTS, INTENTS)
def test_no_side_loses_what_it_added(base: Intent, ours: Intent, theirs: Intent) -> None:
    merged = merge_intents(base, ours, theirs).intent
    for side in (ours, theirs):
        assert {*side.owned_scope} - {*base.owned_scope} <= {*merged.owned_scope}
    assert (merged.status == "DONE") >= ("DONE" in {ours.status, theirs.status} - {base.status})


def test_both_sides_add_one_under_the_same_id() -> None:
    base = file_of(ONE)
    ours = add_intent(base, Intent("INT-002", ("a/**",), name="Mine", created_at=TUESDAY), now=TUESDAY)
    theirs = add_intent(base, Intent("INT-002", ("b/**",), name="Theirs", created_at=NOW), now=NOW)
    theirs = add_intent(theirs, Intent("INT-003", ("c",), name="After", dependencies=("INT-002",)), now=NOW)
    merged = merge_intent_lists(base, ours, theirs, now=NOW)
    assert titles(merged.text) == {"INT-001": "Login", "INT-002": "Mine", "INT-004": "Theirs", "INT-003": "After"}
    assert merged.remarks == ("INT-002 was made twice: 'Theirs' is INT-004 now",)
    after = {i.id: i for i in parse_intents(merged.text.encode()).intents}
    assert after["INT-003"].dependencies == ("INT-004",)


def test_the_younger_gets_the_new_id_whichever_side_it_is_on() -> None:
    base = file_of(ONE)
    old = add_intent(base, Intent("INT-002", ("a/**",), name="Old", created_at=TUESDAY), now=TUESDAY)
    new = add_intent(base, Intent("INT-002", ("b/**",), name="New", created_at=NOW), now=NOW)
    new = add_intent(new, Intent("INT-003", ("c",), name="After", dependencies=("INT-002",)), now=NOW)
    for ours, theirs in ((old, new), (new, old)):
        after = {i.id: i for i in parse_intents(merge_intent_lists(base, ours, theirs, now=NOW).text.encode()).intents}
        assert {i: intent.name for i, intent in after.items()} == {
            "INT-001": "Login", "INT-002": "Old", "INT-004": "New", "INT-003": "After"
        }  # fmt: skip
        assert after["INT-003"].dependencies == ("INT-004",)


def test_both_sides_change_one_intent() -> None:
    base = file_of(ONE)
    ours = set_fields(base, "INT-001", {"owned_scope": ("src/**", "docs/**"), "status": "DONE"}, now=NOW)
    theirs = set_fields(base, "INT-001", {"owned_scope": ("lib/**",), "status": "IN_PROGRESS", "name": "L"}, now=NOW)
    merged = merge_intent_lists(base, ours, theirs, now=NOW)
    [found] = parse_intents(merged.text.encode()).intents
    assert (found.owned_scope, found.status, found.name) == (("docs/**", "lib/**"), "DONE", "L")
    assert merged.remarks == ()


@pytest.mark.parametrize(
    ("ours", "theirs", "is_there", "said"),
    [
        ("deleted", "same", False, ""),
        ("same", "deleted", False, ""),
        ("deleted", "changed", True, "INT-002: ours deleted it, theirs changed it; it was kept"),
        ("changed", "deleted", True, "INT-002: theirs deleted it, ours changed it; it was kept"),
    ],
)
def test_one_side_deletes(ours: str, theirs: str, is_there: bool, said: str) -> None:
    base = file_of(ONE, Intent("INT-002", ("a",), name="Two"))
    ways = {
        "same": base,
        "deleted": remove_intent(base, "INT-002"),
        "changed": set_fields(base, "INT-002", {"name": "Second"}, now=NOW),
    }
    merged = merge_intent_lists(base, ways[ours], ways[theirs], now=NOW)
    assert ("INT-002" in titles(merged.text), merged.remarks) == (is_there, (said,) if said else ())


def test_both_sides_name_it_anew_and_ours_stays() -> None:
    base = file_of(ONE)
    ours, theirs = (set_fields(base, "INT-001", {"name": name}, now=NOW) for name in ("Mine", "Theirs"))
    merged = merge_intent_lists(base, ours, theirs, now=NOW)
    assert titles(merged.text) == {"INT-001": "Mine"}
    assert merged.remarks == ("INT-001: both sides changed name; ours was kept",)


def test_a_side_that_cannot_be_read_is_named() -> None:
    with pytest.raises(EditRefused, match=r"theirs \(line 2\) cannot be read"):
        merge_intent_lists("", file_of(ONE), "- [", now=NOW)


MARKED = """\
version: "1.0"
active_intents:
  - id: INT-001
    owned_scope: [src/**]
<<<<<<< HEAD
  - id: INT-002
=======
  - id: INT-003
>>>>>>> feature/b
    owned_scope: [docs/**]
"""


@pytest.mark.parametrize(
    "text",
    [
        MARKED,
        MARKED.replace("\n", "\r\n"),
        MARKED.replace("=======", "||||||| 41c0d2e\n======="),
    ],
)
def test_conflict_markers_are_named(text: str) -> None:
    [finding] = parse_intents(text.encode()).findings
    assert (finding.code, finding.line, finding.severity) == ("CONFLICT_MARKERS", 5, "error")
    assert "(ours: HEAD, theirs: feature/b). Run: remit intent resolve" in finding.message


@pytest.mark.parametrize(
    "text",
    [
        "active_intents: []\n# =======\n",
        "active_intents:\n- id: INT-001\n  owned_scope: [a]\n  description: |\n    <<<<<<< HEAD\n    =======\n",
    ],
)
def test_words_that_only_look_like_markers_are_text(text: str) -> None:
    assert not parse_intents(text.encode()).errors


def test_a_new_field_of_a_file_keeps_away_from_its_last_line() -> None:
    text = render_intent_file(replace(ONE, description="Why"))
    for changes in ({"acceptance_criteria": (Criterion("it works"),)}, {"priority": "HIGH"}, {"owner": "ann"}):
        changed = set_fields(text, "INT-001", changes, now=None)
        assert changed.endswith(f"\n\ncreated_at: {MONDAY}\n")
        [found] = parse_intents(changed.encode()).intents
        assert found == replace(ONE, description="Why", **changes)
    ended = set_fields(text, "INT-001", {"status": "DONE"}, now=None)
    assert ended == f"{text}status: DONE\n"

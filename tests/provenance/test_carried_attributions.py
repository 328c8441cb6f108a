"""Lines keep the attribution of the step that added them, as if each line were an object."""

from collections.abc import Sequence
from difflib import SequenceMatcher
from itertools import pairwise, zip_longest

import pytest
from hypothesis import given
from hypothesis import strategies as st

from remit.core.diff.contents import Hunk
from remit.provenance.origins.attributor import drop_common_blocks, fill_from_single_call
from remit.provenance.origins.blame_porcelain import FileVersion, GitLine
from remit.provenance.origins.carried_attributions import ContentPairs, carry_attributions
from remit.provenance.origins.commits_before_call import call_identity
from remit.provenance.origins.evidence_grades import Attribution, attribution_at
from remit.provenance.origins.line_matches import carry_through_hunks
from remit.provenance.origins.recorded_steps import (
    MAX_CANDIDATES,
    FileHistory,
    HistoryEntry,
    HistoryStep,
    possible_routes,
)

texts = st.lists(st.sampled_from("abc"), max_size=8).map(tuple)
Text = tuple[str, ...]


def hunks_between(old: Sequence[object], new: Sequence[object]) -> tuple[Hunk, ...]:
    """Return a diff in git's numbering: an empty side names the line before."""
    opcodes = SequenceMatcher(None, old, new, autojunk=False).get_opcodes()
    return tuple(
        Hunk(a + 1 if b > a else a, b - a, c + 1 if d > c else c, d - c)
        for tag, a, b, c, d in opcodes
        if tag != "equal"
    )


def contents_by_name(versions: dict[str, list[bytes]]) -> ContentPairs:
    """Return access to the given contents by name."""
    known: dict[str | None, list[bytes]] = {None: [], **versions}
    return ContentPairs(
        known.get,
        lambda a, b: hunks_between(known[a], known[b]) if a in known and b in known else None,
    )


class Line:
    """One line as an object with its author."""

    def __init__(self, by: str | None) -> None:
        self.by = by


def model_authors(versions: list[Text], names: list[str]) -> list[str | None]:
    """Return the authors by moving line objects: a list, spliced by each step."""
    things = [Line(None) for _ in versions[0]]
    for (old, new), name in zip(pairwise(versions), names, strict=True):
        for tag, a, b, c, d in reversed(SequenceMatcher(None, old, new, autojunk=False).get_opcodes()):
            if tag != "equal":
                things[a:b] = [Line(name) for _ in range(c, d)]
    return [thing.by for thing in things]


def by(labels: Sequence[Attribution | None]) -> list[str | None]:
    return [label.record if label else None for label in labels]


@given(st.lists(texts, min_size=2, max_size=6), st.data())
def test_attributions_equal_a_model_of_tagged_lines(versions: list[Text], data: st.DataObject) -> None:
    count = len(versions) - 1
    names = data.draw(st.lists(st.sampled_from(["r1", "r2", "r3"]), min_size=count, max_size=count))
    steps = [HistoryStep(str(n), str(n + 1), name) for n, name in enumerate(names)]
    found = carry_attributions(
        steps, contents_by_name({str(n): [t.encode() for t in text] for n, text in enumerate(versions)})
    )
    assert by(found) == model_authors(versions, names)
    assert len(found) == len(versions[-1])


@given(texts, texts)
def test_one_step_attributes_its_added_lines_and_keeps_the_rest(old: Text, new: Text) -> None:
    before = [Attribution(f"old {n}", "exact") for n in range(len(old))]
    after = by(carry_through_hunks(before, hunks_between(old, new), Attribution("new", "exact")))
    assert len(after) == len(new)
    known = {at: int(found[4:]) for at, found in enumerate(after) if found is not None and found != "new"}
    kept = list(known.values())
    assert kept == sorted(set(kept)), "kept lines stay in order and are kept once"


def of(*lines: str) -> list[bytes]:
    return [line.encode() for line in lines]


BASE = of("import os", "", "def main():", "    run()")
PROPOSAL = of(
    "def load(path):", "    try:", "        return open(path).read()", "    except OSError:", "        return None"
)
OWN = of(
    "def fetch(url):", "    try:", "        return get(url, timeout=3)", "    except OSError:", "        return None"
)


def origin(
    versions: dict[str, list[bytes]], make_entry: Sequence[HistoryEntry], settled: Sequence[str] = ()
) -> list[str | None]:
    """Return the authors of the lines that `V` added to `P`."""
    ways = possible_routes("V", "P", FileHistory(make_entry), frozenset(settled))
    several = [carry_attributions(way, contents_by_name(versions)) for way in ways]
    return by([next(filter(None, found), None) for found in zip_longest(*several)])


def wrote(seq: int, before: str | None, after: str, *, by_git: bool = False) -> HistoryEntry:
    return HistoryEntry(seq, f"r{seq}", before, after, by_git=by_git)


def test_a_rejected_proposal_is_no_evidence_for_what_a_person_writes_then() -> None:
    versions = {"P": BASE, "R": [*BASE, *PROPOSAL], "V": [*BASE, *OWN]}
    assert origin(versions, [wrote(1, "P", "R")]) == [None] * 9


def test_a_persons_edit_inside_an_uncommitted_block_is_not_the_agents() -> None:
    edited = [*PROPOSAL[:2], b"        return open(path).read().strip()", *PROPOSAL[3:]]
    versions = {"P": BASE, "R": [*BASE, *PROPOSAL], "V": [*BASE, *edited]}
    assert origin(versions, [wrote(1, "P", "R")]) == [None] * 4 + ["r1", "r1", None, "r1", "r1"]


def test_boilerplate_alone_proves_nothing() -> None:
    versions = {
        "P": BASE,
        "R": [*BASE, *of("    try:", "        pass", "}")],
        "V": [*BASE, *of("", "    try:", "        pass", "}")],
    }
    assert origin(versions, [wrote(1, "P", "R")]) == [None] * 8


def test_a_reverted_block_is_no_evidence_for_the_next_one() -> None:
    block = of("alpha_first = 1", "beta_second = 2")
    versions = {"P": BASE, "R": [*BASE, *block], "V": [*BASE, *of("alpha_first = 1", "gamma = 3", "delta = 4")]}
    assert origin(versions, [wrote(1, "P", "R")], settled=["R"]) == [None] * 7


def test_a_block_that_was_reindented_is_still_the_agents() -> None:
    versions = {"P": BASE, "R": [*BASE, *PROPOSAL], "V": [*BASE, *(b"    " + line for line in PROPOSAL)]}
    ways = possible_routes("V", "P", FileHistory([wrote(1, "P", "R")]))
    labels = carry_attributions(ways[0], contents_by_name(versions))
    assert by(labels) == [None] * 4 + ["r1"] * 5
    assert {label.grade for label in labels if label} == {"normalised"}


def test_a_wrapped_call_is_still_the_agents_and_a_changed_one_is_not() -> None:
    call = of("total = compute(alpha, beta, gamma)")
    wrapped = of("total = compute(", "    alpha,", "    beta,", "    gamma,", ")")
    versions = {"P": BASE, "R": [*BASE, *call], "V": [*BASE, *wrapped]}
    assert origin(versions, [wrote(1, "P", "R")]) == [None] * 4 + ["r1"] * 5
    changed = [line.replace(b"beta", b"zeta") for line in wrapped]
    assert origin({**versions, "V": [*BASE, *changed]}, [wrote(1, "P", "R")]) == [None] * 9


def test_a_copy_above_the_original_is_identified_by_the_tools_position() -> None:
    told = HistoryEntry(1, "r1", "P", "V", before_lines=4, hunks=(Hunk(2, 0, 3, 2),), positions_known=True)
    versions = {"P": BASE, "V": [*BASE[:2], *BASE[2:], *BASE[2:]]}
    labels = carry_attributions(possible_routes("V", "P", FileHistory([told]))[0], contents_by_name(versions))
    assert by(labels) == [None, None, "r1", "r1", None, None]
    assert {label.grade for label in labels if label} == {"payload"}


def test_contents_brought_by_git_are_not_attributed() -> None:
    make_entry = [wrote(1, "P0", "R"), wrote(2, "R", "X", by_git=True), wrote(3, "X", "V")]
    versions = {"P0": BASE, "P": BASE, "R": [*BASE, *PROPOSAL], "X": of("a", "b"), "V": of("a", "b", "c")}
    assert origin(versions, make_entry) == [None, None, "r3"]


def test_a_lost_content_leaves_a_gap_and_no_wrong_claim() -> None:
    make_entry = [wrote(1, "P", "L"), wrote(2, "L", "V")]
    assert origin({"P": of("a"), "V": of("a", "b", "c")}, make_entry) == []
    known = [wrote(1, "P", "L"), HistoryEntry(2, "r2", "L", "V", before_lines=2, hunks=(Hunk(2, 0, 3, 1),))]
    assert origin({"P": of("a"), "V": of("a", "b", "c")}, known) == [None, None, "r2"]


@pytest.mark.parametrize("order", [(1, 2), (2, 1)])
def test_unrelated_records_change_nothing(order: tuple[int, int]) -> None:
    other = wrote(order[0] * 10, "X", "Y")
    versions = {"P": BASE, "R": [*BASE, *PROPOSAL], "V": [*BASE, *PROPOSAL], "X": of("x"), "Y": of("y")}
    assert origin(versions, [wrote(15, "P", "V"), other]) == [None] * 4 + ["r15"] * 5


@given(texts, texts)
def test_inserting_and_removing_lines_changes_nothing(base: Text, put: Text) -> None:
    first, second = [t.encode() for t in base], [t.encode() for t in (*base, *put)]
    versions = {"A": first, "B": second, "V": [*first, b"new"]}
    steps = [
        HistoryStep("A", "B", "r1", hunks=hunks_between(first, second)),
        HistoryStep(
            "B",
            "A",
            "r2",
            hunks=tuple(Hunk(h.new, h.new_lines, h.old, h.old_lines) for h in hunks_between(first, second)),
        ),
        HistoryStep("A", "V", "r3", hunks=hunks_between(first, versions["V"])),
    ]
    assert by(carry_attributions(steps, contents_by_name(versions))) == by(
        carry_attributions(steps[2:], contents_by_name(versions))
    )


def test_common_lines_alone_prove_nothing_after_the_version_was_seen() -> None:
    late = Attribution("late", "preserved")
    lines = of("def compute_the_total(): pass", "    pass", "", "    try:", "    pass")
    labels = [late, late, None, late, late]
    assert by(drop_common_blocks(labels, {"late"}, lines)) == ["late", "late", None, None, None]
    assert by(drop_common_blocks(labels, (), lines)) == by(labels)


def test_a_content_was_seen_before_the_first_record_that_found_it() -> None:
    history = FileHistory([wrote(1, "A", "B"), wrote(2, "B", "C"), wrote(3, "B", "D")])
    assert history.records_after_seen("B") == {"r2", "r3"}
    assert history.records_after_seen("D") == frozenset()


@given(st.lists(st.tuples(st.integers(1, 5), st.sampled_from("ABC"), st.sampled_from("ABC"))), st.sampled_from("ABCD"))
def test_each_record_follows_a_sighting_as_the_whole_history_says(
    rows: list[tuple[int, str, str]], version: str
) -> None:
    history = FileHistory([wrote(*row) for row in rows])
    late = history.records_after_seen(version)
    names = {record.record for record in history.recorded} | {"unheard of"}
    assert {name for name in names if history.follows_sighting(version, name)} == late


@given(st.lists(st.none() | st.builds(Attribution, st.sampled_from("ab"), st.just("exact")), max_size=8), st.data())
def test_lines_new_to_git_are_the_calls_whichever_lines_are_asked_about(
    labels: list[Attribution | None], data: st.DataObject
) -> None:
    asked = [line(n) for n in data.draw(st.lists(st.integers(1, 10)))]
    step = HistoryStep("A", "B", "r1", inferred=data.draw(st.booleans()))
    whole = fill_from_single_call(labels, ((step,),), "A", None)
    few = fill_from_single_call(labels, ((step,),), "A", asked)
    assert [attribution_at(few, n.number) for n in asked] == [attribution_at(whole, n.number) for n in asked]
    assert step.inferred or None not in whole


def line(number: int) -> GitLine:
    """Return a line of some version."""
    return GitLine(FileVersion("1" * 40, "a.py", None), number, number, b"x")


def test_a_content_seen_before_its_first_record_existed_before() -> None:
    history = FileHistory([wrote(1, "A", "B"), wrote(2, "B", "A"), wrote(3, "A", "D")])
    assert [history.existed_before_records(version) for version in "ABDX"] == [True, False, False, False]


def test_older_candidates_are_the_contents_that_lost_most_lines() -> None:
    calls = [wrote(10 * n, f"v{n - 1}", f"v{n}") for n in range(1, 60)]
    small = HistoryEntry(205, "small", "v20", "v21", hunks=(Hunk(1, 1, 1, 1),), observed=True)
    back = HistoryEntry(225, "back", "v22", "main", hunks=(Hunk(1, 30, 1, 0),), observed=True)
    befores = [way[-1].before for way in possible_routes("V", "P", FileHistory([*calls, small, back]))]
    assert befores == [*(f"v{n}" for n in range(59, 59 - MAX_CANDIDATES, -1)), "v22", "v20"]


def make_entry(seq: int, before: str, after: str, *, by_git: bool = False) -> HistoryEntry:
    return HistoryEntry(seq, f"r{seq}", before, after, by_git=by_git)


def test_a_content_brought_by_git_may_be_a_persons_change_of_the_last_recorded_one() -> None:
    known = [make_entry(1, "v0", "v1"), make_entry(2, "v1", "v2", by_git=True)]
    later = [*known, make_entry(3, "v2", "v3"), make_entry(4, "v3", "v4")]
    for history in (FileHistory(known), FileHistory(later)):
        [*_, last] = possible_routes("v2", "v0", history)[-1]
        assert (last.before, last.after, last.inferred, last.strict) == ("v1", "v2", True, False)


def test_a_content_brought_by_git_does_not_end_the_route() -> None:
    later = [make_entry(1, "v0", "v1"), make_entry(2, "v1", "v2", by_git=True), make_entry(3, "v2", "v3")]
    [way] = possible_routes("v3", "v0", FileHistory(later))
    assert [(step.before, step.after, step.record) for step in way] == [
        ("v0", "v1", "r1"),
        ("v1", "v2", None),
        ("v2", "v3", "r3"),
    ]


def test_a_record_from_before_another_sighting_stays_doubtful() -> None:
    known = [make_entry(1, "v0", "v1"), make_entry(2, "v1", "other"), make_entry(3, "other", "v2", by_git=True)]
    ways = possible_routes("v2", "v0", FileHistory(known))
    assert [(way[-1].before, way[-1].strict) for way in ways] == [("other", False), ("v1", True)]


@pytest.mark.parametrize(
    ("after", "kept"), [("a } c x", "r1"), ("a } x", None), ("x } c d", None), ("a } x c d", None)]
)
def test_a_common_line_keeps_its_author_if_its_neighbours_are_unchanged(after: str, kept: str | None) -> None:
    texts = {"v0": "a c d", "v1": "a } c d", "v2": after}
    versions = {name: [word.encode() for word in text.split()] for name, text in texts.items()}
    steps = [HistoryStep("v0", "v1", "r1"), HistoryStep("v1", "v2", "person", inferred=True)]
    assert by(carry_attributions(steps, contents_by_name(versions)))[1] == kept


def test_a_call_without_an_id_is_identified_by_its_arguments() -> None:
    assert (
        call_identity({"id": "c1", "name": "Edit"})
        == call_identity({"id": "c1"})
        != call_identity({"id": "c2", "name": "Edit"})
    )
    one = {"id": None, "name": "replace", "arguments_sha256": "ab"}
    assert (
        call_identity(one) == call_identity({**one, "paths": ["x"]}) != call_identity({**one, "arguments_sha256": "cd"})
    )
    assert not any(call_identity({}))

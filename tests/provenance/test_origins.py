"""Lines keep the label of the step that added them, as if each line were a thing that is carried along."""

from difflib import SequenceMatcher
from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from remit.core.contents import Hunk
from remit.provenance.origins import Recorded, Step, carried, label, path_to

texts = st.lists(st.sampled_from("abc"), max_size=8).map(tuple)
Text = tuple[str, ...]


def hunks_between(old: Text, new: Text) -> list[Hunk]:
    """A diff in git's numbering: where nothing was, or is, the line before is named."""
    found: list[Hunk] = []
    for tag, a, b, c, d in SequenceMatcher(None, old, new, autojunk=False).get_opcodes():
        if tag != "equal":
            found.append(Hunk(a + 1 if b > a else a, b - a, c + 1 if d > c else c, d - c))
    return found


class Line:
    """One line as a thing: who put it there."""

    def __init__(self, by: str | None) -> None:
        self.by = by


def modelled(versions: list[Text], names: list[str | None]) -> list[str | None]:
    """The same by moving things: a list of lines, spliced by each step."""
    things = [Line(None) for _ in versions[0]]
    for (old, new), name in zip(pairwise(versions), names, strict=True):
        for tag, a, b, c, d in reversed(SequenceMatcher(None, old, new, autojunk=False).get_opcodes()):
            if tag != "equal":
                things[a:b] = [Line(name) for _ in range(c, d)]
    return [thing.by for thing in things]


@given(st.lists(texts, min_size=2, max_size=6), st.data())
def test_labels_are_what_a_list_of_things_says(versions: list[Text], data: st.DataObject) -> None:
    count = len(versions) - 1
    names = data.draw(st.lists(st.none() | st.sampled_from(["r1", "r2", "r3"]), min_size=count, max_size=count))
    steps = [Step(str(n), str(n + 1), name) for n, name in enumerate(names)]
    lines: dict[str | None, int] = {str(n): len(text) for n, text in enumerate(versions)}
    found = label(steps, lines, lambda a, b: hunks_between(versions[int(a or 0)], versions[int(b)]))
    assert found == modelled(versions, names)
    assert len(found) == len(versions[-1])


@given(texts, texts)
def test_one_step_labels_what_it_added_and_keeps_the_rest(old: Text, new: Text) -> None:
    before = [f"old {n}" for n in range(len(old))]
    after = carried(before, hunks_between(old, new), "new")
    assert len(after) == len(new)
    known = {at: int(found[4:]) for at, found in enumerate(after) if found is not None and found != "new"}
    kept = list(known.values())
    assert kept == sorted(set(kept)), "kept lines stay in order and are kept once"
    assert all(old[n] == new[at] for at, n in known.items())


blobs = st.sampled_from(["A", "B", "C", "D"])
recorded = st.lists(st.tuples(st.none() | blobs, blobs), max_size=6).map(
    lambda pairs: [Recorded(n, f"r{n}", before, after) for n, (before, after) in enumerate(pairs)]
)


@given(blobs, st.none() | blobs, recorded)
def test_a_path_is_a_chain_that_ends_in_the_version(version: str, parent: str | None, found: list[Recorded]) -> None:
    steps = path_to(version, parent, found)
    if not steps:
        return
    assert steps[-1].after == version
    assert all(a.after == b.before for a, b in pairwise(steps))
    known = {r.record: r for r in found}
    used = [known[s.record] for s in steps if s.record]
    assert [r.seq for r in used] == sorted({r.seq for r in used}), "each record once, oldest first"
    assert all((s.before, s.after) == (known[s.record].before, known[s.record].after) for s in steps if s.record)


@given(recorded, blobs)
def test_the_newest_record_of_a_content_is_the_one_that_counts(found: list[Recorded], parent: str) -> None:
    last = next((r for r in reversed(found) if r.after == "A"), None)
    steps = path_to("A", parent, found)
    if last is not None:
        assert steps[-1].record == last.record


def test_nothing_recorded_says_nothing() -> None:
    assert path_to("A", "B", []) == ()
    assert label([], {}, lambda a, b: []) == []


def test_an_edit_between_two_records_is_nobodys() -> None:
    found = [Recorded(0, "r0", "P", "A"), Recorded(1, "r1", "B", "C")]
    assert path_to("C", "P", found) == (Step("P", "A", "r0"), Step("A", "B", None), Step("B", "C", "r1"))


def test_an_edit_after_the_last_record_is_nobodys() -> None:
    found = [Recorded(0, "r0", "P", "A")]
    assert path_to("X", "P", found) == (Step("P", "A", "r0"), Step("A", "X", None))

"""Attributions computed line by line after an unrecorded step equal those computed together."""

from hypothesis import given, settings
from hypothesis import strategies as st

from remit.core.diff.contents import Hunk
from remit.core.diff.edit_script import make_hunks
from remit.provenance.origins.carried_attributions import (
    ContentPairs,
    LazyAttributions,
    carry_by_comparing,
    carry_through_step,
    first_attributions,
)
from remit.provenance.origins.evidence import Attribution
from remit.provenance.origins.recorded_steps import HistoryStep

LINES: tuple[bytes, ...] = (
    b"",
    b"    ",
    b"}",
    b"    }",
    b"return None",
    b"    return None",
    b'"""',
    b"    ticket = 1",
    b"queue",
    b"compute_invoice_total(customer, ledger)",
    b"    compute_invoice_total(customer, ledger)",
    b"compute_invoice_total(customer,",
    b"    ledger)",
    b"settle_outstanding_balance()",
    b"archive_quarterly_report('now')",
    b'    archive_quarterly_report("now")',
)
RECORDS = (None, "r1", "r2", "r3")


@st.composite
def gaps(draw: st.DrawFn) -> tuple[list[bytes], list[bytes], tuple[Hunk, ...], list[Attribution | None], bool]:
    """Draw two contents, any difference of them (not only a diff's), and attributions of the first."""
    old = draw(st.lists(st.sampled_from(LINES), min_size=1, max_size=14))
    new = draw(st.lists(st.sampled_from(LINES), max_size=6))
    for _ in range(draw(st.integers(0, 3))):
        start, end = sorted(draw(st.tuples(*[st.integers(0, len(old))] * 2)))
        at = draw(st.integers(0, len(new)))
        new[at:at] = old[start:end]
    origins: dict[int, int] = {}
    at = 0
    for to, line in enumerate(new):
        same = [i for i in range(at, len(old)) if old[i] == line]
        if same and draw(st.integers(0, 4)):
            origins[to] = draw(st.sampled_from(same[:3]))
            at = origins[to] + 1
    labels: list[Attribution | None] = []
    while len(labels) < len(old):
        record = draw(st.sampled_from(RECORDS))
        labels += [Attribution(record, "exact") if record else None] * draw(st.integers(1, 8))
    return old, new, make_hunks(len(old), len(new), origins), labels[: len(old)], draw(st.booleans())


@settings(max_examples=500, deadline=None)
@given(gaps())
def test_a_lazily_attributed_line_equals_the_full_computation(
    gap: tuple[list[bytes], list[bytes], tuple[Hunk, ...], list[Attribution | None], bool],
) -> None:
    old, new, hunks, labels, strict = gap
    step = HistoryStep("old", "new", None, hunks=hunks, inferred=True, strict=strict)
    pairs = ContentPairs(lambda name: old if name == "old" else new, lambda _a, _b: hunks)
    after = carry_through_step(labels, step, pairs)
    assert after is not None
    whole = carry_by_comparing(labels, step, old, new, hunks, pairs)
    assert [after[i] for i in range(len(after))] == whole
    assert list(after) == whole


def test_each_line_takes_the_first_attribution_of_several() -> None:
    a, b = Attribution("r1", "exact"), Attribution("r2", "exact")
    first = first_attributions([[None, a], [b, b, b]])
    assert [first[0], first[1], first[2], len(first)] == [b, a, b, 3]
    assert (list(first), first[1:]) == ([b, a, b], [a, b])


def test_a_kept_line_is_attributed_without_comparing_the_rest() -> None:
    old = [b"compute_invoice_total(customer)", b"}", b"archive_quarterly_report()", b"settle_balance(ledger, 12)"]
    new = [*old, b"}", b"a person's own statement"]
    labels = [Attribution("r1", "exact")] * 4
    step = HistoryStep("old", "new", None, hunks=(Hunk(4, 0, 5, 2),), inferred=True, strict=True)
    after = carry_through_step(
        labels, step, ContentPairs(lambda name: old if name == "old" else new, lambda _a, _b: None)
    )
    assert isinstance(after, LazyAttributions)
    assert [after[0], after[4]] == [Attribution("r1", "ledger"), None]
    assert "all_attributions" not in vars(after)

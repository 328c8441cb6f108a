"""What agents write into the shared brain stays inside its marks, and what people wrote stays as it was."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from remit.workspace.agents.marked_blocks import (
    CLOSE_MARK,
    KINDS,
    OPEN_MARK,
    BrainEntry,
    append_block,
    format_block,
    read_entries,
    replace_block,
    to_plain_line,
)

MARKS = ("<!--", "-->", "<!-- /remit -->", "<!-- remit:lesson x -->", "## Lesson Learned (2026-01-01)", "---")
SPACES = (" ", "\n", "\r", "\u2028", "\u202e", "\ud800")
hostile = st.lists(
    st.sampled_from((*MARKS, *SPACES, "**Resolution:** ", "a", "&lt;", "<", "!", "-", ">")), max_size=12
).map("".join)
written = st.builds(
    BrainEntry,
    kind=st.sampled_from(KINDS),
    lesson=hostile.map(lambda text: f"so: {text}"),
    id=st.just("01a2"),
    date=st.just("2026-11-22"),
    intent_id=st.none() | st.just("INT-001"),
    paths=st.lists(st.sampled_from(["src/a.py", "a b, c.py", "docs/**"]), max_size=2, unique=True).map(tuple),
    problem=hostile,
    resolution=hostile,
    pattern=hostile,
)


@given(written)
def test_a_block_has_exactly_its_own_two_marks(entry: BrainEntry) -> None:
    text = format_block(entry)
    assert text.count("<!--") == text.count("-->") == 2
    assert text.splitlines()[0] == f"<!-- remit:{entry.kind} 01a2 -->"
    assert text.splitlines()[-1] == CLOSE_MARK
    assert len([line for line in text.splitlines() if line.startswith("## ")]) == 1


@given(written)
def test_what_was_written_is_read_back(entry: BrainEntry) -> None:
    [found] = read_entries(format_block(entry))
    for name in ("kind", "id", "date", "intent_id", "paths"):
        assert getattr(found, name) == getattr(entry, name)
    for name in ("lesson", "problem", "resolution", "pattern"):
        wanted = to_plain_line(getattr(entry, name)).replace("&lt;!--", "<!--").replace("--&gt;", "-->")
        assert getattr(found, name) == wanted


@given(hostile, st.lists(written, min_size=1, max_size=3))
def test_text_outside_the_marks_is_untouched(people: str, entries: list[BrainEntry]) -> None:
    text = people
    for entry in entries:
        text = append_block(text, format_block(entry))
    assert text.startswith(people)
    assert text.count(CLOSE_MARK) >= len(entries)


@given(hostile.map(lambda text: text.replace("remit", "")), hostile.map(lambda text: text.replace("remit", "")))
def test_a_replaced_block_leaves_the_rest(before: str, after: str) -> None:
    first = "<!-- remit:todo s -->\n- [ ] one\n<!-- /remit -->\n"
    second = first.replace("one", "two")
    text = f"{before}\n{first}{after}"
    assert replace_block(text, "todo", "s", second) == f"{before}\n{second}{after}"
    assert replace_block(text, "todo", "s", "") == f"{before}\n{after}"


OLDER = {
    "file and problems": (
        "# Brain\n\n## Lesson Learned (2026-02-21)\n**File:** src/a.ts\n**Problems:**\n- unused x\n- no semicolon\n",
        BrainEntry("lesson", date="2026-02-21", paths=("src/a.ts",), problem="- unused x - no semicolon"),
    ),
    "a heading that is a time": (
        "## 2026-02-18T10:30:00Z\n**Intent**: INT-002\n**Issue**: it hung\n**Resolution**: a timeout\n"
        "**Pattern**: always one\n---\nother text\n",
        BrainEntry(
            "lesson",
            date="2026-02-18",
            intent_id="INT-002",
            problem="it hung",
            resolution="a timeout",
            pattern="always one",
        ),
    ),
    "free text and a context": (
        "## Lesson Learned (2024-01-15T10:30:00.000Z)\n\nRun the linter first.\n\n**Context:** CI failed\n\n---\n",
        BrainEntry("lesson", "Run the linter first. CI failed", date="2024-01-15"),
    ),
}


@pytest.mark.parametrize(("text", "entry"), OLDER.values(), ids=OLDER.keys())
def test_the_older_forms_are_read(text: str, entry: BrainEntry) -> None:
    assert read_entries(text) == (entry,)
    assert read_entries(append_block(text, format_block(BrainEntry("decision", "x", "1", "2026-11-22"))))[0] == entry


def test_other_headings_are_no_lessons() -> None:
    assert read_entries("# Rules\n\n## Style\nTabs.\n\n## 2026 plans\nNone.\n") == ()


def test_a_block_that_is_not_closed_hides_no_other() -> None:
    whole = format_block(BrainEntry("lesson", "kept", "2", "2026-11-22"))
    assert [e.lesson for e in read_entries(f"<!-- remit:lesson 1 -->\nlost\n{whole}")] == ["kept"]
    assert OPEN_MARK.fullmatch("<!-- remit:lesson 1 -->")

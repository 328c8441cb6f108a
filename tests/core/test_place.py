"""Laws of finding and replacing text, for any text."""

from hypothesis import example, given
from hypothesis import strategies as st

from remit.core.diff.contents import decode_content, encode_content, split_with_ends
from remit.core.diff.edits import Patching, apply_edit, replace_places
from remit.core.diff.formats import FileOperation, Patch
from remit.core.diff.place import TextPlace, find_places

TEXT = st.text("ab \t\n", max_size=40)
NAME = st.text("ab", min_size=1, max_size=4)
MIXED = st.text("ab\r\n \u2028é", max_size=30)


@st.composite
def exchanges(draw: st.DrawFn) -> tuple[str, list[TextPlace]]:
    """A content, and places in it that do not overlap."""
    content = draw(MIXED)
    cuts = sorted(draw(st.lists(st.integers(0, len(content)), min_size=2, max_size=6, unique=len(content) > 6)))
    pairs = zip(cuts[::2], cuts[1::2], strict=False)
    return content, [TextPlace(start, end, draw(MIXED)) for start, end in pairs if start < end]


@given(exchanges())
def test_what_stands_outside_the_places_stays_and_the_gate_hears_exactly_the_result(
    given: tuple[str, list[TextPlace]],
) -> None:
    content, places = given
    expected, at = "", 0
    for place in places:
        expected += content[at : place.start] + place.text
        at = place.end
    expected += content[at:]
    edited = replace_places(content, places)
    assert edited.content == expected
    old = split_with_ends(content)
    origins = [origin for _, origin in edited.lines if origin is not None]
    assert origins == sorted(set(origins))
    assert all(old[origin].rstrip("\n") == line.rstrip("\n") for line, origin in edited.lines if origin is not None)
    edit = Patching(Patch((FileOperation("update", "a", hunks=edited.hunks),)))
    assert apply_edit(edit, "a", {"a": content.encode()}.get) == {"a": expected.encode()}


@given(TEXT, TEXT, TEXT, TEXT)
def test_a_text_that_is_there_is_replaced_as_it_stands(head: str, old: str, tail: str, new: str) -> None:
    content = head + old + tail
    places = find_places(content, old, new)
    assert bool(places) == bool(old)
    if len(places) == 1:
        assert replace_places(content, places).content == content.replace(old, new, 1)


@given(TEXT, TEXT, TEXT, TEXT)
@example("", "aa\n", "aa", "")
@example("a", "a\n", "a", "")
def test_line_ends_of_a_file_make_no_difference(head: str, old: str, tail: str, new: str) -> None:
    content = head + old + tail
    found = find_places(content, old, new)
    crlf = content.replace("\n", "\r\n")
    if len(found) == 1 and old.strip() and "\n" in content:
        (place,) = find_places(crlf, old, new)
        assert replace_places(crlf, [place]).content == replace_places(content, found).content.replace("\n", "\r\n")


@given(
    TEXT,
    st.lists(st.text("ab", min_size=1, max_size=4), min_size=2, max_size=4, unique=True),
    st.text("ab", max_size=4),
)
def test_a_lost_indentation_is_given_back(head: str, lines: list[str], new: str) -> None:
    block = "".join(f"      {line}\n" for line in lines)
    content = f"{head}\n{block}"
    old = "".join(f"{line}\n" for line in lines)
    places = find_places(content, old, f"{new}x\n{old}")
    if len(places) == 1 and places[0].likeness == "indentation":
        assert replace_places(content, places).content == f"{head}\n      {new}x\n{block}"


@given(st.binary(max_size=40))
def test_any_bytes_survive_decoding(content: bytes) -> None:
    assert encode_content(decode_content(content)) == content

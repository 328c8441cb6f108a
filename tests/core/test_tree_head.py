"""Signed tree heads: the published format, and what is refused."""

import base64

import pytest
from hypothesis import given
from hypothesis import strategies as st

from remit.core.tree_head import (
    InvalidPublicKey,
    InvalidTreeHead,
    Signature,
    SignedHead,
    TreeHead,
    derive_public_key,
    format_verifier_key,
    parse_public_key,
    parse_signed_head,
    sign_head,
    verify_signature,
)

SEED = bytes(range(32))
PUBLIC = derive_public_key(SEED)
HEAD = TreeHead("4b1d/0123456789ab", 7, bytes(32))

# The example of the signed-note specification: a note that another implementation signed.
EXAMPLE_KEY = "example.com/foo+530d903a+AekyeRrm56hApGFkyQR4ZCbV54Id2LKaANYcrnKv3U2k"
EXAMPLE_TEXT = "This is an example message.\n"
EXAMPLE_BLOB = base64.b64decode(
    "Uw2QOkn8srV1yJGh2VYRlL1Tnagv1YEq6TfXppzi2ONncAlTgK7Ztg1ERYNZXsYjOBH3mFXmRKuwHjG1Yu72IneyaQM="
)


def test_the_published_example_verifies() -> None:
    public = parse_public_key(EXAMPLE_KEY)
    signature = Signature("example.com/foo", EXAMPLE_BLOB[:4], EXAMPLE_BLOB[4:])
    signed = SignedHead(TreeHead("example.com/foo", 0, b""), EXAMPLE_TEXT, (signature,))
    assert verify_signature(signed, public) is True


def test_a_note_is_text_a_blank_line_and_a_signature() -> None:
    lines = sign_head(HEAD, SEED).split("\n")
    assert lines[:4] == ["4b1d/0123456789ab", "7", base64.b64encode(bytes(32)).decode(), ""]
    assert lines[4].startswith("\u2014 4b1d/0123456789ab ")
    assert lines[5:] == [""]


@given(st.integers(0, 10**15), st.binary(min_size=32, max_size=32), st.binary(min_size=32, max_size=32))
def test_what_is_signed_is_read_back_and_verifies(size: int, root: bytes, seed: bytes) -> None:
    head = TreeHead("log/name", size, root)
    signed = parse_signed_head(sign_head(head, seed))
    assert signed.head == head
    assert verify_signature(signed, derive_public_key(seed)) is True
    assert verify_signature(signed, PUBLIC) is (True if seed == SEED else None)


@given(st.data())
def test_no_changed_character_is_taken_for_signed(data: st.DataObject) -> None:
    note = sign_head(HEAD, SEED)
    at = data.draw(st.integers(0, len(note) - 1))
    changed = note[:at] + data.draw(st.characters(codec="utf-8").filter(lambda c: c != note[at])) + note[at + 1 :]
    try:
        signed = parse_signed_head(changed)
    except InvalidTreeHead:
        return
    assert verify_signature(signed, PUBLIC) is not True or (signed.head, signed.text) == (
        HEAD,
        parse_signed_head(note).text,
    )


@pytest.mark.parametrize(
    "note",
    ["", "x", "a\n1\nb\n\n", "a\n01\nAA==\n\n\u2014 a AAAAAAAA\n", "a\n1\nAA==\n\n-- a AAAAAAAA\n", "x" * 20_000],
)
def test_what_is_no_note_is_refused(note: str) -> None:
    with pytest.raises(InvalidTreeHead):
        parse_signed_head(note)


@pytest.mark.parametrize("origin", ["", "a b", "a+b", "a\nb"])
def test_an_origin_that_would_not_be_read_back_is_not_signed(origin: str) -> None:
    with pytest.raises(InvalidTreeHead):
        sign_head(TreeHead(origin, 1, bytes(32)), SEED)


def test_a_key_is_read_in_both_forms() -> None:
    assert parse_public_key(PUBLIC.hex()) == PUBLIC
    assert parse_public_key(format_verifier_key("a/b", PUBLIC)) == PUBLIC


@pytest.mark.parametrize(
    "text", ["", "ab", PUBLIC.hex()[:-1], format_verifier_key("a", PUBLIC).replace("a+", "b+", 1), "a+b+c"]
)
def test_what_is_no_key_is_named(text: str) -> None:
    with pytest.raises(InvalidPublicKey, match="is not a public key"):
        parse_public_key(text)

"""A record's line, its id, and the text in it."""

import hashlib
import json
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from remit.core.call import SessionKey, hash_arguments
from remit.core.record import KEY, Body, Chain, Record, compute_root, encode_record, hash_leaf, hash_node, make_uuid7
from remit.core.untrusted_input import sanitise_line


@given(st.integers(0, 2**48 - 1), st.binary(min_size=10, max_size=10))
def test_an_id_is_a_uuid_of_version_7_that_tells_its_time(milliseconds: int, chance: bytes) -> None:
    found = UUID(make_uuid7(milliseconds, chance))
    assert (found.version, found.variant) == (7, "specified in RFC 4122")
    assert found.int >> 80 == milliseconds


@given(st.lists(st.integers(0, 2**48 - 1), min_size=2, max_size=5), st.binary(min_size=10, max_size=10))
def test_ids_sort_by_their_time(times: list[int], chance: bytes) -> None:
    assert [make_uuid7(t, chance) for t in sorted(times)] == sorted(make_uuid7(t, chance) for t in times)


def test_no_detail_can_pass_for_a_key_of_the_record() -> None:
    detail = {"chain": "forged", "event": "mutation", "schema": "x", "session_id": "y", "reason": "z"}
    body = Body(event="recovery", intent_id=None, session_id=None, detail=detail)
    document = json.loads(encode_record(Record("i", "t", body), Chain("l", 1, "p")))
    found = document["metadata"][KEY]
    assert found["chain"] == {"log": "l", "seq": 1, "prev": "p"}
    assert (found["event"], found["schema"], found["session_id"]) == ("recovery", "remit.trace/1", None)
    assert found["reason"] == "z"
    assert "intent_id" in found, "null is written, not left out"


@given(st.text(), st.integers(1, 50))
def test_shown_text_is_one_line_without_hidden_characters(text: str, limit: int) -> None:
    found = sanitise_line(text, limit)
    assert found.isprintable() or not any(c in found for c in "\n\r\x1b\u202e\u200b\0")
    assert len(sanitise_line(text, limit)) <= limit + 1
    found.encode()


@given(st.dictionaries(st.text(), st.integers() | st.text().map(lambda t: t), max_size=4))
def test_arguments_hash_alike_in_any_order(arguments: dict[str, object]) -> None:
    turned = dict(reversed(arguments.items()))
    assert hash_arguments(arguments) == hash_arguments(turned)


def test_no_arguments_and_empty_ones_are_the_same() -> None:
    assert hash_arguments(None) == hash_arguments({})


def test_only_a_subagent_has_a_parent() -> None:
    assert SessionKey("s", "a").parent == SessionKey("s")
    assert SessionKey("s").parent is None


# Inputs and roots of the reference implementation's test (certificate-transparency, merkle_tree_test.cc).
INPUTS = ["", "00", "10", "2021", "3031", "40414243", "5051525354555657", "606162636465666768696a6b6c6d6e6f"]
ROOTS = [
    "6e340b9cffb37a989ca544e6bb780a2c78901d3fb33738768511a30617afa01d",
    "fac54203e7cc696cf0dfcb42c92a1d9dbaf70ad9e621f4bd8d98662f00e3c125",
    "aeb6bcfe274b70a14fb067a5e5578264db0fa9b51af5e0ba159158f329e06e77",
    "d37ee418976dd95753c1c73862b9398fa2a2cf9b4ff0fdfe8b30cd95209614b7",
    "4e3bbb1f7b478dcfe71fb631631519a3bca12c9aefca1612bfce4c13a86264d4",
    "76e67dadbcdf1e10e1b74ddc608abd2f98dfb16fbce75277b5232a127f2087ef",
    "ddb89be403809e325750d3d263cd78929c2942b7942a34b77e122c9594a74c8c",
    "5dc9da79a70659a9ad559cb701ded9a2ab9d823aad2f4960cfe370eff4604328",
]


@pytest.mark.parametrize("size", range(1, 9))
def test_the_published_roots_come_out(size: int) -> None:
    leaves = [hash_leaf(bytes.fromhex(text)) for text in INPUTS[:size]]
    assert compute_root(leaves).hex() == ROOTS[size - 1]


def test_the_root_of_nothing_is_the_hash_of_nothing() -> None:
    assert compute_root([]) == hashlib.sha256(b"").digest()


def test_a_leaf_is_no_node() -> None:
    left, right = hash_leaf(b"a"), hash_leaf(b"b")
    assert hash_leaf(left + right) != hash_node(left, right)


def by_definition(leaves: list[bytes]) -> bytes:
    if len(leaves) == 1:
        return leaves[0]
    split = 1
    while split * 2 < len(leaves):
        split *= 2
    return hash_node(by_definition(leaves[:split]), by_definition(leaves[split:]))


@given(st.lists(st.binary(min_size=32, max_size=32), min_size=1, max_size=70))
def test_the_loop_equals_the_recursive_definition(leaves: list[bytes]) -> None:
    assert compute_root(leaves) == by_definition(leaves)

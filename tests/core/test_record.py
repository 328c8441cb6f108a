"""A record's line, its id, and the text in it."""

import json
from uuid import UUID

from hypothesis import given
from hypothesis import strategies as st

from remit.core.call import SessionKey, hash_arguments
from remit.core.display_text import sanitise_line
from remit.core.ids import make_uuid7
from remit.core.record import KEY, Body, Chain, Record, encode_record


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

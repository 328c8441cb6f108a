"""Proofs over the hash tree, against the tree itself."""

from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from remit.core.merkle import leaf_hash, root
from remit.core.proofs import (
    InclusionProof,
    NotAProof,
    check_proof,
    consistency_path,
    inclusion_path,
    read_proof,
    root_from,
    roots_from,
)
from remit.core.treehead import TreeHead, sign

LEAVES = [leaf_hash(str(number).encode()) for number in range(300)]
SEED = bytes(range(32))


def subtree(low: int, high: int) -> bytes:
    return root(LEAVES[low:high])


sizes = st.integers(1, len(LEAVES))


@given(sizes, st.data())
def test_each_leaf_is_proved_and_no_other_is(size: int, data: st.DataObject) -> None:
    index = data.draw(st.integers(0, size - 1))
    path = inclusion_path(index, size, subtree)
    assert root_from(LEAVES[index], index, size, path) == subtree(0, size)
    other = data.draw(st.integers(0, size))
    if other != index:
        assert root_from(LEAVES[index], other, size, path) != subtree(0, size)
    assert root_from(leaf_hash(b"foreign"), index, size, path) != subtree(0, size)
    assert root_from(LEAVES[index], index, size, [*path, LEAVES[0]]) is None
    assert not path or root_from(LEAVES[index], index, size, path[:-1]) is None


@given(sizes, st.data())
def test_a_longer_log_is_proved_to_begin_with_the_shorter_one(size: int, data: st.DataObject) -> None:
    old = data.draw(st.integers(1, size))
    path = consistency_path(old, size, subtree)
    if old == size:
        assert path == []
        return
    assert roots_from(old, size, subtree(0, old), path) == (subtree(0, old), subtree(0, size))
    forged = root([leaf_hash(b"x"), *LEAVES[1:old]])
    assert roots_from(old, size, forged, path) != (forged, subtree(0, size))
    assert roots_from(old, size, subtree(0, old), [*path, LEAVES[0]]) is None


def proof(**other: Any) -> InclusionProof:
    index, size = 3, 10
    note = sign(TreeHead("r/m", size, subtree(0, size)), SEED)
    path = tuple(h.hex() for h in inclusion_path(index, size, subtree))
    made = InclusionProof("r/m", index, size, LEAVES[index].hex(), path, note, str(index))
    return msgspec.structs.replace(made, **other)


def test_a_proof_survives_being_written_and_read() -> None:
    made = proof()
    assert read_proof(msgspec.json.decode(msgspec.json.encode(made))) == made
    assert check_proof(made).why == ""


@pytest.mark.parametrize("other", [{"record": "4"}, {"index": 4}, {"leaf": LEAVES[4].hex()}, {"path": ()}])
def test_a_proof_of_something_else_is_false(other: dict[str, Any]) -> None:
    assert check_proof(proof(**other)).why


@pytest.mark.parametrize("other", [{"log": "r/other"}, {"size": 11}, {"note": "x"}, {"leaf": "zz"}, {"path": ("00",)}])
def test_a_proof_that_speaks_of_another_head_or_of_no_hashes_is_none(other: dict[str, Any]) -> None:
    with pytest.raises(NotAProof):
        check_proof(proof(**other))


@pytest.mark.parametrize("document", [{}, {"schema": "x"}, {"schema": "remit.inclusion/1"}, []])
def test_other_documents_are_no_proofs(document: object) -> None:
    with pytest.raises(NotAProof):
        read_proof(document)

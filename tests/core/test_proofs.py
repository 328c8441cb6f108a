"""Proofs over the hash tree, against the tree itself."""

from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from remit.core.formats.proofs import (
    InclusionProof,
    InvalidProof,
    build_consistency_path,
    build_inclusion_path,
    check_proof,
    fold_consistency_path,
    fold_inclusion_path,
    read_proof,
)
from remit.core.record import compute_root, hash_leaf
from remit.core.tree_head import TreeHead, sign_head

LEAVES = [hash_leaf(str(number).encode()) for number in range(300)]
SEED = bytes(range(32))


def subtree(low: int, high: int) -> bytes:
    return compute_root(LEAVES[low:high])


sizes = st.integers(1, len(LEAVES))


@given(sizes, st.data())
def test_each_leaf_is_proved_and_no_other_is(size: int, data: st.DataObject) -> None:
    index = data.draw(st.integers(0, size - 1))
    path = build_inclusion_path(index, size, subtree)
    assert fold_inclusion_path(LEAVES[index], index, size, path) == subtree(0, size)
    other = data.draw(st.integers(0, size))
    if other != index:
        assert fold_inclusion_path(LEAVES[index], other, size, path) != subtree(0, size)
    assert fold_inclusion_path(hash_leaf(b"foreign"), index, size, path) != subtree(0, size)
    assert fold_inclusion_path(LEAVES[index], index, size, [*path, LEAVES[0]]) is None
    assert not path or fold_inclusion_path(LEAVES[index], index, size, path[:-1]) is None


@given(sizes, st.data())
def test_a_longer_log_is_proved_to_begin_with_the_shorter_one(size: int, data: st.DataObject) -> None:
    old = data.draw(st.integers(1, size))
    path = build_consistency_path(old, size, subtree)
    if old == size:
        assert path == []
        return
    assert fold_consistency_path(old, size, subtree(0, old), path) == (subtree(0, old), subtree(0, size))
    forged = compute_root([hash_leaf(b"x"), *LEAVES[1:old]])
    assert fold_consistency_path(old, size, forged, path) != (forged, subtree(0, size))
    assert fold_consistency_path(old, size, subtree(0, old), [*path, LEAVES[0]]) is None


def proof(**other: Any) -> InclusionProof:
    index, size = 3, 10
    note = sign_head(TreeHead("r/m", size, subtree(0, size)), SEED)
    path = tuple(h.hex() for h in build_inclusion_path(index, size, subtree))
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
    with pytest.raises(InvalidProof):
        check_proof(proof(**other))


@pytest.mark.parametrize("document", [{}, {"schema": "x"}, {"schema": "remit.inclusion/1"}, []])
def test_other_documents_are_no_proofs(document: object) -> None:
    with pytest.raises(InvalidProof):
        read_proof(document)

"""Proof that two write sets share no path (a stand-in: by the fixed beginnings of their patterns)."""

from remit.core.scope.path_patterns import find_literal_prefix
from remit.orchestrator.board import Proof, ProofAnswer


def prove_scopes(a: tuple[str, ...], b: tuple[str, ...]) -> Proof:
    for one in (find_literal_prefix(pattern) for pattern in a if not pattern.startswith("!")):
        for other in (find_literal_prefix(pattern) for pattern in b if not pattern.startswith("!")):
            if one.startswith(other) or other.startswith(one):
                return Proof(ProofAnswer.UNPROVED)
    return Proof(ProofAnswer.APART)

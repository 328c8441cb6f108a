"""Whether a log bears out the tree heads that were found of it, wherever those were kept."""

from collections.abc import Iterable, Iterator, Sequence

from msgspec import Struct

from remit.core.merkle import Peaks, grow, summit
from remit.core.treehead import NotATreeHead, SignedHead, TreeHead, is_signed_by, read_note
from remit.ledger.findings import LedgerFinding
from remit.ledger.heads import FoundHead


class HeadsReport(Struct, frozen=True):
    """What the heads say about a log. Its first `witnessed` lines are as they were when `newest` was signed."""

    findings: tuple[LedgerFinding, ...]
    heads: int
    witnessed: int
    newest: str = ""


def check_heads(leaves: Iterable[bytes], found: Iterable[FoundHead], origin: str, keys: Sequence[bytes]) -> HeadsReport:
    """Hold a log's leaf hashes against every head that was found of it; heads of other logs are passed over.

    A head signed by none of `keys` is a warning and decides nothing: anybody could have put it there.
    """
    findings: list[LedgerFinding] = []
    trusted: dict[int, list[tuple[TreeHead, str]]] = {}
    heads = 0
    for one in _distinct(found):
        signed = _read(one, findings)
        if signed is None or signed.head.origin != origin:
            continue
        heads += 1
        trouble = _signature_trouble(signed, one.where, keys)
        if trouble is not None:
            findings.append(trouble)
        else:
            trusted.setdefault(signed.head.size, []).append((signed.head, one.where))
    roots, count = _roots(leaves, trusted)
    findings += _contradicted(trusted, roots, count)
    borne = [
        (head.size, where) for kept in trusted.values() for head, where in kept if roots.get(head.size) == head.root
    ]
    witnessed, newest = max(borne, default=(0, ""))
    return HeadsReport(tuple(findings), heads, witnessed, newest)


def _distinct(found: Iterable[FoundHead]) -> list[FoundHead]:
    """Each note once: a head is kept in several places on purpose."""
    first: dict[str, FoundHead] = {}
    for one in found:
        first.setdefault(one.note, one)
    return list(first.values())


def _read(one: FoundHead, findings: list[LedgerFinding]) -> SignedHead | None:
    try:
        return read_note(one.note)
    except NotATreeHead as error:
        findings.append(LedgerFinding("head_unreadable", "warning", f"{one.where}: {error}"))
        return None


def _signature_trouble(signed: SignedHead, where: str, keys: Sequence[bytes]) -> LedgerFinding | None:
    verdicts = [is_signed_by(signed, key) for key in keys]
    size = signed.head.size
    if False in verdicts:
        text = f"{where}: a head of {size} records bears this log's key, and its signature is false"
        return LedgerFinding("head_forged", "error", text)
    if True not in verdicts:
        text = f"{where}: a head of {size} records is signed by a key that is not trusted here, so it proves nothing"
        return LedgerFinding("unproved", "warning", text)
    return None


def _roots(leaves: Iterable[bytes], sizes: Iterable[int]) -> tuple[dict[int, bytes], int]:
    wanted = set(sizes)
    peaks: Peaks = []
    count = 0
    found = {0: summit([])}
    for count, leaf in enumerate(leaves, 1):
        grow(peaks, leaf)
        if count in wanted:
            found[count] = summit(peaks)
    return found, count


def _contradicted(
    trusted: dict[int, list[tuple[TreeHead, str]]], roots: dict[int, bytes], count: int
) -> Iterator[LedgerFinding]:
    for size, kept in sorted(trusted.items()):
        for head, where in kept:
            if size > count:
                text = f"{where}: a head vouches for {size} records, and the log has {count}: the rest was cut off"
                yield LedgerFinding("truncated", "error", text, count, size - 1, about=_subject(head))
            elif roots[size] != head.root:
                text = f"{where}: the first {size} records are not those that were signed: altered, removed or moved"
                yield LedgerFinding("rewritten", "error", text, 0, size - 1, about=_subject(head))


def heads_borne_out(leaves: Iterable[bytes], subjects: Iterable[str]) -> frozenset[str]:
    """Those heads, by the subject of their finding, that a log bears out whatever name they were signed for."""
    wanted = {subject: subject.split(" ") for subject in subjects}
    roots, _ = _roots(leaves, (int(size) for _, size, _ in wanted.values()))
    return frozenset(s for s, (_, size, root) in wanted.items() if roots.get(int(size), b"").hex() == root)


def _subject(head: TreeHead) -> str:
    return f"head {head.size} {head.root.hex()}"

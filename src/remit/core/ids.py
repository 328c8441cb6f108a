"""Ids that sort by time, and completion of typed ids."""

from collections.abc import Iterable

from remit.core.diff.contents import sha256


def make_uuid7(milliseconds: int, random_bytes: bytes) -> str:
    """Return a UUID version 7 of a Unix time and 10 random bytes. Source: RFC 9562 §5.7, read 2026-11."""
    value = (milliseconds & (1 << 48) - 1) << 80 | int.from_bytes(random_bytes[:10])
    value = value & ~(0xF << 76) | 0x7 << 76
    value = value & ~(0x3 << 62) | 0x2 << 62
    digits = f"{value:032x}"
    return "-".join((digits[:8], digits[8:12], digits[12:16], digits[16:20], digits[20:]))


def match_ids(given: str, known: Iterable[str]) -> tuple[str, ...]:
    """Return ids that a person may mean: an exact match, otherwise those beginning with, otherwise containing `given`.

    Ids that sort by time are displayed by their end, names by their beginning.
    """
    ids = tuple(dict.fromkeys(known))
    if given in ids:
        return (given,)
    if not given:
        return ()
    return tuple(i for i in ids if i.startswith(given)) or tuple(i for i in ids if given in i)


def derive_part_id(first: str, number: int) -> str:
    """Return the id of a part of a split record; part 1 keeps the record's id."""
    if number == 1:
        return first
    milliseconds = int(first.replace("-", "")[:12], 16)
    return make_uuid7(milliseconds, bytes.fromhex(sha256(f"{first} {number}".encode()))[:10])


def list_part_ids(part: object, max_count: int) -> list[str]:
    """Return the ids of at most `max_count` parts of a record's `part` field; empty for a malformed field."""
    match part:
        case {"first": str(first), "of": int(count)}:
            try:
                return [derive_part_id(first, number) for number in range(1, min(count, max_count) + 1)]
            except ValueError:
                return []
        case _:
            return []

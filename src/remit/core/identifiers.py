"""Names that sort by time, and the parts of names that people type."""

from collections.abc import Iterable


def uuid7(milliseconds: int, chance: bytes) -> str:
    """A UUID version 7 of that Unix time and 10 random bytes. Source: RFC 9562 §5.7, read 2026-11."""
    value = (milliseconds & (1 << 48) - 1) << 80 | int.from_bytes(chance[:10])
    value = value & ~(0xF << 76) | 0x7 << 76
    value = value & ~(0x3 << 62) | 0x2 << 62
    digits = f"{value:032x}"
    return "-".join((digits[:8], digits[8:12], digits[12:16], digits[16:20], digits[20:]))


def fitting_ids(given: str, known: Iterable[str]) -> tuple[str, ...]:
    """Return the ids that a person may mean: the one of that very name, else those that begin so, else hold it.

    An id that sorts by time is shown by its end, and a name by its beginning.
    """
    ids = tuple(dict.fromkeys(known))
    if given in ids:
        return (given,)
    if not given:
        return ()
    return tuple(i for i in ids if i.startswith(given)) or tuple(i for i in ids if given in i)

"""Names that sort by time."""


def uuid7(milliseconds: int, chance: bytes) -> str:
    """A UUID version 7 of that Unix time and 10 random bytes. Source: RFC 9562 §5.7, read 2026-11."""
    value = (milliseconds & (1 << 48) - 1) << 80 | int.from_bytes(chance[:10])
    value = value & ~(0xF << 76) | 0x7 << 76
    value = value & ~(0x3 << 62) | 0x2 << 62
    digits = f"{value:032x}"
    return "-".join((digits[:8], digits[8:12], digits[12:16], digits[16:20], digits[20:]))

"""Plurals: a number with the counted noun."""


def count_things(count: int, thing: str) -> str:
    return f"{count} {thing}{'' if count == 1 else 's'}"

"""Plurals: a number with the thing that it counts."""


def count_things(count: int, thing: str) -> str:
    return f"{count} {thing}{'' if count == 1 else 's'}"

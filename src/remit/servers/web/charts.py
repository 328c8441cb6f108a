"""Geometry of the console's charts. Templates draw it as SVG, since inline styles are forbidden; each chart is a table
too.
"""

from collections.abc import Mapping, Sequence

from msgspec import Struct

WIDTH, HEIGHT = 960.0, 300.0
MIN_AREA = 1e-9


class TreeTile(Struct, frozen=True):
    """A rectangle of a treemap; its area is the share of `value`."""

    name: str
    value: int
    x: float
    y: float
    width: float
    height: float


def make_treemap(values: Mapping[str, int], width: float = WIDTH, height: float = HEIGHT) -> list[TreeTile]:
    """Return the values as rectangles that fill the area, the largest first, each as square as its row allows."""
    rows = sorted(((name, value) for name, value in values.items() if value > 0), key=lambda row: (-row[1], row[0]))
    total = sum(value for _, value in rows)
    tiles: list[TreeTile] = []
    x = y = 0.0
    while rows:
        scale = (width - x) * (height - y) / max(total, 1)
        side = max(min(width - x, height - y), MIN_AREA)
        count = count_tiles_of_row([value * scale for _, value in rows], side)
        taken = sum(value for _, value in rows[:count])
        depth = taken * scale / side
        at = 0.0
        is_upright = width - x >= height - y  # the row stands along the shorter side
        for name, value in rows[:count]:
            length = value * scale / max(depth, MIN_AREA)
            place = (x, y + at, depth, length) if is_upright else (x + at, y, length, depth)
            tiles.append(TreeTile(name, value, *(round(number, 2) for number in place)))
            at += length
        x, y = (x + depth, y) if is_upright else (x, y + depth)
        rows, total = rows[count:], total - taken
    return tiles


def count_tiles_of_row(areas: Sequence[float], side: float) -> int:
    """Return how many of the areas to put in one row, so that the worst of them is as square as possible."""
    best = float("inf")
    for count in range(1, len(areas) + 1):
        row = areas[:count]
        depth = sum(row) / side
        worst = max(max(depth * depth / max(area, MIN_AREA), area / max(depth * depth, MIN_AREA)) for area in row)
        if worst > best:
            return count - 1
        best = worst
    return len(areas)


def make_line(values: Sequence[float], top: float, width: float = WIDTH, height: float = HEIGHT) -> str:
    """Return the path of a line through the values, from left to right; `top` is the value at the upper edge."""
    step = width / max(len(values) - 1, 1)
    places = (
        f"{round(step * n, 1)} {round(height - height * value / max(top, 1), 1)}" for n, value in enumerate(values)
    )
    return "M" + "L".join(places) if values else ""

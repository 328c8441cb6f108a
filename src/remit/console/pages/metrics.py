"""Metrics: whether agents are worth it: lines that last, questions, denials; as charts or as tables."""

import time
from collections import Counter
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any, Literal

from msgspec import Struct
from msgspec.structs import replace

from remit.console.guard import Refused
from remit.console.pages.page import PageRequest
from remit.ledger.index.index import Filters, Index
from remit.ledger.parse_time import NotATime, parse_time

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
    step = width / max(len(values) - 1, 1)
    places = (
        f"{round(step * n, 1)} {round(height - height * value / max(top, 1), 1)}" for n, value in enumerate(values)
    )
    return "M" + "L".join(places) if values else ""


METRICS_QUERY = ("since", "by", "as")
GROUPINGS = {"agent": "agents", "intent": "intents", "model": "models"}
MAX_DAYS, MAX_TIMED_RECORDS, MAX_GROUPS, MAX_TILES = 90, 200_000, 20, 60
LINE_HEIGHT = 120.0
SPARK_FIELDS: dict[str, Literal["agent", "intent_id"]] = {"agent": "agent", "intent": "intent_id"}
SPARK_DAYS, SPARK_WIDTH, SPARK_HEIGHT = 14, 90.0, 18.0


class DayCounts(Struct, frozen=True):
    """Calls, denials and questions of a day in UTC."""

    day: str
    calls: int
    denied: int
    asked: int


class GroupBar(Struct, frozen=True):
    """Lines of an agent, intent or model: written, and of those still there. `spark` is a path through its records of
    each of the last days.
    """

    name: str
    written: int
    standing: int
    overridden: int
    calls: int
    denied: int
    spark: str = ""


class DayLines(Struct, frozen=True):
    """Paths through the counts of the days; `top` is the value at the upper edge."""

    calls: str
    denied: str
    asked: str
    top: int
    width: float = WIDTH
    height: float = LINE_HEIGHT


class MetricsPage(Struct, frozen=True):
    """The figures of `remit stats` (`data`), and what the charts draw of them."""

    command: str
    data: Any
    since: str
    by: str
    is_table: bool
    sessions: int
    groups: list[GroupBar]
    tiles: list[TreeTile]
    days: list[DayCounts]
    lines: DayLines
    width: float = WIDTH
    height: float = HEIGHT


def read_metrics(request: PageRequest) -> MetricsPage:
    since, by = request.query.get("since", ""), request.query.get("by", "agent")
    if by not in GROUPINGS:
        raise Refused(400, f"groups are {by[:40]!r}; expected {', '.join(GROUPINGS)}", "take `by` out of the address")
    start = parse_since(since)
    words = ["stats", *(["--since", start] if start else [])]
    figures = request.repositories.read_cached_answer(request.one_repository, *words)
    groups = list_groups(figures["groups"][GROUPINGS[by]])
    with request.repositories.open_index(request.one_repository) as index:
        index.catch_up()
        times = index.list_times(MAX_TIMED_RECORDS, since=start or None)
        sessions = len(index.list_sessions(10_000))
        if by in SPARK_FIELDS:
            groups = [replace(group, spark=draw_spark(index, SPARK_FIELDS[by], group.name)) for group in groups]
    by_intent: dict[str, int] = figures["by_intent"]
    days = count_days(times)
    return MetricsPage(
        " ".join(("remit", *words)),
        figures,
        since,
        by,
        request.query.get("as") == "table",
        sessions,
        groups,
        make_treemap(dict(Counter(by_intent).most_common(MAX_TILES))),
        days,
        draw_days(days),
    )


def parse_since(text: str) -> str:
    """Return the time that the text names, at a full hour, so that equal questions have equal answers; empty for
    none. Raises Refused.
    """
    if not text:
        return ""
    try:
        found = parse_time(text, datetime.now(UTC).replace(minute=0, second=0, microsecond=0))
    except NotATime as error:
        raise Refused(400, str(error), "take `since` out of the address") from None
    return found


def list_groups(groups: dict[str, dict[str, int]]) -> list[GroupBar]:
    bars = [
        GroupBar(name, g["generated"], g["at_head"], g["overridden"], g["calls"], g["denied"])
        for name, g in groups.items()
        if g["generated"] or g["calls"] or g["denied"]
    ]
    return sorted(bars, key=lambda bar: (-bar.written, bar.name))[:MAX_GROUPS]


def count_days(times: list[tuple[str, str]]) -> list[DayCounts]:
    counts: dict[str, Counter[str]] = {}
    for at, event in times:
        counts.setdefault(at[:10], Counter())[event] += 1
    if not counts:
        return []
    last = datetime.fromtimestamp(time.time(), UTC).date()
    first = max(datetime.fromisoformat(min(counts)).date(), last - timedelta(days=MAX_DAYS - 1))
    names = [(first + timedelta(days=n)).isoformat() for n in range(max(0, (last - first).days) + 1)]
    found = [(name, counts.get(name, Counter[str]())) for name in names]
    return [DayCounts(name, c["tool_use"], c["denied"], c["approval_requested"]) for name, c in found]


def draw_spark(index: Index, field: Literal["agent", "intent_id"], name: str) -> str:
    today = datetime.fromtimestamp(time.time(), UTC).date()
    days = [(today - timedelta(days=n)).isoformat() for n in reversed(range(SPARK_DAYS))]
    by = Filters(agent=name) if field == "agent" else Filters(intent_id=name)
    by["since"] = days[0]
    counts = Counter(at[:10] for at, _ in index.list_times(MAX_TIMED_RECORDS, **by))
    return make_line([counts[day] for day in days], max(counts.values(), default=0), SPARK_WIDTH, SPARK_HEIGHT)


def draw_days(days: list[DayCounts]) -> DayLines:
    top = max((max(day.calls, day.denied, day.asked) for day in days), default=0)
    drawn = ([day.calls for day in days], [day.denied for day in days], [day.asked for day in days])
    calls, denied, asked = (make_line(values, top, WIDTH, LINE_HEIGHT) for values in drawn)
    return DayLines(calls, denied, asked, top)

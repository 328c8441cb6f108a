"""How results are shown: false claims first."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from .scenario import Score

HEAD = (
    "track",
    "scenario",
    "tool",
    "false AI",
    "false human",
    "wrong agent",
    "missed",
    "likely",
    "kept",
    "unknown",
    "open",
    "lines",
    "s",
)

WORDS = """\
missed: an agent's line that is beyond doubt, and called unknown. unknown: of all lines. open: an agent's line that came
from a command whose text tells nothing of it, so that a person who saved the file meanwhile would have left the same
traces; or a plain one (`pass`) left of a block that a person changed by half before a commit had it, as one who
threw it away and wrote anew would have left it. Unknown is right there, and is in no bar; a person is wrong.
likely: lines that a tool gives to an agent by the grade `likely`, which promises nothing: right ones of all. In these
scenarios every person who saves a file while a command runs does so on purpose. They are in no other column."""


@dataclass(frozen=True)
class Row:
    """One scenario, or the sum of a track, for one tool."""

    track: str
    name: str
    tool: str
    score: Score


def totals(rows: Sequence[Row]) -> list[Row]:
    """One row a track and tool."""
    found: dict[tuple[str, str], Score] = {}
    for row in rows:
        found.setdefault((row.track, row.tool), Score()).add(row.score)
    return [Row(track, "all", tool, score) for (track, tool), score in found.items()]


def cells(row: Row) -> list[str]:
    """The texts of a row. `missed` are agents' lines that contents tell for sure and that are called unknown."""
    s = row.score
    if s.broken:
        return [row.track, row.name, row.tool, "broken", s.broken.splitlines()[0][:100]]
    wrong = [str(s.counts[name]) for name in ("false AI", "false human", "wrong agent")]
    kept = f"{100 * s.kept / s.certain:.1f} %" if s.certain else "-"
    unknown = f"{100 * (s.counts['unknown'] + s.counts['missed']) / s.lines:.0f} %" if s.lines else "-"
    return [
        row.track,
        row.name,
        row.tool,
        *wrong,
        str(s.counts["missed"]),
        f"{s.counts['likely right']}/{s.counts['likely right'] + s.counts['likely wrong']}",
        kept,
        unknown,
        str(s.open),
        str(s.lines),
        f"{s.seconds:.1f}",
    ]


def table(rows: Sequence[Row]) -> str:
    """The scenarios, those with false claims first; then the sums."""
    ordered = sorted(
        rows, key=lambda row: (-row.score.misattributed, not row.score.broken, -row.score.counts["missed"])
    )
    texts = [list(HEAD), *map(cells, ordered), *map(cells, totals(rows))]
    widths = [max(len(t[n]) for t in texts if n < len(t) and len(t) == len(HEAD)) for n in range(len(HEAD))]
    told = ["  ".join(text.ljust(width) for text, width in zip(t, widths, strict=False)).rstrip() for t in texts]
    return "\n".join([*told, WORDS])


def examples(rows: Sequence[Row], most: int = 5) -> str:
    """Some lines that were called somebody's who did not write them, and some that were missed."""
    found: list[str] = []
    for row in rows:
        shown = [*row.score.wrong[:most], *(f"missed: {gap}" for gap in row.score.gaps[:most])]
        found += [f"{row.track} · {row.name} · {row.tool}", *(f"    {text}" for text in shown)] if shown else []
    return "\n".join(found)


def document(row: Row) -> dict[str, Any]:
    """The row as JSON."""
    s = row.score
    counts = {
        name.replace(" ", "_"): s.counts[name]
        for name in (
            "false AI",
            "false human",
            "wrong agent",
            "missed",
            "unknown",
            "right",
            "likely right",
            "likely wrong",
        )
    }
    return {
        "track": row.track,
        "scenario": row.name,
        "tool": row.tool,
        "lines": s.lines,
        "ai": s.ai,
        **counts,
        "certain": s.certain,
        "open": s.open,
        "refused": s.refused,
        "kept": s.kept,
        "grades": dict(s.grades),
        "evidence": dict(s.evidence),
        "wrong": s.wrong,
        "gaps": s.gaps,
        "seconds": round(s.seconds, 2),
        "broken": s.broken or None,
    }

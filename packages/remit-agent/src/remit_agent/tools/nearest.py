"""The text of a file that is most like a text that is not there, for the model's next attempt."""

import difflib
import re
from collections import Counter
from collections.abc import Sequence

from remit.core.diff.contents import split_with_ends
from remit.core.diff.place import line_body

MIN_SIMILARITY = 0.6
"""Average similarity of lines from which a text counts as near."""
MAX_COMPARED_LINES = 20_000
MAX_COMPARED_CHARS = 300
MAX_CANDIDATES = 12
MAX_NEAR_PLACES = 3
MAX_SCORE_GAP = 0.3
MAX_SHOWN_LINES = 60
LINE_NUMBER = re.compile(r"^\s*\d+[ \t]?[|:\u2502\u2192\t] ?")


def describe_nearest(content: str, old: str) -> str:
    """Return the texts of the file that are most like `old`, their lines and a diff; a way out if nothing is near."""
    lines, sought = [line_body(line) for line in split_with_ends(content)], list(map(line_body, split_with_ends(old)))
    hint = ""
    if sought and all(LINE_NUMBER.match(line) for line in sought if line.strip()):
        sought = [LINE_NUMBER.sub("", line, count=1) for line in sought]
        hint = " It holds the line numbers of read_file: leave them out."
    places = find_nearest_lines(lines, sought)
    if not places:
        return f"{hint} Nothing in the file is like it: read the file again."
    shown: list[str] = []
    for first in places:
        found = lines[first : first + len(sought)]
        name = "Also near are" if shown else "The nearest text is"
        text = "\n".join(found[:MAX_SHOWN_LINES])
        diff = list(difflib.unified_diff(sought, found, "old text", "file", lineterm="", n=1))[2 : MAX_SHOWN_LINES + 2]
        difference = "" if shown else "\nDifference:\n" + "\n".join(diff)
        shown.append(f"{name} lines {first + 1}-{first + len(found)}:\n{text}{difference}")
    return "\n".join([f"{hint} {shown[0]}", *shown[1:], "If none of them is meant, read the file again."])


def find_nearest_lines(lines: Sequence[str], sought: Sequence[str]) -> list[int]:
    seen = [line.strip()[:MAX_COMPARED_CHARS] for line in lines[:MAX_COMPARED_LINES]]
    wanted = [line.strip()[:MAX_COMPARED_CHARS] for line in sought]
    if not any(wanted):
        return []
    places: dict[str, list[int]] = {}
    for at, line in enumerate(seen):
        places.setdefault(line, []).append(at)
    votes: Counter[int] = Counter()
    longest = max(range(len(wanted)), key=lambda n: len(wanted[n]))
    near = [] if wanted[longest] in places else difflib.get_close_matches(wanted[longest], places, 4, MIN_SIMILARITY)
    for n, line in [*enumerate(wanted), *((longest, line) for line in near)]:
        found = places.get(line, ()) if line else ()
        votes.update(dict.fromkeys((max(0, at - n) for at in found[:MAX_CANDIDATES]), len(line)))
    weights = [len(line) + 1 for line in wanted]
    scores: dict[int, float] = {}
    for first, _ in votes.most_common(MAX_CANDIDATES):
        window = [*seen[first : first + len(wanted)], *[""] * len(wanted)]
        alike = [line_similarity(a, b) for a, b in zip(wanted, window, strict=False)]
        if (
            max(sum(alike) / len(wanted), sum(w * a for w, a in zip(weights, alike, strict=True)) / sum(weights))
            >= MIN_SIMILARITY
        ):
            scores[first] = sum(w * a**3 for w, a in zip(weights, alike, strict=True)) / sum(weights)
    best = sorted(scores, key=lambda first: -scores[first])[:MAX_NEAR_PLACES]
    return [first for first in best if scores[first] >= scores[best[0]] - MAX_SCORE_GAP]


def line_similarity(a: str, b: str) -> float:
    return 1.0 if a == b else difflib.SequenceMatcher(None, a, b, autojunk=False).ratio()

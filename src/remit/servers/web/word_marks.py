"""Changed words within changed lines: removed and added lines are paired by similarity, and the words that differ are
marked.
"""

import re
from collections.abc import Callable, Sequence
from difflib import SequenceMatcher

from markupsafe import Markup

WORD = re.compile(r"\w+|\s+|[^\w\s]")
MAX_LINES = 400  # of a block; pairing is quadratic
MAX_LINE_CHARS = 600
MIN_PAIR_RATIO = 0.5


def mark_words_of_block(
    old: Sequence[str], new: Sequence[str], escape: Callable[[str], Markup]
) -> tuple[list[Markup], list[Markup]]:
    """Return both sides as HTML, made by `escape` piece by piece, with the changed words in `<b>`."""
    shown_old, shown_new = [escape(line) for line in old], [escape(line) for line in new]
    if not old or not new or len(old) + len(new) > MAX_LINES:
        return shown_old, shown_new
    first = 0
    for at, line in enumerate(old):
        pair = find_pair(line, new, first)
        if pair is not None:
            shown_old[at], shown_new[pair] = mark_pair(line, new[pair], escape)
            first = pair + 1
    return shown_old, shown_new


def find_pair(line: str, candidates: Sequence[str], first: int) -> int | None:
    """Return the most similar of the next few lines; None if none is similar."""
    if len(line) > MAX_LINE_CHARS or not line.strip():
        return None
    matcher = SequenceMatcher(autojunk=False)
    matcher.set_seq2(line)
    best, best_ratio = None, MIN_PAIR_RATIO
    for at in range(first, min(first + 8, len(candidates))):
        if len(candidates[at]) > MAX_LINE_CHARS:
            continue
        matcher.set_seq1(candidates[at])
        if matcher.real_quick_ratio() > best_ratio and matcher.quick_ratio() > best_ratio:
            ratio = matcher.ratio()
            if ratio > best_ratio:
                best, best_ratio = at, ratio
    return best


def mark_pair(old: str, new: str, escape: Callable[[str], Markup]) -> tuple[Markup, Markup]:
    words_old, words_new = WORD.findall(old), WORD.findall(new)
    shown_old, shown_new = Markup(), Markup()
    for kind, a, a_end, b, b_end in SequenceMatcher(None, words_old, words_new, autojunk=False).get_opcodes():
        before, after = escape("".join(words_old[a:a_end])), escape("".join(words_new[b:b_end]))
        is_equal = kind == "equal"
        shown_old += before if is_equal or not before else Markup("<b>{}</b>").format(before)
        shown_new += after if is_equal or not after else Markup("<b>{}</b>").format(after)
    return shown_old, shown_new

"""Candidate files of a request: named in the request, changed for earlier requests in similar words, or coupled with
these files.
"""

import re
from collections.abc import Iterable, Mapping, Sequence

from remit_fleet.planning.suggest.coupling import RepositoryHistory, Strengths

WORD = re.compile(r"[^\W\d_]{4,}")
NAMED_PATH = re.compile(r"[\w@.+-]+(?:/[\w@.+-]+)*/?")
MIN_SHARED_WORDS = 2
MAX_LIKE_INTENTS = 5
MIN_COUPLING = 0.15
MAX_CANDIDATES = 2_000
COMMON_WORDS = frozenset(
    """
    about after again also because been before being between both change changes code could each every file files from
    have into make more must need needs only other over same should some such than that their them then there these
    they this those through under until what when where which while with without would your
    """.split()  # noqa: SIM905  a list of quoted words takes forty lines
)


def find_candidates(
    brief: str, files: Sequence[str], history: RepositoryHistory, titles: Mapping[str, str], strengths: Strengths
) -> list[str]:
    """Return the candidate files of a brief, in order; none if the brief names no existing file and resembles no
    intent.

    `titles` are the words of earlier intents.
    """
    found = set(_list_named_files(brief, files))
    known = frozenset(files)
    for intent_id in _list_like_intents(brief, titles):
        found |= known.intersection(history.intents.get(intent_id, ()))
    beside = {
        other
        for (a, b), strength in strengths.items()
        if strength >= MIN_COUPLING
        for one, other in ((a, b), (b, a))
        if one in found
    }
    return sorted(found | beside)[:MAX_CANDIDATES]


def _list_named_files(brief: str, files: Sequence[str]) -> Iterable[str]:
    by_name: dict[str, list[str]] = {}
    by_folder: dict[str, list[str]] = {}
    for file in files:
        by_name.setdefault(file.rpartition("/")[2], []).append(file)
        parts = file.split("/")[:-1]
        for depth in range(1, len(parts) + 1):
            by_folder.setdefault("/".join(parts[:depth]), []).append(file)
    known = frozenset(files)
    for named in dict.fromkeys(match[0].rstrip("/.") for match in NAMED_PATH.finditer(brief)):
        if named in known:
            yield named
        elif "/" in named and named in by_folder:
            yield from by_folder[named]
        elif "." in named and len(by_name.get(named, ())) == 1:
            yield by_name[named][0]


def _list_like_intents(brief: str, titles: Mapping[str, str]) -> list[str]:
    words = _list_words(brief)
    shared = {intent_id: len(words & _list_words(title)) for intent_id, title in titles.items()}
    like = (intent_id for intent_id, count in shared.items() if count >= MIN_SHARED_WORDS)
    return sorted(like, key=lambda intent_id: (-shared[intent_id], intent_id))[:MAX_LIKE_INTENTS]


def _list_words(text: str) -> set[str]:
    return {word.lower() for word in WORD.findall(text)} - COMMON_WORDS

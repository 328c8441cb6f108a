"""Word search: the searchable texts of a record, and a person's words as an FTS5 query without syntax errors."""

import re
import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import closing
from typing import Any, TypeAlias, cast

from msgspec import json

from remit.core.record import KEY
from remit.core.untrusted_input import as_object
from remit.ledger.log_files import DECODE_ERRORS

SearchTexts: TypeAlias = tuple[str, str, str]
"""Texts of prompts and reasons, of actions and refusals, and of names and paths."""

SEARCH_TABLE = """create virtual table words using fts5(
  says, does, names, content='', tokenize='porter unicode61 remove_diacritics 2')"""
INSERT_SEARCH_ROW = "insert into words (rowid, says, does, names) values (?, ?, ?, ?)"
RANK_ORDER = "bm25(words, 4, 2, 1), words.rowid desc"
"""Texts of prompts and reasons weigh most; of two equal matches, the newer one comes first."""

MAX_COLUMN_CHARS = 16_384  # maximum characters of a column; later text is not searchable
_ACTION_KEYS = frozenset({"call", "result", "violation", "command"})
_NAME_KEYS = frozenset({"event", "intent_id", "files", "mutation_class", "branch", "cwd", "agent", "model", "origin"})
_UNSEARCHED_KEYS = frozenset({"chain", "schema", "session_id", "trace_id", "agent_id", "id", "note"})
_HASH_PATTERN = re.compile(r"(?:sha256:)?[0-9a-f]{32,}|[0-9a-f]{8}-[0-9a-f]{4}-.{22}")
_WORD_PATTERN = re.compile(r"[^\W_]")
_QUERY_PART = re.compile(r'"([^"]*)"(\*?)|(\S+)')


class NoSearchWords(ValueError):
    """A search without a word."""

    def __init__(self, words: Sequence[str]) -> None:
        super().__init__(f"there is no word in {' '.join(words)!r}; expected letters or digits, such as login or auth*")


def parse_search_texts(raw: bytes) -> SearchTexts:
    try:
        return collect_search_texts(json.decode(raw, type=dict[str, Any]))
    except DECODE_ERRORS:
        return ("", "", "")


def collect_search_texts(document: dict[str, Any]) -> SearchTexts:
    says: dict[str, None] = {}
    does: dict[str, None] = {}
    names: dict[str, None] = {}
    for key, value in as_object(as_object(document.get("metadata")).get(KEY)).items():
        _collect_texts(key, value, does if key in _ACTION_KEYS else names if key in _NAME_KEYS else says)
    _collect_texts("tool", document.get("tool"), names)
    return _join_texts(says), _join_texts(does), _join_texts(names)


def _join_texts(texts: dict[str, None]) -> str:
    return "\n".join(texts)[:MAX_COLUMN_CHARS]


def _collect_texts(key: str, value: object, found: dict[str, None]) -> None:
    if key in _UNSEARCHED_KEYS:
        return
    if isinstance(value, str):
        if len(value) < 32 or not _HASH_PATTERN.fullmatch(value):
            found[value] = None
    elif isinstance(value, dict):
        for name, inner in cast("dict[str, object]", value).items():
            _collect_texts(name, inner, found)
    elif isinstance(value, list):
        for inner in cast("list[object]", value):
            _collect_texts(key, inner, found)


COMMON_WORDS_TEXT = (
    "a an and are as at be been but by can could did do does for from had has have how i if in is it its me my of on or"
    " our should so than that the their them then there these they this those to us was we were what when where which"
    " who whom whose why will with would you your"
)
COMMON_WORDS = frozenset(COMMON_WORDS_TEXT.split(" "))  # words of a question that do not describe its subject


def build_query(words: Sequence[str], *, any_word: bool = False) -> str:
    """Return an FTS5 query for records with all `words`, or with `any_word` any of them, in any grammatical form.
    `auth*` matches words by prefix, `"a b"` a phrase; further syntax is plain text. Common words of a question are
    dropped unless the query has only common words. Raises NoSearchWords.
    """
    parts = [part for text in words for part in _parse_query_parts(text)]
    if not parts:
        raise NoSearchWords(words)
    telling = [part for part in parts if part[1:-1].lower().strip("?.,!'") not in COMMON_WORDS]
    return (" OR " if any_word else " AND ").join(telling or parts)


def _parse_query_parts(text: str) -> Iterator[str]:
    plain = text.encode("utf-8", "replace").decode().replace("\0", " ")
    for phrase, star, word in _QUERY_PART.findall(plain):
        bare = phrase or word.rstrip("*")
        if _WORD_PATTERN.search(bare):
            prefix = "*" if star or word.endswith("*") else ""
            yield '"' + bare.replace('"', '""') + '"' + prefix


def search_documents(
    documents: Sequence[dict[str, Any]], words: Sequence[str], *, any_word: bool = False
) -> list[dict[str, Any]]:
    """Return the records with all the words, or any, best first. Suited to few records, indexed on each call."""
    with closing(sqlite3.connect(":memory:")) as database:
        database.execute(SEARCH_TABLE)
        database.executemany(
            INSERT_SEARCH_ROW, [(n, *collect_search_texts(document)) for n, document in enumerate(documents)]
        )
        found = database.execute(
            f"select rowid from words where words match ? order by {RANK_ORDER}",
            [build_query(words, any_word=any_word)],
        )
        return [documents[n] for (n,) in found]

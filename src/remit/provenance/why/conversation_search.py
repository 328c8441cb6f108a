"""Full-text search in the kept conversations. The index is created by the first search and follows new entries.

Deleting entries drops the index as well, because an index outliving the texts would keep their words.
"""

import sqlite3
from collections.abc import Sequence

from msgspec import Struct

from remit.ledger.index.search import build_query

SPOKEN_ROLES = "('user','assistant','thinking','summary')"

CREATE_INDEX = f"""
CREATE VIRTUAL TABLE heard USING fts5(
  text, content='entries', content_rowid='id', tokenize='porter unicode61 remove_diacritics 2');
INSERT INTO heard(rowid, text) SELECT id, text FROM entries WHERE role IN {SPOKEN_ROLES};
CREATE TRIGGER heard_new AFTER INSERT ON entries WHEN new.role IN {SPOKEN_ROLES} BEGIN
  INSERT INTO heard(rowid, text) VALUES(new.id, new.text); END;
CREATE TRIGGER heard_changed AFTER UPDATE ON entries WHEN old.role IN {SPOKEN_ROLES} BEGIN
  INSERT INTO heard(heard, rowid, text) VALUES('delete', old.id, old.text);
  INSERT INTO heard(rowid, text) VALUES(new.id, new.text); END;
"""
DROP_INDEX = "DROP TRIGGER IF EXISTS heard_new; DROP TRIGGER IF EXISTS heard_changed; DROP TABLE IF EXISTS heard;"

SEARCH_QUERY = """SELECT t.session_id, t.agent_id, t.agent, e.role, e.at, e.text, snippet(heard, 0, '', '', '…', 24)
  FROM heard JOIN entries e ON e.id = heard.rowid JOIN transcripts t ON t.id = e.transcript
  WHERE heard MATCH ? AND (? = '' OR t.session_id = ?) AND (? = '' OR e.at >= ?) ORDER BY """
ORDER_BY_RANK, ORDER_BY_TIME = "bm25(heard), e.at DESC", "e.at DESC, e.id DESC"


class ConversationMatch(Struct, frozen=True):
    """A matching entry. `around` is the excerpt of `text` with the words."""

    session_id: str
    agent_id: str
    agent: str
    role: str
    at: str
    text: str
    around: str


def search_conversations(
    database: sqlite3.Connection,
    words: Sequence[str],
    limit: int,
    *,
    session: str = "",
    since: str = "",
    newest: bool = False,
) -> tuple[ConversationMatch, ...]:
    """Return the entries with all words, best first or newest first. Raises NoWords, sqlite3.Error."""
    query = build_query(words)
    if database.execute("SELECT 1 FROM sqlite_master WHERE name='heard'").fetchone() is None:
        database.executescript(f"BEGIN IMMEDIATE; {DROP_INDEX} {CREATE_INDEX} COMMIT;")
    order = ORDER_BY_TIME if newest else ORDER_BY_RANK
    rows = database.execute(f"{SEARCH_QUERY} {order} LIMIT ?", (query, session, session, since, since, limit))
    return tuple(ConversationMatch(*row) for row in rows)


def drop_index(database: sqlite3.Connection) -> None:
    """Drop the search index within the transaction that deletes entries. Raises sqlite3.Error."""
    for statement in DROP_INDEX.split("; "):
        database.execute(statement)

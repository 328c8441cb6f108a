"""Fired events in the state: events that an agent's hook has lately reported, for double firing. Raises StateError."""

from remit.gate.state.workspace_state import State


def find_events(state: State, digest: str) -> list[tuple[int, bytes]]:
    rows = state.fetch_rows(
        "SELECT id, event FROM told WHERE workspace=? AND digest=? ORDER BY id", state.workspace, digest
    )
    return [(row[0], row[1]) for row in rows]


def put_event(state: State, digest: str, at: float, event: bytes, lifetime_s: float) -> int | None:
    """Store an event, delete those more than `lifetime_s` away from the time `at`, and return the new row."""
    with state.transaction() as connection:
        connection.execute("DELETE FROM told WHERE at NOT BETWEEN ? AND ?", (at - lifetime_s, at + lifetime_s))
        return connection.execute(
            "INSERT INTO told(workspace, digest, at, event) VALUES(?,?,?,?)", (state.workspace, digest, at, event)
        ).lastrowid


def read_event(state: State, row: int) -> bytes | None:
    found = state.fetch_row("SELECT event FROM told WHERE id=?", row)
    return None if found is None else found[0]


def replace_event(state: State, row: int, event: bytes) -> None:
    with state.transaction() as connection:
        connection.execute("UPDATE told SET event=? WHERE id=?", (event, row))


def delete_event(state: State, row: int) -> bool:
    with state.transaction() as connection:
        return connection.execute("DELETE FROM told WHERE id=?", (row,)).rowcount > 0

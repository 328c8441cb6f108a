"""Setbacks of a session: its denials and failures in a row, and the paths that were lately denied."""

import posixpath

from remit.core.call import CallClass, Outcome, SessionKey, ToolCall
from remit.core.decision import ErrorType, Finding
from remit.core.display_text import quote_path
from remit.core.facts import DeniedPath
from remit.gate.state.workspace_state import State

QUIET_RESET_S = 60.0
"""Time without another denial or failure after which the count begins anew."""

PATH_DENIALS: frozenset[ErrorType] = frozenset(
    {"SCOPE_VIOLATION", "INTENTIGNORE_PATH_BLOCKED", "PROTECTED_PATH", "OUTSIDE_WORKSPACE"}
)
"""Denials that concern the path itself, and not the moment."""

ERROR_TYPES: dict[str, ErrorType] = {code: code for code in PATH_DENIALS}


def broken_constraints(finding: Finding) -> str:
    return "".join(sorted({f" {broken['constraint']}" for broken in finding.context.get("broken", ())}))


class Setbacks:
    """The setbacks of the sessions in one workspace. Methods raise StateError."""

    def __init__(self, state: State, now: float) -> None:
        self.state = state
        self.now = now

    def count_in_a_row(self, key: SessionKey) -> tuple[str, int, int]:
        """Return (last denial, its count in a row, failed tools in a row); all reset after QUIET_RESET_S."""
        row = self.state.fetch_row(
            "SELECT denial, denials, failures FROM setbacks WHERE workspace=? AND session_id=? AND agent_id=? AND at>?",
            *(self.state.workspace, key.session_id, key.agent_id, self.now - QUIET_RESET_S),
        )
        return ("", 0, 0) if row is None else (row[0], row[1], row[2])

    def denied_paths(self, key: SessionKey, root: str, cwd: str, minutes: float) -> tuple[DeniedPath, ...]:
        """Return the paths denied to the session or sub-agents in the last `minutes`."""
        rows = self.state.fetch_rows(
            "SELECT path, code, tool FROM denied WHERE workspace=? AND session_id=? AND at>? ORDER BY path",
            *(self.state.workspace, key.session_id, self.now - minutes * 60),
        )
        return tuple(
            DeniedPath(path, ERROR_TYPES[code], tool, path_spellings(path, root, cwd))
            for path, code, tool in rows
            if code in ERROR_TYPES
        )

    def count_denial(self, call: ToolCall, findings: tuple[Finding, ...]) -> None:
        """Count a denial, whose leading finding comes first, and store the denied paths.

        An open circuit is not counted, or a retry would keep the circuit open forever.
        """
        leading = next(iter(findings), None)
        if leading is None or leading.code == "CIRCUIT_OPEN":
            return
        denial = f"{leading.code} {quote_path(leading.path or call.tool)}{broken_constraints(leading)}"
        last, denials, failures = self.count_in_a_row(call.session)
        count = denials + 1 if denial == last else 1
        paths = {f.path: f.code for f in findings if f.path is not None and f.code in PATH_DENIALS}
        with self.state.transaction() as connection:
            connection.execute(
                "INSERT OR REPLACE INTO setbacks VALUES(?,?,?,?,?,?,?)",
                (*self.session_key(call), denial, count, failures, self.now),
            )
            connection.executemany(
                "INSERT INTO denied VALUES(?,?,?,?,?,?) ON CONFLICT DO UPDATE SET at=excluded.at",
                [
                    (self.state.workspace, call.session.session_id, quote_path(path), code, call.tool, self.now)
                    for path, code in paths.items()
                ],
            )

    def count_outcome(self, call: ToolCall, outcome: Outcome, call_class: CallClass) -> None:
        """Count a failure; a success resets the counts, and a safe call changes nothing."""
        if call_class == "safe":
            return
        if outcome.ok:
            self.reset(call.session)
            return
        denial, denials, failures = self.count_in_a_row(call.session)
        with self.state.transaction() as connection:
            connection.execute(
                "INSERT OR REPLACE INTO setbacks VALUES(?,?,?,?,?,?,?)",
                (*self.session_key(call), denial, denials, failures + 1, self.now),
            )

    def reset(self, key: SessionKey) -> None:
        """Reset the counts, after a success or a word of the person."""
        where = (self.state.workspace, key.session_id, key.agent_id)
        known = "FROM setbacks WHERE workspace=? AND session_id=? AND agent_id=?"
        if self.state.fetch_row(f"SELECT 1 {known}", *where) is not None:
            with self.state.transaction() as connection:
                connection.execute(f"DELETE {known}", where)

    def allow_paths(self, key: SessionKey, paths: tuple[str, ...]) -> None:
        rows = [(self.state.workspace, key.session_id, quote_path(path)) for path in paths]
        with self.state.transaction() as connection:
            connection.executemany("DELETE FROM denied WHERE workspace=? AND session_id=? AND path=?", rows)

    def session_key(self, call: ToolCall) -> tuple[str, str, str]:
        return (self.state.workspace, call.session.session_id, call.session.agent_id)


def path_spellings(path: str, root: str, cwd: str) -> tuple[str, ...]:
    """Return the spellings of a file in a command: from the root, absolute, and relative to `cwd`."""
    whole = path if path.startswith("/") else posixpath.join(root, path)
    return tuple(dict.fromkeys((path, whole, posixpath.relpath(whole, cwd or root))))

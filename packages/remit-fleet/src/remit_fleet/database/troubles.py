"""Causes of an unusable fleet database, in words, with the next step."""

import re
from collections.abc import Sequence

from msgspec import Struct
from sqlalchemy.exc import DBAPIError

from remit_fleet.database.store import AWAY_ERRORS, StoreError

ERRORS = (StoreError, *AWAY_ERRORS)
MAX_REASON = 300


class Trouble(Struct, frozen=True):
    """Cause of an unusable database, and the next step of a person."""

    what: str
    fix: str


GOES_ON = "nothing is lost, and workers go on by themselves"
TROUBLES: Sequence[tuple[str, Trouble]] = (
    (
        r"database is locked",
        Trouble("another process keeps its file locked", f"end that process, `fuser -v FILE` names it; {GOES_ON}"),
    ),
    (
        r"disk is full|disk I/O error|No space left on device|could not extend file",
        Trouble("its disk is full, or fails", f"make room on the disk of the database; {GOES_ON}"),
    ),
    (
        r"file is not a database|malformed",
        Trouble("its file is damaged", "move the file away, then `remit fleet rebuild` in each repository"),
    ),
    (
        r"unable to open database file|readonly database|read-only",
        Trouble("its file cannot be written", "look at the rights of the file and of its folder"),
    ),
    (
        r"no such table|relation .* does not exist|no such column|column .* does not exist",
        Trouble("its tables are gone, or another version's", "update Remit, or `remit fleet rebuild`"),
    ),
    (
        r"password authentication failed|no pg_hba\.conf entry|role .* does not exist|permission denied",
        Trouble("the server refuses this user", "mend the user, or its rights, in --database"),
    ),
    (
        r"database .* does not exist",
        Trouble("the server has no such database", "create it with `createdb`, or name another with --database"),
    ),
    (
        r"too many clients|remaining connection slots|too many connections",
        Trouble("the server has no connection left", f"raise its `max_connections`, or end other clients; {GOES_ON}"),
    ),
    (
        r"refused|closed the connection|terminat|timeout|timed out|starting up|shutting down|recovery mode|connect"
        r"|name or service|lost|broken|EOF",
        Trouble("the server does not answer", f"start it, or name another with --database; {GOES_ON}"),
    ),
)
"""By a pattern of the driver's own words; the first one that is found."""


def describe_failure(error: Exception) -> tuple[str, str, str]:
    """Return code, message and next step of a command that such an error ends."""
    trouble = describe_trouble(error)
    return "DATABASE", trouble.what, trouble.fix


def describe_trouble(error: Exception) -> Trouble:
    """Return the cause with the driver's own message."""
    if isinstance(error, StoreError):
        what, _, fix = str(error).partition("\nhint: ")
        return Trouble(what, fix)
    reason = str(error.orig if isinstance(error, DBAPIError) else error)
    first = reason.strip().partition("\n")[0][:MAX_REASON]
    for pattern, trouble in TROUBLES:
        if re.search(pattern, reason, re.IGNORECASE):
            return Trouble(f"the fleet database cannot be used: {trouble.what} ({first})", trouble.fix)
    return Trouble(f"the fleet database cannot be used: {first}", "mend it, or name another with --database")

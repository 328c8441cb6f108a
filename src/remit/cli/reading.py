"""What the commands that read records share: their filters, and where records come from."""

import re
import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any, TypeVar

import click
import msgspec

from remit.cli.output import Failure
from remit.gate.gate import Gate
from remit.gate.witness import trusted_keys
from remit.ledger.foreign import Wanted, foreign_records, merged
from remit.ledger.index import Index

F = TypeVar("F", bound=Callable[..., Any])

AGO = re.compile(r"(\d{1,5})([mhdw])")
UNITS = {"m": timedelta(minutes=1), "h": timedelta(hours=1), "d": timedelta(days=1), "w": timedelta(weeks=1)}
TIME = re.compile(r"\d{4}(-\d\d(-\d\d([T ]\d\d:\d\d(:\d\d(\.\d{1,6})?)?Z?)?)?)?")

FILTERS = (
    click.option("--event", help="Only these events, such as mutation or denied."),
    click.option("--intent", "intent_id", metavar="ID", help="Only records under this intent."),
    click.option("--session", "session_id", metavar="ID", help="Only records of this session."),
    click.option("--agent", metavar="NAME", help="Only records of this agent, such as claude-code."),
    click.option("--path", help="Only records that touched this file."),
    click.option("--since", metavar="TIME", help="Only records since then: ISO 8601 in UTC, or 30m, 2h, 7d, 2w ago."),
    click.option("--until", metavar="TIME", help="Only records before then, written alike."),
)


def filter_options(command: F) -> F:
    """The filters that every command over records takes."""
    for option in reversed(FILTERS):
        command = option(command)
    return command


def moment(text: str | None, option: str, now: float) -> str | None:
    """A time as records write theirs. Raises Failure."""
    if text is None:
        return None
    ago = AGO.fullmatch(text)
    if ago:
        then = datetime.fromtimestamp(now, UTC) - int(ago[1]) * UNITS[ago[2]]
        return then.isoformat(timespec="microseconds").replace("+00:00", "Z")
    if not TIME.fullmatch(text):
        raise Failure("INVALID", f"{option} {text!r} is no time", fix="write 2026-02-21T12:00:00Z, 2026-02-21 or 7d")
    return text.replace(" ", "T").removesuffix("Z")


def wanted(filters: dict[str, str | None], words: tuple[str, ...], limit: int) -> Wanted:
    """The filters as they were given. Raises Failure."""
    now = time.time()
    times = {name: moment(filters[name], f"--{name}", now) for name in ("since", "until")}
    asked = {**filters, **times}
    return msgspec.convert({**asked, "words": words, "limit": limit}, Wanted)


def own_index(gate: Gate) -> Index:
    """The index of this machine's log, caught up."""
    index = Index.open(gate.workspace.state / "index.db", gate.workspace.log_folder)
    index.catch_up()
    return index


def foreign(gate: Gate) -> list[dict[str, Any]]:
    """The records of other machines and older tools."""
    workspace = gate.workspace
    config = gate.governing.config
    keys = trusted_keys(gate.environment.home, config) if config.ledger.trusted_keys else ()
    return foreign_records(workspace.view_path, workspace.log_folder, gate.recorder.log.name, keys)


def found_records(gate: Gate, asked: Wanted) -> list[dict[str, Any]]:
    """The newest records that are asked for, newest first."""
    with own_index(gate) as index:
        own = index.find(
            event=asked.event,
            session_id=asked.session_id,
            intent_id=asked.intent_id,
            agent=asked.agent,
            path=asked.path,
            since=asked.since,
            until=asked.until,
            words=asked.words,
            limit=asked.limit,
        )
    return merged(own, foreign(gate), asked)


def by_id(gate: Gate, named: str) -> list[dict[str, Any]]:
    """The records whose id begins with, or holds, `named`."""
    with own_index(gate) as index:
        own = index.by_id(named) or index.find(text=named, limit=2)
    return [d for d in (*own, *foreign(gate)) if named in str(d["id"])]

"""The command line of `remit run`, as the faces get it."""

from pathlib import Path

from msgspec import Struct

NEWEST_RUN = ""


class RunArguments(Struct, frozen=True):
    """What a person asked for. `takes_json`: words come as JSON lines on standard input. `resume` and `fork` name a
    run, NEWEST_RUN the newest.
    """

    repo: Path
    task: str | None = None
    intent_id: str | None = None
    model: str | None = None
    mode: str | None = None
    images: tuple[Path, ...] = ()
    yes_within_scope: bool = False
    max_turns: int | None = None
    max_cost: float | None = None
    as_json: bool = False
    takes_json: bool = False
    resume: str | None = None
    fork: str | None = None
    is_terminal: bool = False
    without_floor: bool = False

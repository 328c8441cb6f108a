"""Checks that installed packages bring: the entry points of the group `remit.checks`."""

import os
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, TypeAlias

import msgspec
from msgspec import Struct

from remit.policy.engine import Check
from remit.workspace.whole_files import write_atomically

GROUP = "remit.checks"
CACHE = ".local/state/remit/checks.json"

LOOK_S = 2.0
"""How long a warm process goes on with what it knows: installing a package is no matter of milliseconds."""

Places: TypeAlias = tuple[tuple[str, int], ...]


class Known(Struct, frozen=True):
    """What is installed: `values` are `package.module:name` by name, as `places` stood when that was read."""

    places: Places
    values: dict[str, str]


class Latest:
    """What this process knows, and since when."""

    known: Known | None = None
    checks: Mapping[str, Check] = {}
    at = float("-inf")


def installed_checks(home: Path) -> Mapping[str, Check]:
    """The installed checks by name; one that cannot be loaded denies, as one that breaks does."""
    now = time.monotonic()
    if now - Latest.at < LOOK_S:
        return Latest.checks
    places = places_now()
    if Latest.known is None or Latest.known.places != places:
        Latest.known = remembered(home, places) or looked_up(home, places)
        Latest.checks = {f"{GROUP}:{name}": loaded(value) for name, value in Latest.known.values.items()}
    Latest.at = now
    return Latest.checks


def places_now() -> Places:
    """The folders that packages are installed in, each with the time of its last change: that is how one is noticed."""
    return tuple((path, changed_at(path)) for path in sys.path if path.endswith("-packages"))


def changed_at(path: str) -> int:
    """When the folder was changed, in ns; 0 where it is not there."""
    try:
        return os.stat(path).st_mtime_ns  # noqa: PTH116  for every fresh process
    except OSError:
        return 0


def remembered(home: Path, places: Places) -> Known | None:
    """What another process found there; None where the folders changed since, or none did."""
    try:
        known = msgspec.json.decode((home / CACHE).read_bytes(), type=Known)
    except (OSError, msgspec.MsgspecError, UnicodeDecodeError):
        return None
    return known if known.places == places else None


def looked_up(home: Path, places: Places) -> Known:
    """Read the metadata of all that is installed, once for all processes."""
    # it takes 30 ms to import and to look through the packages of a virtual environment
    from importlib.metadata import entry_points

    known = Known(places, {point.name: point.value for point in entry_points(group=GROUP)})
    try:
        (home / CACHE).parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        write_atomically(home / CACHE, msgspec.json.encode(known))
    except OSError:
        return known
    return known


def load(value: str) -> Callable[..., Any]:
    """What `package.module:name` names. Raises whatever importing it does, and TypeError where it cannot be called."""
    # as above: only where there is something to load
    from importlib.metadata import EntryPoint

    found = EntryPoint("hook", value, GROUP).load()
    if not callable(found):
        raise TypeError(f"{value} is no function")
    return found


def loaded(value: str) -> Check:
    """The check of that name, loaded when it is first asked: what fails then is its failure, and denies."""
    known: list[Check] = []

    def check(call: Any, facts: Any) -> Any:
        if not known:
            known.append(load(value))
        return known[0](call, facts)

    return check

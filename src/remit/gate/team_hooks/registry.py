"""Checks that an embedding program or an installed package brings. They can tighten a decision, never loosen it.

Checks that installed packages bring: the entry points of the group `remit.checks`.
"""

import os
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, TypeAlias, TypeVar

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from remit.core.call import Outcome, ToolCall
from remit.core.decision import Decision, ErrorType, Finding, Verdict, find_strictest
from remit.core.facts import Facts
from remit.policy.decide import Check, apply_mode, run_checks, split_waived
from remit.workspace.files.atomic import write_atomically

AfterListener: TypeAlias = Callable[[ToolCall, Outcome], str | None]
"""Hears of a call that came back; what it returns is told to the model."""

T = TypeVar("T")


class RegisteredHooks:
    """The registered hooks of one gate, by name, in the order in which they came."""

    def __init__(self) -> None:
        self.checks: dict[str, Check] = {}
        self.listeners: dict[str, AfterListener] = {}

    def add_check(self, name: str, check: Check) -> Callable[[], None]:
        """Register `check`; what is returned takes it out again. Raises ValueError for a name that is taken."""
        return register_hook(self.checks, name, check)

    def add_listener(self, name: str, listener: AfterListener) -> Callable[[], None]:
        """Register `listener`, likewise."""
        return register_hook(self.listeners, name, listener)


def register_hook(known: dict[str, T], name: str, hook: T) -> Callable[[], None]:
    """Put the hook under its name; what is returned takes it out again. Raises ValueError for a name that is taken."""
    if name in known:
        raise ValueError(f"there is a hook named {name!r} already: take it out first, or choose another name")
    known[name] = hook

    def remove() -> None:
        if known.get(name) is hook:
            del known[name]

    return remove


def join_findings(decision: Decision, found: tuple[Finding, ...], call: ToolCall, facts: Facts) -> Decision:
    """The decision with what hooks say of the call, safe calls included. A person's yes goes for what only asks.

    What is asked of nobody is denied: agents run the tool when a question is all they get.
    """
    if not found:
        return decision
    asking = tuple(f for f in found if f.verdict == "ask")
    left, grants = split_waived(asking, call, facts)
    every = (*decision.findings, *(f for f in found if f.verdict != "ask" or f in left))
    verdict = find_strictest(tuple(f.verdict for f in every))
    return replace(
        decision,
        effect=apply_mode("deny" if verdict == "ask" else verdict, facts.mode),
        verdict=verdict,
        findings=every,
        grants=(*decision.grants, *grants),
    )


def objection_code(verdict: Verdict) -> ErrorType:
    """The code of an objection: one that only asks is a person's to answer, like every other question to them."""
    return "USER_REJECTED" if verdict == "ask" else "HOOK_BLOCKED"


def run_registered_checks(checks: Mapping[str, Check], call: ToolCall, facts: Facts) -> tuple[Finding, ...]:
    """The objections, under the hooks' own names: no hook can speak as one of Remit's rules, which may be waived."""
    return tuple(
        replace(found, rule=name, code=objection_code(found.verdict))
        for name, check in checks.items()
        for found in run_checks({name: check}, call, facts)
        if found.verdict != "allow"
    )


ENTRY_POINT_GROUP = "remit.checks"
CACHE_PATH = ".local/state/remit/checks.json"

RECHECK_INTERVAL_S = 2.0
"""How long a warm process goes on with what it knows: installing a package is no matter of milliseconds."""

FolderTimes: TypeAlias = tuple[tuple[str, int], ...]


class InstalledChecks(Struct, frozen=True):
    """What is installed: `values` are `package.module:name` by name, as `places` stood when that was read."""

    places: FolderTimes
    values: dict[str, str]


class LoadedChecks:
    """What this process knows, and since when."""

    installed: InstalledChecks | None = None
    checks: Mapping[str, Check] = {}
    checked_at = float("-inf")


def load_installed_checks(home: Path) -> Mapping[str, Check]:
    """The installed checks by name; one that cannot be loaded denies, as one that breaks does."""
    now = time.monotonic()
    if now - LoadedChecks.checked_at < RECHECK_INTERVAL_S:
        return LoadedChecks.checks
    places = find_package_folders()
    if LoadedChecks.installed is None or LoadedChecks.installed.places != places:
        LoadedChecks.installed = read_cache(home, places) or find_entry_points(home, places)
        LoadedChecks.checks = {
            f"{ENTRY_POINT_GROUP}:{name}": make_lazy_check(value)
            for name, value in LoadedChecks.installed.values.items()
        }
    LoadedChecks.checked_at = now
    return LoadedChecks.checks


def find_package_folders() -> FolderTimes:
    """The folders that packages are installed in, each with the time of its last change: that is how one is noticed."""
    return tuple((path, folder_mtime_ns(path)) for path in sys.path if path.endswith("-packages"))


def folder_mtime_ns(path: str) -> int:
    """When the folder was changed, in ns; 0 where it is not there."""
    try:
        return os.stat(path).st_mtime_ns  # noqa: PTH116  for every fresh process
    except OSError:
        return 0


def read_cache(home: Path, places: FolderTimes) -> InstalledChecks | None:
    """What another process found there; None where the folders changed since, or none did."""
    try:
        known = msgspec.json.decode((home / CACHE_PATH).read_bytes(), type=InstalledChecks)
    except (OSError, msgspec.MsgspecError, UnicodeDecodeError):
        return None
    return known if known.places == places else None


def find_entry_points(home: Path, places: FolderTimes) -> InstalledChecks:
    """Read the metadata of all that is installed, once for all processes."""
    # it takes 30 ms to import and to look through the packages of a virtual environment
    from importlib.metadata import entry_points

    known = InstalledChecks(places, {point.name: point.value for point in entry_points(group=ENTRY_POINT_GROUP)})
    try:
        (home / CACHE_PATH).parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        write_atomically(home / CACHE_PATH, msgspec.json.encode(known))
    except OSError:
        return known
    return known


def load_function(value: str) -> Callable[..., Any]:
    """What `package.module:name` names. Raises whatever importing it does, and TypeError where it cannot be called."""
    # as above: only where there is something to load
    from importlib.metadata import EntryPoint

    found = EntryPoint("hook", value, ENTRY_POINT_GROUP).load()
    if not callable(found):
        raise TypeError(f"{value} is no function")
    return found


def make_lazy_check(value: str) -> Check:
    """The check of that name, loaded when it is first asked: what fails then is its failure, and denies."""
    functions: list[Check] = []

    def call_check(call: Any, facts: Any) -> Any:
        if not functions:
            functions.append(load_function(value))
        return functions[0](call, facts)

    return call_check

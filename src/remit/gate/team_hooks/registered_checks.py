"""Checks registered by an embedding program or an installed package: they tighten decisions and never loosen them."""

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
from remit.core.machine_paths import STATE_FOLDER
from remit.policy.decide import Check, apply_mode, run_checks, split_waived
from remit.workspace.files.atomic import write_atomically

AfterListener: TypeAlias = Callable[[ToolCall, Outcome], str | None]
"""Called with each completed call; its result is delivered to the model."""

T = TypeVar("T")


class RegisteredHooks:
    """Registered hooks of one gate by name, in order of registration."""

    def __init__(self) -> None:
        self.checks: dict[str, Check] = {}
        self.listeners: dict[str, AfterListener] = {}

    def add_check(self, name: str, check: Check) -> Callable[[], None]:
        """Register `check` and return its unregister function. Raises ValueError for a taken name."""
        return register_hook(self.checks, name, check)

    def add_listener(self, name: str, listener: AfterListener) -> Callable[[], None]:
        """Register `listener` and return its unregister function. Raises ValueError for a taken name."""
        return register_hook(self.listeners, name, listener)


def register_hook(known: dict[str, T], name: str, hook: T) -> Callable[[], None]:
    if name in known:
        raise ValueError(f"there is a hook named {name!r} already: take it out first, or choose another name")
    known[name] = hook

    def remove() -> None:
        if known.get(name) is hook:
            del known[name]

    return remove


def join_findings(decision: Decision, found: tuple[Finding, ...], call: ToolCall, facts: Facts) -> Decision:
    """Return the decision with the hooks' findings, for safe calls too. A person's grant waives only asking findings.

    A question without a person to answer becomes a denial: agents run the tool after an unanswered question.
    """
    if not found:
        return decision
    asking = tuple(f for f in found if f.verdict == "ask")
    unwaived, grants = split_waived(asking, call, facts)
    every = (*decision.findings, *(f for f in found if f.verdict != "ask" or f in unwaived))
    verdict = find_strictest(tuple(f.verdict for f in every))
    return replace(
        decision,
        effect=apply_mode("deny" if verdict == "ask" else verdict, facts.mode),
        verdict=verdict,
        findings=every,
        grants=(*decision.grants, *grants),
    )


def objection_code(verdict: Verdict) -> ErrorType:
    """Return the error code of a verdict: only a person answers an asking finding."""
    return "USER_REJECTED" if verdict == "ask" else "HOOK_BLOCKED"


def run_registered_checks(checks: Mapping[str, Check], call: ToolCall, facts: Facts) -> tuple[Finding, ...]:
    """Return the objections under the hooks' own names: no hook can pose as one of Remit's waivable rules."""
    return tuple(
        replace(found, rule=name, code=objection_code(found.verdict))
        for name, check in checks.items()
        for found in run_checks({name: check}, call, facts)
        if found.verdict != "allow"
    )


ENTRY_POINT_GROUP = "remit.checks"
CACHE_PATH = f"{STATE_FOLDER}/checks.json"

RECHECK_INTERVAL_S = 2.0
"""Interval between looks for newly installed packages in a warm process."""

FolderTimes: TypeAlias = tuple[tuple[str, int], ...]


class InstalledChecks(Struct, frozen=True):
    """Installed entry points: `values` maps names to `package.module:name`, as found when `places` had these times."""

    places: FolderTimes
    values: dict[str, str]


class LoadedChecks:
    """Checks known to this process, and the time of the last look."""

    installed: InstalledChecks | None = None
    checks: Mapping[str, Check] = {}
    checked_at = float("-inf")


def load_installed_checks(home: Path) -> Mapping[str, Check]:
    """Return the installed checks by name; an unloadable check denies like a broken check."""
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
    """Return the package folders with their modification times: a new package changes the time."""
    return tuple((path, folder_mtime_ns(path)) for path in sys.path if path.endswith("-packages"))


def folder_mtime_ns(path: str) -> int:
    """Return the folder's modification time in ns; 0 if missing."""
    try:
        return os.stat(path).st_mtime_ns  # noqa: PTH116  for every fresh process
    except OSError:
        return 0


def read_cache(home: Path, places: FolderTimes) -> InstalledChecks | None:
    """Return the cached entry points; None if a package folder changed since."""
    try:
        known = msgspec.json.decode((home / CACHE_PATH).read_bytes(), type=InstalledChecks)
    except (OSError, msgspec.MsgspecError, UnicodeDecodeError):
        return None
    return known if known.places == places else None


def find_entry_points(home: Path, places: FolderTimes) -> InstalledChecks:
    """Read the metadata of every installed package, and cache the result for later processes."""
    # Importing this and reading a virtual environment's packages takes 30 ms.
    from importlib.metadata import entry_points

    known = InstalledChecks(places, {point.name: point.value for point in entry_points(group=ENTRY_POINT_GROUP)})
    try:
        (home / CACHE_PATH).parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        write_atomically(home / CACHE_PATH, msgspec.json.encode(known))
    except OSError:
        return known
    return known


def load_function(value: str) -> Callable[..., Any]:
    """Return the function named `package.module:name`. Raises its import errors, and TypeError for a non-function."""
    # Imported only for an existing entry point: see above.
    from importlib.metadata import EntryPoint

    found = EntryPoint("hook", value, ENTRY_POINT_GROUP).load()
    if not callable(found):
        raise TypeError(f"{value} is no function")
    return found


def make_lazy_check(value: str) -> Check:
    """Return a check that loads its function on first use: an import error then denies the call."""
    functions: list[Check] = []

    def call_check(call: Any, facts: Any) -> Any:
        if not functions:
            functions.append(load_function(value))
        return functions[0](call, facts)

    return call_check

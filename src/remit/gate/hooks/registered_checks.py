"""Checks registered by an embedding program or an installed package: they tighten decisions and never loosen them."""

import os
import sys
from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import cache, lru_cache
from pathlib import Path
from typing import Any, TypeAlias, TypeVar

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from remit.core.call import Outcome, ToolCall
from remit.core.decision import Decision, ErrorType, Facts, Finding, Verdict, find_strictest
from remit.core.machine_paths import STATE_FOLDER
from remit.core.python_runtime import prepare_type
from remit.policy.decide import Check, apply_mode, run_checks, split_waived
from remit.workspace.safe_files import write_atomically

AfterListener: TypeAlias = Callable[[ToolCall, Outcome], str | None]
"""Called with each completed call; its result is delivered to the model."""

T = TypeVar("T")


class RegisteredHooks:
    """Registered hooks of one gate by name, in order of registration."""

    def __init__(self) -> None:
        self.checks: dict[str, Check] = {}
        self.listeners: dict[str, AfterListener] = {}


def register_hook(known: dict[str, T], name: str, hook: T) -> Callable[[], None]:
    """Register a hook and return the function that removes it. Raises ValueError for a taken name."""
    if name in known:
        raise ValueError(f"there is a hook named {name!r} already: take it out first, or choose another name")
    known[name] = hook

    def remove() -> None:
        if known.get(name) is hook:
            del known[name]

    return remove


class HookReplies(Struct, frozen=True):
    """Replies of the repository's hooks before a call, which has the latest arguments; `rewriters` replaced them."""

    call: ToolCall
    findings: tuple[Finding, ...] = ()
    words: tuple[str, ...] = ()
    rewriters: tuple[str, ...] = ()
    ran: bool = False
    spent_s: float = 0.0

    def with_finding(self, finding: Finding) -> "HookReplies":
        return replace(self, findings=(*self.findings, finding))

    def with_message(self, message: str) -> "HookReplies":
        return replace(self, words=(*self.words, message))


def join_findings(decision: Decision, found: tuple[Finding, ...], call: ToolCall, facts: Facts) -> Decision:
    """Return the decision with the hooks' findings, for safe calls too. A person's grant waives only asking findings. A
    question without a person to answer becomes a denial: agents run the tool after an unanswered question.
    """
    if not found:
        return decision
    unwaived, grants = split_waived(tuple(f for f in found if f.verdict == "ask"), call, facts)
    every = (*decision.findings, *(f for f in found if f.verdict != "ask" or f in unwaived))
    verdict = find_strictest(tuple(f.verdict for f in every))
    effect = apply_mode("deny" if verdict == "ask" else verdict, facts.mode)
    return replace(decision, effect=effect, verdict=verdict, findings=every, grants=(*decision.grants, *grants))


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


# Checks of installed packages

ENTRY_POINT_GROUP = "remit.checks"
CACHE_PATH = f"{STATE_FOLDER}/checks.json"


class InstalledChecks(Struct, frozen=True):
    """Installed entry points: `values` maps names to `package.module:name`, as found when `places` had these times."""

    places: tuple[tuple[str, int], ...]
    values: dict[str, str]


def load_installed_checks(home: Path) -> Mapping[str, Check]:
    """Return the installed checks by name; an unloadable check denies like a broken check."""
    places: list[tuple[str, int]] = []
    for path in sys.path:
        if path.endswith("-packages"):
            with suppress(OSError):
                # A new package changes the time of its folder.
                places.append((path, os.stat(path).st_mtime_ns))  # noqa: PTH116  for every call
    return find_installed_checks(home / CACHE_PATH, tuple(places))


@lru_cache(1)
def find_installed_checks(cache_file: Path, places: tuple[tuple[str, int], ...]) -> Mapping[str, Check]:
    """Return the entry points of every installed package, read again if a package folder changed since the cache."""
    known: InstalledChecks | None = None
    with suppress(OSError, msgspec.MsgspecError, UnicodeDecodeError):
        known = msgspec.json.decode(cache_file.read_bytes(), type=prepare_type(InstalledChecks))
    if known is None or known.places != places:
        known = scan_packages(places)
        with suppress(OSError):
            cache_file.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            write_atomically(cache_file, msgspec.json.encode(known))
    return {f"{ENTRY_POINT_GROUP}:{name}": make_lazy_check(value) for name, value in known.values.items()}


@lru_cache(1)
def scan_packages(places: tuple[tuple[str, int], ...]) -> InstalledChecks:
    # Importing this and reading a virtual environment's packages takes 30 ms.
    from importlib.metadata import entry_points

    return InstalledChecks(places, {point.name: point.value for point in entry_points(group=ENTRY_POINT_GROUP)})


def load_function(value: str) -> Callable[..., Any]:
    """Return the function named `package.module:name`. Raises its import errors, and TypeError for a non-function."""
    # Imported only for an existing entry point: see above.
    from importlib.metadata import EntryPoint

    found = EntryPoint("hook", value, ENTRY_POINT_GROUP).load()
    if not callable(found):
        raise TypeError(f"{value} is no function")
    return found


def make_lazy_check(value: str) -> Check:
    load = cache(lambda: load_function(value))
    return lambda call, facts: load()(call, facts)

"""Which tier a test belongs to: by what it starts, which its code and its fixtures' code show.

`unit` starts no process. `system` starts processes: git, commands, a daemon. `live` is a whole story: agents, browsers,
terminals, fleets, databases' servers; what costs over two CPU seconds is marked so by hand. Each test is in one tier;
with `-m unit`, a test that starts a process after all fails, and says which.
"""

import os
import sys
from collections import Counter
from collections.abc import Iterable, Iterator
from functools import cache
from pathlib import Path
from types import CodeType, FunctionType, MethodType, ModuleType
from typing import Any

import pytest

TESTS = Path(__file__).parent
TIERS = ("unit", "system", "live")

LIVE_FIXTURES = frozenset(
    {"chromium", "claude_code", "codex_cli", "fleet", "gemini_cli", "launch_chromium", "qwen_code"}
)
LIVE_NAMES = frozenset({"Fleet", "Terminal", "running_postgres", "sync_playwright"})
"""What starts fleets, terminals, servers of PostgreSQL, browsers."""
SYSTEM_NAMES = frozenset(
    {"Popen", "create_subprocess_exec", "fork", "forkpty", "run_command", "run_git", "start_process", "subprocess"}
)

started: Counter[str] = Counter()
"""Processes that the present test started, by program."""


def note_start(event: str, arguments: tuple[Any, ...]) -> None:
    """Count the processes that this one starts: a hook for `sys.addaudithook`."""
    if event == "subprocess.Popen":
        started[Path(os.fsdecode(arguments[0])).name] += 1
    elif event in {"os.fork", "os.forkpty", "os.posix_spawn"}:
        started[event] += 1


def mark_tier(item: pytest.Item) -> None:
    """Add the marker of a test's tier."""
    item.add_marker(find_tier(item))


def find_tier(item: Any) -> str:
    if any(item.get_closest_marker(name) for name in ("live", "exhaustive")):
        return "live"
    fixtures: dict[str, Any] = item._fixtureinfo.name2fixturedefs
    functions = [item.obj, *(each.func for name in fixtures for each in fixtures[name])]
    used = set[str]().union(*(names_used(function) for function in map(plain, functions) if function))
    if fixtures.keys() & LIVE_FIXTURES or used & LIVE_NAMES:
        return "live"
    return "system" if used & SYSTEM_NAMES or item.get_closest_marker("system") else "unit"


def plain(function: Any) -> FunctionType | None:
    """The function below a method, a decorator's wrapping or Hypothesis' own function."""
    inner: Any = getattr(getattr(function, "hypothesis", None), "inner_test", function)
    if isinstance(inner, MethodType):
        inner = inner.__func__
    while hasattr(inner, "__wrapped__"):
        inner = inner.__wrapped__
    return inner if isinstance(inner, FunctionType) else None


@cache
def names_used(function: FunctionType) -> frozenset[str]:
    """All names that a function uses, and what it calls of the tests' own code."""
    seen, waiting, found = set[FunctionType](), [function], set[str]()
    while waiting:
        each = waiting.pop()
        if each in seen:
            continue
        seen.add(each)
        names = set(list_names(each.__code__))
        found |= names
        waiting += [own for name in names for own in own_functions(each.__globals__.get(name), names)]
    return frozenset(found)


def list_names(code: CodeType) -> Iterator[str]:
    yield from code.co_names
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from list_names(constant)


def own_functions(value: object, names: Iterable[str]) -> Iterator[FunctionType]:
    """The functions of the tests' own code behind a global: itself, a class's methods, a module's that are named."""
    if isinstance(value, type):
        members = [plain(member) for member in vars(value).values()]
    elif isinstance(value, ModuleType):
        members = [plain(vars(value).get(name)) for name in names]
    else:
        members = [plain(value)]
    yield from (member for member in members if member and is_own(member))


@cache
def is_own(function: FunctionType) -> bool:
    return Path(function.__code__.co_filename).is_relative_to(TESTS)


def listen() -> None:
    """Begin to count what tests start."""
    sys.addaudithook(note_start)

"""The watcher behind open pages: when records are told, and when agents are told that a person is here."""

import asyncio
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest

from console.console_world import put_on_clock
from console.large_session import SESSION, append_events, make_long_session
from gate.driving import Agent
from remit.console.live import COALESCE_S, ChangeWatcher
from remit.console.repositories import Repositories
from remit.gate.gate import Gate
from stepped_clock import SteppedClock
from waiting import WAIT_S


async def run(function: Callable[..., Any], *arguments: object) -> Any:
    return function(*arguments)


@pytest.fixture
def gate(repository: Path, home: Path) -> Gate:
    make_long_session(repository, home, 3)
    return Gate.open(repository, put_on_clock(Agent(repository, home), SteppedClock()).environment)


@pytest.fixture
def watcher(gate: Gate) -> ChangeWatcher:
    return ChangeWatcher(Repositories(lambda: gate.environment), run, gate.environment.clock)


def test_new_records_are_told_in_steps(watcher: ChangeWatcher, repository: Path, home: Path) -> None:
    key = f"{repository.name}/{SESSION}"
    first = watcher.look(0.0)
    assert first.records == {}
    append_events(repository, home, 2, start=3)
    soon = watcher.look(COALESCE_S / 2)
    assert (soon.records, soon.log_bytes != first.log_bytes) == ({}, True)
    assert watcher.look(COALESCE_S).records == {key: 2}


def test_agents_know_at_once_of_a_person_who_may_answer_and_came_after_one_who_reads(
    watcher: ChangeWatcher, gate: Gate
) -> None:
    async def follow() -> None:
        reader = watcher.listen(lambda: True, can_answer=False)
        await read_until_state(reader)
        assert not gate.questions.is_watcher_present()
        person = watcher.listen(lambda: True)
        await read_until_state(person)
        async with asyncio.timeout(WAIT_S):  # the clock stands still: the next sign is not due
            while not gate.questions.is_watcher_present():
                await asyncio.sleep(0)
        await watcher.close()
        for stream in (reader, person):
            assert [event async for event in stream] == []

    asyncio.run(follow())


async def read_until_state(stream: AsyncIterator[bytes]) -> None:
    async with asyncio.timeout(WAIT_S):
        while b"event: state" not in await anext(stream):
            pass

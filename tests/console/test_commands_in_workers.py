"""Commands run in a worker that stays: their answers, their refusals, and what follows them."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from gate.driving import Agent, governed
from remit.console.guard import Refused
from remit.console.workers import WorkerPool


@pytest.fixture
def pool() -> Iterator[WorkerPool]:
    found = WorkerPool()
    yield found
    found.close()


def test_commands_share_a_worker_and_a_refused_one_takes_nothing_from_the_next(
    repository: Path, home: Path, pool: WorkerPool
) -> None:
    place = ("--repo", str(governed(repository)), "--json")
    first = pool.run_command("status", *place)
    (worker,) = pool.idle
    with pytest.raises(Refused, match="no-such-record") as refused:
        pool.run_command("show", "no-such-record", *place)
    assert refused.value.status == 404
    Agent(repository, home).select()
    assert pool.idle == [worker]
    assert first["mode"] == "enforce"
    (repository / ".orchestration" / "remit.toml").write_text('mode = "warn"\n')
    assert pool.run_command("status", *place)["mode"] == "warn", "nothing of the command before stays"
    assert pool.idle == [worker]


def test_blame_that_the_daemon_may_answer_comes_back_too(repository: Path, pool: WorkerPool) -> None:
    governed(repository)
    lines = pool.run_command("blame", "--repo", str(repository), "--json", "--", "src/app.py")["lines"]
    assert [line["line"] for line in lines] == [1, 2]

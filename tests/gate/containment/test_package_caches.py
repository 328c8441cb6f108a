"""Caches of contained commands are warm for the next one under the same intent, and for nobody else."""

import os
from pathlib import Path

import pytest

from gate.containment.test_run_command import gate, how, run
from remit.core.call import SessionKey
from remit.gate.gate import Gate
from remit.workspace.sandbox import staging
from remit.workspace.sandbox.containment import Containment
from remit.workspace.sandbox.staging import SCRATCH_FOLDER

__all__ = ["gate", "how"]

FILL = "mkdir -p ~/.cache/pip; echo wheel > ~/.cache/pip/w; rm ~/.cache/old"
ASK = "cat ~/.cache/pip/w ~/.cache/old > src/said 2>/dev/null; true"


@pytest.fixture(autouse=True)
def cache(home: Path) -> Path:
    folder = home / ".cache"
    folder.mkdir()
    (folder / "old").write_text("real\n")
    return folder


def said(gate: Gate, how: Containment, call_id: str) -> str:
    run(gate, how, ASK, call_id=call_id)
    return (gate.workspace.root / "src/said").read_text()


def test_the_next_command_under_the_intent_finds_it_and_the_real_cache_is_as_before(
    gate: Gate, how: Containment, cache: Path
) -> None:
    assert run(gate, how, FILL).code == 0
    assert said(gate, how, "call-2") == "wheel\n"
    assert said(gate, how, "call-3") == "wheel\n"
    assert [p.name for p in cache.iterdir()] == ["old"]


def test_under_another_intent_nothing_of_it_is_found(gate: Gate, how: Containment) -> None:
    run(gate, how, FILL)
    text = gate.workspace.intents_path.read_text()
    again = text.replace("docs/**", "src/**")
    gate.workspace.intents_path.write_text(again)
    gate.intents.clear(SessionKey("s1"), "test")
    gate.intents.select(SessionKey("s1"), "test", "INT-002")
    assert said(gate, how, "call-2") == "real\n"


def test_two_at_a_time_disturb_neither(gate: Gate, how: Containment) -> None:
    run(gate, how, FILL)
    inner = Gate.open(gate.workspace.root, gate.environment)
    kept = gate.environment.home / SCRATCH_FOLDER
    [room] = kept.glob("caches-*")
    names = os.listdir(room)  # noqa: PTH208
    for name in names:
        (room / name).rename(room / f"{name}.away")  # as another command does that has it
    assert said(inner, how, "call-2") == "real\n"
    for name in names:
        (room / f"{name}.away").rename(room / name)
    assert said(gate, how, "call-3") == "wheel\n"


def test_what_is_too_old_begins_anew(gate: Gate, how: Containment) -> None:
    run(gate, how, FILL)
    [room] = (gate.environment.home / SCRATCH_FOLDER).glob("caches-*")
    staging.trim_caches(room)
    assert room.exists()
    past = room.stat().st_mtime - staging.MAX_CACHE_AGE_S - 10
    os.utime(room, (past, past))
    staging.trim_caches(room)
    assert not room.exists()
    assert said(gate, how, "call-2") == "real\n"

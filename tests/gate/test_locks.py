"""No lock that another process holds on Remit's files keeps a hook waiting without end, and a contained command can
take none."""

import subprocess
import sys
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

import pytest

from gate.containment.test_run_command import gate, how, run
from gate.driving import Agent, governed
from remit.gate.gate import Gate
from remit.workspace.safe_files import FileLocked, lock_file
from remit.workspace.sandbox.containment import Containment, ContainmentKind

__all__ = ["gate", "how"]

HOLD = "import fcntl, sys; f = open(sys.argv[1]); fcntl.flock(f, fcntl.LOCK_EX); print('held', flush=True); input()"

LOCK_ALL = """
import fcntl, os, sys
held = []
for here, _, names in os.walk(sys.argv[1]):
    for name in names:
        f = open(os.path.join(here, name))
        fcntl.flock(f, fcntl.LOCK_EX | fcntl.LOCK_NB)
        held.append(name)
open('src/locked', 'w').write(' '.join(held))
"""


@contextmanager
def holding(path: Path) -> Generator[None]:
    """Another process that holds the lock of that file."""
    with subprocess.Popen([sys.executable, "-c", HOLD, path], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"held\n"
        yield
        process.communicate(b"\n")


def test_a_lock_is_waited_for_within_its_time_and_taken_where_it_gets_free(tmp_path: Path) -> None:
    path = tmp_path / "lock"
    path.touch()
    with path.open() as mine:
        with holding(path), pytest.raises(FileLocked, match="lock"):
            lock_file(mine.fileno(), path, timeout_s=0.2)
        lock_file(mine.fileno(), path, timeout_s=0.2)


def test_a_hook_answers_while_another_process_holds_a_lock(repository: Path, home: Path) -> None:
    root = governed(repository)
    agent = Agent(root, home)
    agent.select("INT-001")
    agent.write(root / "src/app.py", "one\n")
    held = root / ".git/remit/contents/waiting"
    with holding(held):
        agent.ask("Write", file_path=str(root / "src/app.py"), content="two\n")
    assert "permissionDecision" not in agent.ask("Write", file_path=str(root / "src/app.py"), content="two\n")


@pytest.mark.parametrize("way", ["overlay", "bind"])
def test_a_contained_command_finds_none_of_remits_files_to_lock(
    way: ContainmentKind, gate: Gate, how: Containment
) -> None:
    (gate.environment.home / ".local/state/remit/daemon.pid").touch()
    for place in (gate.workspace.state, gate.environment.home / ".local/state/remit"):
        assert any(place.iterdir())
        result = run(gate, Containment(way, how.program), f'python3 -c "{LOCK_ALL}" {place}', call_id=f"c{place}")
        assert (result.code, (gate.workspace.root / "src/locked").read_text()) == (0, "")

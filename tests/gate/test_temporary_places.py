"""In a temporary folder every program may write, whatever TMPDIR says: by text, with a file tool, and contained."""

import os
import shutil
import subprocess
import tempfile
from collections.abc import Generator
from contextlib import suppress
from pathlib import Path

import pytest

from conftest import run_git
from gate.containment.test_run_command import run
from gate.driving import INTENTS, Agent, allowed, governed, machine, overlay, refusal
from remit.core.call import SessionKey
from remit.core.machine_paths import TEMPORARY_FOLDERS
from remit.gate.gate import Gate
from remit.workspace.place.resolve_paths import OWN_TEMPORARY_NAME
from remit.workspace.place.workspace import register_repository


@pytest.fixture
def agent(repository: Path, home: Path) -> Agent:
    """An agent whose TMPDIR is neither of the system's folders."""
    found = Agent(governed(repository), home)
    (home / "tmp").mkdir(exist_ok=True)
    found.select()
    return found


@pytest.fixture(params=TEMPORARY_FOLDERS)
def shared(request: pytest.FixtureRequest) -> Generator[Path]:
    """A folder of the test's own in a temporary folder of the system."""
    folder = Path(tempfile.mkdtemp(prefix="places-", dir=request.param))
    yield folder
    shutil.rmtree(folder)


def test_every_door_lets_a_file_be_written_there(agent: Agent, shared: Path, home: Path) -> None:
    how = overlay(home)
    gate = Gate.open(agent.cwd, machine(home))
    result = run(gate, how, f"python3 -c \"open('{shared}/made', 'w').write('made')\"")
    assert (result.code, (shared / "made").read_text()) == (0, "made")
    assert allowed(agent.write(shared / "notes.md", "x"))
    for command in (f"printf x > {shared}/a", f"printf x | tee {shared}/b", f"cp README.md {shared}/c"):
        assert allowed(agent.ask("Bash", command=command)), command


def test_what_belongs_to_others_or_leads_away_stays_refused(agent: Agent, shared: Path, tmp_path: Path) -> None:
    (shared / "away").symlink_to("/etc")
    elsewhere = tmp_path / "elsewhere"
    elsewhere.write_text("x")
    # Without a hard link to it where another disk holds this folder.
    with suppress(OSError):
        (shared / "same").hardlink_to(elsewhere)
    same = [f"{shared}/same"] if (shared / "same").exists() else []
    own = f"{shared.parent}/{OWN_TEMPORARY_NAME}/x"
    for path in (f"{shared}/away/x", f"{shared}/../../etc/x", *same, own, str(shared.parent)):
        assert refusal(agent.ask("Write", file_path=path, content="x")) in ("OUTSIDE_WORKSPACE", "PROTECTED_PATH"), path
    if os.getuid() == 0:
        os.chown(shared, 12345, 12345)
        assert refusal(agent.ask("Write", file_path=f"{shared}/x", content="x")) == "OUTSIDE_WORKSPACE"
        assert refusal(agent.ask("Bash", command=f"printf x > {shared}/x")) == "OUTSIDE_WORKSPACE"


def test_beside_the_workspace_and_in_the_home_nothing_is_open(agent: Agent, tmp_path: Path, home: Path) -> None:
    for path in (tmp_path / "beside", home / ".bashrc"):
        assert refusal(agent.ask("Write", file_path=str(path), content="x")) == "OUTSIDE_WORKSPACE"
        assert refusal(agent.ask("Bash", command=f"printf x > {path}")) == "OUTSIDE_WORKSPACE"
    assert allowed(agent.write(home / "tmp" / "x", "x"))


def test_another_governed_repository_there_is_no_way_round(agent: Agent, shared: Path, home: Path) -> None:
    other = shared / "other"
    (other / "src").mkdir(parents=True)
    run_git(other, "init", "-q")
    governed(other, intents=INTENTS)
    gate = Gate.open(other, machine(home))
    register_repository(home, gate.workspace)
    path = other / "src" / "x"
    assert refusal(agent.ask("Write", file_path=str(path), content="x")) == "MISSING_OR_INVALID_INTENT"
    assert not allowed(agent.ask("Bash", command=f"printf x > {path}"))
    how = overlay(home)
    own = Gate.open(agent.cwd, machine(home))
    own.intents.select(SessionKey("s1"), "test", "INT-001")
    assert run(own, how, f"python3 -c \"open('{path}', 'w').write('x')\"").code != 0
    assert not path.exists()


def test_what_a_command_of_its_own_made_there_is_seen_by_the_next(agent: Agent, shared: Path, home: Path) -> None:
    how, gate = overlay(home), Gate.open(agent.cwd, machine(home))
    gate.intents.select(SessionKey("s1"), "test", "INT-001")
    run(gate, how, f"sh -c 'echo one > {shared}/x'")
    run(gate, how, f"sh -c 'cat {shared}/x > src/x'")
    assert (agent.cwd / "src" / "x").read_text() == "one\n"
    assert subprocess.run(["cat", f"{shared}/x"], capture_output=True, text=True, check=True).stdout == "one\n"

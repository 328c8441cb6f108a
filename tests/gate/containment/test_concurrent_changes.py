"""A person and a contained command at the same file: the person's state stays, the command's version is kept aside."""

import os
import stat
import subprocess
from pathlib import Path

import pytest

from gate.containment.test_run_command import gate, how, run
from gate.driving import body, records
from remit.gate.gate import Gate
from remit.workspace.sandbox.containment import Containment

__all__ = ["gate", "how"]

WRITES = {
    "in place": "echo command >> src/a.py",
    "cut short": "echo command > src/a.py",
    "by a new file": "echo command > src/t && mv src/t src/a.py",
    "by sed": "sed -i 's/.*/command/' src/a.py",
}


def meanwhile(gate: Gate, script: str) -> subprocess.Popen[bytes]:
    """What a person does once a command has come to its `pause`."""
    begun, done = places(gate)
    begun.parent.mkdir(exist_ok=True)
    return subprocess.Popen(["sh", "-c", f"{until_there(begun)}; {script}; touch {done}"], cwd=gate.workspace.root)


def pause(gate: Gate) -> str:
    """The words by which a command waits until the person has done it."""
    begun, done = places(gate)
    return f"touch {begun}; {until_there(done)}"


def places(gate: Gate) -> tuple[Path, Path]:
    """Files of the temporary folder, which contained commands share."""
    return gate.environment.temporary / "begun", gate.environment.temporary / "done"


def until_there(place: Path) -> str:
    return f"until test -e {place}; do sleep 0.02; done"


@pytest.mark.parametrize("write", WRITES)
@pytest.mark.parametrize("removal", ["rm src/a.py", "rm -r src"])
def test_a_file_that_a_person_deletes_meanwhile_stays_deleted(
    gate: Gate, how: Containment, write: str, removal: str
) -> None:
    person = meanwhile(gate, removal)
    result = run(gate, how, f"{WRITES[write]}; {pause(gate)}")
    person.wait()
    assert not (gate.workspace.root / "src/a.py").exists()
    assert "src/a.py" in result.dropped
    assert "taken away by somebody else" in result.said
    aside = list((gate.workspace.state / "aside").rglob("a.py"))
    assert [p.read_text().split()[-1] for p in aside] == ["command"]
    assert str(aside[0].parents[1]) in result.said
    denied = [body(r) for r in records(gate.workspace.root, "denied")]
    assert "src/a.py" in denied[-1]["violation"]["context"]["dropped"]


def test_an_untracked_file_that_a_person_deletes_meanwhile_stays_deleted(gate: Gate, how: Containment) -> None:
    (gate.workspace.root / "src/fresh").write_text("person\n")
    person = meanwhile(gate, "rm src/fresh")
    result = run(gate, how, f"echo more >> src/fresh; {pause(gate)}")
    person.wait()
    assert not (gate.workspace.root / "src/fresh").exists()
    assert set(result.dropped) == {"src/fresh"}


def test_a_new_file_beside_what_a_person_deletes_meanwhile_comes_over(gate: Gate, how: Containment) -> None:
    person = meanwhile(gate, "rm src/b.py")
    result = run(gate, how, f"echo new > src/new; mv src/a.py src/c.py; {pause(gate)}")
    person.wait()
    assert result.dropped == {}
    assert sorted(os.listdir(gate.workspace.root / "src"))[:2] == ["c.py", "data.json"]  # noqa: PTH208
    assert (gate.workspace.root / "src/new").read_text() == "new\n"


def test_what_a_command_deletes_while_a_person_edits_it_stays(gate: Gate, how: Containment) -> None:
    person = meanwhile(gate, "echo person > src/a.py; echo new > src/pkg/new")
    result = run(gate, how, f"rm -r src/a.py src/pkg; {pause(gate)}")
    person.wait()
    assert (gate.workspace.root / "src/a.py").read_text() == "person\n"
    assert (gate.workspace.root / "src/pkg/new").read_text() == "new\n"
    assert {"src/a.py", "src/pkg/new"} <= set(result.dropped)


def test_a_call_whose_id_is_a_path_keeps_its_versions_in_remits_folder(gate: Gate, how: Containment) -> None:
    person = meanwhile(gate, "rm src/a.py")
    run(gate, how, f"echo command >> src/a.py; {pause(gate)}", call_id="../../../out")
    person.wait()
    assert len(list((gate.workspace.state / "aside").rglob("a.py"))) == 1


# -- what lends a privilege, and what is no file ------------------------------------------------------------


def test_no_privilege_comes_over_and_that_is_told(gate: Gate, how: Containment) -> None:
    src = gate.workspace.root / "src"
    command = "cd src; echo x > s; chmod 6755 s; chmod u+s a.py; mkdir d; chmod 3777 d; echo y > plain"
    result = run(gate, how, command)
    assert stat.S_IMODE((src / "s").stat().st_mode) == 0o755
    assert not (src / "a.py").stat().st_mode & stat.S_ISUID
    assert stat.S_IMODE((src / "d").stat().st_mode) == 0o777
    assert (src / "s").read_text() == "x\n"
    assert set(result.dropped) == {"src/s", "src/a.py"}
    assert "without its set-user-ID" in result.said
    assert "src/s" in result.kept


def test_a_folder_that_hands_its_group_down_goes_on_to(gate: Gate, how: Containment) -> None:
    src = gate.workspace.root / "src"
    src.chmod(0o2755)
    run(gate, how, "mkdir src/d; echo 1 > src/d/f; touch src/x")
    assert (src / "d").stat().st_mode & stat.S_ISGID
    assert src.stat().st_mode & stat.S_ISGID


def test_pipes_and_sockets_are_left_behind_and_told_and_a_commit_stays(gate: Gate, how: Containment) -> None:
    src = gate.workspace.root / "src"
    listen = "import socket; socket.socket(socket.AF_UNIX).bind('src/s')"
    command = f'mkfifo src/p; rm src/b.py; mkfifo src/b.py; python3 -c "{listen}"; git commit -q --allow-empty -m 2'
    result = run(gate, how, command)
    assert not (src / "p").exists()
    assert not (src / "s").exists()
    assert (src / "b.py").is_file()
    assert set(result.dropped) == {"src/p", "src/s", "src/b.py"}
    assert "never brought over" in result.said
    said = subprocess.run(["git", "log", "--format=%s"], cwd=gate.workspace.root, capture_output=True, check=True)
    assert said.stdout.split() == [b"2", b"first"]

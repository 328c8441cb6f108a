"""Who is contained finds no program that would do something for it outside: its sockets are out of sight."""

import contextlib
import os
import shutil
import socket
import subprocess
import tempfile
from collections.abc import Generator
from pathlib import Path

import pytest

from gate.containment.test_run_command import gate, how, run
from remit.gate.gate import Gate
from remit.workspace.sandbox.containment import Containment, Limits, SandboxFailed, run_in_bubblewrap
from remit.workspace.sandbox.jail import Jail, bubblewrap_command, find_bubblewrap, find_sockets
from waiting import wait_until

__all__ = ["gate", "how"]

KNOCK = """python3 -c "
import socket, sys
code = socket.socket(socket.AF_UNIX).connect_ex(sys.argv[1].replace('@', chr(0)))
open('src/said', 'w').write('shut' if code else 'open')
" """


def listening(path: str) -> socket.socket:
    line = socket.socket(socket.AF_UNIX)
    line.bind(path)
    line.listen()
    return line


def knocked(gate: Gate, how: Containment, path: str) -> str:
    result = run(gate, how, f"{KNOCK} {path}")
    assert result.code == 0
    return (gate.workspace.root / "src/said").read_text()


@pytest.fixture
def temporary(gate: Gate) -> Generator[Path]:
    """The temporary folder of agents, whose name is short enough for a socket."""
    with tempfile.TemporaryDirectory(dir="/var/tmp") as name:
        gate.environment = gate.environment.__class__(
            gate.environment.home,
            Path(name),
            settings=gate.environment.settings,
            own_folders=gate.environment.own_folders,
        )
        yield Path(name)


@pytest.mark.parametrize(
    "name",
    [
        *("ssh-XabC/agent.7", ".X11-unix/X0", "tmux-1/default", "docker.sock", "vscode-ipc-1.sock"),
        *("nvimAbCd/0", "nvim.kim/Xy/0", "of/its/own/making/sock", "postgres.sock"),
    ],
)
def test_a_door_in_the_temporary_folder_is_shut(gate: Gate, how: Containment, temporary: Path, name: str) -> None:
    (temporary / name).parent.mkdir(exist_ok=True, parents=True)
    with listening(str(temporary / name)):
        assert knocked(gate, how, str(temporary / name)) == "shut"


@pytest.mark.skipif(os.getuid() != 0, reason="only root sees what stands in another user's private folder")
def test_a_socket_in_another_users_private_folder_stops_no_command(
    gate: Gate, how: Containment, temporary: Path
) -> None:
    folder = temporary / "theirs"
    folder.mkdir()
    with listening(str(folder / "sock")):
        os.chown(folder, 65534, 65534)
        folder.chmod(0o700)
        assert knocked(gate, how, str(folder / "sock")) == "shut"


def test_a_socket_that_no_table_of_this_namespace_names_is_shut(gate: Gate, how: Containment, temporary: Path) -> None:
    """As of a container that shares the folder: here it listens by a relative name."""
    (temporary / "in").mkdir()
    with contextlib.chdir(temporary / "in"), listening("sock"):
        assert knocked(gate, how, str(temporary / "in/sock")) == "shut"


def test_a_persons_nvim_writes_for_nobody_contained(gate: Gate, how: Containment, temporary: Path) -> None:
    nvim = shutil.which("nvim")
    if nvim is None:
        pytest.skip("NVIM'S SOCKET IS NOT TESTED WITH THE REAL nvim: there is none on this machine")
    environment = {k: v for k, v in os.environ.items() if k != "XDG_RUNTIME_DIR"} | {"TMPDIR": str(temporary)}
    target = gate.workspace.root / "docs/readme.md"
    before = target.read_text()
    with subprocess.Popen([nvim, "--clean", "--headless"], env=environment, stderr=subprocess.DEVNULL) as editor:
        try:
            wait_until(lambda: any(p.is_socket() for p in temporary.rglob("*")), "nvim does not listen")
            found = [p for p in temporary.rglob("*") if p.is_socket()]
            ask = f"""{nvim} --server {found[0]} --remote-expr 'writefile(["EVIL"], "{target}")'"""
            run(gate, how, f"TMPDIR={temporary} {ask}; echo done > src/said")
            assert target.read_text() == before
            subprocess.run(["bash", "-c", ask], check=True, capture_output=True)
            assert target.read_text() == "EVIL\n"
        finally:
            editor.kill()


def test_the_ssh_agent_is_reached_where_a_person_says_so(gate: Gate, how: Containment, temporary: Path) -> None:
    place = temporary / "ssh-XabC/agent.7"
    place.parent.mkdir()
    config = gate.workspace.config_path
    with listening(str(place)):
        result = run(gate, how, "git push nowhere", call_id="call-0")
        assert "ssh_agent = true" in result.said
        config.write_text('mode = "enforce"\n[containment]\nssh_agent = true\n')
        assert knocked(gate, how, str(place)) == "open"


def test_an_abstract_socket_of_others_is_shut(gate: Gate, how: Containment) -> None:
    text = gate.workspace.intents_path.read_text()
    gate.workspace.intents_path.write_text(text.replace("network: none\n    ", "", 1))
    name = f"remit-test-{os.getpid()}"
    with listening(f"\0{name}"):
        assert knocked(gate, how, f"@{name}") == "shut"


def test_a_folder_without_a_socket_is_no_door_whatever_its_name(tmp_path: Path) -> None:
    (tmp_path / "ssh-notes").mkdir()
    (tmp_path / "code-coverage").mkdir()
    (tmp_path / "docker.txt").touch()
    assert not [door for door in find_sockets(tmp_path, [tmp_path]) if tmp_path in door.parents]


@pytest.mark.skipif(find_bubblewrap() is None, reason="NO SANDBOX TESTED: there is no bubblewrap here")
@pytest.mark.parametrize("gone", ["since it was found", "while the sandbox is made"])
@pytest.mark.system
def test_a_socket_that_goes_away_stops_no_command(tmp_path: Path, gone: str) -> None:
    program, place = find_bubblewrap() or "", tmp_path / "socket"
    place.touch()
    jail = Jail(tmp_path, writable=(tmp_path / "made",), hidden=(place,))
    (tmp_path / "made").mkdir()
    started: list[int] = []
    if gone == "since it was found":
        place.unlink()

    def words(status: int) -> list[str]:
        made = bubblewrap_command(program, jail, ["sh", "-c", "echo once >> made/file"], status)
        if status:
            started.append(status)
            place.unlink(missing_ok=True)
        return made

    assert run_in_bubblewrap(words, Limits(60)).code == 0
    assert (tmp_path / "made/file").read_text() == "once\n"
    assert len(started) == (1 if gone == "since it was found" else 2)
    jail = Jail(tmp_path / "nowhere")
    with pytest.raises(SandboxFailed):
        run_in_bubblewrap(words, Limits(60))
    assert len(started) == (2 if gone == "since it was found" else 3), (
        "what fails for another reason is not tried again"
    )

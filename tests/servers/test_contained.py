"""The launcher, as processes: an agent's rewritten command, the client that runs it, the daemon that judges it."""

import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import Callable, Generator
from importlib.metadata import version
from pathlib import Path
from typing import Any

import pytest

import remit_hook
from forked_commands import run_in_bytes, start_ready
from gate.containment.test_runtime_data import insert, make_database, rows
from gate.driving import body, governed, overlay, records
from gate.hooks.trusted_hooks import trust_all
from processes import daemons_of, kill_daemons
from remit.servers.daemon import socket_path
from remit.workspace.sandbox.staging import SCRATCH_FOLDER
from waiting import WAIT_S, wait_until

MAIN = "from remit.cli import main; main()"


@pytest.fixture(scope="session")
def binary(tmp_path_factory: pytest.TempPathFactory) -> Path:
    compiler = shutil.which("cc") or shutil.which("gcc")
    if compiler is None:
        pytest.skip("THE LAUNCHER IS NOT TESTED: there is no C compiler on this machine")
    built = tmp_path_factory.mktemp("launcher") / "hook"
    source = Path(remit_hook.__file__).with_name("client.c")
    subprocess.run([compiler, "-O1", "-Wall", "-Wextra", "-Werror", "-o", built, source], check=True)
    return built


class Place:
    """A governed repository, the client where `init` puts it, and a daemon where a test starts one."""

    def __init__(self, home: Path, repository: Path) -> None:
        self.home = home
        self.root = governed(repository)
        (self.root / "src").mkdir(exist_ok=True)
        self.client = home / ".local/share/remit/bin/hook"
        self.client.parent.mkdir(parents=True)
        lines = (version("remit"), sys.executable, str(socket_path(home)), "20", "made from", "exec")
        self.client.with_name("hook.conf").write_text("".join(f"{line}\n" for line in lines))
        self.number = 0
        self.environment: dict[str, str] | None = None
        self.daemons: list[subprocess.Popen[bytes]] = []

    def daemon(self) -> int:
        self.daemons.append(start_ready(["daemon"]))
        [pid] = daemons_of(self.home)
        return pid

    def leave(self) -> None:
        kill_daemons(self.home)
        for process in self.daemons:
            process.wait()

    def ask(self, command: str, folder: Path | None = None) -> str:
        """The command that the agent is given in place of its own."""
        self.number += 1
        payload: dict[str, Any] = {"session_id": "s1", "cwd": str(folder or self.root), "hook_event_name": "PreToolUse"}
        payload |= {"tool_name": "Bash", "tool_use_id": f"t{self.number}", "tool_input": {"command": command}}
        environment = os.environ if self.environment is None else self.environment
        words = ["hook", "claude-code", "pre"]
        told = run_in_bytes(words, folder or self.root, environment, json.dumps(payload).encode())
        assert told.returncode == 0, told
        said: dict[str, Any] = json.loads(told.stdout)["hookSpecificOutput"] if told.stdout else {}
        return said["updatedInput"]["command"] if "updatedInput" in said else ""

    def start(self, command: str, **more: Any) -> subprocess.Popen[str]:
        words = ["bash", "-c", f"exec {self.ask(command)}"]
        return subprocess.Popen(words, cwd=self.root, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, **more)

    def run(self, command: str, stdin: str = "") -> subprocess.CompletedProcess[str]:
        words = ["bash", "-c", self.ask(command)]
        return subprocess.run(words, cwd=self.root, input=stdin, capture_output=True, text=True)

    def bodies(self, event: str) -> list[dict[str, Any]]:
        return [body(r) for r in records(self.root, event)]

    def staged(self) -> list[Path]:
        return [p for p in (self.home / SCRATCH_FOLDER).glob("*-*") if not p.name.startswith("spare-")]

    def wait_until_clean(self) -> None:
        wait_until(lambda: not self.staged(), self.staged)


@pytest.fixture(params=["c", "python"])
def place(request: pytest.FixtureRequest, home: Path, repository: Path) -> Generator[Place]:
    overlay(home)
    found = Place(home, repository)
    if request.param == "c":
        shutil.copy(request.getfixturevalue("binary"), found.client)
    else:
        script = Path(remit_hook.__file__).with_name("__main__.py").read_text()
        found.client.write_text(f"#!{sys.executable} -ISE\n{script}")
        found.client.chmod(0o755)
    found.ask("remit intent select INT-001")
    yield found
    found.leave()


@pytest.fixture
def quick(home: Path, repository: Path, binary: Path) -> Generator[Place]:
    """With the C client alone, and a daemon."""
    overlay(home)
    found = Place(home, repository)
    shutil.copy(binary, found.client)
    found.ask("remit intent select INT-001")
    found.daemon()
    yield found
    found.leave()


SCRIPT = (
    "python3 -c \"import sys; print(sys.stdin.read() + 'out'); sys.stderr.write('err\\n');"
    " open('src/new','w').write('n\\n'); open('README.md','w'); exit(3)\""
)


def run_elsewhere(place: Place, folder: Path) -> subprocess.CompletedProcess[str]:
    text = f"open('{place.root}/src/far.py','w').write('x'); open('{place.root}/far.md','w').write('x')"
    (folder / "x.py").write_text(text)
    words = ["bash", "-c", place.ask(f"python3 {folder}/x.py", folder)]
    return subprocess.run(words, cwd=folder, capture_output=True, text=True)


@pytest.mark.parametrize("is_served", [True, False], ids=["daemon", "fresh"])
def test_a_command_that_stands_elsewhere_finds_the_workspace_of_its_session(place: Place, is_served: bool) -> None:
    if is_served:
        place.daemon()
    folder = place.home / "tmp"
    folder.mkdir(exist_ok=True)
    done = run_elsewhere(place, folder)
    assert (done.returncode, done.stdout) == (0, "")
    assert "SCOPE_VIOLATION" in done.stderr
    assert ((place.root / "src/far.py").exists(), (place.root / "far.md").exists()) == (True, False)


@pytest.mark.parametrize("warm", [True, False], ids=["daemon", "alone"])
def test_it_runs_as_bare_and_what_is_out_of_scope_is_dropped_and_told(place: Place, warm: bool) -> None:
    if warm:
        place.daemon()
    done = place.run(SCRIPT, "in ")
    assert (done.returncode, done.stdout) == (3, "in out\n")
    assert done.stderr.startswith("err\n")
    assert "SCOPE_VIOLATION" in done.stderr
    assert (place.root / "README.md").read_text() == "# Example\n"
    assert (place.root / "src/new").read_text() == "n\n"
    assert [m["call"]["id"] for m in place.bodies("mutation")] == [f"t{place.number}"]
    assert place.bodies("denied")[-1]["violation"]["path"] == "README.md"
    place.wait_until_clean()


def test_a_daemon_that_died_meanwhile_is_done_without(quick: Place) -> None:
    process = quick.start("python3 -c \"open('src/a','w').write('a'); print('ready', flush=True); input()\"", stdin=-1)
    assert process.stdout is not None
    assert process.stdout.readline() == "ready\n"
    quick.leave()
    socket_path(quick.home).unlink()
    process.communicate("\n")
    assert process.returncode == 0
    assert (quick.root / "src/a").read_text() == "a"
    assert len(quick.bodies("mutation")) == 1


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_signal_reaches_the_command_and_what_it_then_does_counts(quick: Place, number: int) -> None:
    text = (
        f"import signal,sys; signal.pthread_sigmask(signal.SIG_BLOCK, [{number}]); print('ready', flush=True);"
        f"signal.sigwait([{number}]); open('src/got','w').write('g'); sys.exit(5)"
    )
    process = quick.start(f'python3 -c "{text}"')
    assert process.stdout is not None
    assert process.stdout.readline() == "ready\n"
    process.send_signal(number)
    process.communicate(timeout=WAIT_S)
    assert process.returncode == 5
    assert (quick.root / "src/got").read_text() == "g"


def test_who_kills_the_group_leaves_nothing_running_and_nothing_half_done(quick: Place) -> None:
    word = f"970.{os.getpid():07}"  # of this process of tests alone
    command = (
        f"python3 -c \"import signal,subprocess; open('src/a','w').write('a'); subprocess.Popen(['sleep','{word}']);"
        "print('ready', flush=True); signal.pause()\""
    )
    process = quick.start(command, start_new_session=True)
    assert process.stdout is not None
    assert process.stdout.readline() == "ready\n"
    os.killpg(process.pid, signal.SIGKILL)
    process.communicate(timeout=WAIT_S)
    wait_until(lambda: not running(word), "what the command started is still there")
    assert quick.staged()
    assert not (quick.root / "src/a").exists()
    assert quick.run("eval true").returncode == 0
    quick.wait_until_clean()


def running(word: str) -> bool:
    return any(word.encode() in cmdline(p) for p in Path("/proc").glob("[0-9]*"))


def cmdline(process: Path) -> bytes:
    try:
        return (process / "cmdline").read_bytes()
    except OSError:
        return b""


def limited(place: Place, setting: str) -> None:
    (place.root / ".orchestration/remit.toml").write_text(f'mode = "enforce"\n[containment]\n{setting}\n')


@pytest.mark.parametrize("warm", [True, False], ids=["daemon", "alone"])
def test_one_that_runs_too_long_is_ended_with_all_it_started_and_judged(place: Place, warm: bool) -> None:
    limited(place, "time_limit_s = 3")
    if warm:
        place.daemon()
    word = f"980.{os.getpid():07}"  # of this process of tests alone
    done = place.run(f"eval \"trap '' TERM; printf a > src/a; setsid sleep {word} & sleep 980\"")
    assert done.returncode == 124
    assert "it ran longer than 3 s" in done.stderr
    assert (place.root / "src/a").read_text() == "a"
    assert not running(word)
    place.wait_until_clean()


@pytest.mark.parametrize("warm", [True, False], ids=["daemon", "alone"])
def test_one_that_writes_too_much_is_ended_and_keeps_nothing(place: Place, warm: bool) -> None:
    limited(place, "size_limit_mib = 8")
    if warm:
        place.daemon()
    done = place.run(
        "python3 -c \"import signal; [open(f'src/{n}','wb').write(b'x' * 2**20) for n in range(24)]; signal.pause()\""
    )
    assert done.returncode == 124
    assert "nothing was kept: it wrote more than 8388608 bytes" in done.stderr
    assert list((place.root / "src").glob("[0-9]*")) == []
    place.wait_until_clean()


@pytest.mark.parametrize("warm", [True, False], ids=["daemon", "alone"])
def test_one_that_ends_before_anybody_measured_keeps_no_more(place: Place, warm: bool) -> None:
    limited(place, "size_limit_mib = 1")
    if warm:
        place.daemon()
    done = place.run('eval "head -c 3000000 /dev/zero > src/big"')
    assert (done.returncode, "nothing was kept: it wrote more than 1048576 bytes" in done.stderr) == (124, True)
    assert not (place.root / "src/big").exists()
    place.wait_until_clean()


def test_leave_is_given_once_for_that_command_and_that_session(quick: Place) -> None:
    line = quick.ask("eval true")
    changes: list[Callable[[str], str]] = [
        lambda text: text.replace("'eval true'", "'eval false'"),
        lambda text: text.replace("--session s1", "--session s2"),
        lambda text: text,
        lambda text: text,
    ]
    codes = [
        subprocess.run(["bash", "-c", change(line)], cwd=quick.root, capture_output=True).returncode
        for change in changes
    ]
    assert codes == [3, 3, 0, 3]


def test_who_is_contained_cannot_reach_the_daemon_nor_write_its_state(quick: Place) -> None:
    text = (
        "import os,socket; home=os.environ['HOME']+'/.local/state/rem'; s=socket.socket(socket.AF_UNIX);"
        "print(s.connect_ex(home+'it/daemon.sock') != 0); open('.gi'+'t/rem'+'it/state.db', 'a')"
    )
    done = quick.run(f'python3 -c "{text}"')
    assert done.stdout == "True\n"
    assert "Read-only" in done.stderr


def test_who_is_contained_reaches_no_abstract_socket_of_others(quick: Place) -> None:
    name = f"remit-launcher-{os.getpid()}"
    with socket.socket(socket.AF_UNIX) as line:
        line.bind(f"\0{name}")
        line.listen()
        text = f"import socket; print(socket.socket(socket.AF_UNIX).connect_ex(chr(0) + '{name}') != 0)"
        assert quick.run(f'python3 -c "{text}"').stdout == "True\n"


@pytest.mark.parametrize("where", ["temporary", "repository", "link"])
@pytest.mark.parametrize("warm", [True, False], ids=["daemon", "alone"])
def test_one_that_enters_another_place_runs_by_its_sessions_workspace(
    place: Place, home: Path, where: str, warm: bool
) -> None:
    folder = home / where
    (home / "there").mkdir()
    if where == "link":
        folder.symlink_to(home / "there")
    else:
        folder.mkdir()
    if where == "repository":
        subprocess.run(["git", "init", "-q"], cwd=folder, check=True)
    if warm:
        place.daemon()
    done = place.run(f"cd {folder} && python3 -c \"import os; print(os.getcwd()); open('{place.root}/src/a','w')\"")
    assert (done.returncode, done.stdout, done.stderr) == (0, f"{folder.resolve()}\n", "")
    assert (place.root / "src/a").exists()


def test_a_server_that_a_contained_command_started_is_reached_by_another(quick: Place, home: Path) -> None:
    with tempfile.TemporaryDirectory(dir="/var/tmp") as name:
        environment = {**os.environ, "TMPDIR": name}
        server = (
            "python3 -c \"import os,socket; s=socket.socket(socket.AF_UNIX); s.bind(os.environ['TMPDIR']+'/own.sock');"
            "s.listen(); print('ready', flush=True); s.accept(); open('src/reached','w')\""
        )
        quick.environment = environment
        running = quick.start(server, env=environment)
        assert running.stdout is not None
        assert running.stdout.readline() == "ready\n"
        knock = (
            "python3 -c \"import os,socket; socket.socket(socket.AF_UNIX).connect(os.environ['TMPDIR']+'/own.sock')\""
        )
        done = quick.start(knock, env=environment)
        assert done.communicate(timeout=WAIT_S)[1] == ""
        running.communicate(timeout=WAIT_S)
        assert (quick.root / "src/reached").exists()


def test_room_that_nothing_was_written_to_is_used_again(quick: Place) -> None:
    assert quick.run("eval true").returncode == 0
    [spare] = (quick.home / SCRATCH_FOLDER).glob("spare-*")
    kept = spare.stat().st_ino
    assert quick.run("eval true").returncode == 0
    assert [p.stat().st_ino for p in (quick.home / SCRATCH_FOLDER).glob("spare-*")] == [kept]
    assert quick.run("python3 -c \"open('src/b','w')\"").returncode == 0
    assert not list((quick.home / SCRATCH_FOLDER).glob("spare-*"))


@pytest.mark.parametrize("warm", [True, False], ids=["daemon", "alone"])
def test_where_the_sandbox_does_not_start_nothing_runs_and_that_is_said(place: Place, warm: bool) -> None:
    kept = place.home / SCRATCH_FOLDER / "containment.json"
    found = json.loads(kept.read_text())
    found["found"]["program"] = shutil.which("false")
    kept.write_text(json.dumps(found))
    if warm:
        place.daemon()
    done = place.run("python3 -c \"open('src/a','w')\"")
    assert done.returncode == 4
    assert "the sandbox could not be set up" in done.stderr
    assert not (place.root / "src/a").exists()


@pytest.mark.live
def test_runtime_data_is_held_by_the_daemon_while_the_launcher_runs(place: Place) -> None:
    config = place.root / ".orchestration" / "remit.toml"
    config.write_text(f'{config.read_text()}\n[containment]\ndata = ["db.sqlite3"]\n')
    trust_all(place.root, place.home)
    make_database(place.root / "db.sqlite3", "wal")
    place.daemon()
    for number in (2, 3):
        done = place.run(f"cat db.sqlite3-shm > /dev/null && {insert('db.sqlite3', number)}")
        assert "Remit: kept: db.sqlite3 (runtime data, " in done.stderr
    assert rows(place.root / "db.sqlite3") == [1, 2, 3]
    assert not list(place.root.glob("db.sqlite3-*"))
    assert len(place.bodies("data_changed")) == 2

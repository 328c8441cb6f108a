"""What a process does that a call left running is undone while no call is under way, where it is seen to do it."""

import os
import pty
import shlex
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from conftest import run_git
from gate.driving import allowed, body, records
from gate.test_lingering import working
from remit.gate.governing.settings import set_mode
from remit.servers.daemon import check_background_changes
from remit.workspace.place.workspace import workspace_at
from remit.workspace.processes.process_tracking import SessionProcess, find_session_processes
from servers.test_watches import Warm
from waiting import wait_until

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="/proc and inotify are Linux's")

WAITS = "import os, sys, time\nos.read(os.open('.git/go', os.O_RDWR), 1)\n"
LATER = f"""\
import subprocess, sys
code = {WAITS!r} + sys.argv[1]
subprocess.Popen([sys.executable, "-c", code, *sys.argv[2:]], start_new_session=True)
"""
"""A build that starts something and comes back."""

WRITE = "open(sys.argv[1], 'w').write('two\\n')"
WRITE_AND_END = f"{WRITE}; os._exit(0)"
"""The time in which an interpreter shuts down on a busy machine is not what is tested."""

HOLD = "import signal; f = open('docs/a.md', 'w'); f.write('two\\n'); f.flush(); signal.pause()"


class Leaving(Warm):
    """An agent whose commands leave processes; they know their session, as those of real agents do."""

    def __init__(self, cwd: Path, home: Path) -> None:
        super().__init__(cwd, home)
        self.session = f"session-{os.urandom(8).hex()}"  # of this test alone: others run beside it
        os.mkfifo(cwd / ".git" / "go")
        # Open at both ends: an open that waits for the other end loses it where one of the two is stopped meanwhile.
        self.pipe = os.open(cwd / ".git" / "go", os.O_RDWR)

    def leaves(self, code: str, *words: str, session: str = "") -> None:
        """Let a command come back, and leave a process that runs this code when it may."""
        (self.cwd / ".run.py").write_text(LATER)
        command = shlex.join([sys.executable, ".run.py", code, *words])
        before = self.ask("Bash", command=command)
        assert allowed(before), before
        variables = {**os.environ, "CLAUDE_CODE_SESSION_ID": session or self.session}
        subprocess.run(["sh", "-c", command], cwd=self.cwd, check=True, env=variables)
        self.tell("Bash", before["call_id"], {"stdout": ""}, command=command)
        self.go()

    def go(self) -> None:
        """What was left may begin, now that it was seen."""

        def is_seen() -> bool:
            self.watch.following.note_call()
            return any(self.is_left(one) for one in self.watch.following.live_processes)

        wait_until(is_seen, lambda: self.watch.status)
        os.write(self.pipe, b"1")

    def is_left(self, one: SessionProcess) -> bool:
        """Whether this is what is left in the end, of this very test."""
        return one.folder == str(self.cwd) and not any(word in one.argv for word in (".run.py", "sh"))

    def is_alone_left(self) -> bool:
        """Whether nothing else of the call is followed any more: who left it names the file, too."""
        looks = self.watch.following
        with looks.lock:
            has_ended = any(ended for _, _, ended in looks.recent_looks)
            return not has_ended and all(self.is_left(one) for one in looks.live_processes)

    def wait_for_record(self, event: str, path: str = "docs/a.md") -> None:
        """Do what the daemon does while nobody calls, until such a record of that file is there."""

        def is_recorded() -> bool:
            self.look()
            return any(path in str(one) for one in records(self.cwd, event))

        wait_until(is_recorded, lambda: self.watch.status)

    def goes_by(self, seconds: float) -> None:
        """Do what the daemon does while nobody calls, for so long: nothing tells that nothing will come."""
        until = time.monotonic() + seconds
        while time.monotonic() < until:
            time.sleep(0.1)
            self.look()

    def look(self) -> None:
        if self.watches.has_suspects:
            self.gates.for_each_gate(check_background_changes)


@pytest.fixture
def leaving(repository: Path, home: Path) -> Iterator[Leaving]:
    working(repository, home)
    (repository / ".gitignore").write_text(".run.*\n")
    run_git(repository, "commit", "-qam", "ignore")
    found = Leaving(repository, home)
    found.select()
    found.watching()
    yield found
    found.watch.close()
    os.close(found.pipe)
    for one in find_session_processes().values():
        if one is not None and one.session == found.session:
            with suppress(ProcessLookupError):
                os.kill(one.pid, signal.SIGKILL)


WAYS: dict[str, tuple[str, list[str]]] = {
    "named": (WRITE_AND_END, ["docs/a.md"]),
    "open": (HOLD, []),
    "said": ("open('docs/a.md', 'w'); os._exit(0)", []),
}


@pytest.mark.parametrize("way", WAYS)
def test_what_a_process_writes_that_a_call_left_is_undone_and_told(leaving: Leaving, way: str) -> None:
    code, words = WAYS[way]
    leaving.leaves(code, *words)
    leaving.wait_for_record("restore")
    assert (leaving.cwd / "docs" / "a.md").read_text() == "one\n"
    edit = body(records(leaving.cwd, "human_edit")[-1])
    assert (edit["origin"], edit["files"][0]["path"]) == ("unknown", "docs/a.md")
    assert f"{leaving.session} left running" in edit["likeliest"]["docs/a.md"][0]
    assert body(records(leaving.cwd, "restore")[-1])["rules"] == {"docs/a.md": "SCOPE_VIOLATION"}
    told = leaving.ask("Bash", command="make").get("additionalContext", "")
    assert "left running, changed docs/a.md" in told
    assert "remit restore" in told


def test_what_it_writes_in_scope_stays(leaving: Leaving) -> None:
    leaving.leaves(WRITE, "src/app.py")
    leaving.wait_for_record("human_edit", "src/app.py")
    leaving.send("Stop")
    assert (leaving.cwd / "src" / "app.py").read_text() == "two\n"
    assert records(leaving.cwd, "restore") == []


def test_what_a_person_writes_beside_such_a_process_stays(leaving: Leaving) -> None:
    """It is there, it names the file, it even reads it: and it did not write it."""
    leaving.leaves("import signal; f = open(sys.argv[1]); open('.git/reads', 'w'); signal.pause()", "docs/a.md")
    wait_until((leaving.cwd / ".git/reads").exists)
    wait_until(leaving.is_alone_left)
    (leaving.cwd / "docs" / "a.md").write_text("a person's\n")
    leaving.goes_by(1.5)
    leaving.shell("true")
    leaving.send("Stop")
    assert (leaving.cwd / "docs" / "a.md").read_text() == "a person's\n"
    assert records(leaving.cwd, "restore") == []
    assert body(records(leaving.cwd, "human_edit")[-1])["origin"] == "unknown"


@pytest.mark.parametrize("personal", ["an editor", "a terminal"])
def test_what_a_person_writes_in_a_program_that_the_agent_opened_stays(
    leaving: Leaving, tmp_path: Path, personal: str
) -> None:
    """It names the file, has it open for writing, and ends then; and it was the person who saved and closed it."""
    script = tmp_path / "gedit"
    script.write_text(f"{WAITS}f = {WRITE}; time.sleep(0.3)\n")
    words = [sys.executable, str(script if personal == "an editor" else script.with_name("tool.py")), "docs/a.md"]
    script.with_name("tool.py").write_text(script.read_text())
    before = leaving.ask("Bash", command="make")
    end, other = pty.openpty()
    lead = "import fcntl, os, sys, termios; os.setsid()\n"
    lead += "fcntl.ioctl(0, termios.TIOCSCTTY, 0)\n" if personal == "a terminal" else ""
    lead += "os.execv(sys.argv[1], sys.argv[1:])"
    variables = {**os.environ, "CLAUDE_CODE_SESSION_ID": leaving.session}
    process = subprocess.Popen([sys.executable, "-c", lead, *words], cwd=leaving.cwd, env=variables, stdin=other)
    leaving.tell("Bash", before["call_id"], {"stdout": ""}, command="make")

    def is_seen_there() -> bool:
        leaving.watch.following.note_call()
        return any(one.terminal and leaving.is_left(one) for one in leaving.watch.following.live_processes)

    if personal == "a terminal":
        wait_until(is_seen_there, has_failed=lambda: process.poll() is not None)
    leaving.go()
    process.wait()
    leaving.goes_by(1.5)
    leaving.send("Stop")
    os.close(end)
    os.close(other)
    assert (leaving.cwd / "docs" / "a.md").read_text() == "two\n"
    assert records(leaving.cwd, "restore") == []


def test_what_a_strangers_process_writes_stays(leaving: Leaving) -> None:
    leaving.leaves(WRITE, "docs/a.md", session="nobody-here")
    leaving.wait_for_record("human_edit")
    assert (leaving.cwd / "docs" / "a.md").read_text() == "two\n"


def test_the_next_command_does_not_bring_back_what_was_undone_before_it(leaving: Leaving) -> None:
    leaving.leaves(HOLD)
    wait_until(lambda: (leaving.cwd / "docs" / "a.md").read_text() == "two\n")
    for _ in range(2):
        leaving.shell("python3 -c 'pass'")
        assert (leaving.cwd / "docs" / "a.md").read_text() == "one\n"


def test_without_a_warm_process_what_is_still_open_is_undone_at_the_next_call(repository: Path, home: Path) -> None:
    agent = working(repository, home)
    agent.shell("python3 -c 'pass'")
    words = [sys.executable, "-c", HOLD]
    variables = {**os.environ, "CLAUDE_CODE_SESSION_ID": agent.session}
    with subprocess.Popen(words, cwd=repository, env=variables) as process:
        wait_until(lambda: (repository / "docs" / "a.md").read_text() == "two\n", has_failed=process.poll)
        agent.send("Stop")
        process.kill()
    assert (repository / "docs" / "a.md").read_text() == "one\n"


@pytest.mark.parametrize("mode", ["observe", "warn"])
def test_outside_of_enforce_the_process_is_named_and_nothing_undone(leaving: Leaving, mode: Any) -> None:
    set_mode(workspace_at(leaving.cwd, leaving.cwd), mode)
    leaving.leaves(WRITE, "docs/a.md")
    leaving.wait_for_record("human_edit")
    assert (leaving.cwd / "docs" / "a.md").read_text() == "two\n"
    assert records(leaving.cwd, "restore") == []
    assert "left running" in str(body(records(leaving.cwd, "human_edit")[-1])["likeliest"])

"""A hostile agent in the jail of its attempt: what it tries, and what comes of it."""

import hashlib
import json
import os
import signal
import socket
import sqlite3
import sys
from collections.abc import Generator
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from conftest import run_git
from fleet.jailed_attempt import PRELUDE, JailedAttempt
from gate.driving import body, governed, machine, records
from processes import daemons_of
from remit.core.call import SessionKey
from remit.core.machine_paths import KEY_PATH
from remit.gate.gate import Gate
from remit.ledger.reader import read_lines
from remit.servers.daemon import HookRequest, unpack_request
from remit.servers.hook import HookFrame, answer
from remit.workspace.merging import Identity
from remit.workspace.place.workspace import register_repository
from remit.workspace.safe_files import hold_lock
from remit.workspace.sandbox.attempt_places import find_inner_bubblewrap
from remit.workspace.sandbox.jail import find_bubblewrap
from remit.workspace.sandbox.landlock import SCOPES_SINCE, abi_version
from remit_fleet.workers.attempt_door import find_kind

pytestmark = pytest.mark.skipif(find_bubblewrap() is None, reason="NO JAIL TESTED: there is no bubblewrap here")


ASK_VARIABLES = b"0\0utf-8\0/usr/bin/git\0" + b"1\0TZ=UTC\0"


@pytest.fixture
def attempt(repository: Path, home: Path) -> Generator[JailedAttempt]:
    made = JailedAttempt(repository, home)
    yield made
    made.end_daemons()


READ_ONLY, BUSY, NOT_THERE = "Read-only file system", "Device or resource busy", "No such file or directory"
NOT_PERMITTED, NO_PROCESS, NO_FOLDER = "Operation not permitted", "No such process", "No such file or directory"
ATTACKS: dict[str, tuple[str, str]] = {
    # Remit's records
    "write the ledger": ("open(GIT + '/remit/log/0001.jsonl', 'ab').write(b'{}')", NO_FOLDER),
    "make a ledger": ("os.makedirs(GIT + '/remit/log')", READ_ONLY),
    "list the records": ("str(os.listdir(GIT + '/remit'))", "[]"),
    "truncate the state": ("open(GIT + '/remit/state.db', 'wb')", READ_ONLY),
    "move the records away": ("os.rename(GIT + '/remit', GIT + '/gone')", BUSY),
    "read the key": ("open(STATE + '/key').read()", NOT_THERE),
    "read the fleet's database": ("open(STATE + '/fleet.db').read()", NOT_THERE),
    "leave a record in the spool": ("os.makedirs(STATE + '/spool')", READ_ONLY),
    "take the door away": ("os.unlink(STATE + '/daemon.sock')", READ_ONLY),
    "write its assignment": ("open(OWN + '/remit/assignment.json', 'w')", READ_ONLY),
    # what git reads outside of the jail later
    "write git's settings": (
        "run('git', 'config', 'core.fsmonitor', 'touch /tmp/x')",
        f"could not lock|Read-only|{BUSY}",
    ),
    "write settings of the worktree": ("open(OWN + '/config.worktree', 'a')", READ_ONLY),
    "put settings in place": ("os.replace(junk('x'), OWN + '/config.worktree')", f"{BUSY}|cross-device"),
    "make a hook": ("open(GIT + '/hooks/post-checkout', 'w')", READ_ONLY),
    "set attributes": ("os.makedirs(GIT + '/info/x')", READ_ONLY),
    "name another repository": ("open(OWN + '/commondir', 'w')", READ_ONLY),
    "make a repository of its own": ("os.unlink(TREE + '/.git')", BUSY),
    # refs
    # in the copy of git's folder that is its own, none of the repository's
    "move main": ("run('git', 'update-ref', 'refs/heads/main', 'HEAD~1')", "done"),
    "delete main": ("run('git', 'update-ref', '-d', 'refs/heads/main')", "done"),
    "move what lands": ("run('git', 'update-ref', 'refs/heads/remit/next', 'HEAD')", "done"),
    "write a note": ("run('git', 'notes', '--ref=remit', 'add', '-m', 'x')", "done"),
    "write a ref of Remit's": ("run('git', 'update-ref', 'refs/remit/snapshots/x', 'HEAD')", "done"),
    "move another attempt's branch": ("run('git', 'update-ref', 'refs/heads/remit/INT-002/1', 'HEAD~1')", "done"),
    "pack the refs": ("run('git', 'pack-refs', '--all')", "done"),
    "stash": ("junk(TREE + '/src/app.py') and run('git', 'stash')", "done"),
    "make a worktree": ("run('git', 'worktree', 'add', '/tmp/w', '-b', 'w')", "done"),
    "delete the objects": ("run('rm', '-rf', GIT + '/objects')", f"{BUSY}|Read-only"),
    "move the objects": ("os.rename(GIT + '/objects', GIT + '/gone')", BUSY),
    "borrow from elsewhere": ("open(GIT + '/objects/info/alternates', 'w')", READ_ONLY),
    "write the real objects": ("open(SHARED + '/pack/x', 'w')", READ_ONLY),
    "write the copies from the other side": ("os.makedirs(SHARED + '/../common/x')", READ_ONLY),
    "push": ("run('git', 'push', 'origin', 'HEAD:refs/heads/main')", "does not appear to be a git repository|fatal"),
    # the rest of the machine
    "write another attempt's files": ("os.listdir(OTHER)", NOT_THERE),
    "write the main worktree": ("open(MAIN + '/src/app.py').read()", NOT_THERE),
    "write the rules": ("open(MAIN + '/.orchestration/active_intents.yaml', 'a')", READ_ONLY),
    "end the worker": ("os.kill(WORKER, 9)", NO_PROCESS),
    "end the daemon": ("os.kill(DAEMON, 9)", NO_PROCESS),
    "look into the worker": ("str(ptrace(WORKER))", "-1"),
    "read the worker's variables": ("str('HIDDEN' in environs())", "False"),
    "unmount": (
        "run('unshare', '-Urm', 'sh', '-c', 'umount ' + GIT + '/remit; ls ' + GIT + '/remit/log')",
        f"{NOT_PERMITTED}|{NOT_THERE}|not found",
    ),
    "make it writable": (
        "run('unshare', '-Urm', 'sh', '-c', f'mount -o remount,rw,bind {GIT}/config; echo x >> {GIT}/config')",
        f"{NOT_PERMITTED}|{READ_ONLY}|not found",
    ),
    # Remit's own socket
    "ask for a link to the console": ("speak(['console', 'note', 'open'])", "may ask for"),
    "ask about another repository": ("speak(['blame', 'note', MAIN])", "may ask for"),
    "tell of another worktree": ("tell_of(OTHER)", "speaks for no call"),
    "tell of the main worktree": ("tell_of(MAIN)", "speaks for no call"),
}
TOOLS = """
import ctypes, glob, re, socket

def run(*words):
    done = subprocess.run(words, capture_output=True, text=True)
    return done.stdout + done.stderr if done.returncode else "done"

def junk(path):
    open(path, "w").write("junk")
    return path

def ptrace(pid):
    return ctypes.CDLL(None, use_errno=True).ptrace(16, pid, 0, 0)

def environs():
    found = []
    for name in glob.glob("/proc/[0-9]*/environ"):
        try:
            found.append(open(name, errors="replace").read())
        except OSError:  # it has ended
            pass
    assert found
    return "".join(found)

def speak(fields):
    line = socket.socket(socket.AF_UNIX)
    line.connect(STATE + "/daemon.sock")
    line.sendall(b"\\0".join([b"RMT1", b"x", *(field.encode() for field in fields)]) + b"\\0\\0")
    line.shutdown(socket.SHUT_WR)
    return b"".join(iter(lambda: line.recv(4096), b"")).decode(errors="replace")

def tell_of(folder):
    given = {"file_path": folder + "/src/app.py", "content": "x"}
    return str(hook("PreToolUse", "pre", cwd=folder, tool_name="Write", tool_use_id="f", tool_input=given))

for name, attack in ATTACKS.items():
    try:
        said = str(eval(attack) or "done")
    except Exception as error:
        said = str(error)
    print("RESULT", json.dumps([name, said[-2000:]]), flush=True)
"""


OWN_AGENT = """
from pathlib import Path
from remit.core.call import Citation, SessionKey, ToolCall, hash_arguments
from remit.gate.gate import Gate
from remit.gate.machine import Environment
from remit.gate.perform import ToolOutput

session = SessionKey("run-1")
gate = Gate.open(Path(TREE), Environment(home=Path(HOME), temporary=Path(os.environ["TMPDIR"])))
gate.intents.select(session, "remit", "INT-001")

def perform(command, call_id):
    def act(access):
        with open(os.environ["TMPDIR"] + "/output", "wb+") as output:
            end = access.run_command(output.fileno(), environment=dict(os.environ))
            output.seek(0)
            return ToolOutput(ok=end.code == 0, text=output.read().decode(errors="replace"), exit_code=end.code)

    arguments = {"command": command}
    performed = gate.perform(
        ToolCall(
            agent="remit",
            session=session,
            tool="execute_command",
            effect="execute",
            cwd=TREE,
            call_id=call_id,
            command=command,
            arguments=arguments,
            arguments_sha256=hash_arguments(arguments),
            citation=Citation("INT-001", "INTENT_EVOLUTION"),
            whole_workspace=True,
        ),
        act,
    )
    return performed.output.text if performed.output else "".join(performed.messages)
"""
BY_COMMAND: dict[str, tuple[str, str]] = {
    **{name: attack for name, attack in ATTACKS.items() if not attack[0].startswith(("speak(", "tell_of("))},
    "leave a record in the spool": ("os.makedirs(STATE + '/spool')", "done"),  # in a folder that vanishes
    "take the door away": ("os.unlink(STATE + '/daemon.sock')", NOT_THERE),
    "look through the agent's process": (
        "[open(p + STATE + '/key') for p in glob.glob('/proc/[0-9]*/root') if p != f'/proc/{os.getpid()}/root']",
        "Permission denied",
    ),
    "look into the agent": ("str(ptrace(os.getppid()))", "-1"),
    "read with Remit's own commands": (
        "run(sys.executable, '-c', 'from remit.cli import main; main()', 'log')",
        "out of its reach",
    ),
}
"""What a command of Remit's own agent tries, whose process holds the records open."""


def describe_files(folder: Path, *, besides: str = "") -> dict[str, str]:
    files = [path for path in folder.rglob("*") if path.is_file() and not (besides and besides in str(path))]
    return {str(path): hashlib.sha256(path.read_bytes()).hexdigest() for path in files}


def test_what_a_hostile_agent_tries_in_its_jail_comes_to_nothing(
    attempt: JailedAttempt, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OTHER_SECRET", "HIDDEN")
    run_git(attempt.root, "branch", "remit/next")
    run_git(attempt.root, "remote", "add", "origin", str(home / "origin.git"))
    (home / KEY_PATH).touch()
    (home / ".local/state/remit/fleet.db").touch()
    common = attempt.root / ".git"
    with attempt.open_door():
        attempt.run("hook('SessionStart', 'note', source='startup')")
        refs, logged = run_git(attempt.root, "for-each-ref"), list(read_lines(common / "remit/log"))
        steering = {**describe_files(common / "hooks"), **describe_files(common / "info")}
        settings = (common / "config").read_bytes()
        sources = describe_files(attempt.root, besides="/.git/")
        named = "".join(f"{name} = {str(path)!r}\n" for name, path in attempt.list_places().items())
        named += f"WORKER, DAEMON = {os.getpid()}, {daemons_of(home)[0]}\n"
        attacks = {name: attack for name, (attack, _) in ATTACKS.items()}
        _, printed = attempt.run(f"{named}ATTACKS = {attacks!r}\n{TOOLS}")
    results = dict(json.loads(line[7:]) for line in printed.splitlines() if line.startswith("RESULT "))
    unexpected = {
        name: results.get(name, printed[-2000:])
        for name, (_, expected) in ATTACKS.items()
        if not any(part in results.get(name, "") for part in expected.split("|"))
    }
    assert unexpected == {}
    assert run_git(attempt.root, "for-each-ref") == refs
    assert (common / "config").read_bytes() == settings
    assert {**describe_files(common / "hooks"), **describe_files(common / "info")} == steering
    assert describe_files(attempt.root, besides="/.git/") == sources
    assert list(read_lines(common / "remit/log"))[: len(logged)] == logged, "the ledger only grew"
    with sqlite3.connect(common / "remit/state.db") as state:
        assert state.execute("pragma integrity_check").fetchone() == ("ok",)
    assert daemons_of(home) != []


@pytest.mark.skipif(find_inner_bubblewrap() is None, reason="NO JAIL WITHIN A JAIL TESTED: bubblewrap cannot make one")
def test_what_a_command_of_remits_own_agent_tries_comes_to_nothing_and_is_recorded(
    attempt: JailedAttempt, home: Path
) -> None:
    run_git(attempt.root, "branch", "remit/next")
    Gate.open(attempt.root, machine(home)).intents.select(SessionKey("before"), "remit", "INT-001")  # makes the key
    register_repository(home, attempt.places.main)
    common, state = attempt.root / ".git", home / ".local/state/remit"
    named = "".join(f"{name} = {str(path)!r}\n" for name, path in attempt.list_places().items())
    named += f"WORKER, DAEMON = {os.getpid()}, 0\n"
    attacks = {name: attack for name, (attack, _) in BY_COMMAND.items() if name != "end the daemon"}
    script = attempt.places.temporary / "attacks.py"
    script.write_text(f"{PRELUDE}{named}ATTACKS = {attacks!r}\n{TOOLS}")
    refs, settings = run_git(attempt.root, "for-each-ref"), (common / "config").read_bytes()
    _, printed = attempt.run(
        f"""{OWN_AGENT}
print(perform({f"{sys.executable} {script}"!r}, "t1"))
print(perform("echo 'y = 1' > src/made.py; git add src/made.py; git commit -qm mine; git log -1 --format=%s", "t2"))
print(perform("echo mine > LICENSE; kill -TERM 0; sleep 60", "t3"))
""",
        agent="remit",
    )
    results = dict(json.loads(line[7:]) for line in printed.splitlines() if line.startswith("RESULT "))
    unexpected = {
        name: results.get(name, printed[-2000:])
        for name in attacks
        if not any(part in results.get(name, "") for part in BY_COMMAND[name][1].split("|"))
    }
    assert unexpected == {}
    assert "mine" in printed.splitlines()
    assert attempt.trees.end_git_folder(attempt.places.tree) == ""
    assert run_git(attempt.root, "log", "-1", "--format=%s", "remit/INT-001/1") == "mine\n"
    assert [line for line in run_git(attempt.root, "for-each-ref").splitlines() if "INT-001" not in line] == [
        line for line in refs.splitlines() if "INT-001" not in line
    ]
    assert (common / "config").read_bytes() == settings
    assert not (state / "spool").exists() or list((state / "spool").iterdir()) == []
    calls = [body(record)["call"]["id"] for record in attempt.records("tool_result")]
    assert calls == ["t1", "t2", "t3"]
    assert not (attempt.tree / "LICENSE").exists(), "undone, since it is out of scope"


def test_each_call_is_judged_and_recorded_although_the_records_are_out_of_reach(attempt: JailedAttempt) -> None:
    with attempt.open_door():
        _, printed = attempt.run("""
hook("SessionStart", "note", source="startup")
print(write(TREE + "/src/app.py", "x = 1\\n", "t1")[1])
print(write(TREE + "/README.md", "mine\\n", "t2")[1]["permissionDecisionReason"])
print(shell("python3 -c 'open(\\"src/made.py\\", \\"w\\").write(\\"y = 1\\")'", "t3"))
print(shell("python3 -c 'open(\\"LICENSE\\", \\"w\\").write(\\"mine\\")'", "t4"))
print(shell("git add -A && git commit -qm mine && git log --format=%s -1", "t5"))
""")
    assert "SCOPE_VIOLATION" in printed
    assert "mine" in printed.splitlines()
    calls = {body(record)["call"]["id"] for record in attempt.records("tool_result")}
    assert {"t1", "t3", "t4", "t5"} <= calls
    denied = [body(r)["call"]["id"] for r in attempt.records() if body(r).get("decision", {}).get("effect") == "deny"]
    assert denied == ["t2"]
    assert (attempt.tree / "src/made.py").read_text() == "y = 1"
    assert not (attempt.tree / "LICENSE").exists(), "undone from outside"


def test_a_daemon_that_dies_is_started_again_and_no_call_is_lost(attempt: JailedAttempt, home: Path) -> None:
    with attempt.open_door():
        attempt.run("hook('SessionStart', 'note', source='startup')")
        [first] = daemons_of(home)
        os.kill(first, signal.SIGKILL)
        _, printed = attempt.run(
            'hook("SessionStart", "note", source="resume"); print(write(TREE + "/src/app.py", "x = 2\\n", "t1"))'
        )
        assert daemons_of(home) not in ([], [first])
    assert "(0, {}, '')" in printed
    assert [body(record)["call"]["id"] for record in attempt.records("tool_result")] == ["t1"]


def test_without_a_door_every_call_is_denied_and_says_what_to_do(attempt: JailedAttempt) -> None:
    end, printed = attempt.run("""
import functools
print = functools.partial(print, flush=True)
code, said, errors = write(TREE + "/src/app.py", "x = 3\\n", "t1")
print(code, errors)
print(hook("PostToolUse", "post", tool_name="Write", tool_use_id="t1", tool_input={}, tool_response={})[0])
print(subprocess.run([sys.executable, "-c", "from remit.cli import main; main()", "status"]).returncode)
""")
    assert end.code == 0
    lines = printed.splitlines()
    assert lines[0].startswith("2 remit: the worker of this plan does not answer")
    assert lines[2:] == ["0", lines[3], lines[4], "4"], lines
    assert "out of its reach" in lines[3]
    assert "x = 3" not in (attempt.tree / "src/app.py").read_text()


def test_where_no_daemon_comes_a_call_is_denied_and_the_person_is_told_once(attempt: JailedAttempt, home: Path) -> None:
    with hold_lock(home / ".local/state/remit/daemon.lock"), attempt.open_door(patience_s=0.3):
        _, printed = attempt.run("""
for call in ("t1", "t2"):
    print(write(TREE + "/src/app.py", "x = 4\\n", call), flush=True)
print(hook("SessionEnd", "note", reason="exit")[0])
""")
    first, second, last = printed.splitlines()
    assert (first, last) == (second, "0")
    assert first.startswith("(2, {}, ")
    assert "Try it again in a minute" in first
    assert [text.partition("\n")[0] for text in attempt.told] == [
        "the daemon does not answer: calls of INT-001 are refused"
    ]
    assert "x = 4" not in (attempt.tree / "src/app.py").read_text()
    assert attempt.records("tool_result") == []


def test_a_daemon_that_starts_slowly_is_waited_for_and_no_other_one_is_started(
    attempt: JailedAttempt, home: Path
) -> None:
    with attempt.open_door(patience_s=0.01):
        _, printed = attempt.run('print(hook("SessionStart", "note", source="startup")[0])')
        assert len(daemons_of(home)) == 1
    assert (printed, attempt.told) == ("0\n", [])
    assert len(attempt.records("session_start")) == 1


@pytest.mark.skipif(abi_version() < SCOPES_SINCE, reason="this kernel has no scopes for abstract sockets")
def test_no_socket_of_others_is_reached(attempt: JailedAttempt, home: Path) -> None:
    with socket.socket(socket.AF_UNIX) as abstract, socket.socket(socket.AF_UNIX) as named:
        abstract.bind(f"\0remit-test-{os.getpid()}")
        path = Path(f"/tmp/remit-test-{os.getpid()}.sock")
        named.bind(str(path))
        for each in (abstract, named):
            each.listen()
        _, printed = attempt.run(f"""
import socket
for path in ("\\0remit-test-{os.getpid()}", "/tmp/remit-test-{os.getpid()}.sock"):
    try:
        socket.socket(socket.AF_UNIX).connect(path)
        print("reached")
    except OSError as error:
        print(error.strerror)
""")
    path.unlink()
    assert printed.splitlines() == ["Operation not permitted", "No such file or directory"]


def test_what_an_agent_leaves_in_gits_folder_for_git_outside_is_taken_away(attempt: JailedAttempt, home: Path) -> None:
    """A branch that is another name of main, links that git would write through, a pipe that it would wait at."""
    own, common = attempt.places.tree.git_dir, attempt.root / ".git"
    assert own is not None
    (home / "victim").write_text("mine\n")
    main = run_git(attempt.root, "rev-parse", "main")
    _, printed = attempt.run(f"""
OWN, COMMON = {str(own)!r}, {str(common)!r}
subprocess.run("echo y = 1 > src/made.py; git add -A; git commit -qm mine", shell=True, check=True)
branch = COMMON + "/refs/heads/remit/INT-001/1"
open(branch, "w").write("ref: refs/heads/main\\n")
os.symlink("1", COMMON + "/refs/heads/remit/INT-001/7")
os.unlink(OWN + "/logs/HEAD"); os.symlink(HOME + "/victim", OWN + "/logs/HEAD")
os.mkfifo(OWN + "/MERGE_HEAD")
open(OWN + "/index.lock", "w")
os.unlink(OWN + "/HEAD")
os.symlink(HOME, COMMON + "/objects/zz")
os.mkfifo(COMMON + "/objects/pack/pack-0.idx")
os.mkdir(OWN + "/folder.lock")
attempt(lambda: open(COMMON + "/objects/info/alternates", "w"))
""")
    assert "Read-only file system" in printed
    handed = attempt.trees.hand_in(attempt.places.tree, [("src/**",)], "done", Identity("a", "a@example.org", 1))
    assert run_git(attempt.root, "rev-parse", "main") == main
    assert run_git(attempt.root, "rev-parse", "remit/INT-001/1").strip() == handed.commit
    assert run_git(attempt.root, "show", "remit/INT-001/1:src/made.py") == "y = 1\n"
    assert (home / "victim").read_text() == "mine\n"
    assert not (own / "MERGE_HEAD").exists()
    assert attempt.trees.remove_traps(attempt.places.tree, attempt.places.branch) == ()


def test_a_repository_in_the_worktree_starts_no_program_outside(attempt: JailedAttempt, home: Path) -> None:
    attempt.run("""
subprocess.run("git init -q src/inner && cd src/inner && git commit -q --allow-empty -m x", shell=True, check=True)
subprocess.run(["git", "-C", "src/inner", "config", "core.fsmonitor", "touch %s/ran; false" % HOME], check=True)
subprocess.run(["git", "-C", "src/inner", "config", "filter.x.clean", "touch %s/ran" % HOME], check=True)
subprocess.run("echo '* filter=x' > src/inner/.gitattributes; echo x > src/inner/x", shell=True, check=True)
subprocess.run("git -c core.fsmonitor= add src/inner", shell=True)
""")
    attempt.trees.list_changed_files(attempt.places.tree)
    attempt.trees.checkpoint(attempt.places.tree, "INT-001", 1, "kept", 1)
    attempt.trees.hand_in(attempt.places.tree, [("src/**",)], "done", Identity("a", "a@example.org", 1))
    assert not (home / "ran").exists()


def test_the_tools_of_an_agent_work_through_the_door(attempt: JailedAttempt) -> None:
    with attempt.open_door():
        _, printed = attempt.run("""
server = subprocess.Popen(
    [sys.executable, "-c", "from remit.cli import main; main()", "mcp"],
    stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
)
def send(**message):
    server.stdin.write(json.dumps({"jsonrpc": "2.0", **message}) + "\\n")
    server.stdin.flush()
client = {"name": "test", "version": "1"}
send(id=1, method="initialize", params={"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": client})
server.stdout.readline()
send(method="notifications/initialized")
send(id=2, method="tools/call", params={"name": "select_active_intent", "arguments": {"intent_id": "INT-001"}})
print(json.loads(server.stdout.readline())["result"]["isError"], flush=True)
server.stdin.close()
print(server.wait(60))
""")
    assert printed.split() == ["False", "0"]
    assert attempt.records("intent_selected") or any("INT-001" in str(record) for record in attempt.records())


@pytest.mark.parametrize(
    ("words", "kind"),
    [
        ("blame README.md", "question"),
        ("blame --json -L1,2 -- README.md", "question"),
        ("blame HEAD README.md", "question"),
        ("blame --contents {home}/secret README.md", "refused"),
        ("blame --contents={home}/secret README.md", "refused"),
        ("blame --ignore-revs-file {home}/secret README.md", "refused"),
        ("blame -S{home}/secret README.md", "refused"),
        ("blame -L --repo={home} README.md", "refused"),
        ("blame {home}/secret", "refused"),
        ("blame src/out", "refused"),
        ("blame src/inner/x", "refused"),
        ("fleet README.md", "refused"),
        ("", "refused"),
    ],
)
def test_a_question_of_an_agent_is_about_files_of_its_worktree_alone(
    tmp_path: Path, home: Path, words: str, kind: str
) -> None:
    (home / "secret").write_text("mine\n")
    tree = tmp_path.resolve() / "tree"
    (tree / "src/inner/.git").mkdir(parents=True)
    (tree / ".git").touch()
    (tree / "src/out").symlink_to(home / "secret")
    payload = ASK_VARIABLES + b"".join(word.encode() + b"\0" for word in words.format(home=home).split())
    assert find_kind(make_request("blame", tree, payload), tree) == kind
    assert find_kind(make_request("blame", tree / "src/inner", payload), tree) == "refused"


def test_the_launcher_of_contained_commands_is_none_of_an_attempt(tmp_path: Path) -> None:
    assert find_kind(make_request("exec", tmp_path, b"plan\0"), tmp_path) == "refused"


def make_request(agent: str, folder: Path, payload: bytes) -> HookRequest:
    return unpack_request(b"\0".join([b"RMT1", b"x", agent.encode(), b"note", os.fsencode(folder)]) + b"\0\0" + payload)


FOREIGN: dict[str, dict[str, Any]] = {
    "a command that names it": {"cwd": "{tree}", "tool_input": {"command": "echo x >> {other}/made.py"}},
    "a command outside": {"cwd": "/", "tool_input": {"command": "echo x >> {other}/made.py"}},
    "a command nowhere": {"cwd": "/", "tool_input": {"command": "true"}},
    "what nobody can read": {"cwd": 7, "session_id": 7},
}


@pytest.mark.parametrize("named", FOREIGN)
def test_an_agent_of_an_attempt_leaves_no_record_elsewhere(
    attempt: JailedAttempt, home: Path, tmp_path: Path, named: str
) -> None:
    other = tmp_path / "other"
    other.mkdir()
    run_git(other, "init", "-q")
    governed(other)
    fields = {"session_id": "s1", "transcript_path": "", "tool_name": "Bash", "tool_use_id": "t1", **FOREIGN[named]}
    text = json.dumps(fields).replace("{tree}", str(attempt.tree)).replace("{other}", str(other))
    frame = HookFrame("claude-code", str(other), "pre", 0, str(attempt.tree))
    payload = text.replace("{", '{"hook_event_name": "PreToolUse", ', 1).encode()
    said = answer(payload, frame, machine(home))
    assert said.exit_code == 2 or b'"deny"' in said.stdout
    (other / "made.py").write_text("the person's\n")
    payload = text.replace("{", '{"hook_event_name": "PostToolUse", "tool_response": {}, ', 1).encode()
    answer(payload, replace(frame, event_class="post"), machine(home))
    assert records(other) == []

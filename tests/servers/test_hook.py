"""The failure bars: what the hook answers when something under it is broken, through the real process."""

import contextlib
import json
import os
import sqlite3
import subprocess
import sys
import time
from collections.abc import Callable, Generator
from pathlib import Path
from typing import Any

import pytest

from conftest import run_git
from forked_commands import run_in_bytes
from gate.driving import Agent, allowed, body, governed, records, refusal
from mounting import mounted
from remit.gate.state.database import BUSY_TIMEOUT_S

TICK_S = 1 / os.sysconf("SC_CLK_TCK")  # the start of a process is told in ticks
REMIT = [sys.executable, "-m", "remit", "hook", "claude-code"]


def hook(
    kind: str, payload: bytes, cwd: Path | str, env: dict[str, str] | None = None
) -> subprocess.CompletedProcess[bytes]:
    """Run the real command."""
    variables = {**os.environ, **(env or {})}
    return run_in_bytes(["hook", "claude-code", kind], Path(cwd), variables, payload)


def denied(done: subprocess.CompletedProcess[bytes]) -> str:
    """The reason of a denial, whichever way it is said; fails where there is none."""
    assert b"Traceback" not in done.stderr, done.stderr.decode()
    if done.returncode == 2:
        return done.stderr.decode()
    found = json.loads(done.stdout)["hookSpecificOutput"]
    assert found["permissionDecision"] == "deny"
    return str(found["permissionDecisionReason"])


def passed(done: subprocess.CompletedProcess[bytes]) -> str:
    """What was said beside letting it pass; fails on a denial."""
    assert b"Traceback" not in done.stderr, done.stderr.decode()
    assert done.returncode == 0
    assert b"permissionDecision" not in done.stdout
    return (done.stdout + done.stderr).decode()


def pre(agent: Agent, tool: str = "Write", **arguments: Any) -> bytes:
    """The payload before a call."""
    given = arguments or {"file_path": "src/x.py", "content": "x"}
    return agent.payload("PreToolUse", tool_name=tool, tool_input=given, tool_use_id="toolu_1")


def post(agent: Agent, tool: str = "Write", call_id: str = "toolu_1", **arguments: Any) -> bytes:
    """The payload after it."""
    given = arguments or {"file_path": "src/x.py", "content": "x"}
    return agent.payload("PostToolUse", tool_name=tool, tool_input=given, tool_use_id=call_id, tool_response={})


@pytest.fixture
def agent(repository: Path, home: Path) -> Agent:
    """An agent under INT-001 in a repository that enforces."""
    found = Agent(governed(repository), home)
    found.select()
    return found


def test_the_process_allows_with_silence_and_denies_with_words(agent: Agent) -> None:
    assert passed(hook("pre", pre(agent), agent.cwd)) == ""
    assert "SCOPE_VIOLATION" in denied(hook("pre", pre(agent, file_path="docs/x", content=""), agent.cwd))


@pytest.mark.parametrize(
    "junk",
    [b"", b"junk", b"\xff\xfe", b"[" * 200_000, b'{"a":' * 200_000, b'{"hook_event_name":"PreToolUse"}'],
    ids=["empty", "junk", "not UTF-8", "deep", "deep objects", "keys missing"],
)
def test_junk_is_refused_before_and_passed_after(agent: Agent, junk: bytes) -> None:
    assert "remit doctor" in denied(hook("pre", junk, agent.cwd))
    for kind in ("post", "note"):
        assert "no hook payload" in passed(hook(kind, junk, agent.cwd))


def test_a_huge_payload_is_refused(agent: Agent) -> None:
    assert "64 MiB" in denied(hook("pre", b" " * (65 * 1024 * 1024), agent.cwd))


def test_a_bare_repository_and_no_repository_are_none_of_our_business(tmp_path: Path, home: Path) -> None:
    bare = tmp_path / "bare.git"
    run_git(tmp_path, "init", "-q", "--bare", str(bare))
    for folder in (bare, tmp_path):
        agent = Agent(folder, home)
        assert passed(hook("pre", pre(agent), folder)) == ""
        assert passed(hook("post", post(agent), folder)) == ""


Breaking = Callable[[Path], object]


def folder_there(path: Path) -> None:
    path.unlink()
    path.mkdir()


def fifo_there(path: Path) -> None:
    path.unlink()
    os.mkfifo(path)


def link_to_nothing(path: Path) -> None:
    path.unlink()
    path.symlink_to("nowhere")


BROKEN_INTENTS: dict[str, Breaking] = {
    "no YAML": lambda p: p.write_text("{["),
    "huge": lambda p: p.write_bytes(b"# x\n" * 2_600_000),
    "a folder": folder_there,
    "a FIFO": fifo_there,
    "not UTF-8": lambda p: p.write_bytes(b"version: \xff\xfe\n"),
    "empty": lambda p: p.write_bytes(b""),
    "bad id": lambda p: p.write_text("version: '1.0'\nactive_intents: [{id: x, owned_scope: [a]}]\n"),
}


@pytest.mark.parametrize("broken", BROKEN_INTENTS.values(), ids=BROKEN_INTENTS)
def test_a_broken_intents_file_denies_changes_and_lets_read(agent: Agent, broken: Breaking) -> None:
    broken(agent.cwd / ".orchestration" / "active_intents.yaml")
    why = denied(hook("pre", pre(agent), agent.cwd))
    assert "INTENTS_FILE_INVALID" in why
    assert "active_intents.yaml" in why
    assert "A person has to mend it" in why
    assert allowed(agent.read("src/app.py"))


def test_an_intents_file_that_is_gone_or_a_dangling_link_leaves_no_intent(agent: Agent) -> None:
    link_to_nothing(agent.cwd / ".orchestration" / "active_intents.yaml")
    assert denied(hook("pre", pre(agent), agent.cwd))


@pytest.mark.parametrize("text", ["mode = 3", "mode = 'off'", "[[", "unknown = 1", "\0"])
def test_a_broken_configuration_is_no_way_out_of_enforcement(agent: Agent, text: str) -> None:
    (agent.cwd / ".orchestration" / "remit.toml").write_text(text)
    why = denied(hook("pre", pre(agent), agent.cwd))
    assert "CONFIG_INVALID" in why
    assert "remit.toml" in why


def test_a_damaged_state_is_moved_aside_said_and_recorded(agent: Agent) -> None:
    state = agent.cwd / ".git" / "remit" / "state.db"
    for suffix in ("-wal", "-shm"):
        state.with_name(state.name + suffix).unlink(missing_ok=True)
    state.write_bytes(b"garbage" * 1000)
    why = denied(hook("pre", pre(agent), agent.cwd))
    assert "state.db.damaged" in why
    assert state.with_name("state.db.damaged").read_bytes().startswith(b"garbage")
    [repair] = records(agent.cwd, "recovery")
    assert (body(repair)["reason"], body(repair)["moved_to"]) == ("state_damaged", "state.db.damaged")
    agent.select()
    assert passed(hook("pre", pre(agent), agent.cwd)) == ""


def test_a_state_that_another_process_holds_denies_and_loses_no_result(agent: Agent) -> None:
    first = agent.ask("Write", call_id="toolu_1", file_path="src/x.py", content="x")
    assert allowed(first)
    (agent.cwd / "src" / "x.py").write_text("x\n")
    holder = sqlite3.connect(agent.cwd / ".git" / "remit" / "state.db", isolation_level=None)
    holder.execute("BEGIN IMMEDIATE")
    try:
        why = denied(hook("pre", pre(agent, file_path="src/y.py", content="y"), agent.cwd))
        said = passed(hook("post", post(agent), agent.cwd))
    finally:
        holder.execute("ROLLBACK")
        holder.close()
    assert "locked" in why
    assert f"{BUSY_TIMEOUT_S:.0f} s" in why
    assert "locked" in said
    mutation = body(records(agent.cwd, "mutation")[-1])
    assert (mutation["files"][0]["path"], mutation["intent_id"], mutation["covered"]) == ("src/x.py", "INT-001", True)


@pytest.mark.parametrize("name", ["head", "log"])
def test_garbage_in_the_log_folder_stops_no_work_and_leaves_a_record(agent: Agent, name: str) -> None:
    folder = agent.cwd / ".git" / "remit" / "log"
    if name == "head":
        (folder / "head").write_bytes(b"\xff garbage")
    else:
        [segment] = folder.glob("*.jsonl")
        with segment.open("ab") as file:
            file.write(b"\xff half a line")
    assert passed(hook("pre", pre(agent), agent.cwd)) == ""
    if name == "log":
        assert records(agent.cwd, "recovery")


@pytest.mark.parametrize("path", ["", "/nonexistent"])
def test_without_git_enforce_denies_and_says_what_is_missing(agent: Agent, path: str) -> None:
    why = denied(hook("pre", pre(agent, "Bash", command="make"), agent.cwd, {"PATH": path}))
    assert "git is not on PATH" in why
    assert passed(hook("pre", pre(agent, "Read", file_path="src/app.py"), agent.cwd, {"PATH": path})) == ""


def test_without_git_observe_passes_and_says_so(repository: Path, home: Path) -> None:
    agent = Agent(governed(repository, "observe"), home)
    said = passed(hook("pre", pre(agent, "Bash", command="make"), agent.cwd, {"PATH": "/nonexistent"}))
    assert "git is not on PATH" in said
    assert "not recorded" in said


def test_a_folder_that_is_gone_does_not_matter_where_the_path_is_governed(agent: Agent, tmp_path: Path) -> None:
    gone = tmp_path / "gone"
    gone.mkdir()
    program = "import os,sys; os.rmdir(sys.argv[1]); os.execv(sys.argv[2], sys.argv[2:])"
    target = str(agent.cwd / "docs" / "x")
    agent.cwd = gone
    payload = pre(agent, file_path=target, content="x")
    done = subprocess.run(
        [sys.executable, "-c", program, str(gone), *REMIT, "pre"],
        input=payload,
        capture_output=True,
        cwd=gone,
        check=False,
    )
    assert "SCOPE_VIOLATION" in denied(done) or "MISSING" in denied(done)


@pytest.fixture
def small_disk() -> Generator[Path]:
    """A disk of 4 MiB that holds a repository."""
    with mounted("-t", "tmpfs", "-o", "size=4m", "tmpfs") as folder:
        run_git(folder, "init", "-q")
        (folder / "src").mkdir()
        (folder / "src" / "app.py").write_text("one\n")
        run_git(folder, "add", "-A")
        run_git(folder, "commit", "-qm", "first")
        yield folder


def fill(folder: Path) -> Path:
    """Use up the last byte."""
    filler = folder / ".git" / "filler"
    with contextlib.suppress(OSError), filler.open("wb", buffering=0) as file:
        while True:
            file.write(b"x" * 4096)
    return filler


def test_a_full_disk_denies_in_enforce_and_loses_no_result(small_disk: Path, home: Path) -> None:
    agent = Agent(governed(small_disk), home)
    agent.select()
    names = [f"src/new{n}.py" for n in range(6)]  # the first few records may fit into the log's last page
    for name in names:
        assert allowed(agent.ask("Write", call_id=name, file_path=name, content="two\n"))
        (small_disk / name).write_text("two\n")
    before = len(records(small_disk, "mutation"))
    filler = fill(small_disk)
    why = denied(hook("pre", pre(agent, file_path="src/y.py", content="y"), small_disk))
    assert "full" in why.lower() or "No space" in why
    assert "tell the person" in why.lower()
    said = [
        passed(hook("post", post(agent, call_id=name, file_path=name, content="two\n"), small_disk)) for name in names
    ]
    assert "spool" in said[-1]
    assert "remit_protocol" in passed(hook("note", agent.payload("SessionStart", source="startup"), small_disk))
    filler.unlink()
    assert passed(hook("pre", pre(agent, "Read", file_path="src/app.py"), small_disk)) == ""
    found = [body(record) for record in records(small_disk, "mutation")[before:]]
    assert sorted(mutation["files"][0]["path"] for mutation in found) == names
    assert {(mutation["intent_id"], mutation["covered"]) for mutation in found} == {("INT-001", True)}
    assert not list((home / ".local/state/remit/spool").glob("*.jsonl"))


def test_a_full_disk_passes_in_observe_and_says_so(small_disk: Path, home: Path) -> None:
    agent = Agent(governed(small_disk, "observe"), home)
    agent.read("src/app.py")
    filler = fill(small_disk)
    assert "not recorded" in passed(hook("pre", pre(agent, "Bash", command="make"), small_disk))
    filler.unlink()
    agent.read("src/app.py")
    commands = [body(record)["call"].get("command") for record in records(small_disk, "tool_use")]
    assert commands == [None, "make", None]
    assert passed(hook("pre", pre(agent, "Bash", command="make"), small_disk)) == ""


def test_a_read_only_state_denies_in_enforce(small_disk: Path, home: Path) -> None:
    agent = Agent(governed(small_disk), home)
    agent.select()
    state = agent.cwd / ".git" / "remit"
    with mounted("--bind", str(state), folder=state) as folder:
        subprocess.run(["mount", "-o", "remount,ro,bind", str(folder)], check=True)
        why = denied(hook("pre", pre(agent), agent.cwd))
        assert "read" in why.lower()
        assert passed(hook("pre", pre(agent, "Read", file_path="src/app.py"), agent.cwd))
        said = passed(hook("post", post(agent), agent.cwd))
        assert "spool" in said
    assert passed(hook("pre", pre(agent), agent.cwd)) == ""
    assert [body(r)["call"]["id"] for r in records(agent.cwd, "tool_result")][-1] == "toolu_1"


def test_a_home_that_cannot_be_written_denies_at_first_use_and_harms_nobody_later(repository: Path, home: Path) -> None:
    agent = Agent(governed(repository), home)
    agent.select()
    with mounted("-t", "tmpfs", "-o", "size=64k,ro", "tmpfs") as folder:
        env = {"HOME": str(folder)}
        why = denied(hook("pre", pre(agent), agent.cwd, env))
        assert "Read-only" in why
        assert "Read-only" in passed(hook("post", post(agent), agent.cwd, env))


def test_no_commit_yet_is_no_failure(tmp_path: Path, home: Path) -> None:
    root = tmp_path / "fresh"
    root.mkdir()
    run_git(root, "init", "-q")
    agent = Agent(governed(root), home)
    agent.select()
    assert passed(hook("pre", pre(agent), root)) == ""
    assert all("vcs" not in record for record in records(root))
    assert refusal(agent.write("docs/x", "x")) == "SCOPE_VIOLATION"


def test_two_hooks_at_once_lose_nothing(agent: Agent) -> None:
    before = len(records(agent.cwd))
    running = [
        subprocess.Popen(
            [*REMIT, "pre"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, cwd=agent.cwd
        )
        for _ in range(4)
    ]
    for n, process in enumerate(running):
        out, err = process.communicate(pre(agent, file_path=f"src/{n}.py", content="x"))
        assert (process.returncode, out, err) == (0, b"", b"")
    assert len(records(agent.cwd)) == before + 4


def test_a_process_knows_how_long_the_agent_waits_already(tmp_path: Path) -> None:
    """The client becomes the fresh process: what it waited for a daemon is gone from the agent's patience."""
    act = "from remit.servers.environment import process_age_s; print(process_age_s())"
    words = ["sh", "-c", 'read -r _; exec "$@"', "sh", sys.executable, "-I", "-c", act]
    before = time.monotonic()
    with subprocess.Popen(words, cwd=tmp_path, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        began = time.monotonic()
        subprocess.run([sys.executable, "-c", "import asyncio"], check=True)  # something that takes its time
        waited = time.monotonic() - began
        out, _ = process.communicate("\n")
    assert waited - TICK_S <= float(out) <= time.monotonic() - before + TICK_S

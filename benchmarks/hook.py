"""Budgets of the hook path, as ratios measured in one run: `make bench`.

Each figure stands beside the floor that was measured a moment before or after it, on the same machine, in turn; so
that a slow machine shows the same ratios as a quick one. Nothing is asserted: the table is the result.
"""

import asyncio
import json
import os
import shutil
import socket
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager
from importlib.metadata import version
from pathlib import Path

import remit_hook
from remit.adapters import HookReply
from remit.core.call import SessionKey, ToolCall
from remit.core.decision import Facts, SessionFacts, Target
from remit.core.diff.contents import sha256
from remit.core.intent import Intent, IntentSet
from remit.core.scope.path_patterns import RepoPath
from remit.policy.decide import decide
from remit.servers.daemon import ACKNOWLEDGEMENT, pack_reply, unpack_request
from remit.servers.environment import make_environment
from remit.servers.hook import answer
from remit.wiring.hook_client import install_script

MAIN = "from remit.cli import main; main()"
UNSYNCED = f"import os; os.fdatasync = lambda descriptor: None; {MAIN}"
"""The same program on a disk that takes no time: what syncing costs stands apart from what Remit does."""

ROUNDS = 60
INTENTS = 1000


def ms(seconds: float) -> str:
    return f"{seconds * 1000:.3f} ms"


def median(run: Callable[[], object], rounds: int = ROUNDS) -> float:
    times: list[float] = []
    for _ in range(rounds):
        began = time.perf_counter()
        run()
        times.append(time.perf_counter() - began)
    return statistics.median(times)


def in_turn(one: Callable[[], object], other: Callable[[], object], rounds: int = ROUNDS) -> tuple[float, float]:
    """Medians of both, run alternately."""
    a: list[float] = []
    b: list[float] = []
    for _ in range(rounds):
        a.append(median(one, 1))
        b.append(median(other, 1))
    return statistics.median(a), statistics.median(b)


def row(name: str, value: float, floor_name: str, floor: float, asked: str) -> None:
    print(f"{name:<58} {ms(value):>12}   {floor_name:<44} {ms(floor):>12}   {value / floor:>6.2f} x   asked {asked}")


def remit(folder: Path, home: Path, *words: str) -> None:
    environ = {**os.environ, "HOME": str(home)}
    subprocess.run([sys.executable, "-c", MAIN, *words], cwd=folder, env=environ, check=True, capture_output=True)


def repository(at: Path, home: Path) -> Path:
    """A governed repository with a thousand intents, the first of them selected by session s1."""
    (at / "src").mkdir(parents=True)
    (at / "src" / "app.py").write_text("x = 1\n" * 50)
    for words in (("init", "-q"), ("add", "-A"), ("-c", "user.name=b", "-c", "user.email=b@x", "commit", "-qm", "1")):
        subprocess.run(["git", *words], cwd=at, check=True)
    remit(at, home, "init", "--mode", "enforce", "--yes")
    lines = ['version: "1.0"', "active_intents:"]
    for n in range(1, INTENTS + 1):
        scope = "src/**" if n == 1 else f"pkg{n}/**"
        lines += [
            f"  - id: INT-{n:03d}",
            f"    name: number {n}",
            "    status: IN_PROGRESS",
            f'    owned_scope: ["{scope}"]',
        ]
    (at / ".orchestration" / "active_intents.yaml").write_text("\n".join(lines) + "\n")
    return at


def payload(folder: Path, event: str, tool: str, call_id: str, **given: object) -> bytes:
    return json.dumps(
        {
            "session_id": "s1",
            "cwd": str(folder),
            "hook_event_name": event,
            "tool_name": tool,
            "tool_input": given,
            "tool_use_id": call_id,
            "transcript_path": "/nowhere.jsonl",
        }
    ).encode()


@contextmanager
def echo_server(path: Path) -> Generator[None]:
    """An asyncio server that acknowledges and answers with nothing: what any daemon costs at the least."""
    ready, done = threading.Event(), threading.Event()

    async def attend(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        unpack_request(await reader.read())
        writer.write(ACKNOWLEDGEMENT + pack_reply(HookReply()))
        await writer.drain()
        writer.close()

    async def serve() -> None:
        server = await asyncio.start_unix_server(attend, path)
        ready.set()
        while not done.is_set():
            await asyncio.sleep(0.05)
        server.close()

    thread = threading.Thread(target=lambda: asyncio.run(serve()))
    thread.start()
    ready.wait()
    try:
        yield
    finally:
        done.set()
        thread.join()


def client(folder: Path, socket_at: Path) -> Path | None:
    """The C client with a configuration of its own; None without a compiler."""
    compiler = shutil.which("cc")
    if compiler is None:
        return None
    folder.mkdir()
    source = Path(remit_hook.__file__).with_name("client.c")
    subprocess.run([compiler, "-O2", "-static", "-o", folder / "hook", source], check=True)
    (folder / "hook.conf").write_text(f"{version('remit')}\n{sys.executable}\n{socket_at}\n60\n")
    return folder / "hook"


def call(program: list[str | Path], body: bytes, cwd: Path) -> None:
    subprocess.run([*program, "claude-code", "pre"], input=body, cwd=cwd, check=True, capture_output=True)


def daemon(home: Path, program: str = MAIN) -> subprocess.Popen[bytes]:
    process = subprocess.Popen(
        [sys.executable, "-I", "-c", program, "daemon"],
        env={**os.environ, "HOME": str(home)},
        stderr=subprocess.DEVNULL,
    )
    at = str(home / ".local/state/remit/daemon.sock")
    while True:
        with socket.socket(socket.AF_UNIX) as line:
            if line.connect_ex(at) == 0:
                return process
        time.sleep(0.02)


def whole_calls(base: Path, home: Path, folder: Path) -> None:
    """The client against the real daemon, and against an echo."""
    warm, echo = home / ".local/state/remit/daemon.sock", base / "echo.sock"
    quick, floor = client(base / "quick", warm), client(base / "floor", echo)
    body = payload(folder, "PreToolUse", "Write", "w1", file_path=str(folder / "src/app.py"), content="y" * 1024)
    process = daemon(home)
    try:
        with echo_server(echo):
            if quick and floor:
                call([quick], payload(folder, "PreToolUse", "Bash", "b", command="remit intent select INT-001"), folder)
                a, b = in_turn(lambda: call([quick], body, folder), lambda: call([floor], body, folder))
                row(
                    "C client, 1 KB write, daemon, 1,000 intents, recorded+synced",
                    a,
                    "the same client, asyncio echo",
                    b,
                    "<= 2.5 x",
                )
            pure = base / "quick" / "hook.py"
            install_script(pure)
            python = os.path.realpath(sys.executable)
            bare = [python, "-I", "-S", "-c", "pass"]
            a, b = in_turn(
                lambda: call([python, "-I", "-S", "-E", pure], body, folder),
                lambda: subprocess.run(bare, input=body, check=True, capture_output=True),
            )
            row("pure-Python client, the same call", a, "bare python -I -S", b, "<= 1.3 x")
    finally:
        process.terminate()
        process.wait()
    if quick and floor:
        unsynced(home, echo, lambda: call([quick], body, folder), lambda: call([floor], body, folder))


def unsynced(home: Path, echo: Path, one: Callable[[], None], other: Callable[[], None]) -> None:
    """The same call where syncing costs nothing."""
    process = daemon(home, UNSYNCED)
    try:
        with echo_server(echo):
            a, b = in_turn(one, other)
            row("the same, without syncing", a, "the same client, asyncio echo", b, "(printed apart)")
    finally:
        process.terminate()
        process.wait()


def facts(count: int, path: str) -> Facts:
    scopes = ["src/**", *(f"pkg{n}/**" for n in range(2, count + 1))]
    intents = IntentSet(
        Intent(id=f"INT-{n:03d}", owned_scope=(scope,), status="IN_PROGRESS") for n, scope in enumerate(scopes, 1)
    )
    target = Target(raw=path, resolved=f"/w/{path}", path=RepoPath.parse(path, "/w"))
    return Facts(mode="enforce", session=SessionFacts("INT-001", "selected"), intents=intents, targets=(target,))


def decisions() -> None:
    """Deciding alone, at one intent and at a thousand."""
    asked = ToolCall(agent="a", session=SessionKey("s"), tool="Write", effect="write", cwd="/w", paths=("x",))
    for name, path in (("allow", "src/a.py"), ("scope denial", "docs/a.md")):
        many, one = facts(INTENTS, path), facts(1, path)
        a, b = in_turn(lambda f=many: decide(asked, f), lambda f=one: decide(asked, f), 2000)
        row(f"decide, 1,000 intents, {name}", a, "decide, 1 intent", b, "<= 1.5 x; aim 0.050 ms")


def posts(base: Path, home: Path, folder: Path) -> None:
    """The post of a write, against appending 1.5 KB and hashing the file: each just after the tool wrote it."""
    around = make_environment({})
    file = folder / "src" / "app.py"
    log, line, plain = base / "plain.jsonl", b"x" * 1500, base / "plain.py"
    from remit.gate.open_gates import OpenGates
    from remit.servers.hook import HookFrame

    gates = OpenGates()
    counter = iter(range(10**6))

    def floor() -> None:
        with log.open("ab") as out:
            out.write(line)
            out.flush()
            os.fdatasync(out.fileno())
        sha256(plain.read_bytes())

    def posted() -> float:
        n = next(counter)
        text = f"z = {n}\n" * 50
        given = {"file_path": str(file), "content": text}
        answer(
            payload(folder, "PreToolUse", "Write", f"p{n}", **given),
            HookFrame("claude-code", str(folder), "pre"),
            around,
            gates,
        )
        file.write_text(text)
        body = payload(folder, "PostToolUse", "Write", f"p{n}", **given)
        began = time.perf_counter()
        answer(body, HookFrame("claude-code", str(folder), "post"), around, gates)
        return time.perf_counter() - began

    def bare() -> float:
        plain.write_text(f"y = {next(counter)}\n" * 50)
        return median(floor, 1)

    found = [(posted(), bare()) for _ in range(2 * ROUNDS)]
    row(
        "post of a write, in the daemon",
        statistics.median(a for a, _ in found),
        "append 1.5 KB, sync, SHA-256 of the file",
        statistics.median(b for _, b in found),
        "<= 6 x",
    )


def main() -> None:
    with tempfile.TemporaryDirectory() as name:
        base = Path(name).resolve()
        home = base / "home"
        home.mkdir()
        os.environ["HOME"] = str(home)
        folder = repository(base / "repo", home)
        decisions()
        whole_calls(base, home, folder)
        posts(base, home, folder)


if __name__ == "__main__":
    main()

"""Budgets of the hook path, as ratios measured in one run: `make bench`.

Each figure stands beside the floor that was measured a moment before or after it, on the same machine, in turn; so
that a slow machine shows the same ratios as a quick one. Nothing is asserted: the table is the result.
Where valgrind is installed, instructions are counted too: they are the same on a machine however busy.
"""

import asyncio
import json
import os
import random
import re
import shutil
import socket
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from importlib.metadata import version
from pathlib import Path
from typing import Literal

import remit_hook
from ledger import record as make_record
from remit.adapters import HookReply
from remit.core.call import SessionKey, ToolCall
from remit.core.decision import Facts, SessionFacts, Target
from remit.core.diff.contents import sha256
from remit.core.intent import Intent, IntentSet
from remit.core.scope.path_patterns import RepoPath
from remit.gate.gate import Gate
from remit.gate.open_gates import OpenGates
from remit.policy.decide import decide
from remit.servers.daemon import ACKNOWLEDGEMENT, pack_reply, unpack_request
from remit.servers.environment import make_environment
from remit.servers.hook import HookFrame, answer
from remit.wiring.hook_client import install_script

MAIN = "from remit.cli import main; main()"
UNSYNCED = f"import os; os.fdatasync = lambda descriptor: None; {MAIN}"
"""The same program on a disk that takes no time: what syncing costs stands apart from what Remit does."""

ROUNDS = 60
INTENTS = 1000
RECORDS = 100_000
CONSTRAINTS = '    constraints: [{type: max_lines, max: 500}, {type: forbid_pattern, regex: "eval[(]"}]'
HOOKS_BUDGET, CLIENT_BUDGET = "<= 12 M", "<= 0.06 M"
FEW, MANY = 5, 25
"""Calls in two counted processes: the difference leaves out how a process starts."""


def ms(seconds: float) -> str:
    return f"{seconds * 1000:.3f} ms"


def millions(count: float) -> str:
    return f"{count / 1e6:.3f} M"


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


def row(name: str, value: float, floor_name: str, floor: float, asked: str, show: Callable[[float], str] = ms) -> None:
    print(
        f"{name:<60} {show(value):>12}   {floor_name:<44} {show(floor):>12}   {value / floor:>6.2f} x   asked {asked}"
    )


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


def add_load(folder: Path) -> None:
    """Give the selected intent constraints, and the log many records."""
    intents = folder / ".orchestration" / "active_intents.yaml"
    intents.write_text(intents.read_text().replace("    name: number 1\n", f"    name: number 1\n{CONSTRAINTS}\n"))
    drawn = random.Random(1)
    log = Gate.open(folder, make_environment({})).recorder.log
    for at in range(0, RECORDS, 1000):
        log.append([make_record(number, drawn) for number in range(at, at + 1000)], sync=False)
    log.close()


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


def whole_calls(base: Path, home: Path, folder: Path, load: str) -> None:
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
                    f"C client, 1 KB write, daemon, {load}, synced",
                    a,
                    "the same client, asyncio echo",
                    b,
                    "<= 1.8 x",
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


class Writes:
    """Writes of one file, hooked in this process as the daemon does it."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.file, self.gates = folder, folder / "src" / "app.py", OpenGates()
        self.around, self.number = make_environment({}), 0
        self.answer_hook("pre", "PreToolUse", "Bash", command="remit intent select INT-001")

    def answer_hook(self, kind: Literal["pre", "post"], event: str, tool: str, **given: object) -> float:
        """Return how long the answer takes."""
        body = payload(self.folder, event, tool, f"p{self.number}", **given)
        began = time.perf_counter()
        answer(body, HookFrame("claude-code", str(self.folder), kind), self.around, self.gates)
        return time.perf_counter() - began

    def write(self) -> float:
        """Return how long the hook after the write takes."""
        self.number += 1
        given = {"file_path": str(self.file), "content": f"z = {self.number}\n" * 50}
        self.answer_hook("pre", "PreToolUse", "Write", **given)
        self.file.write_text(given["content"])
        return self.answer_hook("post", "PostToolUse", "Write", **given)


class Floor:
    """The least that a record of a write costs: to append 1.5 KB, sync them, and hash the file."""

    def __init__(self, base: Path) -> None:
        self.log, self.file, self.number = base / "plain.jsonl", base / "plain.py", 0

    def run(self) -> float:
        self.number += 1
        self.file.write_text(f"y = {self.number}\n" * 50)
        began = time.perf_counter()
        with self.log.open("ab") as out:
            out.write(b"x" * 1500)
            out.flush()
            os.fdatasync(out.fileno())
        sha256(self.file.read_bytes())
        return time.perf_counter() - began


def posts(base: Path, folder: Path, load: str) -> None:
    """The post of a write, against its floor: each just after the tool wrote the file."""
    writes, floor = Writes(folder), Floor(base)
    found = [(writes.write(), floor.run()) for _ in range(2 * ROUNDS)]
    row(
        f"post of a write, in the daemon, {load}",
        statistics.median(a for a, _ in found),
        "append 1.5 KB, sync, SHA-256 of the file",
        statistics.median(b for _, b in found),
        "<= 5 x",
    )


# -- instructions ---------------------------------------------------------------------------------------------


def count_instructions(words: Sequence[str | Path], folder: Path, body: bytes = b"") -> int:
    """Return how many instructions a program runs outside of the kernel."""
    done = subprocess.run(
        ["valgrind", "--tool=callgrind", "--callgrind-out-file=/dev/null", *words],
        input=body,
        cwd=folder,
        env={**os.environ, "PYTHONHASHSEED": "0"},
        check=True,
        capture_output=True,
    )
    found = re.search(rb"Collected : (\d+)", done.stderr)
    return int(found[1]) if found else 0


def count_a_call(work: str, base: Path, folder: Path) -> float:
    """Return the instructions of one call of `do_work`."""
    words = [sys.executable, __file__, work, str(base), str(folder)]
    subprocess.run([*words, "1"], check=True, cwd=folder)  # the first call reads and makes what later ones find
    few, many = (count_instructions([*words, str(times)], folder) for times in (FEW, MANY))
    return (many - few) / (MANY - FEW)


def do_work(work: str, base: str, folder: str, times: str) -> None:
    run = Writes(Path(folder)).write if work == "write" else Floor(Path(base)).run
    for _ in range(int(times)):
        run()


def instructions(base: Path, folder: Path) -> None:
    if not shutil.which("valgrind"):
        print("no valgrind: instructions are not counted")
        return
    floor = count_a_call("floor", base, folder)
    row(
        "both hooks of a write, instructions",
        count_a_call("write", base, folder),
        "append, hash",
        floor,
        "<= 5 M",
        millions,
    )
    echo = base / "echo.sock"
    program, empty = client(base / "counted", echo), base / "empty"
    if program is None:
        return
    subprocess.run(["cc", "-O2", "-static", "-x", "c", "-o", empty, "-"], input=b"int main(){return 0;}", check=True)
    body = payload(folder, "PreToolUse", "Write", "w1", file_path=str(folder / "src/app.py"), content="y" * 1024)
    with echo_server(echo):
        count = count_instructions([program, "claude-code", "pre"], folder, body)
    row(
        "C client, instructions",
        count,
        "a program that does nothing",
        count_instructions([empty], folder),
        "<= 0.2 M",
        millions,
    )


def main() -> None:
    with tempfile.TemporaryDirectory() as name:
        base = Path(name).resolve()
        home = base / "home"
        home.mkdir()
        os.environ["HOME"] = str(home)
        folder = repository(base / "repo", home)
        decisions()
        measure(base / "light", home, folder, "1,000 intents")
        instructions(base, folder)
        add_load(folder)
        measure(base / "laden", home, folder, "constraints, 100,000 records")


def measure(base: Path, home: Path, folder: Path, load: str) -> None:
    base.mkdir()
    whole_calls(base, home, folder, load)
    posts(base, folder, load)


if __name__ == "__main__":
    do_work(*sys.argv[1:]) if sys.argv[1:] else main()

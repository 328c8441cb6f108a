"""What an agent waits for as a session starts: CPU and time to the first list of Remit's tools, and the first call.

    .venv/bin/python benchmarks/tools.py [RUNS]

In a new home and a small repository. `cold`: no daemon runs. `warm`: the daemon and its server of tools run. `direct`:
the SDK in the process that the agent starts, as before the relay.
"""

import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from statistics import median
from typing import Any

REMIT = (sys.executable, "-I", "-c", "from remit.cli import main; main()")
CLIENT = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "bench", "version": "1"}}
FIRST_WORDS = (
    {"id": 1, "method": "initialize", "params": CLIENT},
    {"method": "notifications/initialized"},
    {"id": 2, "method": "tools/list"},
)


def run(*words: str, folder: Path) -> None:
    subprocess.run(words, cwd=folder, check=True, capture_output=True)


def end_daemon(home: Path) -> None:
    """End the daemon of this home, if there is one, and wait until it is gone."""
    for path in Path("/proc").glob("[0-9]*"):
        try:
            is_ours = b"daemon" in (path / "cmdline").read_bytes().split(b"\0")
            if is_ours and f"HOME={home}".encode() in (path / "environ").read_bytes().split(b"\0"):
                os.kill(int(path.name), 9)
                while path.exists():
                    time.sleep(0.01)
        except OSError:
            continue


def list_tools(words: tuple[str, ...], folder: Path) -> tuple[float, float]:
    """CPU and time, in milliseconds, until the first list of tools."""
    began = time.monotonic()
    process = subprocess.Popen(words, cwd=folder, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert process.stdin is not None
    assert process.stdout is not None
    for message in FIRST_WORDS:
        process.stdin.write(json.dumps({"jsonrpc": "2.0", **message}).encode() + b"\n")
    process.stdin.flush()
    while b'"tools":[' not in process.stdout.readline():
        pass
    waited = time.monotonic() - began
    process.stdin.close()
    process.stdout.close()
    _, _, usage = os.wait4(process.pid, 0)
    process.returncode = 0
    return 1000 * (usage.ru_utime + usage.ru_stime), 1000 * waited


def call(hook: str, folder: Path, kind: str, event: str) -> float:
    """Milliseconds of one hook call about a file tool."""
    payload: dict[str, Any] = {"session_id": "s", "cwd": str(folder), "hook_event_name": event, "tool_use_id": "t"}
    payload |= {"tool_name": "Write", "tool_input": {"file_path": str(folder / "src/a.py"), "content": "x\n"}}
    began = time.monotonic()
    subprocess.run([hook, "claude-code", kind], input=json.dumps(payload).encode(), capture_output=True, check=True)
    return 1000 * (time.monotonic() - began)


def main() -> None:
    runs = int(sys.argv[1]) if len(sys.argv) > 1 else 5
    with tempfile.TemporaryDirectory() as place:
        home, folder = Path(place, "home"), Path(place, "repository")
        (home / "bin").mkdir(parents=True)
        (home / "bin/claude").write_text("#!/bin/sh\necho 2.1.0\n")
        (home / "bin/claude").chmod(0o755)
        os.environ |= {"HOME": str(home), "PATH": f"{home}/bin:{os.environ['PATH']}"}
        hook = str(home / ".local/share/remit/bin/hook")
        run("git", "init", "-q", str(folder), folder=home)
        run(*REMIT, "init", "--yes", "--agent", "claude-code", "--mode", "enforce", folder=folder)
        try:
            first = [call(hook, folder, "pre", "PreToolUse"), call(hook, folder, "pre", "PreToolUse")]
            print(f"first calls after init   {first[0]:7.1f} ms, then {first[1]:.1f} ms")
            list_tools((hook, "mcp"), folder)
            for name, words in (
                ("warm", (hook, "mcp")),
                ("cold", (hook, "mcp")),
                ("direct", (*REMIT, "mcp", "--direct")),
            ):
                found: list[tuple[float, float]] = []
                for _ in range(runs):
                    if name == "cold":
                        end_daemon(home)
                    elif name == "warm":
                        time.sleep(0.2)
                    found.append(list_tools(words, folder))
                cpu, waited = (median(each) for each in zip(*found, strict=True))
                print(f"tools/list, {name:<12} {cpu:7.1f} ms of CPU, after {waited:.0f} ms")
        finally:
            end_daemon(home)


if __name__ == "__main__":
    main()

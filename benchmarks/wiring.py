"""What a person waits for: `init` with four agents, the same again, `uninstall`; beside a bare interpreter.

Each figure is a whole command in a HOME of its own, the slowest of the runs too: `init` compiles the hook client
where there is a compiler and the wheel brings none. Nothing is asserted: the table is the result.
"""

import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from remit.core.agents import ROWS

ROUNDS = 10
REMIT = [sys.executable, "-m", "remit"]


def seconds(command: list[str], folder: Path, home: Path) -> float:
    """How long one command takes."""
    began = time.perf_counter()
    subprocess.run(command, cwd=folder, env={**os.environ, "HOME": str(home)}, check=True, capture_output=True)
    return time.perf_counter() - began


def person(base: Path) -> tuple[Path, Path]:
    """A home with the folders of four agents, and a repository of a thousand files."""
    home, folder = base / "home", base / "repo"
    for row in ROWS.values():
        (home / row.config_folder).mkdir(parents=True)
    folder.mkdir()
    for number in range(1000):
        (folder / f"file{number}.py").write_text(f"x = {number}\n")
    for words in (("init", "-q"), ("add", "-A"), ("-c", "user.name=b", "-c", "user.email=b@x", "commit", "-qm", "1")):
        subprocess.run(["git", *words], cwd=folder, check=True)
    return home, folder


def once() -> dict[str, float]:
    """One person's first minute."""
    with tempfile.TemporaryDirectory() as name:
        home, folder = person(Path(name).resolve())
        commands = {
            "bare python": [sys.executable, "-c", "pass"],
            "remit --version": [*REMIT, "--version"],
            "remit init, four agents": [*REMIT, "init", "--yes"],
            "remit init again: nothing to do": [*REMIT, "init", "--yes"],
            "remit status": [*REMIT, "status"],
            "remit uninstall": [*REMIT, "uninstall", "--yes"],
        }
        return {name: seconds(command, folder, home) for name, command in commands.items()}


ASKED = {"remit --version": "< 100 ms", "remit init, four agents": "< 1000 ms"}


def main() -> None:
    runs = [once() for _ in range(ROUNDS)]
    for name in runs[0]:
        times = [run[name] * 1000 for run in runs]
        asked = f"   asked {ASKED[name]}" if name in ASKED else ""
        print(f"{name:<34} median {statistics.median(times):>7.0f} ms   slowest {max(times):>7.0f} ms{asked}")


if __name__ == "__main__":
    main()

"""A HOME with a space and a letter beyond ASCII, agents that only tell their version, and the real command."""

import json
import os
import subprocess
from pathlib import Path
from typing import Any

from forked_commands import run_command

VERSIONS = {"claude": "2.1.330 (Claude Code)", "codex": "codex-cli 0.169.0"}


class Person:
    """Somebody with a HOME and some agents on PATH."""

    def __init__(self, home: Path, agents: tuple[str, ...] = ("claude", "codex")) -> None:
        self.home = home
        (home / "bin").mkdir(parents=True)
        self.variables: dict[str, str] = {}
        for name in agents:
            binary = home / "bin" / name
            binary.write_text(f"#!/bin/sh\necho '{VERSIONS[name]}'\n")
            binary.chmod(0o755)

    def run(self, folder: Path, *words: str, typed: str = "") -> "subprocess.CompletedProcess[str]":
        """Run `remit …` in `folder`, without a terminal."""
        environment = {"PATH": f"{self.home / 'bin'}:/usr/bin:/bin", "HOME": str(self.home), "LANG": "C.UTF-8"}
        environment |= self.variables
        return run_command(words, folder, environment, typed)

    def remit(self, folder: Path, *words: str) -> str:
        """The same, where it has to work; its standard output."""
        done = self.run(folder, *words)
        assert done.returncode == 0, done
        return done.stdout

    def data(self, folder: Path, *words: str) -> Any:
        """The same, as data."""
        return json.loads(self.remit(folder, *words, "--json"))["data"]

    def files(self) -> dict[str, bytes]:
        """Every file of the HOME but Remit's own."""
        found = [Path(folder) / name for folder, _, names in os.walk(self.home) for name in names]
        return {str(p): p.read_bytes() for p in found if ".local" not in p.parts}

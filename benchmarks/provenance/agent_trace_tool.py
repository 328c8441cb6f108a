"""agent-trace-cli, a rival from PyPI: `pip install agent-trace-cli`, and have `agent-trace` on PATH."""

import json
import os
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from .lines import Claim
from .tools import Session

PROGRAM = "agent-trace"
HEARD = ("PostToolUse", "SessionStart", "SessionEnd")


class AgentTraceTool:
    """It tells only *AI* from *no attribution*; its conversations are not named the way that hooks name them."""

    name = "agent-trace"

    def run(self, root: Path, *words: str, stdin: bytes = b"") -> bytes:
        environ = {**os.environ, "CLAUDE_PROJECT_DIR": str(root)}
        done = subprocess.run([PROGRAM, *words], cwd=root, env=environ, input=stdin, capture_output=True, check=False)
        return done.stdout

    def install(self, root: Path, home: Path, intents: Sequence[str]) -> None:
        self.run(root, "init")

    def hook(self, session: Session, event: str, payload: Mapping[str, Any]) -> Mapping[str, Any]:
        if event in HEARD:
            self.run(Path(payload["cwd"]), "record", stdin=json.dumps(payload).encode())
        return {}

    def select(self, session: Session) -> None: ...

    def message(self, subject: str, agents: Sequence[str]) -> str:
        return subject

    def publish(self, root: Path) -> Sequence[str]:
        return ("refs/notes/agent-trace",)

    def take_in(self, root: Path) -> None:
        pass

    def blame(self, root: Path, path: str) -> list[Claim]:
        found = [Claim()] * len((root / path).read_bytes().split(b"\n")[:-1])
        said: dict[str, Any] = json.loads(self.run(root, "blame", "--json", path) or b"{}")
        for part in said.get("attributions", []):
            if part.get("kind") == "AI" or part.get("contributor_type") == "ai":
                for number in range(int(part["start_line"]), int(part["end_line"]) + 1):
                    if number <= len(found):
                        found[number - 1] = Claim("ai")
        return found

"""Plain git, the way teams use it: a commit in which an agent had a hand says so, and all its lines are the agent's."""

import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from .lines import Claim
from .tools import Session

TRAILER = "Co-authored-by: An Agent <agent@example.org>"


class GitTool:
    name = "git trailers"

    def install(self, root: Path, home: Path, intents: Sequence[str]) -> None: ...

    def hook(self, session: Session, event: str, payload: Mapping[str, Any]) -> Mapping[str, Any]:
        return {}

    def select(self, session: Session) -> None: ...

    def message(self, subject: str, agents: Sequence[str]) -> str:
        return f"{subject}\n\n{TRAILER}" if agents else subject

    def publish(self, root: Path) -> Sequence[str]:
        return ()

    def take_in(self, root: Path) -> None:
        pass

    def blame(self, root: Path, path: str) -> list[Claim]:
        run = ["git", "-C", str(root)]
        said = subprocess.run([*run, "log", "--format=%H%x00%B%x01"], check=True, capture_output=True).stdout
        rows = [row.strip().split(b"\0", 1) for row in said.split(b"\1") if row.strip()]
        agents = {row[0].decode() for row in rows if TRAILER.encode() in row[1]}
        done = subprocess.run([*run, "blame", "--porcelain", "--", path], check=False, capture_output=True)
        if done.returncode:
            return [Claim("human")] * len((root / path).read_bytes().splitlines())
        heads = [line.split()[0].decode() for line in done.stdout.split(b"\n") if is_head(line)]
        return [Claim("ai" if name in agents else "human") for name in heads]


def is_head(line: bytes) -> bool:
    """Whether a line of porcelain output begins a line of the file."""
    words = line.split(b" ")
    return len(words[0]) == 40 and len(words) >= 3 and words[1].isdigit() and not line.startswith(b"\t")

"""A governed clone of a repository that a teammate works in, too; and a twin of it without Remit."""

import subprocess
from pathlib import Path

from msgspec.structs import replace

from gate.driving import governed, machine, overlay
from remit.core.call import SessionKey, ToolCall
from remit.gate.containment.run_command import run_contained
from remit.gate.containment.take_over import ContainedResult
from remit.gate.gate import Gate
from remit.workspace.sandbox.containment import Limits

BASE = """
mkdir src docs
printf 'a = 1\\nb = 2\\nc = 3\\nd = 4\\ne = 5\\n' > src/a.py; printf 'one\\ntwo\\nthree\\nfour\\n' > docs/x.md
echo .orchestration > .gitignore; git add -A; git commit -qm base; git push -q origin HEAD:main
"""
FEATURE = "git checkout -qb feature; echo f > src/f.py; echo f > docs/f.md; git add -A; git commit -qm feature"

STATE = """
git for-each-ref --format='%(refname) %(objectname)'; git rev-parse HEAD; git symbolic-ref -q HEAD
git stash list; git status --short; git config --local --get-regexp '^branch'; git diff HEAD
"""


def shell(folder: Path, text: str, *, check: bool = True) -> str:
    """Run a text in a folder, as a person does; its output."""
    done = subprocess.run(["bash", "-c", text], cwd=folder, capture_output=True, text=True, check=False)
    assert done.returncode == 0 or not check, done.stderr
    return done.stdout


class Team:
    """A remote, a teammate's clone (`mate`), the agent's (`root`), and one like it without Remit (`twin`)."""

    def __init__(self, folder: Path, home: Path) -> None:
        self.folder = folder
        self.mate, self.root, self.twin = (folder / name for name in ("mate", "team/repo", "twin/repo"))
        for place in ("team", "twin"):
            (folder / place).mkdir()
        shell(folder, "git init -q --bare -b main remote.git; git clone -q remote.git mate")
        shell(self.mate, f"git checkout -qb main; git config user.email mate@example.org; {BASE}")
        shell(self.mate, f"{FEATURE}; git push -q origin feature; git checkout -q main")
        for place in (self.root, self.twin):
            shell(folder, f"git clone -q remote.git {place}")
        shell(self.mate, "echo '# mate' >> src/a.py; echo mate >> docs/x.md; echo h > src/h.py; git add -A; "
                         "git commit -qm mate; git push -q origin main")  # fmt: skip
        self.how = overlay(home)
        self.gate = Gate.open(governed(self.root), machine(home))
        self.gate.intents.select(SessionKey("s1"), "test", "INT-001")
        self.calls = 0

    def run(self, command: str, session: str = "s1") -> ContainedResult:
        """Run it contained."""
        self.calls += 1
        call = ToolCall(
            "test", SessionKey(session), "Bash", "execute", str(self.root), f"call-{self.calls}", command=command
        )
        words = ["bash", "-c", command]
        return run_contained(self.gate, self.how, replace(call, whole_workspace=True), words, Limits(200, 1 << 28))

    def state(self, place: Path | None = None) -> str:
        """All that git tells of a clone: its names, index, stash, tracking, and the working tree."""
        return shell(place or self.root, STATE, check=False)

    def run_twice(self, command: str) -> ContainedResult:
        """Run it contained in the one clone, and as it is in the other."""
        shell(self.twin, command, check=False)
        return self.run(command)

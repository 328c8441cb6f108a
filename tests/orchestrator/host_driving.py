"""Hosts of one fleet: processes with homes of their own, clones of one bare repository, and one database."""

import os
import subprocess
from collections.abc import Sequence
from pathlib import Path

from orchestrator.fleet_driving import PACE, REMIT, Fleet, git

SETTINGS = """
[orchestrator]
remote = "origin"
{more}
[share]
log = "ref"
"""


class Host(Fleet):
    """A host: its home, and its clone."""

    def __init__(self, home: Path, root: Path, database: str | None, **variables: str) -> None:
        super().__init__(home, root, database)
        home.mkdir(exist_ok=True, parents=True)
        (home / ".gitconfig").write_text(
            "[user]\n\tname = host\n\temail = host@example.org\n[init]\n\tdefaultBranch = main\n"
        )
        self.variables = {**os.environ, "HOME": str(home), **variables}

    def start_worker(self, slots: int = 2, seconds: float = 0.5, *more: str) -> subprocess.Popen[bytes]:
        words = ["worker", f"--slots={slots}", f"--pace={PACE}", *self.database, self.agent_option(seconds, *more)]
        with (self.home / f"worker-{len(self.workers)}.log").open("wb") as log:
            worker = subprocess.Popen(
                [*REMIT, *words], cwd=self.root, env=self.variables, stdin=subprocess.DEVNULL, stdout=log, stderr=log
            )
        self.workers.append(worker)
        return worker

    @property
    def key(self) -> str:
        """The public key that signs this host's log."""
        return self.remit("ledger", "key").split()[-1]


def make_hosts(
    folder: Path, count: int, database: str, *, more: str = "", hosts: int = 2
) -> tuple[list[Host], list[str]]:
    """Return hosts with clones of one bare repository that has so many intents, and the intents' ids."""
    first = Host(folder / "home-0", folder / "clone-0", database)
    ids = first.govern(count)
    settings = first.root / ".orchestration" / "remit.toml"
    settings.write_text(settings.read_text() + SETTINGS.format(more=more))
    git(first.root, "add", "-A")
    git(first.root, "commit", "-qm", "settings")
    git(folder, "init", "-q", "--bare", "far.git")
    git(first.root, "remote", "add", "origin", str(folder / "far.git"))
    git(first.root, "push", "-q", "origin", "main")
    git(folder / "far.git", "symbolic-ref", "HEAD", "refs/heads/main")
    made = [first]
    for number in range(1, hosts):
        root = folder / f"clone-{number}"
        git(folder, "clone", "-q", str(folder / "far.git"), str(root))
        made.append(Host(folder / f"home-{number}", root, database))
        made[-1].remit("init", "--yes", "--no-agents")
    return made, ids


def stop_all(hosts: Sequence[Host]) -> None:
    for host in hosts:
        host.stop()

"""Hosts of one fleet: processes with homes of their own, clones of one bare repository, and one database."""

import os
import subprocess
from collections.abc import Sequence
from pathlib import Path

from fleet.fleet_driving import PACE, Fleet, git
from forked_commands import start_process

SETTINGS = """
[orchestrator]
remote = "origin"
{more}
[share]
log = "ref"
"""


FAR = """\
#!/bin/sh
# In the place of ssh: runs the command here, slowly, and not before the file beside this one is gone.
while [ -e "$0.hangs" ]; do sleep 0.05; done
shift
sleep "${FAR_SLOW:-0}"
sh -c "$*"
code=$?
sleep "${FAR_SLOW:-0}"
exit $code
"""


def write_far_host(folder: Path, *homes: Path) -> Path:
    """Return a program in the place of ssh, which the settings of git in these homes name."""
    program = folder / "ssh.sh"
    program.write_text(FAR)
    program.chmod(0o755)
    for home in homes:
        with (home / ".gitconfig").open("a") as settings:
            settings.write(f"[core]\n\tsshCommand = {program}\n[ssh]\n\tvariant = simple\n")
    return program


class Host(Fleet):
    """A host: its home, and its clone."""

    def __init__(self, home: Path, root: Path, database: str | None, pace: str = PACE, **variables: str) -> None:
        super().__init__(home, root, database, pace)
        home.mkdir(exist_ok=True, parents=True)
        (home / ".gitconfig").write_text(
            "[user]\n\tname = host\n\temail = host@example.org\n[init]\n\tdefaultBranch = main\n"
        )
        self.variables = {**os.environ, "HOME": str(home), **variables}

    def start_worker(self, slots: int = 2, seconds: float = 0.5, *more: str) -> subprocess.Popen[bytes]:
        words = ["worker", f"--slots={slots}", f"--pace={self.pace}", *self.database, self.agent_option(seconds, *more)]
        with (self.home / f"worker-{len(self.workers)}.log").open("wb") as log:
            worker = start_process(words, self.root, self.variables, stdout=log, stderr=log)
        self.workers.append(worker)
        return worker

    @property
    def key(self) -> str:
        """The public key that signs this host's log."""
        return self.remit("ledger", "key").split()[-1]


def make_hosts(
    folder: Path, count: int, database: str, *, more: str = "", hosts: int = 2, pace: str = PACE
) -> tuple[list[Host], list[str]]:
    """Return hosts with clones of one bare repository that has so many intents, and the intents' ids."""
    first = Host(folder / "home-0", folder / "clone-0", database, pace)
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
        made.append(Host(folder / f"home-{number}", root, database, pace))
        made[-1].remit("init", "--yes", "--no-agents")
    return made, ids


def stop_all(hosts: Sequence[Host]) -> None:
    for host in hosts:
        host.stop()

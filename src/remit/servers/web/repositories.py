"""The repositories of the console: every repository governed for the user, each with a short name."""

import json
import subprocess
import sys
from collections.abc import Callable, Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Concatenate, ParamSpec, TypeVar

from msgspec import Struct, field

from remit.gate.gate import Gate
from remit.gate.machine import Environment
from remit.ledger.index.index import Index
from remit.servers.web.guard import Refused
from remit.servers.web.workers import WorkerPool
from remit.workspace.place.workspace import list_governed_roots, locate_workspace

P = ParamSpec("P")
T = TypeVar("T")
COMMAND_TIMEOUT_S = 60.0


class GovernedRepository(Struct, frozen=True):
    """A governed repository; `name` is its folder's name, made unique by a number."""

    name: str
    root: str


class Repositories(Struct, frozen=True):
    """Governed repositories of a user. Gates and indexes are opened anew for each question, in the question's
    thread.
    """

    environment: Callable[[], Environment]
    workers: WorkerPool = field(default_factory=WorkerPool)

    def list_all(self) -> list[GovernedRepository]:
        found: list[GovernedRepository] = []
        for root in list_governed_roots(self.environment().home):
            name = Path(root).name or "root"
            twins = sum(each.name == name or each.name.startswith(f"{name}~") for each in found)
            found.append(GovernedRepository(f"{name}~{twins + 1}" if twins else name, root))
        return found

    def find(self, name: str) -> GovernedRepository:
        """Return the repository of that name. Raises Refused."""
        found = next((each for each in self.list_all() if each.name == name), None)
        if found is None:
            raise Refused(404, f"no repository {name!r} is governed", "govern one with `remit init`")
        return found

    @contextmanager
    def open_gate(self, repository: GovernedRepository) -> Generator[Gate]:
        gate = Gate(locate_workspace(Path(repository.root)), self.environment())
        try:
            yield gate
        finally:
            gate.close()

    @contextmanager
    def open_index(self, repository: GovernedRepository) -> Generator[Index]:
        with self.open_gate(repository) as gate, gate.index() as index:
            yield index

    def run_job(
        self,
        repository: GovernedRepository,
        function: Callable[Concatenate[Gate, P], T],
        *arguments: P.args,
        **named: P.kwargs,
    ) -> T:
        """Call a function with the repository's gate in a worker process. Raises Refused."""
        return self.workers.call_function(repository.root, function, *arguments, **named)

    def run_command(self, repository: GovernedRepository, *words: str) -> dict[str, Any]:
        """Return the JSON answer of a command, run in a process of its own with low priority.

        Long work (blame, why, stats, verify) must not run in the process that answers hooks: Python runs one
        thread at a time. Raises Refused with the command's own words and next step.
        """
        command = [sys.executable, "-I", "-c", RUN_NICED, *words, "--repo", repository.root, "--json"]
        try:
            done = subprocess.run(command, capture_output=True, check=False, timeout=COMMAND_TIMEOUT_S)
            answer: dict[str, Any] = json.loads(done.stdout)
        except subprocess.TimeoutExpired:
            raise Refused(504, f"`remit {words[0]}` took more than a minute", "ask it in a terminal") from None
        except ValueError:
            raise Refused(500, f"`remit {words[0]}` gave no answer", "run `remit doctor`") from None
        if "error" in answer:
            error: dict[str, Any] = answer["error"]
            raise Refused(404, str(error.get("message")), str(error.get("fix") or ""))
        data: dict[str, Any] = answer["data"]
        return data


RUN_NICED = "import os; os.nice(5); from remit.cli import main; main()"

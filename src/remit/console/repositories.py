"""The repositories of the console: every repository governed for the user, each with a short name."""

import asyncio
import sys
from asyncio.subprocess import DEVNULL, PIPE
from collections.abc import AsyncIterator, Callable, Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Concatenate, ParamSpec, TypeVar

from msgspec import Struct, field
from msgspec.structs import replace

from remit.console.chat_processes import ChatProcesses
from remit.console.guard import Refused
from remit.console.highlight import Highlighter
from remit.console.workers import HeavyReads, WorkerPool
from remit.core.record import Person
from remit.core.untrusted_input import escape_surrogates
from remit.gate.gate import Gate
from remit.gate.intents.owned_files import list_present_files
from remit.gate.machine import Environment
from remit.ledger.index.index import Index
from remit.ledger.log_files import list_readable_places
from remit.ledger.reader import measure_log_bytes
from remit.workspace.git.command import Git, GitError
from remit.workspace.place.workspace import list_governed_roots, locate_workspace

P = ParamSpec("P")
T = TypeVar("T")
FILES_AGE_S = 2.0
BLOCK_BYTES = 64 << 10


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
    runs: ChatProcesses = field(default_factory=ChatProcesses)
    heavy: HeavyReads = field(default_factory=HeavyReads)
    highlighter: Highlighter = field(default_factory=Highlighter)
    remote_origin: str = ""  # the console's address for other machines, where it has one
    files: dict[str, tuple[float, list[str]]] = field(default_factory=dict[str, tuple[float, list[str]]])

    def act_for(self, person: Person) -> "Repositories":
        """Return the same repositories, in whose records the person is named."""
        return replace(self, environment=lambda: replace(self.environment(), person=person))

    def list_all(self) -> list[GovernedRepository]:
        found: list[GovernedRepository] = []
        for root in list_governed_roots(self.environment().home):
            name = escape_surrogates(Path(root).name) or "root"
            twins = sum(each.name == name or each.name.startswith(f"{name}~") for each in found)
            found.append(GovernedRepository(f"{name}~{twins + 1}" if twins else name, root))
        return found

    def find(self, name: str) -> GovernedRepository:
        """Return the repository of that name. Raises Refused."""
        found = next((each for each in self.list_all() if each.name == name), None)
        if found is None:
            why = f"no repository {name!r} is governed here, or its folder is no git repository any more"
            raise Refused(404, why, "bring the folder back, or govern one with `remit init`")
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
        return self.workers.call_function(repository.root, self.environment().person, function, *arguments, **named)

    def list_files(self, repository: GovernedRepository, *, max_age_s: float = FILES_AGE_S) -> list[str]:
        """Return the files that git does not ignore, bytes outside UTF-8 as surrogates; none where git cannot tell."""
        now = self.environment().clock.elapsed()
        at, files = self.files.get(repository.root, (float("-inf"), []))
        if now - at > max_age_s:
            workspace = locate_workspace(Path(repository.root))
            try:
                files = list_present_files(workspace) if workspace is not None else []
            except GitError:
                files = []
            self.files[repository.root] = (now, files)
        return files

    def run_command(self, repository: GovernedRepository, *words: str) -> dict[str, Any]:
        """Return the JSON answer of a command, run in a worker process.

        Long work (blame, why, stats, verify) must not run in the process that answers hooks: Python runs one
        thread at a time. Raises Refused with the command's own words and next step.
        """
        before = words[: words.index("--")] if "--" in words else words
        return self.workers.run_command(*before, "--repo", repository.root, "--json", *words[len(before) :])

    async def stream_command(self, repository: GovernedRepository, *words: str) -> AsyncIterator[bytes]:
        """Yield the output of a command, run in a process of its own with low priority; it ends with the reader."""
        command = [sys.executable, "-I", "-c", RUN_NICED, *words, "--repo", repository.root]
        process = await asyncio.create_subprocess_exec(*command, stdout=PIPE, stderr=DEVNULL, stdin=DEVNULL)
        try:
            while process.stdout and (block := await process.stdout.read(BLOCK_BYTES)):
                yield block
        finally:
            if process.returncode is None:
                process.kill()
            await process.wait()

    def read_cached_answer(self, repository: GovernedRepository, *words: str) -> dict[str, Any]:
        """Return the JSON answer of a command that depends on HEAD, the logs and the hour alone. Raises Refused."""
        with self.open_gate(repository) as gate:
            folder = gate.workspace.log_folder
            size = sum(measure_log_bytes(folder / place) for place in list_readable_places(folder))
            head = Git(gate.workspace.root).read_head()
        key = (repository.root, words, head, size, int(self.environment().clock.now() // 3600))
        answer: dict[str, Any] = self.heavy.ask(key, lambda: self.run_command(repository, *words)).result()
        return answer


RUN_NICED = "import os; os.nice(5); from remit.cli import main; main()"

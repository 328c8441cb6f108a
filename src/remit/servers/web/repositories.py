"""The repositories of the console: every repository governed for the user, each with a short name."""

import asyncio
import json
import subprocess
import sys
import time
from asyncio.subprocess import DEVNULL, PIPE
from collections.abc import AsyncIterator, Callable, Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from msgspec import Struct, field

from remit.core.untrusted_input import escape_surrogates
from remit.gate.gate import Gate
from remit.gate.machine import Environment
from remit.ledger.index.index import Index
from remit.ledger.log_files import list_readable_places
from remit.ledger.reader import measure_log_bytes
from remit.servers.web.guard import Refused
from remit.workspace.git.command import Git
from remit.workspace.place.workspace import list_governed_roots, locate_workspace

COMMAND_TIMEOUT_S = 60.0
UNAVAILABLE = 4  # exit code of a command that met a broken disk, database or git: contracts §8
MAX_ANSWERS = 32
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
    answers: dict[tuple[object, ...], dict[str, Any]] = field(default_factory=dict[tuple[object, ...], dict[str, Any]])
    """Answers of slow commands while HEAD and the logs are as they were, the newest last."""

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
            status = 503 if done.returncode == UNAVAILABLE else 404
            raise Refused(status, str(error.get("message")), str(error.get("fix") or "run `remit doctor`"))
        data: dict[str, Any] = answer["data"]
        return data

    async def stream_command(self, repository: GovernedRepository, *words: str) -> AsyncIterator[bytes]:
        """Yield the output of a command that runs as in `run_command`; it ends with the reader."""
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
        key = (repository.root, words, head, size, int(time.time() // 3600))
        answer = self.answers.pop(key, None) or self.run_command(repository, *words)
        self.answers[key] = answer
        for old in list(self.answers)[:-MAX_ANSWERS]:
            self.answers.pop(old, None)
        return answer


RUN_NICED = "import os; os.nice(5); from remit.cli import main; main()"

"""Worker processes of the console. Heavy work must not run in the process that answers hooks: Python runs one thread
at a time. A worker has low priority, opens the repository's gate for each job, and ends when nothing is asked. It also
runs commands: what they import, most of their time, is there the next time. An answer that takes long is worked out
once for equal questions that are open at the same time.
"""

import json
import os
import select
import subprocess
import sys
import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from importlib import import_module
from pathlib import Path
from typing import Any, Concatenate, ParamSpec, TypeVar, get_type_hints

from msgspec import Struct, convert, to_builtins
from msgspec.structs import replace

from remit.console.guard import Refused
from remit.core.clock import Clock
from remit.core.python_runtime import prepare_type
from remit.core.record import Person
from remit.gate.context import RECORDING_ERRORS
from remit.gate.gate import Gate
from remit.gate.intents.refusals import IntentRefused
from remit.servers.call_slots import give_back_limit
from remit.servers.environment import read_environment
from remit.workspace.intents_file.storage import IntentsFileChanged
from remit.workspace.system_clock import SYSTEM_CLOCK

P = ParamSpec("P")
T = TypeVar("T")
JOB_TIMEOUT_S = 900.0  # the commands of criteria run in a job: a test suite, for example
COMMAND_TIMEOUT_S = 60.0
MAX_IDLE_S, REUSED_WITHIN_S = 300.0, 285.0  # a worker that is about to leave gets no job any more
MAX_IDLE_WORKERS = 2
MAX_KEPT = 32  # answers that took long
ANSWER_END = b"\0"  # after a command's JSON, which holds none
UNAVAILABLE = 4  # exit code of a command that met a broken disk, database or git: contracts §8
RUN_WORKER = (
    "import os; os.nice(5); from remit.cli import main; from remit.console.workers import serve_jobs; serve_jobs(main)"
)


class Job(Struct, frozen=True, tag=True):
    """A function of the console, by module and name, with JSON arguments, the repository's root and who asks."""

    module: str
    name: str
    root: str
    arguments: list[Any]
    named: dict[str, Any]
    person: Person | None = None


class CommandLine(Struct, frozen=True, tag=True):
    """A command of Remit that answers with one JSON document."""

    words: list[str]

    @property
    def name(self) -> str:
        return f"remit {self.words[0]}"


class JobError(Struct, frozen=True):
    """A refusal or failure of a job."""

    status: int
    message: str
    fix: str = ""


class JobAnswer(Struct, frozen=True):
    """The result of a job as JSON, or its error."""

    data: Any = None
    error: JobError | None = None


def encode_line(value: object) -> bytes:
    """Return a value as a line of JSON. Bytes of names that are no text pass as escapes, which msgspec cannot write."""
    return json.dumps(to_builtins(value)).encode() + b"\n"


def start_worker() -> "subprocess.Popen[bytes]":
    command = [sys.executable, "-I", "-c", RUN_WORKER]
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    give_back_limit(process.pid)
    return process


class JobProcess:
    """One worker process."""

    def __init__(self, process: "subprocess.Popen[bytes]", clock: Clock) -> None:
        self.process = process
        self.clock = clock
        self.used_at = clock.elapsed()

    @property
    def is_reusable(self) -> bool:
        return self.process.poll() is None and self.clock.elapsed() - self.used_at < REUSED_WITHIN_S

    def ask(self, job: Job | CommandLine) -> bytes:
        """Return the answer's line; empty if the worker ended without. Raises OSError, TimeoutExpired."""
        timeout_s = JOB_TIMEOUT_S if isinstance(job, Job) else COMMAND_TIMEOUT_S
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.write(encode_line(job))
        self.process.stdin.flush()
        answers = select.poll()  # `select` takes no descriptor above 1023
        answers.register(self.process.stdout, select.POLLIN)
        if not answers.poll(timeout_s * 1000):
            raise subprocess.TimeoutExpired(job.name, timeout_s)
        line: bytes = self.process.stdout.readline()
        self.used_at = self.clock.elapsed()
        return line

    def end(self) -> None:
        for pipe in (self.process.stdin, self.process.stdout):
            if pipe is not None:
                pipe.close()
        self.process.kill()
        self.process.wait()


class WorkerPool:
    """Workers that wait for a job. Each job has a worker of its own."""

    def __init__(self, clock: Clock = SYSTEM_CLOCK) -> None:
        self.clock = clock
        self.start = start_worker
        self.idle: list[JobProcess] = []
        self.is_closed = False
        self.lock = threading.Lock()

    def call_function(
        self,
        root: str,
        person: Person | None,
        function: Callable[Concatenate[Gate, P], T],
        *arguments: P.args,
        **named: P.kwargs,
    ) -> T:
        """Call a function of the console with the repository's gate in a worker. Arguments are JSON; the result is
        decoded by the function's return type. Raises Refused.
        """
        hints: dict[str, Any] = get_type_hints(function)
        data = self.perform(Job(function.__module__, function.__name__, root, list(arguments), dict(named), person))
        return convert(data, prepare_type(hints["return"]))

    def run_command(self, *words: str) -> dict[str, Any]:
        """Return the JSON answer of a command. Raises Refused with the command's own words and next step."""
        data: dict[str, Any] = self.perform(CommandLine(list(words)))
        return data

    def perform(self, job: Job | CommandLine) -> Any:
        """Return a job's result. Raises Refused."""
        worker = self.take()
        try:
            line = worker.ask(job)
        except OSError:
            line = b""
        except subprocess.TimeoutExpired as expired:
            worker.end()
            raise Refused(504, f"`{job.name}` took more than {expired.timeout:.0f} s", "ask it in a terminal") from None
        if not line:
            worker.end()
            raise Refused(504, f"`{job.name}` gave no answer", "load the page again; see `remit doctor`")
        self.give_back(worker)
        answer = convert(json.loads(line), prepare_type(JobAnswer))
        if answer.error is not None:
            raise Refused(answer.error.status, answer.error.message, answer.error.fix)
        return answer.data

    def take(self) -> JobProcess:
        with self.lock:
            waiting, self.idle = self.idle, []
            usable = [worker for worker in waiting if worker.is_reusable]
            for worker in waiting:
                if worker not in usable:
                    worker.end()
            self.idle = usable[1:]
        return usable[0] if usable else JobProcess(self.start(), self.clock)

    def give_back(self, worker: JobProcess) -> None:
        with self.lock:
            if len(self.idle) < MAX_IDLE_WORKERS and not self.is_closed:
                self.idle.append(worker)
                return
        worker.end()

    def close(self) -> None:
        """End the idle workers; one with a job ends after it."""
        with self.lock:
            self.is_closed = True
            waiting, self.idle = self.idle, []
        for worker in waiting:
            worker.end()


class HeavyReads:
    """Answers by question. The work runs in other processes; two threads wait for them. Thread-safe."""

    def __init__(self, clock: Clock = SYSTEM_CLOCK) -> None:
        self.clock = clock
        self.pool = ThreadPoolExecutor(2, thread_name_prefix="console-heavy")
        self.lock = threading.Lock()
        self.answers: OrderedDict[Hashable, tuple[float, Future[Any]]] = OrderedDict()

    def ask(self, question: Hashable, answer: Callable[[], Any], *, max_age_s: float = float("inf")) -> Future[Any]:
        """Return the answer to come, or one that is not older than `max_age_s` since it came. Failures are not kept."""
        with self.lock:
            known = self.answers.get(question)
            if known is not None and (not known[1].done() or self.clock.elapsed() - known[0] <= max_age_s):
                self.answers.move_to_end(question)
                return known[1]
            future = self.pool.submit(answer)
            self.answers[question] = (float("inf"), future)
            while len(self.answers) > MAX_KEPT:
                self.answers.popitem(last=False)
        future.add_done_callback(lambda done: self.settle(question, done))
        return future

    def settle(self, question: Hashable, done: Future[Any]) -> None:
        with self.lock:
            if self.answers.get(question, (0, None))[1] is done:
                if done.cancelled() or done.exception() is not None:
                    del self.answers[question]
                else:
                    self.answers[question] = (self.clock.elapsed(), done)


# In the worker


def serve_jobs(run_words: Callable[[], None]) -> None:
    answers = os.dup(1)
    os.dup2(2, 1)  # what a library prints is no answer
    pending = b""
    while True:
        while b"\n" not in pending:
            if not select.select([0], [], [], MAX_IDLE_S)[0]:
                return
            block = os.read(0, 1 << 20)
            if not block:
                return
            pending += block
        line, _, pending = pending.partition(b"\n")
        job = convert(json.loads(line), prepare_type(Job | CommandLine))
        answer = perform_job(job) if isinstance(job, Job) else run_command(job.words, run_words)
        with open(answers, "wb", closefd=False) as out:
            out.write(encode_line(answer))


def run_command(words: Sequence[str], run_words: Callable[[], None]) -> JobAnswer:
    code: object = 0
    sys.argv = ["remit", *words]
    source, target = os.pipe()  # a file would need room on the disk
    errors, nothing = os.dup(2), os.open(os.devnull, os.O_WRONLY)
    os.dup2(target, 1)
    os.dup2(nothing, 2)  # the answer says what is wrong, and warnings are for terminals
    os.close(nothing)
    written = bytearray()

    def read_answer() -> None:
        # Up to a mark: processes that the command leaves behind hold the pipe open.
        while not written.endswith(ANSWER_END):
            written.extend(os.read(source, 1 << 16))

    reader = threading.Thread(target=read_answer)
    reader.start()
    try:
        run_words()
    except SystemExit as ended:
        code = ended.code
    finally:
        sys.stdout.flush()
        os.dup2(errors, 2)
        os.dup2(errors, 1)
        os.close(errors)
        os.write(target, ANSWER_END)
        reader.join()
        os.close(target)
        os.close(source)
    answer: dict[str, Any] = json.loads(written.removesuffix(ANSWER_END))
    if "error" not in answer:
        return JobAnswer(answer["data"])
    error: dict[str, Any] = answer["error"]
    status = 503 if code == UNAVAILABLE else 404
    return JobAnswer(error=JobError(status, str(error.get("message")), str(error.get("fix") or "run `remit doctor`")))


def perform_job(job: Job) -> JobAnswer:
    function = getattr(import_module(job.module), job.name)
    try:
        gate = Gate.open(Path(job.root), replace(read_environment(), person=job.person))
        try:
            return JobAnswer(function(gate, *job.arguments, **job.named))
        finally:
            gate.close()
    except Refused as refused:
        return JobAnswer(error=JobError(refused.status, str(refused), refused.fix))
    except (*RECORDING_ERRORS, LookupError) as error:
        return JobAnswer(error=JobError(503, str(error).partition("\n")[0], "run `remit doctor`"))
    except (IntentRefused, IntentsFileChanged) as error:
        return JobAnswer(error=JobError(409, str(error).partition("\n")[0]))
    except ValueError as error:  # what the person asked for cannot be done: the message names the next step
        return JobAnswer(error=JobError(400, str(error).partition("\n")[0]))

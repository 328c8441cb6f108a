"""One agent in its jail: how each is started without a terminal, and the process that ends with its worker.

With bubblewrap the agent has a process namespace of its own, which the kernel ends with the worker, however the worker
ends. Without it, the agent is a process group, and orphans are possible.
"""

import os
import select
import signal
import subprocess
import threading
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from msgspec import DecodeError, Struct, json

from remit.orchestrator.board import AttemptEnd
from remit.orchestrator.workers.feed import AgentFeed
from remit.workspace.sandbox.jail import Jail, bubblewrap_command

LOOK_INTERVAL_S = 0.1
GRACE_S = 5.0


class AgentCommand(Struct, frozen=True):
    """How an agent is started on one task. Words may hold `{prompt}`, `{intent}` and `{model}`.

    `variables` are the only ones of the worker's environment that reach this agent beside those of every program.
    """

    words: tuple[str, ...]
    variables: tuple[str, ...] = ()
    model_words: tuple[str, ...] = ()


AGENT_COMMANDS: dict[str, AgentCommand] = {
    "claude-code": AgentCommand(
        ("claude", "-p", "{prompt}", "--output-format", "stream-json", "--verbose", "--permission-mode", "acceptEdits"),
        ("ANTHROPIC_API_KEY", "ANTHROPIC_BASE_URL", "CLAUDE_CODE_OAUTH_TOKEN"),
        ("--model", "{model}"),
    ),
    "codex": AgentCommand(
        ("codex", "exec", "--json", "--skip-git-repo-check", "--sandbox", "danger-full-access", "{prompt}"),
        ("OPENAI_API_KEY", "OPENAI_BASE_URL", "CODEX_API_KEY"),
        ("--model", "{model}"),
    ),
    "gemini-cli": AgentCommand(
        ("gemini", "--yolo", "--prompt", "{prompt}"),
        ("GEMINI_API_KEY", "GOOGLE_API_KEY", "GOOGLE_GEMINI_BASE_URL"),
        ("--model", "{model}"),
    ),
    "qwen-code": AgentCommand(
        ("qwen", "--yolo", "{prompt}"), ("OPENAI_API_KEY", "OPENAI_BASE_URL"), ("--model", "{model}")
    ),
    "remit": AgentCommand(
        ("remit", "run", "--json", "--intent", "{intent}", "{prompt}"),
        (
            *("ANTHROPIC_API_KEY", "ANTHROPIC_BASE_URL", "OPENAI_API_KEY", "OPENAI_BASE_URL", "GOOGLE_API_KEY"),
            *("GEMINI_API_KEY", "OPENAI_COMPATIBLE_API_KEY", "OPENAI_COMPATIBLE_BASE_URL", "OLLAMA_BASE_URL"),
            "REMIT_MODEL",
        ),
        ("--model", "{model}"),
    ),
}
"""By the name of the agent's row, its command for one task; Remit's own agent has no row of hooks."""


class AgentRun(Struct, frozen=True):
    """Words, folder, variables and writable paths of an agent's process."""

    words: tuple[str, ...]
    folder: Path
    variables: Mapping[str, str]
    log: Path
    writable: tuple[Path, ...] = ()
    read_only: tuple[Path, ...] = ()
    hidden: tuple[Path, ...] = ()
    bubblewrap: str | None = None


class AgentEnd(Struct, frozen=True):
    """End of an agent's process: its exit code, or how it was ended."""

    code: int | None = None
    ended_as: AttemptEnd | None = None
    why: str = ""


def fill_words(command: AgentCommand, *, prompt: str, intent: str, model: str) -> tuple[str, ...]:
    """Return the words of the command. A value is one word, whatever it holds."""
    words = (*command.words, *(command.model_words if model else ()))
    values = {"{prompt}": prompt, "{intent}": intent, "{model}": model}
    # Only whole words and the id of the intent are replaced: a prompt that holds `{model}` stays as it is.
    return tuple(values[word] if word in values else word.replace("{intent}", intent) for word in words)


def open_namespace(status: int) -> int:
    """Return a descriptor of the first process in the jail, which ends last, from bubblewrap's status; -1 for none."""
    with suppress(OSError, DecodeError, KeyError), os.fdopen(os.dup(status), "rb") as lines:
        return os.pidfd_open(json.decode(lines.readline())["child-pid"])
    return -1


class AgentProcess:
    """A running agent. `cancel` may be called from any thread."""

    def __init__(self, run: AgentRun) -> None:
        self.run = run
        self.feed = AgentFeed(run.log)
        self.cancelled = threading.Event()
        self.end: AgentEnd | None = None

    def cancel(self, ended_as: AttemptEnd, why: str) -> None:
        if not self.cancelled.is_set():
            self.end = AgentEnd(None, ended_as, why)
            self.cancelled.set()

    def wait(self, report: Callable[[AgentFeed], None] | None = None) -> AgentEnd:
        """Start the agent, and wait for its end in this thread, with which a jail ends too. Raises OSError."""
        reading, writing = os.pipe()
        try:
            process = subprocess.Popen(
                self.list_words(writing),
                cwd=self.run.folder,
                env=dict(self.run.variables),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                pass_fds=(writing,),
                start_new_session=True,
            )
        finally:
            os.close(writing)
        namespace = open_namespace(reading) if self.run.bubblewrap else -1
        assert process.stdout is not None
        reader = threading.Thread(target=self.feed.read_output, args=(process.stdout,), daemon=True)
        reader.start()
        try:
            while process.poll() is None and not self.cancelled.wait(LOOK_INTERVAL_S):
                if report is not None:
                    report(self.feed)
        finally:
            with suppress(ProcessLookupError, PermissionError):
                os.killpg(process.pid, signal.SIGKILL)
            code = process.wait()
            if namespace >= 0:
                # The jail's processes die a moment after bubblewrap and could still write.
                select.select([namespace], [], [], GRACE_S)
                os.close(namespace)
            os.close(reading)  # only now: bubblewrap writes its command's exit code there
            reader.join(GRACE_S)
        if report is not None:
            report(self.feed)
        return self.end or AgentEnd(code)

    def list_words(self, status: int) -> Sequence[str]:
        run = self.run
        if run.bubblewrap is None:
            return run.words
        jail = Jail(run.folder, writable=run.writable, read_only=run.read_only, hidden=run.hidden)
        return bubblewrap_command(run.bubblewrap, jail, run.words, status)

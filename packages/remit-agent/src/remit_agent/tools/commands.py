"""The tools that run a command, contained as the gate decides, and read its output from the run's folder."""

import os
import time
from pathlib import Path
from typing import Annotated

from msgspec import Meta, Struct
from msgspec.structs import replace

from remit.gate.perform import AccessRefused, ToolOutput, WorkspaceAccess
from remit.workspace.sandbox.containment import SandboxFailed
from remit_agent.models.messages import name_output
from remit_agent.tools.reading import FilePath, locate_path
from remit_agent.tools.tool import HostTool, PreparedCall, ToolContext, ToolFailure

HEAD_BYTES = TAIL_BYTES = 10 * 1024
MAX_READ_BYTES = 40 * 1024
MAX_SEARCHED_BYTES = 64 * 1024 * 1024
MAX_MATCHES = 200
DEFAULT_TIMEOUT_S = 120.0
MAX_TIMEOUT_S = 3600.0
MAX_WAIT_S = 600.0
NEW_FILE_FLAGS = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_CLOEXEC


class ExecuteCommand(Struct, frozen=True, forbid_unknown_fields=True):
    """Run a command in a shell, without input. What it writes outside of the intent's scope is dropped, and said.
    After `timeout` seconds it goes on in the background: you may do other work, `read_command_output` waits for its
    end, `stop_command` ends it. Example: {"command": "pytest tests/test_load.py -q", "timeout": 300}
    """

    command: Annotated[str, Meta(min_length=1, max_length=100_000)]
    cwd: FilePath | None = None
    timeout: Annotated[float, Meta(gt=0, le=MAX_TIMEOUT_S)] = DEFAULT_TIMEOUT_S


class ReadCommandOutput(Struct, frozen=True, forbid_unknown_fields=True):
    """Read the output of a command from byte `offset` on, or the lines in which `search`, a text, occurs. `wait`:
    seconds to wait first for the end of a command in the background. Example:
    {"artifact_id": "cmd-12.txt", "search": "FAILED"}
    """

    artifact_id: str
    wait: Annotated[float, Meta(ge=0, le=MAX_WAIT_S)] = 0.0
    search: str | None = None
    offset: Annotated[int, Meta(ge=0)] = 0
    limit: Annotated[int, Meta(ge=1, le=MAX_READ_BYTES)] = MAX_READ_BYTES


class StopCommand(Struct, frozen=True, forbid_unknown_fields=True):
    """End a command that runs in the background. Example: {"artifact_id": "cmd-12.txt"}"""

    artifact_id: str


def prepare_command(context: ToolContext, given: ExecuteCommand) -> PreparedCall:
    call = context.new_call()
    folder = call.cwd if given.cwd is None else str(locate_path(context, given.cwd))
    artifact_id = name_output(context.part.id)

    def act(access: WorkspaceAccess) -> ToolOutput:
        path = Path(context.folder.output_path(artifact_id))
        path.parent.mkdir(parents=True, exist_ok=True)
        output = os.open(path, NEW_FILE_FLAGS, 0o600)
        began = time.monotonic()
        try:
            end = access.run_command(output, time_limit_s=MAX_TIMEOUT_S)
        except AccessRefused:
            raise
        except (OSError, SandboxFailed) as error:
            raise ToolFailure("COMMAND_FAILED_TO_START", f"the command did not start: {error}", "ask_user") from error
        finally:
            os.close(output)
        seconds = time.monotonic() - began
        state = f"Exit code {end.code}" if not end.stop_text else f"Ended: {end.stop_text} (exit code {end.code})"
        text = f"{state}, {seconds:.1f} s\n{show_output(path, artifact_id)}"
        return ToolOutput(True, text, {"artifact_id": artifact_id, "bytes": path.stat().st_size}, end.code)

    return PreparedCall(replace(call, effect="execute", command=given.command, cwd=folder, whole_workspace=True), act)


def show_output(path: Path, artifact_id: str) -> str:
    """Return the output, or the first and last bytes and the place of the rest."""
    size = path.stat().st_size
    with path.open("rb") as file:
        if size <= HEAD_BYTES + TAIL_BYTES:
            return file.read().decode("utf-8", "replace") or "(no output)"
        head = file.read(HEAD_BYTES).decode("utf-8", "replace")
        file.seek(size - TAIL_BYTES)
        tail = file.read().decode("utf-8", "replace")
    mark = f"[OUTPUT TRUNCATED - Full output saved to artifact: {artifact_id}]"
    return f"{head}\n{mark} ({size} bytes)\n{tail}"


def prepare_output(context: ToolContext, given: ReadCommandOutput) -> PreparedCall:
    def act(access: WorkspaceAccess) -> ToolOutput:
        path = Path(context.folder.output_path(given.artifact_id))
        if not path.is_file():
            raise ToolFailure("NO_SUCH_OUTPUT", f"there is no output {given.artifact_id!r}", "execute_command")
        is_running = context.talk.wait_for_command(given.artifact_id, given.wait)
        size = path.stat().st_size
        with path.open("rb") as file:
            if given.search is not None:
                return ToolOutput(
                    True, search_output(file.read(MAX_SEARCHED_BYTES).decode("utf-8", "replace"), given.search)
                )
            file.seek(given.offset)
            found = file.read(given.limit)
        head = f"Bytes {given.offset}-{given.offset + len(found)} of {size}{', it still runs' if is_running else ''}"
        return ToolOutput(True, f"{head}\n{found.decode('utf-8', 'replace')}")

    return PreparedCall(replace(context.new_call(), effect="read"), act)


def search_output(output: str, text: str) -> str:
    lines = [f"{n} | {line}" for n, line in enumerate(output.split("\n"), 1) if text.lower() in line.lower()]
    shown = "\n".join(lines[:MAX_MATCHES]).encode()[:MAX_READ_BYTES].decode("utf-8", "ignore")
    return f"{len(lines)} lines hold {text!r}\n{shown}"


def prepare_stop(context: ToolContext, given: StopCommand) -> PreparedCall:
    return PreparedCall(context.new_call(), lambda _: ToolOutput(True, context.talk.stop_command(given.artifact_id)))


COMMAND_TOOLS = (
    HostTool("execute_command", ExecuteCommand, "command", prepare_command),
    HostTool("read_command_output", ReadCommandOutput, "read", prepare_output, is_read=True),
    HostTool("stop_command", StopCommand, "command", prepare_stop),
)

"""A command that a person trusted: limited in time and output, killed with its children at the end."""

import os
import selectors
import signal
import subprocess
import tempfile
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from msgspec import Struct

READ_BYTES = 1 << 16
POLL_INTERVAL_S = 0.2  # poll interval for a silent command: the command may be gone while a child holds its pipe


class CommandResult(Struct, frozen=True):
    """Result of a command. `exit_code` is None if killed or not started; `failure` says why.

    `output` holds the first and the last bytes of the requested streams, `is_truncated` if more came.
    """

    exit_code: int | None
    output: bytes
    duration_ms: int
    failure: str = ""
    is_truncated: bool = False


def run_trusted_command(
    command: str | Sequence[str],
    *,
    folder: Path,
    variables: Mapping[str, str],
    timeout_s: float,
    stdin: bytes = b"",
    head_bytes: int = 0,
    tail_bytes: int = 0,
    with_stderr: bool = False,
) -> CommandResult:
    """Run words, or a text by /bin/sh, in `folder` with exactly these variables.

    Keeps `head_bytes` and `tail_bytes` of the output, with `with_stderr` also of the error stream. Children belong to
    the process group, which is killed at the time limit and at the end.
    """
    words = ["/bin/sh", "-c", command] if isinstance(command, str) else list(command)
    began = time.monotonic()
    with tempfile.TemporaryFile() as stdin_file:
        stdin_file.write(stdin)
        stdin_file.seek(0)
        errors = subprocess.STDOUT if with_stderr else subprocess.DEVNULL
        try:
            process = subprocess.Popen(
                words,
                cwd=folder,
                env=dict(variables),
                stdin=stdin_file,
                stdout=subprocess.PIPE,
                stderr=errors,
                start_new_session=True,
            )
        except (OSError, ValueError) as error:
            return CommandResult(None, b"", 0, f"it could not be started ({error})")
    try:
        has_ended, head, tail = read_output(process, began + timeout_s, head_bytes, tail_bytes)
    finally:
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        if process.stdout is not None:
            process.stdout.close()
    return CommandResult(
        exit_code=process.returncode if has_ended else None,
        output=head + tail[-tail_bytes:] if tail_bytes else head,
        duration_ms=int((time.monotonic() - began) * 1000),
        failure="" if has_ended else f"it was ended after {timeout_s:.3g} s",
        is_truncated=len(tail) > tail_bytes,
    )


def read_output(
    process: subprocess.Popen[bytes], until: float, head_bytes: int, tail_bytes: int
) -> tuple[bool, bytes, bytes]:
    """Read the output until the command ends; return False at the time limit, and the first and the last bytes.

    The last bytes are one more than `tail_bytes` if anything between was dropped.
    """
    head, tail = b"", b""
    pipe = process.stdout
    if pipe is None:
        raise AssertionError("the command was started with a pipe")
    os.set_blocking(pipe.fileno(), False)
    with selectors.DefaultSelector() as selector:
        selector.register(pipe, selectors.EVENT_READ)
        while (left := until - time.monotonic()) > 0:
            is_gone = process.poll() is not None
            if selector.select(0 if is_gone else min(left, POLL_INTERVAL_S)):
                try:
                    block = os.read(pipe.fileno(), READ_BYTES)
                except OSError:
                    block = b""
                if not block:
                    break  # the output is closed: only the end of the command is left
                room = head_bytes - len(head)
                head, tail = head + block[:room], (tail + block[room:])[-tail_bytes - 1 :]
            elif is_gone:
                return True, head, tail
    with suppress(subprocess.TimeoutExpired):
        process.wait(max(0.0, until - time.monotonic()))
    return process.poll() is not None, head, tail

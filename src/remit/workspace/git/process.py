"""One git, started and waited for."""

import time
from collections.abc import Sequence

from remit.workspace.git import pipes


def run_git_process(command: Sequence[str], question: bytes, limit_s: float, folder: str) -> tuple[int, bytes, bytes]:
    """Exit code, output and errors of that command in that folder. Raises OSError; TimeoutError once the time is up."""
    import subprocess  # of what a cold blame asks, all may have been started ahead: then it need not be loaded

    until = time.monotonic() + limit_s
    pipe, asked, wait_s = subprocess.PIPE, question or None, min(pipes.first_wait_s(folder), limit_s)
    with subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=pipe) as process:
        try:
            while True:
                try:
                    out, said = process.communicate(asked, wait_s)
                except subprocess.TimeoutExpired as error:
                    if time.monotonic() >= until:
                        raise TimeoutError(
                            f"`{' '.join(command)[:300]}` took longer than {limit_s:g} seconds"
                        ) from error
                    # Where no pipe is found, git is only slow: each look takes long in a large tree.
                    released_s = pipes.release_pipes(folder)
                    wait_s = released_s if released_s < pipes.PATIENCE_S else max(released_s, 2 * wait_s)
                    asked, wait_s = None, min(wait_s, max(until - time.monotonic(), 0.001))
                else:
                    return process.returncode, out, said
        except BaseException:
            process.kill()
            raise

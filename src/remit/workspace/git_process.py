"""One git, started and waited for."""

from collections.abc import Sequence


def finished(command: Sequence[str], question: bytes, limit_s: float) -> tuple[int, bytes, bytes]:
    """Exit code, output and errors of that command. Raises OSError, and TimeoutError once the time is up."""
    import subprocess  # of what a cold blame asks, all may have been started ahead: then it need not be loaded

    try:
        done = subprocess.run(command, input=question, capture_output=True, timeout=limit_s, check=False)
    except subprocess.TimeoutExpired as error:
        raise TimeoutError(str(error)) from error
    return done.returncode, done.stdout, done.stderr

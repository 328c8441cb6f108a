"""The pure-Python client: `python -I -S -E …/remit_hook/__main__.py AGENT CLASS < payload`.

It hands its standard streams to a fresh `remit hook` and is gone: bytes in, bytes out, nothing parsed. It imports
C modules only; with `-I -S` that costs a bare interpreter and no more. Where nobody can be reached, a *pre* call is
denied (exit 2): the fallback in the agent's settings then decides by the repository's mode.
"""

import sys
from posix import environ, execve

ARGUMENTS = 3
WORDS = (b"-I", b"-c", b"from remit.cli import main; main()", b"hook")


def main() -> int:
    """Become `remit hook AGENT CLASS`; returns only where that is not possible."""
    if len(sys.argv) != ARGUMENTS:
        sys.stderr.write("usage: remit_hook AGENT pre|post|note < payload\n")
        return 2
    interpreter = sys.executable.encode("utf-8", "surrogateescape")
    asked = [word.encode("utf-8", "surrogateescape") for word in sys.argv[1:]]
    try:
        execve(interpreter, [interpreter, *WORDS, *asked], environ)
    except OSError as error:
        sys.stderr.write(f"remit: {sys.executable} cannot be started: {error}\n")
    return 2 if sys.argv[2] == "pre" else 0


if __name__ == "__main__":
    sys.exit(main())
